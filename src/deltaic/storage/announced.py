"""The file `announced.json`: its values, and how they become bytes and back (docs/formats/announcement.md).

Reading checks, in this order: size, JSON, `format`, types and ranges of every field, order of versions, that
what channels and the pin name is listed. Fields that this version does not know stay when the file is written again.
"""

import json
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct

from deltaic.errors import DecodeError, LimitError
from deltaic.storage.names import check_segment

FORMAT = 1
"""The format that this version writes, and the newest that it reads."""

RECORD_NAME = "announced.json"
"""What deltaic follows."""

NUMBER_NAME = "announced.version"
"""What Hollow follows: the bare number."""

MAX_RECORD_BYTES = 4 << 20
"""The largest announcement that is read."""

MAX_VERSION = 2**63 - 2
"""Hollow keeps 2^63-1 for "latest"."""

MAIN, CANARY = "main", "canary"

Version: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_VERSION)]
_Time: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
_Channel: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
_Token: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
_Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=255)]
_Struct = TypeVar("_Struct", bound=Struct)


class Artifact(Struct, frozen=True, omit_defaults=True):
    """A file that belongs to a version."""

    kind: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_.-]{0,62}$")]
    """`snapshot`, `delta`, `reverse_delta`, `header`, and what later parts add."""
    name: _Name
    """Its key in the chain's folder."""
    size: _Count
    checksum: Annotated[str, Meta(pattern=r"^crc32c:[0-9a-f]{8}$")]
    from_version: Version | None = None
    """The version that a delta starts from."""
    to_version: Version | None = None
    codec: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,30}$")] | None = None
    """How the file is packed; None if it is not. Size and checksum are those of the packed file."""
    unpacked_size: _Count | None = None
    """What a packed file unpacks to."""

    def __post_init__(self) -> None:
        if (self.codec is None) != (self.unpacked_size is None):
            raise ValueError("`codec` and `unpacked_size` go together")

    @property
    def plain_size(self) -> int:
        """Bytes of the blob itself, packed or not."""
        return self.size if self.unpacked_size is None else self.unpacked_size


class AnnouncedVersion(Struct, frozen=True):
    """A version that was announced, and its files."""

    version: Version
    announced_ms: _Time
    epoch: _Count
    channels: Annotated[tuple[_Channel, ...], Meta(max_length=16)]
    """Where it was announced, ever."""
    artifacts: Annotated[tuple[Artifact, ...], Meta(max_length=10_000)]
    withdrawn: bool = False

    def artifact(self, name: str) -> Artifact | None:
        """What is listed of a file."""
        return next((artifact for artifact in self.artifacts if artifact.name == name), None)


class LeaseRecord(Struct, frozen=True):
    """Who may announce."""

    holder: _Name
    epoch: _Count
    expires_ms: _Time


class Record(Struct, frozen=True):
    """The whole of `announced.json`."""

    format: int
    sequence: _Count
    token: _Token
    tokens: Annotated[tuple[_Token, ...], Meta(max_length=64)]
    written_ms: _Time
    writer: _Name
    epoch: _Count
    lease: LeaseRecord | None
    channels: Annotated[dict[_Channel, Version], Meta(max_length=16)]
    pin: Version | None
    versions: Annotated[tuple[AnnouncedVersion, ...], Meta(max_length=1000)]

    def target(self, channel: str = MAIN) -> int | None:
        """Where consumers of the channel should be: the pin, else the channel's version, else that of main."""
        if self.pin is not None:
            return self.pin
        return self.channels.get(channel, self.channels.get(MAIN))

    def find(self, version: int | None) -> AnnouncedVersion | None:
        """What is listed of a version."""
        return next((entry for entry in self.versions if entry.version == version), None)

    def wrote(self, token: str) -> bool:
        """True if the write of that token is this one or one of the last before it."""
        return token == self.token or token in self.tokens


@dataclass(frozen=True, slots=True)
class DecodedRecord:
    """A record and the fields beside it that this version does not know."""

    record: Record
    unknown: dict[str, Any]


def encode_record(record: Record, unknown: dict[str, Any] | None = None) -> bytes:
    """The bytes of `announced.json`."""
    data = msgspec.json.encode({**msgspec.to_builtins(record), **(unknown or {})})
    if len(data) > MAX_RECORD_BYTES:
        raise LimitError("TooLarge", f"{len(data):,} bytes, the limit is {MAX_RECORD_BYTES:,}", RECORD_NAME)
    return data


def decode_record(data: bytes, at: str = RECORD_NAME) -> DecodedRecord:
    """Read `announced.json`."""
    values = _decode_json(data, at)
    record = _convert(values, Record, at)
    _check_versions(record, at)
    known = set(Record.__struct_fields__)
    return DecodedRecord(record, {name: value for name, value in values.items() if name not in known})


def encode_version(entry: AnnouncedVersion) -> bytes:
    """The bytes of `artifacts-<version>.json`: a version that left the list."""
    return msgspec.json.encode({"format": FORMAT, **msgspec.to_builtins(entry)})


def decode_version(data: bytes, at: str) -> AnnouncedVersion:
    """Read `artifacts-<version>.json`."""
    entry = _convert(_decode_json(data, at), AnnouncedVersion, at)
    _check_artifacts(entry, at)
    return entry


def version_name(version: int) -> str:
    """The key of a version that left the list."""
    return f"artifacts-{version}.json"


def encode_number(version: int) -> bytes:
    """The bytes of `announced.version`: decimal digits, no newline."""
    return b"%d" % version


def decode_number(data: bytes, at: str = NUMBER_NAME) -> int:
    """Read `announced.version`; white space around it is let pass, a Java tool may have written a newline."""
    text = data.strip()
    if not 0 < len(text) <= 19 or not text.isdigit() or int(text) > MAX_VERSION:
        raise DecodeError("BadNumber", f"{data[:40]!r} is no version", at)
    return int(text)


def _decode_json(data: bytes, at: str) -> dict[str, Any]:
    if len(data) > MAX_RECORD_BYTES:
        raise LimitError("TooLarge", f"{len(data):,} bytes, the limit is {MAX_RECORD_BYTES:,}", at)
    try:
        values = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise DecodeError("BadJson", f"no JSON: {error}", at) from error
    if not isinstance(values, dict) or type(values.get("format")) is not int:
        raise DecodeError("BadField", "no object with a number `format`", at)
    if not 1 <= values["format"] <= FORMAT:
        raise DecodeError(
            "UnknownFormat", f"format {values['format']}, this version reads up to {FORMAT}: update deltaic", at
        )
    return values


def _convert(values: dict[str, Any], kind: type[_Struct], at: str) -> _Struct:
    try:
        return msgspec.convert(values, kind, strict=True)
    except msgspec.ValidationError as error:
        raise DecodeError("BadField", str(error), at) from error


def _check_versions(record: Record, at: str) -> None:
    previous = MAX_VERSION + 1
    for entry in record.versions:
        if entry.version >= previous:
            raise DecodeError("VersionOrder", f"version {entry.version} is listed after {previous}", at)
        previous = entry.version
        _check_artifacts(entry, at)
    for name, version in (*record.channels.items(), ("the pin", record.pin)):
        if version is not None and record.find(version) is None:
            raise DecodeError("UnlistedVersion", f"{name} is at version {version}, which is not listed", at)


def _check_artifacts(entry: AnnouncedVersion, at: str) -> None:
    names = set()
    for artifact in entry.artifacts:
        try:
            check_segment(artifact.name)
        except ValueError as error:
            raise DecodeError("UnsafeName", str(error), at) from error
        if artifact.name in names:
            raise DecodeError("TwiceListed", f"{json.dumps(artifact.name)} is listed twice", at)
        names.add(artifact.name)

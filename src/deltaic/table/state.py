"""States: the table at one version, as references to manifests and the paths that are no more (tombstones).

`state-v<20 digits>/_manifest.avro` holds one record; the literal form `_manifest.json` holds the same as JSON. We read
both, Avro first. A state of ours carries the table's metadata, and in its configuration `deltaic.state`: the number of
the version that it belongs to. A state without that mark was written by somebody else. The one number of a state stands
for readers and writers alike; where a protocol says more (features), a state of ours carries it in `deltaic.protocol`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from deltaic.errors import DecodeError, NotFoundError
from deltaic.storage import Store
from deltaic.table.actions import (
    Metadata,
    Protocol,
    decode_object,
    metadata_members,
    protocol_members,
    read_metadata,
    read_protocol,
)
from deltaic.table.avro import encode_long, encode_text, read_container, read_values, write_container
from deltaic.table.manifest import Bounds, ManifestInfo, manifest_key
from deltaic.table.versionfile import MAX_VERSION, NAME_DIGITS

STATE_KEY: Final = "deltaic.state"
"""The configuration key that marks a state as ours."""

PROTOCOL_KEY: Final = "deltaic.protocol"
"""Where a state of ours keeps a protocol that its one number does not tell."""

MAX_STATE_BYTES: Final = 256 << 20
AVRO_NAME: Final = "_manifest.avro"
JSON_NAME: Final = "_manifest.json"

_FOLDER = re.compile(r"state-v([0-9]{20})")


class State(msgspec.Struct, frozen=True):
    """The content of a state manifest."""

    version: int
    created_ms: int
    num_files: int
    total_bytes: int
    manifests: tuple[ManifestInfo, ...]
    tombstones: tuple[str, ...] = ()
    schemas: Mapping[str, str] = msgspec.field(default_factory=dict)
    protocol_version: int = 4
    protocol: Protocol | None = None
    """The whole protocol, where the number does not tell all of it."""
    metadata: Metadata | None = None
    format_version: int = 1
    own: bool = False
    """True if the state has our mark and it is of this version."""
    form: str = "avro"

    @property
    def folder(self) -> str:
        """The folder of this state below the log."""
        return state_folder(self.version)

    def manifest_keys(self) -> tuple[str, ...]:
        """The keys of its manifests below the log."""
        return tuple(manifest_key(info.path, self.folder) for info in self.manifests)

    def carried(self) -> tuple[ManifestInfo, ...]:
        """Its manifests as a later state refers to them: bare names get the folder that they are relative to."""
        return tuple(
            info if "/" in info.path else replace(info, path=f"{self.folder}/{info.path}") for info in self.manifests
        )


def state_folder(version: int) -> str:
    """The name of a version's state folder."""
    return f"state-v{version:0{NAME_DIGITS}}"


def state_number(folder: str) -> int | None:
    """The version whose state folder has this name, or None."""
    found = _FOLDER.fullmatch(folder)
    number = int(found[1]) if found else MAX_VERSION + 1
    return number if number <= MAX_VERSION else None


def read_state(log: Store, version: int, *, forms: Sequence[str] = (AVRO_NAME, JSON_NAME)) -> State | None:
    """The state of a version, or None if there is none; in the first of these forms that is there."""
    for name in forms:
        read = _read_avro if name == AVRO_NAME else _read_json
        key = f"{state_folder(version)}/{name}"
        try:
            blob = log.get(key, limit_bytes=MAX_STATE_BYTES)
        except NotFoundError:
            continue
        return decode_state(read(blob.data, f"{log.url}/{key}"), version, f"{log.url}/{key}", name)
    return None


def decode_state(values: Mapping[str, Any], version: int, where: str, name: str = AVRO_NAME) -> State:
    """A state from the members of its record."""
    members = _Members(values, where)
    if members.integer("formatVersion", 1) != 1:
        raise DecodeError("UnknownFormat", f"formatVersion {values.get('formatVersion')} is not known", where)
    if members.integer("stateVersion", version) != version:
        raise DecodeError(
            "BadState", f"a state of version {values.get('stateVersion')} in the folder of {version}", where
        )
    text = values.get("metadata")
    metadata, protocol, own = None, None, False
    if text is not None:
        metadata = _metadata(text, where)
        own = metadata.configuration.get(STATE_KEY) == str(version)
        told = metadata.configuration.get(PROTOCOL_KEY)
        protocol = None if told is None or not own else read_protocol(decode_object(told, where), where)
        metadata = metadata.configured({STATE_KEY: None, PROTOCOL_KEY: None})
    return State(
        version=version,
        created_ms=members.integer("createdAt", 0),
        num_files=members.integer("numFiles", 0),
        total_bytes=members.integer("totalBytes", 0),
        manifests=tuple(_info(item, where) for item in members.items("manifests")),
        tombstones=tuple(members.texts("tombstones")),
        schemas=members.text_map("schemaRegistry"),
        protocol_version=members.integer("protocolVersion", 4),
        protocol=protocol,
        metadata=metadata,
        own=own,
        form="avro" if name == AVRO_NAME else "json",
    )


def encode_state(state: State, *, literal: bool, codec: str = "zstd", level: int = 3) -> tuple[str, bytes]:
    """The name and bytes of a state's file."""
    text = None
    if state.metadata is not None:
        marked = state.metadata.configured(_marks(state)) if state.own else state.metadata
        text = json.dumps({"metaData": metadata_members(marked)}, separators=(",", ":"), ensure_ascii=False)
    if literal:
        return JSON_NAME, json.dumps(_json_members(state, text), indent=2, ensure_ascii=False).encode()
    parts = [encode_long(number) for number in (1, state.version, state.created_ms, state.num_files, state.total_bytes)]
    parts.append(_list([_encode_info(info) for info in state.manifests]))
    parts.append(_list([encode_text(path) for path in state.tombstones]))
    parts.append(_list([encode_text(key) + encode_text(value) for key, value in sorted(state.schemas.items())]))
    parts.append(encode_long(state.protocol_version))
    parts.append(b"\0" if text is None else b"\2" + encode_text(text))
    return AVRO_NAME, write_container(SCHEMA, [(1, b"".join(parts))], codec=codec, level=level)


def _marks(state: State) -> dict[str, str | None]:
    number, protocol = state.protocol_version, state.protocol
    told = protocol is not None and protocol != Protocol(number, number)
    members = None if protocol is None else msgspec.json.encode(protocol_members(protocol)).decode()
    return {STATE_KEY: str(state.version), PROTOCOL_KEY: members if told else None}


def _list(items: list[bytes]) -> bytes:
    return b"".join((encode_long(len(items)), *items, b"\0")) if items else b"\0"


def _encode_info(info: ManifestInfo) -> bytes:
    bounds = info.partition_bounds
    parts = [
        encode_text(info.path),
        encode_long(info.num_entries),
        encode_long(info.min_added_at_version),
        encode_long(info.max_added_at_version),
        b"\0" if bounds is None else b"\2" + _list([encode_text(name) + _bound(b) for name, b in bounds.items()]),
        encode_long(info.tombstone_count),
        encode_long(info.live_entry_count),
    ]
    return b"".join(parts)


def _bound(bounds: Bounds) -> bytes:
    return b"".join(b"\0" if text is None else b"\2" + encode_text(text) for text in (bounds.min, bounds.max))


def _json_members(state: State, metadata: str | None) -> dict[str, Any]:
    manifests = []
    for info in state.manifests:
        item: dict[str, Any] = {
            "path": info.path,
            "numEntries": info.num_entries,
            "minAddedAtVersion": info.min_added_at_version,
            "maxAddedAtVersion": info.max_added_at_version,
        }
        if info.partition_bounds is not None:
            item["partitionBounds"] = {
                name: {side: text for side, text in (("min", bound.min), ("max", bound.max)) if text is not None}
                for name, bound in info.partition_bounds.items()
            }
        manifests.append(item)
    members: dict[str, Any] = {
        "formatVersion": 1,
        "stateVersion": state.version,
        "createdAt": state.created_ms,
        "numFiles": state.num_files,
        "totalBytes": state.total_bytes,
        "protocolVersion": state.protocol_version,
        "manifests": manifests,
    }
    if state.tombstones:
        members["tombstones"] = list(state.tombstones)
    if state.schemas:
        members["schemaRegistry"] = dict(sorted(state.schemas.items()))
    if metadata is not None:
        members["metadata"] = metadata
    return members


def _read_avro(data: bytes, where: str) -> dict[str, Any]:
    values = read_values(read_container(data, where, limit_bytes=MAX_STATE_BYTES), where, most=1)
    if len(values) != 1 or not isinstance(values[0], dict):
        raise DecodeError("BadState", "a state manifest holds exactly one record", where)
    return values[0]


def _read_json(data: bytes, where: str) -> dict[str, Any]:
    return decode_object(data, where)


def _metadata(text: Any, where: str) -> Metadata:
    if not isinstance(text, str):
        raise DecodeError("BadState", "metadata is no text", where)
    value = decode_object(text, where)
    inner = value.get("metaData", value)
    if not isinstance(inner, dict):
        raise DecodeError("BadState", "metadata is no object", where)
    return read_metadata(inner, where)


def _info(item: Any, where: str) -> ManifestInfo:
    if not isinstance(item, dict):
        raise DecodeError("BadState", "a manifest reference is no record", where)
    members = _Members(item, where)
    path = item.get("path")
    if not isinstance(path, str):
        raise DecodeError("BadState", "a manifest reference without a path", where)
    bounds = item.get("partitionBounds")
    return ManifestInfo(
        path=path,
        num_entries=members.integer("numEntries", 0),
        min_added_at_version=members.integer("minAddedAtVersion", 0),
        max_added_at_version=members.integer("maxAddedAtVersion", 0),
        partition_bounds=None if bounds is None else _bounds(bounds, where),
        tombstone_count=members.integer("tombstoneCount", 0),
        live_entry_count=members.integer("liveEntryCount", -1),
    )


def _bounds(value: Any, where: str) -> dict[str, Bounds]:
    found = {}
    for name, item in value.items() if isinstance(value, dict) else ():
        sides = [item.get(side) for side in ("min", "max")] if isinstance(item, dict) else [0]
        if not all(side is None or isinstance(side, str) for side in sides):
            raise DecodeError("BadState", f"the bounds of {ascii(name)[:60]} are no texts", where)
        found[name] = Bounds(*sides)
    return found


class _Members:
    """The members of a record that may hold anything."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values, self._where = values, where

    def integer(self, name: str, default: int) -> int:
        value = self._values.get(name)
        if value is None:
            return default
        if type(value) is not int or not -(2**63) <= value < 2**63:
            raise DecodeError("BadState", f"{name} is no number", self._where)
        return value

    def items(self, name: str) -> list[Any]:
        value = self._values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise DecodeError("BadState", f"{name} is no list", self._where)
        return value

    def texts(self, name: str) -> list[str]:
        found = self.items(name)
        if not all(isinstance(item, str) for item in found):
            raise DecodeError("BadState", f"{name} holds something else than texts", self._where)
        return found

    def text_map(self, name: str) -> dict[str, str]:
        value = self._values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise DecodeError("BadState", f"{name} is no map of texts", self._where)
        return value


def _text_or_null(name: str) -> dict[str, Any]:
    return {"name": name, "type": ["null", "string"], "default": None}


_BOUNDS_ITEM = {
    "type": "record",
    "name": "PartitionBoundsItem",
    "fields": [_text_or_null("min"), _text_or_null("max")],
}
_INFO_ITEM = {
    "type": "record",
    "name": "ManifestInfoItem",
    "fields": [
        {"name": "path", "type": "string"},
        {"name": "numEntries", "type": "long"},
        {"name": "minAddedAtVersion", "type": "long"},
        {"name": "maxAddedAtVersion", "type": "long"},
        {"name": "partitionBounds", "type": ["null", {"type": "map", "values": _BOUNDS_ITEM}], "default": None},
        {"name": "tombstoneCount", "type": "long", "default": 0},
        {"name": "liveEntryCount", "type": "long", "default": -1},
    ],
}
SCHEMA: Final = json.dumps(
    {
        "type": "record",
        "name": "StateManifest",
        "namespace": "io.indextables.state",
        "fields": [
            {"name": "formatVersion", "type": "int"},
            {"name": "stateVersion", "type": "long"},
            {"name": "createdAt", "type": "long"},
            {"name": "numFiles", "type": "long"},
            {"name": "totalBytes", "type": "long"},
            {"name": "manifests", "type": {"type": "array", "items": _INFO_ITEM}},
            {"name": "tombstones", "type": {"type": "array", "items": "string"}, "default": []},
            {"name": "schemaRegistry", "type": {"type": "map", "values": "string"}, "default": {}},
            {"name": "protocolVersion", "type": "int", "default": 4},
            _text_or_null("metadata"),
        ],
    },
    separators=(",", ":"),
)
"""The Avro schema of a state manifest."""

"""Checkpoints of the older protocols (JSON, in one file or in parts), and `_last_checkpoint`, the hint.

A JSON checkpoint holds every action that is still true: protocol, metaData, and an add for each live file. In parts,
the file of the checkpoint's own name is a small plain object that names them, written after them. The hint may be
stale, missing or ahead: it says where to look first, never what is true.
"""

import json
import re
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from deltaic.errors import CommitConflictError, DecodeError, InputError, NotFoundError
from deltaic.storage import Store
from deltaic.storage.names import safe_join
from deltaic.table.actions import Action, AddFile, Metadata, Protocol, decode_object, read_actions, write_actions
from deltaic.table.versionfile import MAX_VERSION, MAX_VERSION_BYTES, NAME_DIGITS, pack_text, unpack_text

HINT_NAME: Final = "_last_checkpoint"
AVRO_FORMAT: Final = "avro-state"
JSON_FORMAT: Final = "json"
PARTS_FORMAT: Final = "json-multipart"

_MAX_HINT_BYTES: Final = 1 << 20
_MAX_PARTS: Final = 100_000
_SMALL_BYTES: Final = 10 << 10
_NAME = re.compile(r"([0-9]{20})\.checkpoint\.json")
_PART = re.compile(r"([0-9]{20})\.checkpoint\.[^.]+\.[0-9]+\.json")


class Hint(msgspec.Struct, frozen=True):
    """What `_last_checkpoint` says."""

    version: int
    num_files: int
    size_in_bytes: int
    created_ms: int
    format: str = AVRO_FORMAT
    state_dir: str | None = None
    parts: int | None = None
    checkpoint_id: str | None = None


class JsonCheckpoint(msgspec.Struct, frozen=True):
    """The actions that a JSON checkpoint holds."""

    version: int
    protocol: Protocol | None
    metadata: Metadata | None
    adds: tuple[AddFile, ...]


def checkpoint_name(version: int) -> str:
    """The name of a JSON checkpoint."""
    return f"{version:0{NAME_DIGITS}}.checkpoint.json"


def checkpoint_number(name: str) -> int | None:
    """The version whose JSON checkpoint has this name, or None."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found and int(found[1]) <= MAX_VERSION else None


def part_number(name: str) -> int | None:
    """The version whose checkpoint has a part of this name, or None."""
    found = _PART.fullmatch(name)
    return int(found[1]) if found and int(found[1]) <= MAX_VERSION else None


def read_hint(log: Store) -> Hint | None:
    """The hint, or None if it is missing or cannot be read: both mean that the folder must be listed."""
    try:
        return decode_hint(log.get(HINT_NAME, limit_bytes=_MAX_HINT_BYTES).data, f"{log.url}/{HINT_NAME}")
    except (NotFoundError, DecodeError):
        return None


def decode_hint(data: bytes, where: str) -> Hint:
    """The members of a hint."""
    values = decode_object(data, where)

    def number(name: str) -> int:
        value = values.get(name)
        return value if type(value) is int and 0 <= value <= MAX_VERSION else 0

    version = values.get("version")
    if type(version) is not int or not 0 <= version <= MAX_VERSION:
        raise DecodeError("BadHint", "a hint without a version", where)
    texts = {name: values.get(name) for name in ("format", "stateDir", "checkpointId")}
    if not all(text is None or isinstance(text, str) for text in texts.values()):
        raise DecodeError("BadHint", "a hint whose texts are none", where)
    return Hint(
        version=version,
        num_files=number("numFiles"),
        size_in_bytes=number("sizeInBytes"),
        created_ms=number("createdTime"),
        format=texts["format"] or (AVRO_FORMAT if texts["stateDir"] else JSON_FORMAT),
        state_dir=texts["stateDir"],
        parts=values.get("parts") if type(values.get("parts")) is int else None,
        checkpoint_id=texts["checkpointId"],
    )


def write_hint(log: Store, hint: Hint) -> bool:
    """Write the hint unless it is already at a later version; False if it was.

    Conditional, so that two writers cannot put it back between them. A lost race is left to its winner.
    """
    data = json.dumps(
        {
            "version": hint.version,
            "size": hint.num_files,
            "sizeInBytes": hint.size_in_bytes,
            "numFiles": hint.num_files,
            "createdTime": hint.created_ms,
            "parts": hint.parts,
            "checkpointId": hint.checkpoint_id,
            "format": hint.format,
            "stateDir": hint.state_dir,
        },
        separators=(",", ":"),
    ).encode()
    for _ in range(5):
        try:
            try:
                blob = log.get(HINT_NAME, limit_bytes=_MAX_HINT_BYTES)
            except NotFoundError:
                log.put_if_absent(HINT_NAME, data)
                return True
            try:
                old = decode_hint(blob.data, HINT_NAME)
            except DecodeError:
                old = None
            if old is not None and old.version > hint.version and _leads_somewhere(log, old):
                return False
            if blob.data != data:
                log.put_if_match(HINT_NAME, data, blob.etag)
            return True
        except CommitConflictError:
            continue
    return False


def _leads_somewhere(log: Store, hint: Hint) -> bool:
    """Whether what a hint names exists; one that runs ahead of the log is wrong and may be put back."""
    folder = hint.state_dir if hint.format == AVRO_FORMAT and hint.state_dir else None
    prefix = f"{folder}/" if folder else checkpoint_name(hint.version)
    try:
        return any(True for _ in log.list(prefix))
    except InputError:
        return False


def read_checkpoint(log: Store, version: int) -> JsonCheckpoint | None:
    """The JSON checkpoint of a version, whole, or None if there is none."""
    name = checkpoint_name(version)
    try:
        data = log.get(name, limit_bytes=MAX_VERSION_BYTES).data
    except NotFoundError:
        return None
    where = f"{log.url}/{name}"
    parts = _parts_named(data, version, where)
    if parts is None:
        return _collected(version, read_actions(unpack_text(data, where), where))
    actions: list[Action] = []
    for part in parts:
        try:
            text = log.get(safe_join("", part), limit_bytes=MAX_VERSION_BYTES).data
        except NotFoundError as error:
            raise DecodeError("MissingPart", f"the checkpoint names {part}, which is not there", where) from error
        actions += read_actions(unpack_text(text, f"{log.url}/{part}"), f"{log.url}/{part}")
    return _collected(version, actions)


def _parts_named(data: bytes, version: int, where: str) -> list[str] | None:
    """The names of the parts, if the file is the small object that names them."""
    if len(data) >= _SMALL_BYTES * 1000 or b'"checkpointId"' not in data or data[:1] not in b"{ \n\t\r":
        return None
    try:
        values = decode_object(data, where)
    except DecodeError:
        return None  # several lines: actions
    parts = values.get("parts")
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        return None
    if values.get("version") not in (None, version) or len(parts) > _MAX_PARTS:
        raise DecodeError("BadCheckpoint", "the parts are of another version, or too many", where)
    return parts


def _collected(version: int, actions: Iterable[Action]) -> JsonCheckpoint:
    protocol: Protocol | None = None
    metadata: Metadata | None = None
    adds: dict[str, AddFile] = {}
    for action in actions:
        if isinstance(action, Protocol):
            protocol = action
        elif isinstance(action, Metadata):
            metadata = action
        elif isinstance(action, AddFile):
            adds[action.path] = action
    return JsonCheckpoint(version, protocol, metadata, tuple(adds.values()))


def write_checkpoint(
    log: Store, checkpoint: JsonCheckpoint, *, actions_per_part: int, compressed: bool, created_ms: int
) -> Hint:
    """Write a JSON checkpoint, in parts if it is long; an existing one of that version is left as it is."""
    head = [action for action in (checkpoint.protocol, checkpoint.metadata) if action is not None]
    actions: list[Action] = [*head, *checkpoint.adds]
    size = sum(add.size_bytes for add in checkpoint.adds)
    name = checkpoint_name(checkpoint.version)
    hint: dict[str, Any] = {"format": JSON_FORMAT}
    if len(actions) <= actions_per_part:
        data = pack_text(write_actions(actions), compressed=compressed)
    else:
        identity = secrets.token_hex(6)
        names = _write_parts(log, checkpoint.version, identity, actions, actions_per_part, compressed=compressed)
        manifest = {
            "version": checkpoint.version,
            "checkpointId": identity,
            "parts": names,
            "createdTime": created_ms,
            "format": PARTS_FORMAT,
        }
        data = json.dumps(manifest, separators=(",", ":")).encode()
        hint = {"format": PARTS_FORMAT, "parts": len(names), "checkpoint_id": identity}
    try:
        log.put_if_absent(name, data)
    except CommitConflictError:
        hint = {"format": JSON_FORMAT}
    return Hint(checkpoint.version, len(checkpoint.adds), size, created_ms, **hint)


def _write_parts(
    log: Store, version: int, identity: str, actions: Sequence[Action], per_part: int, *, compressed: bool
) -> list[str]:
    names = []
    for number, first in enumerate(range(0, len(actions), per_part), 1):
        name = f"{version:0{NAME_DIGITS}}.checkpoint.{identity}.{number:05}.json"
        log.put(name, pack_text(write_actions(actions[first : first + per_part]), compressed=compressed))
        names.append(name)
    return names

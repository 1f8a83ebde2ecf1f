"""Replays a recorded history of write calls, and compares the blobs with those that Java made of it.

A case is a folder of `fixtures/hollow`: `ops.jsonl` holds the calls and the ordinal that each `add` gave, the other
files are what came out.
"""

import gzip
import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltaic.binary.cursor import Cursor
from deltaic.errors import DeltaicError, InputError
from deltaic.schema.text import parse_schemas
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.append_write import SchemaAppend
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.state.write_blobs import BlobPart
from deltaic.wire.header import read_header, read_part_header
from deltaic.wire.write_header import Envelope

_FORMS = {
    "plain": Envelope(),
    "old-header": Envelope(schemas=False),
    "old-types": Envelope(shard_counts=False),
    "old-both": Envelope(schemas=False, shard_counts=False),
    "extra-bytes": Envelope(header_extra=b"\x00\x09\x08\xff\x07", section_extra=b"\x01\x02\x03"),
}


@dataclass(frozen=True, slots=True)
class WrittenVersion:
    """The blobs of one version by file name, as this library writes them."""

    version: int
    blobs: Mapping[str, bytes]


class ReplayError(DeltaicError):
    """A replayed call gave something else than the recorded one."""


def replay_case(folder: Path, *, append: Callable[[bool], SchemaAppend] | None = None) -> Iterator[WrittenVersion]:
    """Make the recorded calls on a write state; gives the blobs of every version when it is written.

    Args:
        folder: the case.
        append: what deltas append; told whether the write state was restored for this version.

    Raises:
        ReplayError: an `add` gave another ordinal than the recorded one.
    """
    return _Replay(folder, append).run()


def expected_blob(folder: Path, name: str) -> bytes | None:
    """A recorded file of a case, unpacked if it is stored with `.gz`; None if the case does not have it."""
    for path in (folder / name, folder / f"{name}.gz"):
        if path.is_file():
            data = path.read_bytes()
            return gzip.decompress(data) if path.suffix == ".gz" else data
    return None


def same_blob(expected: bytes, actual: bytes) -> str | None:
    """What differs first between two blobs, or None. Header tags are compared as maps: their order does not matter."""
    if expected == actual:
        return None
    if expected[:4] != actual[:4]:
        return f"format version {expected[:4].hex()} expected, {actual[:4].hex()} found"
    try:
        left, right = Cursor(expected, "expected"), Cursor(actual, "actual")
        read = read_header if expected[:4] == b"\x00\x00\x04\x06" else read_part_header
        first, second = read(left), read(right)
    except DeltaicError as error:
        return f"not readable: {error}"
    for what in ("origin_tag", "destination_tag", "part", "schemas", "sections", "extra"):
        wanted, found = getattr(first, what), getattr(second, what)
        if wanted != found:
            return f"header, {what}: {_short(wanted)} expected, {_short(found)} found"
    if dict(first.tags) != dict(second.tags):
        return f"header tags: {_short(dict(first.tags))} expected, {_short(dict(second.tags))} found"
    return _first_difference(expected[left.position :], actual[right.position :], left.position)


class _Replay:
    def __init__(self, folder: Path, append: Callable[[bool], SchemaAppend] | None) -> None:
        self._folder, self._append = folder, append
        self._restored = False
        self._state = WriteState(())
        self._parts = _part_types(folder)
        self._version = 0
        self._previous: int | None = None
        self._forms = json.loads((folder / "case.json").read_text()).get("forms", [])

    def run(self) -> Iterator[WrittenVersion]:
        lines = expected_blob(self._folder, "ops.jsonl")
        if lines is None:
            raise InputError(f"{self._folder} has no ops.jsonl")
        for number, line in enumerate(lines.decode().splitlines(), 1):
            call = json.loads(line)
            if call["op"] == "write":
                yield self._write(call)
            else:
                self._call(call, number)

    def _call(self, call: dict[str, Any], number: int) -> None:
        state = self._state
        match call["op"]:
            case "engine":
                self._state = WriteState(
                    parse_schemas(call["schemas"]),
                    pinned_shards=call["pinnedShards"],
                    partitioned=call.get("partitionedOrdinalMap", False),
                )
            case "restore":
                state.restore(self._load(call["fromVersion"]))
                self._restored = True
            case "headerTag":
                state.header_tags[call["key"]] = call["value"]
            case "removeHeaderTag":
                state.header_tags.pop(call["key"], None)
            case "targetMaxTypeShardSize":
                state.target_shard_bytes = call["bytes"]
            case "allowTypeResharding":
                state.allow_resharding = call["value"]
            case "focusHoleFillInFewestShards":
                state.focus_holes = call["value"]
            case "add":
                ordinal = self._add(call)
                if ordinal != call["ordinal"]:
                    raise ReplayError(
                        f"{self._folder.name}: line {number} of ops.jsonl: a {call['type']} got ordinal {ordinal}, "
                        f"{call['ordinal']} is recorded"
                    )
            case "addAllFromPreviousCycle":
                state.keep_all_from_previous()
            case "removeFromThisCycle":
                state.remove(call["type"], call["ordinal"])
            case "nextCycle":
                state.next_cycle()
                self._restored = False
            case unknown:
                raise InputError(f"{self._folder.name}: line {number} of ops.jsonl: unknown call {unknown!r}")

    def _add(self, call: dict[str, Any]) -> int:
        name = call["type"]
        if "fields" in call:
            record = self._state.record(name)
            schema = record.schema
            for field, value in call["fields"].items():
                if isinstance(value, dict):
                    record.set_null(field)
                else:
                    record.set(field, _value(schema, field, value))
            return self._state.add_object(name, record)
        if "entries" in call:
            return self._state.add_map(name, [(key, value) for key, value in call["entries"]])
        if "elementsWithHashes" in call:
            pairs = call["elementsWithHashes"]
            return self._state.add_set(name, [pair[0] for pair in pairs], [pair[1] for pair in pairs])
        if str(self._state.schemas[name].kind) == "LIST":
            return self._state.add_list(name, call["elements"])
        return self._state.add_set(name, call["elements"])

    def _write(self, call: dict[str, Any]) -> WrittenVersion:
        state, version = self._state, call["version"]
        if state.previous_tag != int(call["previousTag"], 16):
            raise ReplayError(f"{self._folder.name}: version {version} starts from tag {state.previous_tag:016x}")
        state.set_tag(int(call["nextTag"], 16))
        blobs: dict[str, bytes] = {}
        writers = [("snapshot", f"{version}", state.write_snapshot)]
        if self._previous is not None:
            writers.append(("delta", f"{self._previous}-{version}", state.write_delta))
            writers.append(("reversedelta", f"{version}-{self._previous}", state.write_reverse_delta))
        for kind, suffix, write in writers:
            main = io.BytesIO()
            parts = {name: BlobPart(io.BytesIO(), types) for name, types in self._parts.items()}
            if self._append is not None and kind == "delta":
                state.write_delta(main, parts=parts, append=self._append(self._restored))
            else:
                write(main, parts=parts)
            blobs[f"{kind}-{suffix}"] = main.getvalue()
            for name, part in parts.items():
                assert isinstance(part.stream, io.BytesIO)
                blobs[f"{kind}_{name}-{suffix}"] = part.stream.getvalue()
            for form in self._forms if kind != "reversedelta" else ():
                if form in _FORMS:
                    stream = io.BytesIO()
                    write(stream, envelope=_FORMS[form])
                    blobs[f"{kind}-{suffix}.{form}"] = stream.getvalue()
        self._previous = version
        return WrittenVersion(version, blobs)

    def _load(self, version: int) -> ReadState:
        snapshot = expected_blob(self._folder, f"snapshot-{version}")
        if snapshot is None:
            raise InputError(f"{self._folder.name}: there is no snapshot-{version} to restore from")
        parts = {
            name: data
            for name in self._parts
            if (data := expected_blob(self._folder, f"snapshot_{name}-{version}")) is not None
        }
        return ReadState.load(snapshot, parts=parts)


def _part_types(folder: Path) -> dict[str, frozenset[str]]:
    """Which types go to which part is not in the recorded calls; the headers of the recorded parts say it."""
    parts: dict[str, frozenset[str]] = {}
    for path in sorted(folder.glob("snapshot_*")):
        header = read_part_header(Cursor(path.read_bytes(), path.name))
        assert header.part is not None
        parts[header.part] = frozenset(schema.name for schema in header.schemas)
    return parts


def _value(schema: ObjectSchema, field: str, value: Any) -> object:
    match schema.fields[schema.position(field)].type:
        case FieldType.FLOAT:
            return struct.unpack(">f", bytes.fromhex(value))[0]
        case FieldType.DOUBLE:
            return struct.unpack(">d", bytes.fromhex(value))[0]
        case FieldType.BYTES:
            return bytes.fromhex(value)
        case _:
            return value


def _first_difference(expected: bytes, actual: bytes, start: int) -> str | None:
    for position, (wanted, found) in enumerate(zip(expected, actual, strict=False)):
        if wanted != found:
            return f"byte {start + position}: {wanted:02x} expected, {found:02x} found"
    if len(expected) != len(actual):
        return f"{start + len(expected):,} bytes expected, {start + len(actual):,} found"
    return None


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 200 else f"{shown[:200]}…"

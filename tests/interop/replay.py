"""Replays a history on our write state and lays the chain on disk as Java's program does."""

import struct
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from deltaic.schema.text import parse_schemas
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.read import ReadState
from deltaic.state.write import BlobPart, WriteState
from tests.interop.histories import Op


class Replay:
    """One history. Where an ordinal stands, "@7" may stand instead: what the `add` with "id" 7 last returned.

    Args:
        folder: where the blobs go.
        partitioned: use partitioned ordinal maps throughout.
        parts: optional parts by name, with the types each holds.
        exact: restore values as they were, where Java takes NaN for null.
    """

    def __init__(
        self,
        folder: Path,
        *,
        partitioned: bool = False,
        parts: Mapping[str, frozenset[str]] | None = None,
        exact: bool = False,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._partitioned = partitioned
        self._exact = exact
        self._parts = dict(parts or {})
        self._ordinals: dict[int, int] = {}
        self._state: WriteState | None = None
        self._written: int | None = None

    def run(self, ops: Iterable[Op]) -> None:
        """Make all calls; an `add` that returns another ordinal than the history says is an error."""
        for op in ops:
            if op["op"] == "engine":
                self._state = WriteState(
                    parse_schemas(op["schemas"]),
                    pinned_shards=op.get("pinnedShards"),
                    partitioned=self._partitioned or op.get("partitionedOrdinalMap", False),
                )
                self._written = None
            else:
                assert self._state is not None
                self._call(self._state, op)

    def _call(self, state: WriteState, op: Op) -> None:
        match op["op"]:
            case "restore":
                self._written = op["fromVersion"]
                snapshot = f"snapshot-{self._written}"
                read = ReadState.load(self._folder / snapshot, parts=self._part_files(snapshot))
                state.restore(read, exact=self._exact)
            case "headerTag":
                state.header_tags[op["key"]] = op["value"]
            case "removeHeaderTag":
                state.header_tags.pop(op["key"], None)
            case "targetMaxTypeShardSize":
                state.target_shard_bytes = op["bytes"]
            case "allowTypeResharding":
                state.allow_resharding = op["value"]
            case "focusHoleFillInFewestShards":
                state.focus_holes = op["value"]
            case "add":
                ordinal = self._add(state, op)
                assert ordinal == op.get("ordinal", ordinal), op
                if "id" in op:
                    self._ordinals[op["id"]] = ordinal
            case "addAllFromPreviousCycle":
                state.keep_all_from_previous()
            case "removeFromThisCycle":
                state.remove(op["type"], self._ordinal(op["ordinal"]))
            case "write":
                self._write(state, op)
            case "nextCycle":
                state.next_cycle()
            case unknown:
                raise AssertionError(f"no op {unknown}")

    def _ordinal(self, value: Any) -> int:
        return self._ordinals[int(value[1:])] if isinstance(value, str) else int(value)

    def _add(self, state: WriteState, op: Op) -> int:
        name = op["type"]
        if "elementsWithHashes" in op:
            pairs = op["elementsWithHashes"]
            return state.add_set(name, [self._ordinal(pair[0]) for pair in pairs], [pair[1] for pair in pairs])
        if "entries" in op:
            return state.add_map(name, [(self._ordinal(key), self._ordinal(value)) for key, value in op["entries"]])
        if "elements" in op:
            elements = [self._ordinal(element) for element in op["elements"]]
            is_set = state.schemas[name].kind == "SET"
            return state.add_set(name, elements) if is_set else state.add_list(name, elements)
        return self._add_object(state, name, op["fields"])

    def _add_object(self, state: WriteState, name: str, fields: Mapping[str, Any]) -> int:
        schema = state.schemas[name]
        assert isinstance(schema, ObjectSchema)
        record = state.record(name)
        for field in schema.fields:
            value = fields.get(field.name)
            if value is None:
                continue
            if isinstance(value, dict):
                record.set_null(field.name)
                continue
            match field.type:
                case FieldType.REFERENCE:
                    value = self._ordinal(value)
                case FieldType.FLOAT:
                    value = struct.unpack(">f", bytes.fromhex(value))[0]
                case FieldType.DOUBLE:
                    value = struct.unpack(">d", bytes.fromhex(value))[0]
                case FieldType.BYTES:
                    value = bytes.fromhex(value)
            record.set(field.name, value)
        return state.add_object(name, record)

    def _write(self, state: WriteState, op: Op) -> None:
        version, before = op["version"], self._written
        assert f"{state.previous_tag:016x}" == op["previousTag"]
        state.set_tag(int(op["nextTag"], 16))
        self._blob(f"snapshot-{version}", state.write_snapshot, state)
        if before is not None:
            self._blob(f"delta-{before}-{version}", state.write_delta, state)
            self._blob(f"reversedelta-{version}-{before}", state.write_reverse_delta, state)
        self._written = version

    def _blob(self, name: str, write: Any, state: WriteState) -> None:
        known = {part: types & set(state.schemas) for part, types in self._parts.items()}
        with ExitStack() as files:
            parts = {
                part: BlobPart(files.enter_context(open(path, "wb")), frozenset(known[part]))
                for part, path in self._part_files(name).items()
            }
            write(files.enter_context(open(self._folder / name, "wb")), parts=parts)

    def _part_files(self, blob: str) -> dict[str, Path]:
        kind, _, rest = blob.partition("-")
        return {part: self._folder / f"{kind}_{part}-{rest}" for part in self._parts}

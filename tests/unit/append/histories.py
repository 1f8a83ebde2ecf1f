"""Small chains whose model changes, written without a producer, for the tests of appended fields."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltaic.schema.text import parse_schemas
from deltaic.state.append_write import SchemaAppend
from deltaic.state.dump import dump_type
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""By type, values by field; lists, sets and maps as `{"elements": …}` or `{"entries": …}`."""


@dataclass(frozen=True)
class Version:
    """The blobs of one version."""

    snapshot: bytes
    delta: bytes | None
    reverse: bytes | None


class History:
    """A producer that restarts with every version, or goes on while the model stays."""

    def __init__(self, options: SchemaAppend | None = SchemaAppend(), **write_options: Any) -> None:  # noqa: B008
        self.options = options
        self._write_options = write_options
        self._state: WriteState | None = None
        self._text = ""
        self.versions: list[Version] = []

    def publish(self, schemas: str, rows: Rows, renamed: Mapping[str, Mapping[str, str]] | None = None) -> Version:
        state = self._state
        if state is None or schemas != self._text:
            model = parse_schemas(schemas)
            pinned = self._write_options.get("pinned_shards", {})
            known = {name: count for name, count in pinned.items() if name in model}
            state = WriteState(model, **{**self._write_options, "pinned_shards": known})
            if self.versions:
                state.restore(ReadState.load(self.versions[-1].snapshot), exact=True, renamed=renamed)
        self._state, self._text = state, schemas
        for name, records in rows.items():
            for record in records:
                add(state, name, record)
        blobs = [io.BytesIO() for _ in range(3)]
        state.write_snapshot(blobs[0])
        if self.versions:
            state.write_delta(blobs[1], append=self.options)
            state.write_reverse_delta(blobs[2])
        version = Version(*(blob.getvalue() or None for blob in blobs))  # type: ignore[arg-type]
        self.versions.append(version)
        state.next_cycle()
        return version

    def follow(self, mode: str, start: int = 0) -> ReadState:
        """A reader that loaded a version and applied every delta after it."""
        state = ReadState.load(self.versions[start].snapshot)
        for version in self.versions[start + 1 :]:
            assert version.delta is not None
            state = state.apply(version.delta, schema_append=mode)
        return state

    def fresh(self, number: int = -1) -> ReadState:
        return ReadState.load(self.versions[number].snapshot)


def add(state: WriteState, name: str, record: Mapping[str, Any]) -> int:
    if "entries" in record:
        return state.add_map(name, record["entries"])
    if "elements" in record:
        if str(state.schemas[name].kind) == "LIST":
            return state.add_list(name, record["elements"])
        return state.add_set(name, record["elements"])
    return state.add_object(name, record)


def content(state: ReadState) -> dict[str, Any]:
    """All records of a state, fields by name: the order of fields does not matter."""
    found = {}
    for name, data in state.types.items():
        dumped = dump_type(data)
        fields = dumped.get("fields")
        records = dumped["records"]
        if fields is not None:
            names = [field[0] for field in fields]
            records = [dict(sorted(zip(names, record, strict=True))) for record in records]
            fields = sorted(fields)
        key = getattr(data.schema, "primary_key", None)
        found[name] = (dumped["kind"], fields, key, dumped["populated"], records)
    return found

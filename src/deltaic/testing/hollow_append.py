"""Conformance with recorded deltas that carry an appended section.

Three things are compared: what the section holds, what a reader makes of it in each mode, and what this library writes
for the same calls. The recorded sections come from a prototype with known faults (hollow-blob.md, 23.3 and 23.5): it
garbles texts outside ASCII, sends NaN for null, repeats types that did not change, and does not define the new fields
of a type that also lost one. Where a section shows none of these, ours must be equal byte for byte; elsewhere it must
hold what the recorded one should have held.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from deltaic.binary.cursor import Cursor
from deltaic.schema.binary import read_schema
from deltaic.schema.types import FieldType
from deltaic.state.append_write import SchemaAppend
from deltaic.state.dump import dump_type
from deltaic.state.read import ReadState
from deltaic.testing.replay import expected_blob, replay_case, same_blob
from deltaic.wire.append import AppendedSection, AppendMode, FieldValues, append_flags, read_append
from deltaic.wire.header import read_header
from deltaic.wire.section import skip_section
from deltaic.wire.tag_order import java_hash_order

Json = Any
Comparison = tuple[str, Json, Json]
"""What is compared, what was recorded, what was found."""

_INTENDED = {"values": AppendMode.VALUES, "schemas": AppendMode.FULL}


def check_append(folder: Path, case: Json) -> Iterator[Comparison]:
    """Every comparison that a case with appended sections allows, beyond those of any chain."""
    for version in case["versions"]:
        if "section" in version:
            recorded = json.loads((folder / version["section"]).read_text())
            section = read_section_of(_blob(folder, version["delta"]))
            yield f"section of version {version['version']}", _plain(recorded), section_as_json(section)
    yield from _read_as_intended(folder, case)
    yield from _written(folder, case)


def _read_as_intended(folder: Path, case: Json) -> Iterator[Comparison]:
    first = case["versions"][0]
    for name, mode in _INTENDED.items():
        state = ReadState.load(_blob(folder, first["snapshot"]))
        for version in case["versions"][1:]:
            state = state.apply(_blob(folder, version["delta"]), schema_append=mode)
            if name in version.get("intended", {}):
                expected = json.loads((folder / version["intended"][name]).read_text())
                yield f"{name} of version {version['version']}", expected, _objects(state)


def _objects(state: ReadState) -> Json:
    found = {name: dump_type(data) for name, data in state.types.items()}
    return {
        name: {part: dumped[part] for part in ("fields", "populated", "records")}
        for name, dumped in found.items()
        if "fields" in dumped
    }


def _written(folder: Path, case: Json) -> Iterator[Comparison]:
    """The prototype sends new fields right after a restart, and all fields otherwise."""

    def options(restored: bool) -> SchemaAppend:
        definitions = restored and case["includeSchemaDefinitions"]
        return SchemaAppend(True, definitions, all_fields=not restored)

    states = {version["version"]: version for version in case["versions"]}
    for written in replay_case(folder, append=options):
        for name, blob in written.blobs.items():
            recorded = expected_blob(folder, name)
            if recorded is None:
                continue
            if not name.startswith("delta-"):
                yield f"{name} as written", None, same_blob(recorded, blob)
                continue
            ours, theirs = _parted(blob), _parted(recorded)
            yield f"{name} as written, up to the section", theirs[0], ours[0]
            content = [_content(folder, states, number) for number in (written.version - 1, written.version)]
            recorded_section = section_as_json(read_section_of(recorded))
            corrected = _corrected(recorded_section, *content, definitions=case["includeSchemaDefinitions"])
            yield f"{name}, section as written", corrected, section_as_json(read_section_of(blob))
            if corrected == recorded_section and theirs[1] != "00":
                yield f"{name}, bytes of the section", theirs[1], ours[1]


def read_section_of(blob: bytes) -> AppendedSection | None:
    """The appended section of a delta, with its definitions; None if it has none."""
    cursor = _behind_types(blob)
    flags = append_flags(read_header(Cursor(blob)).extra, cursor.name)
    return None if flags is None else read_append(cursor, flags, AppendMode.FULL)


def section_as_json(section: AppendedSection | None) -> Json:
    """A section as plain values: texts and numbers as State JSON has them."""
    if section is None:
        return {"schemaDiffs": [], "types": []}
    diffs = [{"type": one.name, "added": [_field(field) for field in one.fields]} for one in section.definitions]
    types = [{"type": one.name, "fields": [_values(given) for given in one.fields]} for one in section.values]
    return {"schemaDiffs": diffs, "types": types}


def _plain(recorded: Json) -> Json:
    return {"schemaDiffs": recorded.get("schemaDiffs", []), "types": recorded.get("types", [])}


def _field(field: Any) -> list[str]:
    return [field.name, field.type.value, *([field.referenced] if field.referenced is not None else [])]


def _values(given: FieldValues) -> Json:
    field = given.field
    shown: dict[str, Json] = {"name": field.name, "type": field.type.value}
    if field.referenced is not None:
        shown["ref"] = field.referenced
    shown["values"] = [list(pair) for pair in zip(given.ordinals.tolist(), _shown(given), strict=True)]
    return shown


def _shown(given: FieldValues) -> list[Json]:
    if given.raw is None:
        assert given.starts is not None and given.ends is not None and given.data is not None
        pieces = [
            np.asarray(given.data[start:end]).tobytes()
            for start, end in zip(given.starts.tolist(), given.ends.tolist(), strict=True)
        ]
        if given.field.type is FieldType.BYTES:
            return [piece.hex() for piece in pieces]
        return [piece.decode("utf-8", "surrogatepass") for piece in pieces]
    raw = given.raw.tolist()
    match given.field.type:
        case FieldType.BOOLEAN:
            return [value == 1 for value in raw]
        case FieldType.FLOAT:
            return [f"{value:08x}" for value in raw]
        case FieldType.DOUBLE:
            return [f"{value:016x}" for value in raw]
        case FieldType.REFERENCE:
            return list(raw)
        case _:
            return [value >> 1 ^ -(value & 1) for value in raw]


def _content(folder: Path, versions: Json, number: int) -> Json:
    types: Json = json.loads((folder / versions[number]["state"]).read_text())["types"]
    return {name: content for name, content in types.items() if "fields" in content}


def _corrected(section: Json, before: Json, after: Json, *, definitions: bool) -> Json:
    """What a section should have held, by the producer's own content before and after."""
    new = {name: [one for one in after[name]["fields"] if one not in before[name]["fields"]] for name in after}
    evolved = {name for name in new if new[name]}
    diffs = [{"type": name, "added": new[name]} for name in java_hash_order(name for name in new if name in evolved)]
    types = []
    for one in section["types"]:
        if evolved and one["type"] not in evolved:
            continue
        content = after[one["type"]]
        rows = dict(zip(content["populated"], content["records"], strict=True))
        places = {field[0]: place for place, field in enumerate(content["fields"])}
        fields = []
        for field in one["fields"]:
            values = [[ordinal, rows[ordinal][places[field["name"]]]] for ordinal, _ in field["values"]]
            if there := [pair for pair in values if pair[1] is not None]:
                fields.append({**field, "values": there})
        if fields:
            types.append({**one, "fields": fields})
    return {"schemaDiffs": diffs if definitions else [], "types": types}


def _parted(blob: bytes) -> tuple[str, str]:
    """The type sections of a delta, and what stands behind them, in hex."""
    cursor = Cursor(blob)
    read_header(cursor)
    start, end = cursor.position, _behind_types(blob).position
    return blob[start:end].hex(), blob[end:].hex()


def _behind_types(blob: bytes) -> Cursor:
    cursor = Cursor(blob)
    for _ in range(read_header(cursor).sections):
        skip_section(cursor, read_schema(cursor), delta=True)
    return cursor


def _blob(folder: Path, name: str) -> bytes:
    found = expected_blob(folder, name)
    assert found is not None, name
    return found

"""What indexes should find, told by a model that goes record by record and knows nothing of columns and tables."""

import random
from collections import defaultdict
from itertools import product
from typing import Any

from deltaic.errors import SchemaError
from deltaic.schema.paths import ResolvedPath, resolve_path
from deltaic.schema.types import FieldType, Kind, ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.read import ReadState
from deltaic.state.records import records_of


def paths_of(state: ReadState, type_name: str, depth: int = 4, *, collections: bool = True) -> list[str]:
    """Every path to a value from a type, up to a depth."""
    schemas = {name: data.schema for name, data in state.types.items()}
    found: list[str] = []

    def go(name: str | None, prefix: tuple[str, ...]) -> None:
        if name is None or name not in schemas or len(prefix) >= depth:
            return
        schema = schemas[name]
        steps: list[tuple[str, str | None]] = []
        match schema:
            case ObjectSchema(fields=fields):
                steps = [(field.name, field.referenced) for field in fields]
            case ListSchema(element=element) | SetSchema(element=element) if collections:
                steps = [("element", element)]
            case MapSchema(key=key, value=value) if collections:
                steps = [("key", key), ("value", value)]
        for segment, target in steps:
            path = (*prefix, segment)
            if target is None:
                found.append(".".join(path))
            elif target in schemas:
                found.append(".".join(path) + "!")
                go(target, path)

    go(type_name, ())
    kept = []
    for path in found:
        try:
            resolve_path(schemas, type_name, path, through_collections=collections)
        except SchemaError:
            continue
        kept.append(path)
    return kept


def records_by_value(
    state: ReadState, type_name: str, match: tuple[str, ...], select: str = ""
) -> dict[tuple[Any, ...], set[int]]:
    """For each combination of values the ordinals that it leads to."""
    schemas = {name: data.schema for name, data in state.types.items()}
    paths = [resolve_path(schemas, type_name, path, through_collections=True) for path in match]
    chosen = resolve_path(schemas, type_name, select, expand=False, through_collections=True)
    found: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    for root in state.types[type_name].populated:
        for row in _rows(state, type_name, root, [(path, 0) for path in (*paths, chosen)]):
            if None not in row:
                found[row[:-1]].add(row[-1])
    return dict(found)


def _rows(state: ReadState, name: str, ordinal: int, paths: list[tuple[ResolvedPath, int]]) -> list[tuple[Any, ...]]:
    """All combinations of what paths lead to from one record; paths that go the same way go together."""
    records = records_of(state)
    reader, number = records.reader, records.number(name)
    schema = state.types[name].schema
    ways: dict[str, list[int]] = defaultdict(list)
    results: list[list[dict[int, Any]]] = []
    for place, (path, depth) in enumerate(paths):
        if depth == len(path.steps):
            results.append([{place: ordinal}])
        else:
            ways[path.steps[depth].name].append(place)
    if schema.kind is Kind.OBJECT:
        for places in ways.values():
            inner = [(paths[place][0], paths[place][1] + 1) for place in places]
            step = paths[places[0]][0].steps[paths[places[0]][1]]
            if step.leads_to is None:
                value = reader.scalar(number, ordinal, step.position)
                results.append([dict.fromkeys(places, normal(value, paths[places[0]][0].field_type))])
                continue
            target = reader.pointer(number, ordinal, step.position)
            if target < 0:
                return []
            rows = _rows(state, step.leads_to, target, inner)
            results.append([dict(zip(places, row, strict=True)) for row in rows])
    elif ways:
        results.append([])
        entries = (
            reader.entries(number, ordinal)
            if schema.kind is Kind.MAP
            else [(element, -1) for element in reader.elements(number, ordinal)]
        )
        for key, value in entries:
            sides = []
            for places in ways.values():
                step = paths[places[0]][0].steps[paths[places[0]][1]]
                assert step.leads_to is not None
                inner = [(paths[place][0], paths[place][1] + 1) for place in places]
                rows = _rows(state, step.leads_to, value if step.position else key, inner)
                sides.append([dict(zip(places, row, strict=True)) for row in rows])
            results[-1] += [_merged(combination) for combination in product(*sides)]
    combined = [_merged(combination) for combination in product(*results)]
    return [tuple(row[place] for place in range(len(paths))) for row in combined]


def _merged(parts: tuple[dict[int, Any], ...]) -> dict[int, Any]:
    merged: dict[int, Any] = {}
    for part in parts:
        merged |= part
    return merged


def normal(value: Any, kind: FieldType) -> Any:
    """A value to compare: every NaN is one, 1 and True are two."""
    if value is None:
        return None
    if kind is FieldType.FLOAT:
        return ("float", 0x7FC00000 if value & 0x7FFFFFFF > 0x7F800000 else value)
    if kind is FieldType.DOUBLE:
        return ("double", 0x7FF8000000000000 if value & 2**63 - 1 > 0x7FF0000000000000 else value)
    return value


def query(value: Any) -> Any:
    """A value of the model as a caller would give it."""
    import struct

    if isinstance(value, tuple):
        kind, bits = value
        size = 4 if kind == "float" else 8
        return struct.unpack("<f" if kind == "float" else "<d", bits.to_bytes(size, "little"))[0]
    return value


def choose(random_source: random.Random, items: list[Any], most: int) -> list[Any]:
    """Some of the items."""
    return random_source.sample(items, min(most, len(items)))

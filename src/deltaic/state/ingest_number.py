"""Numbering a chunk: every type once, a type after those it refers to, its records in depth-first order."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import ingest, records
from deltaic.limits import MAX_COLLECTION_ELEMENTS
from deltaic.schema.types import ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.ingest_fold import Fold, fold_rows
from deltaic.state.ingest_order import DepthFirst
from deltaic.state.ingest_plan import Plan
from deltaic.state.ingest_rows import Fixed, Rows, Variable
from deltaic.state.write import WriteState
from deltaic.state.write_statistics import field_kinds

Bytes = NDArray[np.uint8]
Ends = NDArray[np.int64]

_MIXED_BUCKETS = 1
_NO_HASHES: NDArray[np.int32] = np.zeros(0, np.int32)


def number_chunk(state: WriteState, plan: Plan, root: Rows, folds: dict[int, Fold]) -> None:
    """Add the records of a chunk in depth-first order; every `Rows` below `root` gets its ordinals."""
    fold_rows(root, folds)
    by_place = {rows.place.number: rows for rows in root.walk()}
    for type_name, places in plan.types:
        rows = [by_place[place.number] for place in places if place.number in by_place]
        rows = [each for each in rows if each.count]
        if not rows:
            continue
        order = DepthFirst.of(rows).order(root) if len(rows) > 1 else None
        _hand_out(rows, state.writer(type_name).add_many(*_serialized(rows), order))


def number_canonical(state: WriteState, roots: Sequence[Rows]) -> None:
    """Add all records of a cycle, each type by one call, as canonical order wants it."""
    waiting: dict[str, list[Rows]] = {}
    for root in roots:
        for rows in root.walk():
            if rows.count:
                waiting.setdefault(rows.place.type_name, []).append(rows)
    for schema in state.schemas.dependency_order():
        rows_of_type = waiting.get(schema.name)
        if rows_of_type:
            _hand_out(rows_of_type, state.writer(schema.name).add_many(*_serialized(rows_of_type)))


def _serialized(rows: list[Rows]) -> tuple[Bytes, Ends]:
    schema = rows[0].place.schema
    if isinstance(schema, ObjectSchema):
        return ingest.serialize_rows(field_kinds(schema), [(each.count, _columns(each)) for each in rows])
    return _joined([_collections(each) for each in rows])


def _columns(rows: Rows) -> list[Any]:
    columns: list[Any] = []
    for column, link in zip(rows.columns, rows.links, strict=True):
        if link is not None:
            columns.append((link.ordinals(), link.valid, None, None, None))
        elif isinstance(column, Fixed):
            _check_length(rows, len(column.values))
            columns.append((column.values, column.valid, None, None, None))
        elif isinstance(column, Variable):
            _check_length(rows, len(column.starts))
            columns.append((None, column.valid, column.starts, column.ends, column.data))
        else:
            columns.append((None, None, None, None, None))
    return columns


def _check_length(rows: Rows, length: int) -> None:
    # Kernels do not check; a source that gives fewer values than it says must not reach them.
    if length != rows.count:
        raise InputError(f"column {rows.place.path!r}: {length:,} values for {rows.count:,} records", "Lengths")


def _collections(rows: Rows) -> tuple[Bytes, Ends]:
    inner = [link.ordinals() for link in rows.links if link is not None]
    match rows.place.schema:
        case ListSchema():
            return records.serialize_lists(rows.offsets, inner[0])
        case SetSchema():
            _check_sizes(rows)
            return records.serialize_sets(rows.offsets, inner[0], _NO_HASHES, _MIXED_BUCKETS)
        case MapSchema():
            _check_sizes(rows)
            return records.serialize_maps(rows.offsets, inner[0], inner[1], _NO_HASHES, _MIXED_BUCKETS)
        case _:
            raise AssertionError(rows.place.schema)


def _check_sizes(rows: Rows) -> None:
    sizes = np.diff(rows.offsets)
    largest = int(sizes.argmax())
    if sizes[largest] > MAX_COLLECTION_ELEMENTS:
        why = f"{int(sizes[largest]):,} elements, at most {MAX_COLLECTION_ELEMENTS:,} can be hashed"
        raise rows.refused(largest, rows.place.path, why, "TooLarge")


def _joined(parts: list[tuple[Bytes, Ends]]) -> tuple[Bytes, Ends]:
    if len(parts) == 1:
        return parts[0]
    bases = np.cumsum([0, *(len(data) for data, _ in parts)])
    return (
        np.concatenate([data for data, _ in parts]),
        np.concatenate([ends + base for (_, ends), base in zip(parts, bases[:-1].tolist(), strict=True)]),
    )


def _hand_out(rows: Iterable[Rows], ordinals: NDArray[np.int32]) -> None:
    start = 0
    for each in rows:
        each.ordinals = ordinals[start : start + each.count]
        start += each.count

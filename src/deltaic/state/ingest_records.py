"""Numbering record by record: for types that refer to themselves, where no type can be numbered before the others.

The rows are columns all the same; only the adding goes one record after the other, depth first. What comes out equals
what `number_chunk` gives wherever that can be used.
"""

from itertools import pairwise
from typing import Any

import numpy as np

from deltaic.errors import InputError
from deltaic.kernels import ingest
from deltaic.schema.types import ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.ingest_rows import Fixed, Rows, Variable
from deltaic.state.write import WriteState
from deltaic.state.write_records import serialize_list, serialize_map, serialize_set
from deltaic.state.write_statistics import field_kinds
from deltaic.wire.write_stream import varint

_NULL = b"\x80"


def number_records(state: WriteState, root: Rows) -> None:
    """Add the records of a chunk one by one, depth first; every `Rows` below `root` gets its ordinals."""
    if state.order == "canonical":
        raise InputError(f"type {root.place.type_name} refers to itself: it has no canonical order", "Recursive")
    adder = _Adder(state, root)
    for index in range(root.count):
        adder.add(index)


class _Adder:
    """Adds the records of one `Rows`, and through the adders of the rows below those they refer to."""

    def __init__(self, state: WriteState, rows: Rows) -> None:
        self._state, self._rows = state, rows
        self._writer = state.writer(rows.place.type_name)
        self._below = [None if link is None else _Adder(state, link.rows) for link in rows.links]
        self._offsets = rows.offsets.tolist()
        rows.ordinals = np.full(rows.count, -1, np.int32)
        if isinstance(rows.place.schema, ObjectSchema):
            kinds = field_kinds(rows.place.schema)
            self._pieces = [
                None if link is not None else _pieces(kinds[position : position + 1], rows, column)
                for position, (column, link) in enumerate(zip(rows.columns, rows.links, strict=True))
            ]
            self._children = [
                None if link is None or link.valid is None else (np.cumsum(link.valid) - 1).tolist()
                for link in rows.links
            ]

    def add(self, index: int) -> int:
        """The ordinal of one record."""
        schema = self._rows.place.schema
        match schema:
            case ObjectSchema():
                record = self._object(index)
            case ListSchema():
                record = serialize_list(schema.name, self._inner(0, index))
            case SetSchema():
                record = serialize_set(schema.name, self._inner(0, index))
            case MapSchema():
                keys, values = self._below
                assert keys is not None and values is not None
                # Key, then value, entry by entry.
                entries = [(keys.add(at), values.add(at)) for at in self._range(index)]
                record = serialize_map(schema.name, entries)
        ordinal = self._writer.add(record)
        self._rows.ordinals[index] = ordinal
        return ordinal

    def _object(self, index: int) -> bytes:
        record = b""
        for piece, below, children, link in zip(
            self._pieces, self._below, self._children, self._rows.links, strict=True
        ):
            if piece is not None:
                record += piece[index]
            elif below is None or link is None or (link.valid is not None and not link.valid[index]):
                record += _NULL
            else:
                record += varint(below.add(index if children is None else children[index]))
        return record

    def _inner(self, position: int, index: int) -> list[int]:
        below = self._below[position]
        assert below is not None
        return [below.add(at) for at in self._range(index)]

    def _range(self, index: int) -> range:
        return range(self._offsets[index], self._offsets[index + 1])


def _pieces(kind: Any, rows: Rows, column: Fixed | Variable | None) -> list[bytes]:
    """The bytes of one field in every record."""
    given: Any = (None, None, None, None, None)
    if isinstance(column, Fixed):
        given = (column.values, column.valid, None, None, None)
    elif isinstance(column, Variable):
        given = (None, column.valid, column.starts, column.ends, column.data)
    data, ends = ingest.serialize_rows(kind, [(rows.count, [given])])
    whole, bounds = data.tobytes(), [0, *ends.tolist()]
    return [whole[start:end] for start, end in pairwise(bounds)]

"""Columns: one field of many records as arrays, with nulls.

A column is read straight from the packed shards, whatever their number and widths, without Python per record. Values
under a null are what Hollow's own readers give: the smallest INT or LONG, NaN, False, -1 for a reference.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import LARGEST_INT32, ArrowArray, ArrowColumn, ArrowField, text_format
from deltaic.errors import InputError, NotFoundError
from deltaic.kernels import text
from deltaic.schema.types import FieldType, Kind, ObjectSchema
from deltaic.state.records import StateRecords
from deltaic.state.type_data import TypeData

Mask = NDArray[np.bool_]
Ordinals = NDArray[np.int64]
InvalidText = Literal["error", "replace"]

FORMATS = {
    FieldType.INT: "i",
    FieldType.LONG: "l",
    FieldType.BOOLEAN: "b",
    FieldType.FLOAT: "f",
    FieldType.DOUBLE: "g",
    FieldType.STRING: "u",
    FieldType.BYTES: "z",
    FieldType.REFERENCE: "i",
}
"""Arrow's format of the values of a field."""


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Which records a column has, and in what order: given ordinals, the populated ones, or the first `count`."""

    count: int
    ordinals: Ordinals | None = None
    words: NDArray[np.uint64] | None = None

    @classmethod
    def of(cls, data: TypeData, ordinals: Any = None) -> "Rows":
        """The rows of `ordinals`, or of all populated records."""
        if ordinals is None:
            count = len(data.populated)
            if count == data.max_ordinal + 1:
                return cls(count)
            return cls(count, words=data.populated.words)
        given = np.asarray(ordinals)
        if given.ndim != 1 or not (given.dtype.kind in "iu" or given.size == 0):
            raise InputError(
                f"type {data.schema.name}: ordinals are a list of integers, not {given.dtype} {given.shape}"
            )
        given = np.ascontiguousarray(given, np.int64)
        if given.size and (given.min() < 0 or given.max() > data.max_ordinal):
            wrong = given[(given < 0) | (given > data.max_ordinal)][0]
            raise NotFoundError(f"type {data.schema.name} has no record {wrong}")
        return cls(len(given), ordinals=given)

    def ordinal(self, row: int) -> int:
        """The ordinal of one row."""
        return int(self.all()[row])

    def all(self) -> Ordinals:
        """The ordinals of all rows."""
        if self.ordinals is not None:
            return self.ordinals
        if self.words is not None:
            return np.flatnonzero(np.unpackbits(self.words.view(np.uint8), bitorder="little")).astype(np.int64)
        return np.arange(self.count, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One field of many records."""

    type_name: str
    name: str
    type: FieldType
    rows: Rows
    valid: Mask | None
    """False where a value is null; None if no value is."""

    def __len__(self) -> int:
        return self.rows.count

    @property
    def null_count(self) -> int:
        """How many values are null."""
        return 0 if self.valid is None else len(self.valid) - int(np.count_nonzero(self.valid))

    @property
    def ordinals(self) -> Ordinals:
        """The ordinals of the records, in the order of the values."""
        return self.rows.all()

    def to_pylist(self) -> list[Any]:
        """The values as Python objects, None for null."""
        raise NotImplementedError

    def to_numpy(self) -> NDArray[Any]:
        """The values; a masked array if some are null; texts and bytes as objects."""
        values = np.empty(len(self), object)
        values[:] = self.to_pylist()
        return values

    def arrow_column(self, *, on_invalid_text: InvalidText = "error") -> ArrowColumn:
        """The values in Arrow's layout."""
        raise NotImplementedError

    def to_arrow(self, *, on_invalid_text: InvalidText = "error") -> ArrowArray:
        """The values as an Arrow array, for anything that takes Arrow.

        Args:
            on_invalid_text: what to do with lone surrogates, which Arrow cannot hold: `error` or `replace`.
        """
        return ArrowArray(self.arrow_column(on_invalid_text=on_invalid_text))

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True, eq=False)
class FixedColumn(Column):
    """Numbers, truth values, or the ordinals of references."""

    values: NDArray[Any]

    def to_numpy(self) -> NDArray[Any]:
        """The values; a masked array if some are null."""
        if self.valid is None:
            return self.values
        masked: NDArray[Any] = np.ma.MaskedArray(self.values, mask=~self.valid)
        return masked

    def to_pylist(self) -> list[Any]:
        """The values as Python objects, None for null."""
        values: list[Any] = self.values.tolist()
        if self.valid is not None:
            for row in np.flatnonzero(~self.valid).tolist():
                values[row] = None
        return values

    def arrow_column(self, *, on_invalid_text: InvalidText = "error") -> ArrowColumn:
        """The values in Arrow's layout."""
        return ArrowColumn(ArrowField(self.name, FORMATS[self.type]), len(self), self.valid, self.values)

    def filled(self, null: float | bool) -> "FixedColumn":
        """The same column with `null` in place of nulls."""
        if self.valid is None:
            return self
        try:
            value = self.values.dtype.type(null)
        except (OverflowError, ValueError, TypeError) as error:
            raise InputError(f"{null!r} is no {self.type} to stand for null in {self.name}") from error
        if value != null and null == null and self.values.dtype.kind != "f":
            raise InputError(f"{null!r} is no {self.type} to stand for null in {self.name}")
        values = self.values.copy()
        values[~self.valid] = value
        return replace(self, values=values, valid=None)


@dataclass(frozen=True, slots=True, eq=False)
class BytesColumn(Column):
    """Byte strings: value i is `data[offsets[i]:offsets[i + 1]]`."""

    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    def to_pylist(self) -> list[Any]:
        """The values as Python objects, None for null."""
        values = self._pieces(self.data.tobytes(), self.offsets.tolist())
        if self.valid is not None:
            for row in np.flatnonzero(~self.valid).tolist():
                values[row] = None
        return values

    def _pieces(self, whole: bytes, ends: list[int]) -> list[Any]:
        return [whole[start:end] for start, end in pairwise(ends)]

    def arrow_column(self, *, on_invalid_text: InvalidText = "error") -> ArrowColumn:
        """The values in Arrow's layout."""
        kind = ArrowField(self.name, text_format(self.offsets, binary=True))
        return ArrowColumn(kind, len(self), self.valid, self.data, self.offsets)


@dataclass(frozen=True, slots=True, eq=False)
class TextColumn(BytesColumn):
    """Texts in UTF-8; a lone surrogate, legal in Java, stands there as its three bytes (WTF-8)."""

    lone_surrogates: int
    """How many texts hold a lone surrogate: they are no Unicode text, and Arrow does not take them."""

    def _pieces(self, whole: bytes, ends: list[int]) -> list[Any]:
        if whole.isascii():
            letters = whole.decode("ascii")
            return [letters[start:end] for start, end in pairwise(ends)]
        return [whole[start:end].decode("utf-8", "surrogatepass") for start, end in pairwise(ends)]

    def arrow_column(self, *, on_invalid_text: InvalidText = "error") -> ArrowColumn:
        """The values in Arrow's layout."""
        if on_invalid_text not in ("error", "replace"):
            raise InputError(f"on_invalid_text is 'error' or 'replace', not {on_invalid_text!r}")
        data = self.data
        if self.lone_surrogates:
            places = surrogate_places(data)
            if on_invalid_text == "error":
                row = int(np.searchsorted(self.offsets, places[0], side="right")) - 1
                raise InputError(
                    f"{self.type_name}.{self.name} of record {self.rows.ordinal(row)} holds a lone surrogate, which "
                    "Arrow cannot: ask for on_invalid_text='replace'",
                    "InvalidText",
                )
            data = data.copy()
            for place, byte in enumerate(b"\xef\xbf\xbd"):
                data[places + place] = byte
        kind = ArrowField(self.name, text_format(self.offsets))
        return ArrowColumn(kind, len(self), self.valid, data, self.offsets)


@dataclass(frozen=True, slots=True, eq=False)
class CollectionColumn:
    """Many LIST, SET or MAP records: record i has members `offsets[i]` up to `offsets[i + 1]`.

    `elements` are ordinals: of elements, or of a map's keys, with those of its values in `values`.
    """

    type_name: str
    kind: Kind
    rows: Rows
    offsets: NDArray[np.int64]
    elements: NDArray[np.int32]
    values: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return self.rows.count

    @property
    def ordinals(self) -> Ordinals:
        """The ordinals of the records, in order."""
        return self.rows.all()

    def to_pylist(self) -> list[Any]:
        """For each record its element ordinals, or (key, value) ordinals."""
        members: list[Any] = self.elements.tolist()
        if self.values is not None:
            members = list(zip(members, self.values.tolist(), strict=True))
        ends = self.offsets.tolist()
        return [members[start:end] for start, end in pairwise(ends)]

    def arrow_column(self) -> ArrowColumn:
        """The ordinals in Arrow's layout: a list, or a map."""
        elements = ArrowColumn(ArrowField("item", "i"), len(self.elements), data=self.elements)
        if self.values is None:
            return list_column(self.type_name, self.offsets, elements)
        values = ArrowColumn(ArrowField("value", "i"), len(self.values), data=self.values)
        return map_column(self.type_name, self.offsets, elements, values)

    def to_arrow(self) -> ArrowArray:
        """The ordinals as an Arrow list or map array."""
        return ArrowArray(self.arrow_column())

    def __arrow_c_schema__(self) -> object:
        return self.to_arrow().__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self.to_arrow().__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


def list_column(name: str, offsets: Ordinals, items: ArrowColumn, valid: Mask | None = None) -> ArrowColumn:
    """Lists of `items`; large ones where 32 bits do not reach."""
    form = "+L" if int(offsets[-1]) > LARGEST_INT32 else "+l"
    item = replace(items, field=replace(items.field, name="item"))
    return ArrowColumn(ArrowField(name, form, True, (item.field,)), len(offsets) - 1, valid, None, offsets, (item,))


def map_column(
    name: str, offsets: Ordinals, keys: ArrowColumn, values: ArrowColumn, valid: Mask | None = None
) -> ArrowColumn:
    """Maps from `keys`, none of which is null, to `values`."""
    if int(offsets[-1]) > LARGEST_INT32:
        raise InputError(f"maps of {name} hold more entries than one Arrow array can: ask for fewer rows at a time")
    key = replace(keys, field=replace(keys.field, name="key", nullable=False))
    value = replace(values, field=replace(values.field, name="value"))
    entries_kind = ArrowField("entries", "+s", False, (key.field, value.field))
    entries = ArrowColumn(entries_kind, keys.length, children=(key, value))
    return ArrowColumn(
        ArrowField(name, "+m", True, (entries_kind,)), len(offsets) - 1, valid, None, offsets, (entries,)
    )


def surrogate_places(data: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where the three bytes of a surrogate stand in WTF-8."""
    leads = np.flatnonzero(data[:-2] == 0xED)
    return leads[data[leads + 1] >= 0xA0].astype(np.int64)


def read_column(records: StateRecords, type_name: str, position: int, rows: Rows) -> Column:
    """A field of an OBJECT type, by position."""
    schema = records.types[type_name].schema
    assert isinstance(schema, ObjectSchema)
    field = schema.fields[position]
    number, reader = records.number(type_name), records.reader
    if not field.type.is_variable:
        values, valid = reader.read_fixed(number, position, rows.ordinals, rows.words, rows.count)
        return FixedColumn(type_name, field.name, field.type, rows, valid, values)
    offsets, data, valid = reader.read_variable(number, position, rows.ordinals, rows.words, rows.count)
    if field.type is FieldType.BYTES:
        return BytesColumn(type_name, field.name, field.type, rows, valid, offsets, data)
    offsets, data, lone, _ = text.units_to_utf8(data, offsets[:-1], offsets[1:])
    return TextColumn(type_name, field.name, field.type, rows, valid, offsets, data, lone)


def read_collections(records: StateRecords, type_name: str, rows: Rows) -> CollectionColumn:
    """Records of a LIST, SET or MAP type."""
    schema = records.types[type_name].schema
    offsets, elements, values = records.reader.read_collections(
        records.number(type_name), rows.ordinals, rows.words, rows.count
    )
    return CollectionColumn(type_name, schema.kind, rows, offsets, elements, values)

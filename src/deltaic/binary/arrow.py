"""Arrow in and out without pyarrow: columns as NumPy arrays, exchanged through the C data interface.

An `ArrowColumn` is what one Arrow array holds once slices, bit masks and dictionaries are out of the way: a mask of
bytes, values or offsets that start at 0, children of exactly the length they should have. `read_stream` takes one from
anything with `__arrow_c_stream__` or `__arrow_c_array__`; `ArrowTable` and `ArrowArray` offer them to others.
nanoarrow does the exchange and is imported on first use.
"""

import ctypes
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, MissingExtraError
from deltaic.kernels import access, stream

if TYPE_CHECKING:
    import pyarrow

Mask = NDArray[np.bool_]
Offsets = NDArray[np.int64]

LARGEST_INT32 = 2**31 - 1

_PRIMITIVES = {
    "c": np.int8,
    "C": np.uint8,
    "s": np.int16,
    "S": np.uint16,
    "i": np.int32,
    "I": np.uint32,
    "l": np.int64,
    "L": np.uint64,
    "e": np.float16,
    "f": np.float32,
    "g": np.float64,
    "tdD": np.int32,
    "tdm": np.int64,
    "tts": np.int32,
    "ttm": np.int32,
    "ttu": np.int64,
    "ttn": np.int64,
    "tiM": np.int32,
}
_TEXTS = ("u", "U", "z", "Z", "vu", "vz")


@dataclass(frozen=True, slots=True)
class ArrowField:
    """The type of a column: Arrow's C format string, and the fields of what it nests.

    `i` is int32, `u` a text, `+s` a struct, `+l` a list, `+m` a map (Arrow's C data interface, "format strings").
    """

    name: str
    format: str
    nullable: bool = True
    children: tuple["ArrowField", ...] = ()
    metadata: tuple[tuple[bytes, bytes], ...] = ()
    dictionary: "ArrowField | None" = None
    """The type of the values of a dictionary-encoded column; `format` is then that of the codes."""

    @property
    def plain(self) -> "ArrowField":
        """The type that columns have once dictionaries, runs and text views are resolved."""
        if self.dictionary is not None:
            return replace(self.dictionary.plain, name=self.name, nullable=self.nullable, metadata=self.metadata)
        if self.format == "+r":
            return replace(self.children[1].plain, name=self.name, nullable=self.nullable, metadata=self.metadata)
        children = tuple(child.plain for child in self.children)
        return replace(self, format={"vu": "u", "vz": "z"}.get(self.format, self.format), children=children)


@dataclass(frozen=True, slots=True, eq=False)
class ArrowColumn:
    """One column: `data` holds numbers, truth values, or with `offsets` the bytes of texts; nested types have children.

    Decimals and fixed-size binaries are rows of bytes. Values under a null are undefined, elements under a null list
    may exist.
    """

    field: ArrowField
    length: int
    valid: Mask | None = None
    data: NDArray[Any] | None = None
    offsets: Offsets | None = None
    children: tuple["ArrowColumn", ...] = ()

    @property
    def null_count(self) -> int:
        """How many values are null."""
        if self.field.format == "n":
            return self.length
        return 0 if self.valid is None else self.length - int(np.count_nonzero(self.valid))

    def slice(self, start: int, stop: int) -> "ArrowColumn":
        """Rows `start` up to `stop`."""
        if start == 0 and stop == self.length:
            return self
        valid = None if self.valid is None else self.valid[start:stop]
        data, offsets, children = self.data, self.offsets, self.children
        if offsets is not None:
            first, last = int(offsets[start]), int(offsets[stop])
            offsets = offsets[start : stop + 1] - first
            if data is not None:
                data = data[first:last]
            children = tuple(child.slice(first, last) for child in children)
        elif data is not None:
            data = data[start:stop]
        else:
            size = _fixed_size(self.field.format)
            children = tuple(child.slice(start * size, stop * size) for child in children)
        return replace(self, length=stop - start, valid=valid, data=data, offsets=offsets, children=children)

    def take(self, places: NDArray[np.int64]) -> "ArrowColumn":
        """The rows at `places`, in that order; each may occur more than once."""
        valid = None if self.valid is None else self.valid[places]
        if self.offsets is None:
            data = None if self.data is None else self.data[places]
            size = _fixed_size(self.field.format)
            inner = places if size == 1 else (places[:, None] * size + np.arange(size)).ravel()
            children = tuple(child.take(inner) for child in self.children)
            return replace(self, length=len(places), valid=valid, data=data, children=children)
        starts, ends = self.offsets[places], self.offsets[places + 1]
        if self.data is not None:
            offsets, data = access.gather_slices(self.data, starts, ends)
            return replace(self, length=len(places), valid=valid, data=data, offsets=offsets)
        sizes = ends - starts
        offsets = np.zeros(len(places) + 1, np.int64)
        np.cumsum(sizes, out=offsets[1:])
        inner = np.arange(int(offsets[-1]), dtype=np.int64) + np.repeat(starts - offsets[:-1], sizes)
        children = tuple(child.take(inner) for child in self.children)
        return replace(self, length=len(places), valid=valid, offsets=offsets, children=children)


def _fixed_size(format_string: str) -> int:
    """Rows of a child for one row of its parent."""
    return int(format_string[3:]) if format_string.startswith("+w:") else 1


# Reading


def read_stream(source: Any) -> tuple[ArrowField, Iterator[ArrowColumn]]:
    """The schema and the batches of anything that offers Arrow; a batch of a table is a struct column.

    The schema says how the source encodes its columns; the columns have its `plain` type.
    """
    import nanoarrow

    if hasattr(source, "__arrow_c_stream__"):
        arrays = nanoarrow.c_array_stream(source)
        kind = read_field(arrays.get_schema())
        return kind, (_read(kind, _Node(array.view(), array)) for array in arrays)
    if hasattr(source, "__arrow_c_array__"):
        array = nanoarrow.c_array(source)
        kind = read_field(array.schema)
        return kind, (_read(kind, _Node(part.view(), part)) for part in (array,))
    raise InputError(
        f"{type(source).__name__} offers no Arrow data: it has neither __arrow_c_stream__ nor __arrow_c_array__"
    )


def read_field(schema: Any) -> ArrowField:
    """The type that a nanoarrow schema describes."""
    nullable = bool(schema.flags & 2)
    children = tuple(read_field(child) for child in schema.children)
    metadata = tuple((bytes(key), bytes(value)) for key, value in schema.metadata.items()) if schema.metadata else ()
    dictionary = None if schema.dictionary is None else read_field(schema.dictionary)
    return ArrowField(schema.name or "", schema.format, nullable, children, metadata, dictionary)


@dataclass(frozen=True, slots=True)
class _Node:
    """A nanoarrow view of an array or one of its children, and the array that owns the memory."""

    view: Any
    owner: Any

    def child(self, place: int) -> "_Node":
        return _Node(self.view.child(place), self.owner)

    @property
    def dictionary(self) -> "_Node":
        return _Node(self.view.dictionary, self.owner)

    def buffer(self, place: int) -> NDArray[np.uint8]:
        """A buffer's bytes. The array holds the owner: nanoarrow's views of children do not."""
        buffer = self.view.buffer(place)
        if not buffer.size_bytes:
            return np.zeros(0, np.uint8)
        memory = (ctypes.c_uint8 * buffer.size_bytes).from_address(buffer._addr())
        memory.owner = self.owner
        found = np.frombuffer(memory, np.uint8)
        found.flags.writeable = False
        return found


def _read(stored: ArrowField, node: _Node) -> ArrowColumn:
    if stored.dictionary is not None:
        return _resolved(stored, node)
    begin, length, form, kind = node.view.offset, node.view.length, stored.format, stored.plain
    end = begin + length
    if form == "n":
        return ArrowColumn(kind, length)
    if form == "+r":
        return _read_runs(stored, node, begin, end)
    if form.startswith(("+u", "+vl", "+vL")):
        raise InputError(f"column {kind.name!r}: Arrow type {form!r} is not supported", "TypeConflict")
    valid = _read_mask(node, begin, end)
    if form == "+s" or form.startswith("+w:"):
        size = _fixed_size(form)
        children = _children(stored, node)
        return ArrowColumn(
            kind, length, valid, children=tuple(child.slice(begin * size, end * size) for child in children)
        )
    if form in ("vu", "vz"):
        return _read_views(kind, node, valid, begin, end)
    if form in ("u", "z", "U", "Z", "+l", "+L", "+m"):
        wide = form in ("U", "Z", "+L")
        offsets = node.buffer(1).view(np.int64 if wide else np.int32)[begin : end + 1].astype(np.int64)
        # An empty array may come without its one offset.
        offsets = offsets if len(offsets) else np.zeros(1, np.int64)
        first, last = int(offsets[0]), int(offsets[-1])
        offsets -= first
        if form in _TEXTS:
            return ArrowColumn(kind, length, valid, node.buffer(2)[first:last], offsets)
        children = tuple(child.slice(first, last) for child in _children(stored, node))
        return ArrowColumn(kind, length, valid, offsets=offsets, children=children)
    data = node.buffer(1)
    if form == "b":
        return ArrowColumn(kind, length, valid, _unpacked(data, begin, end))
    return ArrowColumn(kind, length, valid, _fixed_values(kind, data)[begin:end])


def _children(stored: ArrowField, node: _Node) -> tuple[ArrowColumn, ...]:
    return tuple(_read(child, node.child(place)) for place, child in enumerate(stored.children))


def _read_mask(node: _Node, begin: int, end: int) -> Mask | None:
    bits = node.buffer(0)
    if not len(bits) or node.view.null_count == 0:
        return None
    valid = _unpacked(bits, begin, end)
    return None if valid.all() else valid


def _unpacked(bits: NDArray[np.uint8], begin: int, end: int) -> Mask:
    first = begin >> 3
    flags = np.unpackbits(bits[first : (end + 7) >> 3], count=end - 8 * first, bitorder="little")
    return flags[begin - 8 * first :].view(np.bool_)


def _fixed_values(kind: ArrowField, data: NDArray[np.uint8]) -> NDArray[Any]:
    form = kind.format
    if form in _PRIMITIVES:
        return data.view(_PRIMITIVES[form])
    if form.startswith(("ts", "tD")):
        return data.view(np.int64)
    if form.startswith("d:"):
        parts = form[2:].split(",")
        return data.reshape(-1, int(parts[2]) // 8 if len(parts) > 2 else 16)
    if form.startswith("w:"):
        return data.reshape(-1, int(form[2:])) if int(form[2:]) else np.zeros((0, 0), np.uint8)
    if form == "tiD":
        return data.reshape(-1, 8)
    if form == "tin":
        return data.reshape(-1, 16)
    raise InputError(f"column {kind.name!r}: Arrow type {form!r} is not supported", "TypeConflict")


def _read_views(kind: ArrowField, node: _Node, valid: Mask | None, begin: int, end: int) -> ArrowColumn:
    """Texts as 16-byte views: short ones inside the view, others in one of several buffers."""
    views = node.buffer(1)
    buffers = [views, *(node.buffer(place) for place in range(2, node.view.n_buffers - 1))]
    bases = np.cumsum([0, *(len(buffer) for buffer in buffers)])
    words = views.view(np.int32).reshape(-1, 4)[begin:end]
    sizes = words[:, 0].astype(np.int64)
    if valid is not None:
        sizes[~valid] = 0
    starts = np.arange(begin, end, dtype=np.int64) * 16 + 4
    long = sizes > 12
    starts[long] = bases[words[long, 2] + 1] + words[long, 3]
    offsets, data = access.gather_slices(np.concatenate(buffers), starts, starts + sizes)
    return ArrowColumn(kind, end - begin, valid, data, offsets)


def _resolved(stored: ArrowField, node: _Node) -> ArrowColumn:
    """A dictionary-encoded column as the values it stands for."""
    assert stored.dictionary is not None
    codes = _read(replace(stored, dictionary=None), node)
    values = _read(stored.dictionary, node.dictionary)
    assert codes.data is not None
    places = codes.data.astype(np.int64)
    if codes.valid is not None:
        places[~codes.valid] = 0
    if values.length == 0:
        return replace(null_column(values, len(places)), field=stored.plain)
    column = values.take(places)
    valid = column.valid
    if codes.valid is not None:
        valid = codes.valid if valid is None else valid & codes.valid
    return replace(column, field=stored.plain, valid=valid)


def null_column(like: ArrowColumn, length: int) -> ArrowColumn:
    """A column of the type of another, all of it null."""
    data = like.data
    if data is not None and like.offsets is None:
        data = np.zeros((length, *data.shape[1:]), data.dtype)
    offsets = None if like.offsets is None else np.zeros(length + 1, np.int64)
    valid = np.zeros(length, np.bool_) if length else None
    return replace(like, length=length, valid=valid, data=data, offsets=offsets)


def _read_runs(stored: ArrowField, node: _Node, begin: int, end: int) -> ArrowColumn:
    ends, values = _children(stored, node)
    assert ends.data is not None
    stops = np.clip(ends.data.astype(np.int64), begin, end)
    sizes = np.diff(stops, prepend=begin)
    column = values.take(np.repeat(np.arange(len(stops)), sizes))
    return replace(column, field=stored.plain)


# Writing


def c_schema(kind: ArrowField) -> Any:
    """The nanoarrow schema of a type."""
    import nanoarrow

    return nanoarrow.c_schema(nanoarrow.null()).modify(
        format=kind.format,
        name=kind.name,
        flags=2 if kind.nullable else 0,
        metadata=dict(kind.metadata) or None,
        children=[c_schema(child) for child in kind.children],
        dictionary=None if kind.dictionary is None else c_schema(kind.dictionary),
    )


def c_array(column: ArrowColumn) -> Any:
    """The nanoarrow array of a column. Arrays are handed on without a copy where Arrow's form is theirs."""
    return _c_array(column, c_schema(column.field))


def _c_array(column: ArrowColumn, schema: Any) -> Any:
    import nanoarrow

    kind = column.field
    buffers: list[Any] = []
    if kind.format != "n":
        buffers.append(None if column.valid is None else np.packbits(column.valid, bitorder="little"))
    if column.offsets is not None:
        wide = kind.format in ("U", "Z", "+L")
        buffers.append(np.ascontiguousarray(column.offsets, np.int64 if wide else np.int32))
    if column.data is not None:
        packed = kind.format == "b"
        buffers.append(np.packbits(column.data, bitorder="little") if packed else np.ascontiguousarray(column.data))
    children = []
    for child, child_schema in zip(column.children, schema.children, strict=True):
        children.append(_c_array(child, child_schema))
    return nanoarrow.c_array_from_buffers(
        schema, column.length, buffers, null_count=column.null_count, children=children, move=True
    )


def text_format(offsets: Offsets, *, binary: bool = False) -> str:
    """The format of texts or bytes with these offsets: the large one where 32 bits do not reach."""
    large = len(offsets) > 0 and int(offsets[-1]) > LARGEST_INT32
    return ("Z" if large else "z") if binary else ("U" if large else "u")


def struct_column(name: str, children: tuple[ArrowColumn, ...], length: int, valid: Mask | None = None) -> ArrowColumn:
    """A struct of columns of the same length."""
    kind = ArrowField(name, "+s", valid is not None, tuple(child.field for child in children))
    return ArrowColumn(kind, length, valid, children=children)


@dataclass(frozen=True, slots=True, eq=False)
class ArrowArray:
    """One column, offered to anything that takes Arrow."""

    column: ArrowColumn

    def __len__(self) -> int:
        return self.column.length

    def __arrow_c_schema__(self) -> object:
        return c_schema(self.column.field).__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        capsules: tuple[object, object] = c_array(self.column).__arrow_c_array__()
        return capsules

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return ArrowTable(self.column.field, self.column.length, lambda: iter((self.column,))).__arrow_c_stream__()

    def to_pyarrow(self) -> "pyarrow.Array":
        """The column as a pyarrow array."""
        return _pyarrow("Column.to_pyarrow").array(self)


@dataclass(frozen=True, slots=True, eq=False)
class ArrowTable:
    """Rows, offered to anything that takes Arrow. Batches are made one at a time, as the taker asks for them."""

    field: ArrowField
    num_rows: int
    batches: Callable[[], Iterator[ArrowColumn]]
    """Starts over: a fresh iterator of struct columns of type `field`."""

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        return f"ArrowTable({', '.join(self.column_names)}: {self.num_rows:,} rows)"

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns in order."""
        return tuple(child.name for child in self.field.children)

    def __arrow_c_schema__(self) -> object:
        return c_schema(self.field.plain).__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        kind = self.field.plain
        schema = c_schema(kind)
        arrays = (_c_array(batch, schema).__arrow_c_array__()[1] for batch in self.batches())
        return stream.make_stream(lambda: c_schema(kind).__arrow_c_schema__(), arrays)

    def to_pyarrow(self) -> "pyarrow.Table":
        """The rows as a pyarrow table."""
        pyarrow = _pyarrow("ArrowTable.to_pyarrow")
        # Batches are made here, not behind the C interface, so that their errors stay what they are.
        batches = [pyarrow.record_batch(ArrowArray(batch)) for batch in self.batches()]
        return pyarrow.Table.from_batches(batches, schema=pyarrow.schema(self))


def _pyarrow(need: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(need, "arrow") from None
    return pyarrow

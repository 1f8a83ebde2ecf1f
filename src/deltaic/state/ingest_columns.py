"""Arrow arrays as ingest reads them: any part of a column, as numpy arrays, without copying where it can be.

A *part* is a slice, or the positions of some values in an array of int64. Nested columns give the part of their child
that belongs to a part of them, so that a chunk of rows is read without touching the rest. Dictionaries, runs and
views are followed: what comes out is values, texts, structs, lists and maps.
"""

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import logical_of

Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]
Part = slice | Positions

_LISTS = {"+l": np.int32, "+L": np.int64, "+m": np.int32}
_LIST_VIEWS = {"+vl": np.int32, "+vL": np.int64}
_TEXTS = {"u": np.int32, "z": np.int32, "U": np.int64, "Z": np.int64}
_VIEWS = ("vu", "vz")
_INLINE_BYTES = 12


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """Texts or bytes: value i is `data[starts[i]:ends[i]]`. Starts and ends are int32 or int64."""

    starts: NDArray[Any]
    ends: NDArray[Any]
    data: NDArray[np.uint8]


def part_length(part: Part) -> int:
    """How many values a part has."""
    return part.stop - part.start if isinstance(part, slice) else len(part)


def part_positions(part: Part) -> Positions:
    """The positions of a part, one by one."""
    return np.arange(part.start, part.stop, dtype=np.int64) if isinstance(part, slice) else part


def select(part: Part, mask: Mask) -> Positions:
    """The positions of a part where the mask holds."""
    return np.flatnonzero(mask) + part.start if isinstance(part, slice) else part[mask]


def shift(part: Part, by: int) -> Part:
    """The part moved by a number of values."""
    if by == 0:
        return part
    return slice(part.start + by, part.stop + by) if isinstance(part, slice) else part + by


class Column:
    """One Arrow array of a record batch. The batch's own column keeps the memory of all; its children do not."""

    __slots__ = (
        "_buffers",
        "_offset",
        "_text",
        "_view",
        "children",
        "dictionary",
        "format",
        "length",
        "name",
        "schema",
    )

    def __init__(self, schema: Any, array: Any, view: Any) -> None:
        self.schema, self.name, self.format = schema, schema.name or "", schema.format
        self.length: int = view.length
        self._offset: int = view.offset
        self._view = view
        self._buffers = _list_view_buffers(array, view) if schema.format in _LIST_VIEWS else _buffers(view)
        self._text: Ranges | None = None
        self.dictionary = (
            None if schema.dictionary is None else Column(schema.dictionary, array.dictionary, view.dictionary)
        )
        self.children = tuple(
            Column(child, array.child(position), view.child(position)) for position, child in enumerate(schema.children)
        )

    def logical(self) -> LogicalType:
        """The logical type of a flat column."""
        return logical_of(self.schema)

    def valid(self, part: Part) -> Mask | None:
        """Which values are not null; None if all are."""
        self._check_inside(part)
        if self.format == "n":
            count = part_length(part)
            return np.zeros(count, np.bool_) if count else None
        if self.format == "+r":
            return self.children[1].valid(self._runs(part))
        own = self._own_valid(part)
        if self.dictionary is None:
            return own
        inner = self.dictionary.valid(self._indexes(part, own))
        if inner is None or own is None:
            return own if inner is None else inner
        own = own.copy()
        own[own] = inner
        return own

    def resolve(self, part: Part) -> "tuple[Column, Part]":
        """The column and the part of it that hold the values themselves, for a part without nulls."""
        if self.format == "+r":
            return self.children[1].resolve(self._runs(part))
        if self.dictionary is not None:
            return self.dictionary.resolve(self._indexes(part, None))
        return self, part

    def values(self, part: Part) -> NDArray[Any]:
        """Numbers in Arrow's storage, or rows of bytes where a value has a fixed width."""
        logical = self.logical()
        dtype, width = logical.storage, logical.width
        assert dtype is not None
        at = shift(part, self._offset)
        if self.format == "b":
            return self._bits(1, at)
        data = self._buffers[1]
        if width:
            return data[: (self._offset + self.length) * width].reshape(-1, width)[at]
        return data.view(dtype)[at]

    def ranges(self, part: Part) -> Ranges:
        """Texts or bytes of any length."""
        at = shift(part, self._offset)
        if self.format in _VIEWS:
            whole = self._viewed()
            return Ranges(whole.starts[at], whole.ends[at], whole.data)
        offsets = self._offsets(_TEXTS[self.format])
        return Ranges(offsets[:-1][at], offsets[1:][at], self._buffers[2])

    def struct_part(self, part: Part) -> Part:
        """The part of every child that belongs to a part of a struct."""
        return shift(part, self._offset)

    def list_part(self, part: Part) -> tuple[Positions, Part]:
        """The offsets of some lists, from 0, and the part of the child that holds their elements.

        The part must be without nulls: a null list may have elements all the same.
        """
        starts, ends = self._list_ranges(shift(part, self._offset))
        count = len(starts)
        offsets = np.zeros(count + 1, np.int64)
        if count == 0:
            return offsets, slice(0, 0)
        lengths = np.subtract(ends, starts, dtype=np.int64)
        child = self.children[0].length
        if int(lengths.min()) < 0 or int(starts.min()) < 0 or int(ends.max()) > child:
            raise InputError(f"column {self.name!r}: its list offsets fall, or point outside its elements", "BadArrow")
        np.cumsum(lengths, out=offsets[1:])
        if isinstance(part, slice) and np.array_equal(starts[1:], ends[:-1]):
            return offsets, slice(int(starts[0]), int(ends[-1]))
        positions = np.arange(int(offsets[-1]), dtype=np.int64)
        positions += np.repeat(starts - offsets[:-1], lengths)
        return offsets, positions

    def _check_inside(self, part: Part) -> None:
        # Positions come from offsets and indexes that were checked; a slice comes from the length of the parent.
        if isinstance(part, slice) and part.stop > self.length:
            raise InputError(
                f"column {self.name!r}: {self.length:,} values where at least {part.stop:,} must be", "BadArrow"
            )

    def _own_valid(self, part: Part) -> Mask | None:
        if self._view.null_count == 0 or not len(self._buffers) or not len(self._buffers[0]):
            return None
        mask = self._bits(0, shift(part, self._offset))
        return None if mask.all() else mask

    def _bits(self, buffer: int, at: Part) -> Mask:
        data = self._buffers[buffer]
        if isinstance(at, slice):
            first = at.start // 8
            bits = np.unpackbits(data[first : (at.stop + 7) // 8], bitorder="little")
            return bits[at.start - first * 8 : at.stop - first * 8].view(np.bool_)
        chosen: NDArray[np.uint8] = data[at >> 3] >> (at & 7).astype(np.uint8) & 1
        return chosen.view(np.bool_)

    def _indexes(self, part: Part, valid: Mask | None) -> Positions:
        assert self.dictionary is not None
        storage = LogicalType(self.format).storage
        assert storage is not None
        indexes = self._buffers[1].view(storage)[shift(part, self._offset)]
        positions = (indexes if valid is None else indexes[valid]).astype(np.int64)
        if len(positions) and not 0 <= int(positions.min()) <= int(positions.max()) < self.dictionary.length:
            raise InputError(f"column {self.name!r}: an index points outside its dictionary", "BadArrow")
        return positions

    def _runs(self, part: Part) -> Positions:
        runs = self.children[0]
        ends = runs.values(slice(0, runs.length)).astype(np.int64)
        found = np.searchsorted(ends, part_positions(shift(part, self._offset)), "right").astype(np.int64)
        if len(found) and int(found.max()) >= self.children[1].length:
            raise InputError(f"column {self.name!r}: its runs end before its values", "BadArrow")
        return found

    def _offsets(self, dtype: type) -> NDArray[Any]:
        offsets: NDArray[Any] = self._buffers[1].view(dtype)
        # An array without values may come without its one offset.
        return offsets if len(offsets) else np.zeros(1, dtype)

    def _list_ranges(self, at: Part) -> tuple[NDArray[Any], NDArray[Any]]:
        if self.format in _LISTS:
            offsets = self._offsets(_LISTS[self.format])
            return offsets[:-1][at], offsets[1:][at]
        if self.format in _LIST_VIEWS:
            dtype = _LIST_VIEWS[self.format]
            starts = self._buffers[1].view(dtype)[at].astype(np.int64)
            return starts, starts + self._buffers[2].view(dtype)[at]
        width = int(self.format[3:])
        starts = part_positions(at) * width
        return starts, starts + width

    def _viewed(self) -> Ranges:
        """The whole of a view column over one array: the views themselves, then its data buffers."""
        if self._text is not None:
            return self._text
        views = self._buffers[1]
        data = self._buffers[2:-1]
        bases = np.cumsum([len(views), *map(len, data)], dtype=np.int64)
        words = views.view(np.int32).reshape(-1, 4)
        lengths = words[:, 0].astype(np.int64)
        starts = np.arange(len(words), dtype=np.int64) * 16 + 4
        far = lengths > _INLINE_BYTES
        if far.any():
            buffers = words[far, 2]
            if int(buffers.min()) < 0 or int(buffers.max()) >= len(data):
                raise InputError(f"column {self.name!r}: a view points outside its buffers", "BadArrow")
            starts[far] = bases[buffers] + words[far, 3]
        self._text = Ranges(starts, starts + lengths, np.concatenate([views, *data]))
        return self._text


def _buffers(view: Any) -> list[NDArray[np.uint8]]:
    return [np.frombuffer(buffer, np.uint8) for buffer in view.buffers]


def _list_view_buffers(array: Any, view: Any) -> list[NDArray[np.uint8]]:
    """The buffers of a list view: nanoarrow does not know how large the one with the sizes is."""
    validity, offsets = (np.frombuffer(view.buffer(place), np.uint8) for place in range(2))
    address = array.buffers[2]
    if not len(offsets) or not address:
        return [validity, offsets, np.zeros(0, np.uint8)]
    sizes = (ctypes.c_uint8 * len(offsets)).from_address(address)
    return [validity, offsets, np.frombuffer(memoryview(sizes), np.uint8)]


def read_batches(data: Any) -> tuple[Any, Iterator[Column]]:
    """The Arrow schema of anything with `__arrow_c_stream__` or `__arrow_c_array__`, and its batches as structs."""
    import nanoarrow

    if not hasattr(data, "__arrow_c_stream__") and not hasattr(data, "__arrow_c_array__"):
        raise InputError(
            f"rows come from anything with __arrow_c_stream__; a {type(data).__name__} has none", "WrongType"
        )
    stream = nanoarrow.c_array_stream(data)
    schema = stream.get_schema()
    if schema.format != "+s":
        raise InputError(f"rows are structs, not Arrow {schema.format!r}", "WrongType")
    return schema, (Column(schema, batch, batch.view()) for batch in stream)

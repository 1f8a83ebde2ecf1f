"""Stored vectors: one vector column of a type at one version, by ordinal, in chunks that versions share.

Chunk c holds the rows of the ordinals from `c * CHUNK_ROWS` on, float32 patterns side by side. A record without a
vector (null, or no record) is not in `present`; its row is zero, or what a removed record had there, and means nothing.
Nothing here changes: `changed` gives another column that shares every chunk without a changed row.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Self

import numpy as np
from numpy.typing import NDArray

from deltaic.binary import buffers
from deltaic.errors import InputError
from deltaic.kernels import vectorsum
from deltaic.kernels.plain.vectorsum import mixed
from deltaic.state.bitset import EMPTY, OrdinalSet

Matrix = NDArray[np.float32]
Ordinals = NDArray[np.int64]

CHUNK_ROWS = 4096
"""Ordinals in one chunk."""

_SHIFT = 12
_STEP = 0x9E3779B97F4A7C15


@dataclass(frozen=True, eq=False)
class StoredVectors:
    """A vector column of one state. Two columns are equal if the same ordinals have the same patterns: `same_as`."""

    dimensions: int
    chunks: tuple[Matrix, ...]
    """Arrays of (CHUNK_ROWS, dimensions), read-only; a chunk without any vector takes no memory of its own."""
    present: OrdinalSet
    """The ordinals that have a vector."""
    _sums: dict[int, tuple[bytes, int]] = field(default_factory=dict, repr=False, kw_only=True)
    """The sums of chunks that were asked for, with the bits of those who were present: the next version starts with
    those of the chunks that both share."""

    @classmethod
    def empty(cls, dimensions: int) -> Self:
        """A column without vectors."""
        if dimensions < 1:
            raise InputError(f"vectors of {dimensions} dimensions", "InvalidDims")
        return cls(dimensions, (), EMPTY)

    @classmethod
    def of(cls, dimensions: int, ordinals: Ordinals, matrix: Matrix) -> "StoredVectors":
        """The column in which these ordinals, in any order and none of them twice, have the rows of a matrix."""
        _check_ordinals(ordinals)
        return cls.empty(dimensions).changed(ordinals, matrix, OrdinalSet.from_ordinals(ordinals))

    def changed(self, ordinals: Ordinals, matrix: Matrix, present: OrdinalSet) -> "StoredVectors":
        """The column with other rows at some ordinals; only chunks that hold one of them are copied.

        Args:
            ordinals: whose rows change, in any order.
            matrix: their vectors.
            present: the ordinals that have a vector afterwards.
        """
        edit = VectorEdit(self)
        edit.put(ordinals, matrix)
        return edit.finish(present)

    def with_present(self, present: OrdinalSet) -> "StoredVectors":
        """The same rows, of which others count; rows that stop to count stay readable as ghosts."""
        return StoredVectors(self.dimensions, self.chunks, present, _sums=dict(self._sums))

    def __getitem__(self, ordinal: int) -> NDArray[np.float32] | None:
        """The vector of an ordinal, not copied and read-only; None if it has none."""
        if ordinal not in self.present:
            return None
        row: NDArray[np.float32] = self.chunks[ordinal >> _SHIFT][ordinal & CHUNK_ROWS - 1]
        return row

    def ghost(self, ordinal: int) -> NDArray[np.float32] | None:
        """The row of an ordinal, present or not: what a removed record had until its ordinal is used again."""
        if not 0 <= ordinal < len(self.chunks) << _SHIFT:
            return None
        row: NDArray[np.float32] = self.chunks[ordinal >> _SHIFT][ordinal & CHUNK_ROWS - 1]
        return row

    def rows(self, ordinals: Ordinals) -> Matrix:
        """The rows of ordinals in any order, copied; zeros beyond the last chunk."""
        found = np.empty((len(ordinals), self.dimensions), np.float32)
        ordinals = np.asarray(ordinals, np.int64)
        for number, places in by_chunk(ordinals):
            found[places] = self._in_chunk(number, ordinals[places] & CHUNK_ROWS - 1)
        return found

    def _in_chunk(self, number: int, rows: Ordinals) -> "Matrix | float":
        if number >= len(self.chunks):
            return 0.0
        first, last = int(rows[0]), int(rows[-1])
        if last - first == len(rows) - 1 and bool((np.diff(rows) == 1).all()):
            return self.chunks[number][first : last + 1]
        return self.chunks[number][rows]

    def blocks(self) -> Iterator[tuple[int, Matrix]]:
        """Every chunk that has a vector, as its first ordinal and its rows, not copied."""
        for number, chunk in enumerate(self.chunks):
            if not is_shared_zero(chunk):
                yield number << _SHIFT, chunk

    def __len__(self) -> int:
        return len(self.present)

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the chunks and of the set."""
        return sum(chunk.nbytes for _, chunk in self.blocks()) + self.present.words.nbytes

    def same_as(self, other: "StoredVectors") -> bool:
        """True if the same ordinals have the same patterns; NaNs and zeros are compared by their bits."""
        if self.dimensions != other.dimensions or self.present != other.present:
            return False
        for number, (one, two) in enumerate(zip(self.chunks, other.chunks, strict=False)):
            if one is not two and not _same_rows(one, two, present_in(self.present, number)):
                return False
        return True

    def checksum(self) -> int:
        """64 bits over ordinals and patterns; the same for equal columns, however their chunks came to be."""
        total = 0
        keys = _keys(self.dimensions)
        for first, chunk in self.blocks():
            number = first >> _SHIFT
            bits = _words_in(self.present, number).tobytes()
            known = self._sums.get(number)
            if known is None or known[0] != bits:
                places = np.flatnonzero(present_in(self.present, number))
                known = self._sums[number] = bits, vectorsum.sum_rows(chunk.view(np.uint32), places, first, keys)
            total += known[1]
        return total & 0xFFFF_FFFF_FFFF_FFFF

    def __repr__(self) -> str:
        return f"StoredVectors({len(self)} of {self.dimensions} dimensions, {self.nbytes:,} bytes)"


class VectorEdit:
    """A column on its way to the next version: chunks are copied when a row of them is first written."""

    def __init__(self, base: StoredVectors) -> None:
        self.base = base
        self._chunks: list[Matrix] = list(base.chunks)
        self._own: set[int] = set()

    def put(self, ordinals: Ordinals, matrix: Matrix) -> None:
        """Write rows of a matrix at ordinals."""
        if matrix.shape != (len(ordinals), self.base.dimensions) or matrix.dtype != np.float32:
            shape = f"{matrix.shape} of {matrix.dtype}"
            raise InputError(f"{shape} for {len(ordinals)} vectors of {self.base.dimensions}", "DimensionMismatch")
        ordinals = np.asarray(ordinals, np.int64)
        _check_ordinals(ordinals)
        for number, places in by_chunk(ordinals):
            self.chunk(number)[ordinals[places] & CHUNK_ROWS - 1] = matrix[places]

    def move(self, origins: Ordinals, targets: Ordinals) -> None:
        """Write at targets what the base has at origins."""
        for number, places in by_chunk(targets):
            self.chunk(number)[targets[places] & CHUNK_ROWS - 1] = self.base.rows(origins[places])

    def rows(self, ordinals: Ordinals) -> Matrix:
        """The rows of ordinals as they are now, copied."""
        return StoredVectors(self.base.dimensions, tuple(self._chunks), EMPTY).rows(ordinals)

    def chunk(self, number: int) -> Matrix:
        """A chunk that may be written."""
        if number >= len(self._chunks):
            self._chunks += [_zero_chunk(self.base.dimensions)] * (number + 1 - len(self._chunks))
        if number not in self._own:
            self._chunks[number] = _writable(self._chunks[number])
            self._own.add(number)
        return self._chunks[number]

    def finish(self, present: OrdinalSet) -> StoredVectors:
        """The column; nothing can be written afterwards."""
        if present.max() >= len(self._chunks) << _SHIFT:
            raise InputError(f"ordinal {present.max()} has no row", "OutOfRange")
        for number in self._own:
            self._chunks[number].flags.writeable = False
        sums = {number: known for number, known in self.base._sums.items() if number not in self._own}
        return StoredVectors(self.base.dimensions, tuple(self._chunks), present, _sums=sums)


def present_in(present: OrdinalSet, chunk: int) -> NDArray[np.bool_]:
    """One truth value for each row of a chunk."""
    words = _words_in(present, chunk)
    flags = np.zeros(CHUNK_ROWS, np.bool_)
    flags[: len(words) * 64] = np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)
    return flags


def _words_in(present: OrdinalSet, chunk: int) -> NDArray[np.uint64]:
    return present.words[chunk * (CHUNK_ROWS // 64) : (chunk + 1) * (CHUNK_ROWS // 64)]


def is_shared_zero(chunk: Matrix) -> bool:
    """True for a chunk in which no row was ever written."""
    return chunk.strides[0] == 0


def _check_ordinals(ordinals: Ordinals) -> None:
    if len(ordinals) and int(ordinals.min()) < 0:
        raise InputError("ordinals start at 0", "OutOfRange")


def by_chunk(ordinals: Ordinals) -> Iterator[tuple[int, "slice | Ordinals"]]:
    """The chunks of ordinals, and the places of those in each: a slice where they rise."""
    if not len(ordinals):
        return
    numbers = ordinals >> _SHIFT
    if bool((numbers[1:] >= numbers[:-1]).all()):
        starts = np.concatenate([[0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1, [len(numbers)]]).tolist()
        for start, end in pairwise(starts):
            yield int(numbers[start]), slice(start, end)
        return
    order = np.argsort(numbers, kind="stable")
    for number, places in by_chunk(ordinals[order]):
        yield number, order[places]


@lru_cache(maxsize=64)
def _zero_chunk(dimensions: int) -> Matrix:
    return np.broadcast_to(np.zeros(dimensions, np.float32), (CHUNK_ROWS, dimensions))


def _writable(chunk: Matrix) -> Matrix:
    """A copy of a chunk, in memory that a shared arena may have given."""
    used_bytes = chunk.shape[0] * chunk.shape[1] * 4
    if is_shared_zero(chunk):
        memory = buffers.zeros(used_bytes)
        return memory[:used_bytes].view(np.float32).reshape(chunk.shape)
    memory = buffers.empty(used_bytes)
    made = memory[:used_bytes].view(np.float32).reshape(chunk.shape)
    made[:] = chunk
    return made


def _same_rows(one: Matrix, two: Matrix, counted: NDArray[np.bool_]) -> bool:
    if is_shared_zero(one) or is_shared_zero(two):
        one, two = np.ascontiguousarray(one), np.ascontiguousarray(two)
    differs = one.view(np.uint32) != two.view(np.uint32)
    return not bool((differs.any(axis=1) & counted).any())


@lru_cache(maxsize=64)
def _keys(dimensions: int) -> NDArray[np.uint64]:
    return mixed(np.arange(1, dimensions + 1, dtype=np.uint64) * np.uint64(_STEP)) | np.uint64(1)

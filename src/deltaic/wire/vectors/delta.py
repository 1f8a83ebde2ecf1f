"""What changed between two versions of one vector, whatever format carried it (vector-delta.md, "the model").

Values are handled as 32-bit patterns: nothing is ever rounded, NaN payloads and the sign of zero are kept.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.wire.vectors.faults import misuse

Words = NDArray[np.uint32]
Vector = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class VectorDelta:
    """Some dimensions of a vector and what they are now, or by how much their patterns moved.

    `words` are the new patterns, or with `relative` the differences of the patterns modulo 2^32; `prev` are the old
    patterns, where they are known.
    """

    dims: int
    indices: Words
    words: Words
    relative: bool = False
    prev: Words | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VectorDelta):
            return NotImplemented
        if self.dims != other.dims or not np.array_equal(self.indices, other.indices):
            return False
        if self.is_identity:
            return True
        if self.relative != other.relative or not np.array_equal(self.words, other.words):
            return False
        if self.prev is None or other.prev is None:
            return self.prev is other.prev
        return np.array_equal(self.prev, other.prev)

    @classmethod
    def identity(cls, dims: int) -> Self:
        """The delta that changes nothing."""
        empty = np.zeros(0, np.uint32)
        return cls(dims, empty, empty)

    @property
    def is_identity(self) -> bool:
        """True if nothing changes."""
        return not len(self.indices)

    @property
    def values(self) -> Vector:
        """The new values.

        Raises:
            InputError: the delta is relative, so that the values depend on the base.
        """
        if self.relative:
            raise InputError("a relative delta has differences, no values")
        return self.words.view(np.float32)

    def apply(self, base: Vector, *, check_prev: bool = False, in_place: bool = False) -> Vector:
        """The vector after the change; everything is checked before anything is changed.

        Args:
            base: the vector before, float32.
            check_prev: refuse if the base does not hold what the delta says it held.
            in_place: change the base itself.

        Raises:
            InputError: `DimensionMismatch`, or `BaseMismatch` when previous values disagree.
        """
        patterns = patterns_of(base, "the base")
        if len(patterns) != self.dims:
            raise misuse("DimensionMismatch", f"a delta of {self.dims} dimensions on a vector of {len(patterns)}")
        if check_prev and self.prev is not None:
            wrong = np.flatnonzero(patterns[self.indices] != self.prev)
            if len(wrong):
                raise misuse("BaseMismatch", f"dimension {self.indices[wrong[0]]} is not what it was before the delta")
        if in_place and not base.flags.writeable:
            raise InputError("a vector that is changed in place must be writable")
        result = base if in_place else base.copy()
        after = result.view(np.uint32)
        after[self.indices] = after[self.indices] + self.words if self.relative else self.words
        return result

    def inverse(self) -> "VectorDelta":
        """The delta that leads back.

        Raises:
            InputError: `NotInvertible`, for absolute values without previous ones.
        """
        if self.is_identity:
            return self
        if self.relative:
            return VectorDelta(self.dims, self.indices, np.uint32(0) - self.words, relative=True)
        if self.prev is None:
            raise misuse("NotInvertible", "an absolute delta without previous values cannot be undone")
        return VectorDelta(self.dims, self.indices, self.prev, prev=self.words)

    def then(self, second: "VectorDelta", *, prune: bool = False) -> "VectorDelta":
        """One delta with the effect of this one and then the other, without loss.

        Args:
            second: what is applied afterwards.
            prune: drop entries that are known to change nothing.

        Raises:
            InputError: `DimensionMismatch`; `NotComposable` where the result would be half relative.
        """
        if self.dims != second.dims:
            raise misuse("DimensionMismatch", f"deltas of {self.dims} and of {second.dims} dimensions")
        if self.is_identity or second.is_identity:
            composed = second if self.is_identity else self
        elif self.relative == second.relative:
            composed = _both_relative(self, second) if self.relative else _both_absolute(self, second)
        elif second.relative:
            composed = _absolute_relative(self, second)
        else:
            composed = _relative_absolute(self, second)
        return composed.pruned() if prune else composed

    def pruned(self) -> "VectorDelta":
        """The same without entries that are known to change nothing."""
        if self.relative:
            kept = self.words != 0
        elif self.prev is not None:
            kept = self.words != self.prev
        else:
            return self
        prev = None if self.prev is None or not kept.any() else self.prev[kept]
        return VectorDelta(self.dims, self.indices[kept], self.words[kept], self.relative, prev)


def patterns_of(vector: Vector, what: str) -> Words:
    """The patterns of a float32 vector.

    Raises:
        InputError: it is something else.
    """
    array = np.asarray(vector)
    if array.dtype != np.float32 or array.ndim != 1:
        raise InputError(f"{what} is no vector of float32")
    # Kernels want words side by side.
    return np.ascontiguousarray(array).view(np.uint32)


def _both_absolute(first: VectorDelta, second: VectorDelta) -> VectorDelta:
    indices = np.union1d(first.indices, second.indices)
    in_first, in_second = np.searchsorted(indices, first.indices), np.searchsorted(indices, second.indices)
    words = np.empty(len(indices), np.uint32)
    words[in_first] = first.words
    words[in_second] = second.words
    prev = np.empty(len(indices), np.uint32)
    known = np.zeros(len(indices), np.bool_)
    # What an index was before both is what it was before the first of them that has it.
    if second.prev is not None:
        prev[in_second], known[in_second] = second.prev, True
    known[in_first] = first.prev is not None
    if first.prev is not None:
        prev[in_first] = first.prev
    return VectorDelta(first.dims, indices, words, prev=prev if known.all() else None)


def _both_relative(first: VectorDelta, second: VectorDelta) -> VectorDelta:
    indices = np.union1d(first.indices, second.indices)
    words = np.zeros(len(indices), np.uint32)
    words[np.searchsorted(indices, first.indices)] = first.words
    words[np.searchsorted(indices, second.indices)] += second.words
    return VectorDelta(first.dims, indices, words, relative=True)


def _absolute_relative(first: VectorDelta, second: VectorDelta) -> VectorDelta:
    places = _places(second.indices, first.indices, "the first delta is absolute and lacks dimensions of the second")
    words = first.words.copy()
    words[places] += second.words
    return VectorDelta(first.dims, first.indices, words, prev=first.prev)


def _relative_absolute(first: VectorDelta, second: VectorDelta) -> VectorDelta:
    places = _places(first.indices, second.indices, "the second delta is absolute and lacks dimensions of the first")
    prev = second.prev
    if prev is not None:
        prev = prev.copy()
        prev[places] -= first.words
    return VectorDelta(first.dims, second.indices, second.words, prev=prev)


def _places(wanted: Words, indices: Words, reason: str) -> NDArray[np.intp]:
    places = np.searchsorted(indices, wanted)
    found = places < len(indices)
    if not found.all() or not np.array_equal(indices[places], wanted):
        raise misuse("NotComposable", reason)
    return places

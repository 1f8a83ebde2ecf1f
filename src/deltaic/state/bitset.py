"""Sets of ordinals as bits: which records of a type are populated, which are ghosts.

Ordinal o is bit (o mod 64) of word (o div 64), as in hollow-blob.md, "populated ordinals".
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import bits

Words = NDArray[np.uint64]


class OrdinalSet:
    """An immutable set of ordinals."""

    def __init__(self, words: Words) -> None:
        if len(words) and not words[-1]:
            used = np.flatnonzero(words)
            words = words[: int(used[-1]) + 1 if len(used) else 0]
        self.words: Words = np.ascontiguousarray(words).view()
        """The bits, without empty words at the end; read-only."""
        self.words.flags.writeable = False

    @classmethod
    def from_words(cls, words: Words) -> Self:
        """The set whose bits are `words`."""
        return cls(words)

    @classmethod
    def from_ordinals(cls, ordinals: NDArray[np.int64]) -> Self:
        """The set of these ordinals, in any order."""
        if not len(ordinals):
            return cls(np.zeros(0, np.uint64))
        words = np.zeros((int(ordinals.max()) >> 6) + 1, np.uint64)
        bits.set_bits(words, ordinals)
        return cls(words)

    @classmethod
    def all_below(cls, count: int) -> Self:
        """The ordinals 0 to `count` - 1."""
        words = np.zeros((count + 63) // 64, np.uint64)
        words[:] = np.uint64(0xFFFF_FFFF_FFFF_FFFF)
        if count % 64:
            words[-1] = np.uint64((1 << count % 64) - 1)
        return cls(words)

    def ordinals(self) -> NDArray[np.int64]:
        """The ordinals, rising."""
        return bits.list_bits(self.words)

    def flags(self, count: int) -> NDArray[np.bool_]:
        """One truth value for each of the ordinals 0 to `count` - 1."""
        flags = np.zeros(count, np.bool_)
        spread = np.unpackbits(self.words.view(np.uint8), bitorder="little").view(np.bool_)
        flags[: len(spread)] = spread[:count]
        return flags

    @cached_property
    def _count(self) -> int:
        return int(np.bitwise_count(self.words).sum())

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return len(self.words) > 0

    def __contains__(self, ordinal: object) -> bool:
        if not isinstance(ordinal, int | np.integer) or ordinal < 0:
            return False
        word = int(ordinal) >> 6
        return word < len(self.words) and bool(int(self.words[word]) >> (int(ordinal) & 63) & 1)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ordinals().tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OrdinalSet) and np.array_equal(self.words, other.words)

    def __hash__(self) -> int:
        return hash(self.words.tobytes())

    def __repr__(self) -> str:
        shown = ", ".join(str(ordinal) for ordinal in self.ordinals()[:8].tolist())
        return f"OrdinalSet({len(self)} of {self.max() + 1}: {shown}{', …' if len(self) > 8 else ''})"

    def max(self) -> int:
        """The largest ordinal, or -1."""
        if not len(self.words):
            return -1
        return (len(self.words) - 1) * 64 + int(self.words[-1]).bit_length() - 1

    def union(self, other: "OrdinalSet") -> "OrdinalSet":
        """Ordinals in either set."""
        longer, shorter = sorted((self.words, other.words), key=len, reverse=True)
        words = longer.copy()
        words[: len(shorter)] |= shorter
        return OrdinalSet(words)

    def difference(self, other: "OrdinalSet") -> "OrdinalSet":
        """Ordinals in this set and not in the other."""
        words = self.words.copy()
        shared = min(len(words), len(other.words))
        words[:shared] &= ~other.words[:shared]
        return OrdinalSet(words)

    def intersection(self, other: "OrdinalSet") -> "OrdinalSet":
        """Ordinals in both sets."""
        shared = min(len(self.words), len(other.words))
        return OrdinalSet(self.words[:shared] & other.words[:shared])


EMPTY = OrdinalSet(np.zeros(0, np.uint64))
"""The set of no ordinals."""

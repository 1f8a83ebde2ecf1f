"""Texts in order: what prefix and range indexes search.

Texts are UTF-8 in the order of their bytes, which is the order of their characters' numbers. Lower case is Python's
`str.lower`, which like Java's goes by Unicode and not by a language; ASCII texts take a short way to the same.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import access, keys, text

_SEPARATORS = [chr(code) for code in (0, *range(1, 9), *range(14, 28), 0xFDD0, 0xFDD1, 0xFFFE, 0xFFFF)]
"""Characters that no case rule looks at, to part texts that are lowered together."""


@dataclass(frozen=True, slots=True, eq=False)
class SortedTexts:
    """Texts in the order of their bytes, and the record that each belongs to."""

    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]
    roots: NDArray[np.int32]

    @classmethod
    def of(cls, offsets: NDArray[np.int64], data: NDArray[np.uint8], roots: NDArray[np.int32]) -> "SortedTexts":
        """Put texts in order."""
        order = keys.sort_texts(offsets, data)
        ends, ordered = access.gather_slices(data, offsets[:-1][order], offsets[1:][order])
        return cls(ends, ordered, roots[order])

    def starting(self, prefix: bytes) -> slice:
        """The places of the texts that start with a prefix."""
        first = keys.text_place(self.offsets, self.data, prefix, 0)
        return slice(first, keys.text_place(self.offsets, self.data, prefix, 2))

    def between(self, low: bytes | None, high: bytes | None, with_low: bool, with_high: bool) -> slice:
        """The places of the texts from one to another; None is without bound."""
        first = 0 if low is None else keys.text_place(self.offsets, self.data, low, 0 if with_low else 1)
        last = len(self.roots)
        if high is not None:
            last = keys.text_place(self.offsets, self.data, high, 1 if with_high else 0)
        return slice(first, max(first, last))

    def at(self, place: int) -> str:
        """One text."""
        return self.data[self.offsets[place] : self.offsets[place + 1]].tobytes().decode("utf-8", "surrogatepass")


def utf8(offsets: NDArray[np.int64], units: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Texts as records store them, in UTF-8."""
    ends, data, _, _ = text.units_to_utf8(np.ascontiguousarray(units), offsets[:-1], offsets[1:])
    return ends, np.ascontiguousarray(data)


def encoded(value: str) -> bytes:
    """One text in UTF-8, lone surrogates as they are."""
    return value.encode("utf-8", "surrogatepass")


def lowered(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Texts in lower case."""
    if text.is_ascii(data):
        return offsets, keys.lower_ascii(data)
    sizes = np.diff(offsets)
    foreign = np.flatnonzero(np.add.reduceat(np.append(data >= 0x80, False), offsets[:-1])[: len(sizes)] * (sizes > 0))
    plain = keys.lower_ascii(data)
    ends, own = access.gather_slices(data, offsets[:-1][foreign], offsets[1:][foreign])
    new_ends, new = _lowered_together(ends, own)
    # The texts that are not ASCII come from the second buffer: their lengths may have changed.
    both = np.concatenate([plain, new])
    starts, stops = offsets[:-1].copy(), offsets[1:].copy()
    starts[foreign] = new_ends[:-1] + len(plain)
    stops[foreign] = new_ends[1:] + len(plain)
    return access.gather_slices(both, starts, stops)


def _lowered_together(
    offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Many texts lowered by one call, parted by a character that none of them has."""
    whole = data.tobytes()
    parted = next((mark for mark in _SEPARATORS if mark.encode() not in whole), None)
    pieces = [whole[start:end] for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]
    if parted is None:
        done = [encoded(piece.decode("utf-8", "surrogatepass").lower()) for piece in pieces]
    else:
        joined = parted.encode().join(pieces).decode("utf-8", "surrogatepass")
        done = encoded(joined.lower()).split(parted.encode())
    ends = np.zeros(len(done) + 1, np.int64)
    np.cumsum([len(piece) for piece in done], out=ends[1:])
    return ends, np.frombuffer(b"".join(done), np.uint8)


def words(
    offsets: NDArray[np.int64], data: NDArray[np.uint8], roots: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int32]]:
    """The words of texts, parted by white space, each with the record of its text."""
    rows, starts, stops = keys.split_texts(offsets, data)
    ends, parts = access.gather_slices(data, starts, stops)
    return ends, parts, roots[rows]

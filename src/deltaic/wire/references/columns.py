"""Parameters of many references as columns, to make blocks from arrays without a Python object for each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, RegistryError
from deltaic.kernels import references as kernel
from deltaic.wire.references.numbers import LARGEST, Bytes, decode_number
from deltaic.wire.references.reference import ParameterType

Integers = Sequence[int] | NDArray[np.integer]


@dataclass(frozen=True, slots=True, eq=False)
class ParameterColumn:
    """One parameter for each reference: a type, and the bytes of all values with where each begins."""

    code: int
    offsets: NDArray[np.int64]
    data: NDArray[np.uint8]

    def __post_init__(self) -> None:
        # Kernels copy by these offsets and do not look at them.
        offsets = self.offsets
        if not 0 < self.code <= 0xFF:
            raise RegistryError("InvalidParam", f"{self.code} is no type of a parameter")
        if offsets.dtype != np.int64 or self.data.dtype != np.uint8 or not len(offsets):
            raise InputError("a column of parameters is 64-bit offsets, one more than values, and bytes")
        lengths = np.diff(offsets)
        if int(offsets[0]) < 0 or int(offsets[-1]) > len(self.data) or np.any(lengths < 0):
            raise InputError("the offsets of a column of parameters do not lie in its data")
        if len(lengths) and int(lengths.max()) > LARGEST:
            raise RegistryError("VarintOverflow", f"a parameter's value has more than {LARGEST:,} bytes")

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def parents(cls, fields: Integers) -> Self:
        """A parent for each reference."""
        return cls(ParameterType.PARENT, *encode_numbers(fields))

    @classmethod
    def elements(cls, elements: Integers) -> Self:
        """An element of an array for each reference."""
        return cls(ParameterType.INDEX, *encode_numbers(elements))

    @classmethod
    def ranges(cls, starts: Integers, ends: Integers) -> Self:
        """A half-open range for each reference."""
        both = np.stack([_integers(starts), _integers(ends)], axis=1)
        offsets, data = encode_numbers(both.ravel())
        return cls(ParameterType.RANGE, offsets[::2].copy(), data)

    @classmethod
    def keys(cls, offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> Self:
        """A map key for each reference, from texts as kernels hold them: where each begins, and all their UTF-8."""
        return cls(ParameterType.MAP_KEY, np.ascontiguousarray(offsets, np.int64), np.ascontiguousarray(data, np.uint8))


def encode_numbers(values: Integers) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Numbers one after the other (field-registry.md, 1): where each begins and the last ends, and the bytes."""
    given = _integers(values)
    if len(given) and not 0 <= int(given.min()) <= int(given.max()) <= LARGEST:
        raise RegistryError("VarintOverflow", f"a value is no number from 0 to {LARGEST:,}")
    return kernel.encode_numbers(given.astype(np.uint32))


def decode_numbers(data: Bytes, count: int, offset: int = 0) -> tuple[NDArray[np.uint32], int]:
    """Read so many numbers from an offset; give them and the offset behind them."""
    if count > len(data) - offset:
        raise RegistryError("Truncated", f"{count} numbers in {max(len(data) - offset, 0)} bytes", offset)
    values = np.empty(count, np.uint32)
    done, end = kernel.decode_numbers(np.frombuffer(data, np.uint8), offset, values)
    if done < count:
        decode_number(data, end)
        raise RegistryError("Truncated", f"{count} numbers are said and {done} are there", end)
    return values, end


def lay_out(
    count: int, columns: Sequence[ParameterColumn]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """All bytes of the columns, and where each value begins and ends, reference by reference."""
    for column in columns:
        if len(column) != count:
            raise InputError(f"a column of {len(column)} parameters for {count} references")
    starts = np.empty((count, len(columns)), np.int64)
    ends = np.empty((count, len(columns)), np.int64)
    base = 0
    for place, column in enumerate(columns):
        starts[:, place] = column.offsets[:-1] + base
        ends[:, place] = column.offsets[1:] + base
        base += len(column.data)
    data = np.concatenate([column.data for column in columns]) if columns else np.empty(0, np.uint8)
    return data, starts.ravel(), ends.ravel()


def _integers(values: Integers) -> NDArray[np.int64]:
    return np.ascontiguousarray(values, np.int64)

"""Digests of values: 128 bits that stand for a number, a text, a set of such, computed by column.

A digest is two 64-bit lanes with seeds of their own. Different values share a digest by chance only: among a billion
of them with a probability below 1 in 10^20. The seeds are drawn anew in every process, so that nobody can prepare
values that share one; `FIXED` has seeds that never change, for what must come out alike everywhere. A null has the
digest 0.
"""

import hashlib
import secrets
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import records
from deltaic.schema.types import FieldType
from deltaic.state.columns import BytesColumn, Column, FixedColumn

Digest = NDArray[np.uint64]
"""Digests of many values: two rows of lanes, a value in each column."""

_WORD = 8
_GOLDEN = np.uint64(0x9E37_79B9_7F4A_7C15)

_FAMILIES = {
    FieldType.INT: "integer",
    FieldType.LONG: "integer",
    FieldType.BOOLEAN: "boolean",
    FieldType.FLOAT: "float",
    FieldType.DOUBLE: "double",
    FieldType.STRING: "text",
    FieldType.BYTES: "bytes",
    FieldType.REFERENCE: "reference",
}
"""What values are compared as: a field that grew from INT to LONG has not changed."""


@dataclass(frozen=True, slots=True, eq=False)
class Seeds:
    """Where digests start from. Only digests of the same seeds can be compared."""

    key: bytes
    _made: dict[str, Digest] = field(default_factory=dict)

    def of(self, name: str) -> Digest:
        """Two numbers for a name, as a column of lanes."""
        found = self._made.get(name)
        if found is None:
            text = name.encode("utf-8", "surrogatepass")
            raw = hashlib.blake2b(text, digest_size=16, key=self.key).digest()
            found = self._made[name] = np.frombuffer(raw, "<u8").astype(np.uint64).reshape(2, 1)
        return found


DRAWN = Seeds(secrets.token_bytes(16))
"""The seeds of this process."""

FIXED = Seeds(b"deltaic")
"""Seeds that are the same in every process and every version of deltaic."""


def mixed(words: Digest) -> Digest:
    """Spread every bit over all bits of a word, in place (the finalizer of splitmix64)."""
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58_476D_1CE4_E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D0_49BB_1331_11EB)
    words ^= words >> np.uint64(31)
    return words


def tagged(digests: Digest, seed: Digest) -> Digest:
    """Digests as they count in one role, such as a field; a null stays 0."""
    spread = mixed(digests ^ seed)
    spread[:, ~digests.any(axis=0)] = 0
    return spread


def sums(digests: Digest, offsets: NDArray[np.int64]) -> Digest:
    """For each run between two offsets the sum of its digests."""
    running = np.zeros((2, digests.shape[1] + 1), np.uint64)
    np.cumsum(digests, axis=1, out=running[:, 1:])
    found: Digest = running[:, offsets[1:]] - running[:, offsets[:-1]]
    return found


def places(offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """For each member of each run its place in the run."""
    count = int(offsets[-1] - offsets[0])
    starts = np.repeat(offsets[:-1] - offsets[0], np.diff(offsets))
    found: NDArray[np.uint64] = (np.arange(count) - starts).astype(np.uint64)
    return found


def column_digest(column: Column, seeds: Seeds) -> Digest:
    """The digests of the values of a column, 0 where they are null."""
    seed = seeds.of(_FAMILIES[column.type])
    if isinstance(column, BytesColumn):
        found = _bytes_digest(column.offsets, column.data, seed)
    else:
        assert isinstance(column, FixedColumn)
        found = mixed(number_bits(column.values) + seed)
    if column.valid is not None:
        found[:, ~column.valid] = 0
    return found


def number_bits(values: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Numbers as 64 bits, equal for equal values; all NaN are one, 0.0 and -0.0 are two."""
    if values.dtype.kind == "f":
        wide = np.where(np.isnan(values), values.dtype.type(np.nan), values)
        narrow = wide.dtype.itemsize == 4
        return wide.view(np.uint32 if narrow else np.uint64).astype(np.uint64)
    if values.dtype.kind == "b":
        return values.astype(np.uint64)
    return values.astype(np.int64).view(np.uint64)


def _bytes_digest(offsets: NDArray[np.int64], data: NDArray[np.uint8], seed: Digest) -> Digest:
    lengths = np.diff(offsets)
    words = (lengths + _WORD - 1) // _WORD
    bounds = np.zeros(len(words) + 1, np.int64)
    np.cumsum(words, out=bounds[1:])
    padded = np.zeros(int(bounds[-1]) * _WORD, np.uint8)
    records.scatter_ranges(data, offsets, padded, bounds[:-1] * _WORD)
    # The place of a word is mixed in by lane, so that no exchange of words fits both.
    spread = mixed(places(bounds) * _GOLDEN + seed)
    spread ^= padded.view("<u8")
    found = sums(mixed(spread), bounds)
    found += (lengths.astype(np.uint64) + np.uint64(1)) * _GOLDEN + seed
    return mixed(found)

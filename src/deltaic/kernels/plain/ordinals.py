"""The map from serialized records to ordinals, plain: a dict of bytes.

A record is a byte string (hollow-blob.md, section 11). Known bytes keep their ordinal, new ones take the next of the
free pool, or the next number that was never used; every record added is marked populated. With four partitions a new
record takes its ordinal from the partition (bytes hash and 3), whose ordinals are those with that remainder (section
12). Callers see to it that `ends` never fall and stay inside `data`.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import hashing

Bytes = NDArray[np.uint8]
Ends = NDArray[np.int64]
Ordinals = NDArray[np.int32]
Words = NDArray[np.uint64]

LAST_LOCAL_ORDINAL = 2**29 - 1
"""The highest ordinal of one partition."""

MAX_ARENA_BYTES = 2**35
"""Bytes of serialized records that one partition holds at most."""

_SLACK = 16
_FIRST_START = 4


class OrdinalMap:
    """Serialized records by ordinal, and ordinals by serialized record."""

    def __init__(self, partitions: int = 1) -> None:
        self._partitions = partitions
        self._records: dict[int, bytes] = {}
        self._index: dict[bytes, int] = {}
        self._populated: set[int] = set()
        self._unused: set[int] = set()
        self._pools: list[list[int]] = [[] for _ in range(partitions)]
        self._next = [0] * partitions
        self._size = 0
        self._highest = -1

    def __len__(self) -> int:
        """Records held."""
        return len(self._records)

    @property
    def max_ordinal(self) -> int:
        """The highest ordinal held, or -1."""
        return self._highest

    @property
    def nbytes(self) -> int:
        """Bytes of the records held."""
        return self._size

    @property
    def arena(self) -> Bytes:
        """The bytes of all records, in any order, and slack behind them."""
        return self._layout()[0]

    @property
    def starts(self) -> Ends:
        """Where the record of each ordinal starts in `arena`; 0 where there is none."""
        return self._layout()[1]

    @property
    def held(self) -> Words:
        """The ordinals that have a record, as bits."""
        return _words(self._records, self.max_ordinal)

    @property
    def populated(self) -> Words:
        """The ordinals marked as populated, as bits."""
        return _words(self._populated, max(self._populated, default=-1))

    @populated.setter
    def populated(self, words: Words) -> None:
        self._populated = _members(words)

    @property
    def unclaimed(self) -> Words:
        """The reserved ordinals that no record has claimed, as bits."""
        return _words(self._unused, max(self._unused, default=-1))

    def reserve(self, words: Words) -> None:
        """Name the ordinals that `preferred` may claim."""
        self._unused = _members(words)

    @property
    def free(self) -> list[Ordinals]:
        """The free ordinals of each partition in the order in which they are handed out."""
        return [np.array(pool, np.int32) for pool in self._pools]

    @property
    def next_local(self) -> list[int]:
        """The next never-used number of each partition."""
        return list(self._next)

    def set_free(self, pools: Sequence[Ordinals], next_local: Sequence[int]) -> None:
        """Set the free ordinals of each partition in hand-out order, and the next never-used numbers."""
        self._pools = [pool.tolist() for pool in pools]
        self._next = list(next_local)

    def record(self, ordinal: int) -> bytes:
        """The bytes of one record."""
        return self._records[ordinal]

    def assign(
        self, data: Bytes, ends: Ends, order: NDArray[np.int64] | None = None, preferred: Ordinals | None = None
    ) -> Ordinals:
        """The ordinal of every record; new ones are added in the order of rows, or in `order` (only those rows then).

        `preferred` holds, per row, the reserved ordinal that a new record claims if nobody did yet, or -1.
        """
        records = _split(data, ends)
        ordinals = np.full(len(records), -1, np.int32)
        for row in range(len(records)) if order is None else order.tolist():
            ordinals[row] = self.add(records[row], -1 if preferred is None else int(preferred[row]))
        return ordinals

    def add(self, record: bytes, preferred: int = -1) -> int:
        """The ordinal of one record, which is added if it is new."""
        ordinal = self._index.get(record, -1)
        if ordinal < 0:
            ordinal = self._take(record, preferred)
            self._insert(record, ordinal)
        self._populated.add(ordinal)
        return ordinal

    def find(self, data: Bytes, ends: Ends) -> Ordinals:
        """The ordinal of every record, or -1."""
        return np.array([self._index.get(record, -1) for record in _split(data, ends)], np.int32)

    def put(self, data: Bytes, ends: Ends, ordinals: Ordinals) -> None:
        """Add records under given ordinals, without looking for equal ones and without marking them populated."""
        for record, ordinal in zip(_split(data, ends), ordinals.tolist(), strict=True):
            self._insert(record, ordinal)

    def unmark(self, ordinals: NDArray[np.int64]) -> None:
        """Mark these ordinals as not populated."""
        self._populated.difference_update(ordinals.tolist())

    def retain(self, live: Words) -> None:
        """Drop the records whose ordinal is not in `live`. Free ordinals are not touched."""
        keep = _members(live)
        self._records = {ordinal: record for ordinal, record in self._records.items() if ordinal in keep}
        self._index = {}
        for ordinal, record in self._records.items():
            self._index.setdefault(record, ordinal)
        self._size = sum(map(len, self._records.values()))
        self._highest = max(self._records, default=-1)

    def _take(self, record: bytes, preferred: int) -> int:
        if preferred >= 0 and preferred in self._unused:
            self._unused.remove(preferred)
            return preferred
        partition = hashing.bytes_hash_one(record) & 3 if self._partitions == 4 else 0
        if pool := self._pools[partition]:
            return pool.pop(0)
        local = self._next[partition]
        if local > LAST_LOCAL_ORDINAL:
            raise OverflowError("ordinals")
        self._next[partition] = local + 1
        return local * self._partitions + partition

    def _insert(self, record: bytes, ordinal: int) -> None:
        if self._size + len(record) > MAX_ARENA_BYTES * self._partitions:
            raise OverflowError("bytes")
        self._size += len(record)
        self._records[ordinal] = record
        self._highest = max(self._highest, ordinal)
        self._index.setdefault(record, ordinal)

    def _layout(self) -> tuple[Bytes, Ends]:
        starts = np.zeros(self.max_ordinal + 1, np.int64)
        position = _FIRST_START
        for ordinal, record in self._records.items():
            starts[ordinal] = position
            position += len(record)
        arena = bytes(_FIRST_START) + b"".join(self._records.values()) + bytes(_SLACK)
        return np.frombuffer(arena, np.uint8), starts


def _split(data: Bytes, ends: Ends) -> list[bytes]:
    whole = data.tobytes()
    starts = [0, *ends.tolist()]
    return [whole[start:end] for start, end in pairwise(starts)]


def _words(members: "set[int] | dict[int, bytes]", last: int) -> Words:
    flags = np.zeros((last // 64 + 1) * 64, np.uint8)
    flags[list(members)] = 1
    return np.packbits(flags, bitorder="little").view("<u8")


def _members(words: Words) -> set[int]:
    flags = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), bitorder="little")
    return set(np.flatnonzero(flags).tolist())

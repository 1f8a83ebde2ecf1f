"""Runs: serialized records of one type from one place, sorted by their bytes, so that a range of them is a slice.

Every record of a type that two tasks may both have must meet in one task, and new records are numbered in the order of
their bytes. So types are cut into ranges of bytes; where to cut follows from the keys that runs show of themselves
(the first record of each block).
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import records
from deltaic.spark.build_scratch import Part, Scratch

Bytes = NDArray[np.uint8]
Ends = NDArray[np.int64]
Labels = NDArray[np.int32]

_BLOCKS = 64
_KEY_BYTES = 48


class Block(msgspec.Struct, frozen=True, array_like=True):
    """Where a block of a run starts, and the first bytes of its first record."""

    key: bytes
    row: int


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Distinct records of a type. A label says which record it was where the run comes from."""

    rows: int
    data: Part
    ends: Part
    labels: Part | None
    """None: labels count from 0."""
    blocks: list[Block]
    """Empty: the run is not sorted."""
    beside: list[Part] = []
    """Bytes and ends of the same records in another form, row by row."""

    @property
    def data_bytes(self) -> int:
        """Bytes of its records."""
        return self.data.count


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Serialized records in memory: back to back, and where each one ends."""

    data: Bytes
    ends: Ends

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def starts(self) -> Ends:
        """Where each one starts."""
        starts = np.empty(len(self.ends), np.int64)
        starts[:1] = 0
        starts[1:] = self.ends[:-1]
        return starts

    def take(self, rows: NDArray[np.int64]) -> "Records":
        """Some of them, in this order."""
        offsets, data = records.gather_ranges(self.data, self.starts[rows], self.ends[rows])
        return Records(data, offsets[1:])

    def slice(self, first: int, last: int) -> "Records":
        """Those from `first` up to `last`."""
        begin = int(self.ends[first - 1]) if first else 0
        stop = int(self.ends[last - 1]) if last else 0
        return Records(self.data[begin:stop], self.ends[first:last] - begin)

    def at(self, row: int) -> bytes:
        """One of them."""
        begin = int(self.ends[row - 1]) if row else 0
        return self.data[begin : int(self.ends[row])].tobytes()


NO_RECORDS = Records(np.zeros(0, np.uint8), np.zeros(0, np.int64))


def joined(parts: Sequence[Records]) -> Records:
    """Records of several places, one behind the other."""
    parts = [part for part in parts if len(part)]
    if not parts:
        return NO_RECORDS
    if len(parts) == 1:
        return parts[0]
    bases = np.cumsum([0, *(len(part.data) for part in parts)]).tolist()
    return Records(
        np.concatenate([part.data for part in parts]),
        np.concatenate([part.ends + base for part, base in zip(parts, bases, strict=False)]),
    )


def write_run(
    scratch: Scratch, found: Records, *, cut: int, labels: Labels | None = None, beside: Records | None = None
) -> Run:
    """Write a run, sorted if it has so many rows that it is read range by range: `cut` rows (0: never).

    `beside` is another form of the same records.
    """
    blocks: list[Block] = []
    if cut and len(found) >= cut:
        order = records.sort_records(found.data, found.ends, np.arange(len(found)))
        found = found.take(order)
        labels = order.astype(np.int32) if labels is None else labels[order]
        beside = None if beside is None else beside.take(order)
        blocks = _blocks(found)
    arrays: list[NDArray[Any]] = [found.data, found.ends]
    if beside is not None:
        arrays += [beside.data, beside.ends]
    if labels is not None:
        arrays.append(labels)
    parts = scratch.write(*arrays)
    return Run(
        len(found),
        parts[0],
        parts[1],
        None if labels is None else parts[-1],
        blocks,
        [] if beside is None else parts[2:4],
    )


@dataclass(frozen=True, slots=True, eq=False)
class RunSlice:
    """Records of a run in memory."""

    found: Records
    labels: Labels
    beside: Records | None

    def __len__(self) -> int:
        return len(self.labels)


def read_range(scratch: Scratch, run: Run, low: bytes | None, high: bytes | None) -> RunSlice:
    """The records of a run from the bytes `low` up to before `high`."""
    first, last = 0, run.rows
    if run.blocks:
        keys = [block.key for block in run.blocks]
        # Keys may be cut off, and so be before their record: one block earlier is safe.
        start = max(bisect_left(keys, low) - 1, 0) if low is not None else 0
        stop = bisect_left(keys, high) if high is not None else len(keys)
        first = run.blocks[start].row
        last = run.blocks[stop].row if stop < len(keys) else run.rows
    if last <= first:
        return RunSlice(NO_RECORDS, np.zeros(0, np.int32), NO_RECORDS if run.beside else None)
    found = _read_rows(scratch, run.data, run.ends, first, last)
    beside = _read_rows(scratch, run.beside[0], run.beside[1], first, last) if run.beside else None
    if run.labels is None:
        labels = np.arange(first, last, dtype=np.int32)
    else:
        labels = scratch.read(run.labels.piece(first, last))
    if low is None and high is None:
        return RunSlice(found, labels, beside)
    if not run.blocks:
        order = records.sort_records(found.data, found.ends, np.arange(len(found)))
        found, labels = found.take(order), labels[order]
        beside = None if beside is None else beside.take(order)
    begin = _lower_bound(found, low) if low is not None else 0
    end = max(begin, _lower_bound(found, high)) if high is not None else len(found)
    return RunSlice(found.slice(begin, end), labels[begin:end], None if beside is None else beside.slice(begin, end))


def _read_rows(scratch: Scratch, data: Part, ends: Part, first: int, last: int) -> Records:
    bounds = scratch.read(ends.piece(max(first - 1, 0), last))
    begin = int(bounds[0]) if first else 0
    row_ends = bounds[1:] if first else bounds
    return Records(scratch.read(data.piece(begin, int(row_ends[-1]))), row_ends - begin)


def splitters(runs: Sequence[Run], ranges: int) -> list[bytes]:
    """Where to cut a type so that ranges hold about as many records: at most `ranges - 1` keys, rising."""
    if ranges < 2:
        return []
    keyed = []
    for run in runs:
        stops = [*(block.row for block in run.blocks[1:]), run.rows]
        keyed += [(block.key, stop - block.row) for block, stop in zip(run.blocks, stops, strict=False)]
    keyed.sort()
    total = sum(rows for _, rows in keyed)
    cuts: list[bytes] = []
    passed, wanted = 0, 1
    for key, rows in keyed:
        if passed >= wanted * total / ranges:
            if key and (not cuts or key > cuts[-1]):
                cuts.append(key)
            while passed >= wanted * total / ranges:
                wanted += 1
        passed += rows
    return cuts[: ranges - 1]


def _blocks(found: Records) -> list[Block]:
    count = min(_BLOCKS, len(found))
    rows = sorted({len(found) * number // count for number in range(count)})
    return [Block(found.at(row)[:_KEY_BYTES], row) for row in rows]


def _lower_bound(found: Records, key: bytes) -> int:
    """The first record that is not before a key."""
    low, high = 0, len(found)
    while low < high:
        middle = (low + high) // 2
        if found.at(middle) < key:
            low = middle + 1
        else:
            high = middle
    return low

"""Records from columns of any width, and orders: what ingest needs beyond the record kernels. Slow and obvious.

A column of `serialize_rows` is (values, valid, starts, ends, data): numbers in their own width for fixed kinds, else
ranges of bytes; `valid` None means all. Field kinds are numbered as in `deltaic.kernels.plain.records`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels.plain import record_bytes as raw

Bytes = NDArray[np.uint8]
Offsets = NDArray[np.int64]
Column = tuple[NDArray[Any] | None, NDArray[np.bool_] | None, NDArray[Any] | None, NDArray[Any] | None, Bytes | None]
"""Values, validity, starts, ends, data. All None: the field is null in every row."""

_RAW = {4: np.uint32, 8: np.uint64}


def serialize_rows(kinds: Bytes, sources: Sequence[tuple[int, Sequence[Column]]]) -> tuple[Bytes, Offsets]:
    """The serialized records of an OBJECT type, source by source; a source is its number of rows and its columns."""
    out = bytearray()
    ends: list[int] = []
    for count, columns in sources:
        prepared = [_numbers(kind, column) for kind, column in zip(kinds.tolist(), columns, strict=True)]
        for row in range(count):
            for kind, numbers, (_, valid, starts, stops, data) in zip(kinds.tolist(), prepared, columns, strict=True):
                if (valid is not None and not valid[row]) or (numbers is None and data is None):
                    out += raw.null(kind)
                elif numbers is not None:
                    out += raw.fixed(kind, numbers[row])
                else:
                    assert starts is not None and stops is not None and data is not None
                    value = data[int(starts[row]) : int(stops[row])].tobytes()
                    out += raw.varint(len(value)) + value
            ends.append(len(out))
    return raw.array(out), np.array(ends, np.int64)


def gather_ranges(data: Bytes, starts: NDArray[Any], ends: NDArray[Any]) -> tuple[Offsets, Bytes]:
    """Ranges of bytes laid back to back: their offsets and their data."""
    pieces = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    offsets = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    return offsets, np.concatenate([np.zeros(0, np.uint8), *pieces])


def interleave(offsets: Sequence[Offsets], records: Sequence[Offsets]) -> Offsets:
    """For each parent in turn, its records of the first branch, of the second, and so on.

    `offsets` gives per branch where the records of each parent stand in that branch's `records`.
    """
    found = [
        branch[int(bounds[parent]) : int(bounds[parent + 1])]
        for parent in range(len(offsets[0]) - 1)
        for bounds, branch in zip(offsets, records, strict=True)
    ]
    return np.concatenate([np.zeros(0, np.int64), *found])


def _numbers(kind: int, column: Column) -> list[int] | None:
    values = column[0]
    if values is None:
        return None
    if values.dtype.kind == "f":
        values = np.ascontiguousarray(values).view(_RAW[values.dtype.itemsize])
    return [int(value) for value in values.tolist()]

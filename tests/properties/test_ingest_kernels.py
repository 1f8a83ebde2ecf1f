"""The compiled ingest kernels do what their plain twins do."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from deltaic.kernels.plain import ingest as plain
from deltaic.kernels.plain import record_bytes

compiled: Any = pytest.importorskip("deltaic.kernels._ingest", reason="no compiled kernels")

REFERENCE, INT, LONG, BOOLEAN, FLOAT, DOUBLE, STRING, BYTES = range(8)
_STORAGE = {
    REFERENCE: np.int32,
    INT: np.int32,
    LONG: np.int64,
    BOOLEAN: np.bool_,
    FLOAT: np.float32,
    DOUBLE: np.float64,
}
_NUMBERS = {
    REFERENCE: st.integers(0, 2**31 - 1),
    INT: st.integers(-(2**31), 2**31 - 1),
    LONG: st.integers(-(2**63), 2**63 - 1),
    BOOLEAN: st.booleans(),
    FLOAT: st.floats(width=32),
    DOUBLE: st.floats(),
}


@st.composite
def columns(draw: st.DrawFn, kind: int, rows: int) -> Any:
    if draw(st.integers(0, 9)) == 0:
        return (None, None, None, None, None)
    valid = None
    if draw(st.booleans()):
        valid = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), np.bool_)
    if kind in _STORAGE:
        values = draw(st.lists(_NUMBERS[kind], min_size=rows, max_size=rows))
        made = np.zeros(2 * rows, _STORAGE[kind])
        made[::2] = values
        # Every other value: kernels take any stride.
        return (made[::2], valid, None, None, None)
    data = np.frombuffer(draw(st.binary(max_size=200)), np.uint8)
    cuts = st.integers(0, len(data))
    pairs = [sorted((draw(cuts), draw(cuts))) for _ in range(rows)]
    offset_type = draw(st.sampled_from([np.int32, np.int64]))
    starts, ends = (np.array([pair[side] for pair in pairs], offset_type) for side in (0, 1))
    return (None, valid, starts, ends, data)


@st.composite
def tables(draw: st.DrawFn) -> tuple[NDArray[np.uint8], list[tuple[int, list[Any]]]]:
    kinds = draw(st.lists(st.integers(0, 7), max_size=4))
    sources = []
    for _ in range(draw(st.integers(0, 3))):
        rows = draw(st.integers(0, 5))
        sources.append((rows, [draw(columns(kind, rows)) for kind in kinds]))
    return np.array(kinds, np.uint8), sources


@given(tables())
def test_records_are_serialized_alike(table: tuple[NDArray[np.uint8], list[tuple[int, list[Any]]]]) -> None:
    kinds, sources = table
    data, ends = compiled.serialize_rows(kinds, sources)
    expected_data, expected_ends = plain.serialize_rows(kinds, sources)
    assert ends.tolist() == expected_ends.tolist()
    assert data.tobytes() == expected_data.tobytes()
    for record in record_bytes.split(data, ends):
        position = 0
        for kind in kinds.tolist():
            position = record_bytes.skip(record, position, kind)
        assert position == len(record)


@given(
    st.binary(max_size=100), st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=20), st.booleans()
)
def test_ranges_are_gathered_alike(data: bytes, pairs: list[tuple[int, int]], wide: bool) -> None:
    ranges = [sorted(min(edge, len(data)) for edge in pair) for pair in pairs]
    kind = np.int64 if wide else np.int32
    starts, ends = (np.array([pair[side] for pair in ranges], kind) for side in (0, 1))
    source = np.frombuffer(data, np.uint8)
    offsets, gathered = compiled.gather_ranges(source, starts, ends)
    expected_offsets, expected = plain.gather_ranges(source, starts, ends)
    assert offsets.tolist() == expected_offsets.tolist()
    assert gathered.tobytes() == expected.tobytes() == b"".join(data[start:end] for start, end in ranges)


@given(st.integers(0, 6), st.integers(1, 4), st.data())
def test_branches_are_interleaved_alike(parents: int, branches: int, data: st.DataObject) -> None:
    offsets, records, total = [], [], 0
    for _ in range(branches):
        sizes = data.draw(st.lists(st.integers(0, 3), min_size=parents, max_size=parents))
        offsets.append(np.cumsum([0, *sizes], dtype=np.int64))
        records.append(np.arange(total, total + sum(sizes), dtype=np.int64))
        total += sum(sizes)
    order = compiled.interleave(offsets, records)
    assert order.tolist() == plain.interleave(offsets, records).tolist()
    assert sorted(order.tolist()) == list(range(total))

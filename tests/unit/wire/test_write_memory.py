"""Blobs go out in pieces: the memory that writing takes does not grow with the blob."""

import tracemalloc

import numpy as np
import pytest

from deltaic import kernels
from deltaic.schema.text import parse_schemas
from deltaic.state.write import WriteState
from deltaic.state.write_columns import VariableColumn
from deltaic.wire import write_shards

pytestmark = pytest.mark.skipif(not kernels.COMPILED, reason="plain kernels make objects of every record")

MEBIBYTE = 1 << 20


class Sink:
    """Takes bytes, keeps none, and knows how large the largest piece was."""

    def __init__(self):
        self.taken = self.largest = 0

    def write(self, data):
        self.taken += len(data)
        self.largest = max(self.largest, len(data))


def written(state, name):
    """How much a blob is, and the most memory that was taken while it was written."""
    state.prepare()
    sink = Sink()
    tracemalloc.start()
    try:
        getattr(state, name)(sink)
        return sink, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("shards", [1, 8])
@pytest.mark.parametrize("name", ["write_snapshot", "write_delta"])
def test_records_of_fixed_length_are_written_in_little_memory(name, shards):
    count = 1_000_000
    state = WriteState(parse_schemas("T { long a; double b; }"), pinned_shards={"T": shards})
    numbers = np.arange(count, dtype=np.int64)
    state.add_objects("T", {"a": numbers << 40, "b": numbers.astype(np.float64)})
    sink, peak = written(state, name)
    assert sink.taken > 15 * MEBIBYTE
    # A delta also lists its ordinals: 8 bytes each while they are encoded.
    assert peak < (4 if name == "write_snapshot" else 32) * MEBIBYTE
    assert sink.largest <= 2 * MEBIBYTE


@pytest.mark.parametrize("shards", [1, 4])
def test_texts_beyond_what_is_held_are_written_in_little_memory(shards, monkeypatch):
    monkeypatch.setattr(write_shards, "HELD_BYTES", 4 * MEBIBYTE)
    count, length = 100_000, 1_000
    state = WriteState(parse_schemas("T { int i; string s; bytes b; }"), pinned_shards={"T": shards})
    texts = VariableColumn(np.arange(count + 1) * length, np.full(count * length, 120, np.uint8))
    state.add_objects("T", {"i": np.arange(count), "s": texts, "b": texts})
    sink, peak = written(state, "write_snapshot")
    assert sink.taken > 190 * MEBIBYTE
    assert peak < 24 * MEBIBYTE
    assert sink.largest < 8 * MEBIBYTE


def test_lists_sets_and_maps_are_written_in_little_memory():
    count = 300_000
    state = WriteState(parse_schemas("E { int i; } L List<E>; S Set<E>; M Map<E,E>;"))
    members = state.add_objects("E", {"i": np.arange(count)})
    offsets = np.arange(count // 3 + 1) * 3
    state.add_lists("L", offsets, members)
    state.add_sets("S", offsets, members)
    state.add_maps("M", offsets, members, members[::-1])
    sink, peak = written(state, "write_snapshot")
    assert sink.taken > 4 * MEBIBYTE
    assert peak < sink.taken // 2

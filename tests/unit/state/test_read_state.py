"""Read states: loading, following deltas, sharing, filters, limits."""

import gzip
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from deltaic import kernels
from deltaic.errors import ChainError, DecodeError, InputError, LimitError, NotFoundError
from deltaic.limits import Limits
from deltaic.schema.text import parse_schemas
from deltaic.state.dump import dump_records, dump_state
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.state.write_columns import VariableColumn

GOLDEN = Path(__file__).parents[2] / "golden" / "hollow"
SHARDS = GOLDEN / "shards"
SCALARS = GOLDEN / "scalars"
COLLECTIONS = GOLDEN / "collections"


def test_a_path_bytes_and_a_stream_give_the_same_state():
    path = SCALARS / "snapshot-1"
    expected = dump_state(ReadState.load(path))
    assert dump_state(ReadState.load(str(path))) == expected
    assert dump_state(ReadState.load(path.read_bytes())) == expected
    assert dump_state(ReadState.load(io.BytesIO(path.read_bytes()))) == expected
    with path.open("rb") as file:
        assert dump_state(ReadState.load(file)) == expected


def test_an_open_file_is_mapped_from_where_it_stands_and_then_read_to_its_end(tmp_path, monkeypatch):
    data = (SCALARS / "snapshot-1").read_bytes()
    path = tmp_path / "blob"
    path.write_bytes(b"before" + data)
    monkeypatch.setattr("deltaic.state.source._read_all", None)
    with path.open("rb") as file:
        file.read(6)
        assert dump_state(ReadState.load(file)) == dump_state(ReadState.load(data))
        assert file.read() == b""
    with path.open("rb") as file, pytest.raises(LimitError):
        ReadState.load(file, limits=Limits(max_blob_bytes=100))


def test_a_stream_that_unpacks_what_a_file_holds_is_not_mistaken_for_the_file(tmp_path):
    path = SCALARS / "snapshot-1"
    packed = tmp_path / "snapshot-1.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    with gzip.open(packed) as stream:
        assert dump_state(ReadState.load(stream)) == dump_state(ReadState.load(path))


def test_applying_a_delta_leaves_the_old_state_as_it_was():
    state = ReadState.load(SHARDS / "snapshot-1")
    before = dump_state(state)
    after = state.apply(SHARDS / "delta-1-2")
    assert dump_state(state) == before
    assert after.tag != state.tag and after.origin_tag == state.tag


def test_a_delta_that_starts_elsewhere_is_refused():
    state = ReadState.load(SHARDS / "snapshot-1")
    with pytest.raises(ChainError, match="delta-2-3 starts at state"):
        state.apply(SHARDS / "delta-2-3")


def test_types_that_a_delta_does_not_hold_are_shared():
    state = ReadState.load(SHARDS / "snapshot-1")
    after = state.apply(SHARDS / "delta-1-2")
    for name, data in after.types.items():
        if data.previous == data.populated:
            assert data.shards is state.types[name].shards


def test_shards_without_a_change_are_shared():
    state = ReadState.load(SHARDS / "snapshot-1")
    after = state.apply(SHARDS / "delta-1-2")
    few = [new is old for new, old in zip(after.types["Few"].shards, state.types["Few"].shards, strict=True)]
    assert any(few) and not all(few)


def test_ghosts_stay_readable_until_the_next_delta_with_their_type():
    first = ReadState.load(COLLECTIONS / "snapshot-1")
    second = first.apply(COLLECTIONS / "delta-1-2")
    ghosts = {name: data.pending for name, data in second.types.items() if data.pending}
    assert ghosts
    for name, pending in ghosts.items():
        assert dump_records(second.types[name], pending) == dump_records(first.types[name], pending)
        assert not pending.intersection(second.types[name].populated)


def test_walking_forth_and_back_ends_in_the_same_records():
    state = ReadState.load(SHARDS / "snapshot-1")
    start = state.checksum()
    steps = sorted(SHARDS.glob("delta-*"))
    for step in steps:
        state = state.apply(step)
    for step in reversed(steps):
        _, origin, target = step.name.split("-")
        state = state.apply(SHARDS / f"reversedelta-{target}-{origin}")
    assert state.checksum() == start


def test_a_state_without_checks_is_the_same_state():
    assert dump_state(ReadState.load(SHARDS / "snapshot-1", check=False)) == dump_state(
        ReadState.load(SHARDS / "snapshot-1")
    )


def test_a_filter_drops_types_and_fields_also_along_deltas():
    everything = ReadState.load(SCALARS / "snapshot-1")
    name = max(everything.types, key=lambda name: len(getattr(everything.types[name].schema, "fields", ())))
    fields = [field.name for field in everything.types[name].schema.fields]
    kept = Filter.only(*(f"{name}.{field}" for field in fields[1::2]))
    filtered = ReadState.load(SCALARS / "snapshot-1", filter=kept)
    for delta in ("delta-1-2", "delta-2-3", "delta-3-4"):
        everything, filtered = everything.apply(SCALARS / delta), filtered.apply(SCALARS / delta)
        whole = dump_records(everything.types[name], everything.types[name].populated)
        part = dump_records(filtered.types[name], filtered.types[name].populated)
        assert part == {ordinal: record[1::2] for ordinal, record in whole.items()}
    assert list(filtered.types) == [name]


def test_a_filter_can_say_what_goes():
    state = ReadState.load(SHARDS / "snapshot-1", filter=Filter.without("SetOf", "Item.s"))
    assert "SetOf" not in state and "ListOf" in state
    assert [field.name for field in state.types["Item"].schema.fields] == ["id", "l"]


@pytest.mark.parametrize("pattern", ["", ".", "Movie.", "Movie.a.b", "Movie.**.x", "**.x"])
def test_a_filter_pattern_that_means_nothing_is_refused(pattern):
    with pytest.raises(InputError, match="filter pattern"):
        Filter.only(pattern)


def test_limits_are_obeyed():
    path = SHARDS / "snapshot-1"
    for limits in (Limits(max_blob_bytes=100), Limits(max_types=3), Limits(max_shards=4), Limits(max_state_bytes=900)):
        with pytest.raises(LimitError, match="limit"):
            ReadState.load(path, limits=limits)
    with pytest.raises(LimitError):
        ReadState.load(io.BytesIO(path.read_bytes()), limits=Limits(max_blob_bytes=100))


def test_a_refresh_past_the_limit_is_refused_and_the_state_stays():
    state = ReadState.load(SHARDS / "snapshot-1")
    before = dump_state(state)
    with pytest.raises(LimitError, match="would take up to"):
        state.apply(SHARDS / "delta-1-2", limits=Limits(max_state_bytes=state.nbytes))
    assert dump_state(state) == before


@pytest.mark.skipif(not kernels.COMPILED, reason="plain kernels make objects of every record")
def test_the_peak_of_a_refresh_is_the_changed_types_and_little_more():
    count = 400_000
    state = WriteState(parse_schemas("Big { long a; double b; } Text { string s; } Same { long a; double b; }"))
    numbers = np.arange(count, dtype=np.int64)
    ends = np.arange(count + 1) * 20

    def fill(changed):
        state.add_objects("Big", {"a": numbers + changed * (numbers % 100 == 0), "b": numbers * 0.5})
        state.add_objects("Same", {"a": numbers << 20, "b": numbers * 0.25})
        letters = (65 + np.arange(count * 20) % 26).astype(np.uint8)
        letters[: 20 * count : 2000] = 97 + changed
        letters[1::20], letters[2::20], letters[3::20] = numbers % 128, numbers >> 7 & 127, numbers >> 14
        state.add_objects("Text", {"s": VariableColumn(ends, letters)})

    blobs = []
    for changed, write in ((0, "write_snapshot"), (1, "write_delta")):
        fill(changed)
        stream = io.BytesIO()
        getattr(state, write)(stream)
        state.next_cycle()
        blobs.append(stream.getvalue())
    old = ReadState.load(blobs[0])
    changed_bytes = old.types["Big"].nbytes + old.types["Text"].nbytes
    assert changed_bytes < 0.75 * old.nbytes
    tracemalloc.start()
    try:
        new = old.apply(blobs[1])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert new.types["Same"].shards[0] is old.types["Same"].shards[0]
    assert len(new["Big"].ghosts) == len(new["Text"].ghosts) == count // 100
    assert peak < 1.1 * changed_bytes + 8 * len(blobs[1])


def test_what_is_not_there_is_named():
    with pytest.raises(NotFoundError, match="no blob snapshot-9"):
        ReadState.load(SHARDS / "snapshot-9")
    with pytest.raises(NotFoundError, match="no type 'Film'"):
        ReadState.load(SHARDS / "snapshot-1")["Film"]


@pytest.mark.parametrize("data", [b"", b"\0\0\4\7", b"PK\3\4" + bytes(40), b"\0\0\4\6"])
def test_other_files_are_refused_at_once(data):
    with pytest.raises(DecodeError) as error:
        ReadState.load(data)
    assert error.value.code in ("BadMagic", "Truncated")


def test_a_part_of_another_blob_is_refused(hollow_fixtures):
    folder = hollow_fixtures / "optional-parts"
    with pytest.raises(DecodeError, match="part"):
        ReadState.load(folder / "snapshot-1", parts={"details": folder / "snapshot_details-2"})
    with pytest.raises(DecodeError, match="part"):
        ReadState.load(folder / "snapshot-1", parts={"images": folder / "snapshot_details-1"})


def test_a_state_says_what_it_is():
    state = ReadState.load(SHARDS / "snapshot-1")
    assert "10 types" in repr(state) and f"{state.tag:016x}" in repr(state)
    assert len(state) == 10 and "Item" in state and next(iter(state)) == "Item"
    assert state.nbytes == sum(data.nbytes for data in state.types.values())

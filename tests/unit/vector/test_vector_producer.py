"""Vectors through the producer: what is published, what it costs, and what is refused."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaic.errors import ChecksumError, InputError, NotFoundError, SchemaError, ValidationError
from deltaic.producer import BlobCleaner, Producer, count_up, patch_chain
from deltaic.producer.cleaner import clean_chain
from deltaic.producer.compaction import CompactionLimits
from deltaic.producer.restoring import load_version, read_blob
from deltaic.producer.validators import Candidate, ValidationResult
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from deltaic.schema.types import FieldType
from deltaic.state.read import ReadState
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.vector import VECTORS_TAG, VectorStorage, missing_columns, with_vectors
from tests.unit.vector.plain_chain import (
    DIMS,
    KEY,
    Movie,
    by_key,
    patterns,
    plain_of,
    producer_of,
    vector,
    walk_plainly,
)

NAN = np.array([0x7FC12345, 0xFFC00001, 0x80000000, 0x00000001, 0x7F800000, 0, 1, 2], np.uint32).view(np.float32)


@pytest.fixture
def store() -> Store:
    return open_store("memory:")


def movies(*embeddings: Any, title: str = "film") -> list[Movie]:
    return [Movie(number, f"{title} {number}", each) for number, each in enumerate(embeddings)]


def wide(count: int, dims: int) -> Any:
    return np.random.default_rng(7).standard_normal((count, dims)).astype(np.float32)


def table(matrix: Any, titles: list[str] | None = None) -> pa.Table:
    values = pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), matrix.shape[1])
    names = titles or [f"film {row}" for row in range(len(matrix))]
    return pa.table({"id": pa.array(range(len(matrix)), pa.int32()), "title": names, "embedding": values})


def model_of(dims: int) -> Model:
    schema = pa.schema({"id": pa.int32(), "title": pa.string(), "embedding": pa.list_(pa.float32(), dims)})
    return Model.from_arrow(schema, "Movie", key="id", vectors=["embedding"])


def part_bytes(cycle: Any, kind: str) -> int:
    return sum(artifact.size for artifact in cycle.artifacts if artifact.kind == "vector" and kind in artifact.name)


def test_vectors_come_back_bit_by_bit_from_objects_dicts_and_arrow(store):
    given = {0: vector(1, 2), 1: NAN, 2: None, 3: -vector(0.0), 4: [0.1] * DIMS}
    first = producer_of(store)
    first.publish([Movie(number, "a", each) for number, each in given.items()])
    assert by_key(first.state) == {number: patterns(each) for number, each in given.items()}
    lists = {number: None if each is None else list(each) for number, each in given.items()}
    second = producer_of(open_store("memory:"))
    second.publish([{"id": number, "title": "a", "embedding": each} for number, each in lists.items()])
    third = producer_of(open_store("memory:"))
    fixed = pa.array(lists.values(), pa.list_(pa.float32(), DIMS))
    third.publish(pa.table({"id": pa.array(given, pa.int32()), "title": ["a"] * 5, "embedding": fixed}))
    fourth = producer_of(open_store("memory:"))
    fourth.publish(pa.table({"id": pa.array(given, pa.int32()), "title": ["a"] * 5, "embedding": list(lists.values())}))
    for other in (second, third, fourth):
        # A Python float has no payload of a NaN to keep.
        same = {number: each for number, each in by_key(other.state).items() if number != 1}
        assert same == {number: patterns(each) for number, each in given.items() if number != 1}
    assert walk_plainly(store)[1] == plain_of(first.state)


def test_arrow_keeps_the_payload_of_a_nan(store):
    producer = producer_of(store)
    producer.publish(table(np.stack([NAN, NAN[::-1]])))
    assert by_key(producer.state) == {0: patterns(NAN), 1: patterns(NAN[::-1])}


@pytest.mark.parametrize("kind", ["pandas", "polars", "large_list", "list_view", "half", "double", "dictionary"])
def test_vectors_come_from_every_kind_of_frame(store, kind):
    matrix = np.array([[1, 2, 3, 4, 5, 6, 7, 8], [0.5] * DIMS], np.float32)
    rows: Any = {"id": pa.array([0, 1], pa.int32()), "title": ["a", "b"]}
    if kind == "pandas":
        data: Any = pd.DataFrame({"id": np.array([0, 1], np.int32), "title": ["a", "b"], "embedding": list(matrix)})
    elif kind == "polars":
        data = pl.DataFrame({"id": [0, 1], "title": ["a", "b"], "embedding": matrix}, schema_overrides={"id": pl.Int32})
    else:
        types = {
            "large_list": pa.large_list(pa.float32()),
            "list_view": pa.list_view(pa.float32()),
            "half": pa.list_(pa.float16(), DIMS),
            "double": pa.list_(pa.float64()),
            "dictionary": pa.list_(pa.float32(), DIMS),
        }
        values = matrix.astype(np.float16).tolist() if kind == "half" else matrix.tolist()
        if kind == "half":
            values = [np.array(row, np.float16) for row in values]
        array = pa.array(values, types[kind])
        if kind == "dictionary":
            array = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), array)
        data = pa.table({**rows, "embedding": array})
    producer = producer_of(store)
    producer.publish(data)
    assert by_key(producer.state) == {0: patterns(matrix[0]), 1: patterns(matrix[1])}


def test_a_slice_of_an_arrow_table_gives_the_vectors_of_its_rows(store):
    matrix = wide(100, DIMS)
    producer = producer_of(store)
    producer.publish(table(matrix).slice(40, 20))
    assert by_key(producer.state) == {row: patterns(matrix[row]) for row in range(40, 60)}


def test_a_chunked_table_with_nulls_gives_the_vectors_of_its_rows(store):
    matrix = wide(6, DIMS)
    values = pa.array([None if row % 2 else matrix[row].tolist() for row in range(6)], pa.list_(pa.float32(), DIMS))
    parts = pa.chunked_array([values.slice(0, 1), values.slice(1, 4), values.slice(5)])
    producer = producer_of(store)
    producer.publish(pa.table({"id": pa.array(range(6), pa.int32()), "title": ["a"] * 6, "embedding": parts}))
    assert by_key(producer.state) == {row: None if row % 2 else patterns(matrix[row]) for row in range(6)}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1.0] * 7, "row 1: 7 numbers where a vector of 8 belongs"),
        ([[1.0] * 8], "row 1"),
        ("ABCDEFGH", "row 1"),
        ([1.0] * 7 + [None], "row 1"),
        ([1.0] * 7 + ["x"], "row 1"),
        ([1.0] * 7 + [1e300], "row 1: dimension 7 is 1e+300, too large for a float32"),
        (object(), "row 1"),
    ],
)
def test_what_is_no_vector_is_refused_with_its_row(store, given, said):
    producer = producer_of(store)
    with pytest.raises(InputError) as refused:
        producer.publish([Movie(0, "a", vector(1)), Movie(1, "b", given)])
    assert said in str(refused.value) and "'embedding'" in str(refused.value)
    assert producer.version is None


def test_an_arrow_column_that_is_no_vector_is_refused(store):
    producer = producer_of(store)
    rows = {"id": pa.array([0, 1], pa.int32()), "title": ["a", "b"]}
    short = pa.array([[1.0] * DIMS, [1.0]], pa.list_(pa.float32()))
    hole = pa.array([[1.0] * DIMS, [1.0] * 7 + [None]], pa.list_(pa.float32()))
    for column, said in ((short, "1 numbers"), (hole, "a dimension is null"), (pa.array([1, 2]), "a list of 8 floats")):
        with pytest.raises(InputError, match=said):
            producer.publish(pa.table({**rows, "embedding": column}))


def test_a_class_with_a_vector_and_no_key_is_refused():
    @dataclass
    class Film:
        embedding: Annotated[list[float], Vector(4)]

    with pytest.raises(SchemaError, match="needs a primary key"):
        Model.of(Film)


def test_only_another_vector_is_a_new_version_and_the_same_one_is_none(store):
    producer = producer_of(store)
    producer.publish(movies(vector(1), vector(2)))
    assert producer.publish(movies(vector(1), vector(2))).version is None
    cycle = producer.publish(movies(vector(1), vector(2, 3)))
    assert cycle.version == 2 and cycle.vectors[KEY].changed == 1
    assert not any(change.changed for change in cycle.types.values())
    assert str(cycle).startswith("version 2: no records, Movie.embedding +0 -0 ~1")
    assert producer.publish(movies(vector(1), vector(2, -0.0))).version == 3
    assert producer.publish(movies(None, vector(2, -0.0))).version == 4
    assert producer.publish(movies(None, vector(2, -0.0))).version is None
    assert walk_plainly(store)[4] == plain_of(producer.state)


def test_a_vector_goes_with_its_key_to_another_ordinal(store):
    producer = producer_of(store)
    producer.publish(movies(vector(1), vector(2), vector(3)))
    renamed = movies(vector(1), vector(2), vector(3), title="new")
    cycle = producer.publish(renamed)
    assert (cycle.vectors[KEY].moved, cycle.vectors[KEY].added, cycle.vectors[KEY].changed) == (3, 0, 0)
    # Deleted and added again later, it is a new one.
    producer.publish(renamed[:1])
    assert producer.publish(renamed).vectors[KEY].added == 2
    assert by_key(producer.state) == {row: patterns(vector(row + 1)) for row in range(3)}
    assert walk_plainly(store)[4] == plain_of(producer.state)


def test_records_equal_but_for_their_keys_and_vectors_stay_two(store):
    producer = producer_of(store)
    producer.publish([Movie(1, "a", vector(1)), Movie(2, "a", vector(1)), Movie(3, "a", vector(2))])
    assert by_key(producer.state) == {1: patterns(vector(1)), 2: patterns(vector(1)), 3: patterns(vector(2))}


@pytest.mark.parametrize("order", ["given", "canonical"])
@pytest.mark.parametrize("other", [vector(2), None, -vector(0.0, 1)])
def test_one_key_with_different_vectors_is_refused_by_name(store, other, order):
    producer = producer_of(store, order=order)
    producer.publish([Movie(7, "a", vector(1))])
    for again in (Movie(7, "a", other), Movie(7, "b", other)):
        with pytest.raises(InputError, match=r"Movie.* 7.* different vectors in embedding") as refused:
            producer.publish([Movie(7, "a", vector(1)), again])
        assert refused.value.code == "KeyConflict"
    assert producer.version == 1 and by_key(producer.state) == {7: patterns(vector(1))}
    assert not list(store.list("staging/")) and not list(store.list("vector-2"))
    # The same vector twice is no conflict, be it one record or two.
    assert producer.publish([Movie(7, "a", vector(1)), Movie(7, "a", vector(1)), Movie(7, "b", vector(1))]).version


def test_changes_by_key_give_what_a_whole_cycle_gives(store):
    producer, other = producer_of(store), producer_of(open_store("memory:"))
    for each in (producer, other):
        each.publish(movies(vector(1), vector(2), vector(3), None))
    with producer.incremental() as changes:
        changes.add_or_modify(Movie(1, "film 1", vector(2, 5)))  # the vector alone
        changes.add_or_modify(Movie(2, "other", vector(3)))  # the record alone
        changes.delete(Movie, 0)
        changes.add_or_modify({"id": 9, "title": "x", "embedding": [1.0] * DIMS})
        changes.add_or_modify(Movie(9, "y", vector(4)))  # the last one counts
    assert changes.cycle is not None and changes.cycle.vectors[KEY].moved == 1
    other.publish(
        [Movie(1, "film 1", vector(2, 5)), Movie(2, "other", vector(3)), Movie(3, "film 3", None)],
        [Movie(9, "y", vector(4))],
    )
    assert by_key(producer.state) == by_key(other.state)
    with producer.incremental() as changes:
        changes.add_or_modify(Movie(9, "y", vector(4)))
    assert changes.cycle.version is None
    assert walk_plainly(store)[2] == plain_of(producer.state)


def test_a_restored_producer_goes_on_from_the_published_vectors(store):
    with producer_of(store) as producer:
        producer.publish(movies(vector(1), vector(2)))
        producer.publish(movies(vector(1), vector(2, 9)))
        producer.publish(movies(vector(1), NAN, title="new"))
    with Producer(store, Model.of(Movie), versions=count_up) as restored:
        restored.restore()
        assert by_key(restored.state) == {0: patterns(vector(1)), 1: patterns(NAN)}
        assert restored.publish(movies(vector(1), NAN, title="new")).version is None
        cycle = restored.publish(movies(vector(1), NAN[::-1], title="new"))
        assert cycle.vectors[KEY].changed == 1 and cycle.vectors[KEY].added == 0
    walked = walk_plainly(store)
    for version in range(1, 5):
        assert plain_of(load_version(store, Announcements(store), version)) == walked[version]


def test_the_bytes_of_a_delta_in_which_five_percent_of_the_dimensions_changed():
    dims, count = 384, 2_000
    producer = Producer(open_store("memory:"), model_of(dims), versions=count_up)
    matrix = wide(count, dims)
    producer.publish(table(matrix))
    random_ = np.random.default_rng(3)
    changed = matrix.copy()
    places = np.argsort(random_.random((count, dims)), axis=1)[:, :19]
    np.put_along_axis(changed, places, random_.standard_normal((count, 19)).astype(np.float32), axis=1)
    cycle = producer.publish(table(changed))
    print(
        f"5 % of {dims} dimensions: {part_bytes(cycle, 'delta') / count:.1f} bytes a row, whole vectors take {4 * dims}"
    )
    assert part_bytes(cycle, "delta") <= 4 * dims * count / 15
    assert cycle.vectors[KEY].changed == count


def test_the_bytes_of_a_delta_in_which_only_another_field_changed():
    count = 2_000
    producer = Producer(open_store("memory:"), model_of(384), versions=count_up)
    matrix = wide(count, 384)
    producer.publish(table(matrix))
    cycle = producer.publish(table(matrix, [f"other {row}" for row in range(count)]))
    print(f"only the title: {part_bytes(cycle, 'delta') / count:.2f} bytes a record in the vector part")
    assert part_bytes(cycle, "delta") <= 16 * count
    assert cycle.vectors[KEY].moved == count and cycle.vectors[KEY].changed == 0
    # One record of many: a head and one move.
    again = producer.publish(table(matrix, [f"other {row}" if row else "x" for row in range(count)]))
    assert part_bytes(again, "delta") <= 104 and again.vectors[KEY].moved == 1


def test_the_bytes_of_a_delta_in_which_records_only_moved():
    count = 1_500
    producer = Producer(open_store("memory:"), model_of(384), versions=count_up, integrity="full")
    matrix = wide(count, 384)
    producer.publish(table(matrix))
    kept = np.sort(np.random.default_rng(5).permutation(count)[: count // 2])
    producer.publish(table(matrix).take(kept))
    before = by_key(producer.state)
    cycle = producer.compact(CompactionLimits(1, 1))
    moved = cycle.vectors[KEY].moved
    assert moved > 300 and cycle.vectors[KEY].changed == cycle.vectors[KEY].added == 0
    print(f"only moved: {part_bytes(cycle, 'delta') / moved:.2f} bytes a record")
    assert part_bytes(cycle, "delta") <= 16 * moved
    assert by_key(producer.state) == before


def test_canonical_order_gives_the_same_bytes_whatever_the_order_of_rows():
    matrix = wide(300, DIMS)
    found = []
    for seed in (1, 2):
        store = open_store("memory:")
        options = {"order": "canonical", "random": random.Random(4), "clock": lambda: 1_000_000.0, "holder": "one"}
        producer = Producer(store, model_of(DIMS), versions=count_up, **options)
        rows = np.random.default_rng(seed).permutation(300)
        producer.publish(table(matrix).take(rows))
        changed = matrix.copy()
        changed[::3, 2] += 1
        some = table(changed, [f"film {row % 200}" for row in range(300)]).take(rows[::-1])
        producer.publish(some.filter(pc.less(some["id"], 250)))
        producer.publish(table(changed, [f"film {row % 100}" for row in range(300)]).take(rows))
        found.append({name: store.get(name).data for name in _names(store) if name.startswith(("vector-", "delta-"))})
    assert found[0] == found[1] and len(found[0]) == 9


def test_the_same_cycles_give_the_same_bytes():
    found = []
    for _ in range(2):
        store = open_store("memory:")
        options = {"order": "canonical", "random": random.Random(4), "clock": lambda: 1_000_000.0, "holder": "one"}
        producer = Producer(store, model_of(DIMS), versions=count_up, **options)
        for step in range(4):
            matrix = wide(200, DIMS)
            matrix[:: step + 2, step] += step
            producer.publish(table(matrix, [f"film {row // (step + 1)}" for row in range(200)]))
        found.append({name: store.get(name).data for name in _names(store) if name.startswith(("vector", "delta"))})
    assert found[0] == found[1] and len(found[0]) == 13


def test_validators_see_the_vectors_of_the_version_and_of_the_one_before(store):
    seen = []

    class Looking:
        name = "looking"

        def validate(self, candidate: Candidate) -> ValidationResult:
            before = None if candidate.previous is None else by_key(candidate.previous)
            seen.append((before, by_key(candidate.state)))
            return ValidationResult(self.name, len(candidate.state.vectors[KEY]) > 0, "there must be a vector")

    producer = producer_of(store, validators=[Looking()])
    producer.publish(movies(vector(1)))
    producer.publish(movies(vector(2)))
    assert seen[1] == ({0: patterns(vector(1))}, {0: patterns(vector(2))})
    with pytest.raises(ValidationError):
        producer.publish(movies(None))
    assert not list(store.list("vector-3")) and not list(store.list("staging/"))
    assert producer.publish(movies(vector(3))).vectors[KEY].changed == 1


def test_a_part_that_the_store_damages_is_noticed_before_anything_is_announced(store):
    class Damaging:
        def __init__(self, inner: Store) -> None:
            self.inner, self.armed = inner, False

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def put_chunks(self, key: str, chunks: Any) -> Any:
            data = b"".join(chunks)
            if self.armed and "vector-" in key:
                data = data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]
            return self.inner.put_chunks(key, [data])

    damaging: Any = Damaging(store)
    producer = producer_of(damaging)
    producer.publish(movies(vector(1)))
    damaging.armed = True
    with pytest.raises(ChecksumError):
        producer.publish(movies(vector(2)))
    damaging.armed = False
    assert producer.version == 1
    assert producer.publish(movies(vector(2))).vectors[KEY].changed == 1


def test_snapshots_in_the_background_bring_their_parts(store):
    with producer_of(store, snapshots_in_background=True, snapshot_every=2) as producer:
        for step in range(5):
            producer.publish(movies(vector(step), vector(1)))
            producer.wait_for_snapshots()
    names = _names(store)
    assert {name for name in names if name.startswith("vector") and "snapshot" in name} == {
        f"vector-{name.removeprefix('snapshot-')}-snapshot" for name in names if name.startswith("snapshot")
    }
    assert len([name for name in names if name.startswith("snapshot")]) == 3
    walk_plainly(store)


def test_snapshots_now_and_then_have_parts_and_every_delta_has_two(store):
    producer = producer_of(store, snapshot_every=3, integrity="deltas")
    for step in range(7):
        producer.publish(movies(vector(step), vector(1)))
    assert sorted(name for name in _names(store) if name.endswith("-snapshot")) == [
        f"vector-{version}-snapshot" for version in (1, 4, 7)
    ]
    assert len(walk_plainly(store)) == 7


def test_the_cleaner_keeps_the_parts_of_what_it_keeps_and_no_others(store):
    producer = producer_of(store, snapshot_every=3, listeners=[BlobCleaner(store, keep_versions=1, keep_snapshots=1)])
    for step in range(12):
        producer.publish(movies(vector(step), vector(1)))
    clean_chain(store, keep_versions=1, keep_snapshots=1, older_than_seconds=-1, dry_run=False)
    names = set(_names(store))
    blobs = {name for name in names if name.startswith(("snapshot", "delta", "reversedelta"))}
    parts = {name for name in names if name.startswith("vector")}
    assert "snapshot-10" in blobs and "snapshot-7" not in blobs and len(parts) == len(blobs)
    assert by_key(load_version(store, Announcements(store), 12)) == {0: patterns(vector(11)), 1: patterns(vector(1))}
    listed = {artifact.name for entry in Announcements(store).read().record.versions for artifact in entry.artifacts}
    assert {name for name in listed if name.startswith("vector")} == parts


def test_parts_that_a_crash_left_do_not_stand_in_the_way(store):
    producer = producer_of(store)
    producer.publish(movies(vector(1)))
    producer.close()
    for name in ("vector-2-delta.1", "vector-2-reverse.1", "vector-2-snapshot"):
        store.put(name, b"half of a cycle")
    restarted = Producer(store, Model.of(Movie), versions=count_up)
    restarted.publish(movies(vector(2)))
    assert walk_plainly(store)[2] == plain_of(restarted.state)


def test_a_vector_column_that_is_new_in_the_model_comes_with_the_delta(store):
    @key("id")
    @dataclass
    class Bare:
        id: int
        title: str

    bare = Model.of(Bare)
    first = Model(
        type(bare.schemas)(
            [
                type(each)("Movie", each.fields, each.primary_key) if each.name == "Bare" else each
                for each in bare.schemas
            ]
        ),
        ("Movie",),
    )
    producer = Producer(store, first, versions=count_up)
    producer.publish([{"id": 0, "title": "film 0"}, {"id": 1, "title": "film 1"}])
    producer.change_model(Model.of(Movie))
    cycle = producer.publish(movies(vector(1), None))
    assert cycle.version == 2 and cycle.vectors[KEY].added == 1
    before = load_version(store, Announcements(store), 1)
    after = before.apply(store.get("delta-1-2").data)
    found = with_vectors(after, before, store.get("vector-2-delta.1").data)
    assert by_key(found) == {0: patterns(vector(1)), 1: None}
    back = found.apply(store.get("reversedelta-2-1").data)
    assert with_vectors(back, found, None).vectors == {} and not list(store.list("vector-2-reverse"))
    producer.change_model(first)
    assert producer.publish([{"id": 0, "title": "film 0"}, {"id": 1, "title": "film 1"}]).version == 3
    assert producer.state.vectors == {} and VECTORS_TAG not in producer.state.header_tags
    assert not list(store.list("vector-3-delta")) and not list(store.list("vector-3-snapshot"))
    back = producer.state.apply(store.get("reversedelta-3-2").data)
    assert by_key(with_vectors(back, producer.state, store.get("vector-3-reverse.2").data)) == by_key(found)


def test_a_reader_without_the_part_knows_what_it_misses(store):
    producer = producer_of(store)
    producer.publish(movies(vector(1)))
    bare = ReadState.load(store.get("snapshot-1").data)
    assert bare.vectors == {} and [note.key for note in missing_columns(bare)] == [KEY]
    assert missing_columns(producer.state) == ()


def test_vectors_as_bytes_are_a_field_of_the_record_and_served_all_the_same(store):
    producer = producer_of(store, vectors="bytes")
    producer.publish([*movies(vector(1), NAN), {"id": 5, "title": "dict", "embedding": [1.0] * DIMS}])
    producer.publish(table(np.stack([vector(3), NAN[::-1]])))
    producer.publish(movies(vector(3), None, title="new"))
    schema = producer.state.schemas.object_schema("Movie")
    assert [each.type for each in schema.fields if each.name == "embedding"] == [FieldType.BYTES]
    assert by_key(producer.state) == {0: patterns(vector(3)), 1: None}
    assert not [name for name in _names(store) if name.startswith("vector")]
    ordinal = producer.state["Movie"].populated.ordinals().tolist()[0]
    held = producer.state["Movie"].column("embedding", np.array([ordinal]))
    assert bytes(held.data[: 4 * DIMS]) == vector(3).astype("<f4").tobytes()
    producer.close()
    restored = Producer(store, Model.of(Movie), versions=count_up, vectors="bytes")
    assert restored.publish(movies(vector(3), None, title="new")).version is None
    assert by_key(restored.state) == {0: patterns(vector(3)), 1: None}


def test_a_column_can_change_from_bytes_to_parts_and_back(store):
    given = movies(vector(1), NAN, None)
    with producer_of(store, vectors="bytes") as producer:
        producer.publish(given)
    for version, form in ((2, "part"), (3, "bytes"), (4, "part")):
        with Producer(store, Model.of(Movie), versions=count_up, vectors=form) as producer:
            assert producer.publish(given).version == version
            assert by_key(producer.state) == {each.id: patterns(each.embedding) for each in given}
    state = load_version(store, Announcements(store), 1)
    for version in (2, 3, 4):
        after = state.apply(store.get(f"delta-{version - 1}-{version}").data, schema_append="full")
        part = f"vector-{version}-delta.{version - 1}"
        state = with_vectors(after, state, store.get(part).data if part in _names(store) else None)
        assert by_key(state) == {each.id: patterns(each.embedding) for each in given}
    # A version that has its vectors in the records needs no part to come back to.
    assert "vector-2-reverse.1" not in _names(store) and "vector-3-reverse.2" in _names(store)
    for version in (3, 2, 1):
        before = state.apply(store.get(f"reversedelta-{version + 1}-{version}").data)
        part = f"vector-{version + 1}-reverse.{version}"
        state = with_vectors(before, state, store.get(part).data if part in _names(store) else None)
        # A reverse delta brings no field back that its model dropped: those versions are read from their snapshot.
        if version == 2:
            assert by_key(state) == {each.id: patterns(each.embedding) for each in given}


def test_the_storage_of_columns_is_checked():
    with pytest.raises(NotFoundError, match="vector columns: Movie.embedding"):
        producer_of(open_store("memory:"), vectors={"Movie.other": "part"})
    for wrong in (
        {"form": "file"},
        {"quantization": "int2"},
        {"quantization": "auto"},
        {"max_error": 0.0},
        {"max_error": float("nan")},
        {"refresh_every": 0},
        {"form": "bytes", "quantization": "int8"},
        {"compression": "brotli"},
    ):
        with pytest.raises(InputError):
            VectorStorage(**wrong)


def test_vectors_of_records_that_others_refer_to_are_collected_too(store):
    @key("id")
    @dataclass
    class Actor:
        id: int
        name: str
        face: Annotated[Any, Vector(2)]

    @key("id")
    @dataclass
    class Film:
        id: int
        cast: list[Actor]
        poster: Annotated[Any, Vector(2)]

    producer = Producer(store, Model.of(Film), versions=count_up)
    one, two = Actor(1, "a", [1.0, 2.0]), Actor(2, "b", [3.0, 4.0])
    producer.publish([Film(1, [one, two], [5.0, 6.0]), Film(2, [two], None)])
    faces = producer.state.vectors["Actor", "face"]
    found = {producer.state["Actor"][o].id: faces[o].tolist() for o in producer.state["Actor"].populated.ordinals()}
    assert found == {1: [1.0, 2.0], 2: [3.0, 4.0]}
    rows = pa.Table.from_pylist(
        [
            {
                "id": 1,
                "cast": [{"id": 1, "name": "a", "face": [1.0, 2.5]}, {"id": 2, "name": "b", "face": None}],
                "poster": [5.0, 6.0],
            }
        ],
        pa.schema(
            {
                "id": pa.int32(),
                "cast": pa.list_(pa.struct({"id": pa.int32(), "name": pa.string(), "face": pa.list_(pa.float32(), 2)})),
                "poster": pa.list_(pa.float32(), 2),
            }
        ),
    )
    producer.publish(rows)
    faces = producer.state.vectors["Actor", "face"]
    assert [faces[o] is None or faces[o].tolist() for o in producer.state["Actor"].populated.ordinals()] == [
        [1, 2.5],
        True,
    ]
    with pytest.raises(InputError, match="Actor 2"):
        producer.publish([Film(1, [one, two], None), Film(2, [Actor(2, "b", [0.0, 0.0])], None)])


def test_a_bridge_over_a_broken_chain_carries_the_vectors(store):
    numbers = iter((10, 20, 30, 40))
    with Producer(store, Model.of(Movie), versions=lambda previous: next(numbers)) as producer:
        producer.publish(movies(*map(vector, range(20))))
        producer.publish([Movie(n, f"x{n}", vector(n, 1)) for n in range(5, 30)])
        last = [*movies(vector(7), NAN, None), *(Movie(n, f"y{n}", vector(n, 2)) for n in range(15, 40))]
        producer.publish(last)
    for info in list(store.list()):
        if "delta-" in info.key:
            store.delete(info.key)
    patch = patch_chain(store, 10, 30)
    assert patch.through_version == 29 and len([name for name in patch.blobs if name.startswith("vector")]) == 4
    announcements = Announcements(store)
    state = first = load_version(store, announcements, 10)
    for step in ((10, 29), (29, 30)):
        state = read_blob(store, announcements, BlobName.delta(*step), state)
        assert by_key(state) == {each.id: patterns(each.embedding) for each in last}
    for step in ((30, 29), (29, 10)):
        state = read_blob(store, announcements, BlobName.delta(*step), state)
    assert by_key(state) == by_key(first) and state.vectors[KEY].same_as(first.vectors[KEY])


def test_a_column_with_other_dimensions_starts_anew_and_leads_back(store):
    with Producer(store, model_of(4), versions=count_up) as producer:
        producer.publish(table(wide(5, 4)))
    for version, storage in ((2, "part"), (3, VectorStorage(quantization="f16"))):
        dims = 4 + version
        with Producer(store, model_of(dims), versions=count_up, vectors=storage) as producer:
            cycle = producer.publish(table(wide(5, dims), ["moved"] * 5))
            assert cycle.version == version and cycle.vectors[KEY].added == 5
            assert producer.state.vectors[KEY].dimensions == dims
    assert [len(next(iter(each[KEY].values()))) for each in walk_plainly(store).values()] == [4, 6, 7]


def test_two_columns_of_a_type_change_each_for_itself(store):
    @key("id")
    @dataclass
    class Twin:
        id: int
        left: Annotated[Any, Vector(2)]
        right: Annotated[Any, Vector(3)]

    producer = Producer(store, Model.of(Twin), versions=count_up, vectors={"Twin.right": "bytes"})
    producer.publish([Twin(1, [1, 2], [3, 4, 5]), Twin(2, None, [6, 7, 8])])
    producer.publish([Twin(1, [1, 9], [3, 4, 5]), Twin(2, None, None)])
    found = {key[1]: held for key, held in producer.state.vectors.items()}
    ordinals = {producer.state["Twin"][o].id: o for o in producer.state["Twin"].populated.ordinals().tolist()}
    assert found["left"][ordinals[1]].tolist() == [1, 9] and found["right"][ordinals[1]].tolist() == [3, 4, 5]
    assert found["left"][ordinals[2]] is None is found["right"][ordinals[2]]
    both = Producer(open_store("memory:"), Model.of(Twin), versions=count_up)
    both.publish([Twin(1, [1, 2], [3, 4, 5]), Twin(2, None, [6, 7, 8])])
    cycle = both.publish([Twin(1, [1, 9], [3, 4, 5]), Twin(2, None, None)])
    assert [(change.changed, change.removed) for change in cycle.vectors.values()] == [(1, 0), (0, 1)]


def test_vectors_do_not_care_how_many_shards_their_type_has(store):
    options = {"target_shard_bytes": 64, "allow_resharding": True}
    producer = Producer(store, model_of(DIMS), versions=count_up, **options)
    for count in (5, 400, 60):
        matrix = wide(count, DIMS)
        producer.publish(table(matrix))
        assert by_key(producer.state) == {row: patterns(matrix[row]) for row in range(count)}
    assert len({len(load_version(store, Announcements(store), v).types["Movie"].shards) for v in (1, 2, 3)}) > 1
    walk_plainly(store)


def test_a_folder_keeps_parts_like_any_store(tmp_path: Path):
    producer = Producer(tmp_path / "chain", Model.of(Movie), versions=count_up)
    producer.publish(movies(vector(1)))
    producer.publish(movies(vector(2)))
    walk_plainly(open_store(str(tmp_path / "chain")))


def _names(store: Store) -> list[str]:
    return [info.key for info in store.list() if "/" not in info.key]

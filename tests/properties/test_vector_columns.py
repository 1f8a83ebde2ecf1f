"""Vector columns over random histories: every version by every way holds what was given, bit by bit.

The ways: the producer's own state, a restored producer, and a plain reader that shares no code with the package, which
walks every delta, every reverse delta and every snapshot part.
"""

from typing import Any

import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st

from deltaic.kernels import vectorsum as compiled
from deltaic.kernels.plain import vectorsum as plain_twin
from deltaic.producer import Producer, count_up
from deltaic.producer.compaction import CompactionLimits
from deltaic.producer.restoring import load_version
from deltaic.schema.model import Model
from deltaic.state.bitset import OrdinalSet
from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors
from deltaic.storage.announcement import Announcements
from deltaic.storage.urls import open_store
from deltaic.vector import Moves, VectorStorage, apply_part, encode_delta_part, encode_snapshot_part
from deltaic.vector.lossy import error_bounds
from tests.unit.vector.plain_chain import DIMS, KEY, Movie, by_key, plain_of, walk_plainly
from tests.unit.vector.plain_part import plain_apply, plain_checksum

_ODD = (0x7FC12345, 0xFFC00001, 0x80000000, 0x00000001, 0x7F800000, 0xFF800000, 0x3F800000, 0x00000000)

patterns = st.one_of(st.sampled_from(_ODD), st.integers(0, 0xFFFF_FFFF))
vectors = st.lists(patterns, min_size=DIMS, max_size=DIMS).map(tuple)


@st.composite
def next_vectors(draw: Any, before: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Another vector: mostly one that goes on from the one before."""
    if before is None or draw(st.integers(0, 5)) == 0:
        return draw(st.one_of(st.none(), vectors))
    made = list(before)
    for place in draw(st.lists(st.integers(0, DIMS - 1), max_size=3)):
        made[place] = draw(patterns)
    return tuple(made)


@st.composite
def histories(draw: Any) -> list[tuple[str, dict[int, tuple[str, Any]]]]:
    """What each version holds, and how it is published."""
    content: dict[int, tuple[str, Any]] = {}
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        content = dict(content)
        for number in draw(st.lists(st.integers(0, 7), max_size=6)):
            what = draw(st.sampled_from(["delete", "title", "vector", "both"]))
            title, held = content.get(number, ("a", None))
            if what == "delete":
                content.pop(number, None)
                continue
            if what != "vector":
                title = draw(st.sampled_from("abc"))
            if what != "title" or number not in content:
                held = draw(next_vectors(held))
            content[number] = (title, held)
        steps.append((draw(st.sampled_from(["whole", "changes", "restored", "compacted"])), content))
    return steps


def movie(number: int, title: str, held: tuple[int, ...] | None) -> Movie:
    return Movie(number, title, None if held is None else np.array(held, np.uint32).view(np.float32))


def publish(producer: Producer, how: str, before: dict[int, Any], content: dict[int, Any]) -> None:
    if how != "changes" or not before:
        producer.publish([movie(number, *each) for number, each in content.items()])
        return
    with producer.incremental() as changes:
        for number in before.keys() - content.keys():
            changes.delete("Movie", number)
        for number, each in content.items():
            if before.get(number) != each:
                changes.add_or_modify(movie(number, *each))


@settings(max_examples=60, deadline=None)
@given(histories(), st.sampled_from(["given", "canonical"]), st.integers(1, 3))
def test_every_version_holds_the_vectors_that_were_given(steps, order, snapshot_every):
    store = open_store("memory:")
    options: dict[str, Any] = {"versions": count_up, "order": order, "snapshot_every": snapshot_every}
    producer = Producer(store, Model.of(Movie), **options)
    published: dict[int, dict[int, Any]] = {}
    before: dict[int, Any] = {}
    for how, content in steps:
        if how == "restored":
            producer.close()
            producer = Producer(store, Model.of(Movie), **options)
        publish(producer, how, before, content)
        before = content
        if producer.version is None:
            continue
        wanted = {number: held for number, (_, held) in content.items()}
        assert by_key(producer.state) == wanted
        if how == "compacted":
            producer.compact(CompactionLimits(1, 0))
            assert by_key(producer.state) == wanted
        published[producer.version] = wanted
    walked = walk_plainly(store) if published else {}
    for version, wanted in published.items():
        state = load_version(store, Announcements(store), version)
        assert by_key(state) == wanted
        assert plain_of(state) == walked[version]


@settings(max_examples=60, deadline=None)
@given(histories(), st.sampled_from(["f16", "int8", "int4"]), st.integers(1, 4), st.booleans())
def test_lossy_columns_stay_within_their_bound_and_never_drift(steps, quantization, refresh_every, restart):
    storage = VectorStorage(quantization=quantization, refresh_every=refresh_every)
    store = open_store("memory:")
    options: dict[str, Any] = {"versions": count_up, "vectors": storage}
    producer = Producer(store, Model.of(Movie), **options)
    for _, content in steps:
        if restart:
            producer.close()
            producer = Producer(store, Model.of(Movie), **options)
        films = [movie(number, *each) for number, each in content.items()]
        producer.publish(films)
        if producer.version is None:
            continue
        note(f"version {producer.version}")
        held = by_key(producer.state)
        for film in films:
            if film.embedding is None:
                assert held[film.id] is None
                continue
            have = np.array(held[film.id], np.uint32).view(np.float32)
            bound = error_bounds(film.embedding[None], storage)[0]
            same = have.view(np.uint32) == film.embedding.view(np.uint32)
            with np.errstate(invalid="ignore"):
                near = np.abs(have.astype(np.float64) - film.embedding) <= bound
            assert (same | near).all()
        # What readers have is near enough: the same again is no version.
        assert producer.publish(films).version is None
    if producer.version is not None:
        walked = walk_plainly(store)
        assert walked[producer.version] == plain_of(producer.state)


@st.composite
def columns(draw: Any) -> tuple[StoredVectors, OrdinalSet]:
    """A column over two chunks, and the records of its type."""
    ordinals = draw(st.lists(st.sampled_from([0, 1, 63, 64, 4095, 4096, 4097, 9000]), unique=True, max_size=6))
    count = len(ordinals)
    rows = draw(st.lists(st.lists(patterns, min_size=3, max_size=3), min_size=count, max_size=count))
    matrix = np.array(rows, np.uint32).reshape(-1, 3).view(np.float32)
    made = StoredVectors.of(3, np.array(ordinals, np.int64), matrix)
    more = draw(st.lists(st.integers(0, 10_000), max_size=3))
    return made, made.present.union(OrdinalSet.from_ordinals(np.array(more, np.int64)))


@settings(max_examples=150, deadline=None)
@given(columns(), columns(), st.data())
def test_a_part_leads_from_any_column_to_any_other(before, after, data):
    (old, old_records), (new, records) = before, after
    # Ordinals that only one of the states has can be the ends of a move.
    froms = old_records.difference(records).ordinals().tolist()
    to = records.difference(old_records).ordinals().tolist()
    count = data.draw(st.integers(0, min(len(froms), len(to))))
    moves = Moves(
        np.array(data.draw(st.permutations(froms))[:count], np.int64),
        np.array(data.draw(st.permutations(to))[:count], np.int64),
    )
    forward = encode_delta_part({KEY: old}, {KEY: new}, {"Movie": moves}, 1, 2, {"Movie": records})
    made = apply_part(forward, {KEY: old}, {"Movie": records}, tag=2, origin_tag=1)
    assert made[KEY].same_as(new)
    back = encode_delta_part({KEY: new}, {KEY: old}, {"Movie": moves.reversed()}, 2, 1, {"Movie": old_records})
    assert apply_part(back, made, {"Movie": old_records}, tag=1, origin_tag=2)[KEY].same_as(old)
    whole = encode_snapshot_part({KEY: new}, 2)
    assert apply_part(whole, None, {"Movie": records}, tag=2)[KEY].same_as(new)
    plain = {KEY: {o: tuple(old[o].view(np.uint32).tolist()) for o in old.present.ordinals().tolist()}}
    found = plain_apply(forward, plain, {"Movie": set(records.ordinals().tolist())}, 2, 1)
    assert found == plain_apply(whole, {}, {"Movie": set(records.ordinals().tolist())}, 2)
    assert plain_checksum(found[KEY]) == new.checksum()


@settings(max_examples=100, deadline=None)
@given(columns(), st.data())
def test_a_change_copies_only_the_chunks_it_touches(start, data):
    column, _ = start
    held = column.present.ordinals()
    before = {int(o): column[int(o)].copy() for o in held}
    chosen = np.array(data.draw(st.lists(st.sampled_from([0, 5, 4096, 12_000]), unique=True)), np.int64)
    matrix = np.full((len(chosen), 3), 7, np.float32)
    other = column.changed(chosen, matrix, column.present.union(OrdinalSet.from_ordinals(chosen)))
    touched = {int(o) // CHUNK_ROWS for o in chosen}
    for number, (one, two) in enumerate(zip(column.chunks, other.chunks, strict=False)):
        assert (one is two) == (number not in touched)
    for o, row in before.items():
        assert column[o].tobytes() == row.tobytes()
        if o not in chosen:
            assert other[o].tobytes() == row.tobytes()
    for o in chosen.tolist():
        assert other[o].tolist() == [7, 7, 7]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 40), st.integers(0, 2**31), st.randoms(use_true_random=False))
def test_the_compiled_sum_of_vectors_is_that_of_its_plain_twin(dims, count, first, random):
    rows = np.array([[random.getrandbits(32) for _ in range(dims)] for _ in range(40)], np.uint32).reshape(40, dims)
    places = np.array(sorted(random.sample(range(40), count)), np.int64)
    keys = np.array([random.getrandbits(64) for _ in range(dims)], np.uint64)
    assert compiled.sum_rows(rows, places, first, keys) == plain_twin.sum_rows(rows, places, first, keys)


@settings(max_examples=60, deadline=None)
@given(columns(), st.data())
def test_a_checksum_that_was_partly_known_is_that_of_a_column_made_anew(start, data):
    column, _ = start
    for _ in range(4):
        if data.draw(st.booleans()):
            column.checksum()
        chosen = np.array(data.draw(st.lists(st.sampled_from([0, 1, 64, 4096, 9000]), unique=True)), np.int64)
        matrix = np.full((len(chosen), 3), data.draw(st.integers(0, 3)), np.float32)
        column = column.changed(chosen, matrix, column.present.union(OrdinalSet.from_ordinals(chosen)))
        gone = np.array(data.draw(st.lists(st.sampled_from([1, 64, 4096]), unique=True, max_size=1)), np.int64)
        column = column.with_present(column.present.difference(OrdinalSet.from_ordinals(gone)))
        held = column.present.ordinals()
        assert column.checksum() == StoredVectors.of(3, held, column.rows(held)).checksum()

"""Random chains with vectors: every walk of a consumer gives the vectors of the version, and tools say what differs."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.compare import diff, history, state_digest
from deltaic.consumer import Consumer, verify_chain
from deltaic.state.read import ReadState
from deltaic.storage.local import LocalStore
from tests.unit.vector.reading_chain import EMBEDDING, VectorChain, stamp, vectors_by_key

numbers = st.sampled_from([0.0, -0.0, 1.0, 0.5, float("inf"), float("nan"), 1e-45])
movies = st.dictionaries(
    st.integers(0, 7),
    st.tuples(st.sampled_from(["a", "b", "c"]), st.none() | st.lists(numbers, min_size=2, max_size=2)),
    max_size=6,
)
versions = st.lists(movies, min_size=2, max_size=5)


def written(folder: str, wanted: list[dict[int, tuple[str, list[float] | None]]]) -> VectorChain:
    chain = VectorChain(LocalStore(folder))
    for content in wanted:
        titles = {number: title for number, (title, _) in content.items()}
        rows = {number: row for number, (_, row) in content.items()}
        # A column of no vectors has the dimensions of the others.
        chain.publish(titles, {EMBEDDING: {**rows, "nobody": [0.0, 0.0]}})
    return chain


def expected(content: dict[int, tuple[str, list[float] | None]]) -> dict[object, bytes | None]:
    return {n: None if row is None else np.array(row, np.float32).tobytes() for n, (_, row) in content.items()}


def found(state: ReadState) -> dict[object, bytes | None]:
    return vectors_by_key(state)[EMBEDDING]


@settings(max_examples=25)
@given(versions, st.lists(st.integers(0, 4), max_size=8), st.integers(1, 3))
def test_every_walk_gives_the_vectors_of_the_version(
    wanted: list[dict[int, tuple[str, list[float] | None]]], walk: list[int], max_deltas: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        chain = written(folder, wanted)
        consumer = Consumer(chain.store, max_deltas=max_deltas, share=False)
        for place in [0, *(step % len(wanted) for step in walk), len(wanted) - 1]:
            refresh = consumer.refresh(place + 1)
            assert refresh.failures == ()
            assert stamp(consumer.state) == place + 1
            assert found(consumer.state) == expected(wanted[place])
            assert {movie.id: movie.title for movie in consumer.state["Movie"]} == {
                number: title for number, (title, _) in wanted[place].items()
            }
        assert verify_chain(chain.store).findings == ()


@settings(max_examples=25)
@given(versions)
def test_tools_find_exactly_the_keys_that_differ(wanted: list[dict[int, tuple[str, list[float] | None]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        chain = written(folder, wanted)
        consumer = Consumer(chain.store, share=False)
        states: dict[int, ReadState] = {}
        for place, after in enumerate(wanted):
            refresh = consumer.refresh(place + 1)
            states[place + 1] = consumer.state
            if not place:
                continue
            before = wanted[place - 1]
            one, other = expected(before), expected(after)
            both = before.keys() & after.keys()
            moved = {number for number in both if one[number] != other[number]}
            changed = moved | {number for number in both if before[number][0] != after[number][0]}
            by_chain = diff(states[place], states[place + 1])["Movie"]
            by_content = diff(chain.states[place], chain.states[place + 1])["Movie"]
            for told in (by_chain, by_content):
                assert {change.key[0] for change in told.records("modified") if change.key} == changed
                assert told.fields["embedding"].changed == len(moved)
                assert told.counts.unchanged == len(both) - len(changed)
            if "Movie" in refresh.changes:
                assert {key[0] for key in refresh.changes["Movie"].modified_keys()} == changed
                assert {key[0] for key in refresh.changes["Movie"].added_keys()} == after.keys() - before.keys()
            else:
                assert not changed and before.keys() == after.keys()
        for number in range(8):
            touched = history(states.items(), "Movie", number).touched
            told_at = [
                place + 1
                for place in range(1, len(wanted))
                if (wanted[place - 1].get(number, ("", None))[0], expected(wanted[place - 1]).get(number, b"none"))
                != (wanted[place].get(number, ("", None))[0], expected(wanted[place]).get(number, b"none"))
            ]
            assert list(touched) == told_at
        for place in states:
            assert state_digest(states[place]) == state_digest(chain.states[place])


def test_the_chains_of_these_tests_are_read_without_their_helper(tmp_path: Path) -> None:
    chain = written(str(tmp_path), [{1: ("a", [0.5, 1.0])}, {1: ("a", [0.5, 2.0])}])
    consumer = Consumer(chain.store)
    consumer.refresh()
    assert consumer["Movie"][1].embedding.tolist() == [0.5, 2.0]

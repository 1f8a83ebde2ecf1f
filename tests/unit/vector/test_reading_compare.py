"""Tools on states with vectors: diff, history, split, combine, filtered copies, statistics, digest, commands."""

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.cli import main
from deltaic.compare import (
    combine,
    copy_records,
    diff,
    filtered_copy,
    footprint,
    history,
    snapshot_part,
    split,
    state_digest,
    type_statistics,
    vectors_of,
    version_changes,
)
from deltaic.compare.vectors import changed_rows, changed_vectors
from deltaic.consumer import Consumer
from deltaic.errors import InputError
from deltaic.state.bitset import OrdinalSet
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors
from deltaic.state.write import WriteState
from deltaic.storage.local import LocalStore
from deltaic.vector.attach import with_vectors
from tests.unit.vector.reading_chain import EMBEDDING, VectorChain, vectors_by_key

FACE = ("Actor", "face")
TITLES = {number: f"Movie {number}" for number in range(8)}


def rows(changed: int | None = None) -> dict[int, list[float] | None]:
    found: dict[int, list[float] | None] = {number: [0.5, float(number), 0.25, -1.0] for number in range(6)}
    if changed is not None:
        found[changed] = [0.5, 9.0, 0.25, -1.0]
    return found


@pytest.fixture
def chain(tmp_path: Path) -> VectorChain:
    """Version 2 changes a vector alone, 3 an actor's, 4 clears one and sets one, 5 changes a title alone."""
    made = VectorChain(LocalStore(tmp_path / "chain"))
    stars = dict.fromkeys(range(3), "Banionis")
    face: dict[object, object] = {"Banionis": [1.0, 2.0]}
    other: dict[object, object] = {"Banionis": [1.0, 3.0]}
    made.publish(TITLES, {EMBEDDING: rows(), FACE: face}, stars=stars)  # type: ignore[dict-item]
    made.publish(TITLES, {EMBEDDING: rows(2), FACE: face}, stars=stars)  # type: ignore[dict-item]
    made.publish(TITLES, {EMBEDDING: rows(2), FACE: other}, stars=stars)  # type: ignore[dict-item]
    cleared = {**rows(2), 1: None, 7: [0.5, 7.0, 0.0, 0.0]}
    made.publish(TITLES, {EMBEDDING: cleared, FACE: other}, stars=stars)  # type: ignore[dict-item]
    made.publish({**TITLES, 4: "Mirror"}, {EMBEDDING: cleared, FACE: other}, stars=stars)  # type: ignore[dict-item]
    return made


@pytest.fixture
def states(chain: VectorChain) -> dict[int, ReadState]:
    consumer, found = Consumer(chain.store), {}
    for version in chain.versions:
        consumer.refresh(version)
        found[version] = consumer.state
    return found


# Diff and history.


def test_a_diff_counts_vectors_like_fields(states: dict[int, ReadState]) -> None:
    found = diff(states[1], states[2])
    assert found["Movie"].counts.modified == 1
    assert {name: one.changed for name, one in found["Movie"].fields.items() if one.changed} == {"embedding": 1}
    (change,) = found["Movie"].records()
    assert change.key == (2,)
    assert [str(one) for one in change.differences()] == ["embedding: 1 of 4 numbers, distance 7: [1] 2.0 -> 9.0"]
    assert change.to_dict()["differences"] == [
        {"path": "embedding", "before": [0.5, 2.0, 0.25, -1.0], "after": [0.5, 9.0, 0.25, -1.0]}
    ]
    assert not found["Actor"]


def test_a_record_that_leads_to_another_vector_is_modified_too(states: dict[int, ReadState]) -> None:
    found = diff(states[2], states[3])
    assert found["Actor"].fields["face"].changed == 1
    assert found["Movie"].counts.modified == 3, "three movies show the face"
    assert {name for name, one in found["Movie"].fields.items() if one.changed} == {"star"}


def test_a_diff_says_what_was_set_and_what_was_cleared(states: dict[int, ReadState]) -> None:
    field = diff(states[3], states[4])["Movie"].fields["embedding"]
    assert (field.changed, field.set, field.cleared) == (2, 1, 1)


def test_a_diff_of_states_by_different_ways_finds_the_same(chain: VectorChain, states: dict[int, ReadState]) -> None:
    for before, after in ((1, 5), (5, 1), (2, 4)):
        ways = [diff(states[before], states[after]), diff(chain.states[before], chain.states[after])]
        assert ways[0].to_dict() == ways[1].to_dict()
    assert not diff(states[4], chain.states[4])


def test_a_column_that_one_side_lacks_is_told(states: dict[int, ReadState]) -> None:
    bare = states[2].with_vectors({})
    field = diff(bare, states[2])["Movie"].fields["embedding"]
    assert (field.only_in, field.changed, field.set) == ("after", 6, 6)
    assert not diff(bare, bare)


def test_changes_as_arrow_hold_vectors_of_both_sides(states: dict[int, ReadState]) -> None:
    pytest.importorskip("pyarrow")
    (row,) = diff(states[1], states[2])["Movie"].to_arrow().to_pyarrow().to_pylist()
    assert (row["before"]["embedding"][1], row["after"]["embedding"][1]) == (2.0, 9.0)


def test_the_history_of_a_key_names_the_versions_that_changed_its_vector(states: dict[int, ReadState]) -> None:
    assert history(states.items(), "Movie", 2).touched == (2, 3), "its own vector, and that of its star"
    assert history(states.items(), "Actor", "Banionis").touched == (3,)
    assert history(states.items(), "Movie", 1).touched == (3, 4)
    assert history(states.items(), "Movie", 7).at(4)["embedding"] == [0.5, 7.0, 0.0, 0.0]
    assert history(states.items(), "Movie", 4).touched == (5,)
    assert [found.counts["Movie"].modified for found in version_changes(states.items())] == [1, 3, 2, 1]


def test_changed_vectors_look_at_changed_chunks_only() -> None:
    ordinals = np.arange(3 * CHUNK_ROWS)
    one = StoredVectors.of(2, ordinals, np.zeros((len(ordinals), 2), np.float32))
    two = one.changed(np.array([5000]), np.array([[0.0, -0.0]], np.float32), one.present)
    assert changed_rows(one, two).ordinals().tolist() == [5000], "zeros of another sign differ"
    assert not changed_rows(one, one)
    assert changed_rows(one, None) == changed_rows(None, one) == one.present
    assert not changed_rows(None, None)
    assert changed_rows(one, StoredVectors.of(3, ordinals, np.zeros((len(ordinals), 3), np.float32))) == one.present
    fewer = one.with_present(OrdinalSet.from_ordinals(ordinals[:10]))
    assert len(changed_rows(one, fewer)) == len(ordinals) - 10


columns = st.dictionaries(
    st.integers(0, 2 * CHUNK_ROWS), st.lists(st.sampled_from([0.0, -0.0, 1.0, float("nan")]), min_size=2, max_size=2)
)


@given(columns, columns)
def test_changed_rows_are_those_whose_bits_differ(old: dict[int, list[float]], new: dict[int, list[float]]) -> None:
    def stored(values: dict[int, list[float]]) -> StoredVectors:
        places = np.array(list(values), np.int64)
        return StoredVectors.of(2, places, np.array(list(values.values()), np.float32).reshape(-1, 2))

    def bits(values: dict[int, list[float]], ordinal: int) -> bytes | None:
        return np.array(values[ordinal], np.float32).tobytes() if ordinal in values else None

    expected = sorted(one for one in {*old, *new} if bits(old, one) != bits(new, one))
    assert changed_rows(stored(old), stored(new)).ordinals().tolist() == expected


# Copies.


def read_back(copy: WriteState) -> ReadState:
    """A copy as its readers have it: the snapshot, and the part beside it."""
    part = snapshot_part(copy)
    stream = io.BytesIO()
    copy.write_snapshot(stream)
    return with_vectors(ReadState.load(stream.getvalue()), None, part)


def test_parts_of_a_split_state_have_the_vectors_of_their_records(states: dict[int, ReadState]) -> None:
    parts = [read_back(one) for one in split(states[4], 3, "Movie")]
    together: dict[object, bytes | None] = {}
    for part in parts:
        together |= vectors_by_key(part)[EMBEDDING]
        assert vectors_by_key(part)[FACE].items() <= vectors_by_key(states[4])[FACE].items()
    assert together == vectors_by_key(states[4])[EMBEDDING]
    assert sum(len(part["Movie"]) for part in parts) == 8


def test_a_split_state_that_is_combined_again_is_the_same(states: dict[int, ReadState]) -> None:
    parts = [read_back(one) for one in split(states[4], 3)]
    whole = read_back(combine(parts))
    assert not diff(states[4], whole)
    assert state_digest(whole) == state_digest(states[4])


def test_where_keys_meet_the_vector_of_the_record_that_stays_counts(states: dict[int, ReadState]) -> None:
    first, last = (read_back(combine([states[1], states[4]], on_equal_keys=which)) for which in ("first", "last"))
    assert vectors_by_key(first) == vectors_by_key(states[1])
    assert vectors_by_key(last)[EMBEDDING] == vectors_by_key(states[4])[EMBEDDING]
    with pytest.raises(InputError, match="two vectors"):
        combine([states[1], states[2]], on_equal_keys="both")
    assert vectors_by_key(read_back(combine([states[1], states[1]], on_equal_keys="both"))) == vectors_by_key(states[1])


def test_states_whose_columns_have_other_dimensions_do_not_combine(states: dict[int, ReadState]) -> None:
    other = states[2].with_vectors({EMBEDDING: StoredVectors.of(2, np.array([0]), np.ones((1, 2), np.float32))})
    with pytest.raises(InputError, match="4 dimensions in one state and 2 in another"):
        combine([states[1], other], on_equal_keys="both")


def test_a_filtered_copy_keeps_the_vectors_of_what_it_keeps(states: dict[int, ReadState]) -> None:
    kept = filtered_copy(states[1], keep={"Movie": lambda view: view.column("id").values % 2 == 0})
    assert set(vectors_by_key(read_back(kept))[EMBEDDING]) == {0, 2, 4, 6}
    assert not vectors_of(filtered_copy(states[1], filter=Filter.without("Movie.embedding", "Actor.face")))
    only = filtered_copy(states[1], filter=Filter.without("Movie.embedding"))
    assert list(vectors_of(only)) == [FACE]
    assert list(vectors_of(filtered_copy(states[1], filter=Filter.without("Movie.id")))) == [FACE], "no key, no vectors"


def test_copied_records_bring_their_vectors(states: dict[int, ReadState]) -> None:
    state = states[1]
    chosen = OrdinalSet.from_ordinals(np.array([2, 5]))
    copy = read_back(copy_records(state, {"Movie": chosen}))
    expected = {key: bits for key, bits in vectors_by_key(state)[EMBEDDING].items() if key in (2, 5)}
    assert vectors_by_key(copy)[EMBEDDING] == expected
    assert vectors_by_key(copy)[FACE] == vectors_by_key(state)[FACE]


# What it costs and holds.


def test_a_footprint_says_what_a_vector_column_costs(states: dict[int, ReadState]) -> None:
    found = {one.name: one for one in footprint(states[1])}
    column = states[1].vectors[EMBEDDING]
    (field,) = [one for one in found["Movie"].fields if one.name == "embedding"]
    assert field.bits == 4 * 32
    assert field.fixed_bytes == CHUNK_ROWS * 16
    assert field.hole_bytes == (CHUNK_ROWS - 6) * 16
    assert found["Movie"].total_bytes == states[1].types["Movie"].nbytes + column.nbytes
    assert sum(one.total_bytes for one in found.values()) == states[1].nbytes


def test_statistics_tell_of_nulls_norms_and_vectors_that_occur_twice(states: dict[int, ReadState]) -> None:
    state = states[1]
    column = StoredVectors.of(2, np.array([0, 1, 3]), np.array([[3, 4], [3, 4], [0, 1]], np.float32))
    (found,) = type_statistics(state.with_vectors({EMBEDDING: column}), "Movie", fields=["embedding"])
    assert (found.type, found.count, found.nulls, found.distinct) == ("vector[2]", 8, 5, 2)
    assert (found.min, found.max, found.mean) == (1.0, 5.0, pytest.approx(11 / 3))
    assert found.top == (([3.0, 4.0], 2),)
    assert json.loads(json.dumps(found.to_dict()))["top"] == [[[3.0, 4.0], 2]]
    names = [one.name for one in type_statistics(state, "Movie")]
    assert names == ["id", "title", "star", "embedding"]
    empty = state.with_vectors({EMBEDDING: StoredVectors.empty(2)})
    assert type_statistics(empty, "Movie", fields=["embedding"])[0].mean is None


def test_a_digest_counts_vectors_unless_told_not_to(chain: VectorChain, states: dict[int, ReadState]) -> None:
    assert state_digest(states[1]) != state_digest(states[2])
    assert state_digest(states[1], vectors=False) != state_digest(states[2], vectors=False), "the stamp differs"
    bare = states[2].with_vectors({})
    assert state_digest(bare) == state_digest(states[2], vectors=False)
    assert state_digest(states[4]) == state_digest(chain.states[4]), "by deltas and by snapshot"


def test_changed_vectors_of_a_type_are_those_of_any_column(states: dict[int, ReadState]) -> None:
    assert len(changed_vectors(states[1], states[2], "Movie")) == 1
    assert len(changed_vectors(states[2], states[3], "Actor")) == 1
    assert not changed_vectors(states[2], states[3], "Movie")
    assert not changed_vectors(states[2], states[3], "Stamp")


# Commands.


Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    pytest.importorskip("typer")
    pytest.importorskip("rich")

    def told(*words: str) -> str:
        code = main(list(words))
        captured = capsys.readouterr()
        assert code == 0, captured.err
        return captured.out

    return told


@pytest.fixture
def wide(tmp_path: Path) -> str:
    made = VectorChain(LocalStore(tmp_path / "wide"))
    vectors = {number: [float(number), *([0.1] * 63)] for number in range(4)}
    made.publish({number: str(number) for number in range(5)}, vectors)
    made.publish({number: str(number) for number in range(5)}, {**vectors, 2: [2.0, 7.0, *([0.1] * 62)]})
    return str(tmp_path / "wide")


def test_get_shortens_a_vector_for_people_and_gives_it_whole_as_json(wide: str, run: Run) -> None:
    assert "embedding: [2.0, 7.0, 0.1, 0.1, … 64 numbers, norm 7.323]" in run("get", wide, "Movie", "2")
    (found,) = json.loads(run("get", wide, "Movie", "2", "--json"))
    assert found["record"]["embedding"] == [2.0, 7.0, *([0.1] * 62)]
    assert "embedding: null" in run("get", wide, "Movie", "4")


def test_diff_and_history_say_how_far_a_vector_moved(wide: str, run: Run) -> None:
    moved = "embedding: 1 of 64 numbers, distance 6.9: [1] 0.1 -> 7.0"
    told = run("diff", wide, "1", "2", "--limit", "5")
    assert moved in told and "Movie.embedding" in told
    assert moved in run("history", wide, "Movie", "2")
    found = json.loads(run("diff", wide, "1", "2", "--json", "--limit", "5"))
    assert found["types"]["Movie"]["fields"]["embedding"]["changed"] == 1
    (change,) = found["types"]["Movie"]["records"]
    assert len(change["after"]["embedding"]) == len(change["differences"][0]["before"]) == 64
    entries = json.loads(run("history", wide, "Movie", "2", "--json"))["entries"]
    assert entries[1]["value"]["embedding"][1] == 7.0


def test_stats_show_the_cost_of_a_vector_column(wide: str, run: Run) -> None:
    told = run("stats", wide, "Movie")
    assert "vector[64]" in told and f"{CHUNK_ROWS * 256:,}" in told
    found = json.loads(run("stats", wide, "Movie", "--json"))
    assert {one["name"]: one["bytes"] for one in found["fields"]}["embedding"] == CHUNK_ROWS * 256


def test_commands_read_the_part_beside_a_snapshot_file_and_in_a_folder_without_announcement(
    wide: str, run: Run
) -> None:
    from_file = json.loads(run("get", f"{wide}/snapshot-2", "Movie", "2", "--json"))
    for name in ("announced.json", "announced.version"):
        (Path(wide) / name).unlink(missing_ok=True)
    from_folder = json.loads(run("get", wide, "Movie", "2", "--json"))
    assert from_file[0]["record"]["embedding"][1] == from_folder[0]["record"]["embedding"][1] == 7.0
    assert json.loads(run("history", wide, "Movie", "2", "--json"))["touched"] == [2]


def test_export_and_generate_know_vectors(wide: str, run: Run) -> None:
    lines = [json.loads(line) for line in run("export", wide, "Movie").splitlines()]
    assert lines[2]["embedding"][:2] == [2.0, 7.0]
    assert "marks.Vector(64)" in run("generate", wide)

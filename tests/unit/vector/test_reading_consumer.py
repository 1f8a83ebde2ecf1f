"""Consumers with vectors: every way to a version, parts that are absent or damaged, filters, copies, longevity."""

import gc
import threading
from pathlib import Path

import numpy as np
import pytest

from deltaic.consumer import Consumer, Longevity, verify_chain
from deltaic.errors import DecodeError, NotFoundError
from deltaic.limits import Limits
from deltaic.state.filter import Filter
from deltaic.storage.local import LocalStore
from deltaic.vector.part import encode_snapshot_part
from tests.unit.vector.reading_chain import (
    EMBEDDING,
    VectorChain,
    cut,
    damaged,
    same_vectors,
    stamp,
    vector,
    vectors_by_key,
)

TITLES = {number: f"Movie {number}" for number in range(10)}


def rows(version: int, count: int = 9) -> dict[int, list[float] | None]:
    """Vectors of the first movies, the first of which changes with every version; one has none."""
    return {
        number: [float(version if number == version % count else 0), float(number), -0.0, 0.5] if number != 4 else None
        for number in range(count)
    }


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "chain")


@pytest.fixture
def chain(store: LocalStore) -> VectorChain:
    """Vectors change alone (2), a record changes alone (3), records come and go (4), nothing but vectors again (5)."""
    made = VectorChain(store)
    made.publish(TITLES, rows(1))
    made.publish(TITLES, rows(2))
    made.publish({**TITLES, 3: "Solaris"}, rows(2))
    made.publish({number: title for number, title in TITLES.items() if number not in (1, 5)} | {77: "New"}, rows(4))
    made.publish({number: title for number, title in TITLES.items() if number != 5} | {77: "New"}, rows(5))
    return made


@pytest.fixture(params=[False, True], ids=["private", "shared"])
def share(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    root = tmp_path / "arenas"
    monkeypatch.setattr("deltaic.consumer.arena.arena_roots", lambda: [root])
    return bool(request.param)


def test_every_version_is_reached_forward_and_back_bit_for_bit(chain: VectorChain, share: bool) -> None:
    consumer = Consumer(chain.store, share=share)
    for version in (1, 2, 3, 4, 5, 4, 3, 2, 1, 5, 1, 3):
        consumer.refresh(version)
        assert stamp(consumer.state) == version
        assert consumer.status().shared == share
        assert same_vectors(consumer.state, chain.states[version]), version


def test_every_version_is_reached_by_its_snapshot(chain: VectorChain) -> None:
    for version in chain.versions:
        consumer = Consumer(chain.store)
        refresh = consumer.refresh(version)
        assert refresh.by_snapshot or version == 1
        assert same_vectors(consumer.state, chain.states[version])


def test_a_second_snapshot_replaces_the_vectors(chain: VectorChain, share: bool) -> None:
    consumer = Consumer(chain.store, share=share, max_deltas=1)
    consumer.refresh(1)
    refresh = consumer.refresh(5)
    assert refresh.by_snapshot
    assert same_vectors(consumer.state, chain.states[5])


def test_a_record_gives_its_vector_read_only_and_none_where_there_is_none(chain: VectorChain) -> None:
    consumer = Consumer(chain.store)
    consumer.refresh(2)
    movie = consumer["Movie"][2]
    assert movie.embedding.tolist() == [2.0, 2.0, -0.0, 0.5]
    assert movie.embedding.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        movie.embedding[0] = 1.0
    assert consumer["Movie"][4].embedding is None
    assert consumer["Movie"][9].embedding is None
    assert np.signbit(movie.embedding[2]), "zeros keep their sign"


def test_a_vector_that_changed_alone_is_a_modified_record(chain: VectorChain, share: bool) -> None:
    consumer = Consumer(chain.store, share=share, cached_types=["Movie"])
    consumer.refresh(1)
    assert consumer.cached("Movie").find(2)["embedding"][0] == 0.0
    changes = consumer.refresh(2).changes
    assert changes["Movie"].modified_keys() == [(1,), (2,)]
    assert changes["Movie"].added_keys() == changes["Movie"].removed_keys() == []
    assert changes["Movie"].before[int(changes["Movie"].modified.before[1])].embedding[0] == 0.0
    assert changes["Movie"].after[int(changes["Movie"].modified.after[1])].embedding[0] == 2.0
    assert consumer.cached("Movie").find(2)["embedding"] == [2.0, 2.0, -0.0, 0.5]


def test_a_record_that_changed_alone_keeps_its_vector_in_its_new_place(chain: VectorChain) -> None:
    consumer = Consumer(chain.store)
    consumer.refresh(2)
    old = consumer["Movie"][3]
    refresh = consumer.refresh(3)
    new = consumer["Movie"][3]
    assert old.ordinal != new.ordinal
    assert old.embedding.tobytes() == new.embedding.tobytes()
    assert refresh.changes["Movie"].modified_keys() == [(3,)]
    assert refresh.steps[0].vector_bytes < 200


def test_a_ghost_keeps_its_vector_for_one_version(chain: VectorChain, share: bool) -> None:
    consumer = Consumer(chain.store, share=share)
    consumer.refresh(3)
    gone = {number: consumer["Movie"][number].ordinal for number in (1, 5)}
    bits = {number: consumer["Movie"][number].embedding.tobytes() for number in gone}
    consumer.refresh(4)
    view = consumer.state["Movie"]
    assert set(gone.values()) <= set(view.ghosts)
    assert {number: view[ordinal].embedding.tobytes() for number, ordinal in gone.items()} == bits
    assert not set(gone.values()) & set(view.vectors("embedding").present), "a ghost is not among the vectors"
    assert len(view.vectors("embedding")) == 6


def test_a_ghost_without_a_vector_has_none_though_an_earlier_record_had_one_there(store: LocalStore) -> None:
    chain = VectorChain(store)
    chain.publish({0: "a", 1: "b"}, {0: [1, 1, 1, 1], 1: [1, 2, 2, 2]})
    chain.publish({0: "a"}, {0: [1, 1, 1, 1]})
    chain.publish({0: "a"}, {0: [1, 1, 1, 1]})
    chain.publish({0: "a", 2: "c"}, {0: [1, 1, 1, 1], 2: None})
    chain.publish({0: "a"}, {0: [1, 1, 1, 1]})
    consumer = Consumer(store)
    consumer.refresh(4)
    ordinal = consumer["Movie"][2].ordinal
    assert ordinal == 1, "it stands where another one had a vector"
    assert consumer["Movie"][2].embedding is None
    consumer.refresh(5)
    assert consumer.state["Movie"][ordinal].embedding is None


def test_a_state_that_is_held_keeps_its_vectors_over_refreshes(chain: VectorChain, share: bool) -> None:
    consumer = Consumer(chain.store, share=share)
    consumer.refresh(1)
    held, expected = consumer.state, vectors_by_key(consumer.state)
    row = consumer["Movie"][2].embedding
    for version in (2, 3, 4, 5):
        consumer.refresh(version)
    assert vectors_by_key(held) == expected
    assert row.tolist() == [0.0, 2.0, -0.0, 0.5]


def test_chunks_without_a_change_are_shared_between_versions(store: LocalStore, share: bool) -> None:
    chain = VectorChain(store)
    titles = {number: str(number) for number in range(10_000)}
    vectors = {number: [1.0, float(number), 0.0, 0.0] for number in titles}
    chain.publish(titles, vectors)
    chain.publish(titles, {**vectors, 5_000: [2.0, 0.0, 0.0, 0.0]})
    consumer = Consumer(store, share=share)
    consumer.refresh(1)
    before = consumer.state.vectors[EMBEDDING]
    consumer.refresh(2)
    after = consumer.state.vectors[EMBEDDING]
    assert [np.shares_memory(one, two) for one, two in zip(before.chunks, after.chunks, strict=True)] == [
        True,
        False,
        True,
    ]
    assert same_vectors(consumer.state, chain.states[2])


def test_a_vector_column_comes_and_goes_with_the_model(store: LocalStore, share: bool) -> None:
    chain = VectorChain(store)
    poster = ("Movie", "poster")
    two = {EMBEDDING: rows(1), poster: {number: [1.0, float(number)] for number in range(5)}}
    chain.publish(TITLES, rows(1))
    chain.publish(TITLES, two)
    chain.publish(TITLES, {**two, poster: {number: [3.0, float(number), 1.0] for number in range(5)}})
    chain.publish(TITLES, {poster: {number: [3.0, float(number), 1.0] for number in range(5)}})
    consumer = Consumer(store, share=share)
    for version in (1, 2, 3, 4, 3, 2, 1):
        consumer.refresh(version)
        assert consumer.state.vectors.keys() == chain.states[version].vectors.keys()
        assert same_vectors(consumer.state, chain.states[version])
        assert consumer.status().missing_vectors == ()
    assert not hasattr(consumer["Movie"][1], "poster")
    consumer.refresh(3)
    assert consumer["Movie"][1].poster.tolist() == [3.0, 1.0, 1.0]


def test_resharding_keeps_the_vectors(store: LocalStore) -> None:
    chain = VectorChain(store)
    titles = {number: str(number) for number in range(3_000)}
    chain.writer.target_shard_bytes = 1 << 20
    chain.publish(titles, {number: [1.0, float(number), 0.0, 0.0] for number in titles})
    consumer = Consumer(store)
    consumer.refresh()
    assert len(consumer.state.types["Movie"].shards) == 1
    chain.writer.target_shard_bytes = 2_000
    chain.publish({**titles, 7: "seven"}, {number: [1.0, float(number), 0.0, 0.0] for number in titles})
    refresh = consumer.refresh()
    assert not refresh.by_snapshot
    assert len(consumer.state.types["Movie"].shards) > 1
    assert same_vectors(consumer.state, chain.states[2])
    assert consumer["Movie"][7].embedding.tolist() == [1.0, 7.0, 0.0, 0.0]


# Parts that are absent.


def test_a_chain_without_parts_gives_states_without_vectors(store: LocalStore) -> None:
    chain = VectorChain(store)
    chain.publish(TITLES, {}, parts=False)
    chain.publish(TITLES, {}, parts=False)
    consumer = Consumer(store)
    for version in (1, 2):
        consumer.refresh(version)
        assert not consumer.state.vectors
        assert consumer.status().missing_vectors == ()
        assert consumer.status().healthy
    with pytest.raises(NotFoundError, match="no vector column 'embedding'"):
        consumer.state["Movie"].vectors("embedding")


def test_status_names_the_columns_that_a_blob_came_without(store: LocalStore, share: bool) -> None:
    chain = VectorChain(store)
    chain.publish(TITLES, rows(1))
    chain.publish(TITLES, rows(2), parts=False)
    chain.publish(TITLES, rows(3), snapshot=False)
    chain.publish(TITLES, rows(4))
    consumer = Consumer(store, share=share)
    consumer.refresh(1)
    assert consumer.status().missing_vectors == ()
    consumer.refresh(2)
    assert not consumer.state.vectors
    assert consumer.status().missing_vectors == ("Movie.embedding",)
    assert consumer.status().healthy, "records are there, and the reader was told what is not"
    if share:
        other = Consumer(store, share=True)
        other.refresh(2)
        assert other.status().missing_vectors == ("Movie.embedding",), "a second process is told too"
    consumer.refresh(3)
    assert not consumer.state.vectors, "a part that goes on from what is not there gives nothing"
    assert consumer.status().missing_vectors == ("Movie.embedding",)
    consumer.refresh(4)
    assert consumer.status().missing_vectors == ("Movie.embedding",)
    fresh = Consumer(store)
    fresh.refresh(4)
    assert same_vectors(fresh.state, chain.states[4])
    assert fresh.status().missing_vectors == ()


def test_a_header_that_names_a_column_without_a_part_says_what_is_missing(store: LocalStore) -> None:
    chain = VectorChain(store)
    chain.publish(TITLES, rows(1))
    for name in list(chain.files):
        if name.startswith("vector-"):
            Path(store.path_of(name)).unlink()
    Path(store.path_of("announced.json")).unlink()
    store.put("announced.version", b"1")
    consumer = Consumer(store)
    consumer.refresh()
    assert not consumer.state.vectors
    assert consumer.status().missing_vectors == ("Movie.embedding",)


def test_a_chain_that_is_announced_by_its_bare_number_has_its_vectors_too(store: LocalStore) -> None:
    chain = VectorChain(store, record=False)
    chain.publish(TITLES, rows(1))
    chain.publish(TITLES, rows(2))
    consumer = Consumer(store)
    for version in (1, 2, 1):
        consumer.refresh(version)
        assert same_vectors(consumer.state, chain.states[version])
    assert consumer.status().verified is False


# Parts that are damaged.


@pytest.mark.parametrize("spoil", [damaged, cut, lambda data: b"", lambda data: data + b"\0"])
def test_a_damaged_part_of_a_delta_fails_the_step_and_another_way_is_taken(store: LocalStore, spoil: object) -> None:
    chain = VectorChain(store)
    chain.publish(TITLES, rows(1))
    chain.spoil["vector-2-delta.1"] = spoil  # type: ignore[assignment]
    chain.publish(TITLES, rows(2))
    consumer = Consumer(store)
    consumer.refresh(1)
    refresh = consumer.refresh(2)
    assert refresh.by_snapshot
    assert [str(failed.blob) for failed in refresh.failures] == ["delta-1-2"]
    assert "vector-2-delta.1" in refresh.failures[0].error
    assert same_vectors(consumer.state, chain.states[2])


def test_without_another_way_nothing_of_the_step_is_seen(store: LocalStore, share: bool) -> None:
    chain = VectorChain(store)
    chain.publish(TITLES, rows(1))
    chain.spoil["vector-2-delta.1"] = damaged
    chain.publish({**TITLES, 3: "Solaris"}, rows(2), snapshot=False)
    consumer = Consumer(store, share=share)
    consumer.refresh(1)
    with pytest.raises(DecodeError, match=r"vector-2-delta\.1"):
        consumer.refresh(2)
    assert consumer.version == 1
    assert consumer["Movie"][3].title == "Movie 3"
    assert same_vectors(consumer.state, chain.states[1])
    assert [str(one.blob) for one in consumer.status().failed_transitions] == ["delta-1-2"]


def test_a_part_that_is_announced_but_not_there_fails_the_step(store: LocalStore) -> None:
    chain = VectorChain(store)
    chain.publish(TITLES, rows(1))
    chain.publish(TITLES, rows(2))
    Path(store.path_of("vector-2-delta.1")).unlink()
    consumer = Consumer(store)
    consumer.refresh(1)
    refresh = consumer.refresh(2)
    assert refresh.by_snapshot and len(refresh.failures) == 1


def test_a_part_of_another_blob_is_refused_though_its_checksum_is_right(store: LocalStore) -> None:
    chain = VectorChain(store, record=False)
    chain.publish(TITLES, rows(1))
    chain.publish(TITLES, rows(2))
    store.put("vector-2-delta.1", chain.files["vector-1-snapshot"])
    consumer = Consumer(store)
    consumer.refresh(1)
    refresh = consumer.refresh(2)
    assert refresh.by_snapshot
    assert "belongs to another blob" in refresh.failures[0].error


def test_a_part_that_was_published_again_is_tried_at_once(store: LocalStore) -> None:
    chain = VectorChain(store)
    chain.publish(TITLES, rows(1))
    chain.spoil["vector-2-delta.1"] = damaged
    chain.publish(TITLES, rows(2), snapshot=False)
    consumer = Consumer(store)
    consumer.refresh(1)
    with pytest.raises(DecodeError):
        consumer.refresh(2)
    assert consumer.refresh(2).stuck is not None, "the same files are left alone for a while"
    store.put("vector-2-delta.1", chain.files["vector-2-delta.1"])
    consumer.forget_failures()
    assert consumer.refresh(2).to_version == 2
    assert same_vectors(consumer.state, chain.states[2])


def test_a_state_limit_refuses_vectors_that_do_not_fit(store: LocalStore) -> None:
    chain = VectorChain(store)
    chain.publish(TITLES, {number: [1.0] * 1024 for number in TITLES})
    with pytest.raises(DecodeError, match="limit"):
        Consumer(store, limits=Limits(max_state_bytes=1 << 20)).refresh()
    Consumer(store, limits=Limits(max_state_bytes=32 << 20)).refresh()


def test_no_changed_byte_of_a_part_changes_a_vector_unseen(store: LocalStore) -> None:
    chain = VectorChain(store, record=False)
    chain.publish(TITLES, rows(1))
    chain.publish({**TITLES, 3: "Solaris"}, rows(2))
    whole = chain.files["vector-2-delta.1"]
    refused = 0
    places = range(0, len(whole), 3)
    for place in places:
        store.put("vector-2-delta.1", whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        consumer = Consumer(store, share=False)
        consumer.refresh(1)
        refresh = consumer.refresh(2)
        assert same_vectors(consumer.state, chain.states[2]), place
        refused += bool(refresh.failures)
    assert refused == len(places), "every byte counts, though nothing was announced of the file"


def test_a_state_is_shared_by_itself_if_its_vectors_are_large(
    store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deltaic.consumer.arena.arena_roots", lambda: [tmp_path / "arenas"])
    chain = VectorChain(store)
    chain.publish(TITLES, {number: np.random.default_rng(number).standard_normal(512) for number in TITLES})
    blob, part = len(chain.files["snapshot-1"]), len(chain.files["vector-1-snapshot"])
    assert part > 10_000 > blob - 8_000
    for limit, shared in ((blob + part, True), (blob + part + 1, False)):
        monkeypatch.setattr("deltaic.consumer.sharing.SHARED_FROM_BYTES", limit)
        consumer = Consumer(store, share="auto")
        consumer.refresh()
        assert consumer.status().shared == shared
        assert same_vectors(consumer.state, chain.states[1])


# Filters.


def reads_of(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all files that are read from now on."""
    from deltaic.consumer.fetch import Fetcher

    names: list[str] = []
    read = Fetcher.read

    def noted(self: Fetcher, name: str, artifact: object) -> object:
        names.append(name)
        return read(self, name, artifact)  # type: ignore[arg-type]

    monkeypatch.setattr(Fetcher, "read", noted)
    return names


@pytest.mark.parametrize("filter", [Filter.without("Movie.embedding"), Filter.only("Movie.id"), Filter.only("Stamp")])
def test_a_filter_that_leaves_the_vectors_out_leaves_the_part_unread(
    chain: VectorChain, filter: Filter, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = reads_of(chain.store, monkeypatch)  # type: ignore[arg-type]
    consumer = Consumer(chain.store, filter=filter)
    for version in (1, 2, 1):
        consumer.refresh(version)
    assert not consumer.state.vectors
    assert names and not [name for name in names if name.startswith("vector-")]
    assert consumer.status().missing_vectors == (), "what was not asked for is not missing"


@pytest.mark.parametrize("filter", [Filter.only("Movie"), Filter.only("Movie.id", "Movie.embedding")])
def test_a_filter_that_keeps_the_vectors_reads_the_part(chain: VectorChain, filter: Filter) -> None:
    consumer = Consumer(chain.store, filter=filter)
    for version in (1, 3, 5, 2):
        consumer.refresh(version)
        assert same_vectors(consumer.state, chain.states[version])


def test_a_filter_takes_one_of_two_columns(store: LocalStore) -> None:
    chain = VectorChain(store)
    poster = ("Movie", "poster")
    for version in (1, 2):
        chain.publish(TITLES, {EMBEDDING: rows(version), poster: {number: [float(version)] for number in range(5)}})
    consumer = Consumer(store, filter=Filter.without("Movie.embedding"))
    for version in (1, 2):
        consumer.refresh(version)
        assert list(consumer.state.vectors) == [poster]
        assert consumer["Movie"][1].poster.tolist() == [version]
        assert consumer.status().missing_vectors == ()


def test_a_filter_without_names_in_the_header_goes_by_the_part(store: LocalStore) -> None:
    chain = VectorChain(store, tagged=False)
    chain.publish(TITLES, rows(1))
    consumer = Consumer(store, filter=Filter.without("Movie.embedding"))
    consumer.refresh()
    assert not consumer.state.vectors
    consumer = Consumer(store, filter=Filter.without("Actor"))
    consumer.refresh()
    assert same_vectors(consumer.state, chain.states[1])


# Copies, reports, health.


def test_copies_of_parts_are_kept_and_used(chain: VectorChain, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    for expected in (False, True):
        consumer = Consumer(chain.store, cache_dir=cache)
        steps = [*consumer.refresh(1).steps, *consumer.refresh(2).steps]
        assert [step.from_cache for step in steps] == [expected, expected]
        assert same_vectors(consumer.state, chain.states[2])
    for path in (cache / "blobs").iterdir():
        path.write_bytes(damaged(path.read_bytes()))
    consumer = Consumer(chain.store, cache_dir=cache)
    consumer.refresh(2)
    assert same_vectors(consumer.state, chain.states[2]), "a damaged copy is fetched again"


def test_reports_and_metrics_count_the_bytes_of_parts(chain: VectorChain) -> None:
    consumer = Consumer(chain.store)
    step = consumer.refresh(1).steps[0]
    part, blob = len(chain.files["vector-1-snapshot"]), len(chain.files["snapshot-1"])
    assert (step.vector_bytes, step.size_bytes) == (part, part + blob)
    assert step.to_dict()["vector_bytes"] == part
    consumer.refresh(2)
    assert consumer.metrics.counts().vector_bytes == part + len(chain.files["vector-2-delta.1"])
    assert consumer.status().size_bytes > 4096 * 16, "the memory of a state counts its vectors"


def test_a_dropped_state_lets_go_of_its_vectors_and_refuses_them(chain: VectorChain) -> None:
    now = [0.0]
    consumer = Consumer(chain.store, longevity=Longevity(1, 1, force_drop=True), clock=lambda: now[0])
    consumer.refresh(1)
    state, view, table = consumer.state, consumer.state["Movie"], consumer["Movie"]
    assert table[2].embedding.tolist() == view.vectors("embedding")[view[2].ordinal].tolist()
    assert same_vectors(state, chain.states[1])
    consumer.refresh(2)
    now[0] = 10.0
    consumer.held_states()
    for read in (lambda: view.vectors("embedding"), lambda: state.vectors, lambda: table[2], lambda: view.vector_names):
        with pytest.raises(NotFoundError, match="was dropped"):
            read()
    assert same_vectors(consumer.state, chain.states[2])


def test_uses_of_vectors_are_seen_in_the_detection_period(chain: VectorChain) -> None:
    now = [0.0]
    consumer = Consumer(chain.store, longevity=Longevity(1, 100), clock=lambda: now[0])
    consumer.refresh(1)
    state = consumer.state
    view = state["Movie"]
    consumer.refresh(2)
    now[0] = 10.0
    consumer.held_states()
    view.vectors("embedding")
    assert [held.uses for held in consumer.held_states()] == [1]


def test_verify_reads_parts_and_finds_one_that_is_damaged_or_does_not_fit(chain: VectorChain) -> None:
    store = chain.store
    assert verify_chain(store).findings == ()
    store.put("vector-2-delta.1", damaged(chain.files["vector-2-delta.1"]))
    assert [one.subject for one in verify_chain(store).findings] == ["vector-2-delta.1"]


def test_verify_finds_vectors_that_differ_by_the_way_taken(store: LocalStore) -> None:
    chain = VectorChain(store, record=False)
    chain.publish(TITLES, rows(1))
    chain.publish(TITLES, rows(2))
    state = chain.states[2]
    column = state.vectors[EMBEDDING]
    wrong = column.changed(np.array([0]), vector(9, 9, 9, 9)[None, :], column.present)
    store.put("vector-2-snapshot", encode_snapshot_part({EMBEDDING: wrong}, state.tag))
    assert ["other vectors" in one.problem for one in verify_chain(store).findings] == [True]


# Threads.


@pytest.fixture
def long_chain(store: LocalStore) -> VectorChain:
    made = VectorChain(store)
    for version in range(1, 13):
        titles = {number: f"{number} at {version if number % 3 == 0 else 0}" for number in range(300)}
        made.publish(titles, {number: [float(version), float(number), 0.0, 0.0] for number in range(300)})
    return made


def test_readers_during_refreshes_see_vectors_and_records_of_one_version(long_chain: VectorChain, share: bool) -> None:
    consumer = Consumer(long_chain.store, share=share)
    consumer.refresh(1)
    wrong: list[str] = []
    reads = [0]
    done = threading.Event()

    def read() -> None:
        number = 0
        while not done.is_set():
            number = (number + 7) % 300
            loaded = consumer.loaded
            version = stamp(loaded.state)
            movie = loaded.lookup["Movie"][number]
            row = movie.embedding
            column = loaded.state.vectors[EMBEDDING]
            whole = {float(block[column.present.ordinals() - first][:, 0].max()) for first, block in column.blocks()}
            title = f"{number} at {version if number % 3 == 0 else 0}"
            if row.tolist() != [version, number, 0.0, 0.0] or movie.title != title or whole != {float(version)}:
                wrong.append(f"{version}: {movie.title!r}, {row}, {whole}")
            reads[0] += 1

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for version in [*range(2, 13), *range(11, 0, -1)] * 2:
            consumer.refresh(version)
            gc.collect()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert reads[0] > 100


def test_a_cached_record_shows_the_new_vector_of_what_it_refers_to(store: LocalStore) -> None:
    chain = VectorChain(store)
    for version in (1, 2):
        vectors = {EMBEDDING: rows(1), ("Actor", "face"): {"Banionis": [float(version)]}}
        chain.publish(TITLES, vectors, stars={1: "Banionis"})
    consumer = Consumer(store, cached_types=["Movie"])
    consumer.refresh(1)
    assert consumer.cached("Movie").find(1)["star"] == {"name": "Banionis", "face": [1.0]}
    changes = consumer.refresh(2).changes
    assert consumer.cached("Movie").find(1)["star"] == {"name": "Banionis", "face": [2.0]}
    assert "Movie" not in changes and changes["Actor"].modified_keys() == [("Banionis",)]
    assert len(changes.vectors("Actor")) == 1

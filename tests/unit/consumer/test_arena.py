"""One copy per host: attach, share, recycle, retire, in one process and in threads."""

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from deltaic.consumer.arena import Arena
from deltaic.consumer.arena_manifest import arrays_of
from deltaic.consumer.arena_places import sweep_idle
from deltaic.errors import DecodeError, StorageError
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from tests.unit.consumer.arena_chains import ChainOfBlobs, chain_of, content_of, ended, files_in, in_child

SIZE = 20_000


@pytest.fixture(scope="module")
def chain() -> ChainOfBlobs:
    return chain_of(SIZE, 12)


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    made = Arena(tmp_path / "arena")
    yield made
    made.remove()


def another(arena: Arena) -> Arena:
    """The same arena as another process sees it: nothing is remembered, no mapping is shared."""
    return Arena(arena.folder)


def test_what_is_attached_is_what_was_shared(arena: Arena, chain: ChainOfBlobs) -> None:
    made = arena.refresh(0, chain.make(0))
    found = another(arena).attach(0)
    assert found is not None
    private = chain.load()
    assert content_of(found) == content_of(made) == content_of(private)
    assert (found.tag, found.origin_tag, found.header_tags) == (private.tag, private.origin_tag, private.header_tags)
    assert list(found.types) == list(private.types)
    assert found.schemas == private.schemas
    assert found.nbytes == private.nbytes
    for name, data in private.types.items():
        assert found.types[name].populated == data.populated
        assert found.types[name].previous == data.previous


def test_views_columns_and_arrow_read_mapped_states_as_private_ones(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(3, chain.make(3))
    found, private = another(arena).attach(3), chain.at(3)
    assert found is not None
    for field in ("id", "year", "score", "title", "poster"):
        ours, theirs = found["Movie"].column(field), private["Movie"].column(field)
        assert repr(ours) == repr(theirs)
    assert found.checksum() == private.checksum()
    assert found["Movie"][5].to_dict() == private["Movie"][5].to_dict()
    assert found["ListOfMovie"][7] == private["ListOfMovie"][7]
    ghosts = private["Movie"].ghosts.ordinals()
    assert len(ghosts)
    assert np.array_equal(found["Movie"].ghosts.ordinals(), ghosts)
    assert found["Movie"][int(ghosts[0])].id == private["Movie"][int(ghosts[0])].id


def test_a_mapped_state_can_take_a_delta_of_its_own(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(0, chain.make(0))
    found = another(arena).attach(0)
    assert found is not None
    assert content_of(found.apply(chain.deltas[0])) == chain.contents[1]
    assert content_of(found) == chain.contents[0]


def test_arrays_of_a_shared_state_cannot_be_written(arena: Arena, chain: ChainOfBlobs) -> None:
    made = arena.refresh(0, chain.make(0))
    attached = another(arena).attach(0)
    assert attached is not None
    for state in (made, attached):
        arrays = [array for array in arrays_of(state) if array.nbytes]
        assert len(arrays) > 10
        for array in arrays:
            assert not array.flags.writeable
            with pytest.raises(ValueError):
                array.flags.writeable = True


def test_every_step_of_a_chain_is_right_while_its_memory_is_used_again(arena: Arena, chain: ChainOfBlobs) -> None:
    sizes = set()
    files: list[set[str]] = []
    for version, content in enumerate(chain.contents):
        state = arena.refresh(version, chain.make(version))
        assert content_of(state) == content
        attached = another(arena).attach(version)
        assert attached is not None and content_of(attached) == content
        files.append(files_in(arena.folder))
        if version > 4:
            sizes.add(arena.size_bytes() >> 20)
    assert arena.versions() == (11, 12)
    assert max(sizes) <= 1.2 * min(sizes), "the folder grows from version to version"
    assert files[12] & files[8], "no file of version 8 was used again"


def test_unchanged_types_stay_in_the_files_of_the_version_before(arena: Arena, chain: ChainOfBlobs) -> None:
    def addresses(state: ReadState) -> set[int]:
        shards = state.types["Studio"].shards
        return {array.__array_interface__["data"][0] for shard in shards for array in (shard.variable[1],)}

    four = arena.refresh(4, chain.make(4))
    five = arena.refresh(5, chain.make(5))
    assert addresses(four) == addresses(five)
    assert content_of(five) == chain.contents[5]


def test_a_state_somebody_reads_is_never_written_over(arena: Arena, chain: ChainOfBlobs) -> None:
    reader = another(arena)
    arena.refresh(0, chain.make(0))
    held = reader.attach(0)
    assert held is not None
    for version in range(1, 8):
        arena.refresh(version, chain.make(version))
        assert content_of(held) == chain.contents[0]
    assert 0 in arena.versions()
    del held
    gc.collect()
    for version in range(8, 10):
        arena.refresh(version, chain.make(version))
    assert arena.versions() == (8, 9)


@pytest.mark.parametrize("kept", ["record", "column", "array", "view", "applied"])
def test_whatever_is_kept_of_a_state_keeps_its_memory(arena: Arena, chain: ChainOfBlobs, kept: str) -> None:
    arena.refresh(0, chain.make(0))
    reader = another(arena)
    state = reader.attach(0)
    assert state is not None
    held: object
    if kept == "record":
        held = state["Movie"][17]
        read = lambda: held.to_dict()  # noqa: E731
    elif kept == "column":
        held = state["Movie"].column("poster")
        read = lambda: repr(held)  # noqa: E731
    elif kept == "array":
        held = state.types["Movie"].shards[1].records[100:5000]
        read = lambda: held.tobytes()  # noqa: E731
    elif kept == "view":
        held = state["Movie"]
        read = lambda: held[3].to_dict()  # noqa: E731
    else:
        held = state.apply(chain.deltas[0])
        read = lambda: content_of(held)  # noqa: E731
    before = read()
    del state
    gc.collect()
    for version in range(1, 6):
        arena.refresh(version, chain.make(version))
    assert read() == before


def test_what_a_maker_keeps_of_what_it_built_is_not_written_over(arena: Arena, chain: ChainOfBlobs) -> None:
    built: list[ReadState] = []

    def build() -> ReadState:
        built.append(chain.load())
        return built[0]

    with arena.lock():
        arena.share(0, build)
    for version in range(1, 5):
        arena.refresh(version, chain.make(version))
    assert content_of(built[0]) == chain.contents[0]


def test_a_refresh_by_many_deltas_takes_the_room_of_few(arena: Arena, chain: ChainOfBlobs, tmp_path: Path) -> None:
    arena.refresh(0, chain.make(0))
    most = 0

    def watched(base: ReadState | None, version: int | None) -> ReadState:
        nonlocal most
        state = base
        assert state is not None
        for delta in chain.deltas:
            state = state.apply(delta)
            most = max(most, arena.size_bytes())
        return state

    one = arena.size_bytes()
    assert content_of(arena.refresh(12, watched)) == chain.contents[12]
    assert most < 4 * one, "versions that are passed through pile up"


def test_a_state_of_another_fingerprint_is_made_again(arena: Arena, chain: ChainOfBlobs) -> None:
    old = arena.refresh(1, chain.make(0), fingerprint=lambda version: "before the folder was deleted")
    new = arena.refresh(1, chain.make(1), fingerprint=lambda version: "after")
    assert content_of(new) == chain.contents[1]
    assert content_of(old) == chain.contents[0]
    assert another(arena).attach(1) is None
    found = another(arena).attach(1, fingerprint="after")
    assert found is not None and content_of(found) == chain.contents[1]
    for version in range(2, 6):
        arena.refresh(version, chain.make(version))
    assert content_of(old) == chain.contents[0]


def test_the_nearest_shared_state_is_offered_to_the_maker(arena: Arena, chain: ChainOfBlobs) -> None:
    offered = []

    def note(version: int) -> None:
        def make(base: ReadState | None, base_version: int | None) -> ReadState:
            offered.append(base_version)
            return chain.make(version)(base, base_version)

        arena.refresh(version, make)

    for version in (4, 6, 5, 2):
        note(version)
    assert offered == [None, 4, 4, 4]


def test_who_asks_for_a_version_that_is_there_makes_nothing(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(2, chain.make(2))

    def never(base: ReadState | None, version: int | None) -> ReadState:
        raise AssertionError("made again")

    assert content_of(another(arena).refresh(2, never)) == chain.contents[2]


def test_a_build_that_fails_leaves_what_was_there(arena: Arena, chain: ChainOfBlobs) -> None:
    state = arena.refresh(1, chain.make(1))

    def fail(base: ReadState | None, version: int | None) -> ReadState:
        assert base is not None
        base.apply(chain.deltas[1])
        raise DecodeError("Truncated", "the blob ends", "delta-1-2")

    before = files_in(arena.folder)
    with pytest.raises(DecodeError):
        arena.refresh(2, fail)
    assert files_in(arena.folder) <= before, "half a state was left"
    assert arena.versions() == (1,)
    assert content_of(state) == chain.contents[1]
    assert content_of(arena.refresh(2, chain.make(2))) == chain.contents[2]


def test_a_process_that_waits_too_long_is_told(arena: Arena, chain: ChainOfBlobs) -> None:
    with arena.lock(), pytest.raises(StorageError, match=r"0\.05 s"):
        another(arena).refresh(0, chain.make(0), wait_seconds=0.05)
    with arena.lock(), pytest.raises(StorageError, match="held the lock"), another(arena).lock(0.05):
        pass


def test_a_state_with_a_filter_says_so(arena: Arena, chain: ChainOfBlobs) -> None:
    wanted = Filter.only("Studio")

    def make(base: ReadState | None, version: int | None) -> ReadState:
        return ReadState.load(chain.snapshot, filter=wanted)

    arena.refresh(0, make, filter=wanted)
    found = another(arena).attach(0, wanted)
    assert found is not None
    assert found.filter == wanted and list(found) == ["Studio"]


def test_a_private_state_is_copied_in(arena: Arena, chain: ChainOfBlobs) -> None:
    private = chain.at(2)
    with arena.lock():
        shared = arena.share(2, lambda: private)
    assert content_of(shared) == chain.contents[2]
    assert len([name for name in files_in(arena.folder) if name.startswith("a-")]) == 1


def test_an_empty_state_is_shared_too(arena: Arena) -> None:
    empty = ReadState({}, tag=1, origin_tag=2, header_tags={"made": "by hand"})
    with arena.lock():
        arena.share(7, lambda: empty)
    found = another(arena).attach(7)
    assert found is not None and len(found) == 0 and found.header_tags == {"made": "by hand"}


def test_many_threads_attach_and_drop_while_versions_are_made(arena: Arena, chain: ChainOfBlobs) -> None:
    stop = threading.Event()
    wrong: list[str] = []
    seen: set[int] = set()

    def follow(of: Arena) -> None:
        try:
            while not stop.is_set():
                versions = of.versions()
                if not versions:
                    continue
                state = of.attach(versions[-1])
                if state is None:
                    continue
                seen.add(versions[-1])
                if content_of(state) != chain.contents[versions[-1]]:
                    wrong.append(f"version {versions[-1]} is not itself")
        except Exception as error:
            wrong.append(repr(error))

    shared_by_threads = another(arena)
    threads = [threading.Thread(target=follow, args=(shared_by_threads,)) for _ in range(4)]
    threads += [threading.Thread(target=follow, args=(another(arena),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for version in range(len(chain.contents)):
            assert content_of(arena.refresh(version, chain.make(version))) == chain.contents[version]
    finally:
        stop.set()
        for thread in threads:
            thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []
    assert len(seen) > 2


def test_threads_that_want_one_version_make_it_once(arena: Arena, chain: ChainOfBlobs) -> None:
    made = []

    def make(base: ReadState | None, version: int | None) -> ReadState:
        made.append(version)
        return chain.load()

    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(content_of(another(arena).refresh(0, make)))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [chain.contents[0]] * 6
    assert len(made) == 1


def test_the_last_process_out_takes_the_files_along(arena: Arena, chain: ChainOfBlobs) -> None:
    held = arena.refresh(0, chain.make(0))
    ready, tell = os.pipe()
    wait, go_on = os.pipe()

    def attach() -> None:
        found = another(arena).attach(0)
        assert found is not None
        os.write(tell, b"x")
        os.read(wait, 1)
        assert content_of(found) == chain.contents[0]

    child = in_child(attach)
    os.read(ready, 1)
    arena.close()
    assert arena.versions() == (0,), "another one is still attached"
    os.write(go_on, b"x")
    assert ended(child) == 0
    arena.close()
    assert not arena.folder.exists()
    assert content_of(held) == chain.contents[0], "what is attached stays readable"
    for descriptor in (ready, tell, wait, go_on):
        os.close(descriptor)


def test_an_arena_whose_folder_was_removed_starts_again(arena: Arena, chain: ChainOfBlobs) -> None:
    held = arena.refresh(0, chain.make(0))
    another(arena).remove()
    assert not arena.folder.exists()
    assert content_of(arena.refresh(1, chain.make(1))) == chain.contents[1]
    assert content_of(held) == chain.contents[0]
    found = another(arena).attach(1)
    assert found is not None and content_of(found) == chain.contents[1]


def test_arenas_that_everybody_left_are_swept(tmp_path: Path, chain: ChainOfBlobs) -> None:
    used, left, fresh = (Arena.open(name, base=tmp_path) for name in ("used", "left", "fresh"))
    held = [arena.refresh(0, chain.make(0)) for arena in (used, left, fresh)]
    del held[1:]
    gc.collect()
    for arena in (used, left):
        os.utime(arena.folder, (1, 1))
    assert sweep_idle(tmp_path) == [left.folder.name]
    assert not left.folder.exists() and used.versions() == (0,) and fresh.versions() == (0,)
    assert content_of(held[0]) == chain.contents[0]
    for arena in (used, fresh):
        arena.remove()


def test_a_process_needs_no_open_file_per_array(arena: Arena, chain: ChainOfBlobs) -> None:
    before = len(os.listdir("/proc/self/fd"))
    held = arena.refresh(0, chain.make(0))
    files = len(files_in(arena.folder))
    assert files > 3
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    del held
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


def test_chains_and_filters_have_folders_of_their_own(tmp_path: Path) -> None:
    folders = {Arena.open(identity, base=tmp_path).folder for identity in ("a", "b", "a\0filter", "a")}
    assert len(folders) == 3
    assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in folders)


def test_memory_that_nobody_reads_is_given_back_beyond_what_the_next_state_may_use(
    tmp_path: Path, chain: ChainOfBlobs
) -> None:
    arena, other = (Arena(tmp_path / "arena", spare_bytes=1 << 20) for _ in range(2))
    state = arena.refresh(5, chain.make(5))
    behind = other.attach(5)
    alone = arena.size_bytes()
    state = arena.refresh(6, chain.make(6))
    arena.tidy()
    assert behind is not None and content_of(behind) == chain.contents[5], "the other one still reads version 5"
    behind = other.attach(6)
    gc.collect()
    assert arena.size_bytes() > 1.3 * alone
    other.tidy()
    assert arena.versions() == (6,)
    assert arena.size_bytes() <= alone + (2 << 20)
    assert content_of(state) == chain.contents[6]
    assert content_of(arena.refresh(7, chain.make(7))) == chain.contents[7]
    arena.remove()

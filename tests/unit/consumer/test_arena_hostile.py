"""What may be wrong with an arena: links, other people's files, damaged and hostile manifests, no room."""

import json
import os
import random
import resource
import stat
import subprocess
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from deltaic.consumer import arena_places
from deltaic.consumer.arena import Arena
from deltaic.consumer.arena_manifest import boot_identity
from deltaic.errors import DecodeError, StorageError
from deltaic.state.read import ReadState
from tests.unit.consumer.arena_chains import ChainOfBlobs, chain_of, content_of, ended, files_in, in_child


@pytest.fixture(scope="module")
def chain() -> ChainOfBlobs:
    return chain_of(6_000, 3)


@pytest.fixture
def arena(tmp_path: Path) -> Iterator[Arena]:
    made = Arena(tmp_path / "arena")
    yield made
    if (tmp_path / "arena").is_dir():
        for path in (tmp_path / "arena").iterdir():
            path.unlink()


def replaced(path: Path, data: bytes) -> None:
    """Put other bytes under a name, by a new file: what is open stays."""
    path.unlink()
    path.write_bytes(data)
    path.chmod(0o600)


def signed(body: bytes) -> bytes:
    return blake2b(body, digest_size=32).hexdigest().encode() + body


def test_every_damaged_or_shortened_manifest_is_refused(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(0, chain.make(0))
    path = arena.folder / "state-0.json"
    whole = path.read_bytes()
    drawn = random.Random(7)
    damaged = [whole[:length] for length in (0, 1, 63, 64, 65, len(whole) // 2, len(whole) - 1)]
    for _ in range(200):
        flipped = bytearray(whole)
        flipped[drawn.randrange(len(whole))] ^= 1 << drawn.randrange(8)
        damaged.append(bytes(flipped))
    for data in [*damaged, signed(b""), signed(b"{}"), signed(b"[" * 100_000), signed(b"\xff"), signed(b"null")]:
        replaced(path, data)
        with pytest.raises(DecodeError):
            Arena(arena.folder).attach(0)


def test_an_arena_with_a_damaged_manifest_makes_the_state_again(arena: Arena, chain: ChainOfBlobs) -> None:
    held = arena.refresh(1, chain.make(1))
    path = arena.folder / "state-1.json"
    with path.open("r+b") as file:
        file.write(b"damage")
    other = Arena(arena.folder)
    again = other.refresh(1, chain.make(1))
    assert content_of(again) == chain.contents[1]
    for version in (2, 3):
        assert content_of(other.refresh(version, chain.make(version))) == chain.contents[version]
    # Who had attached before the damage reads files that the next makers did not know to be in use.
    assert content_of(held) == chain.contents[1]


def leaves(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where numbers and texts stand in decoded JSON."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from leaves(value, (*at, key))
    elif isinstance(tree, list):
        for position, value in enumerate(tree):
            yield from leaves(value, (*at, position))
    elif tree is not None:
        yield at


def changed(tree: Any, at: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(tree))
    inside = copy
    for key in at[:-1]:
        inside = inside[key]
    inside[at[-1]] = value
    return copy


def test_hostile_numbers_in_a_well_signed_manifest_are_refused(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(1, chain.make(1))
    path = arena.folder / "state-1.json"
    tree = json.loads(path.read_bytes()[64:])
    harmless = {"serial", "tag", "origin_tag", "version", "fingerprint", "header_tags"}
    reader = Arena(arena.folder)
    tried = 0
    for at in leaves(tree):
        if at[0] in harmless:
            continue
        for value in (
            -1,
            1 << 31,
            1 << 40,
            (1 << 63) - 1,
            -(1 << 63),
            1 << 70,
            "../../etc/passwd",
            "",
            None,
            [],
            1e300,
        ):
            replaced(path, signed(json.dumps(changed(tree, at, value)).encode()))
            try:
                state = reader.attach(1)
            except DecodeError:
                tried += 1
                continue
            # An array may be absent where the type has none to miss; a number may be one that is possible.
            assert state is None or value in ("", None, [], -1, 1 << 31), (at, value)
    assert tried > 500


@pytest.mark.parametrize("lie", ["boot", "format", "shards", "twice", "names"])
def test_a_manifest_that_cannot_be_is_refused(arena: Arena, chain: ChainOfBlobs, lie: str) -> None:
    arena.refresh(0, chain.make(0))
    path = arena.folder / "state-0.json"
    tree = json.loads(path.read_bytes()[64:])
    assert tree["boot"] == boot_identity() != ""
    if lie == "boot":
        tree["boot"] = "another start of the host"
    elif lie == "format":
        tree["format"] += 1
    elif lie == "shards":
        tree["types"][0]["shards"] += tree["types"][0]["shards"][:1]
    elif lie == "twice":
        tree["types"].append(tree["types"][0])
    else:
        tree["types"][0]["populated"][0] = "a-0123456789ab-0/../lock"
    replaced(path, signed(json.dumps(tree).encode()))
    with pytest.raises(DecodeError):
        Arena(arena.folder).attach(0)
    assert content_of(arena.refresh(0, chain.make(0))) == chain.contents[0]


@pytest.mark.parametrize("to_bytes", [0, 1, 4096, 65536])
def test_a_file_shorter_than_its_manifest_says_is_refused_and_made_again(
    arena: Arena, chain: ChainOfBlobs, to_bytes: int
) -> None:
    arena.refresh(0, chain.make(0))
    for path in arena.folder.glob("a-*"):
        short = path.read_bytes()[:to_bytes]
        replaced(path, short)
    other = Arena(arena.folder)
    with pytest.raises(DecodeError, match="Truncated|ends before|empty"):
        other.attach(0)
    assert content_of(other.refresh(0, chain.make(0))) == chain.contents[0]


def test_a_file_that_was_cut_while_mapped_is_not_attached_again(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(0, chain.make(0))
    other = Arena(arena.folder)
    held = other.attach(0)
    assert held is not None
    for path in arena.folder.glob("a-*"):
        os.truncate(path, 4096)
    with pytest.raises(DecodeError, match="was changed"):
        other.attach(0)


@pytest.mark.parametrize("planted", ["lock", "manifest", "array", "folder", "fifo"])
def test_planted_links_are_not_followed(tmp_path: Path, chain: ChainOfBlobs, planted: str) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder = tmp_path / "arena"
    if planted == "folder":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(StorageError, match="no folder"):
            Arena(folder)
        return
    arena = Arena(folder)
    arena.refresh(0, chain.make(0))
    name = {"lock": "lock", "manifest": "state-0.json", "fifo": "state-0.json"}.get(planted)
    paths = [folder / name] if name else sorted(folder.glob("a-*"))
    for path in paths:
        path.unlink()
        if planted == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(victim)
    other = Arena(folder)
    if planted == "lock":
        with pytest.raises(StorageError, match="lock"):
            other.refresh(1, chain.make(1))
    else:
        with pytest.raises((StorageError, DecodeError)):
            other.attach(0)
        assert content_of(other.refresh(0, chain.make(0))) == chain.contents[0]
        assert not any(path.is_symlink() for path in folder.iterdir())
    assert victim.read_bytes() == b"precious"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
@pytest.mark.parametrize("of_another", ["folder", "manifest", "array", "lock"])
def test_what_belongs_to_another_user_is_refused(arena: Arena, chain: ChainOfBlobs, of_another: str) -> None:
    arena.refresh(0, chain.make(0))
    name = {"folder": "", "manifest": "state-0.json", "lock": "lock"}.get(of_another)
    path = arena.folder / name if name is not None else next(arena.folder.glob("a-*"))
    os.chown(path, 12345, 12345)
    if of_another == "folder":
        with pytest.raises(StorageError, match="not a folder of this user"):
            Arena(arena.folder)
        os.chown(path, 0, 0)
        return
    with pytest.raises(StorageError, match="not a file of this user"):
        other = Arena(arena.folder)
        other.attach(0)
        other.refresh(1, chain.make(1))


def test_a_folder_that_others_may_enter_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "arena"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    Arena(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_files_are_for_their_owner_alone(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(0, chain.make(0))
    assert {stat.S_IMODE(path.stat().st_mode) for path in arena.folder.iterdir()} == {0o600}


def test_another_place_is_taken_where_the_first_one_is_occupied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chain: ChainOfBlobs
) -> None:
    shared, cache = tmp_path / "shm", tmp_path / "cache"
    shared.mkdir()
    (tmp_path / "trap").mkdir()
    (shared / f"deltaic-{os.geteuid()}").symlink_to(tmp_path / "trap")
    monkeypatch.setattr(arena_places, "_SHARED_MEMORY", shared)
    monkeypatch.setenv("DELTAIC_CACHE", str(cache))
    arena = Arena.open("a chain")
    assert arena.folder.is_relative_to(cache)
    assert content_of(arena.refresh(0, chain.make(0))) == chain.contents[0]
    assert not any((tmp_path / "trap").iterdir())


def test_the_cache_folder_is_taken_where_shared_memory_is_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared, cache = tmp_path / "shm", tmp_path / "cache"
    shared.mkdir()
    monkeypatch.setattr(arena_places, "_SHARED_MEMORY", shared)
    monkeypatch.setenv("DELTAIC_CACHE", str(cache))
    assert Arena.open("a chain", need_bytes=1 << 60).folder.is_relative_to(cache)
    assert Arena.open("a chain", need_bytes=1).folder.is_relative_to(shared)


@pytest.fixture
def small_mount(tmp_path: Path) -> Iterator[Path]:
    """A shared-memory mount of 8 MB, as a container has."""
    folder = tmp_path / "mount"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("a small mount needs the right to mount")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_mount_that_gets_full_is_an_error_and_nothing_is_lost(small_mount: Path) -> None:
    chain = chain_of(20_000, 12)
    arena = Arena.open("a chain", base=small_mount)
    first = arena.refresh(0, chain.make(0))
    second = arena.refresh(1, chain.make(1))
    whole = files_in(arena.folder)
    (small_mount / "filler").write_bytes(bytes(arena._folder.free_bytes()))
    # Version 0 is still read, so that its memory cannot be used again.
    with pytest.raises(StorageError, match="no room") as caught:
        arena.refresh(2, chain.make(2))
    assert caught.value.errno == 28
    assert {name for name in files_in(arena.folder) if not name.startswith("f-")} <= whole
    assert content_of(first) == chain.contents[0] and content_of(second) == chain.contents[1]
    assert arena.versions() == (0, 1)
    del first
    for path in (small_mount / "filler", *arena.folder.glob("f-*")):
        path.unlink()
    assert content_of(arena.refresh(2, chain.make(2))) == chain.contents[2]


def test_a_limit_on_file_sizes_is_an_error_and_not_a_signal(arena: Arena, chain: ChainOfBlobs) -> None:
    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        with pytest.raises(StorageError, match="no room"):
            arena.refresh(0, chain.make(0))
        assert files_in(arena.folder) == set()

    assert ended(in_child(work)) == 0
    assert content_of(arena.refresh(0, chain.make(0))) == chain.contents[0]


def test_a_maker_that_runs_out_of_room_midway_leaves_no_file(
    arena: Arena, chain: ChainOfBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = arena.refresh(0, chain.make(0))
    whole = files_in(arena.folder)
    reserve = os.posix_fallocate
    allowed = 0

    def reserve_some(descriptor: int, offset: int, length: int) -> None:
        nonlocal allowed
        if allowed == 0:
            raise OSError(28, "No space left on device")
        allowed -= 1
        reserve(descriptor, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", reserve_some)
    failures = 0
    for room in range(40):
        allowed = room
        try:
            made = arena.refresh(1, chain.make(1))
        except StorageError as error:
            failures += 1
            assert error.errno == 28
            assert {name for name in files_in(arena.folder) if not name.startswith("f-")} <= whole
            assert content_of(state) == chain.contents[0]
        else:
            assert content_of(made) == chain.contents[1]
            break
    assert failures >= 2


def test_a_state_that_cannot_be_read_is_not_offered_as_a_base(arena: Arena, chain: ChainOfBlobs) -> None:
    arena.refresh(1, chain.make(1))
    replaced(arena.folder / "state-1.json", b"damage")
    offered: list[ReadState | None] = []

    def make(base: ReadState | None, version: int | None) -> ReadState:
        offered.append(base)
        return chain.at(2)

    assert content_of(Arena(arena.folder).refresh(2, make)) == chain.contents[2]
    assert offered == [None]

"""One copy per host among processes: fork, spawn, a parent that dies, kills at random, hangs that must not be."""

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltaic.consumer.arena import Arena
from deltaic.state.read import ReadState
from tests.unit.consumer.arena_chains import ChainOfBlobs, chain_of, content_of, ended, files_in, in_child

PATIENCE_SECONDS = 10


@pytest.fixture(scope="module")
def chain() -> ChainOfBlobs:
    return chain_of(20_000, 12)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in shared memory, where there is one: where arenas are."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        yield Path(place) / "arena"


class Signal:
    """Something that one process waits for and another one says."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()

    def say(self) -> None:
        os.write(self._write, b"x")

    def wait(self) -> None:
        assert os.read(self._read, 1) == b"x"


def in_time(child: int) -> int:
    """The exit code of a child that must end soon."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        ended_child, status = os.waitpid(child, os.WNOHANG)
        if ended_child:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError(f"a child hung for {PATIENCE_SECONDS} s")


def test_a_child_keeps_the_state_that_its_parent_drops(folder: Path, chain: ChainOfBlobs) -> None:
    arena = Arena(folder)
    state: ReadState | None = arena.refresh(0, chain.make(0))
    go_on = Signal()

    def child() -> None:
        go_on.wait()
        assert state is not None and content_of(state) == chain.contents[0]

    running = in_child(child)
    state = None
    gc.collect()
    for version in range(1, 6):
        arena.refresh(version, chain.make(version))
    assert 0 in arena.versions(), "the child's lease is its own"
    go_on.say()
    assert in_time(running) == 0
    arena.refresh(6, chain.make(6))
    assert arena.versions() == (5, 6)


def test_a_parent_keeps_the_state_that_its_child_drops(folder: Path, chain: ChainOfBlobs) -> None:
    arena = Arena(folder)
    held = [arena.refresh(0, chain.make(0))]

    def child() -> None:
        state = held.pop()
        del state
        gc.collect()
        for version in range(1, 5):
            arena.refresh(version, chain.make(version))
        assert 0 in arena.versions()

    assert in_time(in_child(child)) == 0
    assert content_of(held[0]) == chain.contents[0]


def test_children_go_on_when_the_parent_that_made_the_state_is_killed(folder: Path, chain: ChainOfBlobs) -> None:
    done = Signal()

    def parent() -> None:
        arena = Arena(folder)
        state = arena.refresh(0, chain.make(0))
        parent_id = os.getpid()

        def child() -> None:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while os.getppid() == parent_id and time.monotonic() < deadline:
                time.sleep(0.005)
            assert content_of(state) == chain.contents[0]
            for version in range(1, 6):
                assert content_of(arena.refresh(version, chain.make(version))) == chain.contents[version]
            assert content_of(state) == chain.contents[0]
            done.say()

        in_child(child)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_time(in_child(parent)) == -signal.SIGKILL
    done.wait()
    found = Arena(folder).attach(5)
    assert found is not None and content_of(found) == chain.contents[5]


def test_a_fork_while_a_thread_makes_a_state_does_not_keep_the_lock(folder: Path, chain: ChainOfBlobs) -> None:
    done = Signal()

    def parent() -> None:
        arena = Arena(folder)
        inside = threading.Event()

        def make(base: ReadState | None, version: int | None) -> ReadState:
            inside.set()
            time.sleep(60)
            raise AssertionError("not killed")

        threading.Thread(target=lambda: arena.refresh(0, make), daemon=True).start()
        assert inside.wait(PATIENCE_SECONDS)

        def child() -> None:
            # The parent is dead, and with it the maker; what the child inherited must not stand in its own way.
            assert content_of(arena.refresh(0, chain.make(0), wait_seconds=5)) == chain.contents[0]
            done.say()

        in_child(child)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_time(in_child(parent)) == -signal.SIGKILL
    done.wait()


def test_a_fork_while_a_thread_attaches_does_not_hang_the_child(folder: Path, chain: ChainOfBlobs) -> None:
    arena = Arena(folder)
    held = arena.refresh(0, chain.make(0))
    stop = threading.Event()

    def attach() -> None:
        while not stop.is_set():
            arena.attach(0)

    threads = [threading.Thread(target=attach) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):

            def child() -> None:
                found = arena.attach(0)
                assert found is not None and found.tag == held.tag

            assert in_time(in_child(child)) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _spawned(folder: str, version: int, content: int) -> None:
    found = Arena(Path(folder)).attach(version)
    assert found is not None and content_of(found) == content


def test_spawned_processes_attach(folder: Path, chain: ChainOfBlobs) -> None:
    arena = Arena(folder)
    held = arena.refresh(2, chain.make(2))
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=_spawned, args=(str(folder), 2, chain.contents[2])) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert content_of(held) == chain.contents[2]
    assert arena.versions() == (2,), "workers that end leave what others read"


def test_a_program_started_while_a_state_is_held_holds_nothing(folder: Path, chain: ChainOfBlobs) -> None:
    arena = Arena(folder)
    held: ReadState | None = arena.refresh(0, chain.make(0))
    assert held is not None
    with arena.lock():
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], close_fds=False)
    try:
        held = None
        gc.collect()
        for version in (1, 2, 3):
            arena.refresh(version, chain.make(version), wait_seconds=5)
        assert arena.versions() == (2, 3)
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("keeps", ["arena and state", "arena", "state", "nothing"])
def test_a_process_that_ends_well_takes_its_files_along(
    folder: Path, chain: ChainOfBlobs, tmp_path: Path, keeps: str
) -> None:
    (tmp_path / "snapshot").write_bytes(chain.snapshot)
    program = (
        "import sys; from pathlib import Path\n"
        "from deltaic.consumer.arena import Arena\n"
        "from deltaic.state.read import ReadState\n"
        "from tests.unit.consumer.arena_chains import content_of\n"
        "def follow():\n"
        "    arena = Arena(Path(sys.argv[1]))\n"
        "    state = arena.refresh(0, lambda base, version: ReadState.load(sys.argv[2]))\n"
        "    again = Arena(Path(sys.argv[1])).attach(0)\n"
        "    print(content_of(state), len(list(arena.folder.iterdir())))\n"
        "    return [thing for name, thing in (('arena', arena), ('state', (state, again))) if name in sys.argv[3]]\n"
        "kept = follow()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), str(tmp_path / "snapshot"), keeps],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).resolve().parent.parent.parent,
    )
    content, files = done.stdout.split()
    assert int(content) == chain.contents[0] and int(files) > 3
    assert not folder.exists()


@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.long)])
def test_followers_killed_at_random_harm_nobody_and_leak_nothing(
    folder: Path, chain: ChainOfBlobs, rounds: int
) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    drawn = random.Random(seed)

    def follow(start: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        arena = Arena(folder)
        state = None
        for version in range(start, len(chain.contents)):
            state = arena.refresh(version, chain.make(version), wait_seconds=PATIENCE_SECONDS)
            assert content_of(state) == chain.contents[version], f"version {version} is not itself"
            time.sleep(0.002)
        assert state is not None

    for _ in range(rounds):
        children = {in_child(lambda: follow(0)) for _ in range(5)}
        victims = set()
        for _ in range(6):
            time.sleep(drawn.uniform(0.0, 0.12))
            alive = sorted(children - victims)
            if len(alive) <= 1:
                break
            victim = drawn.choice(alive)
            os.kill(victim, signal.SIGKILL)
            victims.add(victim)
            if drawn.random() < 0.5:
                children.add(in_child(lambda: follow(0)))
        codes = {child: ended(child) for child in children}
        assert all(codes[child] == 0 for child in children - victims), (seed, codes)
        assert all(codes[child] in (0, -signal.SIGKILL) for child in victims), (seed, codes)
    arena = Arena(folder)
    last = len(chain.contents) - 1
    assert content_of(arena.refresh(last, chain.make(last))) == chain.contents[last]
    # A follower that came late and was killed may have left an old version as the newest state, and that stays while
    # one is made from another. A walk makes each state from the newest, so it ends with those two alone.
    for version in range(len(chain.contents)):
        arena.refresh(version, chain.make(version))
    gc.collect()
    assert len(arena.versions()) <= 2
    # Two states, and spare files of at most 8 MB for a state as small as this one.
    assert arena.size_bytes() < 2.4 * chain.load().nbytes + (8 << 20)
    arena.close()
    assert files_in(folder) == set()


def test_many_processes_make_each_version_once(folder: Path, chain: ChainOfBlobs) -> None:
    read, write = os.pipe()

    def follow() -> None:
        arena = Arena(folder)
        for version in range(6):

            def make(base: ReadState | None, base_version: int | None, version: int = version) -> ReadState:
                os.write(write, bytes([version]))
                return chain.make(version)(base, base_version)

            assert content_of(arena.refresh(version, make)) == chain.contents[version]
            # All hold a version until all have it: otherwise one that is late finds it retired, and makes it again.
            time.sleep(0.25)

    children = [in_child(follow) for _ in range(4)]
    assert [in_time(child) for child in children] == [0] * 4
    os.close(write)
    made = sorted(os.read(read, 1000))
    os.close(read)
    assert made == list(range(6))

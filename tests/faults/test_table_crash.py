"""Crashes and failures at every step of a table's operations: before or after, never between."""

import os
import shutil
import signal
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

from deltaic.errors import CommitConflictError, CommitUnknownError, DeltaicError, NotFoundError
from deltaic.storage.disk import RealDisk
from deltaic.storage.local import LocalStore
from deltaic.storage.urls import open_store
from deltaic.table import Settings, Table, column
from deltaic.table.manifest import ManifestCache
from deltaic.testing.stores import EVERY_FAULT, DishonestDisk, Fault, FaultyStore, SimulatedStore, SteppedDisk
from tests.unit.table.making import make_file, make_table, paths

SETTINGS = Settings(retry_base_delay_ms=0, retry_max_delay_ms=0, retry_max_attempts=3, max_manifests=2)


def no_wait(_seconds):
    pass


def opened(store, settings=SETTINGS):
    return Table.open(store, settings=settings, cache=ManifestCache(), sleep=no_wait)


def fill(store):
    table = make_table(store, partition_by=("day",), settings=SETTINGS, sleep=no_wait)
    for name, day in (("a", "2024-01-01"), ("b", "2024-01-01"), ("c", "2024-01-02")):
        table.append([make_file(name, store=store, day=day)])
    return table


@lru_cache
def _filled():
    store = SimulatedStore()
    fill(store)
    return dict(store._world.objects)


def filled():
    """A store of its own with the small table in it."""
    store = SimulatedStore()
    store._world.objects.update(_filled())
    return store


OPERATIONS = {
    "append": lambda table: table.append([make_file("new", store=None, day="2024-01-01")]),
    "merge": lambda table: table.merge(["a", "b"], [make_file("merged", day="2024-01-01")]),
    "overwrite": lambda table: table.overwrite(
        [make_file("over", day="2024-01-01")], where=column("day").equals("2024-01-01")
    ),
    "configure": lambda table: table.configure({"k": "v"}, note="n"),
    "checkpoint": lambda table: table.checkpoint(),
    "truncate": lambda table: table.truncate(dry_run=False),
    "restore": lambda table: table.restore(version=1),
}


def content(table):
    snapshot = table.snapshot()
    return paths(snapshot), snapshot.metadata.configuration.get("k")


@lru_cache
def expected(name):
    """What the table holds before and after an operation."""
    store = filled()
    before = content(opened(store))
    OPERATIONS[name](opened(store))
    return before, content(opened(store))


@pytest.fixture
def folder():
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


class _Killed:
    """Kills this process at the n-th step of the disk."""

    def __init__(self, at):
        self.left = at

    def __call__(self, _step):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def in_child(run):
    """Run in a forked child; gives its exit status."""
    child = os.fork()
    if child == 0:
        try:
            run()
        except BaseException:
            os._exit(3)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at_every(step_size, folder, name):
    before, after = expected(name)
    template = folder / "template"
    fill(open_store(template))
    root, step, status = folder / "table", 1, None
    while status != 0:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root)
        store = LocalStore(root, disk=SteppedDisk(RealDisk(root), _Killed(step)))
        status = in_child(lambda store=store: OPERATIONS[name](opened(store)))
        assert status in (0, -signal.SIGKILL)
        found = content(opened(open_store(root)))
        assert found in (before, after), f"step {step}"
        done = opened(open_store(root))
        if found == before:
            OPERATIONS[name](done)
            assert content(opened(open_store(root))) == after
        done.append([make_file("later", day="2024-01-02")])
        assert "later" in opened(open_store(root)).snapshot().paths()
        assert done.verify(files=False).findings == ()
        step += step_size
    assert step > 20
    assert found == after


@pytest.mark.parametrize("name", ["append", "merge", "checkpoint", "truncate"])
def test_a_kill_at_many_steps_of_the_disk_leaves_the_old_or_the_new_table(folder, name):
    kill_at_every(3, folder, name)


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_a_kill_at_any_step_of_the_disk_leaves_the_old_or_the_new_table(folder, name):
    kill_at_every(1, folder, name)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT, ids=lambda value: str(value).replace(" ", "-"))
def test_each_store_call_that_fails_once_leaves_the_old_or_the_new_table(name, kind, moment):
    before, after = expected(name)
    number = 0
    while True:
        number += 1
        inner = filled()
        faulty = FaultyStore(inner)
        table = opened(faulty)
        faulty.fail(Fault(kind, moment, call_number=number))
        error = None
        try:
            OPERATIONS[name](table)
        except DeltaicError as raised:
            error = raised
        reached = len(faulty.calls) >= number
        found = content(opened(inner))
        assert found in (before, after), (number, error)
        if error is None:
            assert found == after, number
        elif name not in ("checkpoint", "truncate") and not isinstance(error, CommitUnknownError):
            assert found == before, (number, error)
        elif isinstance(error, CommitConflictError):
            # Nobody else writes here: only an own success in disguise could look like a conflict.
            assert name in ("checkpoint", "truncate"), error
        assert opened(inner).verify(files=False).findings == ()
        opened(inner).append([make_file("later", day="2024-01-02")])
        assert "later" in opened(inner).snapshot().paths()
        if not reached:
            break
    assert number > 4


@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT, ids=lambda value: str(value).replace(" ", "-"))
def test_from_some_call_on_nothing_answers_and_the_outcome_is_told_truly(kind, moment):
    for number in range(1, 40):
        inner = filled()
        faulty = FaultyStore(inner)
        table = opened(faulty)
        faulty.fail(Fault(kind, moment, call_number=number, from_then_on=True))
        try:
            table.append([make_file("new", day="2024-01-01")])
            outcome = "committed"
        except CommitUnknownError:
            outcome = "unknown"
        except DeltaicError:
            outcome = "failed"
        landed = "new" in opened(inner).snapshot().paths()
        assert outcome != "committed" or landed
        if outcome == "failed":
            assert not landed, (number, kind, moment)
        if len(faulty.calls) < number:
            break


def test_an_own_commit_is_recognised_after_a_lost_answer_and_not_made_twice():
    inner = filled()
    for kind, moment in EVERY_FAULT:
        faulty = FaultyStore(inner)
        table = opened(faulty)
        faulty.fail(Fault(kind, moment, operation="put_if_absent", call_number=1))
        name = f"once-{kind}-{moment}"
        try:
            table.append([make_file(name, day="2024-01-01")])
        except OSError:
            continue  # refused before anything happened
        versions = opened(inner).log.listing().versions
        adds = [add.path for version in versions for add in opened(inner).log.read_version(version).adds]
        assert adds.count(name) == 1


def test_two_commits_of_the_same_file_are_a_conflict_and_not_one_commit():
    table = make_table()
    before = table.snapshot()
    same = make_file("same")
    table.append([same], snapshot=before)
    with pytest.raises(CommitConflictError):
        table.append([same], snapshot=before)


def test_a_state_that_could_not_be_written_is_told_and_made_up_for(folder):
    inner = open_store(folder / "table")
    fill(inner)
    faulty = FaultyStore(inner)
    table = opened(faulty)
    faulty.fail(Fault(EVERY_FAULT[2][0], operation="put", call_number=1))
    done = table.append([make_file("d", day="2024-01-01")])
    assert done.version == 4 and done.state_kind is None and done.state_problem
    assert not (folder / "table/_transaction_log" / f"state-v{4:020}").exists()
    assert paths(opened(inner).snapshot()) == ["a", "b", "c", "d"]
    assert opened(inner).append([make_file("e", day="2024-01-01")]).state_kind
    assert (folder / "table/_transaction_log" / f"state-v{5:020}").exists()
    assert paths(opened(inner).snapshot()) == ["a", "b", "c", "d", "e"]


class Meanwhile:
    """A store that lets something happen right before its first version file is put."""

    def __init__(self, store, happens, state=None):
        self._store, self._state = store, [happens] if state is None else state

    def child(self, name):
        return Meanwhile(self._store.child(name), None, self._state)

    def put_if_absent(self, key, data):
        if key.endswith(".json") and self._state:
            self._state.pop()()
        return self._store.put_if_absent(key, data)

    def __getattr__(self, name):
        return getattr(self._store, name)


@pytest.mark.parametrize("bare", [False, True])
def test_no_commit_is_acknowledged_under_a_number_that_a_truncation_set_free(bare):
    store = filled()

    def others_commit_and_forget():
        table = opened(store)
        for number in range(3):
            table.append([make_file(f"more{number}", day="2024-01-01")])
        table.truncate(dry_run=False)

    sleepy = opened(Meanwhile(store, others_commit_and_forget))
    with pytest.raises(CommitUnknownError):
        sleepy.configure({"lost": "yes"}) if bare else sleepy.append([make_file("lost", day="2024-01-01")])
    newest = opened(store).snapshot()
    assert newest.version == 6 and "lost" not in newest.paths() and "lost" not in newest.metadata.configuration
    assert sleepy.append([make_file("fine", day="2024-01-01")]).version == 7
    assert sleepy.append([make_file("also", day="2024-01-01")]).version == 8
    assert {"fine", "also"} < set(opened(store).snapshot().paths())


@pytest.mark.parametrize("seed", range(40))
def test_a_simulated_world_of_failing_stores_keeps_every_acknowledged_commit(seed):
    import random

    from deltaic.testing.stores import FaultRates

    chance = random.Random(seed)
    now = [1_700_000_000.0]
    world = SimulatedStore(random=chance, clock=lambda: now[0])
    Table.create(world, columns={"id": "long"}, clock=lambda: now[0])
    rates = FaultRates(
        before=chance.choice([0, 0.05]), after=chance.choice([0, 0.05]), lost_answer=chance.choice([0, 0.1])
    )
    writers = [None] * 3
    acknowledged, unknown, refused = set(), set(), set()
    world.set_faults(rates)
    for number in range(40):
        now[0] += 1
        place = chance.randrange(3)
        path = f"f{number}"
        try:
            if writers[place] is None or chance.random() < 0.2:
                writers[place] = opened_at(world, now)
            stale = writers[place]._last if chance.random() < 0.5 else None
            writers[place].append([make_file(path, modified_ms=int(now[0] * 1000))], snapshot=stale)
            acknowledged.add(path)
        except CommitUnknownError:
            unknown.add(path)
        except DeltaicError:
            refused.add(path)
    world.set_faults(FaultRates())
    live = Table.open(world, cache=ManifestCache()).snapshot().paths()
    assert len(live) == len(set(live)), f"seed {seed} {rates}"
    assert acknowledged <= set(live) <= acknowledged | unknown, f"seed {seed} {rates}"
    table = opened_at(world, now)
    table.append([make_file("last", modified_ms=int(now[0] * 1000))])
    assert table.verify(files=False).findings == (), f"seed {seed} {rates}"


def opened_at(world, now):
    return Table.open(world, settings=SETTINGS, cache=ManifestCache(), sleep=no_wait, clock=lambda: now[0])


class PowerCutError(BaseException):
    """Not an Exception, so that nothing cleans up as if the machine were still on."""


@pytest.mark.parametrize("seed", range(60))
def test_a_power_cut_loses_no_acknowledged_commit_and_leaves_no_half_one(seed):
    import random

    chance = random.Random(seed)
    disk = DishonestDisk()
    table = make_table(LocalStore("/simulated", disk=disk), settings=SETTINGS, sleep=no_wait)
    acknowledged = []
    cut_at = chance.randrange(1, 700)

    def cut(_step, _path):
        if len(disk.steps) >= cut_at:
            raise PowerCutError

    disk.hook = cut
    tried = []
    try:
        for number in range(12):
            tried.append(f"f{number}")
            if number % 4 == 3:
                table.merge([acknowledged[-1]], [make_file(f"f{number}")])
                acknowledged[-1] = f"f{number}"
            else:
                table.append([make_file(f"f{number}")])
                acknowledged.append(f"f{number}")
            if number == 6:
                table.checkpoint()
    except PowerCutError:
        pass
    disk.hook = None
    after = LocalStore("/simulated", disk=disk.crash(random.Random(seed)))
    try:
        found = paths(opened(after).snapshot())
    except NotFoundError:
        assert acknowledged == [], f"seed {seed}, step {cut_at}"
        return
    allowed = [sorted(acknowledged)]
    if tried and tried[-1] not in acknowledged:
        last = int(tried[-1][1:])
        kept = acknowledged[:-1] if last % 4 == 3 else acknowledged
        allowed.append(sorted([*kept, tried[-1]]))
    assert found in allowed, f"seed {seed}, step {cut_at}"
    table = opened(after)
    table.append([make_file("later")])
    assert "later" in opened(after).snapshot().paths()
    assert opened(after).verify(files=False).findings == (), f"seed {seed}, step {cut_at}"

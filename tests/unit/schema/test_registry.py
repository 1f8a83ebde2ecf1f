"""The registry in memory: numbers, versions, reordering, many threads."""

import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from deltaic.errors import InputError, RegistryError
from deltaic.schema import registry_table
from deltaic.schema.registry import Descriptor, Registry, ValueType
from deltaic.schema.registry_journal import Add, write_journal
from deltaic.schema.registry_plan import plan_order
from deltaic.schema.registry_state import RegistryState
from tests.unit.schema import plain_registry

INT, TEXT = ValueType.INT64, ValueType.STRING


def cases(fixtures_dir, name):
    return json.loads((fixtures_dir / "field-registry" / f"{name}.json").read_text())["cases"]


def refused(code, call, *args):
    with pytest.raises(RegistryError) as caught:
        call(*args)
    assert caught.value.code == code
    return caught.value


class Kept:
    """A journal in a list."""

    def __init__(self):
        self.records = []

    def append(self, state, records):
        self.records += records
        return True

    def pull(self, state):
        return state

    def written(self, state):
        pass

    close = written


@pytest.mark.parametrize("name", ["registry", "registry_random"])
def test_recorded_lives_end_in_the_recorded_journal_and_snapshot(fixtures_dir, name):
    for case in cases(fixtures_dir, name):
        journal = Kept()
        registry = Registry(journal=journal, max_versions=case["options"].get("max_versions"))
        for step in case["steps"]:
            if step["op"] in ("decode", "translate"):
                continue  # those of references; tests/unit/wire/references has them
            try:
                result = getattr(registry, step["op"])(*step["args"])
            except RegistryError as error:
                result = error.code
            assert result == step["result"], (case["name"], step)
        assert write_journal(0, journal.records).hex() == case["journal"], case["name"]
        assert registry.snapshot().hex() == case["snapshot"], case["name"]
        again = RegistryState.from_snapshot(bytes.fromhex(case["snapshot"]))
        assert again.snapshot().hex() == case["snapshot"], case["name"]
        _, records = plain_registry.read_journal(bytes.fromhex(case["journal"]))
        plain = plain_registry.PlainRegistry()
        for record in records:
            plain.apply(record)
        assert plain.shown() == plain_registry.read_snapshot(registry.snapshot())
        if "state" in case:
            state = case["state"]
            assert (registry.version, registry.oldest, registry.sequence) == (
                state["current"],
                state["oldest"],
                state["seq"],
            )
            for version, fields in state["versions"].items():
                shown = [{"path": field.path, "type": field.type} for field in registry.view.table(int(version))]
                assert shown == fields


@pytest.mark.parametrize("name", ["reorder", "reorder_random"])
def test_recorded_plans_are_made(fixtures_dir, name):
    for case in cases(fixtures_dir, name):
        live = np.arange(case["live"]) if isinstance(case["live"], int) else np.array(case["live"], np.int64)
        counts = np.array([case["counts"].get(str(index), 0) for index in live.tolist()], np.int64)
        plan = plan_order(live.astype(np.int64), counts)
        assert plan.old_index_of.tolist() == case["old_index_of"], case["name"]
        if "bytes_before" in case:
            assert (plan.bytes_before, plan.bytes_after) == (case["bytes_before"], case["bytes_after"])


def test_the_recorded_large_plan_is_made(fixtures_dir):
    case = json.loads((fixtures_dir / "field-registry" / "reorder_large.json").read_text())
    counts = np.where(np.arange(case["fields"]) < 16_384, 5, 0)
    for index, count in case["hot"].items():
        counts[int(index)] = count
    order = plan_order(np.arange(case["fields"]), counts).old_index_of.tolist()
    assert {str(new): old for new, old in enumerate(order) if new != old} == case["moved"]
    assert sorted(order) == list(range(case["fields"]))


def test_the_bytes_of_the_page_are_written():
    registry = Registry(journal=(journal := Kept()))
    registry.register("user.id", INT, 1_700_000_000_000)
    registry.register("items[].name", TEXT, 1_700_000_000_001)
    data = write_journal(0, journal.records)
    assert len(data) == 107
    assert data[16:32].hex(" ") == "23 00 00 00 5d 30 5a 9b 01 00 00 00 00 00 00 00"


def test_a_field_keeps_its_index_however_often_it_is_registered():
    registry = Registry()
    assert [registry.register("a", INT), registry.register("b", TEXT), registry.register("a", INT)] == [0, 1, 0]
    assert registry.sequence == 2
    error = refused("TypeConflict", registry.register, "a", TEXT)
    assert (error.version, error.index) == (0, 0)
    assert registry.lookup("a") == 0 and registry.lookup("c") is None
    assert registry.descriptor(1) == Descriptor("b", TEXT, 17)


@pytest.mark.parametrize("value_type", [12, 127, 256, -1])
def test_a_reserved_type_is_refused_and_an_own_one_is_not(value_type):
    registry = Registry()
    with pytest.raises(InputError):
        registry.register("a", value_type)
    assert registry.register("a", 200) == 0


def test_a_list_with_one_refused_field_registers_none():
    registry = Registry()
    registry.register("a", INT)
    refused("TypeConflict", registry.register_many, [("b", INT), ("a", TEXT), ("c", INT)])
    refused("TypeConflict", registry.register_many, [("b", INT), ("b", TEXT)])
    assert registry.lookup("b") is None and registry.sequence == 1
    assert registry.register_many([("b", INT), ("b", INT), ("a", INT)]) == [1, 1, 0]


def test_more_fields_than_three_bytes_name_are_refused(monkeypatch):
    from deltaic.schema import registry as registry_module
    from deltaic.schema import registry_state

    for module in (registry_module, registry_state, registry_table):
        monkeypatch.setattr(module, "MAX_INDEX", 2)
    registry = Registry()
    registry.register_many([("a", INT), ("b", INT)])
    refused("RegistryFull", registry.register_many, [("c", INT), ("d", INT)])
    assert registry.register("c", INT) == 2
    refused("RegistryFull", registry.register, "d", INT)
    assert registry.register("a", INT) == 0
    refused("JournalCorrupt", registry._state.apply, Add(0, 3, 2, 0, "d"))


def test_the_largest_index_is_what_three_bytes_hold():
    assert registry_table.MAX_INDEX == 4_194_303


def test_the_three_ways_not_to_find_a_field_are_told_apart():
    registry = Registry()
    registry.register("a", INT)
    registry.optimize(force=True)
    registry.evict(0)
    assert refused("UnknownVersion", registry.descriptor, 0, 2).version == 2
    assert refused("VersionEvicted", registry.descriptor, 0, 0).version == 0
    assert refused("UnknownField", registry.descriptor, 1, 1).index == 1
    refused("UnknownField", registry.descriptor, -1)
    refused("UnknownVersion", registry.evict, 1)
    refused("VersionEvicted", registry.evict, 0)


def test_only_the_oldest_version_is_evicted():
    registry = Registry()
    for _ in range(3):
        registry.optimize(force=True)
    refused("UnknownVersion", registry.evict, 1)
    registry.evict(0)
    assert registry.oldest == 1


def test_a_retired_field_stays_in_its_version_and_leaves_the_next():
    registry = Registry()
    registry.register_many([("a", INT), ("b", INT), ("c", INT)])
    registry.retire("b")
    assert registry.is_retired("b") and registry.lookup("b") == 1
    refused("TypeConflict", registry.register, "b", TEXT)
    refused("UnknownField", registry.retire, "z")
    view = registry.view
    assert registry.optimize(force=True) == 1
    assert [field.path for field in registry.fields()] == ["a", "c"]
    assert [(field.path, field.retired) for field in registry.fields(0)] == [("a", False), ("b", True), ("c", False)]
    assert registry.register("b", TEXT) == 2
    assert view.current == 0 and view.descriptor(1).type == INT
    refused("UnknownField", registry.view.translate, 1, 0, 1)
    assert registry.view.translate(2, 0, 1) == 1


def test_registering_a_retired_field_makes_it_live_again():
    registry = Registry()
    registry.register("a", INT)
    registry.retire("a")
    assert registry.register_many([("a", INT), ("a", INT)]) == [0, 0]
    assert not registry.is_retired("a") and registry.sequence == 3
    registry.optimize(force=True)
    assert registry.lookup("a") == 0


def test_hot_fields_get_the_short_numbers_and_nothing_else_moves():
    registry = Registry()
    registry.register_many([(f"f{number}", INT) for number in range(300)])
    registry.touch_many(np.tile(np.array([130, 200, 299]), 5_000))
    registry.touch_many(np.arange(100))
    plan = registry.plan()
    assert (plan.samples, plan.moved) == (15_100, 6)
    assert registry.optimize() == 1
    hot = {registry.lookup(f"f{number}") for number in (130, 200, 299)}
    assert hot == {125, 126, 127}
    assert sum(registry.lookup(f"f{number}") == number for number in range(300)) == 294


def test_counts_go_on_halved_in_the_next_version_and_old_references_count_there():
    registry = Registry()
    registry.register_many([(f"f{number}", INT) for number in range(200)])
    registry.touch(150, 20_001)
    registry.touch(199, 7)
    assert registry.optimize() == 1
    assert registry.plan().samples == 10_000 + 3
    registry.touch(150, 5, version=0)  # a reference of the old version
    assert registry.plan().samples == 10_008
    place = registry.lookup("f150")
    assert place < 128
    registry.touch(150, 3, version=77)  # nobody knows it
    assert registry.plan().samples == 10_008


def test_few_uses_or_little_gain_make_no_version():
    registry = Registry()
    registry.register_many([(f"f{number}", INT) for number in range(200)])
    registry.touch(150, 9_999)
    assert registry.optimize() == 0
    registry.touch(0, 400_000)
    assert registry.optimize() == 0
    assert registry.optimize(min_gain=0.01) == 1


def test_counts_of_threads_that_ended_are_not_lost():
    registry = Registry()
    registry.register_many([("a", INT), ("b", INT)])

    def use(number):
        for _ in range(1_000):
            registry.touch(number % 2)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert registry.plan().samples == 10_000
    assert registry.plan().samples == 10_000
    assert registry._counts._cells == []


def test_the_last_version_is_the_last(monkeypatch):
    from deltaic.schema import registry as registry_module

    monkeypatch.setattr(registry_module, "MAX_VERSION", 1)
    registry = Registry()
    registry.optimize(force=True)
    refused("VersionExhausted", lambda: registry.optimize(force=True))
    assert registry.version == 1


def test_only_so_many_versions_are_kept():
    registry = Registry(max_versions=1)
    registry.register("a", INT)
    for version in range(1, 5):
        assert registry.optimize(force=True) == version
        assert (registry.oldest, sorted(registry.view.tables)) == (version, [version])
    with pytest.raises(InputError):
        Registry(max_versions=0)


def test_a_view_keeps_what_it_had_when_versions_come_and_go():
    registry = Registry(max_versions=1)
    registry.register_many([("a", INT), ("b", INT)])
    view = registry.view
    registry.retire("a")
    registry.optimize(force=True)
    assert view.lookup("a") == 0 and view.descriptor(0).path == "a"
    refused("VersionEvicted", registry.descriptor, 0, 0)
    with pytest.raises(TypeError):
        view.tables[5] = None


def test_a_snapshot_carries_a_registry_to_another_process():
    registry = Registry()
    registry.register_many([("a", INT), ("b{}", TEXT)])
    registry.retire("a")
    registry.optimize(force=True)
    copy = Registry.from_snapshot(registry.snapshot())
    assert copy.snapshot() == registry.snapshot()
    assert [field.path for field in copy.fields(0)] == ["a", "b{}"] and copy.lookup("b{}") == 0
    assert copy.register("c", INT) == 1  # in its own memory


def test_errors_travel_between_processes():
    error = refused("UnknownField", Registry().descriptor, 5)
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.version, again.index, str(again)) == ("UnknownField", 0, 5, str(error))


@pytest.mark.parametrize("durability", ["sync", "batch", "none"])
def test_sixteen_threads_that_add_the_same_fields_get_the_same_numbers(durability):
    registry = Registry(journal=(journal := Kept()), durability=durability)
    wanted = [f"f{number}" for number in range(400)]
    barrier = threading.Barrier(16)

    def work(number):
        order = np.random.default_rng(number).permutation(wanted).tolist()
        barrier.wait()
        own = {path: registry.register(path, TEXT) for path in order}
        for path, index in own.items():
            assert registry.descriptor(index).path == path
        return own

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(work, range(16)))
    assert all(result == results[0] for result in results)
    assert sorted(results[0].values()) == list(range(400))
    assert len(journal.records) == (0 if durability == "none" else 400)


def test_in_a_batch_one_refused_call_does_not_hurt_the_others():
    class Slow(Kept):
        def __init__(self):
            super().__init__()
            self.calls, self.gate = [], threading.Event()

        def append(self, state, records):
            self.calls.append(len(records))
            if len(self.calls) == 1:
                self.gate.wait(10)
            return super().append(state, records)

    journal = Slow()
    registry = Registry(journal=journal, durability="batch")

    def call(fields):
        try:
            return registry.register_many(fields)
        except RegistryError as error:
            return error.code

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(call, [("a", INT)])
        while not journal.calls:
            pass
        second = pool.submit(call, [("b", INT), ("a", TEXT)])
        third = pool.submit(call, [("b", TEXT), ("c", INT)])
        while len(registry._waiting) < 2:
            pass
        journal.gate.set()
        assert (first.result(), second.result()) == ([0], "TypeConflict")
        assert sorted(third.result()) == [1, 2]
    assert journal.calls == [1, 2]  # both that waited are in one write


def test_an_interrupt_reaches_its_own_thread_and_the_others_hear_that_no_answer_came():
    class Interrupted(Kept):
        def __init__(self):
            super().__init__()
            self.started, self.gate = threading.Event(), threading.Event()

        def append(self, state, records):
            self.started.set()
            self.gate.wait(10)
            if len(records) > 1:
                raise KeyboardInterrupt
            return super().append(state, records)

    journal = Interrupted()
    registry = Registry(journal=journal, durability="batch")
    ends = []

    def call(path):
        try:
            ends.append(registry.register(path, INT))
        except BaseException as error:
            ends.append(type(error).__name__)

    threads = [threading.Thread(target=call, args=(path,)) for path in ("a", "b", "c")]
    threads[0].start()
    journal.started.wait(10)
    for thread in threads[1:]:
        thread.start()
    while len(registry._waiting) < 2:
        pass
    journal.gate.set()
    for thread in threads:
        thread.join()
    assert sorted(map(str, ends)) == ["0", "CommitUnknownError", "KeyboardInterrupt"]
    assert registry.register("b", INT) == 1


def test_readers_never_see_half_a_change_while_fields_and_versions_are_added():
    registry = Registry(max_versions=4)
    registry.register("f0", INT)
    stop, wrong = threading.Event(), []

    def read():
        while not stop.is_set():
            view = registry.view
            table = view.table()
            size = len(table)
            for index in range(max(0, size - 3), size):
                field = view.descriptor(index)
                if view.lookup(field.path) != index:
                    wrong.append((view.current, index, field.path))
            for version in view.tables:
                if view.descriptor(0, version).path == "":
                    wrong.append(version)

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(1, 600):
        assert registry.register(f"f{number}", INT) == number
        if number % 50 == 0:
            registry.optimize(force=True)
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []

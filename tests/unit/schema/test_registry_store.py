"""The registry in a folder: journal files, snapshots, recovery, following, writers that come second."""

import json
import struct
import threading
import tracemalloc
import zlib

import pytest

from deltaic.errors import CommitUnknownError, InputError, RegistryError, StorageError
from deltaic.schema import registry_store
from deltaic.schema.registry import Registry, ValueType
from deltaic.schema.registry_journal import Add, Mark, journal_name, read_journal, write_journal
from deltaic.schema.registry_state import RegistryState
from deltaic.schema.registry_store import open_registry, snapshot_name
from deltaic.storage import LocalStore
from deltaic.storage.backoff import Backoff
from deltaic.testing.stores import Fault, FaultKind, FaultyStore, Moment, SimulatedStore
from tests.unit.schema import plain_registry

INT, TEXT = ValueType.INT64, ValueType.STRING
NO_WAIT = Backoff(sleep=lambda _seconds: None)


def paths(registry, version=None):
    return [field.path for field in registry.fields(version)]


def files(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def refused(code, call, *args):
    with pytest.raises(RegistryError) as caught:
        call(*args)
    assert caught.value.code == code, caught.value
    return caught.value


def shown(registry):
    return plain_registry.read_snapshot(registry.snapshot())


@pytest.fixture(params=["local", "simulated"])
def store(request, tmp_path):
    return LocalStore(tmp_path / "registry") if request.param == "local" else SimulatedStore()


def recovery_cases(fixtures_dir):
    return json.loads((fixtures_dir / "field-registry" / "recovery.json").read_text())["cases"]


def test_recorded_folders_are_recovered_or_refused(fixtures_dir, tmp_path):
    for case in recovery_cases(fixtures_dir):
        if "snapshot_only" in case:
            data = bytes.fromhex(case["snapshot_only"])
            if "error" in case:
                refused(case["error"], RegistryState.from_snapshot, data)
                continue
            state = RegistryState.from_snapshot(data)
            assert state.sequence == case["state"]["seq"]
            continue
        folder = tmp_path / case["name"]
        folder.mkdir()
        (folder / journal_name(0)).write_bytes(bytes.fromhex(case["journal"]))
        if case["snapshot"] is not None:
            data = bytes.fromhex(case["snapshot"])
            (folder / snapshot_name(struct.unpack_from("<Q", data, 8)[0])).write_bytes(data)
        if "error" in case:
            refused(case["error"], open_registry, LocalStore(folder))
            continue
        registry = open_registry(LocalStore(folder))
        state = case["state"]
        assert (registry.version, registry.oldest, registry.sequence) == (
            state["current"],
            state["oldest"],
            state["seq"],
        ), case["name"]
        for version, fields in state["versions"].items():
            assert paths(registry, int(version)) == [field["path"] for field in fields]
        assert registry.register("after.recovery", INT) == len(state["versions"][str(state["current"])])
        again = open_registry(LocalStore(folder))
        assert again.sequence == state["seq"] + 1 and shown(again) == plain_registry.read_folder(folder).shown()
        if state["seq"]:
            assert (folder / journal_name(0)).stat().st_size == case["good_bytes"], case["name"]


def test_nothing_is_written_before_something_is_registered(tmp_path):
    registry = open_registry(str(tmp_path / "registry"))
    assert registry.lookup("a") is None and not registry.refresh()
    registry.close()
    assert not (tmp_path / "registry").exists()


def test_every_batch_is_a_file_of_its_own_that_another_reader_understands(tmp_path):
    registry = open_registry(str(tmp_path))
    registry.register("user.id", INT, 1_700_000_000_000)
    registry.register_many([("items[].name", TEXT), ("data{}", 200)], 1_700_000_000_001)
    registry.retire("user.id")
    registry.optimize(force=True)
    registry.evict(0)
    assert files(tmp_path) == [journal_name(base) for base in (0, 1, 3, 4, 5)]
    assert plain_registry.read_folder(tmp_path).shown() == shown(registry)
    registry.close()
    assert files(tmp_path)[-1] == snapshot_name(6)
    assert plain_registry.read_folder(tmp_path).shown() == shown(registry)


def test_a_registry_goes_on_where_it_was(store):
    first = open_registry(store)
    first.register_many([("a", INT), ("b", TEXT)])
    first.optimize(force=True)
    second = open_registry(store)
    assert second.register("c", INT) == 2 and second.register("a", INT) == 0
    assert shown(open_registry(store)) == shown(second)
    assert (second.version, second.sequence) == (1, 4)


def test_who_comes_second_reads_what_the_first_wrote_and_tries_again(store):
    first, second, third = (open_registry(store, backoff=NO_WAIT) for _ in range(3))
    assert first.register("a", INT) == 0
    assert second.register("b", INT) == 1
    assert third.register("a", INT) == 0 and third.register("c", INT) == 2
    refused("TypeConflict", first.register, "c", TEXT)
    first.retire("b")
    assert second.optimize(force=True) == 1
    assert third.register("d", INT) == 2
    for registry in (first, second, third):
        registry.refresh()
        assert shown(registry) == shown(first)
    assert paths(first) == ["a", "c", "d"]


def test_a_reader_follows_and_holds_its_views(store):
    writer, reader = open_registry(store), open_registry(store, read_only=True)
    assert not reader.refresh()
    writer.register("a", INT)
    view = reader.view
    assert reader.refresh() and not reader.refresh()
    assert reader.lookup("a") == 0
    writer.register("b", INT)
    writer.optimize(force=True)
    assert reader.refresh() and reader.version == 1 and view.current == 0
    with pytest.raises(InputError, match="reading only"):
        reader.register("c", INT)
    assert reader.register("a", INT) == 0  # nothing is to be written
    assert reader.lookup("c") is None


def test_without_durability_nothing_is_written(tmp_path):
    open_registry(str(tmp_path)).register("a", INT)
    registry = open_registry(str(tmp_path), durability="none")
    assert registry.register("b", INT) == 1
    registry.close()
    assert files(tmp_path) == [journal_name(0)]


def test_an_index_is_durable_before_it_can_be_seen(store):
    registry = open_registry(store)
    seen = []

    class Watching:
        def __init__(self, journal):
            self.journal = journal

        def append(self, state, records):
            seen.append(registry.lookup("a"))
            done = self.journal.append(state, records)
            seen.append((registry.lookup("a"), open_registry(store).lookup("a")))
            return done

        def written(self, state):
            pass

    registry._journal = Watching(registry._journal)
    assert registry.register("a", INT) == 0
    assert seen == [None, (None, 0)]


def test_a_failed_write_gives_no_index(store):
    faulty = FaultyStore(store)
    registry = open_registry(faulty)
    faulty.fail(Fault(FaultKind.NO_SPACE, operation="put_if_absent"))
    with pytest.raises(StorageError):
        registry.register("a", INT)
    assert registry.lookup("a") is None and open_registry(store).lookup("a") is None
    assert registry.register("b", INT) == 0 and registry.register("a", INT) == 1


@pytest.mark.parametrize("kind", [FaultKind.LOST_ANSWER, FaultKind.TIMEOUT])
def test_a_write_whose_answer_was_lost_counts_once(store, kind):
    faulty = FaultyStore(store)
    registry = open_registry(faulty, backoff=NO_WAIT)
    registry.register("a", INT)
    faulty.fail(Fault(kind, Moment.AFTER, operation="put_if_absent"))
    assert registry.optimize(force=True) == 1
    assert open_registry(store).version == 1


def test_a_write_that_may_have_landed_is_found_by_the_next_call(store):
    faulty = FaultyStore(store)
    registry = open_registry(faulty, backoff=NO_WAIT)
    faulty.fail(
        Fault(FaultKind.TIMEOUT, Moment.AFTER, call_number=1, operation="put_if_absent"),
        Fault(FaultKind.TIMEOUT, call_number=1, operation="get", from_then_on=True),
    )
    with pytest.raises(CommitUnknownError):
        registry.register("a", INT)
    assert registry.lookup("a") is None
    registry._journal.store = store
    assert registry.register("b", INT) == 1 and registry.register("a", INT) == 0


def test_a_snapshot_is_due_after_many_records_and_at_close(tmp_path):
    registry = open_registry(str(tmp_path))
    registry.register_many([(f"f{number}", INT) for number in range(9_999)])
    assert files(tmp_path) == [journal_name(0)]
    registry.register("g", INT)
    assert files(tmp_path) == [journal_name(0), journal_name(9_999), snapshot_name(10_000)]
    registry.register("h", INT)
    registry.close()
    registry.close()
    assert files(tmp_path) == [
        journal_name(10_000),
        snapshot_name(10_000),
        snapshot_name(10_001),
    ]
    reader = open_registry(str(tmp_path))
    reader.close()
    assert shown(reader) == shown(registry)


def test_a_snapshot_is_due_after_many_files_and_old_ones_go(tmp_path, monkeypatch):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 4)
    registry = open_registry(str(tmp_path))
    for number in range(21):
        registry.register(f"f{number}", INT)
        again = open_registry(str(tmp_path))
        assert shown(again) == shown(registry) == plain_registry.read_folder(tmp_path).shown()
        snapshots = [name for name in files(tmp_path) if name.startswith("snapshot")]
        assert len(snapshots) <= 2 and len(files(tmp_path)) <= 2 + 2 * 4 + 1
    assert files(tmp_path)[0] == journal_name(16)


def test_a_snapshot_that_cannot_be_written_hurts_nobody(store, monkeypatch):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 2)
    faulty = FaultyStore(store)
    registry = open_registry(faulty)
    faulty.fail(Fault(FaultKind.IO_ERROR, call_number=1, operation="put", from_then_on=True))
    for number in range(6):
        assert registry.register(f"f{number}", INT) == number
    assert paths(open_registry(store)) == [f"f{number}" for number in range(6)]


def folder_with_two_snapshots(folder, monkeypatch):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 3)
    registry = open_registry(str(folder))
    for number in range(8):
        registry.register(f"f{number}", INT)
    monkeypatch.undo()
    assert [name for name in files(folder) if name.startswith("s")] == [snapshot_name(3), snapshot_name(6)]
    return registry


def test_a_damaged_snapshot_is_passed_over(tmp_path, monkeypatch):
    registry = folder_with_two_snapshots(tmp_path, monkeypatch)
    newest = tmp_path / snapshot_name(6)
    data = bytearray(newest.read_bytes())
    data[50] ^= 1
    newest.write_bytes(data)
    again = open_registry(str(tmp_path))
    assert shown(again) == shown(registry)
    assert again.register("g", INT) == 8
    # A damaged one is none to fall back to: what the one before needs stays.
    again.close()
    assert snapshot_name(3) in files(tmp_path) and journal_name(3) in files(tmp_path)
    (tmp_path / snapshot_name(9)).write_bytes(b"")
    assert paths(open_registry(str(tmp_path))) == paths(again)


def test_when_no_snapshot_is_good_and_journals_are_gone_nothing_is_guessed(tmp_path, monkeypatch):
    folder_with_two_snapshots(tmp_path, monkeypatch)
    for sequence in (3, 6):
        (tmp_path / snapshot_name(sequence)).write_bytes(b"DFRS")
    refused("JournalCorrupt", open_registry, str(tmp_path))
    for name in files(tmp_path):
        if name.startswith("journal"):
            (tmp_path / name).unlink()
    refused("JournalCorrupt", open_registry, str(tmp_path))


def test_a_snapshot_of_a_later_format_is_not_passed_over(tmp_path):
    registry = open_registry(str(tmp_path))
    registry.register("a", INT)
    registry.close()
    path = tmp_path / snapshot_name(1)
    data = bytearray(path.read_bytes())[:-4]
    data[4] = 2
    path.write_bytes(data + struct.pack("<I", zlib.crc32(data)))
    refused("UnsupportedVersion", open_registry, str(tmp_path))


def test_a_missing_journal_is_a_gap(tmp_path):
    registry = open_registry(str(tmp_path))
    for number in range(5):
        registry.register(f"f{number}", INT)
    (tmp_path / journal_name(2)).unlink()
    refused("JournalCorrupt", open_registry, str(tmp_path))
    (tmp_path / journal_name(3)).unlink()
    (tmp_path / journal_name(4)).unlink()
    assert paths(open_registry(str(tmp_path))) == ["f0", "f1"]


def test_a_journal_under_a_wrong_name_is_refused(tmp_path):
    open_registry(str(tmp_path)).register("a", INT)
    (tmp_path / journal_name(0)).rename(tmp_path / journal_name(1))
    refused("JournalCorrupt", open_registry, str(tmp_path))


def test_records_that_are_there_twice_are_refused(tmp_path):
    registry = open_registry(str(tmp_path))
    registry.register_many([("a", INT), ("b", INT)])
    (tmp_path / journal_name(1)).write_bytes(write_journal(1, [Add(0, 1, 2, 0, "c")]))
    refused("JournalCorrupt", open_registry, str(tmp_path))


UNFIT = {
    "an index that is not the next": [Add(0, 2, 2, 0, "b")],
    "another version": [Add(1, 1, 2, 0, "b")],
    "a path that is there": [Add(0, 1, 2, 0, "a")],
    "a mark of nothing": [Mark(0, 7, 1)],
    "a mark that is none": [Mark(0, 0, 2)],
    "a mark of another version": [Mark(1, 0, 1)],
}


@pytest.mark.parametrize("records", UNFIT.values(), ids=UNFIT.keys())
def test_a_record_that_does_not_fit_is_refused(tmp_path, records):
    open_registry(str(tmp_path)).register("a", INT)
    (tmp_path / journal_name(1)).write_bytes(write_journal(1, records))
    refused("JournalCorrupt", open_registry, str(tmp_path))


def raw_journal(base, *payloads):
    framed = b"".join(struct.pack("<II", len(payload), zlib.crc32(payload)) + payload for payload in payloads)
    return b"DFRJ\x01\0\0\0" + struct.pack("<Q", base) + framed


ODD = {
    "version with an index twice": struct.pack("<QBIIIII", 2, 2, 0, 1, 2, 0, 0),
    "version without a live field": struct.pack("<QBIII", 2, 2, 0, 1, 0),
    "version with a field too many": struct.pack("<QBIIIII", 2, 2, 0, 1, 2, 0, 1),
    "version that skips one": struct.pack("<QBIIII", 2, 2, 0, 2, 1, 0),
    "version whose count lies": struct.pack("<QBIII", 2, 2, 0, 1, 2**32 - 1),
    "evict of the current one": struct.pack("<QBI", 2, 4, 0),
    "path with a wrong length": struct.pack("<QBIIBQH", 2, 1, 0, 1, 2, 0, 5) + b"b",
    "path that is no UTF-8": struct.pack("<QBIIBQH", 2, 1, 0, 1, 2, 0, 1) + b"\xff",
    "path that is none": struct.pack("<QBIIBQH", 2, 1, 0, 1, 2, 0, 2) + b"a.",
    "mark that is too long": struct.pack("<QBIIBB", 2, 3, 0, 0, 1, 0),
    "operation that nobody knows": struct.pack("<QB", 2, 9),
}


@pytest.mark.parametrize("payload", ODD.values(), ids=ODD.keys())
def test_a_whole_record_with_nonsense_in_it_is_refused(tmp_path, payload):
    open_registry(str(tmp_path)).register("a", INT)
    (tmp_path / journal_name(1)).write_bytes(raw_journal(1, payload))
    refused("JournalCorrupt", open_registry, str(tmp_path))


def test_a_torn_end_is_cut_before_the_next_record_and_not_by_a_reader(tmp_path):
    registry = open_registry(str(tmp_path))
    registry.register_many([("a", INT), ("b", INT)])
    path = tmp_path / journal_name(0)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[16:30])
    reader = open_registry(str(tmp_path), read_only=True)
    assert paths(reader) == ["a", "b"] and path.stat().st_size == len(whole) + 14
    writer = open_registry(str(tmp_path))
    assert writer.register("c", INT) == 2
    assert path.read_bytes() == whole and files(tmp_path) == [journal_name(0), journal_name(2)]
    assert reader.refresh() and paths(reader) == ["a", "b", "c"]


@pytest.mark.parametrize("tail", [b"", b"\0" * 8, b"\0" * 40, b"\x20"])
def test_a_journal_without_a_whole_record_leaves_its_place_free(tmp_path, tail):
    registry = open_registry(str(tmp_path))
    registry.register("a", INT)
    (tmp_path / journal_name(1)).write_bytes(write_journal(1, []) + tail)
    again = open_registry(str(tmp_path))
    assert again.register("b", INT) == 1
    assert paths(open_registry(str(tmp_path))) == ["a", "b"]
    assert files(tmp_path) == [journal_name(0), journal_name(1)]


def test_a_torn_end_before_another_journal_is_damage(tmp_path):
    registry = open_registry(str(tmp_path))
    registry.register("a", INT)
    registry.register("b", INT)
    path = tmp_path / journal_name(0)
    path.write_bytes(path.read_bytes()[:-1])
    refused("JournalCorrupt", open_registry, str(tmp_path))


@pytest.mark.parametrize("length", [0, 8, 28, 30, 1_000, 2**32 - 1])
def test_a_damaged_length_does_not_make_records_a_torn_end(tmp_path, length):
    registry = open_registry(str(tmp_path))
    registry.register_many([(f"f{number}", INT) for number in range(50)])
    path = tmp_path / journal_name(0)
    data = bytearray(path.read_bytes())
    struct.pack_into("<I", data, 16 + 10 * (8 + 30 - 1), length)
    path.write_bytes(data)
    refused("JournalCorrupt", open_registry, str(tmp_path))


def test_another_program_that_appends_to_one_file_is_followed(tmp_path):
    whole = write_journal(0, [Add(0, number, 2, 0, f"f{number}") for number in range(6)])
    step = (len(whole) - 16) // 6
    path = tmp_path / journal_name(0)
    path.write_bytes(whole[: 16 + step])
    reader = open_registry(str(tmp_path))
    for size in range(16 + step, len(whole) + 1):
        path.write_bytes(whole[:size])
        reader.refresh()
        assert len(paths(reader)) == (size - 16) // step
    assert reader.register("g", INT) == 6
    assert shown(open_registry(str(tmp_path))) == shown(reader)


class Stalled:
    """A store in which the first put of a journal waits until a thread has done something else."""

    def __init__(self, store, meanwhile):
        self._store, self._meanwhile = store, meanwhile

    def __getattr__(self, name):
        return getattr(self._store, name)

    def put_if_absent(self, key, data):
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return self._store.put_if_absent(key, data)


def test_a_writer_that_slept_while_its_journal_was_made_and_removed_comes_too_late(store, monkeypatch):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 3)
    other = open_registry(store)
    other.register("a", INT)

    def meanwhile():
        for number in range(9):
            other.register(f"f{number}", INT)
        names = {info.key for info in store.list()}
        assert journal_name(1) not in names  # the name of the sleeper's journal is free again

    sleeper = open_registry(Stalled(store, meanwhile), backoff=NO_WAIT)
    assert sleeper.register("late", TEXT) == 10
    assert sleeper.register("f3", INT) == 4
    everybody = open_registry(store)
    assert paths(everybody) == ["a", *(f"f{number}" for number in range(9)), "late"]
    other.refresh()
    assert shown(other) == shown(everybody) == shown(sleeper)


def test_what_a_late_writer_left_when_it_died_is_nothing_to_anybody(store, monkeypatch):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 3)
    registry = open_registry(store)
    registry.register("a", INT)
    sleeping = open_registry(store)
    for number in range(9):
        registry.register(f"f{number}", INT)
    # A long batch under a free name: its sequences reach past everything.
    store.put_if_absent(journal_name(1), write_journal(1, [Add(0, 1 + n, 4, 0, f"x{n}") for n in range(50)]))
    assert shown(open_registry(store)) == shown(registry)
    sleeping.refresh()
    assert shown(sleeping) == shown(registry)
    registry.register("b", INT)
    sleeping.refresh()
    assert shown(sleeping) == shown(registry) == shown(open_registry(store))


def test_a_reader_that_slept_reads_anew_from_a_snapshot(store, monkeypatch):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 3)
    writer, reader = open_registry(store), open_registry(store, read_only=True)
    for number in range(20):
        writer.register(f"f{number}", INT)
    assert reader.refresh() and shown(reader) == shown(writer)


def test_threads_with_a_registry_each_add_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(registry_store, "SNAPSHOT_FILES", 10)
    wanted = [f"f{number}" for number in range(40)]
    barrier, results = threading.Barrier(6), []

    def work(number):
        registry = open_registry(str(tmp_path))
        barrier.wait()
        results.append({path: registry.register(path, INT) for path in wanted[number:] + wanted[:number]})
        registry.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6 and all(result == results[0] for result in results)
    assert sorted(results[0].values()) == list(range(40))
    assert plain_registry.read_folder(tmp_path).shown() == shown(open_registry(str(tmp_path)))


def bounded(call, code, size_bytes=4 << 20):
    tracemalloc.start()
    try:
        refused(code, call)
        assert tracemalloc.get_traced_memory()[1] < size_bytes
    finally:
        tracemalloc.stop()


def sealed(data):
    return data + struct.pack("<I", zlib.crc32(data))


HOSTILE = {
    "descriptors": struct.pack("<4s4sQIIII", b"DFRS", b"\x01\0\0\0", 0, 0, 0, 2**32 - 1, 1) + bytes(200),
    "versions": struct.pack("<4s4sQIIII", b"DFRS", b"\x01\0\0\0", 0, 2**32 - 2, 0, 0, 2**32 - 1) + bytes(200),
    "more versions than fit the numbers": struct.pack("<4s4sQIIII", b"DFRS", b"\x01\0\0\0", 0, 5, 9, 0, 1) + bytes(8),
    "fields of a version": struct.pack("<4s4sQIIIIII", b"DFRS", b"\x01\0\0\0", 0, 0, 0, 0, 1, 0, 2**31),
    "a descriptor that is not there": struct.pack("<4s4sQIIIIIII", b"DFRS", b"\x01\0\0\0", 0, 0, 0, 0, 1, 0, 1, 7),
    "bytes left over": struct.pack("<4s4sQIIIIIII", b"DFRS", b"\x01\0\0\0", 0, 0, 0, 0, 1, 0, 0, 7),
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_snapshot_that_asks_for_more_than_it_holds_is_refused_before_memory_is_taken(data):
    bounded(lambda: RegistryState.from_snapshot(sealed(data)), "JournalCorrupt")


def test_a_snapshot_with_a_path_twice_in_a_version_is_refused():
    field = struct.pack("<BBHQ", 2, 0, 1, 0) + b"a"
    head = struct.pack("<4s4sQIIII", b"DFRS", b"\x01\0\0\0", 2, 0, 0, 2, 1)
    data = head + field * 2 + struct.pack("<IIII", 0, 2, 0, 1)
    refused("JournalCorrupt", RegistryState.from_snapshot, sealed(data))


def test_an_index_without_a_field_is_read_and_unknown():
    field = struct.pack("<BBHQ", 2, 0, 1, 0) + b"a"
    head = struct.pack("<4s4sQIIII", b"DFRS", b"\x01\0\0\0", 2, 0, 0, 1, 1)
    data = sealed(head + field + struct.pack("<IIII", 0, 2, 2**32 - 1, 0))
    registry = Registry.from_snapshot(data)
    refused("UnknownField", registry.descriptor, 0)
    assert registry.lookup("a") == 1 and registry.snapshot() == data
    assert registry.optimize(force=True) == 1 and registry.lookup("a") == 0


def test_a_journal_that_asks_for_more_than_it_holds_is_refused_before_memory_is_taken():
    huge = struct.pack("<QBIII", 1, 2, 0, 1, 2**32 - 1) + bytes(40)
    bounded(lambda: read_journal(raw_journal(0, huge)), "JournalCorrupt")
    torn = read_journal(raw_journal(0) + struct.pack("<II", 2**32 - 1, 0) + bytes(9))
    assert torn.torn and torn.good_bytes == 16


def test_a_file_past_the_limit_is_not_read(tmp_path, monkeypatch):
    open_registry(str(tmp_path)).register("a", INT)
    monkeypatch.setattr(registry_store, "MAX_JOURNAL_BYTES", 20)
    refused("JournalCorrupt", open_registry, str(tmp_path))


def test_a_retyped_field_of_an_old_version_is_read_back(store):
    registry = open_registry(store)
    registry.register("a", INT)
    registry.retire("a")
    registry.optimize(force=True)
    registry.register("a", TEXT)
    registry.close()
    again = open_registry(store)
    assert again.descriptor(0, 0).type == INT and again.descriptor(0, 1).type == TEXT
    refused("UnknownField", again.view.translate, 0, 0, 1)

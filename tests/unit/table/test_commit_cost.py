"""What a commit costs: the same calls and bytes however many files the table has, and no manifest read in vain."""

import dataclasses
from collections import Counter
from contextlib import suppress

import pytest
from msgspec.structs import replace

from deltaic.errors import DeltaicError
from deltaic.table import AddFile, Table
from deltaic.table.manifest import ManifestCache
from deltaic.testing.faulty_store import EVERY_FAULT, Fault, FaultyStore
from tests.unit.table.making import FAST, make_file, make_table

FEW, MANY = 40, 4_000
CALLS = {"get", "head", "list", "put", "put_if_absent", "put_if_match", "delete"}
SETTINGS = FAST


class Counted:
    """A store that counts calls, and the bytes that come and go."""

    def __init__(self, store, tally=None):
        self._store, self.tally = store, Counter() if tally is None else tally

    def child(self, name):
        return Counted(self._store.child(name), self.tally)

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*given, **named):
            self.tally[name] += 1
            self.tally["manifests read"] += name == "get" and str(given[0]).startswith("manifests/")
            self.tally["written"] += sum(len(one) for one in given if isinstance(one, bytes))
            answer = found(*given, **named)
            self.tally["read"] += len(getattr(answer, "data", b""))
            return answer

        return counted


def made_of(count):
    table = make_table(settings=SETTINGS)
    table.append([make_file(f"old-{number}.split") for number in range(count)])
    table.checkpoint()
    return table


def counts_of_a_new_writer(table, work):
    """What one commit of a process that knows nothing of the table asks of its store."""
    counted = Counted(table.store)
    writer = Table.open(counted, settings=SETTINGS, cache=ManifestCache())
    counted.tally.clear()
    done = work(writer)
    assert done.state_kind == "incremental"
    return counted.tally


def append_one(writer):
    path, values = writer.new_path()
    return writer.append([AddFile(path, values, 10, 1 << 43)])


def test_a_new_writers_append_reads_no_manifest_and_is_as_long_as_in_a_small_table():
    few, many = (counts_of_a_new_writer(made_of(count), append_one) for count in (FEW, MANY))
    assert few["manifests read"] == many["manifests read"] == 0
    assert {name: few[name] for name in CALLS} == {name: many[name] for name in CALLS}
    assert sum(many[name] for name in CALLS) <= 11
    assert many["written"] - few["written"] < 100 and many["read"] - few["read"] < 100


def test_replacing_one_file_writes_no_more_in_a_large_table():
    def replace_one(writer):
        path, values = writer.new_path()
        return writer.rewrite(["old-7.split"], [AddFile(path, values, 10, 1 << 43)])

    few, many = (counts_of_a_new_writer(made_of(count), replace_one) for count in (FEW, MANY))
    assert many["written"] - few["written"] < 100
    assert {name: few[name] for name in CALLS - {"get"}} == {name: many[name] for name in CALLS - {"get"}}


def test_joining_small_manifests_leaves_large_ones_unread():
    settings = dataclasses.replace(SETTINGS, max_manifests=3, entries_per_manifest=50)
    table = make_table(settings=settings)
    table.append([make_file(f"old-{number}.split") for number in range(100)])
    for _ in range(2):
        append_one(table)
    counted = Counted(table.store)
    writer = Table.open(counted, settings=settings, cache=ManifestCache())
    counted.tally.clear()
    assert append_one(writer).state_kind == "partial"
    assert counted.tally["manifests read"] == 2
    again = Table.open(table.store, cache=ManifestCache())
    assert len(again.snapshot().paths()) == 103
    assert again.verify(files=False).findings == ()


def test_a_path_that_was_handed_out_is_new_once_only():
    table = made_of(FEW)
    path, values = table.new_path()
    add = AddFile(path, values, 10, 1 << 43)
    table.append([add])
    table.append([replace(add, size_bytes=11)])
    table.remove([path])
    table.append([replace(add, size_bytes=12)])
    fresh = Table.open(table.store, cache=ManifestCache())
    assert [one.size_bytes for one in fresh.files() if one.path == path] == [12]
    assert fresh.verify(files=False).findings == ()


@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT, ids=lambda value: str(value).replace(" ", "-"))
def test_a_handed_out_path_whose_first_commit_is_unknown_is_there_once_after_the_second(kind, moment):
    table = made_of(FEW)
    faulty = FaultyStore(table.store)
    writer = Table.open(faulty, settings=dataclasses.replace(SETTINGS, retry_max_attempts=2), sleep=lambda _: None)
    path, values = writer.new_path()
    add = AddFile(path, values, 10, 1 << 43)
    for call in range(1, 12):
        faulty.fail(Fault(kind, moment, call_number=call, from_then_on=True))
        with suppress(DeltaicError):
            writer.append([add])
        faulty.fail()
        with suppress(DeltaicError):
            writer.append([add])
        fresh = Table.open(table.store, cache=ManifestCache())
        assert fresh.snapshot().paths().count(path) == 1
        assert [one for one in fresh.verify(files=False).findings if one.code == "TwoEntries"] == []


def test_verify_finds_a_path_that_two_manifests_hold():
    table = made_of(FEW)
    # As if a writer said of a live file that its name is new.
    table._handed_out.add("old-7.split")
    table.append([make_file("old-7.split")])
    codes = {one.code for one in Table.open(table.store, cache=ManifestCache()).verify(files=False).findings}
    assert "TwoEntries" in codes


def test_a_commit_is_as_long_after_many_versions():
    table = make_table(settings=dataclasses.replace(SETTINGS, max_manifests=1000))
    counted = Counted(table.store)
    writer = Table.open(counted, settings=table.settings, cache=ManifestCache())
    tallies = []
    for _ in range(60):
        counted.tally.clear()
        append_one(writer)
        tallies.append({name: counted.tally[name] for name in CALLS})
    assert tallies[5] == tallies[-1] and sum(tallies[5].values()) <= 9

"""A refresh takes over what changed in the source: in one commit, or in none."""

import os
import random
import shutil
import threading

import pytest

from deltaic.errors import CommitConflictError, DeltaicError, NotFoundError
from deltaic.storage import open_store
from deltaic.table.companion import Companion, CompanionOptions, StaleCompanionError
from deltaic.table.split import ColumnIndex
from deltaic.testing.faulty_store import WRITES, Fault, FaultKind, FaultyStore, Moment
from tests.unit.table.companion.making import SMALL, cache, ids, make, opened, put, rows, scan

ONE_FILE_EACH = CompanionOptions(split_rows=50)


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    for number in range(4):
        put(folder, f"part-{number}.parquet", rows(number * 50, 50))
    return folder


def agrees(companion, folder):
    """The companion has exactly the rows of the source."""
    wanted = sorted(row["id"] for row in scan(folder))
    assert ids(companion.search(k=None)) == wanted and companion.count() == len(wanted)
    word = sorted(row["id"] for row in scan(folder) if row["plot"] and "river" in row["plot"].split())
    assert ids(companion.search("plot:river", k=None)) == word
    return not companion.status().stale


def test_nothing_changed_is_no_commit(tmp_path, source):
    companion = make(tmp_path)
    done = companion.refresh()
    assert not done.committed and done.version == companion.version == 1
    assert opened(tmp_path).refresh().version == 1


def test_new_changed_and_gone_files_are_one_commit(tmp_path, source):
    companion = make(tmp_path, write=ONE_FILE_EACH)
    put(source, "new/part-9.parquet", rows(900, 30))
    put(source, "part-1.parquet", rows(500, 40))
    (source / "part-3.parquet").unlink()
    status = companion.status()
    assert (status.new, status.changed, status.gone) == (
        ("new/part-9.parquet",),
        ("part-1.parquet",),
        ("part-3.parquet",),
    )
    assert status.stale and "1 new, 1 changed, 1 gone" in str(status)
    assert "1 new" in str(companion.explain("plot:river"))
    done = companion.refresh(note="nightly")
    assert (done.added, done.changed, done.removed, done.reindexed) == (1, 1, 1, 0)
    assert (done.splits_added, done.splits_removed, done.version) == (2, 2, 2)
    assert agrees(companion, source) and agrees(opened(tmp_path), source)


def test_files_that_share_a_split_with_one_that_went_are_indexed_again(tmp_path, source):
    companion = make(tmp_path)
    (source / "part-0.parquet").unlink()
    done = companion.refresh()
    assert (done.removed, done.reindexed, done.splits_added, done.splits_removed) == (1, 3, 1, 1)
    assert agrees(companion, source)


def test_a_file_cut_over_splits_is_replaced_as_a_whole(tmp_path):
    folder = tmp_path / "source"
    put(folder, "large.parquet", rows(0, 350))
    put(folder, "small.parquet", rows(1000, 20))
    companion = make(tmp_path, write=SMALL)
    assert companion.status().splits == 5 and companion.status().files == 2
    put(folder, "large.parquet", rows(2000, 260))
    done = companion.refresh()
    assert (done.changed, done.reindexed, done.splits_removed, done.splits_added) == (1, 0, 4, 3)
    assert agrees(companion, folder)


def test_all_files_gone_leaves_an_empty_companion(tmp_path, source):
    companion = make(tmp_path)
    for path in source.glob("*.parquet"):
        path.unlink()
    with pytest.raises(NotFoundError, match="allow_empty"):
        companion.refresh()
    assert companion.count() == 200
    assert companion.refresh(allow_empty=True).removed == 4
    assert companion.count() == 0 and len(companion.search("plot:river")) == 0
    put(source, "part-0.parquet", rows(0, 5))
    companion.refresh()
    assert agrees(companion, source)


def test_a_file_that_was_only_touched_is_the_same(tmp_path, source):
    companion = make(tmp_path)
    os.utime(source / "part-1.parquet", (1, 1))
    assert not companion.status().stale and not companion.refresh().committed


def test_a_file_of_the_same_size_with_other_bytes_is_changed(tmp_path, source):
    companion = make(tmp_path)
    path = source / "part-1.parquet"
    put(source, "part-1.parquet", rows(50, 50))
    assert not companion.refresh().committed, "the same bytes written again"
    data = path.read_bytes()
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    assert companion.status().changed == ("part-1.parquet",)


@pytest.mark.parametrize("reads", [1, 2])
def test_a_file_replaced_while_it_is_indexed_commits_nothing(tmp_path, source, reads):
    companion = make(tmp_path, refresh=False)
    store, real = companion.source.store, companion.source.store.get_range
    calls = []

    def replaced(key, start, length):
        found = real(key, start, length)
        calls.append(key)
        if key == "part-2.parquet" and calls.count(key) == reads:
            put(source, key, rows(7000, 50))
        return found

    store.get_range = replaced
    with pytest.raises(StaleCompanionError, match="part-2"):
        companion.refresh()
    store.get_range = real
    assert companion.version == 0 and companion.count() == 0
    companion.refresh()
    assert agrees(companion, source)


def test_two_refreshes_at_once_index_nothing_twice(tmp_path, source):
    make(tmp_path, refresh=False)
    both, wrong = [opened(tmp_path), opened(tmp_path)], []
    gate = threading.Barrier(2)

    def go(companion):
        real = companion.source.listing

        def listing(version=None):
            found = real(version)
            if companion.version == 0:
                gate.wait(10)
            return found

        companion.source.listing = listing
        try:
            companion.refresh()
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=go, args=(one,)) for one in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert agrees(opened(tmp_path), source) and opened(tmp_path).version == 1


def test_a_refresh_that_met_another_one_says_so_if_it_never_wins(tmp_path, source):
    make(tmp_path, refresh=False)
    late = opened(tmp_path, sleep=lambda seconds: None)
    real, number = late.source.listing, iter(range(100, 200))

    def listing(version=None):
        put(source, f"more-{next(number)}.parquet", rows(9000 + next(number), 1))
        found = real(version)
        opened(tmp_path).refresh()
        return found

    late.source.listing = listing
    with pytest.raises(CommitConflictError):
        late.refresh()
    opened(tmp_path).refresh()
    assert agrees(opened(tmp_path), source)


@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
def test_a_refresh_killed_at_any_write_shows_the_old_rows_or_the_new(tmp_path, source, moment):
    steps = CompanionOptions(split_rows=50, threads=1)
    companion = make(tmp_path, write=steps)
    before = companion.count()
    put(source, "part-8.parquet", rows(800, 20))
    (source / "part-2.parquet").unlink()
    after = sorted(row["id"] for row in scan(source))

    def run(number, *faults):
        """A refresh of a copy of the companion, by a process whose store fails."""
        shutil.copytree(tmp_path / "index", tmp_path / f"copy-{number}")
        store = FaultyStore(open_store(tmp_path / f"copy-{number}"), faults)
        try:
            Companion.open(store, split_cache=cache(tmp_path), write=steps, sleep=lambda _: None).refresh()
        except DeltaicError:
            assert faults
        return store.calls

    writes = [number for number, (what, _) in enumerate(run(0), 1) if what in WRITES]
    assert len(writes) >= 3
    seen = set()
    for number in writes:
        run(number, Fault(FaultKind.IO_ERROR, moment, call_number=number, from_then_on=True))
        left = Companion.open(tmp_path / f"copy-{number}", split_cache=cache(tmp_path))
        seen.add(left.count())
        left.refresh()
        assert ids(left.search(k=None)) == after and left.version == 2
    assert seen == {before, len(after)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_any_course_of_the_source_is_followed(tmp_path, seed):
    dice, folder, number = random.Random(seed), tmp_path / "source", 0
    put(folder, "first.parquet", rows(0, 30))
    companion = make(tmp_path, write=CompanionOptions(split_rows=60))
    for _ in range(8):
        for _ in range(dice.randrange(4)):
            files = sorted(folder.rglob("*.parquet"))
            number += 1000
            what, table = dice.choice(["new", "new", "changed", "gone"]), rows(number, dice.randrange(150), seed)
            if what == "new" or len(files) < 2:
                put(folder, f"{dice.choice(['', 'a/', 'b/c/'])}{number}.parquet", table)
            elif what == "changed":
                put(folder, dice.choice(files).relative_to(folder).as_posix(), table)
            else:
                dice.choice(files).unlink()
        before, stale = companion.version, companion.status().stale
        assert companion.refresh().version == before + stale
        assert agrees(companion, folder)


def test_large_splits_go_to_the_cache_of_the_host_within_its_bounds(tmp_path, source):
    from deltaic.table.split import SplitCache

    companion = Companion.create(
        tmp_path / "index",
        source,
        index={"plot": ColumnIndex(kind="text")},
        split_cache=SplitCache(tmp_path / "cache", max_bytes=1 << 20),
    )
    for name in companion.schema.names:
        companion.aggregate(group_by="id", measures=None)
        companion.search(k=None, columns=[name])
    assert SplitCache(tmp_path / "cache", max_bytes=1 << 20).usage().size_bytes <= 1 << 20

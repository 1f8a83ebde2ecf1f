"""Purging against slow writers, old readers, tags and clocks: nothing goes that somebody needs."""

import json
from dataclasses import replace

import pytest

from deltaic.errors import CommitConflictError, InputError, NotFoundError, StorageError
from deltaic.table import EVERYTHING, Settings, Table
from deltaic.table.manifest import ManifestCache
from deltaic.testing.stores import SimulatedStore
from tests.unit.table.making import make_file, make_table

HOUR = 3600.0
DAY = 24 * HOUR


def paths(snapshot):
    return sorted(path.removesuffix(".split") for path in snapshot.paths())


class World:
    """A store and writers with clocks of their own."""

    def __init__(self, **settings):
        self.now = 1_700_000_000.0
        self.skew = 0.0
        self.store = SimulatedStore(clock=lambda: self.now)
        self.settings = Settings(retry_base_delay_ms=0, **settings)
        Table.create(self.store, columns={"id": "long"}, settings=self.settings, clock=self.clock)

    def clock(self):
        return self.now + self.skew

    def table(self, **settings):
        chosen = replace(self.settings, **settings)
        return Table.open(self.store, settings=chosen, clock=self.clock, cache=ManifestCache())

    def file(self, name):
        return make_file(f"{name}.split", store=self.store, modified_ms=int(self.clock() * 1000))

    def write(self, *names):
        self.table().append([self.file(name) for name in names])

    def there(self, name):
        return any(info.key in (name, f"{name}.split") for info in self.store.list())

    def keys(self):
        return sorted(info.key for info in self.store.list())

    def purge(self, **given):
        """A run that must delete exactly what the dry run before it tells, and must leave a sound table."""
        table = self.table()
        before = self.keys()
        told = table.purge(**given)
        assert self.keys() == before, "a dry run touches nothing"
        done = table.purge(dry_run=False, **given)
        assert replace(told, dry_run=False) == done
        gone = {*(f"_transaction_log/{key}" for key in (*done.log_files, *done.manifests)), *done.files}
        assert set(before) - set(self.keys()) == gone
        assert self.table().verify().findings == ()
        return done


def test_an_old_file_that_a_merge_replaced_a_minute_ago_stays():
    # By its own time it is a month old: the public purge deletes it under a reader that has just planned.
    world = World()
    world.write("old")
    world.now += 40 * DAY
    reader = world.table().snapshot()
    world.table().merge(["old.split"], [world.file("new")])
    world.now += 60
    assert world.purge(log_retention_hours=0).files == ()
    assert world.there("old") and paths(reader) == ["old"]
    world.now += 8 * DAY
    done = world.purge(log_retention_hours=0)
    assert world.there("old"), "the version before the newest stays readable"
    world.write("x")
    world.write("y")
    world.now += 8 * DAY
    done = world.purge(log_retention_hours=0)
    assert done.files == ("old.split",) and not world.there("old")
    assert paths(world.table().snapshot()) == ["new", "x", "y"]


def test_a_file_of_any_version_in_the_window_stays():
    world = World()
    for number in range(6):
        world.write(f"f{number}")
        world.now += 10 * DAY
    world.table().overwrite([world.file("last")])
    world.now += 1 * DAY
    done = world.purge()
    kept = world.table().versions()
    assert kept[0] <= 4, "a version that was the newest 30 days ago is in the window"
    for version in kept:
        assert all(world.there(path) for path in world.table().at(version=version).paths())
    assert done.files == ()


def test_a_slow_writers_files_stay_until_it_commits():
    world = World()
    world.write("a")
    slow = world.file("slow")
    world.now += 5 * DAY
    for number in range(5):
        world.write(f"b{number}")
    world.purge(log_retention_hours=0)
    assert world.there("slow")
    world.table().append([slow])
    assert "slow" in paths(world.table().snapshot())


def test_a_writer_that_was_slower_than_the_retention_is_refused():
    world = World()
    world.write("a")
    slow = world.file("slow")
    world.now += 30 * DAY
    for number in range(3):
        world.write(f"b{number}")
    world.now += 30 * DAY
    world.purge(log_retention_hours=0)
    assert not world.there("slow")
    with pytest.raises(NotFoundError, match="waited too long"):
        world.table().append([slow])
    assert world.table().verify().findings == ()


def test_tagged_versions_stay_readable_with_all_their_files():
    world = World()
    world.write("a", "b")
    world.write("c")
    world.table().tag("release", 1)
    world.table().overwrite([world.file("z")])
    for number in range(4):
        world.now += 40 * DAY
        world.write(f"n{number}")
        world.purge()
    assert paths(world.table().at(tag="release")) == ["a", "b"]
    assert world.there("a") and world.there("b") and not world.there("c")
    world.table().untag("release")
    world.now += 40 * DAY
    world.write("more")
    world.now += 40 * DAY
    world.write("most")
    world.purge()
    world.now += 10 * DAY
    world.purge()
    assert not world.there("a")


def test_a_tagged_version_without_a_state_gets_one_before_its_version_files_go():
    world = World()
    world.write("a")
    world.write("b")
    world.write("c")
    world.table().tag("release", 2)
    for version in (1, 2, 3, 4):
        for info in list(world.store.list(f"_transaction_log/state-v{version:020}/")):
            world.store.delete(info.key)
    world.table().checkpoint()
    for number in range(3):
        world.write(f"n{number}")
    assert world.table().truncate(dry_run=False).tagged == (2,)
    assert paths(world.table().at(tag="release")) == ["a", "b"]


@pytest.mark.parametrize("skew", [-HOUR, HOUR])
@pytest.mark.parametrize("who", ["cleaner", "writer"])
def test_clocks_that_differ_by_an_hour_delete_nothing_too_early(skew, who):
    world = World()
    world.skew = skew if who == "writer" else 0.0
    world.write("a")
    world.table().overwrite([world.file("b")])
    world.write("c")
    world.write("d")
    world.skew = skew if who == "cleaner" else 0.0
    world.now += 7 * DAY - 60
    assert world.purge(log_retention_hours=0).files == ()
    assert world.there("a")
    world.now += 2 * HOUR + 120
    assert world.purge(log_retention_hours=0).files == ("a.split",)


def test_versions_go_by_when_they_were_superseded():
    world = World()
    world.write("a")
    world.now += 300 * DAY
    world.write("b")
    world.now += HOUR
    world.write("c")
    world.write("d")
    # Version 1 is 300 days old, but was the newest until an hour ago.
    assert world.purge().log_files == ("00000000000000000000.json",)
    assert 1 in world.table().versions()
    world.now += 40 * DAY
    world.purge()
    assert 1 not in world.table().versions()
    assert world.table().versions()[-1] == 4


def test_a_manifest_stays_while_any_state_refers_to_it_and_while_it_is_new():
    world = World(max_manifests=3)
    for number in range(12):
        world.write(f"f{number}")
    world.now += 2 * HOUR + 1
    fresh = "_transaction_log/manifests/manifest-0123456789abcdef.avro"
    world.store.put(fresh, b"of a writer that is about to commit")
    done = world.purge()
    assert world.there(fresh)
    reachable = set()
    for version in world.table().versions():
        state = world.table().log.state(version)
        reachable.update(state.manifest_keys() if state else ())
    assert reachable <= set(world.table().log.listing(with_manifests=True).manifests)
    world.now += 40 * DAY
    world.write("x")
    world.now += 40 * DAY
    world.write("y")
    done = world.purge()
    assert not world.there(fresh) and done.manifests


def test_old_states_are_thinned_and_their_versions_stay_readable():
    world = World()
    for number in range(6):
        world.write(f"f{number}")
    world.now += 20 * DAY
    world.write("g")
    done = world.purge()
    assert any(key.startswith("state-v") for key in done.log_files)
    assert not any(key.endswith(".json") for key in done.log_files)
    assert [world.table().at(version=version).num_files for version in range(8)] == [0, 1, 2, 3, 4, 5, 6, 7]


def test_truncating_forgets_history_and_files_wait_for_their_retention():
    world = World()
    world.write("a")
    world.now += 100 * DAY
    world.table().overwrite([world.file("b")])
    told = world.table().truncate()
    assert told.log_files and world.table().versions() == (0, 1, 2)
    assert world.table().truncate(dry_run=False).log_files == told.log_files
    assert world.table().versions() == (2,) and paths(world.table().snapshot()) == ["b"]
    world.now += DAY
    world.purge()
    assert world.there("a"), "nobody knows any more when it was removed: the oldest version counts"
    world.now += 8 * DAY
    world.purge()
    assert not world.there("a") and world.there("b")


def test_a_stale_hint_after_a_purge_does_not_hide_commits():
    world = World()
    for number in range(5):
        world.write(f"f{number}")
    hint = world.store.get("_transaction_log/_last_checkpoint").data
    for number in range(3):
        world.now += 40 * DAY
        world.write(f"g{number}")
    world.purge(log_retention_hours=0)
    world.store.put("_transaction_log/_last_checkpoint", hint)
    assert world.table().snapshot().num_files == 8


def test_files_of_no_kind_of_ours_are_left_alone():
    world = World()
    world.write("a")
    for name in ("notes.txt", "other/data.parquet", "x.splitter"):
        world.store.put(name, b"x")
    world.store.put("orphan.split", b"x")
    world.now += 90 * DAY
    for number in range(3):
        world.write(f"b{number}")
    world.now += 90 * DAY
    assert world.purge().files == ("orphan.split",)


def test_a_retention_below_its_floor_is_refused_unless_the_floor_is_lowered():
    world = World()
    with pytest.raises(InputError):
        world.table().purge(file_retention_hours=1)
    world.table(min_file_retention_hours=0).purge(file_retention_hours=0)


def test_another_familys_table_is_not_purged(tmp_path):
    from tests.unit.table import foreign

    made = foreign.Foreign(tmp_path / "table")
    made.version(0, [foreign.protocol(), foreign.metadata()])
    made.state(1, [(made.manifest("00000001", [{"path": "a"}]), 1)])
    with pytest.raises(InputError) as refused:
        Table.open(made.folder).purge()
    assert refused.value.code == "NotAdopted"


def test_a_reader_that_lost_its_manifest_to_time_is_told():
    world = World()
    world.write("a")
    old = world.table().snapshot()
    for number in range(25):
        world.write(f"f{number}")
    world.table().truncate(dry_run=False)
    world.now += 40 * DAY
    world.purge()
    from deltaic.errors import DecodeError

    with pytest.raises(DecodeError) as refused:
        old.paths()
    assert refused.value.code == "MissingManifest"


@pytest.mark.parametrize("number", [1, 2, 3])
def test_truncating_a_table_of_an_older_protocol_leaves_what_its_readers_know(number):
    table = make_table(protocol_version=number)
    for place in range(4):
        table.append([make_file(f"f{place}")])
        if place == 1:
            table.tag("early")
    table.truncate(dry_run=False)
    listing = table.log.listing()
    assert sorted(listing.checkpoints) == [2, 5] and not listing.states and sorted(listing.versions) == [5]
    again = Table.open(table.store, cache=ManifestCache())
    assert paths(again.snapshot()) == ["f0", "f1", "f2", "f3"] and paths(again.at(tag="early")) == ["f0", "f1"]
    assert again.snapshot().protocol.min_reader_version == number
    assert again.repair().actions == () and again.verify(files=False).findings == ()
    assert again.append([make_file("f4")]).version == 6


def held_by_two(clean):
    """A table that two hold at version 2 while a third commits up to version 6 and cleans up behind it."""
    table = make_table()
    table.append([make_file("f0")])
    table.append([make_file("f1")])
    reader, writer = (Table.open(table.store, settings=table.settings, cache=ManifestCache()) for _ in range(2))
    assert reader.version == writer.version == 2
    for number in range(2, 6):
        table.append([make_file(f"f{number}")])
    clean(table)
    assert sorted(table.log.listing().versions) == [6]
    return table, reader, writer


def truncated(table):
    table.truncate(dry_run=False)


def truncated_by_hand_without_a_hint(table):
    table.truncate(dry_run=False)
    table.log.store.delete("_last_checkpoint")


CLEANERS = [truncated, truncated_by_hand_without_a_hint]


@pytest.mark.parametrize("clean", CLEANERS)
def test_a_reader_that_holds_a_version_whose_successors_are_gone_finds_the_newest(clean):
    _, reader, _ = held_by_two(clean)
    assert reader.version == 6 and len(reader.snapshot().paths()) == 6


@pytest.mark.parametrize("clean", CLEANERS)
def test_a_writer_that_holds_a_version_whose_successors_are_gone_commits_on_the_newest(clean):
    table, _, writer = held_by_two(clean)
    assert [writer.append([make_file(f"late{number}")]).version for number in range(3)] == [7, 8, 9]
    assert writer.configure({"a": "b"}).version == 10
    assert {"late0", "late1", "late2"} < set(Table.open(table.store, cache=ManifestCache()).snapshot().paths())


def test_what_was_planned_before_a_truncation_follows_it_only_if_that_is_sure():
    table, _, writer = held_by_two(truncated)
    kept = writer._last
    assert kept.version == 2
    assert writer.append([make_file("blind")], snapshot=kept).version == 7
    assert writer.configure({"key": "value"}, snapshot=kept).version == 8
    assert writer.overwrite([make_file("all")], snapshot=kept).version == 9
    for unsure in (
        lambda: writer.remove(["f0"], snapshot=kept),
        lambda: writer.merge(["f0", "f1"], [make_file("merged")], snapshot=kept),
        lambda: writer.rewrite([], [make_file("derived")], reads=EVERYTHING, snapshot=kept),
        lambda: writer.configure({"key": "another"}, snapshot=kept),
    ):
        with pytest.raises(CommitConflictError):
            unsure()
    assert paths(Table.open(table.store, cache=ManifestCache()).snapshot()) == ["all"]


def test_a_version_that_was_written_into_a_gap_is_followed_by_nobody():
    table, reader, writer = held_by_two(truncated)
    # What a writer leaves that was stopped before it looked around: a version file under a number that was free again.
    line = {"add": {"path": "stray", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}
    table.log.store.put_if_absent(f"{3:020}.json", json.dumps(line).encode())
    assert "stray" not in reader.snapshot().paths() and reader.version == 6
    assert writer.append([make_file("late")]).version == 7
    again = Table.open(table.store, cache=ManifestCache())
    assert again.verify(files=False).findings == () and "stray" not in again.snapshot().paths()
    again.append([make_file("later")])
    again.truncate(dry_run=False)
    assert sorted(again.log.listing().versions) == [8]


def test_nothing_is_deleted_where_the_hint_cannot_be_moved(monkeypatch):
    table = make_table(settings=Settings(checkpoint_enabled=False))
    for number in range(5):
        table.append([make_file(f"f{number}")])
    monkeypatch.setattr("deltaic.table.retention.write_hint", lambda *given: False)
    monkeypatch.setattr("deltaic.table.commit.write_hint", lambda *given: False)
    with pytest.raises(StorageError):
        table.truncate(dry_run=False)
    assert sorted(table.log.listing().versions) == [0, 1, 2, 3, 4, 5]


class Vanishing:
    """A store in which a clean-up runs right before the first version file is read."""

    def __init__(self, store, happens, state=None):
        self._store, self._state = store, [happens] if state is None else state

    def child(self, name):
        return Vanishing(self._store.child(name), None, self._state)

    def get(self, key, **given):
        if key.endswith(".json") and self._state:
            self._state.pop()()
        return self._store.get(key, **given)

    def __getattr__(self, name):
        return getattr(self._store, name)


def test_a_reader_whose_version_files_vanish_between_listing_and_reading_starts_again():
    table = make_table(settings=Settings(checkpoint_enabled=False))
    for number in range(4):
        table.append([make_file(f"f{number}")])
    cleaned = Table.open(Vanishing(table.store, lambda: table.truncate(dry_run=False)), cache=ManifestCache())
    assert (cleaned.version, paths(cleaned.snapshot())) == (4, ["f0", "f1", "f2", "f3"])


def test_a_version_file_that_is_simply_gone_is_an_error_and_not_an_older_table():
    table = make_table(settings=Settings(checkpoint_enabled=False))
    for number in range(4):
        table.append([make_file(f"f{number}")])
    table.log.store.delete(f"{2:020}.json")
    with pytest.raises(NotFoundError):
        Table.open(table.store)

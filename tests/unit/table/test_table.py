"""A table's life: commits, time travel, history, checkpoints, partitions, settings."""

import dataclasses
import json
import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace as changed

from deltaic.errors import CommitConflictError, DecodeError, InputError, NotFoundError
from deltaic.storage import open_store
from deltaic.storage.names import check_key
from deltaic.table import Settings, Table, column
from deltaic.table.actions import NULL_PARTITION
from deltaic.table.manifest import ManifestCache
from deltaic.table.partitions import bounds_of, partition_folder, partition_texts
from deltaic.table.registry import mapping_hash, resolve
from deltaic.table.settings import PROTOCOL_NAMES
from tests.conftest import ROOT
from tests.unit.table import foreign
from tests.unit.table.making import COLUMNS, FAST, make_file, make_table, paths


def reopened(table):
    return Table.open(table.store, cache=ManifestCache())


def test_a_new_table_is_empty_and_says_what_it_is():
    table = make_table(partition_by=("day",), name="events", configuration={"owner": "me"})
    snapshot = reopened(table).snapshot()
    assert (snapshot.version, snapshot.num_files, snapshot.num_records) == (0, 0, 0)
    assert snapshot.metadata.name == "events" and snapshot.metadata.configuration["owner"] == "me"
    assert snapshot.types == COLUMNS and snapshot.metadata.partition_columns == ("day",)


def test_a_table_is_not_made_over_another():
    table = make_table()
    with pytest.raises(CommitConflictError):
        make_table(table.store)
    assert make_table(table.store, exist_ok=True).version == 0
    with pytest.raises(NotFoundError):
        Table.open(open_store("memory:"))
    with pytest.raises(InputError):
        Table.create(open_store("memory:"), columns=COLUMNS, partition_by=("nope",))


def test_every_version_stays_readable_by_number_tag_and_time():
    now = [1_700_000_000.0]
    table = make_table(clock=lambda: now[0])
    for number in range(1, 8):
        now[0] += 60
        table.append([make_file(f"f{number}")])
    now[0] += 60
    table.tag("three", 3)
    again = reopened(table)
    assert [again.at(version=version).num_files for version in range(8)] == list(range(8))
    assert again.at(tag="three").version == 3
    for number in range(8):
        moment = datetime.fromtimestamp(1_700_000_000 + 60 * number + 30, UTC)
        assert again.at(timestamp=moment).version == number
    assert again.at(timestamp="2023-11-14T22:16:00+00:00").version == 2
    with pytest.raises(NotFoundError):
        again.at(timestamp="2001-01-01")
    with pytest.raises(NotFoundError):
        again.at(version=99)
    with pytest.raises(NotFoundError):
        again.at(tag="four")
    with pytest.raises(InputError):
        again.at(version=1, tag="three")


def test_a_writer_whose_clock_is_behind_does_not_bend_time():
    now = [1_700_000_000.0]
    table = make_table(clock=lambda: now[0])
    for step in (60, -3600, 10, 7200):
        now[0] += step
        table.append([make_file()])
    created = [table.log.state(version).created_ms for version in range(1, 5)]
    assert created == sorted(set(created))


def test_history_tells_operation_note_user_and_tags():
    table = make_table()
    table.append([make_file("a", num_records=3), make_file("b", num_records=4)], note="first", user={"job": "nightly"})
    table.append([make_file("c")])
    table.merge(["a", "b"], [make_file("ab", num_records=7)])
    table.configure({"k": "v"})
    table.tag("good", 2)
    table.overwrite([make_file("all")])
    entries = {entry.version: entry for entry in reopened(table).history()}
    assert [entries[version].operation for version in range(7)] == [
        "create",
        "append",
        "append",
        "merge",
        "configure",
        "tag",
        "overwrite",
    ]
    assert entries[1].note == "first" and entries[1].user == {"job": "nightly"} and entries[1].records_added == 7
    assert entries[2].note is None and entries[2].tags == ("good",)
    assert not entries[3].data_change and entries[3].files_removed == 2
    assert [entry.version for entry in table.history(limit=2)] == [6, 5]


def test_a_note_belongs_to_its_commit_alone():
    table = make_table()
    table.append([make_file()], note="only here")
    table.configure({"k": "v"})
    assert "deltaic.note" not in table.snapshot().metadata.configuration
    assert table.snapshot().metadata.configuration["k"] == "v"


def test_a_transaction_is_done_once_however_often_it_is_tried():
    table = make_table()
    first = table.append([make_file("a")], transaction=("job", 7))
    again = reopened(table).append([make_file("b")], transaction=("job", 7))
    older = reopened(table).append([make_file("c")], transaction=("job", 3))
    assert not first.repeated and again.repeated and older.repeated
    assert reopened(table).append([make_file("d")], transaction=("other", 1)).version == 2
    assert reopened(table).append([make_file("e")], transaction=("job", 8)).version == 3
    assert paths(reopened(table).snapshot()) == ["a", "d", "e"]
    assert reopened(table).snapshot().transactions == {"job": 8, "other": 1}


def test_a_transaction_that_lost_the_race_to_itself_is_not_repeated():
    table = make_table()
    before = table.snapshot()
    table.append([make_file("a")], transaction=("job", 1), snapshot=before)
    again = table.append([make_file("b")], transaction=("job", 1), snapshot=before)
    assert again.repeated and paths(table.snapshot()) == ["a"]


def test_removing_what_is_not_there_changes_nothing():
    table = make_table()
    table.append([make_file("a")])
    with pytest.raises(CommitConflictError):
        table.remove(["a", "nope"])
    assert table.version == 1


def test_too_many_lost_races_end_in_a_conflict():
    table = make_table(settings=Settings(retry_max_attempts=2, retry_base_delay_ms=0))
    old = table.snapshot()
    rival = reopened(table)

    class Unlucky:
        def __init__(self, store):
            self._store = store

        def __getattr__(self, name):
            return getattr(self._store, name)

        def child(self, name):
            return Unlucky(self._store.child(name))

        def put_if_absent(self, key, data):
            if key.endswith(".json") and "/" not in key:
                rival.append([make_file()])
            return self._store.put_if_absent(key, data)

    unlucky = Table(Unlucky(table.store), settings=Settings(retry_max_attempts=2, retry_base_delay_ms=0))
    with pytest.raises(CommitConflictError, match="2 times"):
        unlucky.append([make_file("never")], snapshot=old)
    assert "never" not in reopened(table).snapshot().paths()


def test_delays_double_up_to_a_most_and_vary_by_a_quarter():
    waits = []
    table = make_table(settings=Settings(), sleep=waits.append)
    committer = table.committer()
    for attempt in range(1, 9):
        delay = committer._delay_seconds(attempt)
        step = min(0.1 * 2 ** (attempt - 1), 5.0)
        assert 0.75 * step <= delay <= 1.25 * step


def test_tombstones_hide_files_until_a_compaction_drops_both(tmp_path):
    settings = replace(FAST, tombstone_threshold=0.5)
    table = make_table(open_store(tmp_path / "table"), settings=settings)
    table.append([make_file(f"f{number}") for number in range(10)])
    assert table.remove(["f3"]).state_kind == "incremental"
    state = foreign.state_manifest(tmp_path / "table/_transaction_log" / f"state-v{2:020}" / "_manifest.avro")
    assert state["tombstones"] == ["f3"] and state["numFiles"] == 9 and state["totalBytes"] == 90
    assert state["manifests"][0]["tombstoneCount"] == 1 and state["manifests"][0]["liveEntryCount"] == 9
    assert "f3" not in reopened(table).snapshot().paths()
    assert table.remove([f"f{number}" for number in range(4, 9)]).state_kind == "full"
    assert reopened(table).snapshot().state.tombstones == ()
    assert paths(reopened(table).snapshot()) == ["f0", "f1", "f2", "f9"]


def test_a_tombstoned_path_that_is_added_again_is_there_once():
    table = make_table(settings=replace(FAST, tombstone_threshold=0.9))
    table.append([make_file(f"f{number}", size=1) for number in range(10)])
    table.remove(["f3"])
    assert table.snapshot().state.tombstones == ("f3",)
    table.append([make_file("f3", size=77)])
    for look in (table, reopened(table)):
        found = [file for file in look.files() if file.path == "f3"]
        assert [file.size_bytes for file in found] == [77]
        assert look.snapshot().num_files == 10 == look.snapshot().state.num_files


def test_a_live_file_whose_statistics_are_updated_is_there_once():
    table = make_table()
    table.append([make_file("a", num_records=1), make_file("b")])
    table.append([make_file("a", num_records=2)])
    assert [file.num_records for file in reopened(table).files() if file.path == "a"] == [2]
    assert reopened(table).snapshot().state.num_files == 2


def test_joining_small_manifests_keeps_the_tombstones_of_the_others():
    # The public writer empties the list and keeps manifests: removed files come back.
    settings = replace(FAST, entries_per_manifest=10, max_manifests=4, tombstone_threshold=0.9)
    table = make_table(settings=settings)
    table.append([make_file(f"big{number}") for number in range(10)])
    table.remove(["big3"])
    kinds = [table.append([make_file(f"s{number}")]).state_kind for number in range(8)]
    assert "partial" in kinds
    snapshot = reopened(table).snapshot()
    assert "big3" not in snapshot.paths() and snapshot.num_files == 17 == snapshot.state.num_files
    assert snapshot.state.tombstones == ("big3",) and len(snapshot.state.manifests) <= 6
    table.remove(["s1", "big4"])
    for _ in range(6):
        table.append([make_file()])
    assert {"s1", "big3", "big4"}.isdisjoint(reopened(table).snapshot().paths())
    assert reopened(table).verify(files=False).findings == ()


@pytest.mark.parametrize(("setting", "kind"), [(True, "full"), (False, "incremental")])
def test_a_merge_compacts_by_its_setting(setting, kind):
    table = make_table(settings=replace(FAST, compact_after_merge=setting, tombstone_threshold=0.9))
    table.append([make_file(f"f{number}") for number in range(10)])
    assert table.merge(["f1", "f2"], [make_file("m")]).state_kind == kind


def test_many_removals_at_once_compact_by_their_setting():
    table = make_table(settings=replace(FAST, large_remove_threshold=2, tombstone_threshold=0.9))
    table.append([make_file(f"f{number}") for number in range(10)])
    assert table.remove(["f1", "f2"]).state_kind == "incremental"
    assert table.remove(["f3", "f4", "f5"]).state_kind == "full"


def test_added_at_version_is_the_version_and_survives_compaction():
    table = make_table(settings=replace(FAST, max_manifests=2))
    for number in range(6):
        table.append([make_file(f"f{number}")])
    table.checkpoint()
    assert {file.path: file.added_at_version for file in reopened(table).files()} == {f"f{n}": n + 1 for n in range(6)}
    info = reopened(table).snapshot().state.manifests[0]
    assert (info.min_added_at_version, info.max_added_at_version) == (1, 6)


def test_a_checkpoint_is_a_full_state_of_the_same_version():
    table = make_table()
    for number in range(5):
        table.append([make_file(f"f{number}")])
    old = table.at(version=5)
    assert table.checkpoint().version == 5
    assert len(reopened(table).snapshot().state.manifests) == 1
    assert paths(old) == paths(reopened(table).snapshot()), "a reader of the old manifests goes on"


def test_entries_are_cut_to_manifests_of_their_size_and_sorted_by_partition():
    table = make_table(partition_by=("day",), settings=replace(FAST, entries_per_manifest=4))
    table.append([make_file(f"f{number}", day=f"2024-01-{number % 3 + 1:02}") for number in range(12)])
    table.checkpoint()
    infos = reopened(table).snapshot().state.manifests
    assert [info.num_entries for info in infos] == [4, 4, 4]
    assert [info.partition_bounds["day"].min for info in infos] == ["2024-01-01", "2024-01-02", "2024-01-03"]


def test_restore_brings_files_schema_and_removals_back(tmp_path):
    table = make_table(open_store(tmp_path / "table"))
    table.append([make_file("a", store=table.store), make_file("b", store=table.store)])
    table.change_schema(json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long"}]}))
    table.overwrite([make_file("c", store=table.store)])
    done = table.restore(version=1)
    assert done.operation == "restore" and paths(reopened(table).snapshot()) == ["a", "b"]
    assert reopened(table).snapshot().types == COLUMNS
    assert paths(table.at(version=3)) == ["c"]
    (tmp_path / "table" / "c").unlink()
    with pytest.raises(NotFoundError, match="gone"):
        table.restore(version=3)


def test_changes_are_told_file_by_file():
    table = make_table()
    table.append([make_file("a"), make_file("b")])
    table.remove(["a"])
    table.merge(["b"], [make_file("c")])
    steps = list(reopened(table).changes(0))
    assert [([add.path for add in step.added], [one.path for one in step.removed]) for step in steps] == [
        (["a", "b"], []),
        ([], ["a"]),
        (["c"], ["b"]),
    ]
    assert [step.data_change for step in steps] == [True, True, False]
    with pytest.raises(InputError):
        list(table.changes(2, 1))


def test_changes_of_a_table_without_version_files_come_from_its_states(tmp_path):
    made = foreign.Foreign(tmp_path / "table")
    made.version(0, [foreign.protocol(), foreign.metadata()])
    made.state(1, [(made.manifest("00000001", [{"path": "a"}]), 1)])
    made.state(2, [(made.manifest("00000002", [{"path": "b"}]), 1)])
    step = next(iter(Table.open(made.folder).changes(1)))
    assert ([add.path for add in step.added], [one.path for one in step.removed]) == (["b"], ["a"])


def test_mappings_are_stored_once_and_resolved_everywhere():
    table = make_table()
    shuffled = '[{"type":"i64","name":"id","stored":true,"indexed":true,"fast":true}]'
    table.append([make_file("a", doc_mapping_json=foreign.MAPPING), make_file("b", doc_mapping_json=shuffled)])
    table.append([make_file("c", doc_mapping_json=foreign.MAPPING)])
    snapshot = reopened(table).snapshot()
    assert len(snapshot.registry) == 1
    assert {file.doc_mapping_ref for file in snapshot.files()} == set(snapshot.registry)
    assert table.log.read_version(2).metadata is None, "a known schema needs no metaData"
    assert all(snapshot.document_mapping(file)[0]["name"] == "id" for file in snapshot.files())


def test_the_hash_is_the_recorded_one_and_knows_its_edge_cases():
    text = (
        '[{"fast":true,"indexed":true,"name":"id","stored":true,"type":"i64"},'
        '{"fast":true,"indexed":true,"name":"text","stored":true,"tokenizer":"raw","type":"text"}]'
    )
    assert mapping_hash(text) == "gC45RGOqJ_Grt0xH"
    assert mapping_hash(json.dumps(json.loads(text)[::-1], indent=3)) == "gC45RGOqJ_Grt0xH"
    assert mapping_hash("not json") != mapping_hash("not json ")
    assert mapping_hash('["b","a"]') != mapping_hash('["a","b"]'), "lists without names keep their order"
    assert mapping_hash('[{"name":"ü"}]') == mapping_hash('[{"name":"\\u00fc"}]')


def test_many_schemas_that_are_one_fall_together_at_a_checkpoint(tmp_path):
    made = foreign.Foreign(tmp_path / "table")
    made.version(0, [foreign.protocol(), foreign.metadata()], "gzip")
    variants = {f"hash{number}": foreign.MAPPING.replace("{", "{" + " " * number) for number in range(8)}
    entries = [{"path": f"f{number}", "docMappingRef": f"hash{number}"} for number in range(8)]
    made.version(1, [foreign.add(entry["path"], docMappingRef=entry["docMappingRef"]) for entry in entries], "gzip")
    made.state(1, [(made.manifest("00000001", entries), 8)], schemaRegistry=variants)
    made.avro_hint(1)
    table = Table.open(made.folder, settings=FAST)
    table.append([make_file("new", doc_mapping_json=foreign.MAPPING)])
    snapshot = Table.open(made.folder, cache=ManifestCache()).snapshot()
    assert {file.doc_mapping_ref for file in snapshot.files()} == {mapping_hash(foreign.MAPPING)}
    assert set(snapshot.registry) == {mapping_hash(foreign.MAPPING)}
    assert all(snapshot.document_mapping(file) for file in snapshot.files())


def test_an_unresolvable_reference_is_told_when_it_is_asked_for():
    with pytest.raises(DecodeError) as refused:
        resolve(make_file("a", doc_mapping_ref="nowhere"), {})
    assert refused.value.code == "MissingSchema"
    assert resolve(make_file("a"), {}) is None
    objects = '{"field_mappings":[{"name":"a","type":"object","field_mappings":[]},{"name":"b","type":"i64"}]}'
    assert [field["name"] for field in resolve(make_file("a", doc_mapping_json=objects), {})] == ["b"]


EVERY_VALUE = [chr(number) for number in range(256)] + [
    "",
    "..",
    "/../x",
    "a/b",
    "%2F",
    "%",
    "__x",
    "é",
    "e\u0301",
    "\U0001f600",
    "x" * 300,
    "a ",
    "a.",
    ".a",
    "CON",
    "~",
    "a=b",
    "C:\\x",
    "\\\\host\\c",
    "a\0b",
]


@pytest.mark.parametrize("value", EVERY_VALUE)
def test_every_partition_value_round_trips_and_its_folder_is_safe(value):
    texts = partition_texts({"p": value}, ("p",), {"p": "string"})
    folder = partition_folder(texts, ("p",))
    check_key(f"{folder}/part-1.split")
    assert "/" not in folder
    assert texts == {"p": value}


def test_partition_values_of_all_kinds_come_back_from_the_log():
    table = make_table(partition_by=("name",))
    values = [*EVERY_VALUE, None, *(chr(0x100 + 37 * number) for number in range(300))]
    adds = [changed(make_file(f"f{number}"), partition_values={"name": value}) for number, value in enumerate(values)]
    table.append(adds)
    table.checkpoint()
    found = {file.path: file.partition_values["name"] for file in reopened(table).files()}
    assert found == {f"f{number}": value for number, value in enumerate(values)}
    assert {file.partition_values["name"] for file in reopened(table).files(column("name").is_null())} == {None}


def test_the_word_for_null_cannot_be_a_value_and_a_missing_value_is_refused():
    with pytest.raises(InputError):
        partition_texts({"p": NULL_PARTITION}, ("p",), {"p": "string"})
    with pytest.raises(InputError):
        partition_texts({}, ("p",), {"p": "string"})
    assert partition_folder({"p": None, "q": "x y"}, ("p", "q")) == f"p={NULL_PARTITION}/q=x%20y"


def test_bounds_follow_the_type():
    assert bounds_of(["1", "10", "9"], "integer") == ("1", "10")
    assert bounds_of(["1", "10", "9"], "string") == ("1", "9")
    assert bounds_of(["1", "10", "9"], None) == ("1", "10")
    assert bounds_of([None, NULL_PARTITION], "integer") == (None, None)
    assert bounds_of(["2", None], "integer") == ("2", "2")


def test_an_absolute_path_is_followed_only_if_asked(tmp_path):
    table = make_table()
    with pytest.raises(InputError):
        table.locate("/etc/passwd")
    with pytest.raises(InputError):
        table.locate("s3://elsewhere/x.split")
    (tmp_path / "x.split").write_bytes(b"abc")
    store, key = Table(table.store, settings=Settings(allow_absolute_paths=True)).locate(str(tmp_path / "x.split"))
    assert store.get(key).data == b"abc"


@pytest.mark.parametrize("path", ["../x", "/x", "..%2fx", "a\0b", "~x", "a//b"])
def test_a_hostile_path_is_listed_but_never_opened(path):
    table = make_table()
    with pytest.raises(InputError):
        table.append([make_file(path)])
    # Another writer's version file is not asked.
    line = {"add": {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}}
    table.log.store.put_if_absent(f"{1:020}.json", json.dumps(line).encode())
    assert reopened(table).snapshot().paths() == [path]
    with pytest.raises(InputError):
        store, key = table.locate(path)
        store.get(key)


def test_every_key_of_the_protocol_text_has_its_setting():
    text = ROOT.parent / "shared/sources/indextables-protocol.md"
    if not text.exists():
        pytest.skip("the protocol text is not beside the clone")
    import re

    keys = set(re.findall(r"`spark\.indextables\.([A-Za-z.]+)`", text.read_text()))
    assert len(keys) > 15
    assert keys - set(PROTOCOL_NAMES) == set()


def test_settings_are_taken_by_either_name_and_checked():
    given = Settings.of(
        {"spark.indextables.state.compression": "snappy", "state.entriesPerManifest": "7", "max_manifests": 3}
    )
    assert (given.state_compression, given.entries_per_manifest, given.max_manifests) == ("snappy", 7, 3)
    assert Settings.of({"checkpoint.enabled": "FALSE"}).checkpoint_enabled is False
    assert Settings.of({"dataSkippingStatsColumns": "a, b"}).statistics_columns == ("a", "b")
    for wrong in (
        {"nope": 1},
        {"state.format": "xml"},
        {"max_manifests": 0},
        {"retry_max_attempts": "x"},
        {"checkpoint.enabled": "si"},
    ):
        with pytest.raises(InputError) as refused:
            Settings.of(wrong)
        assert refused.value.code == "BadSetting"


def test_a_table_carries_settings_and_given_ones_win():
    table = make_table(settings=Settings(), configuration={"spark.indextables.state.compression": "none", "other": "x"})
    assert table.settings.state_compression == "none"
    assert Table.open(table.store, settings={"state.compression": "snappy"}).settings.state_compression == "snappy"


@pytest.mark.parametrize("codec", ["zstd", "snappy", "deflate", "none"])
def test_every_compression_is_written_as_a_library_reads_it(tmp_path, codec):
    table = make_table(open_store(tmp_path / "table"), settings=replace(FAST, state_compression=codec))
    table.append([make_file("a", split_tags=("x", "y"), min_values={"id": "1"}, num_merge_ops=2)])
    log = tmp_path / "table/_transaction_log"
    state = foreign.state_manifest(log / f"state-v{1:020}" / "_manifest.avro")
    entry = foreign.manifest_entries(log / state["manifests"][0]["path"])[0]
    assert (entry["path"], entry["splitTags"], entry["minValues"], entry["numMergeOps"]) == (
        "a",
        ["x", "y"],
        {"id": "1"},
        2,
    )
    assert paths(reopened(table).snapshot()) == ["a"]


def test_uncompressed_versions_carry_their_token_inside(tmp_path):
    table = make_table(open_store(tmp_path / "table"), settings=replace(FAST, compress_versions=False))
    table.append([make_file("a")])
    text = (tmp_path / "table/_transaction_log" / f"{1:020}.json").read_text()
    assert "deltaic.token" in text and paths(reopened(table).snapshot()) == ["a"]


def test_checkpoints_can_be_switched_off():
    table = make_table(settings=replace(FAST, checkpoint_enabled=False))
    for number in range(12):
        assert table.append([make_file(f"f{number}")]).state_kind is None
    assert reopened(table).snapshot().num_files == 12 and not table.log.listing().states


def test_manifests_are_read_once_by_a_process():
    table = make_table()
    for number in range(5):
        table.append([make_file(f"f{number}")])
    cache = ManifestCache()
    for _ in range(3):
        assert Table.open(table.store, cache=cache).snapshot().num_files == 5
    assert cache.misses <= 10 and cache.hits >= 10
    small = ManifestCache(limit_bytes=1)
    assert Table.open(table.store, cache=small).snapshot().num_files == 5


def test_every_setting_is_on_its_page():
    names = {field.name for field in dataclasses.fields(Settings) if field.compare}
    documented = (ROOT / "docs/table.md").read_text()
    assert [name for name in sorted(names) if f"| `{name}` |" not in documented] == []


def test_threads_share_one_table():
    table, done, failed = make_table(), [], []

    def work():
        try:
            for _ in range(12):
                path, values = table.new_path()
                done.append((table.append([make_file(path)]).version, path, values))
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = reopened(table)
    assert failed == [] and again.version == 60
    assert sorted(path for _, path, _ in done) == paths(again.snapshot())
    assert again.verify(files=False).findings == ()

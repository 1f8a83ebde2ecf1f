"""Tables of every generation, made by a script that shares no code with the reader."""

import dataclasses
import itertools
import json

import pytest

from deltaic.errors import CommitUnknownError, DecodeError, InputError, NotFoundError
from deltaic.storage import open_store
from deltaic.table import Settings, Table
from deltaic.table.manifest import ManifestCache
from tests.unit.table import foreign
from tests.unit.table.foreign import add, metadata, protocol, remove, skip
from tests.unit.table.making import FAST, make_file, make_table, paths


def opened(table):
    return Table.open(table.folder, cache=ManifestCache())


@pytest.fixture
def made(tmp_path):
    return foreign.Foreign(tmp_path / "table")


@pytest.mark.parametrize("encoding", ["prefixed", "gzip", "plain"])
@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_version_files_of_every_encoding_and_protocol_are_replayed(made, encoding, number):
    made.version(0, [protocol(number), metadata()], encoding)
    made.version(1, [add("a"), add("b")], encoding)
    made.version(2, [remove("a"), add("c")], encoding)
    table = opened(made)
    assert [paths(table.at(version=version)) for version in range(3)] == [[], ["a", "b"], ["b", "c"]]
    assert table.snapshot().protocol.min_reader_version == number


def test_a_log_without_a_protocol_is_of_protocol_1(made):
    made.version(0, [metadata()])
    assert opened(made).snapshot().protocol.min_reader_version == 1


def test_an_unknown_codec_byte_is_refused_by_name(made):
    made.version(0, [protocol(), metadata()])
    (made.log / f"{1:020}.json").write_bytes(b"\x01\x02" + b"abc")
    with pytest.raises(DecodeError) as refused:
        opened(made)
    assert refused.value.code == "UnknownCodec"


@pytest.mark.parametrize("change", [{"version": 5}, {"readerFeatures": ["deletionVectors"]}])
def test_a_table_for_newer_readers_is_refused(made, change):
    number = change.pop("version", 4)
    made.version(0, [protocol(number, **change), metadata()])
    with pytest.raises(InputError) as refused:
        opened(made)
    assert refused.value.code == "NewerProtocol"


def test_known_features_and_null_features_are_accepted(made):
    made.version(0, [protocol(4, readerFeatures=["avroState", "skippedFiles"], writerFeatures=None), metadata()])
    assert opened(made).version == 0


def test_a_newer_writer_version_can_be_read_but_not_written(made):
    actions = protocol(4)
    actions["protocol"]["minWriterVersion"] = 5
    made.version(0, [actions, metadata()])
    table = opened(made)
    with pytest.raises(InputError) as refused:
        table.append([make_file()])
    assert refused.value.code == "NewerProtocol"


def test_a_path_removed_and_added_again_is_there(made):
    made.version(0, [protocol(), metadata()])
    made.version(1, [add("a", size=1)])
    made.version(2, [remove("a")])
    made.version(3, [add("a", size=2)])
    made.version(4, [remove("a"), add("a", size=3)])
    table = opened(made)
    assert [sum(file.size_bytes for file in table.at(version=version).files()) for version in range(5)] == [
        0,
        1,
        0,
        2,
        3,
    ]


def test_unknown_actions_blank_lines_and_null_members_are_passed_over(made):
    made.version(0, [protocol(), metadata()])
    text = (
        foreign.lines([{"commitInfo": {"x": 1}}, add("a", stats=None, tags=None)])
        + b"\n  \n"
        + foreign.lines([{"add": None}])
    )
    (made.log / f"{1:020}.json").write_bytes(text)
    assert paths(opened(made).snapshot()) == ["a"]


def test_unknown_members_of_an_action_come_back_when_it_is_copied(made):
    made.version(0, [protocol(), metadata()])
    made.version(1, [add("a", somethingNew={"x": [1]}, tags={"engine": "7"}, hotcacheLength=4)])
    table = opened(made)
    table.append([make_file("b")])
    table.checkpoint()
    copied = opened(made).snapshot().find({"a"})["a"]
    assert copied.tags == {"engine": "7"}
    assert copied.unknown == {"somethingNew": {"x": [1]}, "hotcacheLength": 4}


def test_a_skip_under_either_name_keeps_a_file_live_and_out_of_merges(made):
    made.version(0, [protocol(2), metadata()])
    made.version(1, [add("a"), add("b"), add("c")])
    made.version(2, [skip("a"), {"skip": skip("b", retryAfter=1)["mergeskip"]}])
    table = opened(made)
    assert paths(table.snapshot()) == ["a", "b", "c"]
    assert table.cooling(now_ms=2_000) == {"a"}
    assert set(table.skips()) == {"a", "b"}
    table.skip(["a"], reason="again")
    assert max(one.skip_count for one in table.skips()["a"]) == 2


def test_protocol_1_has_no_skips(made):
    made.version(0, [protocol(1), metadata()])
    made.version(1, [add("a")])
    with pytest.raises(InputError, match="protocol 2"):
        opened(made).skip(["a"], reason="broken")


@pytest.mark.parametrize("encoding", ["prefixed", "gzip", "plain"])
def test_a_json_checkpoint_stands_for_the_versions_before_it(made, encoding):
    made.checkpoint(2, [protocol(3), metadata(), add("b"), add("c")], encoding)
    made.version(3, [add("d"), remove("b")], encoding)
    made.hint(2, format="json")
    table = opened(made)
    assert paths(table.snapshot()) == ["c", "d"]
    assert paths(table.at(version=2)) == ["b", "c"]
    with pytest.raises(NotFoundError):
        table.at(version=1)


@pytest.mark.parametrize("per_part", [1, 2, 100])
def test_a_checkpoint_in_parts_is_one_checkpoint(made, per_part):
    made.checkpoint_in_parts(2, [protocol(3), metadata(), *(add(f"f{number}") for number in range(5))], per_part)
    made.version(3, [add("z")])
    made.hint(2, format="json-multipart", parts=3, checkpointId="a1b2c3d4e5f6")
    assert paths(opened(made).snapshot()) == ["f0", "f1", "f2", "f3", "f4", "z"]


def test_a_checkpoint_whose_part_is_gone_is_made_up_by_version_files(made):
    made.version(0, [protocol(3), metadata()])
    made.version(1, [add("a")])
    made.checkpoint_in_parts(1, [protocol(3), metadata(), add("a")], 1)
    (made.log / f"{1:020}.checkpoint.a1b2c3d4e5f6.00003.json").unlink()
    assert paths(opened(made).snapshot()) == ["a"]
    (made.log / f"{0:020}.json").unlink()
    with pytest.raises(DecodeError) as refused:
        opened(made)
    assert refused.value.code == "MissingPart"


@pytest.mark.parametrize("codec", ["zstandard", "snappy", "deflate", "null"])
@pytest.mark.parametrize("form", ["avro", "json"])
def test_states_of_every_codec_and_both_forms_are_read(made, codec, form):
    made.version(0, [protocol(), metadata()])
    first = made.manifest("00000001", [{"path": "a"}, {"path": "b"}], codec=codec)
    second = made.manifest("00000002", [{"path": "c"}], codec=codec)
    made.state(1, [(first, 2)], form=form, codec=codec)
    made.state(2, [(first, 2), (second, 1)], form=form, codec=codec, tombstones=["a"])
    made.avro_hint(2)
    table = opened(made)
    assert [paths(table.at(version=version)) for version in range(3)] == [[], ["a", "b"], ["b", "c"]]


def test_avro_is_read_where_both_forms_of_a_state_are(made):
    made.version(0, [protocol(), metadata()])
    made.state(1, [(made.manifest("00000001", [{"path": "right"}]), 1)])
    wrong = made.manifest("00000002", [{"path": "wrong"}])
    values = {"formatVersion": 1, "stateVersion": 1, "manifests": [{"path": wrong, "numEntries": 1}]}
    (made.log / f"state-v{1:020}" / "_manifest.json").write_text(json.dumps(values))
    assert paths(opened(made).snapshot()) == ["right"]


def test_manifests_may_lie_beside_their_state_by_bare_name(made):
    made.version(0, [protocol(), metadata()])
    folder = f"state-v{1:020}"
    made.state(1, [("manifest-abc.avro", 1)])
    made.manifest("abc", [{"path": "a"}], folder=folder)
    made.state(2, [(f"{folder}/manifest-abc.avro", 1), (made.manifest("def", [{"path": "b"}]), 1)])
    table = opened(made)
    assert paths(table.at(version=1)) == ["a"]
    assert paths(table.snapshot()) == ["a", "b"]


@pytest.mark.parametrize("path", ["../../etc/x.avro", "/etc/x.avro", "s3://other/x.avro", "manifests/..%2fx.avro"])
def test_a_manifest_outside_of_the_log_is_not_read(made, path):
    made.version(0, [protocol(), metadata()])
    made.state(1, [(path, 1)])
    with pytest.raises(InputError) as refused:
        opened(made).snapshot().paths()
    assert refused.value.code == "UnsafeName"


def test_a_hint_that_is_stale_missing_ahead_or_garbage_leads_to_the_newest_version(made):
    made.version(0, [protocol(), metadata()])
    infos = []
    for version in range(1, 6):
        infos.append((made.manifest(f"{version:08}", [{"path": f"f{version}"}]), 1))
        made.state(version, infos)
    for write in (
        lambda: made.avro_hint(2),
        lambda: made.avro_hint(9),
        lambda: (made.log / "_last_checkpoint").unlink(),
        lambda: (made.log / "_last_checkpoint").write_text("{"),
        lambda: (made.log / "_last_checkpoint").write_text('{"version": -1}'),
        lambda: made.avro_hint(5),
    ):
        write()
        assert opened(made).snapshot().num_files == 5


def test_a_gap_of_states_above_a_stale_hint_hides_nothing(made):
    # Their purge keeps the hinted state and the newest one: probing upward from the hint would end at the gap.
    made.version(0, [protocol(), metadata()])
    made.state(1, [(made.manifest("00000001", [{"path": "old"}]), 1)])
    made.state(5, [(made.manifest("00000005", [{"path": "new"}]), 1)])
    made.avro_hint(1)
    snapshot = opened(made).snapshot()
    assert (snapshot.version, paths(snapshot)) == (5, ["new"])


def test_an_unreadable_newest_state_is_passed_over_only_if_version_files_make_up_for_it(made):
    made.version(0, [protocol(), metadata()], "gzip")
    made.version(1, [add("a")], "gzip")
    made.version(2, [add("b")], "gzip")
    made.state(1, [(made.manifest("00000001", [{"path": "a"}]), 1)])
    made.state(2, [(made.manifest("00000002", [{"path": "a"}, {"path": "b"}]), 2)])
    (made.log / f"state-v{2:020}" / "_manifest.avro").write_bytes(b"Obj\x01 and then nothing")
    assert paths(opened(made).snapshot()) == ["a", "b"]
    (made.log / f"{2:020}.json").unlink()
    with pytest.raises(DecodeError):
        opened(made)


def test_metadata_comes_from_the_newest_that_has_it(made):
    old, new = foreign.spark_schema(old="long"), foreign.spark_schema(new="long")
    made.version(0, [protocol(), metadata(old)])
    manifest = (made.manifest("00000001", [{"path": "a"}]), 1)
    made.state(1, [manifest])
    made.state(2, [manifest], metadata=json.dumps(metadata(new)))
    made.state(3, [manifest])
    table = opened(made)
    names = [[column.name for column in table.at(version=version).columns] for version in range(4)]
    assert names == [["old"], ["old"], ["new"], ["new"]]


def test_metadata_of_a_state_may_be_bare_or_wrapped(made):
    made.state(1, [(made.manifest("00000001", [{"path": "a"}]), 1)], metadata=json.dumps(metadata()["metaData"]))
    assert opened(made).snapshot().metadata.id == metadata()["metaData"]["id"]


def test_version_files_above_a_state_are_replayed_and_those_below_are_not(made):
    made.version(0, [protocol(), metadata()], "gzip")
    made.version(1, [add("must not come back")], "gzip")
    made.state(2, [(made.manifest("00000001", [{"path": "a"}]), 1)])
    made.version(2, [add("a"), remove("must not come back")], "gzip")
    made.version(3, [add("b")], "gzip")
    snapshot = opened(made).snapshot()
    assert (snapshot.version, paths(snapshot)) == (3, ["a", "b"])


def test_side_files_and_other_names_are_no_versions(made):
    made.version(0, [protocol(), metadata()])
    for name in (f".{0:020}.json.crc", "1.json", f"{7:020}.json.tmp", f"{7:019}.json", "state-v7", f"{'٧' * 20}.json"):
        (made.log / name).write_text("{}")
    (made.log / f"state-v{9:020}").mkdir()
    (made.log / f"state-v{9:020}" / "._manifest.avro.crc").write_text("x")
    assert opened(made).version == 0


def test_a_table_that_commits_by_version_files_can_be_written_at_once(made):
    # The second generation: bare gzip, inline mapping, prefixed registry keys.
    made.version(0, [protocol(), metadata()], "gzip")
    made.version(1, [add("a", docMappingJson=foreign.MAPPING)], "gzip")
    registry = {"docMappingSchema.x": foreign.MAPPING}
    made.state(
        1,
        [(made.manifest("0123456789abcdef", [{"path": "a", "docMappingRef": "x"}], codec="null"), 1)],
        schemaRegistry=registry,
    )
    made.avro_hint(1)
    table = opened(made)
    assert table.snapshot().document_mapping(next(table.snapshot().files()))[0]["name"] == "id"
    assert table.append([make_file("b")]).version == 2
    assert paths(opened(made).snapshot()) == ["a", "b"]
    assert foreign.state_manifest(made.log / f"state-v{2:020}" / "_manifest.avro")["numFiles"] == 2


def test_a_number_of_a_state_is_not_used_again_for_a_version_file(made):
    # A writer that counts version files only would take number 1 and be hidden behind the newer state.
    made.version(0, [protocol(), metadata()])
    for version in (1, 2, 3):
        made.state(version, [(made.manifest(f"{version:08}", [{"path": f"f{version}"}]), 1)])
    table = opened(made)
    table.adopt()
    table.append([make_file("new")])
    assert table.version == 5
    assert paths(opened(made).snapshot()) == ["f3", "new"]


def test_a_crash_in_the_middle_of_adopting_is_made_up_by_the_next_try(made):
    from deltaic.testing.stores import Fault, FaultKind, FaultyStore

    made.version(0, [protocol(), metadata()])
    made.state(1, [(made.manifest("00000001", [{"path": "a"}]), 1)])
    calls = FaultyStore(open_store(made.folder))
    Table.open(calls)
    for number in itertools.count(1):
        faulty = FaultyStore(
            open_store(made.folder), [Fault(FaultKind.IO_ERROR, call_number=number, from_then_on=True)]
        )
        try:
            Table.open(faulty).adopt()
        except (OSError, CommitUnknownError):
            assert paths(opened(made).snapshot()) == ["a"]
            continue
        break
    assert number > 5
    assert opened(made).append([make_file("b")]).operation == "append"
    assert paths(opened(made).snapshot()) == ["a", "b"]
    assert opened(made).verify(files=False).findings == ()


def test_a_foreign_state_above_our_versions_is_read_and_stops_our_writers(made, tmp_path):
    table = Table.create(tmp_path / "ours", columns={"id": "long"}, settings=FAST)
    table.append([make_file("a")])
    ours = foreign.Foreign.__new__(foreign.Foreign)
    ours.folder, ours.log = tmp_path / "ours", tmp_path / "ours" / "_transaction_log"
    ours.state(2, [(ours.manifest("00000009", [{"path": "a"}, {"path": "theirs"}]), 2)])
    assert paths(opened(ours).snapshot()) == ["a", "theirs"]
    with pytest.raises(InputError) as refused:
        opened(ours).append([make_file("b")])
    assert refused.value.code == "NotAdopted"
    assert [finding.code for finding in opened(ours).verify(files=False).findings] == ["ForeignState"]
    opened(ours).adopt()
    opened(ours).append([make_file("b")])
    assert paths(opened(ours).snapshot()) == ["a", "b", "theirs"]


def test_a_foreign_state_under_our_number_is_damage_and_never_overwritten(made, tmp_path):
    table = Table.create(tmp_path / "ours", columns={"id": "long"}, settings=FAST)
    table.append([make_file("a")])
    ours = foreign.Foreign.__new__(foreign.Foreign)
    ours.folder, ours.log = tmp_path / "ours", tmp_path / "ours" / "_transaction_log"
    ours.state(2, [(ours.manifest("00000009", [{"path": "a"}, {"path": "theirs"}]), 2)])
    before = (ours.log / f"state-v{2:020}" / "_manifest.avro").read_bytes()
    committed = table.append([make_file("b")], snapshot=table.at(version=1))
    assert committed.version == 2 and "another family" in committed.state_problem
    assert paths(opened(ours).snapshot()) == ["a", "b"], "the acknowledged commit is what readers see"
    with pytest.raises(InputError) as refused:
        opened(ours).append([make_file("c")])
    assert refused.value.code == "ForeignState"
    assert "ForeignState" in [finding.code for finding in opened(ours).verify(files=False).findings]
    assert (ours.log / f"state-v{2:020}" / "_manifest.avro").read_bytes() == before
    opened(ours).repair(dry_run=False)
    opened(ours).append([make_file("c")])
    assert paths(opened(ours).snapshot()) == ["a", "b", "c"]
    assert (ours.log / f"state-v{2:020}" / "_manifest.avro").read_bytes() == before


def test_duplicate_entries_of_another_writer_count_once_and_the_last_one_counts(made):
    made.version(0, [protocol(), metadata()])
    first = made.manifest("00000001", [{"path": "a", "size": 1}, {"path": "b", "size": 1}])
    second = made.manifest("00000002", [{"path": "a", "size": 2}])
    made.state(1, [(first, 2), (second, 1)])
    assert sorted((file.path, file.size_bytes) for file in opened(made).snapshot().files()) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("settings", [Settings(form="literal"), Settings(form="literal", state_compression="none")])
def test_the_literal_form_round_trips(tmp_path, settings):
    table = Table.create(
        tmp_path / "table", columns={"id": "long", "day": "date"}, partition_by=("day",), settings=settings
    )
    path, values = table.new_path({"day": "2024-01-01"})
    assert path.startswith("day=2024-01-01/splits/split-") and path.endswith(".split")
    rich = make_file(path, tags={"k": "v"}, companion_delta_version=3, doc_mapping_json=foreign.MAPPING, num_records=4)
    from msgspec.structs import replace

    table.append([replace(rich, partition_values=values)])
    table.append([replace(make_file("splits/split-b.split"), partition_values={"day": None})])
    log = tmp_path / "table" / "_transaction_log"
    assert not list(log.glob("state-v*/_manifest.avro"))
    state = json.loads((log / f"state-v{2:020}" / "_manifest.json").read_text())
    assert state["stateVersion"] == 2 and state["numFiles"] == 2 and len(state["manifests"]) == 2
    bounds = state["manifests"][0]["partitionBounds"]
    assert bounds == {"day": {"min": "2024-01-01", "max": "2024-01-01"}}
    assert "tombstones" not in state
    entries = foreign.manifest_entries(log / state["manifests"][0]["path"])
    assert (
        entries[0]["path"] == path
        and entries[0]["docMappingRef"] == "gC45RGOqJ_Grt0xH"[:0] + entries[0]["docMappingRef"]
    )
    again = Table.open(tmp_path / "table", cache=ManifestCache())
    assert again.settings.literal, "the table says its form by itself"
    found = again.snapshot().find({path})[path]
    assert (found.tags, found.companion_delta_version, found.num_records) == ({"k": "v"}, 3, 4)
    assert again.snapshot().document_mapping(found)[0]["name"] == "id"
    again.remove([path])
    again.checkpoint()
    assert paths(Table.open(tmp_path / "table", cache=ManifestCache()).snapshot()) == ["splits/split-b.split"]


def test_what_we_write_is_what_public_readers_expect(tmp_path):
    table = Table.create(tmp_path / "table", columns={"id": "long"}, settings=FAST)
    table.append([make_file("a", doc_mapping_json=foreign.MAPPING, num_records=3)])
    table.append([make_file("b")])
    log = tmp_path / "table" / "_transaction_log"
    data = (log / f"{0:020}.json").read_bytes()
    assert data[:4] == b"\x01\x01\x1f\x8b"
    import gzip

    first, second = gzip.decompress(data[2:]).splitlines()
    assert json.loads(first) == {"protocol": {"minReaderVersion": 4, "minWriterVersion": 4}}
    assert json.loads(second)["metaData"]["format"] == {"provider": "indextables", "options": {}}
    state = foreign.state_manifest(log / f"state-v{2:020}" / "_manifest.avro")
    assert (state["formatVersion"], state["stateVersion"], state["numFiles"], state["totalBytes"]) == (1, 2, 2, 20)
    assert list(state["schemaRegistry"].values()) == [foreign.MAPPING]
    assert [
        (info["numEntries"], info["minAddedAtVersion"], info["maxAddedAtVersion"]) for info in state["manifests"]
    ] == [
        (1, 1, 1),
        (1, 2, 2),
    ]
    entries = [entry for info in state["manifests"] for entry in foreign.manifest_entries(log / info["path"])]
    assert [(entry["path"], entry["addedAtVersion"], entry["numRecords"]) for entry in entries] == [
        ("a", 1, 3),
        ("b", 2, None),
    ]
    hint = json.loads((log / "_last_checkpoint").read_text())
    assert (hint["version"], hint["format"], hint["stateDir"]) == (2, "avro-state", f"state-v{2:020}")
    # A strict reader of actions rejects members that the format does not have.
    known = set(
        "path partitionValues size modificationTime dataChange stats minValues maxValues numRecords hasFooterOffsets "
        "footerStartOffset footerEndOffset splitTags numMergeOps docMappingRef docMappingJson uncompressedSizeBytes "
        "tags".split()
    )
    for line in gzip.decompress((log / f"{1:020}.json").read_bytes()[2:]).splitlines():
        for kind, members in json.loads(line).items():
            assert kind in ("protocol", "metaData", "add", "remove", "mergeskip")
            assert kind != "add" or set(members) <= known


def test_checkpoint_upgrades_protocol_3_and_json_takes_it_back(tmp_path):
    settings = Settings(state_format="json", checkpoint_interval=2, actions_per_part=3, retry_base_delay_ms=1)
    table = Table.create(tmp_path / "table", columns={"id": "long"}, settings=settings)
    log = tmp_path / "table" / "_transaction_log"
    for number in range(4):
        table.append([make_file(f"f{number}", doc_mapping_json=foreign.MAPPING)])
    assert table.snapshot().protocol.min_reader_version == 3
    assert not list(log.glob("state-v*")) and list(log.glob(f"{4:020}.checkpoint.*.00002.json"))
    assert json.loads((log / "_last_checkpoint").read_text())["format"] == "json-multipart"
    upgraded = Table.open(tmp_path / "table", cache=ManifestCache())
    assert upgraded.checkpoint(format="avro").state_kind == "full"
    assert upgraded.snapshot().protocol.min_reader_version == 4
    assert json.loads((log / "_last_checkpoint").read_text())["format"] == "avro-state"
    assert foreign.state_manifest(log / f"state-v{5:020}" / "_manifest.avro")["schemaRegistry"]
    upgraded.append([make_file("avro")])
    assert (log / f"state-v{6:020}").is_dir()
    upgraded.checkpoint(format="json")
    assert upgraded.snapshot().protocol.min_reader_version == 3
    upgraded.append([make_file("json")])
    again = Table.open(tmp_path / "table", cache=ManifestCache())
    assert paths(again.snapshot()) == sorted(["f0", "f1", "f2", "f3", "avro", "json"])
    assert [again.at(version=version).num_files for version in range(9)] == [0, 1, 2, 3, 4, 4, 5, 5, 6]
    assert all(again.snapshot().document_mapping(file) for file in again.files() if file.path.startswith("f"))
    assert again.verify(files=False).findings == ()


@pytest.mark.parametrize("number", [1, 2])
def test_protocols_1_and_2_keep_mappings_inline_and_checkpoints_whole(tmp_path, number):
    settings = Settings(state_format="json", checkpoint_interval=2, actions_per_part=1)
    table = Table.create(tmp_path / "table", columns={"id": "long"}, settings=settings, protocol_version=number)
    table.append([make_file("a", doc_mapping_json=foreign.MAPPING)])
    table.append([make_file("b")])
    log = tmp_path / "table" / "_transaction_log"
    assert (log / f"{2:020}.checkpoint.json").exists() and not list(log.glob("*.checkpoint.*.*.json"))
    again = Table.open(tmp_path / "table")
    assert again.snapshot().find({"a"})["a"].doc_mapping_json == foreign.MAPPING
    assert not any(key.startswith("docMappingSchema.") for key in again.snapshot().metadata.configuration)


def test_features_are_asked_for_although_a_state_has_no_place_for_them(made):
    made.version(0, [protocol(4, readerFeatures=["rowDeletes"]), metadata()])
    made.state(3, [(made.manifest("aaaaaaaa", [{"path": "a"}]), 1)])
    made.avro_hint(3)
    with pytest.raises(InputError) as refused:
        opened(made)
    assert refused.value.code == "NewerProtocol"


def test_the_features_of_a_table_survive_its_states(tmp_path):
    table = make_table(open_store(tmp_path / "table"), settings=dataclasses.replace(FAST, form="literal"))
    features = table.snapshot().protocol
    assert features.reader_features == ("avroState", "schemaDeduplication")
    table.append([make_file("a")])
    table.append([make_file("b")])
    again = Table.open(tmp_path / "table", cache=ManifestCache()).snapshot()
    assert again.state is not None and again.protocol == features
    assert "deltaic.protocol" not in again.metadata.configuration


def test_a_state_that_counts_tombstones_of_nothing_is_counted_again(made):
    # What a public writer's state says then is one too few.
    made.version(0, [protocol(), metadata()])
    entries = [{"path": "a"}, {"path": "b"}]
    made.state(1, [(made.manifest("00000001", entries), 2)], tombstones=["nowhere"], numFiles=1)
    snapshot = opened(made).snapshot()
    assert (snapshot.num_files, paths(snapshot)) == (2, ["a", "b"])

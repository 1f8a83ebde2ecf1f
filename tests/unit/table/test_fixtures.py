"""Recorded tables of the public implementation."""

import json
import shutil

import pytest

from deltaic.errors import InputError
from deltaic.table import Table
from deltaic.table.registry import mapping_hash
from deltaic.testing.indextables_conformance import run_case, run_folder

NAMES = (
    "01_single_write 02_five_appends 04_partitioned 05_many_transactions 07_two_writes_no_checkpoint "
    "08_ten_writes_at_checkpoint 10_large_batch 11_mixed_operations 13_after_purge 14_after_merge 16_with_skip_actions"
).split()


@pytest.fixture(scope="module")
def recorded(fixtures_dir):
    folder = fixtures_dir / "indextables"
    if not folder.is_dir():
        pytest.skip("no recorded index tables in the folder of recorded fixtures")
    return folder


def test_every_recorded_table_conforms(recorded):
    results = list(run_folder(recorded))
    assert [str(result) for result in results if not result.passed] == []
    assert len(results) >= 11


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_table_is_what_was_expected(recorded, name):
    expected = json.loads((recorded / name / "EXPECTED.json").read_text())
    snapshot = Table.open(recorded / name).snapshot()
    assert snapshot.version == expected["latestVersion"]
    assert snapshot.state.folder == expected["stateDir"]
    assert sorted(snapshot.paths()) == expected["liveFiles"]
    assert snapshot.num_records == expected["numRecords"] == len(expected["rows"])
    assert snapshot.total_bytes == expected["totalBytes"]
    assert list(snapshot.state.tombstones) == expected["tombstones"]
    assert sorted(snapshot.registry) == expected["schemaRegistryKeys"]


def test_the_hash_of_every_recorded_schema_is_the_one_it_is_registered_under(recorded):
    seen = set()
    for name in NAMES:
        for reference, text in Table.open(recorded / name).snapshot().registry.items():
            assert mapping_hash(text) == reference
            seen.add(reference)
    assert len(seen) >= 2


def test_version_0_is_empty_although_a_state_of_number_0_holds_ten_files(recorded):
    table = Table.open(recorded / "13_after_purge")
    assert table.log.state(0).num_files == 10
    assert table.at(version=0).num_files == 0
    assert [table.at(version=version).num_files for version in range(6)] == [0, 2, 4, 6, 8, 10]


def test_a_file_of_an_old_version_is_found_by_time(recorded):
    table = Table.open(recorded / "02_five_appends")
    created = [table.log.state(version).created_ms for version in range(1, 6)]
    assert created == sorted(created)
    from datetime import UTC, datetime

    for version, created_ms in enumerate(created, 1):
        found = table.at(timestamp=datetime.fromtimestamp((created_ms + 1) / 1000, UTC))
        assert found.version == version


def test_a_merge_of_a_recorded_table_is_no_change_of_data(recorded):
    steps = list(Table.open(recorded / "14_after_merge").changes(0))
    assert [step.data_change for step in steps] == [True, True, True, True, False]
    assert len(steps[-1].added) == 1 and len(steps[-1].removed) == 8


def test_a_recorded_table_is_not_written_before_it_was_adopted(recorded, tmp_path):
    copy = shutil.copytree(recorded / "02_five_appends", tmp_path / "table")
    table = Table.open(copy)
    before = sorted(table.snapshot().paths())
    with pytest.raises(InputError) as refused:
        table.append([])
    assert refused.value.code == "NotAdopted"
    assert table.adopt().version == 6
    again = Table.open(copy)
    assert sorted(again.snapshot().paths()) == before
    from tests.unit.table.making import make_file

    assert again.append([make_file("part-new.split")]).version == 7
    assert sorted(Table.open(copy).snapshot().paths()) == sorted([*before, "part-new.split"])
    assert sorted(Table.open(copy).at(version=3).paths()) == sorted(
        Table.open(recorded / "02_five_appends").at(version=3).paths()
    )


def fault_live_files(folder):
    expected = json.loads((folder / "EXPECTED.json").read_text())
    expected["liveFiles"] = expected["liveFiles"][1:]
    (folder / "EXPECTED.json").write_text(json.dumps(expected))
    return "liveFiles"


def fault_missing_split(folder):
    path = json.loads((folder / "EXPECTED.json").read_text())["liveFiles"][0]
    (folder / path).unlink()
    return f"MissingFile: {path}"


def fault_cut_split(folder):
    path = json.loads((folder / "EXPECTED.json").read_text())["liveFiles"][0]
    (folder / path).write_bytes((folder / path).read_bytes()[:-1])
    return f"WrongSize: {path}"


def fault_cut_manifest(folder):
    manifest = sorted((folder / "_transaction_log/manifests").glob("*.avro"))[0]
    manifest.write_bytes(manifest.read_bytes()[:-20])
    return manifest.name


def fault_missing_manifest(folder):
    manifest = sorted((folder / "_transaction_log/manifests").glob("*.avro"))[0]
    manifest.unlink()
    return "manifest"


def fault_lost_state(folder):
    newest = sorted((folder / "_transaction_log").glob("state-v*"))[-1]
    shutil.rmtree(newest)
    return "latestVersion is 4, expected 5"


@pytest.mark.parametrize(
    "plant",
    [
        fault_live_files,
        fault_missing_split,
        fault_cut_split,
        fault_cut_manifest,
        fault_missing_manifest,
        fault_lost_state,
    ],
)
def test_a_planted_fault_is_named(recorded, tmp_path, plant):
    copy = shutil.copytree(recorded / "02_five_appends", tmp_path / "table")
    assert run_case(copy).passed
    named = plant(copy)
    result = run_case(copy)
    assert not result.passed and named in result.failure

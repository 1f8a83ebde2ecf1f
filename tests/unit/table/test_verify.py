"""Verifying, repairing, describing, and the commands that do it."""

import json
import shutil

import pytest

from deltaic.storage import open_store
from deltaic.table import Table
from deltaic.table.describe import describe_log, describe_state, describe_table
from deltaic.table.manifest import ManifestCache
from tests.unit.table import foreign
from tests.unit.table.making import make_file, make_table, paths


@pytest.fixture
def folder(tmp_path):
    table = make_table(open_store(tmp_path / "table"), partition_by=("day",))
    for number in range(4):
        table.append(
            [
                make_file(
                    f"f{number}.split",
                    store=table.store,
                    day=f"2024-01-0{number + 1}",
                    num_records=number,
                    min_values={"id": str(number)},
                    max_values={"id": str(number + 10)},
                    doc_mapping_json=foreign.MAPPING,
                )
            ]
        )
    return tmp_path / "table"


def opened(folder):
    return Table.open(folder, cache=ManifestCache())


def codes(folder, **given):
    return [finding.code for finding in opened(folder).verify(**given).findings]


def test_a_sound_table_has_no_findings(folder):
    found = opened(folder).verify()
    assert found.ok and (found.version, found.files, found.size_bytes) == (4, 4, 40)
    assert json.loads(json.dumps(found.to_dict()))["findings"] == []


def test_missing_and_cut_files_are_found(folder):
    (folder / "f1.split").unlink()
    (folder / "f2.split").write_bytes(b"x")
    assert sorted(codes(folder)) == ["MissingFile", "WrongSize"]
    assert codes(folder, files=False) == []


def test_a_missing_version_file_without_a_state_is_a_gap(folder):
    log = folder / "_transaction_log"
    (log / f"{2:020}.json").unlink()
    assert codes(folder) == [], "the state of version 2 stands for it"
    for version in (2, 3):
        shutil.rmtree(log / f"state-v{version:020}")
    assert "Gap" in codes(folder) or "BadState" in codes(folder)


def test_a_state_that_is_not_what_its_version_file_says_is_found(folder):
    log = folder / "_transaction_log"
    state = log / f"state-v{3:020}" / "_manifest.avro"
    values = foreign.state_manifest(state)
    values["manifests"] = values["manifests"][:1]
    import io

    import fastavro

    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(foreign.STATE), [values])
    state.write_bytes(out.getvalue())
    assert {"WrongCount", "WrongState"} <= set(codes(folder))


def test_a_missing_manifest_is_found(folder):
    first = sorted((folder / "_transaction_log/manifests").glob("*.avro"))[0]
    before = paths(opened(folder).snapshot())
    first.unlink()
    assert {"MissingManifest", "Unreadable"} <= set(codes(folder))
    assert "rebuild" in opened(folder).repair().actions[0]
    opened(folder).repair(dry_run=False)
    assert paths(opened(folder).snapshot()) == before
    assert opened(folder).append([make_file("x", day="2024-01-01")]).version == 5


def test_statistics_are_checked_against_rows_if_somebody_reads_them(folder):
    def bounds(add):
        return {"id": (int(add.min_values["id"]), int(add.max_values["id"]))}

    assert codes(folder, bounds=bounds) == []
    assert codes(folder, bounds=lambda add: {"id": (-5, 3)}) == ["WrongStatistics"] * 4


def test_wrong_entries_are_found(folder):
    table = opened(folder)
    day = {"day": "2024-01-01"}
    lines = [
        {"path": "low.split", "partitionValues": day, "minValues": {"id": "10"}, "maxValues": {"id": "9"}},
        {"path": "none.split", "partitionValues": {}},
        {"path": "ref.split", "partitionValues": day, "docMappingRef": "nowhere"},
        {"path": "foot.split", "partitionValues": day, "footerEndOffset": 3, "hasFooterOffsets": True},
    ]
    common = {"size": 10, "modificationTime": 1, "dataChange": True}
    for line in lines:
        table.store.put(line["path"], b"x" * 10)
    text = "\n".join(json.dumps({"add": {**common, **line}}) for line in lines)
    table.log.store.put_if_absent(f"{table.version + 1:020}.json", text.encode())
    assert sorted(codes(folder)) == ["MissingSchema", "NoPartitionValue", "WrongFooter", "WrongStatistics"]


def test_a_hint_that_runs_ahead_is_found_and_put_back_by_the_next_commit(folder):
    hint = folder / "_transaction_log/_last_checkpoint"
    values = json.loads(hint.read_text())
    hint.write_text(json.dumps({**values, "version": 9, "stateDir": f"state-v{9:020}"}))
    assert codes(folder) == ["HintAhead"]
    opened(folder).append([make_file("x", day="2024-01-01")])
    assert json.loads(hint.read_text())["version"] == 5


def test_the_hint_never_goes_back(folder):
    from deltaic.table.checkpoint import Hint, read_hint, write_hint

    log = opened(folder).log.store
    assert not write_hint(log, Hint(2, 1, 1, 1, state_dir=f"state-v{2:020}"))
    assert read_hint(log).version == 4


def test_repair_tells_first_and_drops_lost_files_if_asked(folder):
    (folder / "f1.split").unlink()
    told = opened(folder).repair(drop_missing=True)
    assert told.dry_run and told.missing_files == ("f1.split",) and opened(folder).version == 4
    done = opened(folder).repair(drop_missing=True, dry_run=False)
    assert done.version == 5 and "f1.split" not in opened(folder).snapshot().paths()
    assert opened(folder).verify().ok
    assert "f1.split" in opened(folder).at(version=4).paths()


def test_repair_writes_a_state_that_is_missing(folder):
    shutil.rmtree(folder / "_transaction_log" / f"state-v{4:020}")
    assert opened(folder).repair().actions == ("write the state of version 4",)
    opened(folder).repair(dry_run=False)
    assert (folder / "_transaction_log" / f"state-v{4:020}").is_dir()
    assert opened(folder).verify().ok


def test_a_new_log_holds_what_is_left(folder, tmp_path):
    (folder / "f1.split").unlink()
    made = opened(folder).repair_to(tmp_path / "new")
    assert made.missing_files == ("f1.split",)
    log = tmp_path / "new/_transaction_log"
    assert json.loads((log / f"{1:020}.json").read_text().splitlines()[0])["add"]["path"], (
        "plain text, as the others do"
    )
    assert paths(opened(tmp_path / "new").snapshot()) == ["f0.split", "f2.split", "f3.split"]
    from deltaic.errors import InputError

    with pytest.raises(InputError):
        opened(folder).repair_to(tmp_path / "new")


def test_descriptions_are_plain_values(folder):
    table = opened(folder)
    told = describe_table(table, table.snapshot())
    assert told["version"] == 4 and told["files"] == 4 and told["partition_columns"] == ["day"]
    state = describe_state(table)
    assert state["manifests"] == 4 and state["tombstones"] == 0 and state["needs_compaction"] is False
    actions = [line["action"] for line in describe_log(table.log)]
    assert actions[:2] == ["protocol", "metaData"] and actions.count("add") == 4
    json.dumps([told, state, list(describe_log(table.log))])


def run(*words, code=0):
    import contextlib
    import io

    pytest.importorskip("typer")
    from deltaic.cli.app import run as run_command

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run_command(["table", *map(str, words)]) == code, out.getvalue()
    return out.getvalue()


def test_the_commands_look_and_maintain(folder, tmp_path):
    assert json.loads(run("describe", folder, "--json"))["files"] == 4
    assert json.loads(run("describe", folder, "--part", "state", "--json"))["manifests"] == 4
    assert len(run("describe", folder, "--part", "log", "--json").splitlines()) >= 6
    run("describe", folder, "--part", "nothing", code=2)
    assert len(run("history", folder).splitlines()) == 5
    assert json.loads(run("history", folder, "--json", "--limit", 1))["version"] == 4
    assert len(run("files", folder).splitlines()) == 4
    assert "f2.split" in run("files", folder, "--where", "day = '2024-01-03'")
    assert json.loads(run("files", folder, "--where", "id > 12", "--explain", "--json"))["left"] == 1
    assert len(run("files", folder, "--version", 2).splitlines()) == 2
    assert run("changes", folder, 3).split() == ["4", "+", "f3.split"]
    run("tag", folder, "good", "--version", 2)
    assert len(run("files", folder, "--tag", "good").splitlines()) == 2
    assert "version 5" in run("checkpoint", folder)
    assert "would delete" in run("purge", folder)
    run("purge", folder, "--older-than-hours", 0, code=2)
    run("purge", folder, "--run", "--set", "file_retention_hours=200", "--json")
    assert "0 problems" in run("verify", folder)
    assert json.loads(run("restore", folder, "--version", 3, "--json"))["version"] == 6
    run("restore", folder, code=2)
    assert "would remove 1" in run("drop-partitions", folder, "--where", "day = '2024-01-01'")
    run("drop-partitions", folder, "--where", "day = '2024-01-01'", "--run")
    (folder / "f1.split").unlink()
    assert "MissingFile" in run("verify", folder, code=1)
    assert "missing f1.split" in run("repair", folder, "--drop-missing")
    run("repair", folder, "--to", tmp_path / "elsewhere")
    run("repair", folder, "--drop-missing", "--run")
    run("tag", folder, "good", "--delete")
    assert "would delete" in run("truncate", folder)
    assert json.loads(run("truncate", folder, "--run", "--json"))["version"] == 9
    assert "was done already" in run("adopt", folder)
    run("describe", tmp_path / "nothing", code=1)


def test_the_conformance_command_runs_recorded_tables(fixtures_dir):
    import contextlib
    import io

    pytest.importorskip("typer")
    from deltaic.cli.app import run as run_command

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert run_command(["conformance", "indextables", str(fixtures_dir / "indextables")]) == 0
    assert out.getvalue().splitlines()[-1].endswith("0 failed")
    assert run_command(["conformance", "indextables", "/nonexistent"]) == 2

"""`deltaic blob show`, `deltaic blob dump` and `deltaic conformance hollow`: what they print and how they exit."""

import json
import shutil
from pathlib import Path

import pytest

pytest.importorskip("typer")

from deltaic.cli import main
from deltaic.state.read import ReadState

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "hollow"
SHARDS = GOLDEN / "shards"


def printed(capsys, *words):
    """What a command that must work prints."""
    code = main([str(word) for word in words])
    captured = capsys.readouterr()
    assert (code, captured.err) == (0, "")
    return captured.out


def refusal(capsys, *words, code=1):
    """The one line of a command that must fail."""
    assert main([str(word) for word in words]) == code
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.count("\n") == 1
    return captured.err


def test_show_tells_records_holes_shards_bits_and_bytes(capsys):
    path = SHARDS / "snapshot-2"
    (shown,) = json.loads(printed(capsys, "blob", "show", "--json", path))
    state = ReadState.load(path)
    assert shown["kind"] == "snapshot" and shown["bytes"] == path.stat().st_size and shown["trailingBytes"] == 0
    assert shown["destinationTag"] == f"{state.tag:016x}"
    assert [one["name"] for one in shown["types"]] == list(state.types)
    for one in shown["types"]:
        view = state[one["name"]]
        assert (one["records"], one["holes"]) == (len(view), view.holes)
        assert one["shards"] == len(view.data.shards)
    item = next(one for one in shown["types"] if one["name"] == "Item")
    assert item["bits"] == dict(
        zip([field.name for field in state["Item"].schema.fields], state["Item"].data.shards[0].widths, strict=True)
    )
    assert sum(one["bytes"] for one in shown["types"]) < shown["bytes"]


def test_show_prints_a_table_for_each_file(capsys):
    text = printed(capsys, "blob", "show", SHARDS / "snapshot-1", SHARDS / "delta-1-2", SHARDS / "reversedelta-2-1")
    assert "snapshot-1: snapshot" in text and "delta-1-2: delta" in text and "reversedelta-2-1: delta" in text
    assert "records" in text and "holes" in text and "added" in text and "removed" in text
    assert text.count("bits per field") == 3


def test_a_delta_without_its_name_is_told_from_a_snapshot(tmp_path, capsys):
    for name in ("snapshot-2", "delta-1-2"):
        shutil.copy(SHARDS / name, tmp_path / f"copy of {name}")
    shown = json.loads(printed(capsys, "blob", "show", "--json", *sorted(tmp_path.iterdir())))
    assert [one["kind"] for one in shown] == ["delta", "snapshot"]


def test_show_reads_parts_and_header_files(hollow_fixtures, tmp_path, capsys):
    part = hollow_fixtures / "optional-parts" / "snapshot_images-1"
    (shown,) = json.loads(printed(capsys, "blob", "show", "--json", part))
    assert (shown["part"], shown["kind"]) == ("images", "snapshot")
    assert "part images" in printed(capsys, "blob", "show", part)
    header = tmp_path / "header-1"
    from deltaic.state.write import WriteState

    state = WriteState(ReadState.load(SHARDS / "snapshot-1").schemas)
    with header.open("wb") as file:
        state.write_header(file)
    (shown,) = json.loads(printed(capsys, "blob", "show", "--json", header))
    assert shown["kind"] == "header" and shown["types"] == []


def test_show_says_which_bytes_are_left_over(tmp_path, capsys):
    path = tmp_path / "snapshot-9"
    path.write_bytes((SHARDS / "snapshot-1").read_bytes() + b"more")
    assert "4 bytes after the last type" in printed(capsys, "blob", "show", path)


@pytest.mark.parametrize("command", ["show", "dump"])
def test_what_is_no_blob_is_one_line_with_its_place(command, tmp_path, capsys):
    noise, torn, empty = tmp_path / "noise", tmp_path / "snapshot-1", tmp_path / "empty"
    noise.write_bytes(b"\x1f\x8b\x08 this is gzip")
    torn.write_bytes((SHARDS / "snapshot-1").read_bytes()[:500])
    empty.write_bytes(b"")
    assert "this is no Hollow blob (at noise: byte 0)" in refusal(capsys, "blob", command, noise)
    assert "(at snapshot-1: byte " in refusal(capsys, "blob", command, torn)
    assert "(at empty: byte 0)" in refusal(capsys, "blob", command, empty)
    assert "there is no blob nowhere in" in refusal(capsys, "blob", command, tmp_path / "nowhere")
    assert "a folder, not a blob" in refusal(capsys, "blob", command, tmp_path)


@pytest.mark.parametrize("case", ["scalars", "collections", "hash-keys", "shards"])
def test_dump_prints_the_recorded_state_json(case, capsys):
    folder = GOLDEN / case
    recorded = json.loads((folder / "state-2.json").read_text())
    dumped = json.loads(printed(capsys, "blob", "dump", "--json", folder / "snapshot-2"))
    assert dumped == recorded | {"version": None}
    text = printed(capsys, "blob", "dump", folder / "snapshot-1", folder / "delta-1-2")
    assert json.loads(text) == dumped and text.count("\n") > 10


def test_dump_reads_parts_by_name_and_by_file(hollow_fixtures, tmp_path, capsys):
    folder = hollow_fixtures / "optional-parts"
    blobs = [folder / "snapshot-1", folder / "delta-1-2"]
    recorded = json.loads((folder / "state-2.json").read_text()) | {"version": None}
    without = json.loads((folder / "without-parts-2.json").read_text()) | {"version": None}
    assert json.loads(printed(capsys, "blob", "dump", *blobs)) == without
    assert json.loads(printed(capsys, "blob", "dump", *blobs, "--part", "images", "--part", "details")) == recorded
    moved = shutil.copy(folder / "snapshot_images-1", tmp_path / "elsewhere")
    files = [f"--part=images={moved}", f"--part=images={folder / 'delta_images-1-2'}", "--part=details"]
    assert json.loads(printed(capsys, "blob", "dump", *blobs, *files)) == recorded
    wrong = refusal(capsys, "blob", "dump", *blobs, f"--part=images={folder / 'snapshot_details-1'}")
    assert "part 'details' of another blob, not part 'images'" in wrong
    assert "--part pictures=FILE" in refusal(capsys, "blob", "dump", *blobs, "--part", "pictures")


@pytest.mark.parametrize("word", ["=file", "images=", "images=a --part images=b --part images=c"])
def test_a_part_that_cannot_be_meant_is_misuse(word, capsys):
    words = ["--part", *word.split()]
    assert "--part" in refusal(capsys, "blob", "dump", SHARDS / "snapshot-1", SHARDS / "delta-1-2", *words, code=2)


def test_dump_of_a_delta_that_starts_elsewhere_exits_with_1(capsys):
    assert "delta-2-3 starts at state" in refusal(capsys, "blob", "dump", SHARDS / "snapshot-1", SHARDS / "delta-2-3")


def test_conformance_prints_a_line_per_case_and_the_sum(tmp_path, capsys):
    text = printed(capsys, "conformance", "hollow", GOLDEN)
    assert [line.split(":")[0] for line in text.splitlines()[:-1]] == [
        f"pass  {name}" for name in ("collections", "hash-keys", "scalars", "shards")
    ]
    assert text.splitlines()[-1] == "4 passed, 0 failed"
    shutil.copytree(GOLDEN / "scalars", tmp_path / "scalars")
    shutil.copytree(GOLDEN / "shards", tmp_path / "shards")
    state = tmp_path / "shards" / "state-1.json"
    state.write_text(state.read_text().replace('"maxOrdinal":', '"maxOrdinal":1', 1))
    assert main(["conformance", "hollow", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("pass  scalars") and lines[1].startswith("FAIL  shards") and "maxOrdinal" in lines[1]
    assert lines[2] == "1 passed, 1 failed"


def test_conformance_of_a_folder_without_cases_is_misuse(tmp_path, capsys):
    assert "holds no case" in refusal(capsys, "conformance", "hollow", tmp_path, code=2)

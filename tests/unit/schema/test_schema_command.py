"""`deltaic schema check` and `deltaic schema diff`."""

import json

import pytest

pytest.importorskip("typer")

from deltaic.cli import main

OLD = "Movie @PrimaryKey(id) { long id; int year; String title; }\nString { string value; }\n"


@pytest.fixture
def written(tmp_path):
    def write(name, text):
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def test_check_prints_each_file_in_order(written, capsys):
    path = written("model.txt", OLD)
    assert main(["schema", "check", path]) == 0
    assert capsys.readouterr().out.startswith(f"{path}: text, 2 types, schema hash ")


def test_check_points_at_the_mistake_goes_on_and_exits_with_1(written, capsys):
    bad, dangling, good = (
        written("bad.txt", "A {\n int a }"),
        written("dangling.txt", "A { B b; }"),
        written("good.txt", OLD),
    )
    assert main(["schema", "check", bad, dangling, good]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{bad}:2:8: expected ';' after field a of type A, found '}}'"
    assert lines[1] == f"{dangling}: type A refers to 'B', which is not declared"
    assert lines[2].startswith(f"{good}: text")


def test_check_of_a_missing_file_exits_with_1(tmp_path, capsys):
    assert main(["schema", "check", str(tmp_path / "none.txt")]) == 1
    assert "none.txt" in capsys.readouterr().out


def test_check_of_bytes_that_are_neither_says_so(tmp_path, capsys):
    path = tmp_path / "noise"
    path.write_bytes(b"\x00\x01\xff")
    assert main(["schema", "check", str(path)]) == 1
    assert "neither a Hollow blob nor UTF-8 text" in capsys.readouterr().out


def test_check_reads_blobs_of_every_kind(hollow_fixtures, capsys):
    files = [
        "nested/snapshot-1",
        "nested/delta-1-2",
        "envelopes/snapshot-1.old-header",
        "optional-parts/snapshot_images-1",
    ]
    assert main(["schema", "check", "--json", *(str(hollow_fixtures / file) for file in files)]) == 0
    results = json.loads(capsys.readouterr().out)
    assert [result["kind"] for result in results] == ["snapshot", "delta", "snapshot", "part"]
    assert all(result["types"] and result["error"] is None for result in results)


def test_check_of_a_torn_blob_exits_with_1(hollow_fixtures, tmp_path, capsys):
    torn = tmp_path / "snapshot-1"
    torn.write_bytes((hollow_fixtures / "nested/snapshot-1").read_bytes()[:50])
    assert main(["schema", "check", str(torn)]) == 1
    assert "snapshot-1: byte" in capsys.readouterr().out


def test_a_snapshot_and_its_text_do_not_differ(hollow_fixtures, capsys):
    folder = hollow_fixtures / "nested"
    assert main(["schema", "diff", str(folder / "schema-1.txt"), str(folder / "snapshot-1")]) == 0
    assert capsys.readouterr().out == "no changes\n"


def test_diff_lists_changes_and_exits_with_0_when_readers_go_on(written, capsys):
    new = OLD.replace("int year;", "").replace("String title;", "String title; float rating;")
    arguments = ["schema", "diff", written("old.txt", OLD), written("new.txt", new)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "Movie.rating" in out and "field removed" in out
    assert main([*arguments, "--strict"]) == 1


def test_diff_exits_with_1_when_readers_would_break(written, capsys):
    new = OLD.replace("int year;", "long year;")
    assert main(["schema", "diff", "--json", written("old.txt", OLD), written("new.txt", new)]) == 1
    content = json.loads(capsys.readouterr().out)
    assert content["breaks"] is True
    (change,) = content["changes"]
    assert (change["change"], change["type"], change["field"]) == ("field retyped", "Movie", "year")
    assert (change["old"], change["new"], change["effect"]) == ("int", "long", "breaks")


def test_diff_of_a_delta_is_misuse(hollow_fixtures, capsys):
    folder = hollow_fixtures / "nested"
    assert main(["schema", "diff", str(folder / "snapshot-1"), str(folder / "delta-1-2")]) == 2
    assert "lists only the types that it changes" in capsys.readouterr().err


def test_diff_with_a_broken_text_exits_with_1(written, capsys):
    assert main(["schema", "diff", written("old.txt", OLD), written("new.txt", "Movie {")]) == 1
    assert "new.txt:1:8: expected" in capsys.readouterr().err

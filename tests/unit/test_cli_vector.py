"""`deltaic vector show` and `deltaic conformance vector-delta`: what they print and how they exit."""

import json
import shutil

import numpy as np
import pytest

pytest.importorskip("typer")

from deltaic.cli import main
from deltaic.wire.vectors import DictionaryKeeper, EncodeOptions, encode_batch, encode_message, read_message

OLD = np.zeros((5, 40), np.float32)
NEW = OLD.copy()
NEW[1, 3] = 1
NEW[2, 10:30] = 2
NEW[4] = np.linspace(1, 2, 40)


def printed(capsys, *words, code=0):
    assert main([str(word) for word in words]) == code
    captured = capsys.readouterr()
    assert captured.err.count("\n") == (1 if code else 0)
    return captured.out, captured.err


def test_show_lists_messages_of_a_stream(tmp_path, capsys):
    path = tmp_path / "chain.vec"
    path.write_bytes(b"".join(encode_message(old, new) for old, new in zip(OLD, NEW, strict=True)))
    text, _ = printed(capsys, "vector", "show", path)
    assert "5 message(s)" in text and "runs" in text and "dense" in text
    shown = json.loads(printed(capsys, "vector", "show", "--json", path)[0])
    assert [item["changed"] for item in shown["messages"]] == [0, 1, 20, 0, 40]
    assert sum(item["bytes"] for item in shown["messages"]) == shown["bytes"] == path.stat().st_size
    assert "and 3 more" in printed(capsys, "vector", "show", "--rows", 2, path)[0]


def test_show_prints_what_is_good_before_a_fault(tmp_path, capsys):
    path = tmp_path / "chain.vec"
    message = encode_message(OLD[1], NEW[1])
    path.write_bytes(message + message[:-1])
    text, error = printed(capsys, "vector", "show", path, code=1)
    assert "1 message(s)" in text and "chain.vec" in error and f"starts at byte {len(message)}" in error


def test_show_tells_sections_and_buffers_of_a_frame(tmp_path, capsys):
    path = tmp_path / "column.frame"
    path.write_bytes(encode_batch(OLD, NEW, options=EncodeOptions(include_prev=True)))
    text, _ = printed(capsys, "vector", "show", path)
    assert "3 rows of 40 dimensions, has_prev" in text and "run_lengths" in text
    shown = json.loads(printed(capsys, "vector", "show", "--json", path)[0])
    (frame,) = shown["frames"]
    assert {change["row"]: len(change["indices"]) for change in frame["changes"]} == {1: 1, 2: 20, 4: 40}
    assert all(buffer["stored"] == buffer["raw"] for buffer in frame["buffers"])


def test_show_needs_the_dictionary_that_a_message_names(tmp_path, capsys):
    keeper = DictionaryKeeper(40, dict_id=12, admit_after=1)
    keeper.observe(read_message(encode_message(OLD[2], NEW[2])).delta)
    dictionary = keeper.publish().dictionary
    (tmp_path / "one.dict").write_bytes(dictionary.to_bytes())
    (tmp_path / "one.vec").write_bytes(encode_message(OLD[2], NEW[2], dictionary=dictionary))
    assert "dictionary 12 is not here" in printed(capsys, "vector", "show", tmp_path / "one.vec", code=1)[1]
    shown, _ = printed(capsys, "vector", "show", tmp_path / "one.vec", "--dictionary", tmp_path / "one.dict", "--json")
    assert json.loads(shown)["messages"][0]["dictionary"] == {"id": 12, "version": 1, "pattern": 0}
    shown, _ = printed(capsys, "vector", "show", tmp_path / "one.dict", "--json")
    assert json.loads(shown)["patterns"][0]["indices"] == list(range(10, 30))


@pytest.mark.parametrize("content", [b"", b"\xde", b"not a vector delta"])
def test_show_of_something_else_is_misuse(content, tmp_path, capsys):
    path = tmp_path / "other"
    path.write_bytes(content)
    assert "is no vector delta" in printed(capsys, "vector", "show", path, code=2)[1]


def test_show_of_a_file_that_is_not_there_fails(tmp_path, capsys):
    assert "No such file" in printed(capsys, "vector", "show", tmp_path / "gone", code=1)[1]


def test_conformance_names_the_case_that_failed(tmp_path, capsys, fixtures_dir):
    shutil.copyfile(fixtures_dir / "vector-delta" / "varint.json", tmp_path / "varint.json")
    text, _ = printed(capsys, "conformance", "vector-delta", tmp_path)
    assert text.splitlines()[-1].endswith(" passed, 0 failed")
    content = json.loads((tmp_path / "varint.json").read_text())
    content["cases"][3]["value"] += 1
    (tmp_path / "varint.json").write_text(json.dumps(content))
    assert main(["conformance", "vector-delta", str(tmp_path)]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert len(failed) == 1 and content["cases"][3]["name"] in failed[0]

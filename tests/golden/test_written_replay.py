"""The replay finds what differs: it would be worth nothing if it could not fail."""

import json
import shutil
from pathlib import Path

import pytest

from deltaic.errors import InputError
from deltaic.testing.replay import ReplayError, expected_blob, replay_case, same_blob

CASE = Path(__file__).parent / "hollow" / "collections"


def planted(tmp_path, change):
    """A copy of a recorded case whose calls were changed."""
    folder = shutil.copytree(CASE, tmp_path / "case")
    calls = [json.loads(line) for line in (folder / "ops.jsonl").read_text().splitlines()]
    change(calls)
    (folder / "ops.jsonl").write_text("\n".join(map(json.dumps, calls)))
    return folder


def test_another_ordinal_than_the_recorded_one_is_found(tmp_path):
    def change(calls):
        next(call for call in calls if call["op"] == "add")["ordinal"] = 77

    with pytest.raises(ReplayError, match=r"line \d+ of ops.jsonl: a \w+ got ordinal 0, 77 is recorded"):
        list(replay_case(planted(tmp_path, change)))


def test_an_unknown_call_is_refused(tmp_path):
    with pytest.raises(InputError, match="unknown call 'vanish'"):
        list(replay_case(planted(tmp_path, lambda calls: calls.insert(1, {"op": "vanish"}))))


def test_a_broken_chain_of_tags_is_found(tmp_path):
    def change(calls):
        next(call for call in calls if call["op"] == "write" and call["version"] == 2)["previousTag"] = "07"

    with pytest.raises(ReplayError, match="version 2 starts from tag"):
        list(replay_case(planted(tmp_path, change)))


def test_a_record_of_another_value_shows_in_the_blob(tmp_path):
    def change(calls):
        fields = next(call["fields"] for call in calls if "fields" in call)
        name = next(name for name, value in fields.items() if isinstance(value, int))
        fields[name] += 1_000_000

    first = next(replay_case(planted(tmp_path, change)))
    recorded = expected_blob(CASE, "snapshot-1")
    assert "expected" in same_blob(recorded, first.blobs["snapshot-1"])


def test_every_difference_of_two_blobs_is_told():
    blob = expected_blob(CASE, "snapshot-1")
    assert same_blob(blob, blob) is None
    assert same_blob(blob, blob[:-1]) == f"{len(blob):,} bytes expected, {len(blob) - 1:,} found"
    flipped = blob[:-9] + bytes([blob[-9] ^ 1]) + blob[-8:]
    assert same_blob(blob, flipped) == f"byte {len(blob) - 9}: {blob[-9]:02x} expected, {flipped[-9]:02x} found"
    assert "origin_tag" in same_blob(blob, blob[:5] + b"\x01" + blob[6:])
    assert "format version" in same_blob(blob, b"\x00\x00\x04\x07" + blob[4:])
    assert "not readable" in same_blob(blob, blob[:30])


def test_only_the_order_of_header_tags_does_not_count(hollow_fixtures):
    blob = expected_blob(hollow_fixtures / "header-tags", "snapshot-2")
    # The tags "b" and "a", each a name and a value of one byte.
    first, second = b"\x00\x01a\x00\x011", b"\x00\x01b\x00\x012"
    assert blob.count(first) == blob.count(second) == 1
    swapped = blob.replace(first, b"#").replace(second, first).replace(b"#", second)
    assert swapped != blob
    assert same_blob(blob, swapped) is None
    assert "header tags" in same_blob(blob, blob.replace(first, b"\x00\x01a\x00\x019"))

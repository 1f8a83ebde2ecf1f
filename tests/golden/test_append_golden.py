"""Recorded deltas with an appended section in deltaic's own layout: they are read as recorded and written again alike.

`golden/append` was made by `write` below with deltaic 0.1.0. `delta-1-2` has the base section and an extension block,
`delta-1-2.zlib` the same compressed; `content-2.json` is what a reader has afterwards.
"""

import io
import json
from pathlib import Path

import pytest

from deltaic.schema.text import parse_schemas
from deltaic.state.append_write import SchemaAppend
from deltaic.state.dump import dump_type
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState

FOLDER = Path(__file__).parent / "append"
OLD = "Gone { int g; }\nMovie @PrimaryKey(id) { int id; string name; int old; }"
NEW = """Tag { string value; }
Tags List<Tag>;
Movie @PrimaryKey(id, year) { int id; string title; int year; double rating; string text; Tags tags; }
"""


def write():
    first = WriteState(parse_schemas(OLD), tag=0x0123456789ABCDEF, pinned_shards={"Movie": 2})
    for number in range(8):
        first.add_object("Movie", {"id": number, "name": f"movie {number}", "old": number})
    first.write_snapshot(snapshot := io.BytesIO())
    state = WriteState(parse_schemas(NEW), pinned_shards={"Movie": 2})
    state.restore(ReadState.load(snapshot.getvalue()), 0x1122334455667788, renamed={"Movie": {"title": "name"}})
    for text in ("a", "ü"):
        state.add_object("Tag", {"value": text})
    state.add_list("Tags", [0, 1])
    for number in range(1, 10):
        values = {"id": number, "title": f"movie {number}", "year": 1970 + number}
        if number % 2:
            values |= {"rating": number / 4, "text": "Größe \U0001f600" * number, "tags": 0}
        state.add_object("Movie", values)
    blobs = {"snapshot-1": snapshot.getvalue()}
    for name, compression in (("delta-1-2", None), ("delta-1-2.zlib", "zlib")):
        state.write_delta(blob := io.BytesIO(), append=SchemaAppend(compression=compression))
        blobs[name] = blob.getvalue()
    state.write_snapshot(blob := io.BytesIO())
    blobs["snapshot-2"] = blob.getvalue()
    return blobs


def content(state):
    return {name: dump_type(data) for name, data in sorted(state.types.items())}


@pytest.mark.parametrize("name", ["delta-1-2", "delta-1-2.zlib"])
def test_recorded_deltas_are_read_as_recorded(name):
    state = ReadState.load(FOLDER / "snapshot-1").apply(FOLDER / name, schema_append="full")
    assert content(state) == json.loads((FOLDER / "content-2.json").read_text())
    assert state.checksum() == ReadState.load(FOLDER / "snapshot-2").checksum()


@pytest.mark.parametrize("name", ["snapshot-1", "delta-1-2", "snapshot-2"])
def test_the_same_calls_write_the_same_bytes(name):
    assert write()[name] == (FOLDER / name).read_bytes()


def test_without_the_feature_the_recorded_deltas_are_plain_deltas():
    states = [ReadState.load(FOLDER / "snapshot-1").apply(FOLDER / name) for name in ("delta-1-2", "delta-1-2.zlib")]
    assert content(states[0]) == content(states[1])
    assert [field[0] for field in content(states[0])["Movie"]["fields"]] == ["id", "name", "old"]

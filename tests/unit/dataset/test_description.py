"""`dataset.json`: what is written is read; everything else ends in a DecodeError with a code."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.dataset.description import (
    FORMAT,
    Description,
    decode_description,
    describe,
    encode_description,
)
from deltaic.errors import DecodeError
from deltaic.schema.annotations import Vector
from deltaic.schema.model import Model, VectorColumn

EXAMPLE: dict[str, Any] = {
    "format": 1,
    "token": "9f86d081884c7d659a2feaa0c55ad015",
    "name": "movies",
    "created_ms": 1793880000000,
    "model": {
        "schema": "String {\n\tstring value;\n}\n\nMovie @PrimaryKey(id) {\n\tlong id;\n\tString title;\n}",
        "roots": ["Movie"],
        "types": "",
        "shards": {"Movie": 2},
        "vectors": [],
    },
}


def changed(*path: str, to: Any) -> bytes:
    values = json.loads(json.dumps(EXAMPLE))
    place = values
    for name in path[:-1]:
        place = place[name]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return json.dumps(values).encode()


def test_the_example_of_the_page_is_read_and_written_again(project_root: Any) -> None:
    page = (project_root / "docs/formats/dataset.md").read_text()
    assert json.loads(page.split("```json")[1].split("```")[0]) == EXAMPLE
    description, model, unknown = decode_description(json.dumps(EXAMPLE).encode())
    assert (description.name, model.roots, dict(model.shards), unknown) == ("movies", ("Movie",), {"Movie": 2}, {})
    assert json.loads(encode_description(description)) == EXAMPLE


def test_logical_types_vectors_and_shards_survive() -> None:
    import pyarrow as pa

    schema = pa.schema([("id", pa.uint8()), ("when", pa.timestamp("us", "UTC")), ("v", pa.list_(pa.float32(), 4))])
    model = Model.from_arrow(schema, "Event", key="id", vectors=["v"], shards={"Event": 4})
    description = Description(FORMAT, "0" * 32, "events", 0, describe(model))
    _, read, _ = decode_description(encode_description(description))
    assert read == model
    assert read.vectors == (VectorColumn("Event", "v", 4),) and Vector


def test_fields_of_a_later_version_are_kept() -> None:
    description, _, unknown = decode_description(changed("later", to={"x": 1}))
    assert unknown == {"later": {"x": 1}}
    assert json.loads(encode_description(description, unknown))["later"] == {"x": 1}


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"x" * (5 << 20), "TooLarge"),
        (b"", "BadJson"),
        (b"{", "BadJson"),
        (b"\xff\xfe", "BadJson"),
        (b"[" * 100_000, "BadJson"),
        (b"[]", "BadField"),
        (b"{}", "BadField"),
        (changed("format", to=True), "BadField"),
        (changed("format", to=2), "UnknownFormat"),
        (changed("format", to=0), "UnknownFormat"),
        (changed("token", to="x"), "BadField"),
        (changed("name", to="../up"), "BadField"),
        (changed("name", to=""), "BadField"),
        (changed("created_ms", to=-1), "BadField"),
        (changed("model", to=...), "BadField"),
        (changed("model", "roots", to=[]), "BadField"),
        (changed("model", "schema", to="Movie {"), "BadSchema"),
        (changed("model", "schema", to="Movie { Studio s; }"), "BadSchema"),
        (changed("model", "schema", to="Movie @PrimaryKey(x) { int id; }"), "BadSchema"),
        (changed("model", "types", to="{"), "BadTypes"),
        (changed("model", "types", to='{"Movie": 7}'), "BadTypes"),
        (changed("model", "roots", to=["Film"]), "UnknownType"),
        (changed("model", "roots", to=["Movie", "Movie"]), "TwiceListed"),
        (changed("model", "shards", to={"Film": 2}), "UnknownType"),
        (changed("model", "shards", to={"Movie": 3}), "BadShards"),
        (changed("model", "shards", to={"Movie": 0}), "BadField"),
        (changed("model", "vectors", to=[{"type": "Film", "field": "v", "dimensions": 3}]), "UnknownType"),
        (changed("model", "vectors", to=[{"type": "Movie", "field": "v", "dimensions": 0}]), "BadField"),
    ],
)
def test_what_is_wrong_has_the_code_of_the_page(data: bytes, code: str) -> None:
    with pytest.raises(DecodeError) as error:
        decode_description(data, "here/dataset.json")
    assert error.value.code == code
    assert "here/dataset.json" in str(error.value)


@given(st.data())
def test_damaged_bytes_give_a_value_or_a_decode_error(data: st.DataObject) -> None:
    whole = bytearray(json.dumps(EXAMPLE).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    kept = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    for damaged in (bytes(whole), kept):
        try:
            decode_description(damaged)
        except DecodeError as error:
            assert error.code

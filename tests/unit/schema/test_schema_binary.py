"""The binary form: Java's bytes are written and read; bytes that cannot be a schema are refused."""

import json

import pytest

from deltaic.binary.cursor import Cursor
from deltaic.errors import DecodeError, InputError, SchemaError
from deltaic.schema.binary import read_schema, write_schema
from deltaic.schema.text import parse_schemas
from deltaic.schema.types import Field, FieldType, ListSchema, ObjectSchema, SetSchema


def test_recorded_bytes_are_written_and_read(hollow_fixtures):
    for case in json.loads((hollow_fixtures / "vectors/vectors.json").read_text())["schemas"]:
        for schema, (_, serialized) in zip(parse_schemas(case["text"]), case["serialized"], strict=True):
            assert write_schema(schema).hex() == serialized
            assert read_schema(Cursor(bytes.fromhex(serialized), "vector")) == schema


def test_a_keyed_set_and_map_carry_their_paths():
    (keyed_set, keyed_map) = parse_schemas("S Set<A> @HashKey(a, b); M Map<A,B> @HashKey(a);")
    assert write_schema(keyed_set) == b"\x04\x00\x01S\x00\x01A\x02\x00\x01a\x00\x01b"
    assert write_schema(keyed_map) == b"\x05\x00\x01M\x00\x01A\x00\x01B\x01\x00\x01a"


def test_a_key_of_no_paths_is_read_as_none():
    assert read_schema(Cursor(b"\x04\x00\x01S\x00\x01A\x00", "blob")) == SetSchema("S", "A", None)


def test_names_beyond_ascii_survive():
    schema = ListSchema("Ж\0\U0001f600\ud800", "é")
    assert read_schema(Cursor(write_schema(schema), "blob")) == schema


def test_more_than_127_key_paths_take_two_count_bytes():
    schema = ObjectSchema("T", (Field("a", FieldType.INT),), ("a",) * 300)
    assert b"T\x82\x2c\x00\x01a" in write_schema(schema)
    assert read_schema(Cursor(write_schema(schema), "blob")) == schema


@pytest.mark.parametrize(
    ("data", "code", "reason"),
    [
        (b"\x07\x00\x01T", "BadSchema", "7 is no kind of schema"),
        (b"\x00\x00\x01T\xff\xff", "BadSchema", "type T declares 65535 fields"),
        (b"\x00\x00\x01T\x00\x01\x00\x01a\x00\x03int", "BadSchema", "unknown type 'int'"),
        (b"\x00\x00\x01T\x00\x02" + b"\x00\x01a\x00\x03INT" * 2, "BadSchema", "declares field 'a' twice"),
        (b"\x06\x00\x01T\x87\xff\xff\xff\x7f", "BadSchema", "key of type T has 2147483647 paths"),
        (b"\x02\x00\x01T\x00\x05ab", "Truncated", "5 bytes wanted"),
        (b"", "Truncated", "end"),
    ],
)
def test_bytes_that_are_no_schema_are_refused(data, code, reason):
    with pytest.raises(DecodeError, match=reason) as caught:
        read_schema(Cursor(data, "bad-blob"))
    assert caught.value.code == code
    assert caught.value.at.startswith("bad-blob: byte ")


def test_what_does_not_fit_the_form_is_not_written():
    with pytest.raises(InputError, match="longer than 65535 bytes"):
        write_schema(ListSchema("é" * 32768, "A"))
    with pytest.raises(SchemaError, match="T has 32768 fields"):
        write_schema(ObjectSchema("T", tuple(Field(f"f{n}", FieldType.INT) for n in range(32768))))

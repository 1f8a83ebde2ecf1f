"""The text form: what Java prints is read, printed and hashed the same; mistakes are pointed at."""

import gzip
import json

import pytest

from deltaic.errors import SchemaError
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.text import parse_schemas, print_schema, print_schemas
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema


def recorded_texts(folder):
    for path in sorted(folder.rglob("schema-*.txt*")):
        raw = path.read_bytes()
        yield path, (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()


def test_every_recorded_text_prints_back_equal(hollow_fixtures):
    count = 0
    for path, text in recorded_texts(hollow_fixtures):
        schemas = parse_schemas(text, path.name).validated()
        assert str(schemas) == text.removesuffix("\n"), path
        count += 1
    assert count == 97


def test_recorded_hashes_and_texts_are_reproduced(hollow_fixtures):
    cases = json.loads((hollow_fixtures / "vectors/vectors.json").read_text())["schemas"]
    assert len(cases) == 3
    for case in cases:
        schemas = parse_schemas(case["text"])
        assert schemas.hash() == case["hash"]
        assert [print_schema(schema) for schema in schemas] == [text for text, _ in case["serialized"]]


def test_all_forms_are_read():
    schemas = parse_schemas(
        """
        // a comment; { with signs
        A @PrimaryKey(id, b.value!) { int id; B b; /* inside
        two lines */ bytes raw; boolean f; float g; double d; long l; string s; }
        B{string value;}L List<A>;S Set < B > @HashKey(value);M Map<B , A>@HashKey(value,);Empty{}
        """
    )
    fields = tuple(
        Field(name, FieldType(kind.upper()))
        for kind, name in [
            ("bytes", "raw"),
            ("boolean", "f"),
            ("float", "g"),
            ("double", "d"),
            ("long", "l"),
            ("string", "s"),
        ]
    )
    assert tuple(schemas) == (
        ObjectSchema(
            "A", (Field("id", FieldType.INT), Field("b", FieldType.REFERENCE, "B"), *fields), ("id", "b.value!")
        ),
        ObjectSchema("B", (Field("value", FieldType.STRING),)),
        ListSchema("L", "A"),
        SetSchema("S", "B", ("value",)),
        MapSchema("M", "B", "A", ("value",)),
        ObjectSchema("Empty", ()),
    )
    assert print_schema(schemas["M"]) == "M Map<B,A> @HashKey(value);"
    assert print_schema(schemas["Empty"]) == "Empty {\n}"
    assert print_schemas(SchemaSet()) == ""


def test_a_key_without_paths_is_no_key():
    assert parse_schemas("A @PrimaryKey() { int a; } S Set<A> @HashKey();")["S"] == SetSchema("S", "A", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A {\n\tint a\n}", "3:1: expected ';' after field a of type A, found '}'"),
        ("A {\n\tint ;\n}", "2:6: expected a field name after 'int' in type A, found ';'"),
        ("A {\n\tint a;\n", "3:1: expected a field type or '}' in type A, found the end of the text"),
        ("A Bag<B>;", "1:3: expected '{', '@PrimaryKey', 'List', 'Set' or 'Map' after type name A, found 'Bag'"),
        ("A", "1:2: expected '{' after type name A, found the end of the text"),
        ("A List<>;", "1:8: expected the element type of A, found '>'"),
        ("A List<B>", "1:10: expected ';' after type A, found the end of the text"),
        ("A List<B> @HashKey(x);", "1:11: expected ';' after type A, found '@'"),
        ("A Map<B>;", "1:8: expected ',' after the key type of A, found '>'"),
        ("A Map<B,C @HashKey(a);", "1:11: expected '>' after the types of A, found '@'"),
        ("A Set<B> @PrimaryKey(a);", "1:11: expected 'HashKey' after '@', found 'PrimaryKey'"),
        ("A @PrimaryKey a { }", "1:15: expected '(' after '@PrimaryKey', found 'a'"),
        ("A @PrimaryKey(a b) { }", "1:17: expected ',' or ')' after path 'a' in '@PrimaryKey', found 'b'"),
        ("A { int a; }\nA { int a; }", "2:1: type A is declared twice"),
        ("A { int a;\n  long a; }", "2:8: field 'a' is declared twice in type A"),
        ("A { /* never ends", "1:5: comment without end"),
        ("A { int a/b; }", "1:10: unexpected '/'"),
        (";", "1:1: expected a type name, found ';'"),
    ],
)
def test_a_mistake_is_pointed_at(text, message):
    with pytest.raises(SchemaError) as caught:
        parse_schemas(text, "model.txt")
    assert str(caught.value) == f"model.txt:{message}"

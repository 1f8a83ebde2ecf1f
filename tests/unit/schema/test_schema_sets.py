"""Sets of schemas: order, closure, validation."""

import copy
import json

import pytest

from deltaic.errors import NotFoundError, SchemaError
from deltaic.schema.hashing import bytes_hash, string_hash
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.text import parse_schemas
from deltaic.schema.types import Field, FieldType, ListSchema, ObjectSchema

CATALOG = parse_schemas(
    """
    Movie @PrimaryKey(id) { long id; String title; ListOfActor cast; }
    ListOfActor List<Actor>;
    Actor { int id; String name; }
    String { string value; }
    Alone { int x; }
    """
)


def test_a_set_is_an_ordered_mapping():
    assert CATALOG.names == ("Movie", "ListOfActor", "Actor", "String", "Alone")
    assert [schema.name for schema in CATALOG] == list(CATALOG.names)
    assert "Movie" in CATALOG and "movie" not in CATALOG and len(CATALOG) == 5
    assert CATALOG["ListOfActor"] == ListSchema("ListOfActor", "Actor")
    assert CATALOG.get("Nothing") is None
    with pytest.raises(NotFoundError, match=r"no type 'Nothing'; types: Movie, ListOfActor"):
        CATALOG["Nothing"]
    with pytest.raises(SchemaError, match="ListOfActor is a LIST, not an OBJECT"):
        CATALOG.object_schema("ListOfActor")


def test_sets_are_equal_if_types_and_order_are():
    assert SchemaSet(CATALOG) == CATALOG and hash(SchemaSet(CATALOG)) == hash(CATALOG)
    assert SchemaSet(reversed(tuple(CATALOG))) != CATALOG
    assert copy.deepcopy(CATALOG) == CATALOG


def test_a_type_is_added_at_the_end_or_replaced_in_place():
    added = CATALOG.with_schema(ListSchema("More", "Movie"))
    replaced = CATALOG.with_schema(ListSchema("ListOfActor", "String"))
    assert added.names == (*CATALOG.names, "More")
    assert replaced.names == CATALOG.names and replaced["ListOfActor"].references() == ("String",)
    assert "More" not in CATALOG
    assert CATALOG.without(["Actor", "Alone"]).names == ("Movie", "ListOfActor", "String")


def test_dependency_order_places_the_first_free_type_by_name():
    assert CATALOG.dependency_order().names == ("Alone", "String", "Actor", "ListOfActor", "Movie")


def test_dependency_order_puts_cycles_and_what_needs_them_last_by_name():
    schemas = parse_schemas("Z { A a; } A { B b; } B { A a; } Self { Self s; } C { int x; } D { C c; Gone g; }")
    assert schemas.dependency_order().names == ("C", "D", "A", "B", "Self", "Z")


def test_names_are_ordered_by_utf16_unit_as_java_does():
    beyond, private = "\U0001f600", "\uffee"
    schemas = SchemaSet([ObjectSchema(private, ()), ObjectSchema(beyond, ())])
    assert schemas.dependency_order().names == (beyond, private)


def test_closure_follows_references_and_keeps_the_order():
    assert CATALOG.closure(["Actor"]).names == ("Actor", "String")
    assert CATALOG.closure(["Movie", "Alone"]) == CATALOG
    assert CATALOG.without(["String"]).closure(["Actor"]).names == ("Actor",)
    with pytest.raises(NotFoundError):
        CATALOG.closure(["Nothing"])


def test_the_hash_does_not_depend_on_order_but_on_every_letter():
    assert SchemaSet(reversed(tuple(CATALOG))).hash() == CATALOG.hash()
    assert CATALOG.with_schema(ObjectSchema("Alone", (Field("y", FieldType.INT),))).hash() != CATALOG.hash()


def test_recorded_text_hashes_are_reproduced(hollow_fixtures):
    vectors = json.loads((hollow_fixtures / "vectors/vectors.json").read_text())
    cases = [case for case in vectors["string_hash_and_javaHashCode"] if case[0] is not None]
    assert len(cases) > 3 and len(vectors["bytes_hash"]) > 3
    for text, expected, _ in cases:
        assert string_hash(text) == expected
    for data, expected in vectors["bytes_hash"]:
        assert bytes_hash(bytes.fromhex(data)) == expected


def test_a_name_cannot_be_taken_twice():
    with pytest.raises(SchemaError, match="type A is declared twice"):
        SchemaSet([ListSchema("A", "B"), ObjectSchema("A", ())])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A { B b; }", "type A refers to 'B', which is not declared"),
        ("M Map<K,V>; K { int a; }", "type M refers to 'V'"),
        ("A @PrimaryKey(x) { int a; }", r"primary key of type A: segment 1 \('x'\) of path 'x'"),
        ("A { int a; } S Set<A> @HashKey(a.b);", r"hash key of type S: segment 2 \('b'\).*A.a is a value"),
        (
            "A { int a; } L List<A>; S Set<L> @HashKey(element);",
            "hash key of type S: .*a key goes through OBJECTs only",
        ),
    ],
)
def test_validation_says_which_type_is_wrong(text, message):
    with pytest.raises(SchemaError, match=message):
        parse_schemas(text).validated()


def test_a_partial_set_may_refer_outside_but_its_own_keys_must_lead_somewhere():
    partial = parse_schemas("A @PrimaryKey(b.c) { B b; }")
    assert partial.validated(partial=True) is partial
    assert partial.unresolved() == ("B",)
    with pytest.raises(SchemaError, match="primary key of type A"):
        parse_schemas("A @PrimaryKey(x) { int a; } C { D d; }").validated(partial=True)


def test_fields_made_twice_by_hand_are_found():
    twice = SchemaSet([ObjectSchema("A", (Field("a", FieldType.INT), Field("a", FieldType.LONG)))])
    with pytest.raises(SchemaError, match="type A declares field 'a' twice"):
        twice.validated()


def test_the_ordinal_hash_key_of_older_writers_is_accepted():
    parse_schemas("A { int a; int b; } S Set<A> @HashKey(0rdinal);").validated()

"""Field paths: where they lead, how they are expanded, which segment is to blame."""

import pytest

from deltaic.errors import SchemaError
from deltaic.schema.paths import resolve_path
from deltaic.schema.text import parse_schemas
from deltaic.schema.types import FieldType

SCHEMAS = parse_schemas(
    """
    String { string value; }
    Country @PrimaryKey(code) { String code; int size; }
    Studio @PrimaryKey(country.code, name) { Country country; String name; }
    Box { Country country; }
    Movie { long id; String title; Country country; Studio studio; Box box; ListOfActor cast;
            MapOfCountryToString names; Loop loop; Nested nested; Deep deep; }
    Actor { int id; String name; Only only; }
    Only { ListOfActor actors; }
    ListOfActor List<Actor>;
    MapOfCountryToString Map<Country,String>;
    Loop { Loop again; }
    Nested @PrimaryKey(box.country.size) { Box box; int x; }
    Deep @PrimaryKey(nested!) { Nested nested; int x; }
    """
)


@pytest.mark.parametrize(
    ("path", "expanded", "field_type"),
    [
        ("id", "id", FieldType.LONG),
        ("title", "title.value", FieldType.STRING),
        ("title.value", "title.value", FieldType.STRING),
        ("title!", "title", FieldType.REFERENCE),
        ("country", "country.code.value", FieldType.STRING),
        ("country.code", "country.code.value", FieldType.STRING),
        ("box", "box.country.code.value", FieldType.STRING),
        ("country.size", "country.size", FieldType.INT),
        ("nested", "nested.box.country.size", FieldType.INT),
        ("deep", "deep.nested", FieldType.REFERENCE),
        ("deep.nested", "deep.nested.box.country.size", FieldType.INT),
    ],
)
def test_a_path_is_expanded_to_the_value_it_stands_for(path, expanded, field_type):
    # Most of these were run through Hollow 7.14.23 (PrimaryKey.getCompleteFieldPathParts); the rest follow its rule.
    resolved = resolve_path(SCHEMAS, "Movie", path)
    assert (str(resolved), resolved.field_type) == (expanded, field_type)
    assert len(resolved.steps) == expanded.count(".") + 1


def test_steps_say_type_and_position():
    resolved = resolve_path(SCHEMAS, "Movie", "country")
    assert [(step.type_name, step.position, step.leads_to) for step in resolved.steps] == [
        ("Movie", 2, "Country"),
        ("Country", 0, "String"),
        ("String", 0, None),
    ]
    assert resolved.positions == (2, 0, 0)
    assert resolved.leads_to is None


def test_without_expansion_a_path_may_end_on_a_reference():
    resolved = resolve_path(SCHEMAS, "Movie", "studio", expand=False)
    assert (resolved.field_type, resolved.leads_to) == (FieldType.REFERENCE, "Studio")


def test_index_paths_go_through_collections():
    name = resolve_path(SCHEMAS, "Movie", "cast.element.name", through_collections=True)
    assert (str(name), name.field_type) == ("cast.element.name.value", FieldType.STRING)
    key = resolve_path(SCHEMAS, "Movie", "names.key.code.value", through_collections=True)
    value = resolve_path(SCHEMAS, "Movie", "names.value", through_collections=True)
    assert key.positions == (6, 0, 0, 0) and value.positions == (6, 1, 0)
    element = resolve_path(SCHEMAS, "Movie", "cast.element", expand=False, through_collections=True)
    assert (element.field, element.leads_to, element.field_type) == (None, "Actor", FieldType.REFERENCE)
    assert str(resolve_path(SCHEMAS, "ListOfActor", "element.id", through_collections=True)) == "element.id"


def test_the_empty_path_is_the_record_itself():
    resolved = resolve_path(SCHEMAS, "Movie", "")
    assert (resolved.steps, resolved.leads_to, resolved.field_type) == ((), "Movie", FieldType.REFERENCE)


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        (
            "nope",
            {},
            r"segment 1 \('nope'\) of path 'nope' from type Movie: type Movie has no field 'nope'; fields: id, title",
        ),
        ("country.nope", {}, r"segment 2 \('nope'\)"),
        ("id.value", {}, r"segment 2 \('value'\).*Movie.id is a value"),
        ("title..value", {}, r"segment 2 \(''\)"),
        ("studio", {}, r"ends on type Studio, which has neither one field nor a primary key of one path"),
        ("cast.element", {}, r"segment 2 \('element'\).*ListOfActor is a LIST; a key goes through OBJECTs only"),
        ("cast", {}, r"ends on LIST type ListOfActor"),
        (
            "cast.key",
            {"through_collections": True},
            r"segment 2 \('key'\).*expected 'element' in LIST type ListOfActor",
        ),
        ("names.element", {"through_collections": True}, r"expected 'key' or 'value' in MAP type"),
        ("loop", {}, r"goes round in circles at type Loop"),
        ("cast.element.only", {"through_collections": True}, r"ends on LIST type ListOfActor"),
    ],
)
def test_a_path_that_leads_nowhere_names_its_segment(path, options, message):
    with pytest.raises(SchemaError, match=message):
        resolve_path(SCHEMAS, "Movie", path, **options)


def test_a_missing_type_is_named():
    with pytest.raises(SchemaError, match="type 'Country' is not declared"):
        resolve_path(SCHEMAS.without(["Country"]), "Movie", "country.code")
    with pytest.raises(SchemaError, match="type 'Film' is not declared"):
        resolve_path(SCHEMAS, "Film", "id")


def test_a_key_that_goes_round_in_circles_is_refused():
    around = parse_schemas("A @PrimaryKey(b) { B b; int x; } B @PrimaryKey(a) { A a; int x; }")
    with pytest.raises(SchemaError, match=r"goes round in circles at type [AB]"):
        resolve_path(around, "A", "b")
    with pytest.raises(SchemaError, match=r"primary key of type A: .*circles"):
        around.validated()

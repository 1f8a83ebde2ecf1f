"""The fields of a model as paths of the registry."""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from deltaic.schema import registry_model
from deltaic.schema.annotations import HashKey, Inline, Int32, TypeName, Vector, key, timestamp
from deltaic.schema.model import Model
from deltaic.schema.registry import Registry, ValueType, parse_path
from deltaic.schema.registry_model import entry_key, model_fields


@dataclass
class Person:
    id: int
    name: str


@key("id")
@dataclass
class Studio:
    id: int
    name: str


@key("id")
@dataclass
class Movie:
    id: int
    year: Int32
    title: str
    slug: Annotated[str, Inline]
    good: bool
    cover: bytes
    studio: Studio
    cast: list[Person]
    crew: Annotated[set[Person], HashKey("id")]
    genres: set[str]
    people: Annotated[set[Person], HashKey(), TypeName("SetOfPeople")]
    ratings: dict[str, Person]
    weights: dict[int, float]
    matrix: list[list[float]]
    shown: Annotated[datetime, timestamp("ms")]
    noted: Annotated[datetime, timestamp("us")]
    embedding: Annotated[list[float], Vector(4)]


FIELDS = dict(model_fields(Model.of(Movie)))


def test_every_field_of_a_type_with_a_key_has_its_path_and_type():
    flat = {path: kind for path, kind in FIELDS.items() if len(parse_path(path)) == 2 and path.startswith("Movie.")}
    assert {path.removeprefix("Movie."): kind.name for path, kind in flat.items()} == {
        "id": "INT64",
        "year": "INT32",
        "title": "STRING",
        "slug": "STRING",
        "good": "BOOL",
        "cover": "BYTES",
        "studio": "ANY",
        "cast": "LIST",
        "crew": "MAP",
        "genres": "MAP",
        "people": "LIST",
        "ratings": "MAP",
        "weights": "MAP",
        "matrix": "LIST",
        "shown": "TIMESTAMP_MS",
        "noted": "INT64",
        "embedding": "VECTOR_F32",
    }
    assert FIELDS["Movie"] is ValueType.ANY and FIELDS["Studio.name"] is ValueType.STRING


def test_paths_go_through_references_lists_sets_and_maps():
    deep = {path: FIELDS[path].name for path in FIELDS if path.startswith("Movie.") and ("[]" in path or "{}" in path)}
    assert deep == {
        "Movie.cast[]": "ANY",
        "Movie.cast[].id": "INT64",
        "Movie.cast[].name": "STRING",
        "Movie.crew{}": "ANY",
        "Movie.crew{}.id": "INT64",
        "Movie.crew{}.name": "STRING",
        "Movie.genres{}": "STRING",
        "Movie.ratings{}": "ANY",
        "Movie.ratings{}.id": "INT64",
        "Movie.ratings{}.name": "STRING",
        "Movie.weights{}": "FLOAT64",
        "Movie.matrix[]": "LIST",
        "Movie.matrix[][]": "FLOAT64",
    }
    assert FIELDS["Movie.studio.name"] is ValueType.STRING
    assert "Person" not in FIELDS  # neither a root nor a key of its own


def test_fields_near_the_record_come_first_so_that_they_get_the_short_numbers():
    depths = [len(parse_path(path)) for path in FIELDS]
    assert depths == sorted(depths)


def test_an_element_of_a_set_has_a_name_only_if_a_text_names_it():
    model = Model.of(Movie)
    by_field = {field.name: field.referenced for field in model.schemas.object_schema("Movie").fields}
    named = {name: entry_key(model, by_field[name]) for name in ("crew", "genres", "people", "ratings", "cast")}
    assert {name: found and found.name for name, found in named.items()} == {
        "crew": "id",
        "genres": "value",
        "people": None,
        "ratings": "value",
        "cast": None,
    }


def test_a_type_that_repeats_ends_the_path():
    model = Model.parse(
        """
        Node @PrimaryKey(label) { string label; Node next; Nodes children; Names names; }
        Nodes List<Node>;
        Names Map<Name, Node>;
        Name { string value; }
        """
    )
    found = {path: kind.name for path, kind in model_fields(model) if path.startswith("Node")}
    assert found == {
        "Node": "ANY",
        "Node.label": "STRING",
        "Node.next": "ANY",
        "Node.children": "LIST",
        "Node.names": "MAP",
    }


def test_names_are_escaped_and_names_that_no_path_can_have_are_left_out(caplog):
    from deltaic.schema.schemas import SchemaSet
    from deltaic.schema.types import Field, FieldType, ObjectSchema

    fields = ("a.b", "c[]", "d\\", "e\tf", "", "x" * 2_000, "ok")
    schema = ObjectSchema("T{1}", tuple(Field(name, FieldType.INT) for name in fields), ("ok",))
    found = [path for path, _ in model_fields(Model.from_schemas(SchemaSet([schema])))]
    assert found == ["T\\{1\\}", "T\\{1\\}.a\\.b", "T\\{1\\}.c\\[\\]", "T\\{1\\}.d\\\\", "T\\{1\\}.ok"]
    assert len(caplog.records) == 3


def test_types_that_refer_to_each_other_often_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr(registry_model, "MAX_MODEL_FIELDS", 1_000)
    lines = [f"T{n} {{ int id; T{n + 1} a; T{n + 1} b; T{n + 1} c; }}" for n in range(40)]
    model = Model.parse("\n".join([*lines, "T40 { int id; int other; }"]))
    fields = model_fields(model)
    assert len(fields) == 1_000
    assert fields[:3] == [("T0", ValueType.ANY), ("T0.id", ValueType.INT32), ("T0.a", ValueType.ANY)]


def test_a_model_joins_a_registry_in_one_write():
    registry = Registry()
    assert registry.register_many(FIELDS.items()) == list(range(len(FIELDS)))

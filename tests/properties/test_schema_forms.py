"""Schemas survive their text form, their binary form and each other's company."""

from hypothesis import given
from hypothesis import strategies as st

from deltaic.binary import modified_utf8
from deltaic.binary.cursor import Cursor
from deltaic.errors import DecodeError, SchemaError
from deltaic.schema.binary import read_schema, write_schema
from deltaic.schema.evolve import Effect, common_schemas, compare
from deltaic.schema.schemas import SchemaSet, java_order
from deltaic.schema.text import parse_schemas, print_schemas
from deltaic.testing.schemas import names, schema_sets

any_text = st.text(st.characters(exclude_categories=[]), max_size=40)


@given(schema_sets())
def test_printing_and_parsing_gives_the_same_types(schemas):
    assert parse_schemas(print_schemas(schemas)) == schemas.validated()


@given(schema_sets())
def test_writing_and_reading_gives_the_same_types_and_ends_where_they_end(schemas):
    cursor = Cursor(b"".join(write_schema(schema) for schema in schemas), "schemas")
    assert SchemaSet([read_schema(cursor) for _ in schemas]) == schemas
    assert cursor.remaining == 0


@given(schema_sets(), st.data())
def test_damaged_bytes_give_a_schema_or_a_decode_error(schemas, data):
    raw = bytearray(b"".join(write_schema(schema) for schema in schemas))
    for _ in range(data.draw(st.integers(0, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cursor = Cursor(bytes(raw[: data.draw(st.integers(0, len(raw)))]), "damaged")
    try:
        while cursor.remaining:
            read_schema(cursor)
    except DecodeError as error:
        assert "damaged" in error.at


@given(schema_sets(), st.data())
def test_damaged_text_gives_schemas_or_an_error_with_line_and_column(schemas, data):
    text = print_schemas(schemas)
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.sampled_from(["", "{", "}", ";", "<", ",", "@", "/*", "x"])) + text[at + 1 :]
    try:
        parse_schemas(damaged, "file")
    except SchemaError as error:
        name, line, column, _ = str(error).split(":", 3)
        assert name == "file" and 1 <= int(line) <= damaged.count("\n") + 1 and int(column) >= 1


@given(schema_sets(acyclic=True))
def test_in_dependency_order_every_type_follows_what_it_refers_to(schemas):
    placed: set[str] = set()
    for schema in schemas.dependency_order():
        assert placed.issuperset(schema.references())
        placed.add(schema.name)
    assert placed == set(schemas.names)


@given(schema_sets(), st.randoms(use_true_random=False))
def test_dependency_order_and_hash_do_not_depend_on_the_order_given(schemas, random):
    shuffled = list(schemas)
    random.shuffle(shuffled)
    assert SchemaSet(shuffled).dependency_order() == schemas.dependency_order()
    assert SchemaSet(shuffled).hash() == schemas.hash()


@given(schema_sets())
def test_the_first_type_in_dependency_order_is_the_first_by_name_that_refers_to_nothing(schemas):
    free = [schema.name for schema in schemas if not schema.references()]
    if free:
        assert schemas.dependency_order().names[0] == min(free, key=java_order)


@given(schema_sets())
def test_a_model_compared_with_itself_has_no_changes_and_is_its_own_common_model(schemas):
    assert len(compare(schemas, schemas)) == 0
    assert common_schemas(schemas, schemas) == schemas


@given(schema_sets(), schema_sets())
def test_comparison_sees_every_difference(old, new):
    changes = compare(old, new)
    assert (len(changes) == 0) == ({*old} == {*new})
    swapped = compare(new, old)
    assert changes.types_added == tuple(name for name in new.names if name not in old)
    assert sorted(swapped.types_removed) == sorted(changes.types_added)
    assert {change.where for change in changes.breaks_readers} == {change.where for change in swapped.breaks_readers}


@given(schema_sets(), schema_sets())
def test_models_have_a_common_model_unless_a_change_breaks_more_than_look_ups(old, new):
    clashes = [change for change in compare(old, new).breaks_readers if "hash key" not in change.kind]
    try:
        common = common_schemas(old, new)
    except SchemaError as error:
        assert clashes and all(change.effect is Effect.BREAKS for change in clashes)
        assert any(str(clash) in str(error) for clash in clashes)
    else:
        assert not clashes
        for schema in common:
            assert not compare(SchemaSet([schema]), SchemaSet([new[schema.name]])).breaks_readers


@given(any_text)
def test_any_text_survives_modified_utf8(text):
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    data = modified_utf8.encode(text)
    assert modified_utf8.decode(data, "here") == joined
    assert 0 not in data and not any(byte >= 0xF0 for byte in data)


@given(st.binary(max_size=30))
def test_any_bytes_are_text_or_a_decode_error(data):
    try:
        text = modified_utf8.decode(data, "here")
    except DecodeError as error:
        assert (error.code, error.at) == ("BadText", "here")
    else:
        assert isinstance(text, str)


@given(schema_sets(), names)
def test_a_set_without_a_type_names_it_when_asked(schemas, name):
    assert (name in schemas) == (schemas.get(name) is not None)

"""Columns come, go, change their names and types; every old version stays what it was."""

import datetime
import decimal
import json
import math

import pyarrow as pa
import pytest

from deltaic.errors import InputError, SchemaError
from deltaic.table.rows import Table
from deltaic.table.rows.evolve import is_wider
from tests.unit.table.rows.making import FAST, changes, film, films, ids, make_table


@pytest.fixture
def table():
    made = make_table(key=("id",))
    made.append(films(1, 2))
    return made


def row(table, number, **at):
    return table.to_arrow(where=f"id = {number}", **at).to_pylist()[0]


def test_an_added_column_is_null_or_its_default_in_old_rows(table):
    table.add_column("genre", pa.string(), default="drama", after="id")
    table.add_column("score", pa.int8())
    assert table.schema.names == ["id", "genre", "title", "year", "rating", "score"]
    assert row(table, 1) == film(1, genre="drama", score=None)
    table.append([film(3, genre="comedy"), film(4)])
    assert row(table, 3)["genre"] == "comedy" and row(table, 4)["genre"] == "drama"
    table.append(pa.table({"id": [5], "genre": pa.array([None], pa.string())}))
    assert row(table, 5)["genre"] is None
    assert ids(table, "genre = 'drama'") == [1, 2, 4] and ids(table, "genre is null") == [5]
    assert row(table, 1, version=1) == film(1)
    table.update({"score": 7}, "id = 1")
    assert row(table, 1) == film(1, genre="drama", score=7) and row(table, 2)["genre"] == "drama"


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (pa.int64(), 2**60),
        (pa.float32(), 0.5),
        (pa.float64(), -math.inf),
        (pa.bool_(), False),
        (pa.date32(), datetime.date(2024, 2, 29)),
        (pa.timestamp("us", "UTC"), datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)),
        (pa.time64("us"), datetime.time(1, 2, 3, 4)),
        (pa.decimal128(10, 2), decimal.Decimal("1.50")),
        (pa.binary(), b"\0\xff"),
        (pa.dictionary(pa.int8(), pa.string()), "x"),
    ],
    ids=str,
)
def test_a_default_of_any_type_is_kept_exactly(table, kind, default):
    table.add_column("x", kind, default=default)
    again = Table.open(table.files.store, settings=FAST)
    assert row(again, 1)["x"] == default and again.schema.field("x").type == kind


@pytest.mark.parametrize(
    ("kind", "default"),
    [(pa.int8(), 300), (pa.string(), 5), (pa.list_(pa.int8()), [1]), (pa.date32(), "tomorrow")],
    ids=str,
)
def test_a_default_that_is_none_of_its_type_is_refused(table, kind, default):
    with pytest.raises(SchemaError, match="x"):
        table.add_column("x", kind, default=default)


def test_a_column_that_is_never_null_needs_a_default(table):
    with pytest.raises(SchemaError, match="need a default"):
        table.add_column("x", pa.int8(), nullable=False)
    table.add_column("x", pa.int8(), nullable=False, default=0)
    assert row(table, 1)["x"] == 0
    with pytest.raises(InputError, match="x, row 0: None"):
        table.append([film(5, x=None)])


def test_a_renamed_column_has_its_old_rows(table):
    table.rename_column("title", "name")
    assert row(table, 1)["name"] == "film 1" and ids(table, "name = 'film 2'") == [2]
    table.append([{"id": 3, "name": "third"}])
    assert row(table, 3)["name"] == "third"
    with pytest.raises(InputError, match="title"):
        table.append(films(4))
    assert row(table, 1, version=1) == film(1)
    assert changes(table, 1, 2) == []
    assert changes(table, 0)[0]["after"]["name"] == "film 1"


def test_a_name_that_was_free_again_is_another_column(table):
    table.drop_column("title")
    table.add_column("title", pa.string())
    assert row(table, 1)["title"] is None
    table.append(films(3))
    assert row(table, 3)["title"] == "film 3" and row(table, 1, version=1)["title"] == "film 1"
    said = json.loads(table.files.snapshot().metadata.configuration["deltaic.columns"])
    assert said["retired"] == ["title"]
    table.restore(version=1)
    assert row(table, 1)["title"] == "film 1"
    table.drop_column("title")
    table.add_column("title", pa.string())
    assert row(table, 1)["title"] is None


def test_names_can_be_swapped(table):
    table.add_column("other", pa.string(), default="o")
    table.rename_column("title", "kept")
    table.rename_column("other", "title")
    table.rename_column("kept", "other")
    assert row(table, 1) == film(1, title="o", other="film 1")
    table.append([film(9, title="t", other="u")])
    table.compact()
    assert row(table, 9) == film(9, title="t", other="u") and row(table, 1)["other"] == "film 1"


def test_a_rename_follows_the_key_and_the_constraints():
    table = make_table(key=("id",), constraints={"old enough": "year >= 1900"})
    table.append(films(1))
    table.rename_column("id", "number")
    table.rename_column("year", "made")
    assert table.key == ("number",) and table.constraints == {"old enough": "`made` >= 1900"}
    table.merge([{"number": 1, "made": 1950}])
    assert changes(table, 3)[0]["number"] == 1
    with pytest.raises(InputError, match="made, row 0: 1800"):
        table.append([{"number": 2, "made": 1800}])


WIDER = [
    (pa.int8(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.uint8(), pa.int16()),
    (pa.uint32(), pa.uint64()),
    (pa.int64(), pa.decimal128(19, 0)),
    (pa.float32(), pa.float64()),
    (pa.float16(), pa.float32()),
    (pa.decimal128(5, 2), pa.decimal128(8, 3)),
    (pa.decimal128(5, 2), pa.decimal256(50, 2)),
    (pa.date32(), pa.timestamp("us")),
    (pa.string(), pa.large_string()),
    (pa.string(), pa.dictionary(pa.int32(), pa.string())),
    (pa.list_(pa.int8()), pa.list_(pa.int16())),
    (pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int32()), ("b", pa.string())])),
]
NOT_WIDER = [
    (pa.int64(), pa.int32()),
    (pa.int64(), pa.float64()),
    (pa.int32(), pa.float32()),
    (pa.int8(), pa.uint64()),
    (pa.uint64(), pa.int64()),
    (pa.float64(), pa.float32()),
    (pa.decimal128(5, 2), pa.decimal128(6, 4)),
    (pa.date32(), pa.timestamp("us", "UTC")),
    (pa.date32(), pa.timestamp("ns")),
    (pa.string(), pa.binary()),
    (pa.timestamp("us"), pa.timestamp("ns")),
    (pa.struct([("a", pa.int8())]), pa.struct([("b", pa.int8())])),
]


@pytest.mark.parametrize(("old", "new"), WIDER, ids=str)
def test_a_wider_type_holds_the_old_values(old, new):
    assert is_wider(old, new)
    values = pa.array([1, 100], pa.int64())
    if pa.types.is_list(old):
        values = pa.array([[1], None], old)
    elif pa.types.is_struct(old):
        values = pa.array([{"a": 1}, None], old)
    elif pa.types.is_string(old):
        values = pa.array(["a", None], old)
    elif pa.types.is_decimal(old):
        values = pa.array([decimal.Decimal("1.25"), None], old)
    elif pa.types.is_date(old):
        values = pa.array([datetime.date(2024, 1, 1), None], old)
    else:
        values = values.cast(old) if not pa.types.is_float16(old) else values.cast(pa.float32()).cast(old)
    table = make_table(pa.schema([("id", pa.int8()), ("x", old)]))
    table.append(pa.table({"id": pa.array([1, 2], pa.int8()), "x": values}))
    table.widen_column("x", new)
    assert table.schema.field("x").type == new
    found = [one["x"] for one in sorted(table.to_arrow().to_pylist(), key=lambda one: one["id"])]
    plain = [{"a": 1, "b": None} if isinstance(one, dict) else one for one in values.to_pylist()]
    if pa.types.is_date(old):
        plain[0] = datetime.datetime(2024, 1, 1)
    assert found == plain
    assert table.at(version=1).schema.field("x").type == old
    table.delete("id = 1")
    assert table.count() == 1 and table.verify().findings == ()


@pytest.mark.parametrize(("old", "new"), NOT_WIDER, ids=str)
def test_a_type_that_does_not_hold_all_old_values_is_refused(old, new):
    table = make_table(pa.schema([("id", pa.int8()), ("x", old)]))
    with pytest.raises(SchemaError, match="x is a"):
        table.widen_column("x", new)


def test_columns_are_put_in_another_order(table):
    table.reorder_columns(["rating", "title"])
    assert table.schema.names == ["rating", "title", "id", "year"]
    assert row(table, 1) == film(1) and table.at(version=1).schema.names == ["id", "title", "year", "rating"]


def test_what_cannot_be_changed_is_refused():
    table = make_table(key=("id",), partition_by=("year",), constraints={"c": "rating >= 0"})
    for call, why in [
        (lambda: table.drop_column("id"), "key"),
        (lambda: table.drop_column("rating"), "constraint c"),
        (lambda: table.drop_column("year"), "partition"),
        (lambda: table.rename_column("year", "y"), "partition"),
        (lambda: table.widen_column("year", pa.int64()), "partition"),
        (lambda: table.rename_column("id", "title"), "already"),
        (lambda: table.add_column("title", pa.int8()), "already"),
        (lambda: table.add_column("_change", pa.int8()), "cannot be called"),
        (lambda: table.drop_constraint("none"), "no constraint"),
        (lambda: table.add_constraint("c", "id > 0"), "already"),
    ]:
        with pytest.raises(SchemaError, match=why):
            call()
    for call in (lambda: table.drop_column("none"), lambda: table.reorder_columns(["none"])):
        with pytest.raises(InputError, match="no column"):
            call()
    assert table.version == 0


def test_a_constraint_is_demanded_of_rows_that_are_there_too(table):
    with pytest.raises(InputError, match="rating, row 0: 0.5"):
        table.add_constraint("good", "rating >= 1")
    table.delete("id = 1")
    table.add_constraint("good", "rating >= 1")
    for call in (
        lambda: table.append([film(9), film(8, rating=0.5)]),
        lambda: table.update({"rating": 0.5}, "id = 2"),
        lambda: table.merge([{"id": 2, "rating": 0.5}]),
        lambda: table.overwrite([film(8, rating=0.5)]),
    ):
        with pytest.raises(InputError, match="rating, row [01]: 0.5.*good"):
            call()
    table.append([film(8, rating=None)])
    table.drop_constraint("good")
    table.append([film(9, rating=0.5)])


def test_a_column_becomes_never_null_only_if_it_is_not(table):
    table.append([film(3, title=None)])
    with pytest.raises(InputError, match="title, row 2: None"):
        table.set_nullable("title", False)
    table.delete("title is null")
    table.set_nullable("title", False)
    with pytest.raises(InputError, match="never null"):
        table.update({"title": None}, "id = 1")
    table.set_nullable("title", True)
    table.update({"title": None}, "id = 1")


def test_nulls_inside_of_nested_values_are_refused_where_none_may_be():
    inner = pa.list_(pa.field("element", pa.int8(), nullable=False))
    pair = pa.struct([pa.field("a", pa.int8(), nullable=False)])
    table = make_table(pa.schema([("id", pa.int8()), ("l", inner), ("s", pair)]))
    table.append([{"l": [1], "s": {"a": 1}}, {"l": None, "s": None}])
    with pytest.raises(InputError, match=r"l\[\]"):
        table.append([{"l": [None]}])
    with pytest.raises(InputError, match=r"s\.a"):
        table.append([{"s": {"a": None}}])


def test_a_foreign_writers_new_column_is_read_by_its_own_name(table):
    text = table.files.snapshot().metadata.schema_string
    schema = json.loads(text)
    schema["fields"].append({"name": "extra", "type": "double", "nullable": True, "metadata": {}})
    table.rename_column("title", "name")
    schema["fields"][1]["name"] = "name"
    table.files.change_schema(json.dumps(schema))
    assert row(table, 1)["extra"] is None and row(table, 1)["name"] == "film 1"


def test_what_others_noted_on_a_field_stays_with_it():
    fields = [
        {"name": "id", "type": "long", "nullable": True, "metadata": {"comment": "the number"}},
        {"name": "x", "type": "string", "nullable": True, "metadata": {}},
    ]
    table = make_table(json.dumps({"type": "struct", "fields": fields}))
    table.files.change_schema(json.dumps({"type": "struct", "fields": fields}))
    table.rename_column("id", "number")
    table.add_column("id", pa.int8())
    said = {one["name"]: one["metadata"] for one in json.loads(table.files.snapshot().metadata.schema_string)["fields"]}
    assert said == {"number": {"comment": "the number"}, "x": {}, "id": {}}


def test_two_who_add_columns_at_once_both_get_theirs(table):
    other = Table.open(table.files.store, settings=FAST)
    other.files.snapshot()
    table.add_column("a", pa.uint8())
    other.add_column("b", pa.uint16())
    assert table.schema.names[-2:] == ["a", "b"]
    assert [field.type for field in table.schema][-2:] == [pa.uint8(), pa.uint16()]

"""Models from Arrow schemas."""

import pyarrow as pa
import pytest

from deltaic.errors import DecodeError, InputError, NotFoundError, SchemaError
from deltaic.schema.logical import LogicalType
from deltaic.schema.model import Model, VectorColumn

MOVIE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("title", pa.string()),
        ("released", pa.timestamp("us", "UTC")),
        ("studio", pa.struct([("name", pa.string()), ("size", pa.int32())])),
        ("cast", pa.list_(pa.struct([("actor", pa.string()), ("age", pa.uint8())]))),
        ("tags", pa.list_(pa.string())),
        ("scores", pa.map_(pa.string(), pa.float64())),
    ]
)


def test_columns_become_fields_and_nested_columns_types():
    model = Model.from_arrow(MOVIE, "Movie", key="id")
    assert str(model) == "\n\n".join(
        [
            "String {\n\tstring value;\n}",
            "MovieStudio {\n\tString name;\n\tint size;\n}",
            "MovieCast {\n\tString actor;\n\tint age;\n}",
            "ListOfMovieCast List<MovieCast>;",
            "ListOfString List<String>;",
            "Double {\n\tdouble value;\n}",
            "MapOfStringToDouble Map<String,Double> @HashKey(value);",
            "Movie @PrimaryKey(id) {\n\tlong id;\n\tString title;\n\tlong released;\n\tMovieStudio studio;\n"
            "\tListOfMovieCast cast;\n\tListOfString tags;\n\tMapOfStringToDouble scores;\n}",
        ]
    )
    assert model.roots == ("Movie",)
    assert model.logical_of("Movie", "id") == LogicalType("l", nullable=False)
    assert str(model.logical_of("Movie", "released")) == "timestamp[us, UTC]"
    assert str(model.logical_of("Movie", "title")) == "string"
    assert str(model.logical_of("MovieCast", "age")) == "uint8"
    assert model.logical["MapOfStringToDouble"]["key"] == LogicalType("u", nullable=False)


def test_texts_lie_inline_where_asked():
    inline = Model.from_arrow(MOVIE, "Movie", inline_strings=["title"])
    assert "\tstring title;" in str(inline) and "\tString name;" in str(inline)
    everywhere = Model.from_arrow(MOVIE, "Movie", inline_strings=True)
    assert "\tstring title;" in str(everywhere) and "\tstring name;" in str(everywhere)
    with pytest.raises(NotFoundError, match="no column 'titel'"):
        Model.from_arrow(MOVIE, "Movie", inline_strings=["titel"])


def test_metadata_names_the_type_of_a_struct():
    struct = pa.struct([("a", pa.int32())])
    schema = pa.schema(
        [
            pa.field("one", struct, metadata={"deltaic.type": "Thing"}),
            pa.field("many", pa.list_(struct), metadata={"deltaic.type": "Thing"}),
            pa.field("more", pa.list_(pa.field("item", struct, metadata={"deltaic.type": "Other"}))),
        ]
    )
    assert Model.from_arrow(schema, "Row").schemas.names == ("Thing", "ListOfThing", "Other", "ListOfOther", "Row")


def test_columns_that_differ_only_in_layout_share_boxed_types_but_not_lists():
    schema = pa.schema(
        [("a", pa.list_(pa.string())), ("b", pa.list_(pa.large_string())), ("c", pa.large_list(pa.string()))]
    )
    model = Model.from_arrow(schema, "Row")
    assert model.schemas.names == ("String", "ListOfString", "RowBList", "Row")
    assert [field.referenced for field in model.schemas.object_schema("Row").fields] == [
        "ListOfString",
        "RowBList",
        "ListOfString",
    ]
    assert model.logical["RowBList"]["element"] == LogicalType("U")
    assert model.logical["Row"]["c"] == LogicalType("+L")


def test_null_structs_in_lists_get_a_type_in_between_when_asked_for():
    nullable = pa.list_(pa.struct([("a", pa.int32())]))
    never = pa.list_(pa.field("item", pa.struct([("a", pa.int32())]), nullable=False))
    plain = Model.from_arrow(pa.schema([("x", nullable)]), "Row")
    assert plain.schemas.names == ("RowX", "ListOfRowX", "Row")
    kept = Model.from_arrow(pa.schema([("x", nullable), ("y", never)]), "Row", keep_null_elements=True)
    assert kept.schemas.names == ("RowX", "NullableRowX", "ListOfNullableRowX", "RowY", "ListOfRowY", "Row")
    assert kept.logical["ListOfNullableRowX"]["element"] == LogicalType("+s", wide=True)


def test_small_types_in_lists_have_boxed_types_of_their_own():
    schema = pa.schema(
        [("days", pa.list_(pa.date32())), ("bytes", pa.list_(pa.uint8())), ("longs", pa.list_(pa.int64()))]
    )
    model = Model.from_arrow(schema, "Row")
    assert {"Date32", "Uint8", "Long"} <= set(model.schemas.names)
    assert str(model.logical_of("Date32", "value")) == "date32"


def test_wide_columns_are_stored_wider():
    schema = pa.schema([("a", pa.int64()), ("b", pa.int32()), ("c", pa.int64())])
    model = Model.from_arrow(schema, "Row", wide=["a", "b"])
    assert str(model) == "Row {\n\tbytes a;\n\tlong b;\n\tlong c;\n}"


def test_vectors_are_beside_the_record():
    vector = pa.list_(pa.float32(), 384)
    schema = pa.schema(
        [("id", pa.int64()), ("embedding", vector), pa.field("other", vector, metadata={"deltaic.vector": ""})]
    )
    model = Model.from_arrow(schema, "Doc", key="id", vectors=["embedding"])
    assert model.vectors == (VectorColumn("Doc", "embedding", 384), VectorColumn("Doc", "other", 384))
    assert str(model) == "Doc @PrimaryKey(id) {\n\tlong id;\n}"
    with pytest.raises(SchemaError, match="needs a primary key"):
        Model.from_arrow(schema, "Doc", vectors=["embedding"])
    with pytest.raises(SchemaError, match=r"Doc.id: a vector is a fixed-size list of float32"):
        Model.from_arrow(schema, "Doc", key="id", vectors=["id"])


def test_a_fixed_size_list_that_is_no_vector_is_a_list_of_that_size():
    model = Model.from_arrow(pa.schema([("xyz", pa.list_(pa.float32(), 3))]), "Row")
    assert model.logical["Row"]["xyz"] == LogicalType("+w:3")


def test_any_object_with_the_arrow_interface_is_taken():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"id": [1], "name": ["a"], "tags": [["x"]]})
    for source in (frame, frame.to_arrow(), frame.to_arrow().schema):
        assert Model.from_arrow(source, "Row").schemas.names == ("String", "ListOfString", "Row")


@pytest.mark.parametrize(
    ("schema", "error", "message"),
    [
        (pa.schema([("u", pa.dense_union([pa.field("a", pa.int8())]))]), InputError, r"Row.u: Hollow has no place"),
        (pa.schema([("i", pa.month_day_nano_interval())]), InputError, r"Row.i: there is no logical type"),
        (pa.schema([("r", pa.run_end_encoded(pa.int32(), pa.int8()))]), InputError, r"Row.r: Hollow has no place"),
        (pa.schema([("a", pa.int8()), ("a", pa.int8())]), SchemaError, "two columns are called 'a'"),
        (pa.list_(pa.int8()), SchemaError, "not from '\\+l'"),
    ],
)
def test_what_has_no_place_is_refused_with_its_column(schema, error, message):
    with pytest.raises(error, match=message):
        Model.from_arrow(schema, "Row")


def test_a_key_must_be_a_column():
    with pytest.raises(SchemaError, match=r"primary key of type Movie: segment 1 \('nope'\)"):
        Model.from_arrow(MOVIE, "Movie", key="nope")


def test_shards_are_for_types_that_exist():
    assert dict(Model.from_arrow(MOVIE, "Movie", shards={"String": 4}).shards) == {"String": 4}
    with pytest.raises(NotFoundError, match="no type 'Strings'"):
        Model.from_arrow(MOVIE, "Movie", shards={"Strings": 4})
    with pytest.raises(SchemaError, match="power of two"):
        Model.from_arrow(MOVIE, "Movie", shards={"String": 3})


def test_a_model_survives_its_text_and_its_tag():
    model = Model.from_arrow(MOVIE, "Movie", key="id")
    parsed = Model.parse(str(model))
    assert parsed.schemas == model.schemas and parsed.roots == ("Movie",)
    assert Model.from_schemas(parsed.schemas, model.types_tag()) == model
    with pytest.raises(DecodeError):
        Model.from_schemas(parsed.schemas, "{")


def test_too_deep_a_nesting_is_refused():
    deep = pa.int8()
    for _ in range(200):
        deep = pa.list_(deep)
    with pytest.raises(SchemaError, match="more than 64 deep"):
        Model.from_arrow(pa.schema([("deep", deep)]), "Row")

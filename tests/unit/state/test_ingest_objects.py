"""Rows from Python objects of any class library and from dicts, and what is refused."""

import datetime
import decimal
import enum
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any

import msgspec
import pytest

from deltaic.errors import InputError
from deltaic.schema.annotations import Boxed, Float32, Inline, Int8, Int32, digits, key, timestamp
from deltaic.schema.model import Model
from deltaic.schema.text import parse_schemas
from deltaic.state.ingest import CanonicalIngest, ingest_dicts, ingest_objects
from deltaic.state.write import WriteState

attrs = pytest.importorskip("attrs")
pydantic = pytest.importorskip("pydantic")


class Genre(enum.Enum):
    DRAMA = 1
    SCIENCE = "science"


@key("id")
@dataclass
class Actor:
    id: int
    name: str
    born: Int32 | None = None


@key("id")
@dataclass
class Movie:
    id: int
    title: str
    slug: Annotated[str, Inline] = ""
    rating: Float32 = 0.0
    genre: Genre | None = None
    runtime: Annotated[int, Boxed] | None = None
    released: datetime.date | None = None
    price: Annotated[decimal.Decimal, digits(6, 2)] | None = None
    seen: Annotated[datetime.datetime, timestamp("us")] | None = None
    cast: list[Actor] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    votes: dict[str, Actor] = field(default_factory=dict)


MODEL = Model.of(Movie)


def movies() -> list[Movie]:
    ann = Actor(1, "Ann", 1950)
    return [
        Movie(
            1,
            "Ann",
            "ann",
            1.5,
            Genre.DRAMA,
            90,
            datetime.date(1970, 1, 2),
            decimal.Decimal("12.30"),
            datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
            [ann, Actor(2, "Bob"), ann],
            {"DRAMA"},
            {"Bob": Actor(3, "Cid"), "Cid": ann},
        ),
        Movie(2, "Bob", genre=Genre.SCIENCE),
    ]


def content(state: WriteState) -> dict[str, list[bytes]]:
    maps = {schema.name: state._types[schema.name].ordinals.map for schema in state.schemas}
    return {name: [held.record(ordinal) for ordinal in range(held.max_ordinal + 1)] for name, held in maps.items()}


def test_objects_are_read_by_attribute_depth_first() -> None:
    state = WriteState(MODEL.schemas)
    assert ingest_objects(state, "Movie", movies(), model=MODEL).tolist() == [0, 1]
    found = content(state)
    assert [record[1:] for record in found["String"]] == [b"Ann", b"Bob", b"DRAMA", b"Cid"]
    assert found["Genre"] == [b"\x05DRAMA", b"\x07SCIENCE"]
    assert found["Actor"] == [b"\x02\x00\x9e\x3c", b"\x04\x01\x80", b"\x06\x03\x80"]
    assert found["ListOfActor"] == [b"\x03\x00\x01\x00", b"\x00"]
    released, price, seen = b"\x02", b"\x93\x1c", b"\xfa\x89\x00"
    assert found["Movie"][0].startswith(b"\x02\x00\x03ann\x3f\xc0\x00\x00\x00\x00" + released + price + seen)


def test_the_same_values_as_dicts_give_the_same_records() -> None:
    rows = [
        {
            "id": 1,
            "title": "Ann",
            "slug": "ann",
            "rating": 1.5,
            "genre": "DRAMA",
            "runtime": 90,
            "released": "1970-01-02",
            "price": "12.30",
            "seen": "1970-01-01T00:00:01Z",
            "cast": [
                {"id": 1, "name": "Ann", "born": 1950},
                {"id": 2, "name": "Bob"},
                {"id": 1, "name": "Ann", "born": 1950},
            ],
            "tags": ["DRAMA"],
            "votes": {"Bob": {"id": 3, "name": "Cid"}, "Cid": {"id": 1, "name": "Ann", "born": 1950}},
        },
        {"id": 2, "title": "Bob", "slug": "", "rating": 0, "genre": "SCIENCE", "cast": [], "tags": [], "votes": []},
    ]
    by_object, by_dict = WriteState(MODEL.schemas), WriteState(MODEL.schemas)
    ingest_objects(by_object, "Movie", movies(), model=MODEL)
    ingest_dicts(by_dict, "Movie", msgspec.json.decode(msgspec.json.encode(rows)), model=MODEL)
    assert content(by_dict) == content(by_object)


@attrs.define
class AttrsPoint:
    x: int
    name: str | None = None


class PydanticPoint(pydantic.BaseModel):
    x: int
    name: str | None = None


class StructPoint(msgspec.Struct):
    x: int
    name: str | None = None


@pytest.mark.parametrize("cls", [AttrsPoint, PydanticPoint, StructPoint])
def test_classes_of_other_libraries_are_read_too(cls: Any) -> None:
    model = Model.of(cls)
    state = WriteState(model.schemas)
    assert ingest_objects(
        state, cls.__name__, [cls(x=1, name="a"), cls(x=2), cls(x=1, name="a")], model=model
    ).tolist() == [
        0,
        1,
        0,
    ]
    assert content(state)[cls.__name__] == [b"\x02\x00", b"\x04\x80"]


def test_maps_are_objects_pairs_or_entries_and_json_keys_may_be_numbers() -> None:
    schemas = parse_schemas(
        "Integer {int value;} MapOfIntegerToInteger Map<Integer,Integer>; Row {MapOfIntegerToInteger m;}", ""
    )
    forms: list[Any] = [
        {"1": 2, "-3": 4},
        {1: 2, -3: 4},
        [[1, 2], (-3, 4)],
        [{"key": 1, "value": 2}, {"key": -3, "value": 4}],
    ]
    states = [WriteState(schemas) for _ in forms]
    for state, form in zip(states, forms, strict=True):
        ingest_dicts(state, "Row", [{"m": form}])
        assert content(state) == content(states[0])
    assert content(states[0])["Integer"] == [b"\x02", b"\x04", b"\x05", b"\x08"]


def test_objects_of_other_types_are_refused_with_row_and_column() -> None:
    state = WriteState(MODEL.schemas)
    with pytest.raises(InputError, match=r"row 1: a Actor where a Movie is expected"):
        ingest_objects(state, "Movie", [movies()[1], Actor(1, "a")], model=MODEL)
    wrong = Movie(3, "c", cast=[Actor(1, "a"), "Bob"])  # type: ignore[list-item]
    with pytest.raises(InputError, match=r"column 'cast\[\]', row 1: a str where a Actor is expected"):
        ingest_objects(state, "Movie", [movies()[1], wrong], model=MODEL)
    with pytest.raises(InputError, match=r"column 'title', row 0: SimpleNamespace has no attribute 'title'"):
        ingest_objects(state, "Movie", [SimpleNamespace(id=1)])
    with pytest.raises(InputError, match="row 1 is null"):
        ingest_objects(state, "Movie", [movies()[0], None], model=MODEL)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": "1"}, r"column 'id', row 1: '1' \(str\) is no int64"),
        ({"id": True}, r"column 'id', row 1: True \(bool\) is no int64"),
        ({"id": 1.0}, r"column 'id', row 1: 1.0 \(float\) is no int64"),
        ({"id": 2**63}, r"column 'id', row 1: 9223372036854775808 is out of the range of int64"),
        ({"id": -(2**63)}, r"column 'id', row 1: -9223372036854775808 means null in a Hollow LONG"),
        ({"title": 5}, r"column 'title', row 1: 5 \(int\) is no text"),
        ({"slug": b"a"}, r"column 'slug', row 1: b'a' \(bytes\) is no text"),
        ({"rating": "1"}, r"column 'rating', row 1: '1' \(str\) is no float32"),
        ({"rating": 1e300}, r"column 'rating', row 1: 1e\+300 is out of the range of float32"),
        ({"rating": 10**400}, r"column 'rating', row 1: a number too large for float32"),
        ({"released": "soon"}, r"column 'released', row 1: 'soon' \(str\) is no date32"),
        ({"released": 2**31}, r"column 'released', row 1: 2147483648 is out of the range of date32"),
        ({"price": "1.234"}, r"column 'price', row 1: 1.234 does not fit"),
        ({"price": "many"}, r"column 'price', row 1: 'many' \(str\) is no decimal128"),
        ({"seen": "1970-01-01T00:00:00"}, r"column 'seen', row 1: .* has no time zone"),
        ({"cast": "Bob"}, r"column 'cast', row 1: a str where a list is expected"),
        ({"cast": {"id": 1}}, r"column 'cast', row 1: a dict where a list is expected"),
        ({"cast": [None]}, r"column 'cast\[\]', row 1: a Actor inside a collection is null"),
        ({"cast": [{"id": 1}, {"id": "x"}]}, r"column 'cast\[\].id', row 1: 'x' \(str\) is no int64"),
        ({"votes": [1]}, r"column 'votes', row 1: 1 is no pair of key and value"),
        ({"votes": {"a": None}}, r"column 'votes\{value\}', row 1: a Actor inside a collection is null"),
        ({"titel": "a"}, r"row 1: type Movie has no field 'titel'; fields: cast, genre"),
        ({"cast": [{"nam": "a"}]}, r"column 'cast\[\]', row 1: type Actor has no field 'nam'"),
        ([1], r"row 1: list where a mapping of Movie is expected"),
    ],
)
def test_dicts_that_do_not_fit_are_refused_with_column_row_and_value(row: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ingest_dicts(WriteState(MODEL.schemas), "Movie", [{"id": 1}, row], model=MODEL)


def test_unknown_keys_can_be_ignored() -> None:
    state = WriteState(MODEL.schemas)
    ingest_dicts(state, "Movie", [{"id": 1, "more": 2, "cast": [{"id": 1, "x": 3}]}], model=MODEL, ignore_unknown=True)
    assert content(state)["Actor"] == [b"\x02\x80\x80"]


def test_bytes_come_as_base64_and_small_numbers_keep_their_range() -> None:
    @dataclass
    class Row:
        data: bytes
        small: Int8

    model = Model.of(Row)
    state = WriteState(model.schemas)
    ingest_dicts(state, "Row", [{"data": "AP8=", "small": -128}], model=model)
    assert content(state)["Row"] == [b"\x02\x00\xff\x81\x7f"]
    with pytest.raises(InputError, match=r"column 'data', row 0: 'A' \(str\) is no binary"):
        ingest_dicts(state, "Row", [{"data": "A"}], model=model)
    with pytest.raises(InputError, match=r"column 'small', row 0: 128 is out of the range of int8"):
        ingest_dicts(state, "Row", [{"small": 128}], model=model)


def test_an_object_that_leads_back_to_itself_is_refused() -> None:
    schemas = parse_schemas("Node { int id; Node next; }", "<test>")
    node = SimpleNamespace(id=1, next=None)
    node.next = node
    with pytest.raises(InputError, match="nested more than 200 deep"):
        ingest_objects(WriteState(schemas), "Node", [node])


def test_canonical_ingest_wants_a_canonical_state() -> None:
    with pytest.raises(InputError, match="not in canonical order"):
        CanonicalIngest(WriteState(MODEL.schemas))


def test_lone_surrogates_survive() -> None:
    schemas = parse_schemas("Row { string a; }", "<test>")
    state = WriteState(schemas)
    ingest_dicts(state, "Row", [{"a": "\ud800"}])
    assert content(state)["Row"] == [b"\x03\x83\xb0\x00"]

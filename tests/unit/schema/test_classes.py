"""Models from Python classes, beside what Hollow's object mapper makes of their Java twins."""

import collections
import datetime
import decimal
import enum
import pickle
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal, NewType, Optional

import attrs
import msgspec
import pydantic
import pytest

from deltaic.errors import SchemaError
from deltaic.schema.annotations import (
    Boxed,
    Float32,
    HashKey,
    Inline,
    Int8,
    Int16,
    Int32,
    Shards,
    Transient,
    TypeName,
    UInt16,
    UInt64,
    Vector,
    Wide,
    digits,
    duration,
    key,
    shards,
    timestamp,
    type_name,
)
from deltaic.schema.model import Model, VectorColumn
from deltaic.schema.text import parse_schemas

TWIN = Path(__file__).with_name("java_twin.txt")


class Rating(enum.Enum):
    G = 1
    PG = 2
    R = 3


@dataclass
class Base:
    baseId: Int32
    baseName: str


@key("id")
@dataclass
class Actor:
    id: int
    name: str
    alias: Annotated[str, Inline]
    birthYear: Int32


@key("baseKey")
@dataclass
class KeyedBase:
    baseKey: Int32


@dataclass
class Child(KeyedBase):
    own: int


@dataclass
class Pair:
    a: Int32
    b: Int32


@dataclass
class Only:
    pair: Pair


@type_name("Renamed")
@shards(8)
@dataclass
class Other:
    s: Annotated[Int16, Boxed]
    b: Annotated[Int8, Boxed]
    c: Annotated[UInt16, TypeName("Character")]


@key("id", "title")
@dataclass
class Movie(Base):
    id: int
    year: Int32
    rating: Float32
    score: float
    live: bool
    title: str
    blob: bytes
    letters: Annotated[str, Inline]
    boxedInt: Annotated[Int32, Boxed]
    boxedLong: Annotated[int, Boxed]
    boxedBoolean: Annotated[bool | None, Boxed]
    boxedFloat: Annotated[Float32, Boxed] | None
    boxedDouble: Annotated[float, Boxed]
    inlineInt: Int32 | None
    inlineLong: Annotated[int | None, Inline]
    inlineBoolean: bool | None
    inlineFloat: Optional[Float32]  # noqa: UP045
    inlineDouble: float | None
    certificate: Rating
    released: datetime.datetime
    cast: list[Actor]
    crew: set[Actor]
    roles: dict[str, Actor]
    tags: frozenset[str]
    numbers: Sequence[Int32]
    nested: Mapping[Int32, list[str]]
    pairs: set[Pair]
    pairMap: dict[Pair, Pair]
    onlys: set[Only]
    byA: Annotated[set[Pair], HashKey("a"), TypeName("PairsByA")]
    byOrdinal: Annotated[set[Actor], HashKey(), TypeName("ActorsByOrdinal")]
    setOfLists: set[tuple[str, ...]]
    dates: dict[datetime.datetime, Rating]
    slogan: Annotated[str, TypeName("Slogan")]
    other: Other
    child: Child
    children: set[Child]
    sh: Int16
    by: Int8
    ch: UInt16
    gone: Annotated[int, Transient]
    shared: ClassVar[int]
    longs: Annotated[list[int], Shards(4)]
    ratings: set[Rating]


def test_a_java_class_model_and_its_python_twin_give_the_same_types_in_the_same_order():
    model = Model.of(Movie)
    assert str(model) == str(parse_schemas(TWIN.read_text(), TWIN.name))
    noted = [line.split()[2:] for line in TWIN.read_text().splitlines() if line.startswith("// shards")]
    assert dict(model.shards) == {name: int(count) for name, count in noted}
    assert f"// hash {model.schemas.hash()}" in TWIN.read_text()
    assert model.roots == ("Movie",)
    assert model.classes["Renamed"] is Other


def test_a_model_travels_between_processes():
    model = Model.of(Movie)
    copied = pickle.loads(pickle.dumps(model))
    assert copied == model and copied.classes == model.classes
    with pytest.raises(TypeError):
        copied.shards["Movie"] = 2


def test_classes_of_every_library_give_the_same_model():
    @key("id")
    @attrs.define
    class AttrsFilm:
        id: int
        title: str
        tags: list[str]

    @key("id")
    class PydanticFilm(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(frozen=True)
        id: int
        title: str
        tags: list[str]
        _cache: int = 0

    class MsgspecFilm(msgspec.Struct):
        __deltaic_key__ = "id"
        id: int
        title: str
        tags: list[str]

    class PlainFilm:
        __deltaic_key__ = ("id",)
        id: int
        title: str
        tags: list[str]
        shared: ClassVar[str] = ""

    class TupleFilm(typing.NamedTuple):
        id: int
        title: str
        tags: list[str]

    TupleFilm = key("id")(TupleFilm)

    @key("id")
    @dataclass(slots=True, frozen=True)
    class SlotsFilm:
        id: int
        title: str
        tags: list[str]

    texts = {
        str(Model.of(type_name("Film")(cls)))
        for cls in (AttrsFilm, PydanticFilm, MsgspecFilm, PlainFilm, TupleFilm, SlotsFilm)
    }
    assert texts == {
        "String {\n\tstring value;\n}\n\nListOfString List<String>;\n\n"
        "Film @PrimaryKey(id) {\n\tlong id;\n\tString title;\n\tListOfString tags;\n}"
    }


def test_reading_classes_imports_no_class_library():
    import subprocess
    import sys

    code = (
        "import sys, deltaic.schema.model, deltaic.schema.annotations\n"
        "print([name for name in ('attrs', 'attr', 'pydantic', 'pyarrow', 'nanoarrow') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_logical_types_are_noted_where_hollow_cannot_say_them():
    @dataclass
    class Event:
        day: datetime.date
        at: Annotated[datetime.datetime, timestamp("us", "Europe/Berlin")]
        took: Annotated[datetime.timedelta, duration("ms")]
        price: Annotated[decimal.Decimal, digits(10, 2)]
        big: Annotated[decimal.Decimal, digits(30, 4)]
        count: UInt64
        extreme: Annotated[int, Wide]
        days: list[datetime.date]
        when: datetime.datetime
        plain: int

    model = Model.of(Event)
    fields = {field.name: field.type.value for field in model.schemas.object_schema("Event").fields}
    assert fields == {
        "day": "INT",
        "at": "LONG",
        "took": "LONG",
        "price": "LONG",
        "big": "BYTES",
        "count": "LONG",
        "extreme": "BYTES",
        "days": "REFERENCE",
        "when": "REFERENCE",
        "plain": "LONG",
    }
    assert str(model.logical_of("Event", "at")) == "timestamp[us, Europe/Berlin]"
    assert str(model.logical_of("Event", "when")) == "timestamp[ms, UTC]"
    assert str(model.logical_of("Event", "plain")) == "int64"
    assert model.logical_of("Event", "days") is None
    assert model.schemas["ListOfDate32"].references() == ("Date32",)
    assert Model.from_schemas(model.schemas, model.types_tag()).logical == model.logical


def test_a_type_may_refer_to_itself():
    @dataclass
    class Category:
        name: str
        parent: Optional["Category"]
        children: "list[Category]"

    model = Model.of(Category)
    assert model.schemas.names == ("String", "ListOfCategory", "Category")
    assert model.schemas.object_schema("Category").references() == ("String", "Category", "ListOfCategory")


def test_a_vector_is_no_field_and_needs_a_key():
    @key("id")
    @dataclass
    class Doc:
        id: int
        embedding: Annotated[list[float], Vector(384)]

    @dataclass
    class Keyless:
        embedding: Annotated[list[float], Vector(384)]

    model = Model.of(Doc)
    assert model.vectors == (VectorColumn("Doc", "embedding", 384),)
    assert str(model) == "Doc @PrimaryKey(id) {\n\tlong id;\n}"
    with pytest.raises(SchemaError, match=r"Keyless.embedding: .* needs a primary key"):
        Model.of(Keyless)


def test_new_types_and_literals_are_what_they_are_made_of():
    @dataclass
    class Record:
        id: NewType("RecordId", int)
        state: Annotated[Literal["on", "off", None], Inline]

    assert str(Model.of(Record)) == "Record {\n\tlong id;\n\tstring state;\n}"


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (int | str, r"Record.field: a choice of types \(int \| str\)"),
        (decimal.Decimal, r"Record.field: say how many digits"),
        (tuple[int, str], r"Record.field: a tuple of several types"),
        (list, r"Record.field: list does not say what it holds"),
        (complex, r"Record.field: complex has no place"),
        (typing.Any, r"Record.field: Any has no place"),
        (collections.Counter, r"has no place"),
        (Annotated[list[int], Inline], r"Record.field: only scalars can be inline"),
        (list[Annotated[str, Inline]], r"Record.field\[0\]: a value inside a collection cannot be inline"),
        (Annotated[list[int], HashKey("value")], r"a list has no hash key"),
        (Annotated[list[int], timestamp("us")], r"cannot be timestamp"),
        (Annotated[set[Pair], HashKey("c")], r"hash key of type SetOfPair: segment 1 \('c'\)"),
        ("Nowhere", r"Nowhere"),
    ],
)
def test_an_annotation_without_a_place_is_refused_with_its_field(annotation, message):
    cls = type("Record", (), {"__annotations__": {"field": annotation}, "__qualname__": "Record"})
    with pytest.raises(SchemaError, match=message):
        Model.of(cls)


def test_two_classes_of_one_name_are_refused():
    first = dataclass(type("Same", (), {"__annotations__": {"a": int}}))
    second = dataclass(type("Same", (), {"__annotations__": {"a": int}}))
    with pytest.raises(SchemaError, match="two classes make the type Same"):
        Model.of(first, second)


def test_one_set_type_with_two_hash_keys_is_refused():
    @dataclass
    class Holder:
        one: Annotated[set[Pair], HashKey("a")]
        two: Annotated[set[Pair], HashKey("b")]

    with pytest.raises(SchemaError, match=r"Holder.two: type SetOfPair is declared twice and differs"):
        Model.of(Holder)


def test_a_primary_key_that_leads_nowhere_is_refused():
    with pytest.raises(SchemaError, match=r"primary key of type Wrong: segment 1 \('nope'\)"):
        Model.of(key("nope")(dataclass(type("Wrong", (), {"__annotations__": {"a": int}}))))


@pytest.mark.parametrize("count", [0, 3, -4])
def test_a_shard_count_is_a_power_of_two(count):
    with pytest.raises(SchemaError, match="power of two"):
        shards(count)
    with pytest.raises(SchemaError, match="power of two"):
        Shards(count)

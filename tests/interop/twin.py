"""The Python twin of `Twin.java`: the same classes, random objects of them, and their JSON and Arrow forms.

Sets are given as lists: the object mapper numbers elements in the order in which it meets them, and a Python set has
none that Java could repeat.
"""

import dataclasses
import datetime
import enum
import random
import struct
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from deltaic.schema.annotations import (
    Boxed,
    Float32,
    HashKey,
    Inline,
    Int8,
    Int16,
    Int32,
    Logical,
    Shards,
    Transient,
    TypeName,
    UInt16,
    key,
    shards,
    type_name,
)

T = TypeVar("T")
_TEXTS = ["", "a", "Solaris", "Ω", "日本語", "\U0001f600 wide", "\x00", "\x7f\x80", "x" * 200]
_LONE = ["\ud800", "\udc00 lone"]
_INTS = [0, 1, -1, 63, 64, -8192, 2**30, 2**31 - 1, -(2**31) + 1]
_LONGS = [*_INTS, 2**31, 2**53, -(2**40), 2**63 - 1, -(2**63) + 1]
_FLOATS = [0.0, -0.0, 1.0, -1.5, float("inf"), float("-inf"), 2.0**-149, 7.25]
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_FLOAT32 = frozenset({"rating", "boxedFloat", "inlineFloat"})


class Rating(enum.Enum):
    G = 1
    PG = 2
    R = 3


@dataclass
class Base:
    baseId: Int32
    baseName: str | None


@key("id")
@dataclass
class Actor:
    id: int
    name: str
    alias: Annotated[str | None, Inline]
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
    s: Annotated[Int16 | None, Boxed]
    b: Annotated[Int8 | None, Boxed]
    c: Annotated[UInt16 | None, TypeName("Character")]


@key("id", "title")
@dataclass
class Movie(Base):
    id: int
    year: Int32
    rating: Float32
    score: float
    live: bool
    title: str
    blob: bytes | None
    letters: Annotated[str | None, Inline]
    boxedInt: Annotated[Int32 | None, Boxed]
    boxedLong: Annotated[int | None, Boxed]
    boxedBoolean: Annotated[bool | None, Boxed]
    boxedFloat: Annotated[Float32 | None, Boxed]
    boxedDouble: Annotated[float | None, Boxed]
    inlineInt: Int32 | None
    inlineLong: int | None
    inlineBoolean: bool | None
    inlineFloat: Float32 | None
    inlineDouble: float | None
    certificate: Rating | None
    released: datetime.datetime | None
    cast: list[Actor] | None
    crew: set[Actor] | None
    roles: dict[str, Actor] | None
    tags: set[str] | None
    numbers: list[Int32] | None
    nested: dict[Int32, list[str]] | None
    pairs: set[Pair] | None
    pairMap: dict[Pair, Pair] | None
    onlys: set[Only] | None
    byA: Annotated[set[Pair] | None, HashKey("a"), TypeName("PairsByA")]
    byOrdinal: Annotated[set[Actor] | None, HashKey(), TypeName("ActorsByOrdinal")]
    setOfLists: set[tuple[str, ...]] | None
    dates: dict[datetime.datetime, Rating] | None
    slogan: Annotated[str | None, TypeName("Slogan")]
    other: Other | None
    child: Child | None
    children: set[Child] | None
    sh: Int16
    by: Int8
    ch: UInt16
    gone: Annotated[int, Transient]
    longs: Annotated[list[int] | None, Shards(4)]
    ratings: set[Rating] | None


@dataclass(frozen=True)
class Entries:
    """A map as its entries, in order; keys of classes without a hash are possible."""

    pairs: tuple[tuple[Any, Any], ...]

    def __iter__(self) -> typing.Iterator[tuple[Any, Any]]:
        return iter(self.pairs)


class Films:
    """Random movies; the same seed gives the same ones. Parts are drawn from pools, so that records repeat."""

    def __init__(self, seed: int, *, lone_surrogates: bool = True) -> None:
        self._random = choose = random.Random(seed)
        self._texts = [*_TEXTS, *(_LONE if lone_surrogates else ())]
        self._actors = [Actor(number % 17, self._text(), self._maybe(self._text), self._int()) for number in range(25)]
        self._pairs = [Pair(choose.randint(0, 4), choose.randint(-2, 2)) for _ in range(20)]
        self._children = [Child(choose.randint(0, 5), choose.choice(_LONGS)) for _ in range(10)]
        self.movies = [self.movie(number) for number in range(choose.randint(1, 40))]

    def change(self) -> list[Movie]:
        """Remove, change and add movies; gives those of the next version."""
        choose, kept = self._random, []
        for movie in self.movies:
            dice = choose.random()
            if dice < 0.7:
                kept.append(movie)
            elif dice < 0.9:
                other = self.movie(movie.id)
                names = choose.sample([each.name for each in dataclasses.fields(Movie)], 4)
                kept.append(dataclasses.replace(movie, **{name: getattr(other, name) for name in names}))
        kept += [self.movie(1000 + choose.randrange(1000)) for _ in range(choose.randint(0, 8))]
        if choose.random() < 0.3:
            choose.shuffle(kept)
        self.movies = kept
        return kept

    def movie(self, number: int) -> Movie:
        choose, maybe = self._random, self._maybe
        return Movie(
            baseId=self._int(),
            baseName=maybe(self._text),
            id=number,
            year=choose.choice([1972, 1979, self._int()]),
            rating=self._float32(),
            score=self._float(),
            live=choose.random() < 0.5,
            title=self._text(),
            blob=maybe(lambda: choose.randbytes(choose.choice([0, 1, 7, 300]))),
            letters=maybe(self._text),
            boxedInt=maybe(self._int),
            boxedLong=maybe(self._long),
            boxedBoolean=maybe(lambda: choose.random() < 0.5),
            boxedFloat=maybe(self._float32),
            boxedDouble=maybe(self._float),
            inlineInt=maybe(self._int),
            inlineLong=maybe(self._long),
            inlineBoolean=maybe(lambda: choose.random() < 0.5),
            inlineFloat=maybe(self._float32),
            inlineDouble=maybe(self._float),
            certificate=maybe(lambda: choose.choice(list(Rating))),
            released=maybe(self._date),
            cast=maybe(lambda: choose.choices(self._actors, k=choose.randint(0, 5))),
            crew=maybe(lambda: self._some(self._actors)),
            roles=maybe(lambda: self._map(self._text, lambda: choose.choice(self._actors))),
            tags=maybe(lambda: self._some(self._texts)),
            numbers=maybe(lambda: [self._int() for _ in range(choose.randint(0, 9))]),
            nested=maybe(lambda: self._map(self._int, lambda: choose.choices(self._texts, k=choose.randint(0, 3)))),
            pairs=maybe(lambda: self._some(self._pairs)),
            pairMap=maybe(lambda: self._map(lambda: choose.choice(self._pairs), lambda: choose.choice(self._pairs))),
            onlys=maybe(lambda: [Only(pair) for pair in self._some(self._pairs)]),
            byA=maybe(lambda: self._some(self._pairs)),
            byOrdinal=maybe(lambda: self._some(self._actors)),
            setOfLists=maybe(lambda: self._some([[], ["a"], ["a", "b"], ["Ω"], ["b", "a"]])),
            dates=maybe(lambda: self._map(self._date, lambda: choose.choice(list(Rating)))),
            slogan=maybe(self._text),
            other=maybe(self._other),
            child=maybe(lambda: choose.choice(self._children)),
            children=maybe(lambda: self._some(self._children)),
            sh=choose.choice([0, -(2**15) + 1, 2**15 - 1]),
            by=choose.choice([0, -127, 127]),
            ch=choose.choice([1, 65, 0xD800, 0xFFFF]),
            gone=7,
            longs=maybe(lambda: [self._long() for _ in range(choose.randint(0, 5))]),
            ratings=maybe(lambda: self._some(list(Rating))),
        )

    def _maybe(self, make: Callable[[], T]) -> Any:
        return None if self._random.random() < 0.2 else make()

    def _text(self) -> str:
        return str(self._random.choice([*self._texts, f"text {self._random.randrange(30)}"]))

    def _int(self) -> int:
        return self._random.choice([*_INTS, self._random.randint(-99, 99)])

    def _long(self) -> int:
        return self._random.choice([*_LONGS, self._random.randint(-(2**45), 2**45)])

    def _float(self) -> float:
        return self._random.choice([*_FLOATS, self._random.uniform(-1e9, 1e9)])

    def _float32(self) -> float:
        return float(struct.unpack("<f", struct.pack("<f", self._float()))[0])

    def _date(self) -> datetime.datetime:
        milliseconds = self._random.choice([0, -1, 999, self._random.randrange(-(2**41), 2**41)])
        return _EPOCH + datetime.timedelta(milliseconds=milliseconds)

    def _other(self) -> Other:
        choose = self._random
        return Other(
            self._maybe(lambda: choose.choice([-(2**15) + 1, 5])),
            self._maybe(lambda: choose.choice([-127, 5])),
            self._maybe(lambda: choose.choice([1, 0xFFFF])),
        )

    def _some(self, pool: Sequence[T]) -> Any:
        """Different elements, in random order."""
        distinct = list({repr(each): each for each in pool}.values())
        return self._random.sample(distinct, self._random.randint(0, min(6, len(distinct))))

    def _map(self, make_key: Callable[[], Any], make_value: Callable[[], Any]) -> Any:
        keys = {repr(made): made for made in (make_key() for _ in range(self._random.randint(0, 5)))}
        return Entries(tuple((made, make_value()) for made in keys.values()))


def as_json(value: Any, name: str = "") -> Any:
    """What `Rows.java` reads."""
    match value:
        case enum.Enum():
            return value.name
        case Entries():
            return [[as_json(key), as_json(mapped)] for key, mapped in value]
        case bytes():
            return value.hex()
        case float():
            return struct.pack(">f" if name in _FLOAT32 else ">d", value).hex()
        case datetime.datetime():
            return (value - _EPOCH) // datetime.timedelta(milliseconds=1)
        case list() | tuple():
            return [as_json(each) for each in value]
        case None | bool() | int() | str():
            return value
    return {
        field.name: as_json(getattr(value, field.name), field.name)
        for field in dataclasses.fields(value)
        if field.name != "gone"
    }


def as_arrow(movies: Sequence[Movie]) -> Any:
    """The same movies as an Arrow table."""
    import pyarrow as pa

    kind = arrow_type(Movie)
    schema = pa.schema(list(kind))
    columns = [pa.array([_plain(getattr(movie, field.name)) for movie in movies], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def arrow_type(hint: Any) -> Any:
    """The Arrow type of a field's annotation."""
    import pyarrow as pa

    if typing.get_origin(hint) is Annotated:
        inner, *marks = typing.get_args(hint)
        formats = {"i": pa.int32(), "f": pa.float32(), "s": pa.int16(), "c": pa.int8(), "S": pa.uint16()}
        logical = [mark.format for mark in marks if isinstance(mark, Logical)]
        return formats[logical[0]] if logical else arrow_type(inner)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        return arrow_type(next(each for each in arguments if each is not type(None)))
    if origin is dict:
        return pa.map_(arrow_type(arguments[0]), arrow_type(arguments[1]))
    if origin is not None:
        return pa.list_(arrow_type(arguments[0]))
    scalars = {
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        str: pa.string(),
        bytes: pa.binary(),
        datetime.datetime: pa.timestamp("ms", "UTC"),
        Rating: pa.string(),
    }
    if hint in scalars:
        return scalars[hint]
    hints = typing.get_type_hints(hint, include_extras=True)
    return pa.struct(
        [
            pa.field(field.name, arrow_type(hints[field.name]))
            for field in dataclasses.fields(hint)
            if field.name != "gone"
        ]
    )


def _plain(value: Any) -> Any:
    match value:
        case enum.Enum():
            return value.name
        case Entries():
            return [(_plain(key), _plain(mapped)) for key, mapped in value]
        case list() | tuple():
            return [_plain(each) for each in value]
        case None | bool() | int() | str() | float() | bytes() | datetime.datetime():
            return value
    return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}

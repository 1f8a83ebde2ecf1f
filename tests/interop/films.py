"""The Python twins of `Films.java`, and a random catalogue of them that changes from version to version."""

import datetime
import enum
import random
import struct
from dataclasses import dataclass, field, fields
from typing import Annotated, Any

from deltaic.schema.annotations import Float32, Inline, Int32, key, type_name

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_WORDS = ["Solaris", "Stalker", "Mirror", "Ω", "日本", "\U0001f600"]
_TAGS = ["sea", "space", "rain", "train", "horse"]
_AWARDS = ["Palme", "Lion", "Bear"]


class Genre(enum.Enum):
    DRAMA = 1
    COMEDY = 2
    SCIENCE_FICTION = 3


@key("id")
@dataclass
class Actor:
    id: int
    name: str
    birthYear: Int32


@key("id")
@dataclass
class Movie:
    id: int
    title: str
    year: Int32
    rating: Float32
    genre: Genre | None
    released: datetime.datetime
    cast: list[Actor]
    tags: set[str]
    awards: dict[str, Int32]


@type_name("Movie")
@key("id")
@dataclass
class GrownMovie:
    id: int
    country: str
    title: str
    year: Int32
    rating: Float32
    genre: Genre | None
    released: datetime.datetime
    language: Annotated[str, Inline]
    cast: list[Actor]
    tags: set[str]
    awards: dict[str, Int32]


@type_name("Movie")
@key("id")
@dataclass
class LaterMovie:
    id: int
    title: str
    year: Int32
    genre: Genre | None
    released: datetime.datetime
    cast: list[Actor]
    tags: set[str]
    awards: dict[str, Int32]
    country: str
    language: Annotated[str, Inline]


@dataclass
class Catalogue:
    """Random rows, as `Rows.java` reads them; the same seed gives the same history."""

    seed: int
    size: int = 60
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        for number in range(self.size):
            self.rows[number] = self._row(number)

    def change(self, count: int = 8) -> tuple[list[int], list[int]]:
        """Change, remove and add some rows; gives the ids that were changed or added, and the removed ones."""
        choose = self._random
        changed = choose.sample(sorted(self.rows), min(count, len(self.rows)))
        removed = changed[: count // 3]
        for number in removed:
            del self.rows[number]
        added = [max(self.rows, default=0) + 1 + place for place in range(choose.randint(0, count // 2))]
        touched = [*changed[count // 3 :], *added]
        for number in touched:
            self.rows[number] = self._row(number)
        return touched, removed

    def table(self, model: type = Movie) -> list[dict[str, Any]]:
        """All rows with the fields of a model."""
        names = [each.name for each in fields(model)]
        return [{name: row[name] for name in names} for row in self.rows.values()]

    def objects(self, model: type = Movie) -> list[Any]:
        """All rows as objects of a model."""
        return [object_of(row, model) for row in self.table(model)]

    def _row(self, number: int) -> dict[str, Any]:
        choose = self._random
        rating = choose.randrange(1001) / 100
        people = [choose.randrange(30) for _ in range(choose.randint(0, 4))]
        return {
            "id": number,
            "title": f"{choose.choice(_WORDS)} {choose.randrange(40)}",
            "year": 1920 + choose.randrange(100),
            "rating": struct.pack(">f", rating).hex(),
            "genre": choose.choice([None, *(genre.name for genre in Genre)]),
            "released": choose.randrange(-(2**40), 2**41),
            "cast": [{"id": who, "name": f"Actor {who}", "birthYear": 1930 + who} for who in people],
            "tags": choose.sample(_TAGS, choose.randint(0, 4)),
            "awards": [[name, choose.randrange(4)] for name in choose.sample(_AWARDS, choose.randint(0, 3))],
            "country": choose.choice(["SU", "FR", "JP"]),
            "language": choose.choice(["ru", "fr", "ja"]),
        }


def object_of(row: dict[str, Any], model: type = Movie) -> Any:
    """The object that a row describes. Sets stay lists: the mapper goes by order, and so does Java's."""
    values = dict(row)
    values["genre"] = None if row["genre"] is None else Genre[row["genre"]]
    values["released"] = _EPOCH + datetime.timedelta(milliseconds=row["released"])
    values["cast"] = [Actor(**actor) for actor in row["cast"]]
    values["awards"] = dict(row["awards"])
    if "rating" in row:
        values["rating"] = struct.unpack(">f", bytes.fromhex(row["rating"]))[0]
    return model(**values)


def expected(catalogue: Catalogue, model: type = Movie) -> list[dict[str, Any]]:
    """What a reader of the catalogue should find, in the form of `found`."""
    return [
        {**row, "tags": sorted(row["tags"]), "awards": sorted(row["awards"])}
        for row in sorted(catalogue.table(model), key=lambda row: int(row["id"]))
    ]


def found(view: Any) -> list[dict[str, Any]]:
    """The movies of a deltaic view or table as rows, sorted by id, tags and awards sorted."""
    rows = []
    for movie in getattr(view, "view", view):
        row = movie.to_dict()
        row["tags"] = sorted(row["tags"])
        row["awards"] = sorted([name, count] for name, count in row["awards"].items())
        row["genre"] = row["genre"]["_name"] if isinstance(row["genre"], dict) else row["genre"]
        if row.get("rating") is not None:
            row["rating"] = struct.pack(">f", row["rating"]).hex()
        rows.append(row)
    return sorted(rows, key=lambda row: int(row["id"]))

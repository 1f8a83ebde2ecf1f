"""The catalogue of the demonstration: movies made up from their numbers, and what becomes of them a day later."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaic.schema.annotations import Float32, Int32, key

if TYPE_CHECKING:
    import pyarrow

_WORDS = (
    *("amber", "river", "night", "glass", "storm", "paper", "silver", "garden", "echo", "winter", "iron", "lantern"),
    *("harbor", "velvet", "crow", "meadow", "signal", "orbit", "thunder", "salt", "mirror", "copper", "desert"),
)
_GENRES = ("comedy", "documentary", "drama", "noir", "science fiction", "western")
_ACTORS = 5_000


@dataclass
class Actor:
    """Somebody who plays in movies."""

    id: int
    name: str


@key("id")
@dataclass
class Movie:
    """What a row of the catalogue is."""

    id: int
    title: str
    year: Int32
    rating: Float32
    genres: list[str]
    cast: list[Actor]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """One day of the catalogue: by movie, how often it was changed."""

    changes: dict[int, int]

    @classmethod
    def first(cls, size: int) -> "Catalogue":
        """Movies 1 to `size`, none of them changed."""
        return cls(dict.fromkeys(range(1, size + 1), 0))

    def next_day(self) -> "Catalogue":
        """One movie in a hundred is rated anew, one in 4,000 is removed, as many and two more are added."""
        newest = max(self.changes)
        kept = {number: times + (number % 100 == 17) for number, times in self.changes.items() if number % 4_000 != 99}
        added = len(self.changes) - len(kept) + 2
        return Catalogue(kept | dict.fromkeys(range(newest + 1, newest + 1 + added), 0))

    def rows(self) -> Iterator[dict[str, Any]]:
        """The movies as plain values."""
        for number, times in self.changes.items():
            yield _movie(number, times)

    def to_arrow(self) -> "pyarrow.Table":
        """The movies as an Arrow table."""
        import pyarrow as pa

        actor = pa.struct([("id", pa.int64()), ("name", pa.string())])
        columns = [("id", pa.int64()), ("title", pa.string()), ("year", pa.int32()), ("rating", pa.float32())]
        schema = pa.schema([*columns, ("genres", pa.list_(pa.string())), ("cast", pa.list_(actor))])
        return pa.Table.from_pylist(list(self.rows()), schema)

    def __len__(self) -> int:
        return len(self.changes)


def _movie(number: int, times: int) -> dict[str, Any]:
    words = [_WORDS[_draw(number, place) % len(_WORDS)] for place in range(2 + number % 2)]
    actors = sorted({_draw(number, 10 + place) % _ACTORS for place in range(1 + number % 5)})
    return {
        "id": number,
        "title": " ".join(words).capitalize(),
        "year": 1920 + _draw(number, 20) % 107,
        "rating": (_draw(number, 30) + 7 * times) % 41 / 4,
        "genres": [_GENRES[_draw(number, 4) % len(_GENRES)]],
        "cast": [{"id": actor, "name": f"{_WORDS[actor % 23].capitalize()} {actor}"} for actor in actors],
    }


def _draw(number: int, salt: int) -> int:
    """A number that looks like chance and is the same every time."""
    mixed = (number << 8 ^ salt) * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & 0xFFFF_FFFF_FFFF_FFFF
    return mixed >> 31

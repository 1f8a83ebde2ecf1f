"""A small catalogue that tests of indexes write and change: films with titles, casts, tags and releases."""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltaic.schema.text import parse_schemas
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState

SCHEMAS = """
String { string value; }
Actor @PrimaryKey(id) { long id; String name; }
ListOfActor List<Actor>;
SetOfString Set<String>;
Release { int year; boolean cinema; }
MapOfStringToRelease Map<String,Release>;
Film @PrimaryKey(id) {
    long id; int year; float rating; double weight; boolean seen; bytes poster; string note;
    String title; ListOfActor cast; SetOfString tags; MapOfStringToRelease releases;
}
Edition @PrimaryKey(film.id, format) { Film film; string format; int minutes; }
"""


@dataclass(frozen=True)
class Film:
    """One film as a test writes it down."""

    id: int | None
    title: str | None = None
    year: int | None = None
    cast: Sequence[tuple[int, str]] = ()
    tags: Iterable[str] = ()
    releases: dict[str, tuple[int, bool]] = field(default_factory=dict)
    rating: float | None = None
    weight: float | None = None
    seen: bool | None = None
    poster: bytes | None = None
    note: str | None = None


FILMS = (
    Film(7, "Solaris", 1972, ((1, "Banionis"), (2, "Bondarchuk")), ("space", "sea"), {"SU": (1972, True)}, 8.5),
    Film(8, "Stalker", 1979, ((3, "Kaidanovsky"),), ("zone",), {"SU": (1979, True), "DE": (1981, False)}, 8.1),
    Film(9, "Зеркало", 1975, ((2, "Bondarchuk"), (2, "Bondarchuk")), (), {}, None, note="mirror"),
    Film(1 << 40, "The Sacrifice", None, (), ("sea", "fire"), {"SE": (1986, True)}, float("nan"), -0.0, True, b"\xff"),
    Film(
        -3, "solaris", 2002, ((4, "Clooney"), (1, "Banionis")), ("space",), {"DE": (2003, True)}, 6.2, 0.0, False, b""
    ),
)


class FilmWriter:
    """Writes versions of the catalogue, and reads each as a consumer does that follows deltas."""

    def __init__(self, schemas: str = SCHEMAS) -> None:
        self._write = WriteState(parse_schemas(schemas))
        self._state: ReadState | None = None

    def version(self, films: Iterable[Film], editions: Iterable[tuple[int, str | None, int]] = ()) -> ReadState:
        """Write the next version; gives the state after its delta."""
        if self._state is not None:
            self._write.next_cycle()
        ordinals = {}
        for film in films:
            ordinals[film.id] = self._add(film)
        for film_id, form, minutes in editions:
            values = {"film": ordinals[film_id], "format": form, "minutes": minutes}
            self._write.add_object("Edition", {name: value for name, value in values.items() if value is not None})
        blob = io.BytesIO()
        if self._state is None:
            self._write.write_snapshot(blob)
            self._state = ReadState.load(blob.getvalue())
        else:
            self._write.write_delta(blob)
            self._state = self._state.apply(blob.getvalue())
        return self._state

    def _text(self, value: str) -> int:
        return self._write.add_object("String", {"value": value})

    def _add(self, film: Film) -> int:
        write = self._write
        values: dict[str, Any] = {
            name: getattr(film, name) for name in ("id", "year", "rating", "weight", "seen", "poster", "note")
        }
        values["title"] = None if film.title is None else self._text(film.title)
        actors = [write.add_object("Actor", {"id": number, "name": self._text(name)}) for number, name in film.cast]
        values["cast"] = write.add_list("ListOfActor", actors)
        values["tags"] = write.add_set("SetOfString", [self._text(tag) for tag in film.tags])
        entries = [
            (self._text(country), write.add_object("Release", {"year": year, "cinema": cinema}))
            for country, (year, cinema) in film.releases.items()
        ]
        values["releases"] = write.add_map("MapOfStringToRelease", entries)
        return write.add_object("Film", {name: value for name, value in values.items() if value is not None})


def catalogue(films: Iterable[Film] = FILMS, editions: Iterable[tuple[int, str | None, int]] = ()) -> ReadState:
    """A state of these films."""
    return FilmWriter().version(films, editions)

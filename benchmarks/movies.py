"""The movie catalogue: the dataset behind every figure about blobs, states and indexes.

Every value follows from a movie's (or actor's) id, its generation and a salt by a 64-bit mixing function, so that any
language makes the same catalogue, and the same blobs byte for byte. Everything here is by column: a million movies
take about a second.
"""

import hashlib
import lzma
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

ROOT = Path(__file__).resolve().parent.parent
CACHE = ROOT / ".deltaic" / "benchmarks"
ACTORS = 100_000
FULL_SIZE = 1_000_000
# fmt: off
WORDS = [
    "amber", "river", "night", "glass", "storm", "paper", "silver", "garden", "echo", "winter", "iron", "lantern",
    "harbor", "velvet", "crow", "meadow", "signal", "orbit", "thunder", "salt", "mirror", "copper", "desert", "island",
]
# fmt: on
SCHEMAS = (
    "String {\n\tstring value;\n}\n"
    "Actor @PrimaryKey(id) {\n\tlong id;\n\tString name;\n\tint birthYear;\n}\n"
    "ListOfActor List<Actor>;\n"
    "Movie @PrimaryKey(id) {\n\tlong id;\n\tint year;\n\tfloat rating;\n\tString title;\n\tListOfActor cast;\n}\n"
)
"""The model, in the order of the writer."""

SHA256 = {
    "snapshot-0": "8b25014ddae6e1d71389367deae0db972962f5bc9e2f93a658a0d3ff89e36f42",
    "delta-0-1": "55f7fabf64b88844c4a7dea79ca9d74424fb1ea3b0cb4edd22ba5cd1a4724606",
    "reversedelta-1-0": "d0f3d7b632f9027f52c2ef40b688d58a1a25a11990375ddf522a9bf41de128be",
    "delta-9-10": "8271e1a69dcfc352ed9a447adc1ebd3d5082f89d9ab4a1a23dd028c52dda00ff",
    "snapshot-10": "837f74288d037fd0057acfff211b197637a11e3837f5d36f6eea49e86fdb14f9",
}
"""The blobs of a million movies."""

CHECKSUMS = {0: -107390623, 10: -618030367}
"""Hollow's checksum of a million movies, by version."""

Ids = NDArray[np.int64]
_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """Texts as Arrow keeps them: value i is `data[offsets[i]:offsets[i + 1]]` in UTF-8."""

    offsets: NDArray[np.int32]
    data: NDArray[np.uint8]

    def __getitem__(self, index: int) -> str:
        return self.data[self.offsets[index] : self.offsets[index + 1]].tobytes().decode()

    def as_arrow(self) -> "pa.StringArray":
        """The same buffers as an Arrow array."""
        import pyarrow as pa

        count = len(self.offsets) - 1
        return pa.StringArray.from_buffers(count, pa.py_buffer(self.offsets), pa.py_buffer(self.data))


@dataclass(frozen=True, slots=True, eq=False)
class ActorColumns:
    """All actors, in the order of their ids."""

    id: Ids
    name: Text
    birth_year: NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class MovieColumns:
    """Movies in rising id; the cast of movie i is `cast[cast_offsets[i]:cast_offsets[i + 1]]`, ids of actors."""

    id: Ids
    year: NDArray[np.int32]
    rating: NDArray[np.float32]
    title: Text
    cast_offsets: NDArray[np.int32]
    cast: Ids


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What the step to a version did: ids in rising order."""

    changed: Ids
    removed: Ids
    added: Ids


@dataclass(frozen=True, slots=True, eq=False)
class Catalogue:
    """One version of the catalogue: which movies there are, and the generation of each."""

    size: int
    version: int
    next_id: int
    ids: Ids
    generations: Ids

    @classmethod
    def first(cls, size: int) -> "Catalogue":
        """Version 0 with movies 0 to size - 1."""
        return cls(size, 0, size, np.arange(size, dtype=np.int64), np.zeros(size, dtype=np.int64))

    @property
    def tag(self) -> int:
        """The state tag of this version, unsigned."""
        return state_tag(self.version)

    def advance(self) -> "tuple[Catalogue, Step]":
        """The next version, and what changed."""
        version = self.version + 1
        die = draw(self.ids, 9, version) % np.uint64(1000)
        changed = die < 10
        kept = die != 10
        added = np.arange(self.next_id, self.next_id + self.size // 1000, dtype=np.int64)
        ids = np.concatenate([self.ids[kept], added])
        generations = np.where(changed, version, self.generations)[kept]
        generations = np.concatenate([generations, np.full(len(added), version, dtype=np.int64)])
        following = Catalogue(self.size, version, self.next_id + len(added), ids, generations)
        return following, Step(self.ids[changed], self.ids[~kept], added)

    def only(self, ids: Ids) -> "Catalogue":
        """The same version with none but the given movies, which must be there."""
        at = np.searchsorted(self.ids, ids)
        return Catalogue(self.size, self.version, self.next_id, self.ids[at], self.generations[at])

    def columns(self) -> MovieColumns:
        """The movies, by column."""
        ids, generations = self.ids, self.generations
        rating = ((draw(ids, 2, generations) % np.uint64(1001)).astype(np.float64) / 100.0).astype(np.float32)
        sizes = (1 + draw(ids, 8, generations) % np.uint64(5)).astype(np.int64)
        offsets = np.zeros(len(ids) + 1, dtype=np.int32)
        np.cumsum(sizes, out=offsets[1:])
        place = np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1].astype(np.int64), sizes)
        cast = draw(np.repeat(ids, sizes), 16 + place, np.repeat(generations, sizes)) % np.uint64(ACTORS)
        return MovieColumns(
            id=ids,
            year=(1920 + draw(ids, 1, 0) % np.uint64(106)).astype(np.int32),
            rating=rating,
            title=_titles(ids, 3, 4),
            cast_offsets=offsets,
            cast=cast.astype(np.int64),
        )

    def as_arrow(self) -> "pa.Table":
        """What a user has: one row per movie, `cast` as an inline list of structs, nothing dictionary-coded."""
        import pyarrow as pa

        movies, actors = self.columns(), actor_columns()
        people = pa.StructArray.from_arrays(
            [pa.array(movies.cast), actors.name.as_arrow().take(pa.array(movies.cast)), _birth_years(movies.cast)],
            names=["id", "name", "birthYear"],
        )
        return pa.table(
            {
                "id": pa.array(movies.id),
                "year": pa.array(movies.year),
                "rating": pa.array(movies.rating),
                "title": movies.title.as_arrow(),
                "cast": pa.ListArray.from_arrays(pa.array(movies.cast_offsets), people),
            }
        )


def mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The mixing function, on an array."""
    mixed = value + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def draw(ids: Ids, salt: int | Ids, generation: int | Ids) -> NDArray[np.uint64]:
    """A number below 2^63 for each id."""
    low = np.asarray(generation, dtype=np.uint64) << np.uint64(8) ^ np.asarray(salt, dtype=np.uint64)
    return mix(ids.astype(np.uint64) << np.uint64(16) ^ low) >> np.uint64(1)


def state_tag(version: int) -> int:
    """The state tag of a version, unsigned."""
    return int(mix(np.array([0xBEEF + version], dtype=np.uint64))[0]) & _MASK


@cache
def actor_columns() -> ActorColumns:
    """All actors, by column."""
    ids = np.arange(ACTORS, dtype=np.int64)
    return ActorColumns(ids, _titles(ids, 5, 6), _years_of_birth(ids))


def _years_of_birth(ids: Ids) -> NDArray[np.int32]:
    return (1930 + draw(ids, 7, 0) % np.uint64(75)).astype(np.int32)


def _birth_years(cast: Ids) -> "pa.Array":
    import pyarrow as pa

    return pa.array(actor_columns().birth_year[cast])


@cache
def _pairs() -> tuple[NDArray[np.uint8], Ids]:
    """All 576 pairs of words, each with its blanks, padded; and their lengths."""
    texts = [f"{first} {second} ".encode() for first in WORDS for second in WORDS]
    table = np.zeros((len(texts), max(map(len, texts))), dtype=np.uint8)
    for row, text in enumerate(texts):
        table[row, : len(text)] = np.frombuffer(text, dtype=np.uint8)
    return table, np.array([len(text) for text in texts], dtype=np.int64)


def _titles(ids: Ids, first_salt: int, second_salt: int) -> Text:
    """Two words and the id, per id."""
    table, lengths = _pairs()
    pair = (
        draw(ids, first_salt, 0) % np.uint64(24) * np.uint64(24) + draw(ids, second_salt, 0) % np.uint64(24)
    ).astype(np.int64)
    head = lengths[pair]
    digits = np.ones(len(ids), dtype=np.int64)
    for power in range(1, 19):
        longer = ids >= 10**power
        if not longer.any():
            break
        digits += longer
    offsets = np.zeros(len(ids) + 1, dtype=np.int32)
    np.cumsum(head + digits, out=offsets[1:])
    data = np.empty(int(offsets[-1]), dtype=np.uint8)
    start, end = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
    for column in range(table.shape[1]):
        rows = np.flatnonzero(head > column)
        data[start[rows] + column] = table[pair[rows], column]
    rest, rows = ids.copy(), np.arange(len(ids))
    for column in range(int(digits.max(initial=0))):
        rows = rows[digits[rows] > column]
        data[end[rows] - 1 - column] = 48 + rest[rows] % 10
        rest[rows] //= 10
    return Text(offsets, data)


def recorded_blobs() -> Path | None:
    """The folder of a million movies' recorded blobs, its snapshot unpacked; None where they are not to be had."""
    shared = Path(os.environ.get("DELTAIC_BENCHMARKS") or ROOT / ".." / "shared" / "benchmarks").resolve() / "movies-1m"
    packed = shared / "snapshot-0.xz"
    if not packed.is_file():
        return None
    folder = CACHE / "movies-1m"
    folder.mkdir(parents=True, exist_ok=True)
    for blob in shared.iterdir():
        link = folder / blob.name
        if blob.suffix != ".xz" and not link.exists():
            link.symlink_to(blob)
    snapshot = folder / "snapshot-0"
    if not snapshot.is_file():
        data = lzma.decompress(packed.read_bytes())
        if hashlib.sha256(data).hexdigest() != SHA256["snapshot-0"]:
            raise ValueError(f"{packed} does not hold the snapshot that the catalogue describes")
        part = folder / "snapshot-0.part"
        part.write_bytes(data)
        part.rename(snapshot)
    return folder

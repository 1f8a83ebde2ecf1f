"""The same patches as others would send them: JSON Patch, protobuf with FieldMask, Avro. For `registry.py`.

`patch_data(patches, movies)` makes movies and changes to them: 70 % scalar fields, 20 % nested fields, elements of a
list and entries of a map, 10 % a few dimensions of a vector. Each rival writes all of them, reads them, and applies
them to movies of its own kind in memory; what comes out is compared with the movies that the changes lead to.

JSON Patch (RFC 6902, `jsonpatch`) names every element and dimension by its own operation; a line for each record holds
its key. FieldMask cannot name elements, entries or dimensions: the whole list, map or vector is sent. Avro (`fastavro`)
has no patches of its own: a record of key, path as text, and a union of values, with dimensions as two arrays.
"""

import copy
import io
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np

Movie = dict[str, Any]
Movies = dict[int, Movie]

DIMS, CHANGED_DIMS, CAST = 64, 4, 5
_SYLLABLES = "so la ris mir ror stal ker nos tal gia ru blev i van vi o lin ka ra to".split()
_WORDS = [a + b + c for a in _SYLLABLES for b in _SYLLABLES for c in _SYLLABLES]
_SITES = ("imdb", "rt", "kp")


@dataclass(frozen=True, slots=True)
class Change:
    """One patch, in the words of all who send it."""

    key: int
    kind: str
    """`scalar`, `nested` or `vector`."""
    path: str
    """As deltaic names it inside a Movie: `title`, `cast[2].role`, `ratings{"imdb"}`, `embedding`."""
    steps: tuple[str | int, ...]
    """The same, taken apart."""
    value: Any
    """The new value; of a vector the new values of `dimensions`, float32."""
    dimensions: tuple[int, ...] = ()
    whole: Any = None
    """The whole field afterwards, for those who cannot name a part of it."""


@dataclass(frozen=True)
class PatchData:
    """Movies before, what changes, and movies after."""

    movies: Movies
    changes: list[Change]
    after: Movies


def patch_data(patches: int = 100_000, movies: int = 20_000, seed: int = 11) -> PatchData:
    """Make movies and changes to them; the same seed makes the same."""
    chance = random.Random(seed)
    before = {key: _movie(key, chance) for key in range(movies)}
    after = copy.deepcopy(before)
    changes = []
    for _ in range(patches):
        change = _change(chance.randrange(movies), chance, after)
        _follow(after, change)
        changes.append(change)
    return PatchData(before, changes, after)


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(_WORDS, k=words))


def _floats(chance: random.Random, count: int) -> list[float]:
    return np.array([chance.gauss(0, 0.1) for _ in range(count)], np.float32).tolist()


def _movie(key: int, chance: random.Random) -> Movie:
    return {
        "id": key,
        "title": _text(chance, 3),
        "year": chance.randint(1920, 2025),
        "rating": round(chance.uniform(1, 10), 2),
        "country": chance.choice(("SU", "IT", "SE", "FR", "JP")),
        "available": chance.random() < 0.5,
        "studio": {"name": _text(chance, 2), "city": _text(chance, 1)},
        "cast": [{"name": _text(chance, 2), "role": _text(chance, 1)} for _ in range(CAST)],
        "ratings": {site: round(chance.uniform(1, 10), 1) for site in _SITES},
        "embedding": _floats(chance, DIMS),
    }


def _change(key: int, chance: random.Random, movies: Movies) -> Change:
    draw, movie = chance.random(), movies[key]
    if draw < 0.7:
        name = chance.choice(("title", "year", "rating", "rating", "rating", "country", "available"))
        return Change(key, "scalar", name, (name,), _movie(key, chance)[name])
    if draw < 0.9:
        which = chance.randrange(3)
        if which == 0:
            value = _text(chance, 1)
            return Change(
                key, "nested", "studio.city", ("studio", "city"), value, (), movie["studio"] | {"city": value}
            )
        if which == 1:
            place, value = chance.randrange(CAST), _text(chance, 1)
            cast = [one | {"role": value} if at == place else one for at, one in enumerate(movie["cast"])]
            return Change(key, "nested", f"cast[{place}].role", ("cast", place, "role"), value, (), cast)
        site, score = chance.choice(_SITES), round(chance.uniform(1, 10), 1)
        path = f'ratings{{"{site}"}}'
        return Change(key, "nested", path, ("ratings", site), score, (), movie["ratings"] | {site: score})
    dimensions = tuple(sorted(chance.sample(range(DIMS), CHANGED_DIMS)))
    values = _floats(chance, CHANGED_DIMS)
    whole = list(movie["embedding"])
    for dimension, value in zip(dimensions, values, strict=True):
        whole[dimension] = value
    return Change(key, "vector", "embedding", ("embedding",), tuple(values), dimensions, whole)


def _follow(movies: Movies, change: Change) -> None:
    inner: Any = movies[change.key]
    for step in change.steps[:-1]:
        inner = inner[step]
    if not change.dimensions:
        inner[change.steps[-1]] = change.value
        return
    for dimension, value in zip(change.dimensions, change.value, strict=True):
        inner["embedding"][dimension] = value


@dataclass(frozen=True)
class Rival:
    """One way to send patches."""

    name: str
    encode: Callable[[Sequence[Change]], bytes]
    decode: Callable[[bytes], Any]
    world: Callable[[Movies], Any]
    """The movies as this one holds them."""
    apply: Callable[[Any, Any], None]
    """Apply what was decoded to a world."""
    movie: Callable[[Any, int], Movie]
    """One movie of a world, to be compared."""
    note: str = ""
    limits: dict[str, Any] = field(default_factory=dict)


def rivals() -> tuple[list[Rival], list[str]]:
    """Those that are installed, and a word on those that are not."""
    found, missing = [], []
    for make, library in ((_json_patch, "jsonpatch"), (_field_mask, "protobuf"), (_avro, "fastavro")):
        try:
            found.append(make())
        except ImportError:
            missing.append(f"{library} is not installed: left out (pip install {library})")
    return found, missing


def _json_patch() -> Rival:
    import jsonpatch

    def operations(change: Change) -> list[dict[str, Any]]:
        pointer = "/" + "/".join(map(str, change.steps))
        if not change.dimensions:
            return [{"op": "replace", "path": pointer, "value": change.value}]
        places = zip(change.dimensions, change.value, strict=True)
        # As few digits as give the float32 back.
        return [
            {"op": "replace", "path": f"{pointer}/{at}", "value": float(str(np.float32(one)))} for at, one in places
        ]

    def encode(changes: Sequence[Change]) -> bytes:
        line = msgspec.json.encode
        return b"\n".join(line({"key": change.key, "patch": operations(change)}) for change in changes)

    def apply(decoded: Any, world: Movies) -> None:
        for one in decoded:
            jsonpatch.apply_patch(world[one["key"]], one["patch"], in_place=True)

    return Rival(
        "JSON Patch",
        encode,
        lambda data: [msgspec.json.decode(line) for line in data.split(b"\n")],
        copy.deepcopy,
        apply,
        lambda world, key: world[key] | {"embedding": np.array(world[key]["embedding"], np.float32).tolist()},
        "msgspec for JSON, jsonpatch to apply",
    )


def _avro() -> Rival:
    import fastavro

    dimensions = {
        "type": "record",
        "name": "Dimensions",
        "fields": [
            {"name": "places", "type": {"type": "array", "items": "int"}},
            {"name": "values", "type": {"type": "array", "items": "float"}},
        ],
    }
    values = ["boolean", "long", "double", "string", dimensions]
    fields = [{"name": "key", "type": "long"}, {"name": "path", "type": "string"}, {"name": "value", "type": values}]
    schema = fastavro.parse_schema({"type": "record", "name": "Patch", "fields": fields})

    def row(change: Change) -> dict[str, Any]:
        value = change.value
        if change.dimensions:
            value = {"places": list(change.dimensions), "values": list(change.value)}
        return {"key": change.key, "path": "/".join(map(str, change.steps)), "value": value}

    def encode(changes: Sequence[Change]) -> bytes:
        out = io.BytesIO()
        fastavro.writer(out, schema, map(row, changes), sync_interval=1 << 20)
        return out.getvalue()

    def apply(decoded: Any, world: Movies) -> None:
        for one in decoded:
            inner: Any = world[one["key"]]
            *steps, last = one["path"].split("/")
            for step in steps:
                inner = inner[int(step) if isinstance(inner, list) else step]
            value = one["value"]
            if isinstance(value, dict):
                vector = inner[last]
                for place, number in zip(value["places"], value["values"], strict=True):
                    vector[place] = number
            else:
                inner[int(last) if isinstance(inner, list) else last] = value

    return Rival(
        "Avro",
        encode,
        lambda data: list(fastavro.reader(io.BytesIO(data))),
        copy.deepcopy,
        apply,
        lambda world, key: world[key],
        "fastavro, applied by a loop",
    )


def _field_mask() -> Rival:
    movie_class, batch_class = _protobuf_classes()

    def message(movie: Movie) -> Any:
        return movie_class(**movie)

    def encode(changes: Sequence[Change]) -> bytes:
        batch = batch_class()
        for change in changes:
            one = batch.patches.add(key=change.key)
            name = change.steps[0]
            if change.steps == ("studio", "city"):
                one.mask.paths.append("studio.city")
                one.value.studio.city = change.value
                continue
            one.mask.paths.append(name)
            one.value.MergeFrom(movie_class(**{name: change.value if change.whole is None else change.whole}))
        return bytes(batch.SerializeToString())

    def decode(data: bytes) -> Any:
        return batch_class.FromString(data)

    def apply(decoded: Any, world: dict[int, Any]) -> None:
        for one in decoded.patches:
            one.mask.MergeMessage(one.value, world[one.key], True, True)

    def movie(world: dict[int, Any], key: int) -> Movie:
        found = world[key]
        simple = {name: getattr(found, name) for name in ("id", "title", "year", "rating", "country", "available")}
        return simple | {
            "studio": {"name": found.studio.name, "city": found.studio.city},
            "cast": [{"name": one.name, "role": one.role} for one in found.cast],
            "ratings": dict(found.ratings),
            "embedding": list(found.embedding),
        }

    return Rival(
        "protobuf FieldMask",
        encode,
        decode,
        lambda movies: {key: message(movie) for key, movie in movies.items()},
        apply,
        movie,
        "whole lists, maps and vectors",
    )


def _protobuf_classes() -> tuple[Any, Any]:
    """Classes of messages made at run time, as protoc would make them."""
    from google.protobuf import descriptor_pb2, descriptor_pool, field_mask_pb2, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="deltaic_bench.proto", package="bench", syntax="proto3")
    file.dependency.append(field_mask_pb2.DESCRIPTOR.name)

    def add(parent: Any, name: str, number: int, kind: int, type_name: str = "", repeated: bool = False) -> None:
        label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        made = parent.field.add(name=name, number=number, type=kind, label=label)
        if type_name:
            made.type_name = type_name

    for name, fields in (("Studio", ("name", "city")), ("Actor", ("name", "role"))):
        inner = file.message_type.add(name=name)
        for number, one in enumerate(fields, 1):
            add(inner, one, number, kinds.TYPE_STRING)
    movie = file.message_type.add(name="Movie")
    scalars = (
        ("id", kinds.TYPE_INT64),
        ("title", kinds.TYPE_STRING),
        ("year", kinds.TYPE_INT32),
        ("rating", kinds.TYPE_DOUBLE),
        ("country", kinds.TYPE_STRING),
        ("available", kinds.TYPE_BOOL),
    )
    for number, (one, kind) in enumerate(scalars, 1):
        add(movie, one, number, kind)
    add(movie, "studio", 7, kinds.TYPE_MESSAGE, ".bench.Studio")
    add(movie, "cast", 8, kinds.TYPE_MESSAGE, ".bench.Actor", repeated=True)
    entry = movie.nested_type.add(name="RatingsEntry")
    entry.options.map_entry = True
    add(entry, "key", 1, kinds.TYPE_STRING)
    add(entry, "value", 2, kinds.TYPE_DOUBLE)
    add(movie, "ratings", 9, kinds.TYPE_MESSAGE, ".bench.Movie.RatingsEntry", repeated=True)
    add(movie, "embedding", 10, kinds.TYPE_FLOAT, repeated=True)
    patch = file.message_type.add(name="Patch")
    add(patch, "key", 1, kinds.TYPE_INT64)
    add(patch, "mask", 2, kinds.TYPE_MESSAGE, ".google.protobuf.FieldMask")
    add(patch, "value", 3, kinds.TYPE_MESSAGE, ".bench.Movie")
    batch = file.message_type.add(name="Batch")
    add(batch, "patches", 1, kinds.TYPE_MESSAGE, ".bench.Patch", repeated=True)
    pool = descriptor_pool.Default()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    found = [pool.FindMessageTypeByName(f"bench.{name}") for name in ("Movie", "Batch")]
    movie_class, batch_class = (message_factory.GetMessageClass(one) for one in found)
    return movie_class, batch_class

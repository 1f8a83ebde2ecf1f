"""What the tests of the distributed builder share: a model with every kind of type, its rows, equal producers."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltaic import Model
from deltaic.producer import Producer, count_up

MODEL = Model.parse(
    """
    String { string value; }
    Country @PrimaryKey(code) { string code; String name; }
    Actor { String name; Country home; }
    ListOfActor List<Actor>;
    SetOfString Set<String> @HashKey(value);
    MapOfStringToActor Map<String, Actor> @HashKey(value);
    Movie @PrimaryKey(id) {
      long id; String title; Country country; ListOfActor cast; SetOfString tags; MapOfStringToActor roles;
      double score; bytes picture; boolean seen;
    }
    Review { long movie; String text; }
    """
)
COUNTRY = pa.struct([("code", pa.string()), ("name", pa.string())])
ACTOR = pa.struct([("name", pa.string()), ("home", COUNTRY)])
MOVIE = pa.schema(
    [
        ("id", pa.int64()),
        ("title", pa.string()),
        ("country", COUNTRY),
        ("cast", pa.list_(ACTOR)),
        ("tags", pa.list_(pa.string())),
        ("roles", pa.map_(pa.string(), ACTOR)),
        ("score", pa.float64()),
        ("picture", pa.binary()),
        ("seen", pa.bool_()),
    ]
)
REVIEW = pa.schema([("movie", pa.int64()), ("text", pa.string())])


def tables(version: int, movies: int = 60) -> dict[str, pa.Table]:
    """The rows of a version: most are those of the version before, some came, went and changed."""
    rows = []
    for number in range(version * 3, version * 3 + movies):
        chance = random.Random(number if number % 7 else number + 1000 * version)

        def country(chance=chance):
            return chance.choice([None, {"code": "de", "name": "Deutschland"}, {"code": "fr", "name": None}])

        def actor(chance=chance, country=country):
            return {"name": chance.choice([None, "Ada", "Bo", f"Cy {chance.randrange(40)}"]), "home": country()}

        rows.append(
            {
                "id": number,
                "title": chance.choice([None, f"title {number}", "the same"]),
                "country": country(),
                "cast": chance.choice([None, [actor() for _ in range(chance.randrange(4))]]),
                "tags": chance.choice([None, chance.sample(["a", "b", "c", "żółw", ""], chance.randrange(5))]),
                "roles": chance.choice([None, [(name, actor()) for name in chance.sample(["x", "y", "z"], 2)]]),
                "score": chance.choice([None, 0.5, float("nan"), -0.0]),
                "picture": chance.choice([None, b"", bytes(chance.randrange(20))]),
                "seen": chance.choice([None, True, False]),
            }
        )
    reviews = [{"movie": row["id"], "text": "the same" if row["id"] % 2 else f"about {row['id']}"} for row in rows[::2]]
    return {
        "Movie": pa.Table.from_pylist(rows, schema=MOVIE),
        "Review": pa.Table.from_pylist(reviews, schema=REVIEW),
    }


def producer(folder: Path | str, seed: int = 5, **options) -> Producer:
    """A producer whose versions, tags and clock are given."""
    return Producer(
        folder,
        MODEL,
        order="canonical",
        versions=count_up,
        random=random.Random(seed),
        clock=lambda: 1.0,
        **{"target_shard_bytes": 200, "allow_resharding": True, **options},
    )


def blobs(folder: Path) -> dict[str, bytes]:
    """The blobs of a chain."""
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.name.startswith(("snapshot", "delta", "reverse", "header"))
    }


def write_files(folder: Path, version: int, parts: int = 2) -> dict[str, list[str]]:
    """The rows of a version as Parquet files."""
    found: dict[str, list[str]] = {}
    for name, table in tables(version).items():
        for part in range(parts):
            first, last = len(table) * part // parts, len(table) * (part + 1) // parts
            path = folder / f"{name}-{version}-{part}.parquet"
            pq.write_table(table.slice(first, last - first), path)
            found.setdefault(name, []).append(str(path))
    return found


def embedded_blobs(folder: Path, versions: int, **options) -> dict[str, bytes]:
    """What the embedded producer writes for the first versions."""
    with producer(folder, **options) as embedded:
        for version in range(versions):
            embedded.publish(tables=tables(version))
    return blobs(folder)

"""Sources for companions: Parquet files of known rows, and what a plain scan finds in them."""

import random

import pyarrow as pa
import pyarrow.parquet as pq

from deltaic.table.companion import Companion, CompanionOptions
from deltaic.table.split import ColumnIndex, SplitCache

WORDS = ("rain", "river", "stone", "night", "train", "garden", "winter", "letter", "silver", "road")
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("title", pa.string()),
        ("plot", pa.string()),
        ("price", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)


def rows(first, count, seed=0):
    """Rows of numbers from `first` on; the same ones each time."""
    dice = random.Random(f"{seed}-{first}")
    made = []
    for number in range(first, first + count):
        made.append(
            {
                "id": number,
                "title": f"{dice.choice(WORDS)} {number % 7}",
                "plot": " ".join(dice.choices(WORDS, k=8)) if number % 11 else None,
                "price": dice.randrange(1000) / 4 if number % 5 else None,
                "tags": dice.sample(WORDS, number % 3),
            }
        )
    return pa.Table.from_pylist(made, schema=SCHEMA)


def put(folder, name, table, groups=16):
    """Write a source file."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    pq.write_table(table, path, row_group_size=groups)
    return path


def make(tmp_path, **more):
    """The companion of tmp_path/source."""
    more.setdefault("index", {"plot": ColumnIndex(kind="text")})
    return Companion.create(tmp_path / "index", tmp_path / "source", split_cache=cache(tmp_path), **more)


def opened(tmp_path, **more):
    """The same companion by another process, as it were."""
    return Companion.open(tmp_path / "index", split_cache=cache(tmp_path), **more)


def cache(tmp_path):
    return SplitCache(tmp_path / "cache")


def scan(folder):
    """All rows by reading every file."""
    return pa.concat_tables([pq.read_table(path) for path in sorted(folder.rglob("*.parquet"))]).to_pylist()


def ids(result):
    """The ids of found rows, sorted."""
    return sorted(result.table.column("id").to_pylist())


SMALL = CompanionOptions(split_bytes=1 << 30, split_rows=100)

"""Small splits to search."""

import datetime
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa

from deltaic.storage import LocalStore
from deltaic.table.search import SearchedSplit, Searcher
from deltaic.table.split import ColumnIndex, DocMapping, SplitCache, write_split

FILMS = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "title": ["The Matrix", "Matrix Reloaded", "Solaris", "New York, New York", "Stalker", None],
        "plot": [
            "A hacker learns that the world is a simulation",
            "The hacker returns to the simulation, and the simulation returns",
            "A psychologist meets his dead wife on a space station <above> a thinking ocean",
            "A saxophonist & a singer in New York fall in love",
            "A guide leads two men through a forbidden zone",
            "Ein Raumschiff über Zürich",
        ],
        "genre": ["sf", "sf", "sf", "music", "sf", None],
        "year": pa.array([1999, 2003, 1972, 1977, 1979, None], pa.int16()),
        "rating": [8.7, 7.2, 8.1, 6.6, 8.1, None],
        "budget": pa.array(
            [Decimal("63.00"), Decimal("150.50"), None, Decimal("14"), Decimal("1"), None], pa.decimal128(9, 2)
        ),
        "shown": [
            datetime.date(1999, 3, 31), datetime.date(2003, 5, 15), datetime.date(1972, 3, 20),
            datetime.date(1977, 6, 21), datetime.date(1979, 5, 25), None,
        ],
        "tags": [["cult", "robots"], ["sequel", "robots"], ["space"], [], None, ["space", "cult"]],
        "address": ["10.0.0.1", "10.0.0.2", "192.168.7.1", "2001:db8::1", None, "10.1.2.3"],
        "crew": [
            {"director": "Wachowski", "size": 100}, {"director": "Wachowski", "size": 300},
            {"director": "Tarkovsky", "size": 20}, {"director": "Scorsese", "size": 80},
            {"director": "Tarkovsky", "size": 10}, None,
        ],
        "extra": [
            '{"awards": {"oscars": 4}}', '{"awards": {"oscars": 0}}', '{"color": "both"}', "{}", None,
            '{"awards": {"oscars": "none"}}',
        ],
        "note": ["n1", "n2", "n3", "n4", "n5", "n6"],
    }
)  # fmt: skip
"""Six films of every type."""

OPTIONS = {
    "title": ColumnIndex(kind="text"),
    "plot": ColumnIndex(kind="text"),
    "address": ColumnIndex(kind="ip"),
    "extra": ColumnIndex(kind="json"),
    "note": ColumnIndex(kind="none"),
}
MAPPING = DocMapping.from_schema(FILMS.schema, OPTIONS)


def searched_splits(folder, pieces, *, mapping=None, partitions=None, names="split"):
    """Each table as a split in the cache."""
    (folder / "table").mkdir(parents=True, exist_ok=True)
    store, cache = LocalStore(folder / "table"), SplitCache(folder / "cache")
    found = []
    for number, rows in enumerate(pieces):
        name = f"{names}-{number}.split"
        made = mapping or DocMapping.from_schema(
            rows.schema, {k: v for k, v in OPTIONS.items() if k in rows.column_names}
        )
        write_split(rows, made, folder / "table" / name)
        found.append(SearchedSplit(cache.get(store, name), partitions[number] if partitions else {}))
    return found


def films(folder, cuts=(0, 6), **options):
    """The films in splits cut at these places."""
    pieces = [FILMS.slice(start, end - start) for start, end in pairwise(cuts)]
    return Searcher(searched_splits(folder, pieces), FILMS.schema, folder=folder / "joined", **options)


def texts(folder, bodies, *, cuts=None, **options):
    """Documents of one text each."""
    rows = pa.table({"id": pa.array(range(len(bodies)), pa.int64()), "body": pa.array(bodies, pa.string())})
    mapping = DocMapping.from_schema(rows.schema, {"body": ColumnIndex(kind="text")})
    cuts = cuts or (0, len(bodies))
    pieces = [rows.slice(start, end - start) for start, end in pairwise(cuts)]
    splits = searched_splits(folder, pieces, mapping=mapping)
    return Searcher(splits, rows.schema, folder=folder / "joined", **options)


def ids(result):
    return result.table.column("id").to_pylist()

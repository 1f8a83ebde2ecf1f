"""Small tables of rows for tests."""

import itertools
import time

import pyarrow as pa

from deltaic.storage import open_store
from deltaic.table import Settings
from deltaic.table.rows import Table

FAST = Settings(retry_base_delay_ms=0, retry_max_delay_ms=0, retry_max_attempts=20)
FILMS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("title", pa.string()),
        ("year", pa.int32()),
        ("rating", pa.float64()),
    ]
)
_numbers = itertools.count()


def new_store():
    return open_store(f"memory:rows-{time.time_ns()}-{next(_numbers)}")


def make_table(schema=FILMS, store=None, **more):
    more.setdefault("settings", FAST)
    return Table.create(new_store() if store is None else store, schema, **more)


def film(number, **more):
    return {"id": number, "title": f"film {number}", "year": 2000 + number % 3, "rating": number / 2, **more}


def films(*numbers, **more):
    return [film(number, **more) for number in numbers]


def ids(table, where=None, **at):
    return sorted(table.to_arrow(["id"], where, **at).column("id").to_pylist())


def changes(table, *versions, **more):
    return table.changes(*versions, **more).read_all().to_pylist()

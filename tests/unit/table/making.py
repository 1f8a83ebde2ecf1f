"""Tables and files for tests of the log: no rows in them, a log does not look."""

import itertools
import time

from deltaic.storage import open_store
from deltaic.table import AddFile, Settings, Table

FAST = Settings(retry_base_delay_ms=1, retry_max_delay_ms=4, retry_max_attempts=200)
COLUMNS = {"id": "long", "day": "date", "name": "string", "score": "double"}
_numbers = itertools.count()


def make_table(where=None, *, partition_by=(), settings=FAST, columns=None, **more):
    store = open_store(f"memory:{time.time_ns()}-{next(_numbers)}") if where is None else where
    return Table.create(store, columns=columns or COLUMNS, partition_by=partition_by, settings=settings, **more)


def make_file(path=None, *, store=None, size=10, day=None, **more):
    values = {} if day is None else {"day": day}
    name = path if path is not None else f"part-{next(_numbers)}.split"
    if store is not None:
        store.put(name, b"x" * size)
    return AddFile(name, values, size, more.pop("modified_ms", int(time.time() * 1000)), **more)


def paths(snapshot):
    return sorted(snapshot.paths())

"""An operation on rows that another commit overtakes: as if it had come second all along, or refused."""

from itertools import product

import pyarrow as pa
import pytest

from deltaic.errors import DeltaicError
from deltaic.table import Settings
from deltaic.table.rows import Delete, Insert, Table, Update
from deltaic.testing.stores import SimulatedStore
from tests.faults.test_table_crash import Meanwhile

SETTINGS = Settings(retry_base_delay_ms=0, retry_max_delay_ms=0, retry_max_attempts=5)
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("p", pa.string()), ("n", pa.int64())])


def row(number, n=0):
    return {"id": number, "p": "ab"[number % 2], "n": n}


def plus_one(rows):
    return pa.compute.add(rows["n"], 1)


OPERATIONS = {
    "append": lambda table: table.append([row(20)]),
    "overwrite": lambda table: table.overwrite([row(30)]),
    "overwrite partitions": lambda table: table.overwrite([row(31)], dynamic=True),
    "overwrite where": lambda table: table.overwrite([row(1, 7)], where="id = 1"),
    "delete": lambda table: table.delete("id = 1 or id = 20"),
    "delete a partition": lambda table: table.delete("p = 'b'"),
    "update": lambda table: table.update({"n": plus_one}),
    "update one": lambda table: table.update({"n": 9}, "id = 1"),
    "update too far": lambda table: table.update({"n": 500}, "id = 1"),
    "merge": lambda table: table.merge([row(1, 5), row(20, 5), row(40, 5)]),
    "merge all": lambda table: table.merge(
        [row(1, 5)], matched=[Update()], not_matched=[Insert()], not_matched_by_source=[Delete("target.n > 100")]
    ),
    "compact": lambda table: table.compact(),
    "add a column": lambda table: table.add_column("x", pa.uint8(), default=1),
    "rename": lambda table: table.rename_column("n", "m"),
    "drop": lambda table: table.drop_column("n"),
    "widen": lambda table: table.widen_column("n", pa.decimal128(20, 0)),
    "constraint": lambda table: table.add_constraint("c", "id < 25"),
    "constraint of a column": lambda table: table.add_constraint("d", "n < 100"),
    "restore": lambda table: table.restore(version=1),
}


def fill():
    store = SimulatedStore()
    table = Table.create(store, SCHEMA, partition_by=("p",), key=("id",), settings=SETTINGS, sleep=lambda _: None)
    table.append([row(number) for number in range(4)])
    table.append([row(number) for number in range(4, 7)])
    return store


def opened(store):
    return Table.open(store, settings=SETTINGS, sleep=lambda _: None)


def content(store):
    table = opened(store)
    found = table.to_arrow()
    return found.column_names, sorted(map(str, found.to_pylist())), sorted(table.constraints)


def tried(call):
    try:
        call()
    except DeltaicError as error:
        return type(error)
    return None


@pytest.mark.parametrize(
    ("ours", "theirs"), list(product(OPERATIONS, OPERATIONS)), ids=lambda name: name.replace(" ", "-")
)
def test_an_overtaken_operation_is_as_if_it_came_second(ours, theirs):
    one_by_one = fill()
    OPERATIONS[theirs](opened(one_by_one))
    second = tried(lambda: OPERATIONS[ours](opened(one_by_one)))
    inner = fill()
    table = opened(Meanwhile(inner, lambda: OPERATIONS[theirs](opened(inner))))
    overtaken = tried(lambda: OPERATIONS[ours](table))
    assert opened(inner).verify().findings == ()
    if overtaken is None and ours == theirs and second is not None:
        # Two that change the columns in one and the same way agree.
        assert content(inner) == content(one_by_one)
        return
    assert overtaken == second
    assert content(inner) == content(one_by_one)

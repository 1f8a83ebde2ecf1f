"""Writers of several processes at one table of rows: of two edits of one split none is lost."""

import multiprocessing
import os
import random
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from deltaic.errors import CommitConflictError, InputError
from deltaic.storage import open_store
from deltaic.table import Settings
from deltaic.table.rows import Table

SETTINGS = Settings(retry_base_delay_ms=2, retry_max_delay_ms=40, retry_max_attempts=500)
SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("n", pa.int64())])


@pytest.fixture
def folder():
    parent = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name)


def opened(where):
    return Table.open(open_store(where), settings=SETTINGS)


def add_one(where, count):
    """Add one to every row, again and again: an update that is lost shows in the sum."""
    table = opened(where)
    for _ in range(count):
        table.update({"n": lambda rows: pa.compute.add(rows["n"], 1)})


def delete_own(where, ids):
    table = opened(where)
    for number in ids:
        table.delete(f"id = {number}")


def upsert_new(where, writer, count):
    """Insert or count up: a key that two insert at once must end as one row."""
    table = opened(where)
    choice = random.Random(writer)
    for _ in range(count):
        number = 1000 + choice.randrange(3)
        while True:
            try:
                table.merge(
                    [{"id": number, "n": 1}],
                    matched=[_counted_up()],
                )
                break
            except CommitConflictError:
                continue


def _counted_up():
    from deltaic.table.rows import Update

    return Update({"n": lambda rows: pa.compute.add(rows["target.n"], rows["source.n"])})


def compact_often(where, count):
    table = opened(where)
    for _ in range(count):
        table.compact()


def run(*jobs):
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=target, args=arguments) for target, *arguments in jobs]
    for child in children:
        child.start()
    for child in children:
        child.join(240)
    assert [child.exitcode for child in children] == [0] * len(children)


@pytest.mark.timeout(300)
def test_updates_deletes_merges_and_compactions_at_once_lose_nothing(folder):
    table = Table.create(open_store(folder), SCHEMA, key=("id",), settings=SETTINGS)
    for first in (0, 5):
        table.append([{"id": number, "n": 0} for number in range(first, first + 5)])
    run(
        (add_one, folder, 6),
        (add_one, folder, 6),
        (delete_own, folder, (1, 7)),
        (upsert_new, folder, 1, 5),
        (upsert_new, folder, 2, 5),
        (compact_often, folder, 3),
    )
    found = table.to_arrow().to_pylist()
    old = {one["id"]: one["n"] for one in found if one["id"] < 1000}
    assert old == {number: 12 for number in range(10) if number not in (1, 7)}
    keys = [one["id"] for one in found]
    assert len(keys) == len(set(keys))
    # Every upsert counted one, and every update after it one for each new row: each version says which came first.
    total, rows = 0, {}
    for change in table.changes(2).read_all().to_pylist():
        if change["id"] >= 1000:
            before = rows.get(change["id"], 0)
            assert (change["before"] or {"n": 0})["n"] == before
            rows[change["id"]] = change["after"]["n"]
            total += change["after"]["n"] - before
    assert rows == {one["id"]: one["n"] for one in found if one["id"] >= 1000} and total >= 10
    merges = [entry for entry in table.history() if entry.operation == "merge rows"]
    assert len(merges) == 10
    assert table.verify().findings == ()


def test_an_append_that_a_new_constraint_overtakes_is_asked_again(folder):
    table = Table.create(open_store(folder), SCHEMA, settings=SETTINGS)
    other = opened(folder)

    def rows():
        yield {"id": 1, "n": -1}
        other.add_constraint("positive", "n >= 0")

    with pytest.raises(CommitConflictError):
        table.append(rows())
    assert table.count() == 0
    with pytest.raises(InputError, match="positive"):
        table.append([{"id": 1, "n": -1}])


def test_an_append_that_a_new_column_overtakes_stands(folder):
    table = Table.create(open_store(folder), SCHEMA, settings=SETTINGS)
    other = opened(folder)

    def rows():
        yield {"id": 1, "n": 5}
        other.add_column("extra", pa.int8(), default=3)

    table.append(rows())
    assert table.to_arrow().to_pylist() == [{"id": 1, "n": 5, "extra": 3}]


def test_an_edit_that_a_rename_overtakes_is_done_again_on_the_new_names(folder):
    table = Table.create(open_store(folder), SCHEMA, settings=SETTINGS)
    table.append([{"id": 1, "n": 5}, {"id": 2, "n": 6}])
    other = opened(folder)
    seen = []

    def changed(rows):
        if not seen:
            other.add_column("extra", pa.uint8())
            other.delete("id = 2")
        seen.append(rows.num_rows)
        return pa.compute.add(rows["n"], 1)

    table.update({"n": changed})
    assert seen == [2, 1] and table.to_arrow().to_pylist() == [{"id": 1, "n": 6, "extra": None}]

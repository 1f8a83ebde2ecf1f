"""Tables of the public implementation: every value of every row is found by a search for it, and nothing else is."""

import json

import pyarrow as pa
import pytest

from deltaic.table.query.tree import Word
from deltaic.table.search import SearchedSplit, Searcher
from deltaic.table.split import SplitCache
from deltaic.table.table import Table as FileTable

pytest.importorskip("tantivy")

TABLES = (
    "01_single_write", "02_five_appends", "04_partitioned", "05_many_transactions", "07_two_writes_no_checkpoint",
    "08_ten_writes_at_checkpoint", "10_large_batch", "11_mixed_operations", "13_after_purge", "14_after_merge",
    "16_with_skip_actions",
)  # fmt: skip


@pytest.fixture(params=TABLES)
def recorded(request, fixtures_dir, tmp_path):
    """A searcher over the live splits of a table, and its rows."""
    folder = fixtures_dir / "indextables" / request.param
    if not folder.is_dir():
        pytest.skip("no recorded index tables in the folder of recorded fixtures")
    expected = json.loads((folder / "EXPECTED.json").read_text())["rows"]
    table, cache = FileTable.open(folder), SplitCache(tmp_path / "cache")
    splits, partitions = [], set()
    for add in table.snapshot().files():
        splits.append(SearchedSplit(cache.get(table.store, add.path, add), dict(add.partition_values)))
        partitions |= set(add.partition_values)
    schema = splits[0].cached.rows.schema
    for name in sorted(partitions - set(schema.names)):
        schema = schema.append(pa.field(name, pa.string()))
    return Searcher(splits, schema, folder=tmp_path / "joined"), expected


def test_every_value_is_found_in_its_rows(recorded):
    searcher, rows = recorded
    assert searcher.count() == len(rows)
    asked = 0
    for name in searcher.schema.names:
        for value in list({row[name] for row in rows if row[name] is not None})[:60]:
            wanted = sorted(row["id"] for row in rows if row[name] == value)
            text = repr(value) if isinstance(value, float) else str(value)
            found = searcher.search(Word(name, text), k=None)
            assert sorted(found.table["id"].to_pylist()) == wanted, (name, value)
            assert searcher.count(Word(name, text)) == len(wanted)
            asked += 1
    assert asked >= len(searcher.schema.names)


def test_rows_come_back_whole_and_the_explanation_says_that_they_were_indexed_here(recorded):
    searcher, rows = recorded
    result = searcher.search(f"id:{rows[0]['id']}", k=None)
    assert [{name: row[name] for name in rows[0]} for row in result.to_pylist()] == [
        row for row in rows if row["id"] == rows[0]["id"]
    ]
    assert set(result.explain.reindexed) == {split.cached.split_id for split in searcher._splits}


def test_ranges_prefixes_and_groups_work_on_foreign_splits(recorded):
    searcher, rows = recorded
    middle = sorted(row["id"] for row in rows)[len(rows) // 2]
    assert searcher.count(f"id:>={middle}") == sum(row["id"] >= middle for row in rows)
    for name in searcher.schema.names:
        if not isinstance(rows[0][name], str):
            continue
        start = rows[0][name][:3]
        wanted = sum(row[name] is not None and row[name].startswith(start) for row in rows)
        assert searcher.count(where=None, query=f'{name}:"{rows[0][name]}"') >= 1
        assert searcher.count(f"{name}:{start}*".replace("-", "\\-")) == wanted
        groups = searcher.aggregate(group_by=name)
        assert dict(zip(groups[name].to_pylist(), groups["count"].to_pylist(), strict=True)) == {
            value: sum(row[name] == value for row in rows) for value in {row[name] for row in rows}
        }

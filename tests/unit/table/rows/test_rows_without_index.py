"""Columns that nobody asked to search cost no index, and are answered all the same."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaic.table.rows import Table
from deltaic.table.rows.writing import WriteOptions
from deltaic.table.split import ColumnIndex, open_split
from deltaic.table.split.cache import SplitCache
from deltaic.table.split.write import SplitOptions

COUNT = 5000


def films(start: int = 0) -> pa.Table:
    numbers = np.arange(start, start + COUNT)
    return pa.table(
        {
            "id": numbers,
            "year": (1900 + numbers % 120).astype(np.int32),
            "score": np.random.default_rng(start).random(COUNT),
            "title": [f"film {number % 700}" for number in numbers],
            "genres": [["drama", "war"][: number % 3] for number in numbers.tolist()],
        }
    )


@pytest.fixture
def cache(tmp_path: Path) -> SplitCache:
    return SplitCache(tmp_path / "cache")


def members(table: Table) -> list[set[str]]:
    found = []
    for add in table.files.snapshot().files():
        store, key = table.files.locate(add.path)
        found.append(set(open_split(store, key, add).footer.members))
    return found


def test_a_split_without_an_indexed_column_is_its_rows(tmp_path: Path, cache: SplitCache) -> None:
    table = Table.create(tmp_path / "films", films().schema, split_cache=cache)
    table.append(films())
    assert members(table) == [{"_rows.parquet", "_deltaic.json", "split_fields"}]


@pytest.mark.parametrize(
    ("query", "mask"),
    [
        ("year:1950", lambda rows: pc.equal(rows["year"], 1950)),
        (
            "year:[1950 TO 1960]",
            lambda rows: pc.and_(pc.greater_equal(rows["year"], 1950), pc.less(rows["year"], 1961)),
        ),
        ('title:"film 12"', lambda rows: pc.equal(rows["title"], "film 12")),
        ("title:film*", lambda rows: pc.starts_with(rows["title"], "film")),
        ("genres:war", lambda rows: pa.array(["war" in each for each in rows["genres"].to_pylist()])),
        ("-year:1950", lambda rows: pc.not_equal(rows["year"], 1950)),
        ("year:1950^2 OR year:1951", lambda rows: pc.is_in(rows["year"], pa.array([1950, 1951], pa.int32()))),
        ("*:*", lambda rows: pc.is_valid(rows["id"])),
    ],
)
def test_queries_are_answered_from_the_rows(tmp_path: Path, cache: SplitCache, query: str, mask: object) -> None:
    table = Table.create(tmp_path / "films", films().schema, split_cache=cache)
    table.append(films())
    table.append(films(COUNT))
    rows = pa.concat_tables([films(), films(COUNT)])
    expected = sorted(rows.filter(mask(rows))["id"].to_pylist())  # type: ignore[operator]
    found = table.search(query, k=None)
    assert sorted(found.table["id"].to_pylist()) == expected and expected
    assert table.count(query) == len(expected)
    assert "index" not in found.explain.way or found.explain.way == "index and rows, combined"
    assert not (tmp_path / "cache" / "joined").exists() or not any((tmp_path / "cache" / "joined").iterdir())


def test_groups_and_measures_are_answered_from_the_rows(tmp_path: Path, cache: SplitCache) -> None:
    table = Table.create(tmp_path / "films", films().schema, split_cache=cache)
    table.append(films())
    found = table.facets(columns=["year"], k=3)["year"]
    expected = films()["year"].value_counts().to_pylist()
    assert found["count"][0].as_py() == max(each["counts"] for each in expected)


def test_few_deleted_rows_are_hidden_without_an_index_too(tmp_path: Path, cache: SplitCache) -> None:
    table = Table.create(tmp_path / "films", films().schema, split_cache=cache)
    table.append(films())
    table.delete("id = 7")
    table.delete("id IN (8, 4999)")
    assert table.count("*:*") == table.to_arrow().num_rows == COUNT - 3
    assert table.count("id:7") == 0 and table.count("id:9") == 1
    assert not {7, 8, 4999} & set(table.to_arrow(columns=["id"])["id"].to_pylist())


def test_a_column_that_becomes_text_is_indexed_where_it_is_searched(tmp_path: Path, cache: SplitCache) -> None:
    table = Table.create(tmp_path / "films", films().schema, split_cache=cache)
    table.append(films())
    table.set_index("title", ColumnIndex(kind="text"))
    table.append(films(COUNT))
    bare, indexed = sorted(members(table), key=len)
    assert "meta.json" in indexed and "meta.json" not in bare
    found = table.search("title:12", k=None)
    every = pa.concat_tables([films(), films(COUNT)])
    expected = every.filter(pc.equal(every["title"], "film 12"))
    assert sorted(found.table["id"].to_pylist()) == sorted(expected["id"].to_pylist())
    assert len(found.explain.reindexed) == 1


def test_a_split_for_others_is_indexed_by_type(tmp_path: Path, cache: SplitCache) -> None:
    write = WriteOptions(split=SplitOptions(native=True))
    table = Table.create(tmp_path / "films", films().schema, split_cache=cache, write=write)
    table.append(films())
    assert all("meta.json" in each for each in members(table))
    assert table.count("year:1950") == pc.sum(pc.equal(films()["year"], 1950)).as_py()


def test_one_search_after_another_opens_the_splits_once(
    tmp_path: Path, cache: SplitCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table.create(tmp_path / "films", films().schema, split_cache=cache, index={"title": ColumnIndex("text")})
    table.append(films())
    asked: list[str] = []
    get = cache.get
    monkeypatch.setattr(cache, "get", lambda store, path, add=None: asked.append(path) or get(store, path, add))
    for year in range(1900, 1910):
        table.search("film", where=f"year = {year}")
        table.search("film")
    assert len(asked) == 1

"""What a companion finds is what a plain scan of its source finds, and its rows are those of the files."""

import datetime
import random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from deltaic.errors import DecodeError, InputError, SchemaError
from deltaic.table.companion import Companion, StaleCompanionError
from deltaic.table.rows import Table
from deltaic.table.rows.filetable import RowFiles
from deltaic.table.search import count, sum_
from deltaic.table.split import ColumnIndex
from deltaic.table.split.open import COMPANION_NAME, open_split
from tests.unit.table.companion.making import SMALL, WORDS, cache, ids, make, opened, put, rows, scan


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "source"
    for number in range(5):
        put(folder, f"part-{number}.parquet", rows(number * 50, 50))
    put(folder, "deep/large.parquet", rows(1000, 250))
    put(folder, "deep/none.parquet", rows(0, 0))
    put(folder, "_temporary/left.parquet", rows(5000, 3))
    put(folder, ".hidden/left.parquet", rows(6000, 3))
    (folder / "notes.txt").write_text("no Parquet")
    yield folder


def known(folder):
    return [row for row in scan(folder) if row["id"] < 5000]


@pytest.mark.parametrize("write", [None, SMALL])
def test_words_and_predicates_find_what_a_scan_finds(tmp_path, source, write):
    companion = make(tmp_path, write=write)
    everything, dice = known(source), random.Random(7)
    assert companion.count() == len(everything) == 500
    assert companion.status().splits == (1 if write is None else 6)
    for _ in range(12):
        word, other, bound = dice.choice(WORDS), dice.choice(WORDS), dice.randrange(0, 250)
        wanted = sorted(row["id"] for row in everything if row["plot"] and word in row["plot"].split())
        assert ids(companion.search(f"plot:{word}", k=None)) == wanted
        assert companion.count(f"plot:{word}") == len(wanted)
        both = [
            row
            for row in everything
            if row["plot"] and word in row["plot"].split() and other in row["plot"].split()
            if row["price"] is not None and row["price"] < bound
        ]
        found = companion.search(f"plot:{word} AND plot:{other}", where=f"price < {bound}", k=None)
        assert ids(found) == sorted(row["id"] for row in both)
        assert sorted(found.table.drop_columns("_score").to_pylist(), key=lambda row: row["id"]) == sorted(
            both, key=lambda row: row["id"]
        )
        tagged = sorted(row["id"] for row in everything if word in row["tags"])
        assert ids(companion.search(f"tags:{word}", k=None, columns=["id"])) == tagged


def test_one_split_and_many_give_equal_scores(tmp_path, source):
    one = make(tmp_path)
    many = Companion.create(
        tmp_path / "many",
        source,
        index={"plot": ColumnIndex(kind="text")},
        write=SMALL,
        split_cache=cache(tmp_path),
    )
    for query in ("plot:rain", "plot:(silver road)", 'plot:"night train"'):
        scores = [
            sorted((round(row["_score"], 4), row["id"]) for row in one_of.search(query, k=None).table.to_pylist())
            for one_of in (one, many)
        ]
        assert scores[0] == scores[1] and scores[0]


def test_groups_facets_histograms_and_ranges_are_those_of_the_rows(tmp_path, source):
    companion = make(tmp_path, write=SMALL)
    table = pa.Table.from_pylist(known(source))
    measures = {"n": count(), "sum": sum_("price")}
    found = companion.aggregate(group_by="title", measures=measures).sort_by("title").to_pylist()
    plain = table.group_by("title").aggregate([([], "count_all"), ("price", "sum")]).sort_by("title").to_pylist()
    assert [(row["title"], row["n"], row["sum"]) for row in found] == [
        (row["title"], row["count_all"], row["price_sum"]) for row in plain
    ]
    top = companion.facets(columns=["title"], k=1)["title"].to_pylist()[0]
    assert top["count"] == max(row["count_all"] for row in plain)
    assert (
        sum(companion.histogram(column="price", interval=50).column("count").to_pylist())
        == table["price"].drop_null().length()
    )
    wanted = pc.sum(pc.less(table["price"], 100)).as_py()
    assert companion.ranges(column="price", ranges=[(None, 100)]) == [wanted]


def test_snippets_offsets_and_orders_work(tmp_path, source):
    companion = make(tmp_path, write=SMALL)
    found = companion.search("plot:winter", k=3, columns=["id"], snippets=["plot"])
    assert found.table.column_names == ["id", "_score", "_snippet_plot"]
    assert all("<b>winter</b>" in text for text in found.table.column("_snippet_plot").to_pylist())
    first, second = (companion.search("plot:winter", order_by="-id", k=3, offset=skip) for skip in (0, 3))
    wanted = sorted((row["id"] for row in known(source) if row["plot"] and "winter" in row["plot"]), reverse=True)
    assert first.table["id"].to_pylist() + second.table["id"].to_pylist() == wanted[:6]


def test_a_search_reads_only_the_row_groups_and_columns_that_it_needs(tmp_path):
    folder = tmp_path / "source"
    wide = pa.table(
        {"id": range(4000), "word": [f"w{n}" for n in range(4000)], "fat": [str(n) * 200 for n in range(4000)]}
    )
    put(folder, "wide.parquet", wide, groups=100)
    companion = make(tmp_path, index={})
    read, store = [], companion.source.store
    whole, real = store.head("wide.parquet").size_bytes, store.get_range
    store.get_range = lambda key, start, length: read.append(length) or real(key, start, length)
    found = companion.search("word:w1234", columns=["id", "fat"])
    assert found.table.to_pylist()[0]["fat"] == "1234" * 200
    assert 0 < sum(read) < whole / 10
    assert not list((tmp_path / "cache").rglob("column-*.arrow")), "a few rows need no cached column"


def test_columns_that_only_rows_can_answer_are_cached_once(tmp_path, source):
    companion = make(tmp_path, index={"plot": ColumnIndex(kind="text"), "price": ColumnIndex(kind="none")})
    wanted = sum(row["price"] is not None and row["price"] > 100 for row in known(source))
    assert companion.count(where="price > 100") == wanted
    kept = list((tmp_path / "cache").rglob("column-*.arrow"))
    assert len(kept) == 1
    again = opened(tmp_path)
    again.source.store.get_range = None
    assert again.count(where="price > 100") == wanted


def test_a_torn_column_in_the_cache_is_refused_and_made_anew(tmp_path, source):
    companion = make(tmp_path, index={"price": ColumnIndex(kind="none")})
    wanted = companion.count(where="price > 100")
    (kept,) = (tmp_path / "cache").rglob("column-*.arrow")
    kept.write_bytes(b"torn")
    with pytest.raises(DecodeError, match="cached column"):
        opened(tmp_path).count(where="price > 100")
    assert opened(tmp_path).count(where="price > 100") == wanted


def test_splits_hold_no_rows_and_name_their_files(tmp_path, source):
    companion = make(tmp_path)
    (add,) = companion.files.snapshot().files()
    assert add.companion_source_files == tuple(
        sorted(path.relative_to(source).as_posix() for path in source.rglob("*.parquet") if "left" not in path.name)
    )
    assert add.companion_fast_field_mode == "DISABLED" and add.companion_delta_version is None
    split = open_split(companion.files.store, add.path, add)
    assert COMPANION_NAME in split.footer.members and "_rows.parquet" not in split.footer.members
    assert add.num_records == 500 and add.min_values["id"] == "0"
    companion.search("id:1")
    with pytest.raises(InputError, match="companion"):
        Table.open(tmp_path / "index", split_cache=cache(tmp_path))
    # Who goes round that finds no rows, rather than wrong ones.
    table = Table(RowFiles.open(tmp_path / "index"), split_cache=cache(tmp_path))
    for ask in (table.to_arrow, lambda: table.search("id:1")):
        with pytest.raises(DecodeError):
            ask()


def test_a_companion_has_nothing_that_writes_rows(tmp_path, source):
    companion = make(tmp_path)
    for name in ("append", "delete", "update", "merge", "overwrite", "compact"):
        assert not hasattr(companion, name)


@pytest.mark.parametrize("how", ["replaced", "deleted", "in place", "truncated"])
def test_rows_of_a_file_that_is_another_now_are_refused(tmp_path, source, how):
    companion = make(tmp_path)
    path = source / "part-2.parquet"
    if how == "replaced":
        put(source, path.name, rows(100, 50, seed=9))
    elif how == "deleted":
        path.unlink()
    elif how == "in place":
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(data)
    else:
        path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(StaleCompanionError, match="part-2.parquet.*refresh"):
        companion.search("id:100", columns=["title"])
    assert ids(companion.search("id:10")) == [10], "other files are as they were"
    with pytest.raises(StaleCompanionError, match="part-2.parquet"):
        companion.search(k=None)
    with pytest.raises(StaleCompanionError):
        companion.search(k=None)


def test_a_stale_row_is_refused_even_if_its_column_is_cached(tmp_path, source):
    companion = make(tmp_path)
    assert len(companion.search(k=None, columns=["title"])) == 500
    put(source, "part-2.parquet", rows(100, 50, seed=9))
    with pytest.raises(StaleCompanionError):
        companion.search("id:100", columns=["title"])


def test_paths_give_partition_columns_with_types(tmp_path):
    folder = tmp_path / "source"
    put(folder, "year=2020/day=2020-01-02/a.parquet", rows(0, 20))
    put(folder, "year=2020/day=2020-01-03/a.parquet", rows(20, 20))
    put(folder, "year=2021/day=__HIVE_DEFAULT_PARTITION__/b c.parquet", rows(40, 20))
    companion = make(tmp_path, partitions={"year": pa.int32(), "day": pa.date32()})
    assert companion.schema.field("year").type == pa.int32() and companion.status().splits == 3
    assert companion.count(where="year = 2020") == 40 and companion.count("year:2021") == 20
    assert companion.count(where="day = '2020-01-03'") == 20 and companion.count(where="day is null") == 20
    row = companion.search("id:5", columns=["day", "year"]).table.to_pylist()[0]
    assert (row["day"], row["year"]) == (datetime.date(2020, 1, 2), 2020)
    assert opened(tmp_path).aggregate(group_by="year").column("count").to_pylist() == [40, 20]


def test_hive_finds_the_columns_of_the_paths(tmp_path):
    folder = tmp_path / "source"
    put(folder, "year=2020/kind=a%2Fb/a.parquet", rows(0, 5))
    put(folder, "year=2021/kind=007/a.parquet", rows(5, 5))
    companion = make(tmp_path, hive=True)
    assert companion.schema.field("year").type == pa.int64()
    assert companion.schema.field("kind").type == pa.string()
    assert companion.count(where="kind = 'a/b'") == 5 and companion.count(where="kind = '007'") == 5


def test_a_file_outside_of_the_partitions_is_refused(tmp_path):
    folder = tmp_path / "source"
    put(folder, "year=2020/a.parquet", rows(0, 5))
    companion = make(tmp_path, partitions=["year"])
    put(folder, "lost.parquet", rows(5, 5))
    with pytest.raises(InputError, match="lost.parquet is in no folder year="):
        companion.refresh()
    assert companion.version == 1


def test_files_of_several_schemas_become_one(tmp_path):
    folder = tmp_path / "source"
    put(folder, "a.parquet", pa.table({"id": pa.array([1, 2], pa.int32()), "old": ["x", "y"]}))
    put(
        folder, "b.parquet", pa.table({"id": pa.array([2**40], pa.int64()), "new": pa.array(["z"]).dictionary_encode()})
    )
    companion = make(tmp_path, index={})
    found = companion.search(k=None, order_by="id").table.drop_columns("_score").to_pylist()
    assert found == [
        {"id": 1, "old": "x", "new": None},
        {"id": 2, "old": "y", "new": None},
        {"id": 2**40, "old": None, "new": "z"},
    ]


def test_a_file_whose_column_has_another_type_is_refused_by_name(tmp_path):
    folder = tmp_path / "source"
    put(folder, "a.parquet", pa.table({"id": [1, 2]}))
    companion = make(tmp_path, index={})
    put(folder, "b.parquet", pa.table({"id": ["one"]}))
    with pytest.raises(SchemaError, match="b.parquet"):
        companion.refresh()
    with pytest.raises(SchemaError, match="b.parquet"):
        Companion.create(tmp_path / "other", folder)
    assert companion.version == 1 and companion.count() == 2


def test_chosen_columns_are_the_only_ones(tmp_path, source):
    companion = make(tmp_path, columns=["id", "plot"])
    assert companion.schema.names == ["id", "plot"]
    with pytest.raises(InputError):
        companion.count("title:rain")
    with pytest.raises(InputError, match="no column 'nothing'"):
        Companion.create(tmp_path / "other", source, columns=["nothing"])


def test_every_type_comes_back_as_it_was(tmp_path):
    from tests.unit.table.split.rows_of_all_types import all_types

    table = all_types().drop_columns("_row")
    put(tmp_path / "source", "all.parquet", table, groups=2)
    from_file = pq.read_table(tmp_path / "source/all.parquet")
    companion = make(tmp_path, index={})
    found = companion.search(k=None).table.drop_columns("_score")
    assert found.num_rows == from_file.num_rows
    for name in found.column_names:
        assert repr(found.column(name).to_pylist()) == repr(from_file.column(name).to_pylist()), name


def test_a_file_that_is_no_parquet_is_refused_by_name(tmp_path):
    folder = tmp_path / "source"
    put(folder, "a.parquet", rows(0, 3))
    (folder / "b.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(DecodeError, match="b.parquet"):
        make(tmp_path)
    assert not (tmp_path / "index").exists()


def test_the_source_may_not_lie_in_its_companion(tmp_path):
    put(tmp_path / "here/source", "a.parquet", rows(0, 3))
    for place in (tmp_path / "here", tmp_path / "here/source"):
        with pytest.raises(InputError, match="folder of its own"):
            Companion.create(place, tmp_path / "here/source")
    inside = Companion.create(tmp_path / "here/source/_index", tmp_path / "here/source", split_cache=cache(tmp_path))
    assert inside.count() == 3 and not inside.status().stale


def test_a_table_that_is_no_companion_is_refused(tmp_path):
    Table.create(tmp_path / "table", pa.schema([("id", pa.int64())]))
    with pytest.raises(InputError, match="no companion"):
        Companion.open(tmp_path / "table")


def test_a_folder_without_files_needs_a_schema(tmp_path):
    (tmp_path / "source").mkdir()
    with pytest.raises(InputError, match="no Parquet files"):
        make(tmp_path)
    companion = make(tmp_path, schema=rows(0, 0).schema)
    assert companion.count() == 0 and len(companion.search("plot:rain")) == 0
    put(tmp_path / "source", "a.parquet", rows(1, 5))
    assert companion.refresh().added == 1 and companion.count() == 5


def test_a_source_that_was_moved_is_found_where_it_is_said_to_be(tmp_path, source):
    make(tmp_path)
    source.rename(tmp_path / "moved")
    with pytest.raises(StaleCompanionError):
        opened(tmp_path).search("id:10")
    assert ids(opened(tmp_path, source=tmp_path / "moved").search("id:10")) == [10]


def test_a_source_in_an_object_store_is_searched_and_refreshed(tmp_path):
    from deltaic.storage import open_store

    store, path = open_store("memory:companion-source"), put(tmp_path, "a.parquet", rows(0, 40))
    store.put("films/a.parquet", path.read_bytes())
    companion = Companion.create(
        tmp_path / "index", store, index={"plot": ColumnIndex(kind="text")}, split_cache=cache(tmp_path)
    )
    wanted = [row["id"] for row in rows(0, 40).to_pylist() if row["plot"] and "rain" in row["plot"].split()]
    assert ids(companion.search("plot:rain", k=None)) == wanted
    store.put("films/a.parquet", put(tmp_path, "a.parquet", rows(40, 40)).read_bytes())
    with pytest.raises(StaleCompanionError):
        companion.search("id:3")
    assert companion.refresh().changed == 1 and ids(companion.search("id:43")) == [43]

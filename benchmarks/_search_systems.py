"""The systems that `search.py` sets side by side, each with the same documents and the same questions.

Every answer is ten whole rows, best first, unless the question is a count or a group. A system that has no such
question gives None. `make` ingests and returns nothing; `open` gives what `ask` needs.
"""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

SPLIT_DOCUMENTS = 125_000
K = 10


class Deltaic:
    """This library: splits, their cache, a searcher."""

    name = "deltaic"

    @staticmethod
    def make(folder: Path, table: Any) -> None:
        from deltaic.table.split import ColumnIndex, DocMapping, write_split

        (folder / "table").mkdir()
        mapping = DocMapping.from_schema(table.schema, {"body": ColumnIndex(kind="text")})
        for number, start in enumerate(range(0, table.num_rows, SPLIT_DOCUMENTS)):
            write_split(table.slice(start, SPLIT_DOCUMENTS), mapping, folder / "table" / f"{number:04}.split")

    @staticmethod
    def open(folder: Path) -> Any:
        from deltaic.storage import LocalStore
        from deltaic.table.search import SearchedSplit, Searcher
        from deltaic.table.split import SplitCache

        store, cache = LocalStore(folder / "table"), SplitCache(folder / "cache")
        paths = sorted(path.name for path in (folder / "table").glob("*.split"))
        splits = [SearchedSplit(cache.get(store, path), {}) for path in paths]
        return Searcher(splits, splits[0].cached.rows.schema)

    @staticmethod
    def ask(searcher: Any, question: str, words: dict[str, str]) -> Any:
        from deltaic.table.search import count, sum_

        if question == "count":
            return searcher.count(words["broad"])
        if question == "group":
            measures = {"n": count(), "s": sum_("price")}
            return searcher.aggregate(words["broad"], group_by="category", measures=measures).num_rows
        if question == "filtered":
            return searcher.search(words["broad"], where="price < 100", k=K).table.num_rows
        text = f'"{words["phrase"]}"' if question == "phrase" else _both(words, question, " AND ")
        return searcher.search(text, k=K).table.num_rows

    @staticmethod
    def size(folder: Path) -> int:
        return _bytes(folder / "table")


class Parquet:
    """A scan of Parquet by pyarrow: no index, no ranking; the first ten rows that hold the words."""

    name = "Parquet scan"

    @staticmethod
    def make(folder: Path, table: Any) -> None:
        import pyarrow.parquet as pq

        pq.write_table(table, folder / "documents.parquet", compression="zstd")

    @staticmethod
    def open(folder: Path) -> Any:
        import pyarrow.dataset as ds

        return ds.dataset(folder / "documents.parquet")

    @staticmethod
    def ask(dataset: Any, question: str, words: dict[str, str]) -> Any:
        import pyarrow.compute as pc

        def holds(word: str) -> Any:
            return pc.match_substring_regex(pc.field("body"), rf"\b{word}\b")

        if question == "count":
            return dataset.count_rows(filter=holds(words["broad"]))
        if question == "group":
            table = dataset.to_table(columns=["category", "price"], filter=holds(words["broad"]))
            return table.group_by("category").aggregate([([], "count_all"), ("price", "sum")]).num_rows
        if question == "filtered":
            return dataset.head(K, filter=holds(words["broad"]) & (pc.field("price") < 100)).num_rows
        if question == "phrase":
            return dataset.head(K, filter=holds(words["phrase"])).num_rows
        if question == "both":
            return dataset.head(K, filter=holds(words["medium"]) & holds(words["other"])).num_rows
        return dataset.head(K, filter=holds(words[question])).num_rows

    @staticmethod
    def size(folder: Path) -> int:
        return _bytes(folder)


class DuckDB:
    """DuckDB with its full-text extension."""

    name = "DuckDB FTS"

    @staticmethod
    def _connect(folder: Path) -> Any:
        import duckdb

        connection = duckdb.connect(str(folder / "documents.duckdb"), config={"allow_unsigned_extensions": "true"})
        try:
            import duckdb_extension_fts

            place = Path(str(duckdb_extension_fts.__file__)).parent
            connection.execute(f"load '{next(place.glob('**/*.duckdb_extension'))}'")
        except ImportError:
            connection.execute("install fts")
            connection.execute("load fts")
        return connection

    @staticmethod
    def make(folder: Path, table: Any) -> None:
        connection = DuckDB._connect(folder)
        connection.register("given", table)
        connection.execute("create table documents as select * from given")
        connection.execute(
            "pragma create_fts_index('documents', 'id', 'body', stemmer='none', stopwords='none', strip_accents=0)"
        )
        connection.close()

    @staticmethod
    def open(folder: Path) -> Any:
        return DuckDB._connect(folder)

    @staticmethod
    def ask(connection: Any, question: str, words: dict[str, str]) -> Any:
        matched = "(select *, fts_main_documents.match_bm25(id, ?{}) as score from documents) where score is not null"
        plain = matched.format("")
        if question == "count":
            return connection.execute(f"select count(*) from {plain}", [words["broad"]]).fetchone()[0]
        if question == "group":
            query = f"select category, count(*), sum(price) from {plain} group by 1"
            return len(connection.execute(query, [words["broad"]]).fetchall())
        if question == "phrase":
            return None
        both = matched.format(", conjunctive := 1")
        order = f"order by score desc limit {K}"
        if question == "filtered":
            query, word = f"select * from {plain} and price < 100 {order}", words["broad"]
        else:
            word = _both(words, question, " ")
            query = f"select * from {both if question == 'both' else plain} {order}"
        return len(connection.execute(query, [word]).fetchall())

    @staticmethod
    def size(folder: Path) -> int:
        return _bytes(folder)


class SQLite:
    """SQLite with FTS5, documents in a table beside the index."""

    name = "SQLite FTS5"

    @staticmethod
    def make(folder: Path, table: Any) -> None:
        connection = sqlite3.connect(folder / "documents.sqlite")
        connection.executescript(
            "pragma journal_mode=off; pragma synchronous=off;"
            "create table documents(id integer primary key, category text, price integer, day text, body text);"
            "create virtual table words using fts5(body, content='documents', content_rowid='id');"
        )
        for batch in table.to_batches(max_chunksize=10_000):
            columns = [batch.column(name).to_pylist() for name in ("id", "category", "price", "day", "body")]
            columns[3] = [str(day) for day in columns[3]]
            connection.executemany("insert into documents values (?,?,?,?,?)", zip(*columns, strict=True))
        connection.execute("insert into words(rowid, body) select id, body from documents")
        connection.execute("insert into words(words) values('optimize')")
        connection.commit()
        connection.close()

    @staticmethod
    def open(folder: Path) -> Any:
        return sqlite3.connect(folder / "documents.sqlite")

    @staticmethod
    def ask(connection: Any, question: str, words: dict[str, str]) -> Any:
        joined = "words join documents on documents.id = words.rowid where words match ?"
        if question == "count":
            query = "select count(*) from words where words match ?"
            return connection.execute(query, [words["broad"]]).fetchone()[0]
        if question == "group":
            query = f"select category, count(*), sum(price) from {joined} group by 1"
            return len(connection.execute(query, [words["broad"]]).fetchall())
        where = " and price < 100" if question == "filtered" else ""
        text = f'"{words["phrase"]}"' if question == "phrase" else _both(words, question, " AND ")
        query = f"select documents.* from {joined}{where} order by words.rank limit {K}"
        return len(connection.execute(query, [text]).fetchall())

    @staticmethod
    def size(folder: Path) -> int:
        return _bytes(folder)


class Lance:
    """LanceDB with its own full-text index."""

    name = "LanceDB FTS"

    @staticmethod
    def make(folder: Path, table: Any) -> None:
        import lancedb

        made = lancedb.connect(folder / "lance").create_table("documents", table)
        made.create_fts_index("body", with_position=True, stem=False, remove_stop_words=False, ascii_folding=False)

    @staticmethod
    def open(folder: Path) -> Any:
        import lancedb

        return lancedb.connect(folder / "lance").open_table("documents")

    @staticmethod
    def ask(table: Any, question: str, words: dict[str, str]) -> Any:
        from lancedb.query import FullTextOperator, MatchQuery, PhraseQuery

        if question == "phrase":
            asked: Any = PhraseQuery(words["phrase"], "body")
        elif question == "both":
            asked = MatchQuery(_both(words, question, " "), "body", operator=FullTextOperator.AND)
        else:
            asked = MatchQuery(
                words["broad"] if question in ("count", "group", "filtered") else words[question], "body"
            )
        search = table.search(asked, query_type="fts")
        if question in ("count", "group"):
            found = search.limit(table.count_rows()).select(["category", "price"]).to_arrow()
            if question == "count":
                return found.num_rows
            return found.group_by("category").aggregate([([], "count_all"), ("price", "sum")]).num_rows
        if question == "filtered":
            search = search.where("price < 100", prefilter=True)
        return search.limit(K).to_arrow().num_rows

    @staticmethod
    def size(folder: Path) -> int:
        return _bytes(folder)


class Tantivy:
    """The engine alone: one index, documents in its own store."""

    name = "bare Tantivy"

    @staticmethod
    def make(folder: Path, table: Any) -> None:
        import tantivy

        builder = tantivy.SchemaBuilder()
        builder.add_integer_field("id", stored=True, indexed=True, fast=True)
        builder.add_text_field("category", stored=True, fast=True, tokenizer_name="raw", index_option="basic")
        builder.add_integer_field("price", stored=True, indexed=True, fast=True)
        builder.add_integer_field("day", stored=True, indexed=True, fast=True)
        builder.add_text_field("body", stored=True)
        (folder / "index").mkdir()
        index = tantivy.Index(builder.build(), str(folder / "index"))
        writer = index.writer(1_000_000_000, 1)
        for batch in table.to_batches(max_chunksize=10_000):
            columns = [batch.column(name).to_pylist() for name in ("id", "category", "price", "body")]
            days = batch.column("day").cast("int32").to_pylist()
            for number, category, price, body, day in zip(*columns, days, strict=True):
                made = tantivy.Document()
                made.add_integer("id", number)
                made.add_text("category", category)
                made.add_integer("price", price)
                made.add_integer("day", day)
                made.add_text("body", body)
                writer.add_document(made)
        writer.commit()
        writer.wait_merging_threads()

    @staticmethod
    def open(folder: Path) -> Any:
        import tantivy

        index = tantivy.Index.open(str(folder / "index"))
        return index, index.searcher()

    @staticmethod
    def ask(opened: Any, question: str, words: dict[str, str]) -> Any:
        index, searcher = opened
        parse: Callable[..., Any] = index.parse_query
        if question == "count":
            return searcher.search(parse(words["broad"], ["body"]), 1).count
        if question == "group":
            terms = {"terms": {"field": "category", "size": 1000}, "aggs": {"s": {"sum": {"field": "price"}}}}
            return len(searcher.aggregate(parse(words["broad"], ["body"]), {"g": terms})["g"]["buckets"])
        if question == "filtered":
            text = f"+{words['broad']} +price:[* TO 99]"
        else:
            text = f'"{words["phrase"]}"' if question == "phrase" else _both(words, question, " AND ")
        hits = searcher.search(parse(text, ["body"]), K, count=False).hits
        return len([searcher.doc(address).to_dict() for _, address in hits])

    @staticmethod
    def size(folder: Path) -> int:
        return _bytes(folder)


SYSTEMS: tuple[Any, ...] = (Deltaic, Tantivy, Parquet, DuckDB, SQLite, Lance)


def _both(words: dict[str, str], question: str, between: str) -> str:
    if question == "both":
        return words["medium"] + between + words["other"]
    return words["broad" if question == "filtered" else question]


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

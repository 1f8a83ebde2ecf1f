"""Documents of the model as splits: one, eight by partition, with deleted rows, with columns that changed, native."""

import pyarrow as pa

from deltaic.storage import LocalStore
from deltaic.table.search import SearchedSplit, Searcher
from deltaic.table.split import ColumnIndex, DocMapping, SplitCache, SplitOptions, open_split, with_deletes, write_split
from tests.properties import search_model as model

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("title", pa.string()),
        ("body", pa.string()),
        ("genre", pa.string()),
        ("plain", pa.string()),
        ("num", pa.int64()),
        ("small", pa.uint16()),
        ("price", pa.float64()),
        ("amount", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("flag", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("ip", pa.string()),
        ("info", pa.struct([("n", pa.int32()), ("word", pa.string())])),
        ("js", pa.string()),
    ]
)
OPTIONS = {
    "title": ColumnIndex(kind="text"),
    "body": ColumnIndex(kind="text"),
    "plain": ColumnIndex(kind="none"),
    "ip": ColumnIndex(kind="ip"),
    "js": ColumnIndex(kind="json"),
}
FORMS = ("one", "eight", "deleted", "changed", "native")


class Corpus:
    """A searcher, and the model of the same documents in the same order."""

    def __init__(self, searcher, plain):
        self.searcher, self.model = searcher, plain


def corpus(folder, form, seed=7, count=160):
    found = model.documents(seed, count)
    pieces = [found] if form == "one" else [found[at::8] for at in range(8)]
    for place, piece in enumerate(pieces):
        for one in piece:
            one["part"] = place % 3
    if form == "changed":
        for piece in pieces[:3]:
            for one in piece:
                one["flag"] = None
    (folder / "table").mkdir(parents=True)
    store, cache = LocalStore(folder / "table"), SplitCache(folder / "cache")
    splits, hidden, before = [], set(), 0
    for place, piece in enumerate(pieces):
        schema = SCHEMA
        if form == "changed" and place < 3:
            schema = schema.remove(schema.get_field_index("flag"))
            at = schema.get_field_index("small")
            schema = schema.set(at, pa.field("small", pa.uint8()))
        rows = pa.Table.from_pylist([{name: one[name] for name in schema.names} for one in piece], schema)
        name = f"{place}.split"
        native = SplitOptions(native=form == "native")
        write_split(rows, DocMapping.from_schema(schema, OPTIONS), folder / "table" / name, options=native)
        if form == "deleted" and place % 2:
            # Every third row is hidden by the engine's own delete file.
            dead = list(range(0, len(piece), 3))
            name = f"{place}-deleted.split"
            with_deletes(open_split(store, f"{place}.split"), dead, folder / "table" / name)
            hidden.update(before + row for row in dead)
        before += len(piece)
        splits.append(SearchedSplit(cache.get(store, name), {"part": place % 3}))
    searcher = Searcher(
        splits,
        SCHEMA.append(pa.field("part", pa.int64())),
        mapping=DocMapping.from_schema(SCHEMA, OPTIONS),
        folder=folder / "joined",
    )
    return Corpus(searcher, model.Model([one for piece in pieces for one in piece], hidden))

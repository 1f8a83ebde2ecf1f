"""How fast records are looked up: by key, by value, by prefix, on the movie catalogue, beside Java Hollow and others.

`python benchmarks/lookup.py` measures a million movies from the recorded blobs (about five minutes); `--size 20000` a
small catalogue that Java writes first. Hot look-ups ask for a thousand records again and again, cold ones for any. A
delta of the catalogue replaces 1% of the movies, removes 0.1% and adds 0.1%. In rows about updates the other figure is
the build of the same index, in rows about memory a dict of slotted dataclasses.
"""

import argparse
import gc
import importlib.util
import json
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.harness import (  # noqa: E402 - needs the path above
    Aim,
    Figures,
    Row,
    Stopwatch,
    in_new_process,
    merge,
    report,
    resident_bytes,
)
from benchmarks.movies import FULL_SIZE  # noqa: E402
from benchmarks.read import chain_of  # noqa: E402
from tools.java import java_or_none  # noqa: E402

HOT = 1_000
SINGLE = 200_000
BATCH = 1_000_000
BUILDS = ("key", "key by title", "hash by year", "hash by actor", "prefix", "range by year")
ROWS = [
    Row("batch look-up, hit, per key", "key look-up, hit", Aim(faster=4), 148.0),
    Row("batch look-up, miss, per key", "key look-up, miss", Aim(faster=4), 130.0),
    Row("batch look-up, hot, per key", "key look-up, hot"),
    Row("batch look-up after a delta, per key", "key look-up, hit", Aim(faster=4), 148.0),
    Row("batch look-up by title, per key"),
    Row("index.ordinal(key), hot"),
    Row("index.ordinal(key), cold", "key look-up, hit", None, 148.0),
    Row("index[key], hot", None, Aim(at_most=250)),
    Row("index[key], cold", None, Aim(at_most=250)),
    Row("table[key].title, hot", None, Aim(at_most=600)),
    Row("table[key].title, cold", None, Aim(at_most=900)),
    Row("consumer[type][key].title, hot"),
    Row("consumer[type][key].title, cold"),
    Row("hash find(actor)"),
    Row("hash find_many, per match", "hash find and iterate, per match", Aim(faster=4), 35.0),
    Row("prefix find"),
    Row("key index build", "key index build", Aim(faster=5), 63e6),
    Row("key by title index build", "key index by title build", Aim(faster=5)),
    Row("hash by year index build", "hash index by year build", Aim(faster=5), 192e6),
    Row("hash by actor index build", "hash index by actor build", Aim(faster=5), 1_670e6),
    Row("prefix index build", "prefix index build"),
    Row("range by year index build"),
    Row("key index update", "build: key", Aim(faster=4)),
    Row("key by title index update", "build: key by title", Aim(faster=4)),
    Row("hash by year index update", "build: hash by year", Aim(faster=10)),
    Row("hash by actor index update", "build: hash by actor", Aim(faster=10)),
    Row("prefix index update", "build: prefix", Aim(faster=10)),
    Row("range by year index update", "build: range by year", Aim(faster=10)),
    Row("key index update, mean of ten deltas", "build: key", Aim(faster=4)),
    Row("hash by actor index update, mean of ten deltas", "build: hash by actor"),
    Row("prefix index update, mean of ten deltas", "build: prefix"),
    Row("key index memory"),
    Row("hash by actor index memory"),
    Row("prefix index memory"),
    Row("state and key index memory", "dict memory", Aim(faster=5)),
]


def _builders(index: Any) -> dict[str, Callable[[Any], Any]]:
    return {
        "key": lambda state: index.PrimaryKeyIndex.build(state, "Movie", "id"),
        "key by title": lambda state: index.PrimaryKeyIndex.build(state, "Movie", "title"),
        "hash by year": lambda state: index.HashIndex.build(state, "Movie", "year"),
        "hash by actor": lambda state: index.HashIndex.build(state, "Movie", "cast.element.id"),
        "prefix": lambda state: index.PrefixIndex.build(state, "Movie", "title"),
        "range by year": lambda state: index.RangeIndex.build(state, "Movie", "year"),
    }


def measure_indexes(folder: Path, last: int, rounds: int) -> None:
    """Everything about our own indexes."""
    from deltaic import index as indexes
    from deltaic.state.read import ReadState

    states = [ReadState.load(folder / "snapshot-0")]
    for version in range(last):
        states.append(states[-1].apply(folder / f"delta-{version}-{version + 1}"))
    watch = Stopwatch()
    consumer = _consumer(folder)
    for number in range(rounds + 1):
        # The first round only warms up.
        here = watch if number else Stopwatch()
        made: dict[str, Any] = {}
        for name, build in _builders(indexes).items():
            made[name] = here.measure(f"{name} index build", 1, lambda build=build: build(states[0]))  # type: ignore[misc]
            here.measure(f"{name} index update", 1, lambda index=made[name]: index.update(states[1]))  # type: ignore[misc]
        for name in ("key", "hash by actor", "prefix"):
            what = f"{name} index update, mean of ten deltas"
            here.measure(what, last, lambda index=made[name]: _walk(index, states[1:]))  # type: ignore[misc]
        _batches(here, made, states, number)
        _singles(here, made, indexes.Lookup(states[0]), consumer, number)
    for name in ("key", "hash by actor", "prefix"):
        watch.bytes(f"{name} index memory", made[name].nbytes)
    watch.bytes("state and key index memory", states[0].nbytes + made["key"].nbytes)
    watch.print()


def _consumer(folder: Path) -> Any:
    """A consumer at the first version, as a service has one."""
    from deltaic.consumer import Consumer

    with tempfile.TemporaryDirectory() as scratch:
        shutil.copyfile(folder / "snapshot-0", Path(scratch) / "snapshot-0")
        (Path(scratch) / "announced.version").write_text("0")
        consumer = Consumer(scratch, share=False)
        consumer.refresh()
    return consumer


def _walk(index: Any, states: list[Any]) -> None:
    for state in states:
        index = index.update(state)


def _batches(watch: Stopwatch, made: dict[str, Any], states: list[Any], seed: int) -> None:
    import numpy as np

    chance = np.random.default_rng(seed)
    count = len(states[0]["Movie"])
    keys = chance.integers(0, count, BATCH)
    hot = chance.integers(0, min(HOT, count), BATCH)
    index = made["key"]
    found = watch.measure("batch look-up, hit, per key", BATCH, lambda: index.find(keys))
    assert np.array_equal(found, keys)  # type: ignore[arg-type]
    watch.measure("batch look-up, miss, per key", BATCH, lambda: index.find(keys + 2 * count))
    watch.measure("batch look-up, hot, per key", BATCH, lambda: index.find(hot))
    later = index.update(states[1])
    watch.measure("batch look-up after a delta, per key", BATCH, lambda: later.find(keys))
    movies = states[0]["Movie"]
    titles = [movies[int(key)].title for key in keys[:SINGLE]]
    watch.measure("batch look-up by title, per key", SINGLE, lambda: made["key by title"].find(titles))
    actors = chance.integers(0, len(states[0]["Actor"]), 20_000)
    matches = len(made["hash by actor"].find_many(actors)[1])
    watch.measure("hash find_many, per match", matches, lambda: made["hash by actor"].find_many(actors))


def _singles(watch: Stopwatch, made: dict[str, Any], lookup: Any, consumer: Any, seed: int) -> None:
    count = len(lookup.state["Movie"])
    choose = random.Random(seed)
    index, table = made["key"], lookup["Movie"]
    table[0]
    for heat, below in (("hot", min(HOT, count)), ("cold", count)):
        keys = [choose.randrange(below) for _ in range(SINGLE)]
        bare = _loop_nanoseconds(keys)
        for what, look in (("index.ordinal(key)", _ordinals), ("index[key]", _records)):
            _book(watch, f"{what}, {heat}", lambda look=look, keys=keys: look(index, keys), bare)  # type: ignore[misc]
        _book(watch, f"table[key].title, {heat}", lambda keys=keys: _titles(table, keys), bare)  # type: ignore[misc]
        what = f"consumer[type][key].title, {heat}"
        _book(watch, what, lambda keys=keys: _consumed_titles(consumer, keys), bare)  # type: ignore[misc]
    actors = [choose.randrange(len(lookup.state["Actor"])) for _ in range(20_000)]
    watch.measure("hash find(actor)", len(actors), lambda: [made["hash by actor"].find(actor) for actor in actors])
    words = ("amber river 1", "silver storm 77", "glass echo 5", "salt")
    watch.measure("prefix find", len(words), lambda: [made["prefix"].find(word) for word in words])


def _book(watch: Stopwatch, what: str, work: Callable[[], object], bare: float) -> None:
    own = Stopwatch()
    own.measure(what, SINGLE, work)
    rounds = own.figures[what]
    watch.book(what, rounds.cpu[0] - bare, rounds.wall[0] - bare)


def _loop_nanoseconds(keys: list[int]) -> float:
    own = Stopwatch()
    own.measure("loop", len(keys), lambda: _nothing(keys))
    return own.figures["loop"].cpu[0]


def _nothing(keys: list[int]) -> None:
    for _key in keys:
        pass


def _ordinals(index: Any, keys: list[int]) -> None:
    ordinal = index.ordinal
    for key in keys:
        ordinal(key)


def _records(index: Any, keys: list[int]) -> None:
    for key in keys:
        index[key]


def _titles(table: Any, keys: list[int]) -> None:
    for key in keys:
        table[key].title  # noqa: B018 - the reading is what is timed


def _consumed_titles(consumer: Any, keys: list[int]) -> None:
    for key in keys:
        consumer["Movie"][key].title  # noqa: B018 - the reading is what is timed


@dataclass(slots=True)
class Movie:
    """A movie as a service would keep it in a dict."""

    id: int
    year: int
    rating: float
    title: str
    cast: list[int]


def _rows(folder: Path) -> list[Movie]:
    """The movies of the catalogue; an actor that several movies have is one number object."""
    from deltaic.state.read import ReadState

    state = ReadState.load(folder / "snapshot-0")
    movies = state["Movie"]
    titles = state["String"].column("value", movies.column("title").values).to_pylist()  # type: ignore[attr-defined]
    casts = state["ListOfActor"].members(movies.column("cast").values).to_pylist()  # type: ignore[attr-defined]
    columns = [movies.column(name).to_pylist() for name in ("id", "year", "rating")]
    return [Movie(*values) for values in zip(*columns, titles, casts, strict=True)]


def measure_rivals(folder: Path, rounds: int) -> None:
    """Key → title in what people use instead."""
    gc.disable()
    watch = Stopwatch()
    start = resident_bytes()
    rows = _rows(folder)
    gc.collect()
    kept = {row.id: row for row in rows}
    watch.bytes("dict memory", resident_bytes() - start)
    for number in range(rounds):
        choose = random.Random(number)
        for heat, below in (("hot", min(HOT, len(rows))), ("cold", len(rows))):
            keys = [choose.randrange(below) for _ in range(SINGLE)]
            watch.measure(f"dict of dataclasses, {heat}", SINGLE, lambda keys=keys: _titles(kept, keys))  # type: ignore[misc]
    keys = [random.Random(5).randrange(len(rows)) for _ in range(20_000)]
    watch.measure("SQLite in memory, cold", len(keys), _sqlite(rows, keys))
    if importlib.util.find_spec("lmdb"):
        with tempfile.TemporaryDirectory() as scratch:
            watch.measure("LMDB, cold", len(keys), _lmdb(rows, keys, scratch))
    if importlib.util.find_spec("duckdb"):
        watch.measure("DuckDB with an index, cold", 200, _duckdb(rows, keys[:200]))
    if importlib.util.find_spec("polars"):
        watch.measure("polars filter, cold", 100, _polars(rows, keys[:100]))
        watch.measure("polars join, per key of a million", BATCH, _polars_join(rows))
    watch.print()


def _sqlite(rows: list[Movie], keys: list[int]) -> Callable[[], object]:
    base = sqlite3.connect(":memory:")
    base.execute("create table movie (id integer primary key, year integer, rating real, title text)")
    base.executemany("insert into movie values (?, ?, ?, ?)", ((r.id, r.year, r.rating, r.title) for r in rows))
    return lambda: [base.execute("select title from movie where id = ?", (key,)).fetchone()[0] for key in keys]


def _lmdb(rows: list[Movie], keys: list[int], scratch: str) -> Callable[[], object]:
    import lmdb

    environment = lmdb.open(scratch, map_size=1 << 30)
    with environment.begin(write=True) as writing:
        for row in rows:
            writing.put(row.id.to_bytes(8, "big"), row.title.encode())
    reading = environment.begin()
    return lambda: [bytes(reading.get(key.to_bytes(8, "big"), b"")).decode() for key in keys]


def _duckdb(rows: list[Movie], keys: list[int]) -> Callable[[], object]:
    import duckdb
    import pyarrow as pa

    base = duckdb.connect()
    base.execute("set threads = 1")
    frame = pa.table({"id": [row.id for row in rows], "title": [row.title for row in rows]})
    base.register("frame", frame)
    base.execute("create table movie as select * from frame")
    base.execute("create unique index by_id on movie (id)")
    return lambda: [base.execute("select title from movie where id = ?", [key]).fetchone() for key in keys]


def _polars(rows: list[Movie], keys: list[int]) -> Callable[[], object]:
    import polars

    frame = polars.DataFrame({"id": [row.id for row in rows], "title": [row.title for row in rows]})
    return lambda: [frame.filter(polars.col("id") == key)["title"][0] for key in keys]


def _polars_join(rows: list[Movie]) -> Callable[[], object]:
    import numpy as np
    import polars

    frame = polars.DataFrame({"id": [row.id for row in rows], "place": list(range(len(rows)))})
    wanted = polars.DataFrame({"id": np.random.default_rng(1).integers(0, len(rows), BATCH)})
    return lambda: wanted.join(frame, on="id", how="left")


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=FULL_SIZE, help="number of movies")
    parser.add_argument("--passes", type=int, default=3, help="turns of deltaic and Java")
    parser.add_argument("--rounds", type=int, default=3, help="rounds per turn")
    parser.add_argument("--core", type=int, default=0, help="the core that everything runs on")
    parser.add_argument("--no-java", action="store_true", help="deltaic alone, beside the recorded figures")
    parser.add_argument("--no-rivals", action="store_true", help="leave out dict, SQLite, LMDB, DuckDB and polars")
    parser.add_argument(
        "--prefix", action="store_true", help="let Java build its prefix index too, which takes minutes"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--child", choices=["indexes", "rivals"], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, default=10, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child == "indexes":
        return measure_indexes(options.folder, options.last, options.rounds)
    if options.child == "rivals":
        return measure_rivals(options.folder, options.rounds)
    program = None if options.no_java else java_or_none()
    folder, last = (options.folder, options.last) if options.folder else chain_of(options.size, program)
    ours: Figures = {}
    beside: Figures = {}
    place = ["--folder", str(folder), "--last", str(last), "--rounds", str(options.rounds)]
    for _ in range(options.passes):
        merge(ours, in_new_process(Path(__file__), "--child", "indexes", *place, core=options.core))
        if program is not None:
            words = ["bench-index", str(folder), str(options.rounds), *(["prefix"] if options.prefix else [])]
            merge(beside, program.run(*words, core=options.core))
    if not options.no_rivals:
        rivals: Figures = {}
        merge(rivals, in_new_process(Path(__file__), "--child", "rivals", *place, core=options.core))
        beside["dict memory"] = rivals.pop("dict memory")
        ours |= rivals
    beside |= {f"build: {name}": ours[f"{name} index build"] for name in BUILDS}
    rows = ROWS if options.size == FULL_SIZE else [Row(row.what, row.java, row.aim) for row in ROWS]
    title = f"Looking up among {options.size:,} movies, one core, medians of {options.passes} turns"
    table = report(rows, ours, beside, title)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()

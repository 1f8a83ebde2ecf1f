"""Full-text search with rows returned, beside a Parquet scan, DuckDB, SQLite, LanceDB and the bare engine.

    python benchmarks/search.py [--documents 1000000] [--rounds 7] [--only deltaic,SQLite] [--folder DIR] [--json FILE]

Documents have about a hundred words of a vocabulary of 50,000, frequent ones as in real text, and four more columns.
Each question but counts and groups is answered with the ten best rows, all columns. Cold is a new process: imports,
opening, the question; warm is the median of further rounds in that process. Ingest is one thread of ours, in documents
per CPU second. The first search of a host, when the cache of splits is empty, stands apart.

DuckDB's extension is loaded from PyPI's `duckdb-extension-fts` if that is installed. Where the installed DuckDB has
none for its version, put both into a folder,
`pip install --target DIR duckdb==1.5.5 duckdb-extension-fts==1.5.5`, and name it
by `--duckdb DIR`. A system that cannot be had is left out, with the reason.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import _search_systems
import harness
import numpy as np

QUESTIONS = {
    "selective": "selective word, top 10",
    "broad": "broad word, top 10",
    "both": "two words, top 10",
    "phrase": "phrase, top 10",
    "filtered": "broad word and price < 100, top 10",
    "count": "broad word, count",
    "group": "broad word, group by with sum",
}
VOCABULARY = 50_000
CATEGORIES = 50
_ONSETS = ("b", "br", "d", "dr", "f", "g", "gl", "k", "l", "m", "n", "p", "pr", "r", "s", "st", "t", "tr", "v", "z")
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ou", "ea")


def vocabulary() -> list[str]:
    """Different words, short ones first, as frequent words are short."""
    syllables = [onset + vowel for onset in _ONSETS for vowel in _VOWELS]
    found = [*syllables]
    found += [first + second for first in syllables for second in syllables]
    found += [first + second + syllables[7] for first in syllables for second in syllables]
    found += [syllables[3] + first + second for first in syllables for second in syllables]
    return list(dict.fromkeys(found))[:VOCABULARY]


def documents(count: int) -> Any:
    """The same documents on every machine; the phrase is planted in one of two hundred."""
    import pyarrow as pa

    random = np.random.Generator(np.random.PCG64(20240101))
    words = np.array(vocabulary(), dtype=object)
    weights = 1 / (np.arange(len(words)) + 2.7)
    edges = np.cumsum(weights / weights.sum())
    pieces = []
    for start in range(0, count, 50_000):
        size = min(50_000, count - start)
        lengths = random.integers(60, 141, size)
        picked = words[np.searchsorted(edges, random.random(int(lengths.sum())))]
        ends = np.cumsum(lengths)
        bodies = [" ".join(picked[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
        for place in range(0, size, 200):
            bodies[place] += " amber lantern"
        ids = np.arange(start, start + size)
        pieces.append(
            pa.table(
                {
                    "id": ids,
                    "category": [f"category {one:02}" for one in random.integers(0, CATEGORIES, size)],
                    "price": random.integers(0, 10_000, size),
                    "day": pa.array((ids % 3650).astype("int32")).cast(pa.date32()),
                    "body": bodies,
                }
            )
        )
    return pa.concat_tables(pieces)


def words_asked() -> dict[str, str]:
    """The words of the questions, by how often they are in the documents."""
    listed = vocabulary()
    return {
        "selective": listed[20_000],
        "medium": listed[300],
        "other": listed[500],
        "broad": listed[3],
        "phrase": "amber lantern",
    }


def ingest(system: Any, folder: Path, data: Path) -> dict[str, Any]:
    """What it costs to put the documents in; reading them is not counted."""
    import pyarrow as pa

    with pa.memory_map(str(data)) as source:
        table = pa.ipc.open_file(source).read_all()
    started, used = time.perf_counter(), _cpu()
    system.make(folder, table)
    return {"wall": time.perf_counter() - started, "cpu": _cpu() - used, "bytes": system.size(folder)}


def ask(system: Any, folder: Path, question: str, rounds: int) -> dict[str, Any]:
    """One question, cold and warm; imports of the system count as cold."""
    words = words_asked()
    started = time.perf_counter()
    opened = system.open(folder)
    answer = system.ask(opened, question, words)
    cold = time.perf_counter() - started
    warm = []
    for _ in range(rounds):
        started = time.perf_counter()
        system.ask(opened, question, words)
        warm.append(time.perf_counter() - started)
        if sum(warm) > 20:
            break
    return {"cold": cold, "warm": statistics.median(warm), "answer": answer}


def in_child(system: Any, arguments: list[str], duckdb: str | None) -> dict[str, Any]:
    """Run one task in a new process and give what it prints."""
    environment = dict(os.environ)
    if duckdb and system.name.startswith("DuckDB"):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (duckdb, environment.get("PYTHONPATH"))))
    command = [sys.executable, __file__, "--child", system.name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "it died")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def child(arguments: list[str]) -> None:
    name, task, folder, *rest = arguments
    system = next(one for one in _search_systems.SYSTEMS if one.name == name)
    if task == "ingest":
        print(json.dumps(ingest(system, Path(folder), Path(rest[0]))))
    else:
        print(json.dumps(ask(system, Path(folder), task, int(rest[0]))))


def measured(system: Any, parent: Path, data: Path, given: argparse.Namespace) -> dict[str, Any] | None:
    """Every figure of one system; None if it cannot be had."""
    folder = parent / system.name.replace(" ", "-")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        made = in_child(system, ["ingest", str(folder), str(data)], given.duckdb)
    except RuntimeError as error:
        print(f"{system.name} is left out: {error}")
        return None
    figures: dict[str, Any] = {"ingest": made, "questions": {}}
    for question in QUESTIONS:
        if question == "selective" and system.name == "deltaic":
            figures["first"] = in_child(system, [question, str(folder), "1"], None)["cold"]
        try:
            found = in_child(system, [question, str(folder), str(given.rounds)], given.duckdb)
        except RuntimeError as error:
            print(f"{system.name}, {QUESTIONS[question]}: {error}")
            found = {"answer": None}
        figures["questions"][question] = None if found["answer"] is None else found
    shutil.rmtree(folder, ignore_errors=True)
    return figures


def show(found: dict[str, dict[str, Any]], count: int) -> None:
    """Print the tables."""
    names = list(found)
    head = "".join(f"{name:>15}" for name in names)
    print(f"\n{count:,} documents\n\n{'':<36}{head}")

    def line(title: str, cells: list[str]) -> None:
        print(f"{title:<36}" + "".join(f"{cell:>15}" for cell in cells))

    line("ingest, documents per CPU second", [f"{count / one['ingest']['cpu']:,.0f}" for one in found.values()])
    line("ingest, seconds", [f"{one['ingest']['wall']:,.1f}" for one in found.values()])
    line("size, MB", [f"{one['ingest']['bytes'] / 1e6:,.0f}" for one in found.values()])
    for kind in ("warm", "cold"):
        print(f"\n{kind}, milliseconds")
        for question, title in QUESTIONS.items():
            asked = [one["questions"][question] for one in found.values()]
            line(f"  {title}", ["-" if one is None else f"{one[kind] * 1000:,.2f}" for one in asked])
    if "deltaic" in found:
        print(f"\nfirst search of a host, cache of splits empty: {found['deltaic']['first']:,.1f} s")
        _aims(found)


def _aims(found: dict[str, dict[str, Any]]) -> None:
    """Say which aims are met: ahead of the others on every question, ten rows in 5 ms, size and ingest."""
    ours, missed = found["deltaic"], list[str]()
    for name in ("DuckDB FTS", "SQLite FTS5", "LanceDB FTS"):
        for question, title in QUESTIONS.items() if name in found else ():
            theirs, mine = found[name]["questions"][question], ours["questions"][question]
            missed += [
                f"{kind} {title}: {name} is ahead" for kind in ("warm", "cold") if theirs and theirs[kind] < mine[kind]
            ]
    for question, title in QUESTIONS.items():
        if question not in ("count", "group") and ours["questions"][question]["warm"] > 0.005:
            missed.append(f"{title}: more than 5 ms")
    if "bare Tantivy" in found and ours["ingest"]["cpu"] > found["bare Tantivy"]["ingest"]["cpu"] / 0.6:
        missed.append("ingest: below 60 % of the bare engine per CPU second")
    print("every aim is met" if not missed else "aims missed:\n  " + "\n  ".join(missed))


def _cpu() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="systems whose names start so, by comma")
    parser.add_argument("--folder", help="where to work; a temporary folder if not given")
    parser.add_argument("--duckdb", help="a folder with duckdb and its extension")
    parser.add_argument("--json", help="where to put the figures as JSON")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return 0
    import pyarrow as pa

    wanted = tuple(given.only.split(","))
    found = {}
    with tempfile.TemporaryDirectory(dir=given.folder) as parent:
        table = documents(given.documents)
        data = Path(parent, "documents.arrow")
        with pa.ipc.new_file(str(data), table.schema) as writer:
            writer.write_table(table)
        del table
        for system in _search_systems.SYSTEMS:
            if system.name.startswith(wanted):
                figures = measured(system, Path(parent), data, given)
                if figures is not None:
                    found[system.name] = figures
    show(found, given.documents)
    if given.json:
        Path(given.json).write_text(json.dumps({"machine": harness.machine(), "figures": found}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())

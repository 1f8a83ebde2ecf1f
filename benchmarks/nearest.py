"""Nearest neighbours: exact search beside the bare BLAS product of the same size, and beside others; HNSW.

    python benchmarks/nearest.py [--rows 100000 1000000] [--dims 384] [--rounds 9] [--graph-rows 50000] [--json FILE]

*Bare product* is one `numpy.dot` of the whole matrix, in one piece of memory, with the queries, into memory that is
there: no scores are looked at. *Naive* adds what a user would write: divide by the lengths, `argpartition`, sort. Ours
searches a column in chunks and gives exact, ordered neighbours. Rounds go in turns; a ratio is that of the medians of
CPU time with one BLAS thread, because on a shared machine waiting for a second core says nothing of the code; wall
times with all threads stand beside it, best of the rounds. usearch's own exact search, faiss and LanceDB are asked the
same of up to 200,000 vectors if they are installed (LanceDB reads its files, on threads of its own).

The graph is built of clustered vectors, then ten deltas change a twentieth of them a little and a two-hundredth a lot;
recall is against the exact search, of queries that are not stored.
"""

import argparse
import atexit
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from harness import machine
from numpy.typing import NDArray

from deltaic.state.vector_column import StoredVectors
from deltaic.vector.approximate import ApproximateIndex
from deltaic.vector.graph import GraphOptions
from deltaic.vector.nearest import nearest

Matrix = NDArray[np.float32]
K = 10
AIM = 0.8


def naive(matrix: Matrix, lengths: Matrix, queries: Matrix) -> Any:
    scores = (queries @ matrix.T) / lengths
    best = np.argpartition(-scores, K, axis=1)[:, :K]
    order = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1)
    return np.take_along_axis(best, order, axis=1)


def rivals(matrix: Matrix, queries: Matrix) -> dict[str, Callable[[], object]]:
    found: dict[str, Callable[[], object]] = {}
    if len(matrix) > 200_000:
        return found
    try:
        from usearch.index import MetricKind, search

        found["usearch, exact"] = lambda: search(matrix, queries, K, MetricKind.Cos, exact=True)
    except ImportError:
        print("usearch is not installed and left out", file=sys.stderr)
    try:
        import faiss

        flat = faiss.IndexFlatIP(matrix.shape[1])
        flat.add(matrix)
        if os.environ.get("OPENBLAS_NUM_THREADS") == "1":
            faiss.omp_set_num_threads(1)
        found["faiss, flat dot"] = lambda: flat.search(queries, K)
    except ImportError:
        print("faiss is not installed and left out", file=sys.stderr)
    try:
        import lancedb
        import pyarrow as pa

        folder = tempfile.mkdtemp(prefix="nearest-lance-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        values = pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), matrix.shape[1])
        table = lancedb.connect(folder).create_table("vectors", pa.table({"vector": values}))

        def lance() -> None:
            for query in queries:
                table.search(query).distance_type("cosine").limit(K).to_arrow()

        if len(queries) == 1:
            found["LanceDB, flat"] = lance
    except ImportError:
        print("lancedb is not installed and left out", file=sys.stderr)
    return found


def exact(rows: int, dims: int, rounds: int) -> list[dict[str, Any]]:
    """Every way to find the nearest, in turns; one line for each."""
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((rows, dims), dtype=np.float32)
    column = StoredVectors.of(dims, np.arange(rows), matrix)
    lengths = np.linalg.norm(matrix, axis=1)
    lines = []
    for count in (1, 64):
        queries = rng.standard_normal((count, dims), dtype=np.float32)
        turned = np.ascontiguousarray(queries.T) if count > 1 else queries[0]
        scores = np.empty((rows, count) if count > 1 else rows, np.float32)
        ways: dict[str, Callable[[], object]] = {
            "bare product": lambda turned=turned, scores=scores: np.dot(matrix, turned, out=scores),
            "naive": lambda queries=queries: naive(matrix, lengths, queries),
        }
        for metric in ("cosine", "dot", "l2"):
            ways[f"deltaic, {metric}"] = lambda queries=queries, metric=metric: nearest(
                column, queries, K, metric=metric
            )
        ways |= rivals(matrix, queries)
        truth = naive(matrix, lengths, queries)
        found = nearest(column, queries, K).ordinals
        same = float(np.mean([len(set(a) & set(b)) / K for a, b in zip(truth.tolist(), found.tolist(), strict=True)]))
        assert same > 0.999, same
        cpu: dict[str, list[float]] = {name: [] for name in ways}
        wall: dict[str, list[float]] = {name: [] for name in ways}
        names = list(ways)
        for number in range(rounds + 1):
            # Each begins once: what ran just before leaves the caches in its own state.
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                work = ways[name]
                before, started = time.process_time(), time.perf_counter()
                work()
                if number:
                    wall[name].append(time.perf_counter() - started)
                    cpu[name].append(time.process_time() - before)
        lines += [
            {"rows": rows, "queries": count, "way": name, "cpu": statistics.median(cpu[name]), "wall": min(wall[name])}
            for name in ways
        ]
    return lines


def in_process(threads: int | None, *arguments: str) -> list[dict[str, Any]]:
    environment = dict(os.environ)
    if threads is not None:
        environment["OPENBLAS_NUM_THREADS"] = environment["OMP_NUM_THREADS"] = str(threads)
    command = [sys.executable, str(Path(__file__)), "--child", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr)
    for note in sorted(set(done.stderr.splitlines())):
        if note.endswith("left out"):
            print(note)
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def clustered(rng: np.random.Generator, count: int, centres: Matrix) -> Matrix:
    chosen = centres[rng.integers(0, len(centres), count)]
    return (chosen + 0.35 * rng.standard_normal(chosen.shape)).astype(np.float32)


def graph(rows: int, dims: int) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    centres = rng.standard_normal((max(10, rows // 100), dims)).astype(np.float32)
    column = StoredVectors.of(dims, np.arange(rows), clustered(rng, rows, centres))
    index = ApproximateIndex("cosine", GraphOptions(recall_sample=0), background=False)
    index.follow(column)
    figures: dict[str, Any] = {
        "rows": rows,
        "build_seconds": index.counts.build_seconds,
        "bytes": index.counts.size_bytes,
    }
    queries = clustered(rng, 500, centres)
    figures["recall"] = index.measured_recall(column, queries=queries)
    for _ in range(10):
        chosen = rng.permutation(rows)
        little, much = chosen[: rows // 20], chosen[rows // 20 : rows // 20 + rows // 200]
        drifted = column.rows(little)
        drifted *= 1 + 0.02 * rng.standard_normal(drifted.shape).astype(np.float32)
        ordinals = np.concatenate([little, much])
        column = column.changed(ordinals, np.concatenate([drifted, clustered(rng, len(much), centres)]), column.present)
        index.follow(column)
    counts = index.counts
    figures |= {
        "update_seconds": counts.update_seconds / 10,
        "reinserted": counts.reinserted,
        "left": counts.left,
        "builds": counts.builds,
        "recall_after": index.measured_recall(column, queries=queries),
    }
    for name, search in (
        ("hnsw", lambda query: index.search(column, query, K)),
        ("exact", lambda query: nearest(column, query, K)),
    ):
        times = []
        for query in queries[:200]:
            started = time.perf_counter()
            search(query)
            times.append(time.perf_counter() - started)
        figures[f"{name}_seconds"] = statistics.median(times)
    return figures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--dims", type=int, default=384)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--graph-rows", type=int, default=50_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(exact(arguments.rows[0], arguments.dims, arguments.rounds)))
        return 0
    about = machine()
    print(
        f"{about['processor']}, {about['cores']} cores, load {about['load']:.1f}; {arguments.dims} dimensions, k = {K}"
    )
    everything: list[dict[str, Any]] = []
    missed = 0
    for rows in arguments.rows:
        given = ("--rows", str(rows), "--dims", str(arguments.dims), "--rounds", str(arguments.rounds))
        alone, free = in_process(1, *given), in_process(None, *given)
        for count in (1, 64):
            print(f"\n{rows:,} vectors, {count} {'query' if count == 1 else 'queries'}")
            print(f"  {'':<18} {'CPU, 1 thread':>15} {'share of bare':>14} {'wall, all threads':>18} {'share':>7}")
            lines = [one for one in alone if one["queries"] == count]
            walls = {one["way"]: one["wall"] for one in free if one["queries"] == count}
            bare = lines[0]["cpu"]
            for one in lines:
                share, wall = bare / one["cpu"], walls[one["way"]]
                ours = one["way"].startswith("deltaic")
                missed += ours and share < AIM
                verdict = "" if not ours else f"  aim ≥ {AIM}: {'met' if share >= AIM else 'MISSED'}"
                print(
                    f"  {one['way']:<18} {one['cpu'] * 1e3:>12.2f} ms {share:>14.2f} {wall * 1e3:>15.2f} ms "
                    f"{walls['bare product'] / wall:>7.2f}{verdict}"
                )
                everything.append({**one, "share": share, "wall_all_threads": wall})
    figures: dict[str, Any] = {}
    try:
        figures = graph(arguments.graph_rows, arguments.dims)
    except ImportError as error:
        print(f"\nHNSW is left out: {error}")
    else:
        changed = figures["reinserted"] + figures["left"]
        print(
            f"\nHNSW over {figures['rows']:,} clustered vectors, {figures['bytes'] / 1e6:,.0f} MB: built in "
            f"{figures['build_seconds']:.1f} s, recall@{K} {figures['recall']:.4f}\n"
            f"after 10 deltas ({figures['builds']} build): recall {figures['recall_after']:.4f}, "
            f"{figures['update_seconds']:.2f} s a delta; of {changed:,} changed vectors "
            f"{figures['reinserted'] / changed:.1%} placed anew\n"
            f"a query: {figures['hnsw_seconds'] * 1e6:,.0f} µs, exact {figures['exact_seconds'] * 1e6:,.0f} µs"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"machine": about, "exact": everything, "graph": figures}, indent=1))
    print(f"\n{missed} aims missed" if missed else "\nall aims met")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""How fast versions are written: ingestion from Arrow, snapshots, deltas, on the movie catalogue, beside Java Hollow.

`python benchmarks/write.py` measures a million movies (about ten minutes with Java); `--size 20000` a small catalogue.
The input is what a user has: one row per movie, `cast` as an inline list of structs, nothing dictionary-coded; values
are checked. Every delta is compared with the one of the other way to the same version, and at full size with the
recorded SHA-256 sums: a fast writer of wrong bytes does not count.
"""

import argparse
import hashlib
import io
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

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
    peak_bytes,
    report,
)
from benchmarks.movies import FULL_SIZE, SCHEMAS, SHA256, Catalogue, Ids, Step, state_tag  # noqa: E402
from tools.java import java_or_none  # noqa: E402

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaic.state.read import ReadState
    from deltaic.state.write import WriteState

ROWS = [
    Row("populate, per movie", "populate", Aim(faster=8), 7500.0),
    Row("prepare and write snapshot", "prepare and write snapshot", Aim(faster=4), 760e6),
    Row("full delta cycle", "full delta cycle", Aim(faster=8), 6550e6),
    Row("incremental cycle", "incremental cycle", Aim(faster=5), 1430e6),
    Row("prepare", "prepare", None, 280e6),
    Row("write snapshot", "write snapshot", None, 480e6),
    Row("next cycle", "next cycle", None, 833e6),
    Row("populate again", "populate again", None, 5470e6),
    Row("prepare delta", "prepare delta", None, 208e6),
    Row("write delta", "write delta", None, 38e6),
    Row("write reverse delta", "write reverse delta", None, 40e6),
    Row("peak memory: populate"),
    Row("peak memory: prepare and write snapshot"),
    Row("peak memory: full delta cycle"),
]


def new_state() -> "WriteState":
    """A write state for the catalogue, at version 0."""
    from deltaic.schema.text import parse_schemas
    from deltaic.state.write import WriteState

    return WriteState(parse_schemas(SCHEMAS), tag=state_tag(0))


def measure(size: int, rounds: int) -> None:
    """All figures, in this process."""
    first = Catalogue.first(size)
    second, step = first.advance()
    tables = first.as_arrow(), second.as_arrow()
    changes = second.only(np.sort(np.concatenate([step.changed, step.added]))).as_arrow()
    watch = Stopwatch()
    for number in range(rounds + 1):
        # The first round warms up and tells the peaks of memory.
        counted = watch if number else Stopwatch()
        snapshot, delta = full_cycle(counted, size, *tables, peaks=None if number else watch)
        if incremental_cycle(counted, snapshot, first, step, tables[0], changes) != delta:
            raise SystemExit("the two ways to version 1 gave different deltas")
    if size == FULL_SIZE:
        for name, blob in (("snapshot-0", snapshot), ("delta-0-1", delta)):
            if hashlib.sha256(blob).hexdigest() != SHA256[name]:
                raise SystemExit(f"{name} is not what Java writes")
    watch.bytes("size of the snapshot", len(snapshot))
    watch.bytes("size of the delta", len(delta))
    watch.print()


def full_cycle(
    watch: Stopwatch, size: int, first: "pa.Table", second: "pa.Table", peaks: Stopwatch | None
) -> tuple[bytes, bytes]:
    """Version 0, and version 1 by adding everything again; returns the snapshot and the delta."""
    from deltaic.state.ingest import ingest_arrow

    state, snapshot, delta, reverse = new_state(), io.BytesIO(), io.BytesIO(), io.BytesIO()

    def populate() -> None:
        watch.measure("populate, per movie", size, lambda: ingest_arrow(state, "Movie", first))

    def write() -> None:
        watch.measure("prepare", 1, state.prepare)
        watch.measure("write snapshot", 1, lambda: state.write_snapshot(snapshot))

    def again() -> None:
        watch.measure("next cycle", 1, lambda: state.next_cycle(state_tag(1)))
        watch.measure("populate again", 1, lambda: ingest_arrow(state, "Movie", second))
        watch.measure("prepare delta", 1, state.prepare)
        watch.measure("write delta", 1, lambda: state.write_delta(delta))

    if peaks is not None:
        peaks.bytes("peak memory: populate", peak_bytes(populate)[0])
        peaks.bytes("peak memory: prepare and write snapshot", peak_bytes(write)[0])
        peaks.bytes("peak memory: full delta cycle", peak_bytes(again)[0])
    else:
        populate()
        watch.measure("prepare and write snapshot", 1, write)
        watch.measure("full delta cycle", 1, again)
    watch.measure("write reverse delta", 1, lambda: state.write_reverse_delta(reverse))
    return snapshot.getvalue(), delta.getvalue()


def incremental_cycle(
    watch: Stopwatch, snapshot: bytes, catalogue: Catalogue, step: Step, first: "pa.Table", changes: "pa.Table"
) -> bytes:
    """Version 1 by keeping version 0 and replacing what changed; returns the delta."""
    from deltaic.state.ingest import ingest_arrow
    from deltaic.state.read import ReadState

    state, delta = new_state(), io.BytesIO()
    ordinals = ingest_arrow(state, "Movie", first)
    state.write_snapshot(io.BytesIO())
    gone = ordinals[np.searchsorted(catalogue.ids, np.concatenate([step.changed, step.removed]))]
    leaving = leaving_records(ReadState.load(snapshot), gone.astype(np.int64))

    def cycle() -> None:
        state.next_cycle(state_tag(1))
        state.keep_all_from_previous()
        for name, those in leaving.items():
            state.remove(name, those)
        ingest_arrow(state, "Movie", changes)
        state.write_delta(delta)

    watch.measure("incremental cycle", 1, cycle)
    return delta.getvalue()


def leaving_records(state: "ReadState", movies: Ids) -> dict[str, Ids]:
    """What only these movies lead to, per type. What a changed movie uses again is added again."""
    staying = np.setdiff1d(state.types["Movie"].populated.ordinals(), movies)
    used_lists = np.unique(references(state, "Movie", "cast")[staying])
    ends, elements = lists(state)
    starts = np.concatenate([[0], ends[:-1]])
    covered = np.zeros(len(elements) + 1, dtype=np.int64)
    np.add.at(covered, starts[used_lists], 1)
    np.add.at(covered, ends[used_lists], -1)
    used_actors = np.unique(elements[np.cumsum(covered[:-1]) > 0])
    used_texts = np.union1d(
        references(state, "Movie", "title")[staying], references(state, "Actor", "name")[used_actors]
    )
    used = {"ListOfActor": used_lists, "Actor": used_actors, "String": used_texts}
    unused = {name: np.setdiff1d(state.types[name].populated.ordinals(), those) for name, those in used.items()}
    return {"Movie": movies, **unused}


def references(state: "ReadState", type_name: str, field_name: str) -> Ids:
    """The ordinals in a reference field of a type of one shard, by ordinal."""
    from deltaic.kernels import bits
    from deltaic.schema.types import ObjectSchema
    from deltaic.wire.shards import ObjectShard

    data = state.types[type_name]
    shard = data.shards[0]
    assert isinstance(data.schema, ObjectSchema) and isinstance(shard, ObjectShard)
    position = data.schema.position(field_name)
    offset, width = shard.offsets[position], shard.widths[position]
    return bits.decode(shard.records, offset, shard.bits_per_record, width, shard.max_ordinal + 1).astype(np.int64)


def lists(state: "ReadState") -> tuple[Ids, Ids]:
    """The ends and the elements of all casts."""
    from deltaic.kernels import bits
    from deltaic.wire.shards import ListShard

    shard = state.types["ListOfActor"].shards[0]
    assert isinstance(shard, ListShard)
    width = shard.bits_per_pointer
    ends = bits.decode(shard.pointers, 0, width, width, shard.max_ordinal + 1).astype(np.int64)
    width = shard.bits_per_element
    return ends, bits.decode(shard.elements, 0, width, width, int(ends[-1])).astype(np.int64)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=FULL_SIZE, help="number of movies")
    parser.add_argument("--passes", type=int, default=2, help="turns of deltaic and Java")
    parser.add_argument("--rounds", type=int, default=2, help="rounds per turn")
    parser.add_argument("--core", type=int, default=0, help="the core that everything runs on")
    parser.add_argument("--no-java", action="store_true", help="deltaic alone, beside the recorded figures")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return measure(options.size, options.rounds)
    program = None if options.no_java else java_or_none()
    ours: Figures = {}
    java: Figures = {}
    place = ["--size", str(options.size), "--rounds", str(options.rounds)]
    for _ in range(options.passes):
        merge(ours, in_new_process(Path(__file__), "--child", *place, core=options.core))
        if program is not None:
            size, rounds = str(options.size), str(options.rounds)
            merge(java, program.run("bench-write", size, rounds, heap="6g", core=options.core))
    rows = ROWS if options.size == FULL_SIZE else [Row(row.what, row.java, row.aim) for row in ROWS]
    table = report(rows, ours, java, f"Writing {options.size:,} movies, one core, medians of {options.passes} turns")
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()

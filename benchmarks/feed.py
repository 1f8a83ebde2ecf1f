"""The change feed beside a full diff: a million movies, one step that changes 1 % of them.

`python benchmarks/feed.py` takes the first step of the catalogue's chain. The full diff compares two states that know
nothing of each other, as two snapshots do. The feed takes the two states and what the delta touched. The aim is a tenth
of the diff's time, like beside like: numbers of changes beside columns of them, Python objects beside Python objects.
"""

import argparse
import copy
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from benchmarks.harness import Aim, Row, Stopwatch, report  # noqa: E402 - needs the path above
from benchmarks.movies import FULL_SIZE  # noqa: E402
from benchmarks.read import chain_of  # noqa: E402
from tools.java import java_or_none  # noqa: E402

FULL = "full diff: counts by type and field"
COLUMNS = "feed: groups of columns with keys and values"
FULL_PLACES = "full diff: keys, places and values, objects"
OBJECTS = "feed: keys, places and values, objects"
DIFF_SAMPLE = 500
"""Records of each kind whose differences are made; that figure is what they take, times how many there are."""


def measure(watch: Stopwatch, folder: Path, rounds: int) -> dict[str, Any]:
    """Measure one step; gives what it holds."""
    from deltaic.compare.diff import diff
    from deltaic.compare.feed import step_changes
    from deltaic.consumer.feed import FeedStep, feed_step
    from deltaic.state.bitset import EMPTY
    from deltaic.state.read import ReadState

    before = ReadState.load(folder / "snapshot-0")
    step_blob = folder / "delta-0-1"

    def feed(after: ReadState, **options: Any) -> FeedStep:
        return feed_step(0, 1, before, after, _touched(after), **options)

    def alone(state: ReadState) -> ReadState:
        """The state as its snapshot would give it: of nothing is known where it came from."""
        types = {
            name: replace(data, shards=tuple(copy.copy(shard) for shard in data.shards), previous=EMPTY, pending=EMPTY)
            for name, data in state.types.items()
        }
        return ReadState(types, tag=state.tag, origin_tag=0, header_tags=state.header_tags)

    told: dict[str, Any] = {}
    for _ in range(rounds):
        after = watch.measure("apply the delta", 1, lambda: before.apply(step_blob))
        assert isinstance(after, ReadState)
        fresh = alone(after)
        watch.measure(COLUMNS, 1, lambda state=after: _columns(step_changes(before, state, _touched(state))))
        step = watch.measure("feed: a batch of patches", 1, lambda state=after: feed(state))
        watch.measure("the same with values before", 1, lambda state=after: feed(state, with_before=True))
        assert isinstance(step, FeedStep)
        watch.measure(OBJECTS, 1, lambda state=after: sum(1 for _ in feed(state)))
        data = watch.measure("wire bytes of the batch", 1, step.to_bytes)
        watch.measure(FULL, 1, lambda state=fresh: _full(diff(before, state)))
        watch.measure("diff of neighbours: counts by type and field", 1, lambda state=after: _full(diff(before, state)))
        _measure_places(watch, lambda state=fresh: diff(before, state))
        told = {"patches": len(step), "wire_bytes": len(data), "counts": step.counts()}
        watch.bytes("delta blob", step_blob.stat().st_size)
        watch.bytes("wire bytes", len(data))
    return told


def _full(found: Any) -> dict[str, Any]:
    """Everything that a diff says of types and fields."""
    return {
        one.name: (one.counts, {name: field.changed for name, field in one.fields.items()}) for one in found.changed()
    }


def _touched(after: Any) -> Any:
    from deltaic.compare.feed import touched_by
    from deltaic.consumer.apply import changed_ordinals

    return touched_by((changed_ordinals(after),))


def _columns(found: Any) -> list[Any]:
    """Read all columns of a feed."""
    return [
        (group.keys and group.keys.columns(), group.after and group.after.arrow_column("after"))
        for group in found.groups
    ]


def _measure_places(watch: Stopwatch, make: Any) -> None:
    """A diff with the values of everything that changed: of each kind some records are measured, and all counted."""
    sample = Stopwatch()
    found: Any = sample.measure("diff", 1, make)
    of_type = found["Movie"]
    counts, parts = of_type.counts, [("diff", 1)]
    for kind, count in (("added", counts.added), ("removed", counts.removed), ("modified", counts.modified)):
        sample.measure(kind, min(DIFF_SAMPLE, count), lambda chosen=kind: _differences(of_type, chosen))
        parts.append((kind, count))
    times = [sum(getattr(sample.figures[part], kind)[0] * number for part, number in parts) for kind in ("cpu", "wall")]
    watch.book(FULL_PLACES, *times)


def _differences(of_type: Any, kind: str) -> list[Any]:
    return [one.differences() for one in of_type.records(kind, limit=DIFF_SAMPLE)]


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=FULL_SIZE, help="number of movies")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    folder, _ = chain_of(options.size, java_or_none() if options.size != FULL_SIZE else None)
    watch = Stopwatch()
    told = measure(watch, folder, options.rounds)
    rows, shares = [], {}
    for mine, theirs in ((COLUMNS, FULL), (OBJECTS, FULL_PLACES)):
        whole = watch.figures[theirs].median
        rows += [Row(mine, None, Aim(at_most=whole / 10)), Row(theirs)]
        shares[mine] = watch.figures[mine].median / whole
    table = report(rows, watch.figures, {}, f"The feed of one step, {options.size:,} movies, {options.rounds} rounds")
    print(f"\n{told['patches']:,} patches, {told['wire_bytes']:,} bytes")
    for name, share in shares.items():
        print(f"  {name}: {share:.1%} of the full diff")
    for name, counts in told["counts"].items():
        print(f"  {name}: {', '.join(f'{count:,} {operation}' for operation, count in counts.items())}")
    if options.json:
        options.json.write_text(json.dumps(table | {"shares": shares}, indent=1))


if __name__ == "__main__":
    main()

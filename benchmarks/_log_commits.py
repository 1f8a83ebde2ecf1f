"""What a commit of deltaic costs, apart from the disk: processor, syncs, calls and bytes. Part of `log.py`.

The same commits to a folder on the disk and to one in memory: what is left in memory is ours. `append` adds one file,
`replace` removes one and adds one. `first` is the first commit of a new process, which knows nothing of the table yet.
Commits whose state was compacted are told apart.
"""

import os
import statistics
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMITS = 60
CALLS = ("get", "head", "list", "put", "put_if_absent", "put_if_match", "delete")


class Counted:
    """A store that counts calls, and the bytes that come and go."""

    def __init__(self, store: Any, tally: Counter[str]) -> None:
        self._store, self._tally = store, tally

    def child(self, name: str) -> "Counted":
        return Counted(self._store.child(name), self._tally)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def counted(*given: Any, **named: Any) -> Any:
            self._tally["calls"] += name in CALLS
            self._tally["written"] += sum(len(one) for one in given if isinstance(one, bytes))
            answer = found(*given, **named)
            self._tally["read"] += len(getattr(answer, "data", b""))
            return answer

        return counted


def measure(folder: Path, entry: Callable[[str, dict[str, str | None]], Any]) -> dict[str, Any]:
    """Commit to the table in a folder, one file after the other, and give what each kind of commit cost."""
    from deltaic.storage import open_store
    from deltaic.table import Table

    synced = _timed_syncs()
    tally: Counter[str] = Counter()
    table = Table.open(Counted(open_store(folder / "table"), tally))
    found: dict[str, list[dict[str, float]]] = {"first": [], "append": [], "replace": [], "compacting": []}
    last = ""
    for number in range(2 * COMMITS + 1):
        kind = "first" if number == 0 else "append" if number <= COMMITS else "replace"
        path, values = table.new_path({"day": "2024-01-01"})
        add = entry(path, values)
        tally.clear()
        synced.clear()
        started, used = time.perf_counter(), time.process_time()
        done = table.rewrite([last], [add]) if kind == "replace" else table.append([add])
        taken, used = time.perf_counter() - started, time.process_time() - used
        last = path
        cost = {"wall": taken * 1e3, "cpu": used * 1e3, "sync": sum(synced) * 1e3, **tally}
        found[kind if done.state_kind == "incremental" else "compacting"].append(cost)
    return {kind: _middle(costs) for kind, costs in found.items() if costs}


def _timed_syncs() -> list[float]:
    """How long each sync took from now on."""
    sync, times = os.fsync, []

    def timed(handle: int) -> None:
        started = time.perf_counter()
        sync(handle)
        times.append(time.perf_counter() - started)

    os.fsync = timed
    return times


def _middle(costs: list[dict[str, float]]) -> dict[str, float]:
    names = ("wall", "cpu", "sync", "calls", "written", "read")
    middle = {name: statistics.median(cost.get(name, 0) for cost in costs) for name in names}
    return {**middle, "count": len(costs), "most": max(cost["wall"] for cost in costs)}


def show(counts: list[int], costs: dict[tuple[int, str], dict[str, Any]]) -> None:
    """Print one table: a line for each cost, a column for each number of files."""
    print("\nCommits of deltaic by the number of files: medians, milliseconds")
    print(f"  {'':<46}" + "".join(f"{count:>12,}" for count in counts))
    places = sorted({place for _, place in costs})
    for kind in ("first", "append", "replace", "compacting"):
        for place in places:
            for name, title in (("wall", "wall"), ("sync", "of it syncs"), ("cpu", "processor")):
                if not (place == "memory" and name == "sync"):
                    _line(f"{kind}, {place}: {title}", counts, costs, place, kind, name, ".2f")
        place = places[-1]
        for name, title in (("calls", "store calls"), ("written", "bytes written"), ("read", "bytes read")):
            _line(f"{kind}: {title}", counts, costs, place, kind, name, ",.0f")
        if kind == "compacting":
            _line(f"{kind}: how many of {2 * COMMITS + 1}", counts, costs, place, kind, "count", ",.0f")
            _line(f"{kind}, {place}: the longest", counts, costs, place, kind, "most", ".2f")


def _line(
    title: str, counts: list[int], costs: dict[tuple[int, str], Any], place: str, kind: str, name: str, form: str
) -> None:
    cells = [costs.get((count, place), {}).get(kind) for count in counts]
    print(f"  {title:<46}" + "".join(f"{'-' if cell is None else format(cell[name], form):>12}" for cell in cells))

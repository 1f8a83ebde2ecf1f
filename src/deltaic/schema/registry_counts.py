"""How often fields are used: counted by each thread for itself, added up when fields are reordered.

Counts are approximate: what a thread counts in the moment they are added up may be lost. They decide about bytes, never
about what an index means (docs/formats/field-registry.md, 7).
"""

import threading
import weakref

import numpy as np
from numpy.typing import NDArray

from deltaic.schema.registry_table import View


class _Cell:
    """What one thread counted: (version, index) → times."""

    __slots__ = ("counts", "thread")

    def __init__(self, thread: threading.Thread) -> None:
        self.counts: dict[tuple[int, int], int] = {}
        self.thread = weakref.ref(thread)


class UseCounts:
    """Counts of the fields of a registry."""

    def __init__(self) -> None:
        self._local = threading.local()
        self._cells: list[_Cell] = []
        self._lock = threading.Lock()
        self._merged: dict[tuple[int, int], int] = {}

    def touch(self, version: int, index: int, times: int = 1) -> None:
        """Count one field."""
        counts = self._cell().counts
        counts[version, index] = counts.get((version, index), 0) + times

    def touch_many(self, version: int, indices: NDArray[np.integer]) -> None:
        """Count a column of indices."""
        counts = self._cell().counts
        found, times = np.unique(indices, return_counts=True)
        for index, more in zip(found.tolist(), times.tolist(), strict=True):
            counts[version, index] = counts.get((version, index), 0) + more

    def merged(self, view: View) -> NDArray[np.int64]:
        """The counts of all threads by index of the current version; fields that it has not are left out."""
        table = view.table()
        with self._lock:
            totals = self._merged
            for cell in self._cells:
                counts, cell.counts = cell.counts, {}
                # A copy is made in one step; the thread may still be counting into the old dictionary.
                for place, times in counts.copy().items():
                    totals[place] = totals.get(place, 0) + times
            self._cells = [cell for cell in self._cells if (thread := cell.thread()) is not None and thread.is_alive()]
            now: dict[tuple[int, int], int] = {}
            for (version, index), times in totals.items():
                here = _here(view, version, index)
                if here is not None:
                    now[view.current, here] = now.get((view.current, here), 0) + times
            self._merged = now
        counts_now = np.zeros(len(table), np.int64)
        for (_, index), times in now.items():
            if index < len(counts_now):
                counts_now[index] = times
        return counts_now

    def carry_over(self, version: int, counts: NDArray[np.int64]) -> None:
        """Go on in a new version with these counts by its indices."""
        with self._lock:
            used = np.flatnonzero(counts).tolist()
            self._merged = {(version, index): int(counts[index]) for index in used}

    def _cell(self) -> _Cell:
        cell: _Cell | None = getattr(self._local, "cell", None)
        if cell is None:
            cell = _Cell(threading.current_thread())
            with self._lock:
                self._cells.append(cell)
            self._local.cell = cell
        return cell


def _here(view: View, version: int, index: int) -> int | None:
    """The index in the current version of what was counted; None if it is gone."""
    if version == view.current:
        return index if view.table().get(index) is not None else None
    table = view.tables.get(version)
    field = None if table is None else table.get(index)
    if field is None:
        return None
    found = view.lookup(field.path)
    return found if found is not None and view.descriptor(found) == field else None

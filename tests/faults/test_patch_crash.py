"""A process that is killed at any store call of `dataset.patch`: all patches or none; the next call completes."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from deltaic.dataset import Dataset
from deltaic.schema.model import Model
from deltaic.storage.local import LocalStore
from deltaic.testing.faulty_store import FaultyStore
from deltaic.wire.patches import Operation, Patch, hybrid_timestamp

MODEL = Model.parse(
    """
String { string value; }
Movie @PrimaryKey(id) { int id; String title; int year; }
"""
)
BEFORE = {number: (f"t{number}", 1900 + number) for number in range(4)}
AFTER = {0: ("t0", 1900), 1: ("one", 5), 2: ("two", 1902), 9: ("new", None)}
STAMP = hybrid_timestamp(1_700_000_000_000)
PATCHES = [
    Patch("Movie", 1, "title", "one", timestamp=STAMP, source="a"),
    Patch("Movie", 1, "year", 5),
    Patch("Movie", 2, "title", "two", timestamp=STAMP, source="a"),
    Patch("Movie", 3, operation=Operation.REMOVE),
    Patch("Movie", 9, value={"id": 9, "title": "new"}, operation=Operation.PUT),
]
_Result = TypeVar("_Result")


class KillingStore(FaultyStore):
    """Kills its process before or after the n-th call, counted over all folders."""

    def __init__(self, store: Any, kill_at: int, moment: str) -> None:
        super().__init__(store)
        self._kill_at, self._moment = kill_at, moment

    def child(self, name: str) -> "KillingStore":
        made = KillingStore(self._store.child(name), self._kill_at, self._moment)
        made._counts = self._counts
        return made

    def _call(self, operation: str, key: str, call: Callable[[], _Result]) -> _Result:
        self.calls.append((operation, key))
        now = len(self.calls) == self._kill_at
        if now and self._moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return call()
        finally:
            if now:
                os.kill(os.getpid(), signal.SIGKILL)


def later() -> float:
    """A clock by which the lease of a killed producer has expired."""
    return time.time() + 3600


def filled(folder: Path, table: bool) -> None:
    dataset = Dataset.create(str(folder), MODEL, table=table)
    rows = [{"id": number, "title": title, "year": year} for number, (title, year) in BEFORE.items()]
    if table:
        dataset.table.append(rows)
        dataset.publish()
    else:
        with dataset.producer() as producer:
            producer.publish(rows, type_name="Movie")
    _ = dataset.registry


def killed(folder: Path, kill_at: int, moment: str) -> bool:
    """Patch in a child that is killed at a call; False if it ended before."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Dataset.open(KillingStore(LocalStore(folder), kill_at, moment)).patch(PATCHES)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def in_chain(folder: Path) -> dict[int, tuple[Any, Any]]:
    with Dataset.open(str(folder)).consumer() as consumer:
        consumer.refresh()
        rows = consumer.state["Movie"].to_arrow().to_pyarrow().to_pylist()
    return {row["id"]: (row["title"], row["year"]) for row in rows}


def in_table(folder: Path) -> dict[int, tuple[Any, Any]]:
    rows = Dataset.open(str(folder)).table.to_arrow().to_pylist()
    return {row["id"]: (row["title"], row["year"]) for row in rows}


@pytest.mark.slow
@pytest.mark.parametrize("table", [False, True], ids=["chain", "table"])
def test_a_killed_patch_is_all_or_nothing_and_can_be_sent_again(tmp_path: Path, table: bool) -> None:
    origin = tmp_path / "origin"
    filled(origin, table)
    seen: set[str] = set()
    kill_at = 0
    while True:
        kill_at += 1
        ended = False
        for moment in ("before", "after"):
            folder = tmp_path / f"{kill_at}-{moment}"
            shutil.copytree(origin, folder)
            if not killed(folder, kill_at, moment):
                ended = True
                break
            chain = in_chain(folder)
            assert chain in (BEFORE, AFTER), (kill_at, moment)
            rows = in_table(folder) if table else chain
            assert rows in (BEFORE, AFTER), (kill_at, moment)
            assert not (chain == AFTER and rows == BEFORE), "the table comes first"
            seen.add(f"{rows == AFTER} {chain == AFTER}")
            if kill_at % 5 == 0:
                again = [patch for patch in PATCHES if patch.operation is not Operation.REMOVE]
                Dataset.open(str(folder)).patch(
                    [*again, PATCHES[3]], on_missing="skip", clock=later, holder=f"next-{kill_at}-{moment}"
                )
                assert in_chain(folder) == AFTER
                assert not table or in_table(folder) == AFTER
            shutil.rmtree(folder)
        if ended:
            break
    # Kills fell before the commit, between commit and announcement, and after it.
    assert seen == ({"False False", "True False", "True True"} if table else {"False False", "True True"})
    assert kill_at > 20

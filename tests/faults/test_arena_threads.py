"""Threads that let go of a mapping or a lease while others ask for it: nobody is given one that is going."""

import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from deltaic.consumer import arena_memory
from deltaic.consumer.arena_folder import Lease
from deltaic.consumer.arena_memory import Mapping

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = """
import os, sys, threading, time, weakref
from pathlib import Path
from deltaic.consumer.arena_folder import Lease
from deltaic.consumer.arena_memory import Loan, Mapping

file, kind = Path(sys.argv[1]), sys.argv[2]
known, guard = weakref.WeakValueDictionary(), threading.Lock()

def opened():
    with guard:
        found = known.get("file")
        if found is None:
            descriptor = os.open(file, os.O_RDONLY)
            if kind == "lease":
                found = known["file"] = Lease.take(descriptor)
            else:
                found = known["file"] = Mapping("file", descriptor, writable=False)
                os.close(descriptor)
        return found

def use():
    while time.monotonic() < end:
        found = opened()
        if kind == "lease":
            assert os.fstat(found.descriptor).st_ino == found.inode
        else:
            assert Loan(found, None).array()[::4096].sum() == 0
        rounds.append(1)
        del found

rounds, end, failed = [], time.monotonic() + 2.0, []
threading.excepthook = lambda given: failed.append(given.exc_value)
threads = [threading.Thread(target=use) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(rounds) > 100
sys.exit(1 if failed else 0)
"""


@pytest.mark.parametrize("kind", ["mapping", "lease"])
def test_nobody_is_given_what_another_thread_is_letting_go_of(tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    words = [sys.executable, "-X", "faulthandler", "-c", PROGRAM, str(tmp_path / "file"), kind]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("kind", ["mapping", "lease"])
def test_what_is_being_let_go_of_is_not_found_any_more(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment that threads meet by chance, asked about from within: no weak reference is good while it lasts."""
    (tmp_path / "file").write_bytes(bytes(4096))
    known: weakref.WeakValueDictionary[str, object] = weakref.WeakValueDictionary()
    seen: list[bool] = []

    def asking(let_go: Callable[..., object]) -> Callable[..., object]:
        def asked(*given: int) -> object:
            if "watched" in state:
                seen.append(known.get("one") is not None)
            return let_go(*given)

        return asked

    state: dict[str, object] = {}
    monkeypatch.setattr(arena_memory, "_munmap", asking(arena_memory._munmap))
    monkeypatch.setattr(os, "close", asking(os.close))
    descriptor = os.open(tmp_path / "file", os.O_RDONLY)
    if kind == "lease":
        known["one"] = state["watched"] = Lease.take(descriptor)
    else:
        known["one"] = state["watched"] = Mapping("one", descriptor, writable=False)
        os.close(descriptor)
        seen.clear()
    state["watched"] = None
    assert seen == [False]

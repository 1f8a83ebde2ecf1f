"""The second process of the demonstration: a consumer in the background that tells of each refresh.

`python -m deltaic.cli.demo_follower URL` prints one JSON value per refresh and ends when its standard input does, so
that it never outlives whoever started it. `FollowerProcess` is the other end of that pipe.
"""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deltaic.consumer.changes import Changes, TypeChanges
from deltaic.consumer.consumer import Consumer
from deltaic.consumer.listener import RefreshListener
from deltaic.consumer.report import Refresh, RefreshFailure
from deltaic.errors import ValidationError
from deltaic.storage.announcement import Announcements
from deltaic.storage.urls import open_store

_STOP_SECONDS = 5.0
_POLL_SECONDS = 0.2


class Teller(RefreshListener):
    """Prints what a refresh did, as one line of JSON."""

    def __init__(self, announcements: Announcements, type_name: str) -> None:
        self._announcements, self._type_name = announcements, type_name

    def after(self, refresh: Refresh, changes: Changes) -> None:
        """Tell the version, how fresh and how large it is, and what it changed by key."""
        refreshed = time.time()
        state = changes.after
        told: dict[str, Any] = {
            "version": refresh.to_version,
            "blobs": [step.blob for step in refresh.steps],
            "bytes": refresh.size_bytes,
            "by_snapshot": refresh.by_snapshot,
            "seconds": refresh.total_seconds,
            "seconds_since_announcement": refreshed - self._announced_at(refresh.to_version),
            "rows": len(state[self._type_name].populated),
            "records": sum(len(data.populated) for data in state.types.values()),
            "state_bytes": state.nbytes,
            "process_bytes": _resident_bytes(),
            "checksum": state.checksum(),
        }
        view = state[self._type_name]
        told["fields"] = [field.name for field in state.schemas.object_schema(self._type_name).fields]
        told["first"] = view[int(view.populated.ordinals()[0])].to_dict() if len(view.populated) else None
        if not refresh.by_snapshot and self._type_name in changes:
            told["changes"] = _by_key(changes[self._type_name])
        _tell(told)

    def failed(self, failure: RefreshFailure) -> None:
        """Tell why."""
        _tell({"failed": str(failure.error)})

    def _announced_at(self, version: int) -> float:
        record = self._announcements.read().record
        entry = record.find(version) if record is not None else None
        return entry.announced_ms / 1000 if entry is not None else time.time()


def _by_key(changes: TypeChanges) -> dict[str, Any]:
    found: dict[str, Any] = {
        "added": [key[0] for key in changes.added_keys()],
        "removed": [key[0] for key in changes.removed_keys()],
        "modified": [key[0] for key in changes.modified_keys()],
    }
    if len(changes.modified):
        found["before"] = changes.before[int(changes.modified.before[0])].to_dict()
        found["after"] = changes.after[int(changes.modified.after[0])].to_dict()
    return found


def _resident_bytes() -> int | None:
    """The memory of this process; None where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _tell(values: Mapping[str, Any]) -> None:
    print(json.dumps(values), flush=True)


def follow(url: str, type_name: str) -> None:
    """Follow a chain until standard input ends."""
    store = open_store(url)
    teller = Teller(Announcements(store), type_name)
    # An interrupt from the keyboard reaches both processes; the other one says what has to be said.
    with suppress(KeyboardInterrupt), Consumer(store, listeners=[teller], poll_seconds=_POLL_SECONDS):
        sys.stdin.read()


class FollowerProcess:
    """A follower that runs as a process of its own; the end of the `with` block ends it, whatever happened."""

    def __init__(self, url: str, type_name: str) -> None:
        command = [sys.executable, "-m", "deltaic.cli.demo_follower", url, type_name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._told: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def process_id(self) -> int:
        """The number that the system gave to the process."""
        return self._process.pid

    def wait_for(self, version: int | None, timeout_seconds: float) -> dict[str, Any]:
        """What the follower told about its refresh to this version.

        Raises:
            ValidationError: it failed, ended, or told nothing in time.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            try:
                told = self._told.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise ValidationError(f"the follower is not at version {version} after {timeout_seconds:g} s") from None
            if told is None:
                raise ValidationError(f"the follower ended with exit code {self._process.wait()}")
            if "failed" in told:
                raise ValidationError(f"the follower failed: {told['failed']}")
            if told["version"] == version:
                return told

    def stop(self) -> None:
        """End the process: by the end of its input, and if it does not listen, by force."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(_STOP_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._reader.join(_STOP_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._told.put(json.loads(line))
        self._told.put(None)


if __name__ == "__main__":
    follow(*sys.argv[1:3])

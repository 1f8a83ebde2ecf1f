"""Java services that follow and publish chains, led from here: `Follower.java` and `Publisher.java`."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deltaic.state.dump import dump_state
from deltaic.state.read import ReadState
from tools.java import JavaFailedError, Program

WAIT_SECONDS = 30


class JavaService:
    """A Java process that answers one command after another."""

    def __init__(self, program: Program, *arguments: str | Path) -> None:
        self._process = subprocess.Popen(
            program.command(*map(str, arguments), heap="256m"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="ascii",
        )
        self._answer()

    def ask(self, *words: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None and self._process.stderr is not None
        line = self._process.stdout.readline()
        if not line:
            raise JavaFailedError(f"the service ended: {self._process.stderr.read()}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            raise JavaFailedError(answer["failed"])
        return answer

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class JavaConsumer(JavaService):
    """Hollow's consumer in a process of its own.

    Args:
        program: the Java program.
        folder: the chain.
        watching: follow the announcement by Hollow's watcher; else only when told to.
    """

    def __init__(self, program: Program, folder: Path, *, watching: bool = False) -> None:
        super().__init__(program, "consume", *(["--watch"] if watching else []), folder)

    def refresh(self, version: int | None = None) -> dict[str, Any]:
        """Go to what is announced, or to a version."""
        return self.ask("refresh", *([] if version is None else [version]))

    def wait_for(self, version: int) -> dict[str, Any]:
        """Wait until the watcher led it to a version."""
        return self.ask("wait", version, WAIT_SECONDS * 1000)

    def state(self) -> dict[str, Any]:
        """Every record, as State JSON."""
        found: dict[str, Any] = self.ask("state")["state"]
        return found


class JavaProducer(JavaService):
    """Hollow's producer in a process of its own; it starts by restoring what is announced."""

    def __init__(self, program: Program, folder: Path, model: str = "Movie", *, incremental: bool = False) -> None:
        # Java's versions are the second and a counter that each process begins at 1: a producer that starts within the
        # second of another one's last version would mint a smaller one.
        time.sleep(1 - time.time() % 1)
        super().__init__(program, "produce", *(["--incremental"] if incremental else []), folder, model)

    def publish(self, rows: Sequence[dict[str, Any]]) -> int:
        """Publish all rows as a version."""
        return self._version("cycle", rows)

    def change(self, rows: Sequence[dict[str, Any]], deleted: Sequence[int]) -> int:
        """Publish a version with these rows added or modified, and these ids deleted."""
        return self._version("change", rows, deleted)

    def refuse(self, rows: Sequence[dict[str, Any]]) -> str:
        """Run a cycle that a validator refuses; gives what the producer said."""
        return str(self.ask("refuse", rows)["refused"])

    def announce(self, version: int) -> None:
        """Announce an older version, as an operator does who goes back."""
        self._version("announce", version)

    def _version(self, *words: Any) -> int:
        answer = self.ask(*words)
        if "refused" in answer:
            raise JavaFailedError(answer["refused"])
        return int(answer["version"])


def same_records(theirs: dict[str, Any], ours: ReadState) -> None:
    """Fail unless a Java consumer holds exactly the records, ordinals and tags that we do."""
    dumped: dict[str, Any] = json.loads(json.dumps(dump_state(ours)))
    assert theirs["types"].keys() == dumped["types"].keys()
    for name, made in dumped["types"].items():
        java, here = _comparable(theirs["types"][name]), _comparable(made)
        for part in made:
            assert java[part] == here[part], f"{part} of {name}"
    assert theirs["headerTags"] == dumped["headerTags"]
    assert (theirs["checksum"], theirs["randomizedTag"]) == (dumped["checksum"], dumped["randomizedTag"])


def _comparable(made: dict[str, Any]) -> dict[str, Any]:
    """A type without what may differ: the largest ordinal of a type that deltas left out (hollow-blob.md, 14), and a
    FLOAT that a later model dropped, which is a NaN of all ones to Java and null to us."""
    kinds = [kind for _, kind, *_ in made.get("fields", ())]
    records = made["records"]
    if "FLOAT" in kinds:
        blank = ("FLOAT", "f" * 8)
        records = [
            [None if each == blank else each[1] for each in zip(kinds, record, strict=True)] for record in records
        ]
    return {**made, "maxOrdinal": 0, "records": records}

"""A process that follows a chain of files through an arena, for tests; told what to do line by line on its input.

`go 5` refreshes to version 5, `read` gives its content as a number, `memory` says what the process holds; each answer
is a JSON line. With `fork N` it forks N children that do the same, one after the other, and answers for all of them.
"""

import gc
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from deltaic.binary import buffers
from deltaic.consumer.arena import Arena
from deltaic.state.read import ReadState
from tests.unit.consumer.arena_chains import content_of


def memory() -> dict[str, int]:
    """What the kernel says this process holds, in bytes."""
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, value, _ = line.split()
        found[name.rstrip(":")] = int(value) * 1024
    private = found["Private_Clean"] + found["Private_Dirty"]
    return {"pss": found["Pss"], "private": private, "rss": found["Rss"], "recycled": buffers.RECYCLER.kept_bytes}


class Follower:
    """One follower; without a folder to share through, its states are its own."""

    def __init__(self, chain: Path, share: str) -> None:
        self.chain = chain
        self.arena = None if share == "private" else Arena(Path(share))
        self.state: ReadState | None = None
        self.version: int | None = None

    def go(self, version: int) -> dict[str, Any]:
        made = False

        def make(base: ReadState | None, base_version: int | None) -> ReadState:
            nonlocal made
            made = True
            if base is None or base_version is None:
                base, base_version = ReadState.load(self.chain / "snapshot-0"), 0
            for at in range(base_version, version):
                base = base.apply(self.chain / f"delta-{at}-{at + 1}")
            return base

        started = time.perf_counter()
        state = make(self.state, self.version) if self.arena is None else self.arena.refresh(version, make)
        seconds = time.perf_counter() - started
        # Letting go of the old one takes its time too, but nobody waits for that.
        self.state, self.version = state, version
        del state
        gc.collect()
        if self.arena is not None:
            self.arena.tidy()
        return {"made": made, "seconds": seconds, "nbytes": self.state.nbytes}

    def answer(self, command: str) -> dict[str, Any]:
        if command == "memory":
            return memory()
        if command == "read":
            assert self.state is not None
            return {"content": content_of(self.state)}
        return self.go(int(command.removeprefix("go ")))


def forked(follower: Follower, count: int) -> list[tuple[int, int]]:
    """Children that serve the same commands: a pair of descriptors to write to and to read from for each."""
    ends = []
    for _ in range(count):
        their_in, our_out = os.pipe()
        our_in, their_out = os.pipe()
        if os.fork() == 0:
            os.close(our_out)
            os.close(our_in)
            with os.fdopen(their_in) as commands, os.fdopen(their_out, "w") as answers:
                for line in commands:
                    print(json.dumps(follower.answer(line.strip())), file=answers, flush=True)
            os._exit(0)
        os.close(their_in)
        os.close(their_out)
        ends.append((our_out, our_in))
    return ends


def main() -> None:
    follower = Follower(Path(sys.argv[1]), sys.argv[2])
    children: list[tuple[int, int]] = []
    for line in sys.stdin:
        command = line.strip()
        if command.startswith("fork "):
            children = forked(follower, int(command.removeprefix("fork ")))
            print(json.dumps([]), flush=True)
        elif children:
            answers = []
            for out, back in children:
                os.write(out, f"{command}\n".encode())
                answers.append(json.loads(os.read(back, 1 << 16)))
            print(json.dumps(answers), flush=True)
        else:
            print(json.dumps(follower.answer(command)), flush=True)


if __name__ == "__main__":
    main()

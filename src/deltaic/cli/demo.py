"""A look at a recorded chain: `python -m deltaic.cli.demo FOLDER`.

Loads the oldest snapshot, follows the deltas to the newest version, then the reverse deltas home again, and says at
each step what changed, how large the file was and whether the state is the one that the snapshot of that version holds.
"""

import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from deltaic.errors import DeltaicError, NotFoundError, ValidationError
from deltaic.state.read import ReadState

_Answer = TypeVar("_Answer")
_STEP = re.compile(r"(?:delta|reversedelta)-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Chain:
    """The files of a folder that lead from version to version."""

    folder: Path
    first: int
    steps: dict[int, tuple[int, Path]]
    """By version: the next version and the delta that leads there."""
    steps_back: dict[int, tuple[int, Path]]

    @classmethod
    def open(cls, folder: Path) -> "Chain":
        """Find the snapshots, deltas and reverse deltas of a folder."""
        versions = [int(path.name.partition("-")[2]) for path in folder.glob("snapshot-*") if _is_version(path)]
        if not versions:
            raise NotFoundError(f"there is no snapshot-<version> in {folder}")
        steps: dict[int, tuple[int, Path]] = {}
        steps_back: dict[int, tuple[int, Path]] = {}
        for path in sorted(folder.iterdir()):
            match = _STEP.fullmatch(path.name)
            if match:
                towards = steps if path.name.startswith("delta") else steps_back
                towards[int(match[1])] = (int(match[2]), path)
        return cls(folder, min(versions), steps, steps_back)

    def snapshot(self, version: int) -> Path:
        """The path of a version's snapshot, whether it is there or not."""
        return self.folder / f"snapshot-{version}"


def _is_version(path: Path) -> bool:
    return path.name.partition("-")[2].isdigit()


def tell(chain: Chain) -> Iterator[str]:
    """The demonstration, line by line."""
    version, path = chain.first, chain.snapshot(chain.first)
    state, seconds = _timed(lambda: ReadState.load(path))
    yield f"{path.name}: {path.stat().st_size:,} bytes, loaded in {seconds * 1e3:.2f} ms"
    for name, data in state.types.items():
        records = len(data.populated)
        yield f"    {name:<24} {data.schema.kind:<7} {records:>9,} records {data.nbytes:>12,} bytes in memory"
    for steps in (chain.steps, chain.steps_back):
        visited = set[int]()
        while version in steps and version not in visited:
            visited.add(version)
            before = state
            version, path = steps[version]
            state, seconds = _timed(lambda source=path, start=before: start.apply(source))  # type: ignore[misc]
            size = path.stat().st_size
            snapshot = chain.snapshot(version)
            share = f", {size / snapshot.stat().st_size:.0%} of the snapshot" if snapshot.exists() else ""
            yield f"{path.name}: {size:,} bytes{share}, applied in {seconds * 1e3:.2f} ms"
            yield from _changes(before, state)
            if snapshot.exists():
                checksum = state.checksum()
                if ReadState.load(snapshot).checksum() != checksum:
                    raise ValidationError(f"{path.name} does not lead to the state of {snapshot.name}")
                yield f"    the same as {snapshot.name}, by Hollow's checksum {checksum & 0xFFFF_FFFF:08x}"
    records = sum(len(data.populated) for data in state.types.values())
    yield f"now at version {version}: {records:,} records in {state.nbytes:,} bytes of memory"


def _changes(before: ReadState, after: ReadState) -> Iterator[str]:
    for name, data in after.types.items():
        old = before.types[name].populated
        added, removed = len(data.populated.difference(old)), len(old.difference(data.populated))
        if added or removed:
            yield f"    {name:<24} {len(old):>9,} → {len(data.populated):>9,} records, {added:,} new, {removed:,} gone"


def _timed(run: Callable[[], _Answer]) -> tuple[_Answer, float]:
    start = time.perf_counter()
    answer = run()
    return answer, time.perf_counter() - start


def main(folder: str) -> int:
    """Print the demonstration; 1 if a file cannot be read."""
    try:
        for line in tell(Chain.open(Path(folder))):
            print(line)
    except (DeltaicError, OSError) as error:
        print(f"deltaic: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m deltaic.cli.demo FOLDER")
    sys.exit(main(sys.argv[1]))

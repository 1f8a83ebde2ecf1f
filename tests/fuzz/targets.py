"""What is fuzzed: every recorded blob of tests/golden, with the state it is read into and the numbers it holds."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from deltaic.binary.cursor import Cursor
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "hollow"
CASES = ("scalars", "collections", "hash-keys", "shards")
NUMBERS = ("varint", "varlong", "int16", "int32", "int64")
"""The readers of a cursor whose places take hostile numbers."""


@dataclass(frozen=True)
class Number:
    """A number in a blob: where, in how many bytes, and which reader of the cursor takes it."""

    at: int
    length: int
    form: str


@dataclass(frozen=True)
class Target:
    """One recorded blob. A delta has the snapshot it applies to; `following` is a sound delta for what comes out."""

    name: str
    blob: bytes
    snapshot: bytes | None
    following: bytes | None

    def read(self, blob: bytes, wanted: Filter | None = None) -> ReadState:
        """Read a blob in the place of the recorded one."""
        if self.snapshot is None:
            return ReadState.load(blob, filter=wanted)
        base = self.base if wanted is None else ReadState.load(self.snapshot, filter=wanted)
        return base.apply(blob)

    @cached_property
    def base(self) -> ReadState:
        """The state that a delta is read into."""
        assert self.snapshot is not None
        return ReadState.load(self.snapshot)

    @cached_property
    def patterns(self) -> list[str]:
        """Types and fields that a filter can name."""
        schemas = ReadState.load(self.snapshot or self.blob).schemas
        fields = [f"{schema.name}.{field.name}" for schema in schemas for field in getattr(schema, "fields", ())]
        return [schema.name for schema in schemas] + fields

    @cached_property
    def numbers(self) -> list[Number]:
        """Every number that reading the sound blob asks its cursor for."""
        with _traced() as numbers:
            self.read(self.blob)
        return sorted(set(numbers), key=lambda number: number.at)


def all_targets() -> list[Target]:
    """Every blob of the golden cases, in a fixed order."""
    return [target for case in CASES for target in _of_case(GOLDEN / case)]


def _of_case(folder: Path) -> Iterator[Target]:
    versions = [entry["version"] for entry in json.loads((folder / "case.json").read_text())["versions"]]
    blobs = {
        path.name: path.read_bytes() for path in folder.iterdir() if "delta-" in path.name or "snapshot-" in path.name
    }
    for version in versions:
        snapshot = blobs[f"snapshot-{version}"]
        yield Target(f"{folder.name}/snapshot-{version}", snapshot, None, blobs.get(f"delta-{version}-{version + 1}"))
    for version in versions[:-1]:
        forward, backward = f"delta-{version}-{version + 1}", f"reversedelta-{version + 1}-{version}"
        before, after = blobs[f"snapshot-{version}"], blobs[f"snapshot-{version + 1}"]
        yield Target(f"{folder.name}/{forward}", blobs[forward], before, blobs[backward])
        yield Target(f"{folder.name}/{backward}", blobs[backward], after, blobs[forward])


@contextmanager
def _traced() -> Iterator[list[Number]]:
    """Note the numbers that any cursor reads."""
    found: list[Number] = []
    originals = {form: getattr(Cursor, form) for form in NUMBERS}

    def noting(form: str) -> Callable[[Cursor], int]:
        def read(self: Cursor) -> Any:
            start = self.position
            value = originals[form](self)
            found.append(Number(start, self.position - start, form))
            return value

        return read

    for form in NUMBERS:
        setattr(Cursor, form, noting(form))
    try:
        yield found
    finally:
        for form, original in originals.items():
            setattr(Cursor, form, original)

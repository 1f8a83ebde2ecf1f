"""Recorded index tables as a conformance suite: each folder with an `EXPECTED.json` is a case.

Compared are the newest version, the state folder, live files, records, bytes, tombstones and registered schemas; then
whether every older version can be read, whether the split files are there with their sizes, and every row.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltaic.errors import DeltaicError, InputError
from deltaic.storage import open_store
from deltaic.table.log import Log
from deltaic.table.manifest import ManifestCache
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Snapshot
from deltaic.table.verify import verify_table

EXPECTED_NAME = "EXPECTED.json"


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of one case."""

    name: str
    checks: int
    failure: str | None = None

    @property
    def passed(self) -> bool:
        return self.failure is None

    def __str__(self) -> str:
        if self.failure is None:
            return f"pass {self.name}: {self.checks} checks"
        return f"FAIL {self.name}: {self.failure}"


def run_folder(folder: Path) -> Iterator[CaseResult]:
    """Run every case of a folder, or the folder itself if it is one."""
    cases = (
        [folder]
        if (folder / EXPECTED_NAME).is_file()
        else sorted(path.parent for path in folder.glob(f"*/{EXPECTED_NAME}"))
    )
    if not cases:
        raise InputError(f"{folder} has no {EXPECTED_NAME} in it or in its folders")
    for case in cases:
        yield run_case(case)


def run_case(folder: Path) -> CaseResult:
    """Run one case; the first difference is its failure."""
    try:
        expected = json.loads((folder / EXPECTED_NAME).read_text())
        checks = 0
        for name, ours, theirs in _compared(folder, expected):
            if ours != theirs:
                return CaseResult(folder.name, checks, f"{name} is {_shown(ours)}, expected {_shown(theirs)}")
            checks += 1
        return CaseResult(folder.name, checks)
    except (DeltaicError, ValueError, KeyError, TypeError) as error:
        return CaseResult(folder.name, 0, f"{type(error).__name__}: {error}")


def _compared(folder: Path, expected: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    store = open_store(folder)
    # A cache of its own: a planted fault in a copy must not be hidden by what was read of the original.
    log = Log(store, cache=ManifestCache())
    snapshot = log.snapshot()
    state = snapshot.state
    answers: dict[str, Callable[[Snapshot], Any]] = {
        "latestVersion": lambda found: found.version,
        "stateDir": lambda _: None if state is None else state.folder,
        "liveFiles": lambda found: sorted(found.paths()),
        "numRecords": lambda found: found.num_records,
        "totalBytes": lambda found: found.total_bytes,
        "tombstones": lambda _: [] if state is None else sorted(state.tombstones),
        "schemaRegistryKeys": lambda found: sorted(found.schemas),
    }
    for name, answer in answers.items():
        if name in expected:
            yield name, answer(snapshot), expected[name]
    for version in range(snapshot.version):
        older = log.snapshot(version)
        yield f"version of version {version}", older.version, version
        yield f"files of version {version}", older.num_files, len(set(older.paths()))
    checked = verify_table(store, log, Settings())
    yield "what verify finds", [str(finding) for finding in checked.findings], []
    if "rows" in expected:
        yield from _rows(folder, expected["rows"])


def _rows(folder: Path, expected: list[dict[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    from deltaic.table.rows import Table

    table = Table.open(open_store(folder), cache=ManifestCache())
    ours, theirs = _in_order(table.to_arrow().to_pylist()), _in_order(expected)
    for number, (mine, other) in enumerate(zip(ours, theirs, strict=False)):
        yield f"row {number}", mine, other
    yield "number of rows", len(ours), len(theirs)


def _in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows as JSON says them, in an order that both sides can have."""
    plain = [json.loads(json.dumps(row, default=str, sort_keys=True)) for row in rows]
    return sorted(plain, key=lambda row: json.dumps(row, sort_keys=True))


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"

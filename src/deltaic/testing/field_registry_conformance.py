"""Conformance with a recorded field registry: every case of every file of a folder, a line per case.

A folder holds files `{"about": …, "cases": […]}` whose names say what is to be done with a case. A case has either
results or the name of an error (field-registry.md, 11). `reorder_large` is one case by itself.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from deltaic.errors import DeltaicError, InputError
from deltaic.testing import references_conformance as references
from deltaic.testing import registry_conformance as registry
from deltaic.testing.hollow_conformance import CaseResult
from deltaic.testing.references_conformance import Checker, Mismatch

Json = Any


def run_folder(folder: Path) -> Iterator[CaseResult]:
    """Run every case of every file of a folder."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder")
    files = sorted(path for path in folder.glob("*.json") if path.is_file())
    if not any(path.stem in CHECKS for path in files):
        raise InputError(f"{folder} holds no case: none of {', '.join(sorted(CHECKS))} as .json")
    for path in files:
        yield from _run_file(path)


def _run_file(path: Path) -> Iterator[CaseResult]:
    kind = path.stem
    if kind not in CHECKS:
        yield CaseResult(kind, 0, skipped="no kind of case that is known")
        return
    try:
        content = json.loads(path.read_bytes())
        cases = [content | {"name": "plan"}] if kind in WHOLE_FILES else content["cases"]
        # The first case of `resolve` is the table of fields of the others.
        shared = cases[0] if cases and "fields" in cases[0] and "index" not in cases[0] else {}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        yield CaseResult(kind, 0, failure=f"no file of cases: {type(error).__name__}: {error}")
        return
    if not cases:
        yield CaseResult(kind, 0, failure="a file of cases without a case")
    for case in cases:
        yield run_case(kind, case, shared)


def run_case(kind: str, case: Mapping[str, Json], shared: Mapping[str, Json] | None = None) -> CaseResult:
    """Run one case of a kind."""
    checker = Checker(shared)
    name = kind
    try:
        name = f"{kind}/{case.get('name', '?')}"
        CHECKS[kind](case, checker)
    except (Mismatch, DeltaicError, ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        return CaseResult(name, checker.count, failure=f"{type(error).__name__}: {error}")
    return CaseResult(name, checker.count)


WHOLE_FILES = frozenset({"reorder_large"})
"""Files that are one case."""

CHECKS: dict[str, Callable[[Json, Checker], None]] = {
    "varint": references.check_varint,
    "paths": references.check_path,
    "paths_random": references.check_path,
    "references": references.check_reference,
    "references_random": references.check_reference,
    "malformed": references.check_malformed,
    "references_damaged": references.check_damaged,
    "blocks": references.check_block,
    "resolve": references.check_resolve,
    "resolve_random": references.check_resolve,
    "reorder": registry.check_reorder,
    "reorder_random": registry.check_reorder,
    "reorder_large": registry.check_reorder_large,
    "registry": registry.check_life,
    "registry_random": registry.check_life,
    "recovery": registry.check_recovery,
}
"""What is done with a case of each file."""

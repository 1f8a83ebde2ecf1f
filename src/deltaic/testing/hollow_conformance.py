"""Conformance with recorded Hollow cases: read and write everything, compare raw values and bytes, a line per case.

A folder of cases is laid out like the recorded fixtures: a sub-folder per case with `case.json`, blobs, and the
content that another implementation read as State JSON. What is compared is `state.dump`, raw values, never a form
that both sides were normalised to. Cases that need what is not built yet are *skipped*: neither passed nor failed.
"""

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from deltaic.errors import DeltaicError, InputError
from deltaic.schema.text import parse_schemas
from deltaic.state.dump import dump_records, dump_state
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.testing.hollow_append import check_append
from deltaic.testing.hollow_vectors import check_vectors
from deltaic.testing.replay import expected_blob, replay_case, same_blob

Json = Any


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of one case: how many comparisons held, and the first that did not."""

    name: str
    checks: int
    failure: str | None = None
    skipped: str | None = None

    @property
    def passed(self) -> bool:
        """True if all comparisons held."""
        return self.failure is None and self.skipped is None

    def __str__(self) -> str:
        if self.skipped is not None:
            return f"skip  {self.name}: {self.skipped}"
        if self.failure is not None:
            return f"FAIL  {self.name}: {self.failure}"
        return f"pass  {self.name}: {self.checks} checks"


class _Mismatch(Exception):
    """A comparison that did not hold."""


class _Checker:
    """Counts comparisons and stops at the first that does not hold."""

    def __init__(self) -> None:
        self.count = 0

    def equal(self, what: str, expected: Json, actual: Json) -> None:
        self.count += 1
        difference = first_difference(expected, actual)
        if difference is not None:
            raise _Mismatch(f"{what}: {difference}")


def run_folder(folder: Path) -> Iterator[CaseResult]:
    """Run every case below a folder laid out like the recorded fixtures, or the one case that the folder is."""
    if not folder.is_dir():
        raise InputError(f"{folder} is no folder")
    cases = sorted(path for path in [folder, *folder.rglob("*")] if _check_of(path) is not None)
    if not cases:
        raise InputError(f"{folder} holds no case: no case.json, store.json or vectors.json in it or below")
    for case in cases:
        yield run_case(case)


def run_case(folder: Path) -> CaseResult:
    """Run one case."""
    check = _check_of(folder)
    name = folder.name if folder.parent.name != "schema-append" else f"schema-append/{folder.name}"
    if check is None:
        return CaseResult(name, 0, failure="no case.json, store.json or vectors.json")
    checker = _Checker()
    try:
        check(folder, checker)
    except (_Mismatch, DeltaicError, OSError, KeyError, json.JSONDecodeError) as error:
        return CaseResult(name, checker.count, failure=f"{type(error).__name__.lstrip('_')}: {error}")
    return CaseResult(name, checker.count)


def first_difference(expected: Json, actual: Json, path: str = "") -> str | None:
    """Where two JSON values differ first, types included (1 is not true, 1 is not 1.0); None if nowhere."""
    if type(expected) is not type(actual):
        return f"{path or 'value'}: expected {_short(expected)}, got {_short(actual)}"
    if isinstance(expected, dict):
        for key in expected.keys() | actual.keys():
            if key not in actual or key not in expected:
                return f"{path}.{key}: only in the {'expected' if key in expected else 'actual'} value"
        found = (first_difference(expected[key], actual[key], f"{path}.{key}") for key in expected)
    elif isinstance(expected, list):
        if expected == actual and not _has_bool_twin(expected, actual):
            return None
        if len(expected) != len(actual):
            return f"{path}: expected {len(expected)} values, got {len(actual)}"
        pairs = zip(expected, actual, strict=True)
        found = (first_difference(left, right, f"{path}[{index}]") for index, (left, right) in enumerate(pairs))
    else:
        return None if expected == actual else f"{path or 'value'}: expected {_short(expected)}, got {_short(actual)}"
    return next((difference for difference in found if difference is not None), None)


def _has_bool_twin(expected: list[Json], actual: list[Json]) -> bool:
    return any(type(left) is not type(right) for left, right in zip(expected, actual, strict=True)) or any(
        isinstance(value, list | dict) for value in expected
    )


def _short(value: Json) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _check_of(folder: Path) -> Callable[[Path, _Checker], None] | None:
    if not folder.is_dir():
        return None
    if (folder / "case.json").is_file():
        return _check_chain
    if (folder / "store.json").is_file():
        return _check_store
    if (folder / "vectors.json").is_file():
        return _check_vectors
    return None


def _check_vectors(folder: Path, checker: _Checker) -> None:
    for what, expected, actual in check_vectors(read_json(folder / "vectors.json")):
        checker.equal(what, expected, actual)


def read_json(path: Path) -> Json:
    """A JSON file, compressed if its name ends in `.gz`."""
    return json.loads(read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """The content of a file, unpacked if its name ends in `.gz`."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.name.endswith(".gz") else data


def _check_chain(folder: Path, checker: _Checker) -> None:
    case = read_json(folder / "case.json")
    versions = case["versions"]
    for version in versions:
        if "snapshot" in version:
            _check_snapshot(folder, version, checker)
    if "lastSnapshot" in case:
        last = versions[-1]
        state = ReadState.load(folder / case["lastSnapshot"])
        checker.equal("last snapshot", read_json(folder / last["state"]), dump_state(state, last["version"]))
    state = _check_forward(folder, versions, checker)
    _check_back(folder, versions, state, checker)
    if "tagOrder" in case:
        for version, order in zip(versions, case["tagOrder"], strict=True):
            state = ReadState.load(folder / version["snapshot"])
            checker.equal(f"tag order of version {version['version']}", order, list(state.header_tags))
    if "lookups" in case:
        _check_lookups(folder, case, checker)
    if "appendEnabled" in case:
        for what, expected, actual in check_append(folder, case):
            checker.equal(what, expected, actual)
    else:
        _check_written(folder, case, checker)
    _check_without_parts(folder, case, checker)
    _check_filtered(folder, case, checker)
    _check_forms(folder, case, checker)


def _parts(folder: Path, names: Mapping[str, str] | None) -> dict[str, Path]:
    return {part: folder / name for part, name in (names or {}).items()}


def _check_snapshot(folder: Path, version: Json, checker: _Checker) -> None:
    number = version["version"]
    state = ReadState.load(folder / version["snapshot"], parts=_parts(folder, version.get("snapshotParts")))
    checker.equal(f"snapshot {number}", read_json(folder / version["state"]), dump_state(state, number))
    checker.equal(f"origin tag of snapshot {number}", version["originTag"], f"{state.origin_tag:016x}")
    written = parse_schemas(read_bytes(folder / version["schemas"]).decode(), version["schemas"])
    if not version.get("snapshotParts"):
        checker.equal(f"order of types in snapshot {number}", list(written.names), list(state.types))
    expected = {schema.name: str(schema) for schema in written}
    checker.equal(f"schemas of version {number}", expected, {schema.name: str(schema) for schema in state.schemas})


def _check_forward(folder: Path, versions: list[Json], checker: _Checker) -> ReadState:
    first = versions[0]
    state = ReadState.load(folder / first["snapshot"], parts=_parts(folder, first.get("snapshotParts")))
    for version in versions[1:]:
        number = version["version"]
        state = state.apply(folder / version["delta"], parts=_parts(folder, version.get("deltaParts")))
        expected = read_json(folder / version.get("chainState", version["state"]))
        checker.equal(f"delta to {number}", expected, dump_state(state, number))
        if "ghosts" in version:
            ghosts = {
                name: {str(ordinal): record for ordinal, record in dump_records(data, data.pending).items()}
                for name, data in state.types.items()
                if data.pending and data.previous != data.populated
            }
            checker.equal(f"ghosts of version {number}", _only(ghosts, read_json(folder / version["ghosts"])), ghosts)
    return state


def _only(actual: Json, expected: Json) -> Json:
    """The recorded ghosts; types without any may be written as empty or left out."""
    return {name: records for name, records in expected.items() if records or name in actual}


def _check_back(folder: Path, versions: list[Json], state: ReadState, checker: _Checker) -> None:
    for version, target in zip(reversed(versions[1:]), reversed(versions[:-1]), strict=True):
        number = target["version"]
        state = state.apply(folder / version["reverseDelta"], parts=_parts(folder, version.get("reversedeltaParts")))
        recorded = target.get("afterReverse") or target.get("chainState") or target["state"]
        expected, actual = read_json(folder / recorded), dump_state(state, number)
        if "afterReverse" not in target:
            # A state that differs only in its largest ordinal has no recorded file of its own.
            for name, data in actual["types"].items():
                data["maxOrdinal"] = expected["types"][name]["maxOrdinal"]
        checker.equal(f"reverse delta to {number}", expected, actual)


def _check_without_parts(folder: Path, case: Json, checker: _Checker) -> None:
    names = case.get("readWithoutParts", [])
    state: ReadState | None = None
    for version, name in zip(case["versions"] if names else [], names, strict=True):
        state = (
            ReadState.load(folder / version["snapshot"]) if state is None else state.apply(folder / version["delta"])
        )
        checker.equal(f"{name}", read_json(folder / name), dump_state(state, version["version"]))


def _check_filtered(folder: Path, case: Json, checker: _Checker) -> None:
    if "filteredRead" not in case:
        return
    wanted = filter_of_rule(case["filteredRead"]["rule"])
    expected = {}
    for name in case["filteredRead"]["files"]:
        content = read_json(folder / name)
        expected[content["version"]] = content
    state: ReadState | None = None
    for version in case["versions"]:
        if state is None:
            state = ReadState.load(folder / version["snapshot"], filter=wanted)
        else:
            state = state.apply(folder / version["delta"])
        if version["version"] in expected:
            number = version["version"]
            checker.equal(f"filtered {number}", expected[number], dump_state(state, number))


def filter_of_rule(rule: str) -> Filter:
    """The filter that a case describes in words: clauses after "exclude all", parted by semicolons."""
    first, *clauses = [clause.strip() for clause in rule.split(";")]
    if first != "exclude all":
        raise InputError(f"filter rule {rule!r}: it must start with 'exclude all'")
    patterns: list[str] = []
    for clause in clauses:
        below = re.fullmatch(r"include (\S+) and everything below it", clause)
        fields = re.fullmatch(r"include fields? (.+)", clause)
        if below is not None:
            patterns.append(f"{below[1]}.**")
        elif fields is not None:
            patterns += re.split(r",\s*", fields[1])
        else:
            raise InputError(f"filter rule: {clause!r} is not understood")
    return Filter.only(*patterns)


def _check_forms(folder: Path, case: Json, checker: _Checker) -> None:
    for form in case.get("forms", []):
        state: ReadState | None = None
        for version in case["versions"]:
            number = version["version"]
            expected = read_json(folder / version["state"])
            snapshot = ReadState.load(folder / f"snapshot-{number}.{form}")
            checker.equal(f"snapshot {number} as {form}", expected, dump_state(snapshot, number))
            if state is not None:
                state = state.apply(folder / f"delta-{number - 1}-{number}.{form}")
                checker.equal(f"delta to {number} as {form}", expected, dump_state(state, number))
            else:
                state = snapshot


def _check_written(folder: Path, case: Json, checker: _Checker) -> None:
    """Make the recorded calls again and compare the blobs, header tags as maps."""
    if not (folder / case.get("ops", "ops.jsonl")).is_file():
        return
    for version in replay_case(folder):
        for name, blob in version.blobs.items():
            recorded = expected_blob(folder, name)
            if recorded is not None:
                checker.equal(f"{name} as written", None, same_blob(recorded, blob))


def _check_lookups(folder: Path, case: Json, checker: _Checker) -> None:
    states = {version["version"]: ReadState.load(folder / version["snapshot"]) for version in case["versions"]}
    for lookup in read_json(folder / case["lookups"]):
        record = states[lookup["version"]][lookup["type"]][lookup["record"]]
        what = f"look-up of {lookup['key']} in {lookup['type']} {lookup['record']} of version {lookup['version']}"
        if "element" in lookup:
            found = record.find(*lookup["key"])
            checker.equal(what, lookup["element"], -1 if found is None else found.ordinal)
        else:
            entry = record.find_entry(*lookup["key"])
            actual = [-1, -1] if entry is None else [part.ordinal for part in entry]
            checker.equal(what, [lookup["foundKey"], lookup["foundValue"]], actual)


def _check_store(folder: Path, checker: _Checker) -> None:
    """A folder as a producer lays it out: follow it from its first snapshot, then back."""
    layout = read_json(folder / "store.json")
    store = folder / "store"
    checker.equal("files", sorted(layout["files"]), sorted(path.name for path in store.iterdir()))
    announced = int((store / "announced.version").read_text())
    checker.equal("announced version", layout["announced"], announced)
    numbers = [version["version"] for version in layout["versions"]]
    expected = {version["version"]: read_json(folder / version["state"]) for version in layout["versions"]}
    state = ReadState.load(store / f"snapshot-{numbers[0]}")
    checker.equal(f"snapshot {numbers[0]}", expected[numbers[0]], dump_state(state, numbers[0]))
    for before, after in pairwise(numbers):
        state = state.apply(store / f"delta-{before}-{after}")
        checker.equal(f"delta to {after}", expected[after], dump_state(state, after))
        if (store / f"snapshot-{after}").exists():
            snapshot = ReadState.load(store / f"snapshot-{after}")
            checker.equal(f"snapshot {after}", expected[after], dump_state(snapshot, after))
    for before, after in zip(reversed(numbers[:-1]), reversed(numbers[1:]), strict=True):
        state = state.apply(store / f"reversedelta-{after}-{before}")
        actual = dump_state(state, before)
        for name, data in actual["types"].items():
            data["maxOrdinal"] = expected[before]["types"][name]["maxOrdinal"]
        checker.equal(f"reverse delta to {before}", expected[before], actual)

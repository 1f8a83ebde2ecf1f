"""Recorded Hollow cases are read as Java read them."""

import json
import shutil
from pathlib import Path

import pytest

from deltaic.testing.hollow_conformance import first_difference, run_case, run_folder

GOLDEN = Path(__file__).parent / "hollow"
CASES = sorted(path.name for path in GOLDEN.iterdir())
RECORDED = [
    "blob-store",
    "collections",
    "empty-types",
    "envelopes",
    "focus-holes",
    "hash-keys",
    "header-tags",
    "movie-catalog",
    "nested",
    "optional-parts",
    "ordinal-reuse",
    "partitioned-ordinals",
    "resharding",
    "restore",
    "scalar-edges",
    "scalars",
    "schema-evolution",
    "shards",
    "vectors",
]


@pytest.mark.parametrize("name", CASES)
def test_a_clone_alone_reads_recorded_blobs(name):
    result = run_case(GOLDEN / name)
    assert result.passed, result
    assert result.checks > 10


@pytest.mark.parametrize("name", RECORDED)
def test_every_recorded_case_is_read_as_java_read_it(name, hollow_fixtures):
    result = run_case(hollow_fixtures / name)
    assert result.passed, result


def test_no_recorded_case_is_forgotten(hollow_fixtures):
    names = {path.name for path in hollow_fixtures.iterdir() if path.is_dir()}
    assert names == {*RECORDED, "schema-append"}


def _plant_in_state(folder: Path) -> None:
    path = folder / "state-2.json"
    state = json.loads(path.read_text())
    name = next(name for name, data in sorted(state["types"].items()) if data["kind"] == "OBJECT" and data["records"])
    record = state["types"][name]["records"][-1]
    position = next(
        index for index, value in enumerate(record) if isinstance(value, int) and not isinstance(value, bool)
    )
    record[position] += 1
    path.write_text(json.dumps(state))


def _plant_in_blob(folder: Path) -> None:
    path = folder / "delta-1-2"
    data = bytearray(path.read_bytes())
    data[-9] ^= 0x04
    path.write_bytes(data)


def _plant_in_calls(folder: Path) -> None:
    path = folder / "ops.jsonl"
    lines = path.read_text().splitlines()
    write = next(place for place, line in enumerate(lines) if json.loads(line)["op"] == "write")
    operation = json.loads(lines[write])
    operation["nextTag"] = "0123456789abcdef"
    lines[write] = json.dumps(operation)
    path.write_text("\n".join(lines))


def _plant_null_for_false(folder: Path) -> None:
    path = folder / "state-1.json"
    text = path.read_text()
    assert "false" in text
    path.write_text(text.replace("false", "0", 1))


@pytest.mark.parametrize(
    ("name", "plant"),
    [
        ("scalars", _plant_in_state),
        ("scalars", _plant_null_for_false),
        ("shards", _plant_in_state),
        ("shards", _plant_in_blob),
        ("collections", _plant_in_blob),
        ("hash-keys", _plant_in_calls),
    ],
)
def test_a_planted_fault_fails_exactly_its_case(tmp_path, name, plant):
    shutil.copytree(GOLDEN, tmp_path / "cases")
    plant(tmp_path / "cases" / name)
    results = {result.name: result for result in run_folder(tmp_path / "cases")}
    assert {case for case, result in results.items() if not result.passed} == {name}
    assert len(results) == len(CASES)


def test_numbers_and_truth_values_are_not_mixed_up():
    assert first_difference([1], [True]) is not None
    assert first_difference({"a": [[0, None]]}, {"a": [[False, None]]}) is not None
    assert first_difference({"a": 1}, {"a": 1, "b": 2}) is not None
    assert first_difference([[1, "x", None]], [[1, "x", None]]) is None

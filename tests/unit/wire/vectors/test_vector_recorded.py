"""Recorded vector deltas hold, and a planted fault in any kind of case is found and named."""

import json
import shutil

import pytest

from deltaic.errors import InputError
from deltaic.testing.vector_conformance import run_folder

KINDS = {
    "varint": ("value", "hex"),
    "quantize": ("block",),
    "encode": ("message",),
    "encode_random": ("result_f32le", "message"),
    "decode": ("result_f32le", "message"),
    "decode_damaged": ("error",),
    "malformed": ("error",),
    "apply": ("result_f32le",),
    "compose": ("message",),
    "compose_random": ("result_f32le",),
    "inverse": ("inverse_message",),
    "select": ("format",),
    "dictionary": ("dictionary",),
    "stream": ("offsets",),
    "refresh": ("refresh",),
    "batch": ("frame",),
    "batch_damaged": ("error",),
    "batch_malformed": ("error",),
    "batch_random": ("frame",),
}


@pytest.fixture(scope="session")
def recorded(fixtures_dir):
    folder = fixtures_dir / "vector-delta"
    if not folder.is_dir():
        pytest.skip("no vector deltas in the folder of recorded fixtures")
    return folder


def test_every_recorded_case_holds(recorded):
    results = list(run_folder(recorded))
    assert [str(result) for result in results if result.failure is not None] == []
    assert sum(result.passed for result in results) > 1_000
    assert {result.name.partition("/")[0] for result in results} >= set(KINDS)


def test_every_file_of_cases_is_one_that_the_suite_knows(recorded):
    assert {path.stem for path in recorded.glob("*.json")} == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_fault_is_named(kind, recorded, tmp_path):
    for name in {kind, "dictionary"}:
        shutil.copyfile(recorded / f"{name}.json", tmp_path / f"{name}.json")
    path = tmp_path / f"{kind}.json"
    content = json.loads(path.read_text())
    place = next(place for place, case in enumerate(content["cases"]) if any(case.get(field) for field in KINDS[kind]))
    case = content["cases"][place]
    for field in KINDS[kind]:
        if case.get(field):
            case[field] = spoilt(case[field])
            break
    path.write_text(json.dumps(content))
    failed = [result for result in run_folder(tmp_path) if result.failure is not None]
    # A dictionary that is not what it was spoils the cases that use it too.
    assert f"{kind}/{case['name']}" in [result.name for result in failed]
    assert kind == "dictionary" or len(failed) == 1


def spoilt(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, list):
        return value[:-1]
    if value[0].isupper():
        return "Other"
    last = int(value[-1], 16)
    return f"{value[:-1]}{last ^ 1:x}"


def test_a_folder_without_cases_is_misuse(tmp_path):
    with pytest.raises(InputError, match="holds no case"):
        list(run_folder(tmp_path))


def test_a_file_of_another_kind_is_not_counted_as_passed(recorded, tmp_path):
    shutil.copyfile(recorded / "varint.json", tmp_path / "varint.json")
    (tmp_path / "other.json").write_text('{"cases": [{}]}')
    (tmp_path / "select.json").write_text("{}")
    results = {result.name: result for result in run_folder(tmp_path)}
    assert results["other"].skipped and not results["other"].passed
    assert results["select"].failure

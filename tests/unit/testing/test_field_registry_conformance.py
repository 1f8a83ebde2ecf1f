"""`deltaic conformance field-registry`: every recorded case holds, and a fault in any file is named."""

import json

import pytest

pytest.importorskip("typer")

from deltaic.cli import main
from deltaic.testing.field_registry_conformance import CHECKS, run_case, run_folder


@pytest.fixture
def recorded(fixtures_dir):
    folder = fixtures_dir / "field-registry"
    if not folder.is_dir():
        pytest.skip("no recorded field registry in the folder of recorded fixtures")
    return folder


def test_every_recorded_case_holds(recorded):
    results = list(run_folder(recorded))
    assert [str(result) for result in results if not result.passed] == []
    assert len(results) > 1_250
    assert {result.name.split("/")[0] for result in results} == {path.stem for path in recorded.glob("*.json")}
    # A case that compares nothing shows nothing.
    assert all(result.checks for result in results)


def cases_of(folder, kind):
    content = json.loads((folder / f"{kind}.json").read_text())
    return content, content.get("cases", [content])


def first(cases, wanted):
    return next(case for case in cases if wanted(case))


FAULTS = {
    "varint": (lambda case: "value" in case and "hex" in case, lambda case: case.update(value=case["value"] + 1)),
    "paths": (lambda case: "steps" in case, lambda case: case["steps"].append(["[]"])),
    "paths_random": (lambda case: "error" in case, lambda case: case.update(error="UnknownField")),
    "references": (lambda case: "hex" in case, lambda case: case.update(hex=case["hex"] + "00")),
    "references_random": (lambda case: case["params"], lambda case: case["params"].pop()),
    "malformed": (lambda case: True, lambda case: case.update(error="NonCanonical")),
    "references_damaged": (lambda case: "index" in case, lambda case: case.update(index=case["index"] ^ 1)),
    "blocks": (lambda case: case.get("refs"), lambda case: case["refs"][0].update(index=5)),
    "resolve": (lambda case: "address" in case, lambda case: case["address"].pop()),
    "resolve_random": (lambda case: "error" in case, lambda case: case.update(error="InvalidPath")),
    "reorder": (lambda case: case["old_index_of"], lambda case: case["old_index_of"].reverse()),
    "reorder_random": (lambda case: case["old_index_of"], lambda case: case["old_index_of"].pop()),
    "reorder_large": (lambda case: True, lambda case: case["moved"].popitem()),
    "registry": (lambda case: True, lambda case: case["steps"][0].update(result=7)),
    "registry_random": (lambda case: True, lambda case: case.update(snapshot=case["snapshot"][:-1] + "z")),
    "recovery": (lambda case: "good_bytes" in case, lambda case: case.update(good_bytes=case["good_bytes"] - 1)),
}


@pytest.mark.parametrize("kind", sorted(CHECKS))
def test_a_fault_that_is_planted_is_named_and_no_other_case(recorded, kind, tmp_path, capsys):
    content, cases = cases_of(recorded, kind)
    wanted, plant = FAULTS[kind]
    case = first(cases, wanted)
    plant(case)
    (tmp_path / f"{kind}.json").write_text(json.dumps(content))
    assert main(["conformance", "field-registry", str(tmp_path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    failed = [line for line in lines if line.startswith("FAIL")]
    assert len(failed) == 1 and failed[0].startswith(f"FAIL  {kind}/{case.get('name', 'plan')}: Mismatch: ")
    assert lines[-1] == f"{len(cases) - 1} passed, 1 failed"


def test_all_lines_and_the_sum_are_printed(recorded, capsys):
    assert main(["conformance", "field-registry", str(recorded)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == f"{len(lines) - 1} passed, 0 failed"


def test_a_folder_without_cases_is_misuse(tmp_path, capsys):
    assert main(["conformance", "field-registry", str(tmp_path)]) == 2
    assert "holds no case" in capsys.readouterr().err
    assert main(["conformance", "field-registry", str(tmp_path / "gone")]) == 2


@pytest.mark.parametrize("content", ["no JSON", "[]", '{"cases": []}', '{"cases": [5]}', '{"cases": {"a": 1}}'])
def test_a_file_that_holds_no_cases_is_named(tmp_path, content):
    (tmp_path / "references.json").write_text(content)
    (tmp_path / "other.json").write_text("{}")
    results = list(run_folder(tmp_path))
    assert [result.name for result in results if result.skipped] == ["other"]
    assert any(result.failure for result in results if result.name.startswith("references"))


def test_an_operation_that_is_not_known_fails_its_case():
    case = {"name": "x", "options": {}, "steps": [{"op": "dance", "args": [], "result": None}]}
    assert "no operation 'dance'" in run_case("registry", case).failure

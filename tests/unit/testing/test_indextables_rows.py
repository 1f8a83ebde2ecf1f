"""The conformance suite of index tables looks at rows too."""

import json
import shutil

from deltaic.testing.indextables_conformance import run_case, run_folder


def test_every_recorded_row_is_read(fixtures_dir):
    results = list(run_folder(fixtures_dir / "indextables"))
    assert [str(one) for one in results if not one.passed] == []
    assert sum(one.checks for one in results) > 500


def test_a_row_that_differs_is_named(fixtures_dir, tmp_path):
    case = tmp_path / "case"
    shutil.copytree(fixtures_dir / "indextables" / "01_single_write", case)
    expected = json.loads((case / "EXPECTED.json").read_text())
    for planted, named in (
        ({"id": 2, "score": 200.0, "text": "World"}, "row 1"),
        ({"id": 2, "score": 200.5, "text": "world"}, "200.5"),
        ({"id": 2, "score": None, "text": "world"}, "row"),
    ):
        rows = [planted if row["id"] == 2 else row for row in expected["rows"]]
        (case / "EXPECTED.json").write_text(json.dumps({**expected, "rows": rows}))
        assert named in (run_case(case).failure or "")
    (case / "EXPECTED.json").write_text(json.dumps({**expected, "rows": expected["rows"][:2]}))
    assert run_case(case).failure is not None

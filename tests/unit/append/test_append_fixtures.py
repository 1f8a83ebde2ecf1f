"""Recorded deltas with appended sections: every case is read in every mode, and written again."""

from deltaic.testing.hollow_conformance import run_folder


def test_no_recorded_case_fails_or_is_skipped(hollow_fixtures):
    results = list(run_folder(hollow_fixtures / "schema-append"))
    assert len(results) == 10
    assert [str(result) for result in results if not result.passed] == []
    assert min(result.checks for result in results) >= 19

"""What every test shares: where recorded fixtures are, how hard Hypothesis tries, what was skipped.

A clone without recorded fixtures still runs: the tests that need them skip with a reason.
"""

import os
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent

# No deadlines: the machines that run this are shared, and a slow neighbour is not a bug.
settings.register_profile("quick", max_examples=50, deadline=None, print_blob=True)
settings.register_profile("ci", max_examples=100, deadline=None, print_blob=True)
settings.register_profile(
    "long", max_examples=2_000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("DELTAIC_HYPOTHESIS") or ("ci" if os.environ.get("CI") else "quick"))


def fixtures_folder() -> Path:
    """The folder of recorded fixtures: DELTAIC_FIXTURES, or `../shared/fixtures` beside the clone."""
    return Path(os.environ.get("DELTAIC_FIXTURES") or ROOT / ".." / "shared" / "fixtures").resolve()


@pytest.fixture(scope="session")
def project_root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def fixtures_dir() -> Path:
    folder = fixtures_folder()
    if not folder.is_dir():
        pytest.skip("no recorded fixtures: set DELTAIC_FIXTURES to their folder")
    return folder


@pytest.fixture(scope="session")
def hollow_fixtures(fixtures_dir: Path) -> Path:
    folder = fixtures_dir / "hollow"
    if not folder.is_dir():
        pytest.skip("no Hollow fixtures in the folder of recorded fixtures")
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List every skipped test under its reason, so that a green run shows what it did not try."""
    by_reason: dict[str, list[str]] = defaultdict(list)
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            by_reason[report.longrepr[2].removeprefix("Skipped: ")].append(report.nodeid)
    if not by_reason:
        return
    terminalreporter.section("skipped, and why")
    for reason, tests in sorted(by_reason.items()):
        terminalreporter.write_line(f"{reason} ({len(tests)})")
        for test in sorted(tests):
            terminalreporter.write_line(f"    {test}")

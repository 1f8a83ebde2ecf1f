"""`deltaic conformance`: check this implementation against recorded cases of another one."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Protocol

import typer

from deltaic.testing.hollow_conformance import run_folder

app = typer.Typer(help="Check this implementation against recorded cases.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Check this implementation against recorded cases."""


@app.command("hollow")
def hollow(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of recorded Hollow cases, or one case.")],
) -> None:
    """Read every recorded case and compare raw values: one line per case, then `N passed, M failed`."""
    _tell(run_folder(folder))


@app.command("indextables")
def indextables(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of recorded index tables, or one of them.")],
) -> None:
    """Read every recorded table and compare versions, files, counts: one line each, then `N passed, M failed`."""
    from deltaic.testing import indextables_conformance

    _tell(indextables_conformance.run_folder(folder))


@app.command("vector-delta")
def vector_delta(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of recorded vector deltas.")],
) -> None:
    """Run every recorded case of vector deltas and compare bits: one line each, then `N passed, M failed`."""
    from deltaic.testing import vector_conformance

    _tell(vector_conformance.run_folder(folder))


@app.command("field-registry")
def field_registry(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder of recorded field references and registries.")
    ],
) -> None:
    """Run every recorded case of references and registries: one line each, then `N passed, M failed`."""
    from deltaic.testing import field_registry_conformance

    _tell(field_registry_conformance.run_folder(folder))


class _Result(Protocol):
    @property
    def passed(self) -> bool: ...
    @property
    def failure(self) -> str | None: ...


def _tell(results: Iterable[_Result]) -> None:
    """Print each result as it comes, and their number; ends the command. What was skipped counts as neither."""
    passed = failed = 0
    for result in results:
        print(result, flush=True)
        passed += result.passed
        failed += result.failure is not None
    print(f"{passed} passed, {failed} failed")
    raise typer.Exit(1 if failed else 0)

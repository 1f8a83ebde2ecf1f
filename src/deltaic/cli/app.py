"""The tree of commands, and what becomes of an error.

Each group of commands is a module of this package with a typer application called `app`. Only the group that is asked
for is imported: `deltaic doctor` does not wait for libraries that read blobs.
"""

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from deltaic import __version__
from deltaic.cli.doctor import diagnose
from deltaic.cli.extras import missing_extra
from deltaic.errors import DeltaicError, InputError, MissingExtraError

GROUPS = ("schema", "blob", "conformance", "table", "vector", "registry")
"""The modules of `deltaic.cli` that hold a group of commands."""

TOP_LEVEL = {
    "publish": ("publish",),
    "chain": ("follow", "status", "pin", "unpin", "promote", "withdraw", "verify"),
    "lookup": ("get", "find", "history", "diff", "stats", "export"),
    "nearest": ("nearest",),
    "generate": ("generate",),
    "changes": ("changes",),
    "patch": ("patch",),
    "run": ("run",),
}
"""The modules whose commands stand beside the groups, and those commands."""


class _Commands(TyperGroup):
    """Turns an error into one line: people read what went wrong, not where in our code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # the reader of our output went away; typer ends quietly
        except (DeltaicError, OSError, ModuleNotFoundError) as error:
            raise typer.Exit(report(error)) from error


def report(error: Exception) -> int:
    """Print an error as one line and return the exit code that it stands for.

    Raises:
        ModuleNotFoundError: the module is of no extra, so that it is a fault of deltaic and not of the installation.
    """
    if isinstance(error, ModuleNotFoundError) and not isinstance(error, DeltaicError):
        extra = missing_extra(error)
        if extra is None:
            raise error
        error = extra
    print(f"deltaic: {error}", file=sys.stderr)
    return 2 if isinstance(error, InputError | MissingExtraError) else 1


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"deltaic {__version__}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Datasets in the memory of every process that reads them, refreshed by deltas."""


def _doctor(
    url: Annotated[
        str | None, typer.Argument(metavar="URL", help="A store that should be readable and writable from here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Say what this installation has, what it lacks, and what to install."""
    raise typer.Exit(diagnose(url, as_json=as_json))


def build_app(groups: Iterable[str] = (*GROUPS, *TOP_LEVEL)) -> typer.Typer:
    """Make the command tree with these groups, as far as they exist."""
    app = typer.Typer(
        name="deltaic",
        cls=_Commands,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    app.command("doctor")(_doctor)
    for group in groups:
        if importlib.util.find_spec(f"deltaic.cli.{group}") is None:
            continue
        commands = importlib.import_module(f"deltaic.cli.{group}").app
        if group in TOP_LEVEL:
            app.registered_commands += commands.registered_commands
        else:
            app.add_typer(commands, name=group)
    return app


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    # No option of the root takes a value, so the first word that is no option names the command.
    command = next((word for word in words if not word.startswith("-")), None)
    groups = {"doctor": ()} | {group: (group,) for group in GROUPS}
    groups |= {name: (module,) for module, names in TOP_LEVEL.items() for name in names}
    try:
        app = build_app(groups.get(command or "", (*GROUPS, *TOP_LEVEL)))
        app(list(words), prog_name="deltaic")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except (DeltaicError, ModuleNotFoundError) as error:
        return report(error)
    return 0

"""The `deltaic` command.

What it does is a library call; a command only parses arguments and prints. It exits with 0, with 1 if it failed, with
2 if it was misused. `--version` and `doctor` work without the extra `cli`, so that a bare install can be looked at.
"""

import importlib.util
import sys
from collections.abc import Sequence

from deltaic import __version__
from deltaic.errors import MissingExtraError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        arguments: what follows the name of the program; None takes them from the command line.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"deltaic {__version__}")
        return 0
    if importlib.util.find_spec("typer") is None:
        return _without_typer(words)
    from deltaic.cli.app import run

    return run(words)


def _without_typer(words: list[str]) -> int:
    flags, rest = {word for word in words if word.startswith("-")}, [word for word in words if not word.startswith("-")]
    if rest[:1] == ["doctor"] and len(rest) <= 2 and flags <= {"--json"}:
        from deltaic.cli.doctor import diagnose

        return diagnose(rest[1] if len(rest) == 2 else None, as_json="--json" in flags)
    command = " ".join(["deltaic", *rest[:1]])
    print(f"deltaic: {MissingExtraError(f'the command `{command}`', 'cli')}", file=sys.stderr)
    return 2


__all__ = ["main"]

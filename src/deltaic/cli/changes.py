"""`deltaic changes`: what the steps between two versions changed, as patches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from deltaic.compare.changes import shown
from deltaic.compare.feed_groups import StepChanges
from deltaic.compare.feed_patches import batch_of
from deltaic.consumer.feed import ChangeFeed, FeedColumns
from deltaic.dataset.dataset import Dataset
from deltaic.dataset.feed import dataset_changes
from deltaic.errors import InputError
from deltaic.wire.patches.patch import ABSENT, MISSING, Operation, Patch

app = typer.Typer(help="The change feed.", no_args_is_help=True)

FORMATS = ("table", "json", "arrow", "wire")
_WIDE = 400


@app.command("changes")
def changes(
    url: Annotated[str, typer.Argument(metavar="URL", help="A dataset, or the folder of a chain.")],
    from_version: Annotated[int, typer.Option("--from", metavar="V", help="The version before the first step.")],
    to_version: Annotated[
        int | None,
        typer.Option("--to", metavar="V", help="The version after the last one; an older one gives the steps back."),
    ] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Tell of this type; may be repeated.")] = None,
    before: Annotated[bool, typer.Option("--before", help="Give the values before, too.")] = False,
    form: Annotated[str, typer.Option("--format", help="table, json (lines), arrow (a stream) or wire.")] = "table",
    references: Annotated[
        bool, typer.Option("--references", help="On the wire: fields by their numbers in the dataset's registry.")
    ] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file in place of standard output.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="Of a table: patches of each step to show.", min=0)] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Print what changed between two versions, step by step. Without --to: up to the announced one."""
    form = "json" if as_json else form
    if form not in FORMATS:
        raise InputError(f"--format is {', '.join(FORMATS)}, not {form!r}")
    if limit and form != "table":
        raise InputError("--limit is for --format table")
    if output is None and form in ("arrow", "wire") and sys.stdout.isatty():
        raise InputError(f"--format {form} is no text: give --output FILE, or send it elsewhere")
    dataset = Dataset.open(url)
    with _watched(quiet=output is None and form == "table") as progress:
        feed = dataset_changes(
            dataset, from_version, to_version, before=before, types=types, references=references, progress=progress
        )
        if form == "table":
            _tables(feed, output, limit, before)
        elif form == "json":
            _json(feed, output)
        elif form == "wire":
            _wire(feed, output)
        else:
            _arrow(feed, output)


def _tables(feed: ChangeFeed, output: Path | None, limit: int, before: bool) -> None:
    with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8") as stream:
        console = Console(file=stream, highlight=False)
        if not console.is_terminal:
            # What is not read on a screen has no width to keep to.
            console = Console(file=stream, width=_WIDE, highlight=False)
        found = 0
        for step in feed.columns():
            found += len(step)
            _table(console, step)
            for patch in _first(step, limit):
                console.print(f"  {escape(_line(patch, before))}", soft_wrap=True)
        if not found:
            console.print("no change")


def _first(step: FeedColumns, limit: int) -> Iterator[Patch]:
    """The first patches of a step; only the columns of these are read."""
    for group in step.groups:
        if limit <= 0:
            return
        yield from batch_of(StepChanges((group.take(np.arange(min(limit, len(group)))),)))
        limit -= len(group)


def _table(console: Console, step: FeedColumns) -> None:
    console.print(f"{step.from_version} to {step.to_version}: {len(step):,} patches")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 2), show_header=False)
    for side in ("left", "left", "right"):
        table.add_column(justify="right" if side == "right" else "left", overflow="fold")
    for group in step.groups:
        table.add_row(escape(_clean(group.place)), group.operation.name.lower(), f"{len(group):,}")
    if table.row_count:
        console.print(table)
    for note in step.notes:
        console.print(f"  note: {escape(_clean(note))}")


def _line(patch: Patch, before: bool) -> str:
    """One patch for people: `Movie 7 title: "Solaris" -> "Mirror"`."""
    key = ", ".join(shown(part, 40) for part in patch.key_parts)
    where = " ".join(part for part in (patch.type_name, key, str(patch.path)) if part)
    value = "gone" if patch.operation in (Operation.DELETE, Operation.REMOVE) else _shown(patch.value)
    if not before or patch.previous is MISSING:
        return _clean(f"{where}: {patch.operation.name.lower()} {value}")
    was = "nothing" if patch.previous is ABSENT else _shown(patch.previous)
    return _clean(f"{where}: {was} -> {value}")


def _shown(value: Any) -> str:
    if hasattr(value, "indices"):
        return f"{len(value.indices):,} of {value.dims:,} dimensions"
    return shown(value.item() if hasattr(value, "item") else value)


def _clean(text: str) -> str:
    """Text that any terminal takes: lone surrogates, legal in Hollow's texts, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _json(feed: ChangeFeed, output: Path | None) -> None:
    with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8") as stream:
        for line in feed.to_json_lines():
            stream.write(_clean(line) + "\n")


def _wire(feed: ChangeFeed, output: Path | None) -> None:
    with _binary(output) as stream:
        for step in feed:
            stream.write(step.to_bytes())


def _arrow(feed: ChangeFeed, output: Path | None) -> None:
    import pyarrow as pa

    with _binary(output) as stream:
        steps = iter(feed)
        first = next(steps, None)
        table = feed.to_arrow() if first is None else first.to_arrow()
        with pa.ipc.new_stream(stream, table.schema) as writer:
            writer.write_table(table)
            for step in steps:
                writer.write_table(step.to_arrow())


@contextmanager
def _binary(output: Path | None) -> Iterator[IO[bytes]]:
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with output.open("wb") as stream:
        yield stream


@contextmanager
def _watched(*, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A bar that counts steps, where somebody sees it and nothing else is printed."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield None
        return
    columns = (SpinnerColumn(), TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task("steps", total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total)

"""`deltaic patch`: change fields of records by key; look into a file of patches."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deltaic.dataset.dataset import Dataset
from deltaic.errors import InputError, NotFoundError
from deltaic.producer.patching import PatchReport
from deltaic.wire.patches import MISSING, Operation, Patch, PatchBatch
from deltaic.wire.patches.layout import MAGIC
from deltaic.wire.patches.patch import timestamp_parts
from deltaic.wire.references import Reference
from deltaic.wire.references.encoding import encode

app = typer.Typer(help="Patches.", no_args_is_help=True)

_NOTHING = ("", "", "")


@app.command("patch")
def patch(
    url: Annotated[str, typer.Argument(metavar="URL|show", help="A dataset or chain; or `show`, to look into FILE.")],
    file: Annotated[
        str | None, typer.Argument(metavar="FILE|-", help="JSON lines or wire bytes; - is standard input.")
    ] = None,
    set_: Annotated[
        tuple[str, str, str],
        typer.Option("--set", metavar="TYPE KEY PATH=VALUE", help="Set one field; key and value as JSON, or as text."),
    ] = _NOTHING,
    delete: Annotated[
        tuple[str, str, str],
        typer.Option("--delete", metavar="TYPE KEY PATH", help="Make one field null; take an element or entry out."),
    ] = _NOTHING,
    remove: Annotated[tuple[str, str], typer.Option("--remove", metavar="TYPE KEY", help="Remove one record.")] = (
        "",
        "",
    ),
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="VALUE", help="What must be there before --set or --delete.")
    ] = None,
    on_mismatch: Annotated[
        str, typer.Option("--on-mismatch", help="reject, or skip patches that expect another value.")
    ] = "reject",
    on_missing: Annotated[
        str, typer.Option("--on-missing", help="reject, skip, or insert records that are not there.")
    ] = "reject",
    publish: Annotated[
        bool, typer.Option("--publish/--no-publish", help="Of a dataset with a table: publish a version, too.")
    ] = True,
    note: Annotated[str | None, typer.Option("--note", help="Free text about the version.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Apply patches to a dataset, all together or none; `deltaic patch show FILE` prints what a file holds."""
    if url == "show":
        _show(_read(file), as_json=as_json)
        return
    single = _single(set_, delete, remove, expect)
    if (file is None) == (single is None):
        raise InputError("give a FILE of patches, or one of --set, --delete and --remove")
    batch = PatchBatch.of([single]) if single is not None else _read(file)
    if on_mismatch not in ("reject", "skip") or on_missing not in ("reject", "skip", "insert"):
        raise InputError("--on-mismatch is reject or skip, --on-missing is reject, skip or insert")
    report = Dataset.open(url).patch(
        batch,
        on_mismatch="skip" if on_mismatch == "skip" else "reject",
        on_missing="insert" if on_missing == "insert" else "skip" if on_missing == "skip" else "reject",
        publish=publish,
        note=note,
    )
    _print_report(report, as_json=as_json)


def _single(
    set_: tuple[str, str, str], delete: tuple[str, str, str], remove: tuple[str, str], expect: str | None
) -> Patch | None:
    given = [words for words in (set_, delete, remove) if words[0]]
    if len(given) > 1:
        raise InputError("one of --set, --delete and --remove at a time; more patches are a file")
    if not given:
        return None
    previous = MISSING if expect is None else _value(expect)
    if remove[0]:
        return Patch(remove[0], _key(remove[1]), previous=previous, operation=Operation.REMOVE)
    if delete[0]:
        return Patch(delete[0], _key(delete[1]), delete[2], previous=previous, operation=Operation.DELETE)
    path, sign, value = set_[2].partition("=")
    # A key of a map may hold the sign itself.
    while sign and path.count('"') % 2:
        more, sign, value = value.partition("=")
        path += f"={more}"
    if not sign:
        raise InputError(f"--set takes PATH=VALUE, not {set_[2]!r}")
    return Patch(set_[0], _key(set_[1]), path, _value(value), previous=previous)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _key(text: str) -> Any:
    value = _value(text)
    return tuple(value) if isinstance(value, list) else value


def _read(file: str | None) -> PatchBatch:
    if file is None:
        raise InputError("which FILE? - is standard input")
    if file == "-":
        data, name = sys.stdin.buffer.read(), "standard input"
    else:
        path, name = Path(file), file
        if not path.is_file():
            raise NotFoundError(f"there is no file {file}")
        data = path.read_bytes()
    if data[:4] == MAGIC:
        return PatchBatch.from_bytes(data, name=name)
    return PatchBatch.from_json_lines(data.splitlines(), name=name)


def _show(batch: PatchBatch, *, as_json: bool) -> None:
    if as_json:
        for line in batch.to_json_lines():
            print(line)
        return
    console = Console(highlight=False)
    table = Table("type", "field", "operation", "patches", "values", "expects", "from", "to", box=None, pad_edge=False)
    for group in batch.groups:
        path = f"reference {encode(group.path).hex()}" if isinstance(group.path, Reference) else group.path
        times = ["", ""]
        if group.timestamps is not None:
            times = [_time(int(edge)) for edge in (group.timestamps.min(), group.timestamps.max())]
        table.add_row(
            escape(group.type_name),
            escape(path or "(record)"),
            group.operation.name.lower(),
            f"{group.count:,}",
            "" if group.values is None else group.values.kind.name.lower(),
            "" if group.previous is None else group.previous.kind.name.lower(),
            *times,
        )
    console.print(table)
    counts = Counter(patch.source for patch in batch) if batch.sources else {}
    shown = ", ".join(f"{source or 'none'} {count:,}" for source, count in counts.items())
    console.print(f"{len(batch):,} patches in {len(batch.groups):,} groups" + (f"; sources: {shown}" if shown else ""))


def _time(timestamp: int) -> str:
    milliseconds, counter = timestamp_parts(timestamp)
    return f"{milliseconds}.{counter}"


def _print_report(report: PatchReport, *, as_json: bool) -> None:
    found: dict[str, Any] = {
        "version": report.version,
        "table_version": report.table_version,
        "patches": report.patches,
        "applied": report.applied,
        "mismatched": report.mismatched,
        "missing": report.missing,
        "stale": report.stale,
        "records": report.records,
        "examples": list(report.examples),
    }
    if as_json:
        print(json.dumps(found))
        return
    console = Console(highlight=False)
    console.print(escape(str(report)))
    table = Table(box=None, pad_edge=False, show_header=False)
    for name in ("table_version", "mismatched", "missing", "stale"):
        if found[name]:
            table.add_row(name.replace("_", " "), f"{found[name]:,}")
    if table.row_count:
        console.print(table)
    for example in report.examples:
        console.print(f"  passed over: {escape(example)}", soft_wrap=True)

"""`deltaic get`, `find`, `history`, `diff`, `stats`, `export`: look records up and compare them."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deltaic.cli.opening import is_file, open_state, open_versions
from deltaic.compare.changes import shown
from deltaic.compare.diff import StateDiff, TypeDiff
from deltaic.compare.diff import diff as diff_states
from deltaic.compare.export import FORMATS, csv_lines, json_lines, record_text, value_text, write_lines, write_parquet
from deltaic.compare.find import find as find_value
from deltaic.compare.footprint import footprint, type_footprint
from deltaic.compare.history import history as key_history
from deltaic.compare.json_text import as_json as plain_json
from deltaic.compare.keys import declared_key, find_by_key, key_values
from deltaic.compare.statistics import type_statistics
from deltaic.compare.vectors import columns_of
from deltaic.errors import InputError
from deltaic.kernels.content import Numbers
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState

app = typer.Typer(help="Look records up and compare them.", no_args_is_help=True)

_Url = Annotated[str, typer.Argument(metavar="URL", help="A dataset, the folder of a chain, or a snapshot file.")]
_Type = Annotated[str, typer.Argument(metavar="TYPE", help="The name of a type.")]
_Key = Annotated[list[str], typer.Argument(metavar="KEY...", help="One value for each path of the key.")]
_Paths = Annotated[
    list[str] | None, typer.Option("--by", help="A path to use as key in place of the primary key; may be repeated.")
]
_Version = Annotated[int | None, typer.Option("--version", help="The version to read; by default the announced one.")]
_WIDE = 400
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.command("get")
def get(
    url: _Url, type_name: _Type, key: _Key, by: _Paths = None, version: _Version = None, as_json: _Json = False
) -> None:
    """Print the records that have a key. Exit 1 if there is none."""
    state = open_state(url, version)
    found = find_by_key(state, type_name, tuple(key), by).tolist()
    if as_json:
        _print_json([_record(state, type_name, ordinal) for ordinal in found])
    else:
        for place, ordinal in enumerate(found):
            if place:
                print()
            _print_text(f"{type_name} {ordinal}")
            _print_text(_indented(record_text(state, type_name, ordinal)))
        if not found:
            print(f"deltaic: type {type_name} has no record with the key {', '.join(key)}", file=sys.stderr)
    raise typer.Exit(0 if found else 1)


@app.command("find")
def find(
    url: _Url,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="A text, a number, true or false, bytes in hex.")],
    types: Annotated[list[str] | None, typer.Option("--type", help="Look in this type; may be repeated.")] = None,
    field: Annotated[str | None, typer.Option("--field", help="Look in fields of this name.")] = None,
    how: Annotated[str, typer.Option("--how", help="equal, prefix or contains.")] = "equal",
    limit: Annotated[int, typer.Option("--limit", help="Records to name for each type.", min=1)] = 10,
    version: _Version = None,
    as_json: _Json = False,
) -> None:
    """Find a value anywhere, and the records that lead to it. Exit 1 if it is nowhere."""
    if how not in ("equal", "prefix", "contains"):
        raise InputError(f"--how is equal, prefix or contains, not {how!r}")
    state = open_state(url, version)
    found = find_value(state, value, types=types, field=field, how=how)  # type: ignore[arg-type]
    roots = found.roots()
    if as_json:
        matches = [
            {"type": one.type_name, "field": one.field_name, "records": len(one.records), **_first(one.records, limit)}
            for one in found.matches
        ]
        tops = {name: {"records": len(part), **_named(state, name, part, limit)} for name, part in roots.items()}
        _print_json({"matches": matches, "roots": tops})
    else:
        table = _table("where", ">records", "ordinals")
        for one in found.matches:
            ordinals = _first(one.records, limit)["ordinals"]
            _row(table, f"{one.type_name}.{one.field_name}", len(one.records), ordinals)
        _print_table(table)
        table = _table("leads there", ">records", "first")
        for name, part in roots.items():
            named = _named(state, name, part, limit)
            _row(table, name, len(part), named.get("keys") or named["ordinals"])
        _print_table(table)
    raise typer.Exit(0 if found else 1)


@app.command("history")
def history(
    url: _Url,
    type_name: _Type,
    key: _Key,
    last: Annotated[int, typer.Option("--last", help="How many versions to look at.", min=1)] = 20,
    by: _Paths = None,
    as_json: _Json = False,
) -> None:
    """Print what a key was over the last versions, and which versions touched it. Exit 1 if none has it."""
    found = key_history(open_versions(url, last), type_name, tuple(key), by)
    if as_json:
        _print_json(found.to_dict())
    else:
        looked = f"{len(found.versions)} versions, {found.versions[0]} to {found.versions[-1]}"
        print(f"{looked}; touched in {len(found.touched)}")
        for entry in found:
            _print_text(f"{entry.version}: {entry.change}")
            if entry.differences:
                _print_text("\n".join(f"  {one}" for one in entry.differences))
            elif entry.change in ("first", "added"):
                _print_text(_indented(value_text(entry.value)))
    raise typer.Exit(0 if found.entries else 1)


@app.command("diff")
def diff(
    url: _Url,
    first: Annotated[str, typer.Argument(metavar="FROM", help="A version of it; or what to compare it with.")],
    second: Annotated[str | None, typer.Argument(metavar="[TO]", help="Another version of it.")] = None,
    types: Annotated[list[str] | None, typer.Option("--type", help="Compare this type; may be repeated.")] = None,
    key: Annotated[list[str] | None, typer.Option("--key", help="TYPE=PATH,… to match records by.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="Records of each type to show.", min=0)] = 0,
    as_json: _Json = False,
) -> None:
    """Compare two versions of a chain (URL FROM TO), or two snapshots, chains or datasets (ONE OTHER).

    Exit 0 also where they differ: look at `equal` of the JSON.
    """
    if second is None:
        before, after = open_state(url), open_state(first)
    else:
        if is_file(url):
            raise InputError(f"{url} is one snapshot and has no versions: give two files")
        before, after = open_state(url, _number(first)), open_state(url, _number(second))
    found = diff_states(before, after, types=types, keys=dict(_key_option(one) for one in key or ()))
    if as_json:
        _print_json(found.to_dict(limit=limit))
        return
    _print_diff(found, limit)


@app.command("stats")
def stats(
    url: _Url,
    type_name: Annotated[str | None, typer.Argument(metavar="[TYPE]", help="A type, for its fields.")] = None,
    top: Annotated[int, typer.Option("--top", help="Most frequent values to show.", min=0)] = 3,
    version: _Version = None,
    as_json: _Json = False,
) -> None:
    """Print what types cost in memory; of one type what each field costs and holds."""
    state = open_state(url, version)
    if type_name is None:
        found = footprint(state)
        if as_json:
            total = sum(one.total_bytes for one in found)
            _print_json({"bytes": total, "types": [one.to_dict() for one in found]})
            return
        table = _table("type", "kind", ">records", ">holes", ">bytes", ">of holes", ">per record", ">shards")
        for one in found:
            numbers = (one.records, one.holes, one.total_bytes, one.hole_bytes)
            _row(table, one.name, one.kind, *numbers, f"{one.bytes_per_record:,.1f}", one.shards)
        _print_table(table)
        print(f"{sum(one.total_bytes for one in found):,} bytes in {len(found)} types")
        return
    cost = type_footprint(state[type_name].data, columns_of(state, type_name))
    fields = type_statistics(state, type_name, top=top)
    if as_json:
        _print_json({**cost.to_dict(), "statistics": [one.to_dict() for one in fields]})
        return
    table = _table("field", ">bits", ">bytes", ">of holes")
    for part in cost.fields:
        _row(table, part.name, f"{part.bits:g}", part.total_bytes, part.hole_bytes)
    _row(table, "(overhead)", "", cost.overhead_bytes, "")
    _print_table(table)
    table = _table("field", "type", ">nulls", ">distinct", ">min", ">max", ">mean", "most frequent")
    for one_field in fields:
        often = ", ".join(f"{_frequent(value)} ×{count:,}" for value, count in one_field.top)
        mean = "" if one_field.mean is None else f"{one_field.mean:,.4g}"
        ends = ("" if end is None else f"{end}" for end in (one_field.min, one_field.max))
        _row(table, one_field.name, one_field.type, one_field.nulls, one_field.distinct, *ends, mean, often)
    _print_table(table)


@app.command("export")
def export(
    url: _Url,
    type_name: _Type,
    format_name: Annotated[str, typer.Option("--format", help="jsonl, csv or parquet.")] = "jsonl",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; parquet needs one.")] = None,
    version: _Version = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say how many records were written, as JSON.")] = False,
) -> None:
    """Write all records of a type, references followed, to a file or to standard output."""
    if format_name not in FORMATS:
        raise InputError(f"--format is {', '.join(FORMATS)}, not {format_name!r}")
    if output is None and (format_name == "parquet" or as_json):
        raise InputError(f"{'parquet' if format_name == 'parquet' else '--json'} needs --output FILE")
    state = open_state(url, version)
    if format_name == "parquet":
        count = write_parquet(state, type_name, str(output))
    else:
        lines = json_lines(state, type_name) if format_name == "jsonl" else csv_lines(state, type_name)
        if output is None:
            write_lines(sys.stdout, lines)
            return
        with output.open("w", encoding="utf-8", errors="surrogatepass", newline="") as stream:
            count = write_lines(stream, lines)
    if as_json:
        _print_json({"type": type_name, "format": format_name, "records": count, "file": str(output)})
    else:
        print(f"{count:,} records of {type_name} in {output}")


def _frequent(value: Any) -> str:
    return shown(value) if isinstance(value, Numbers) else shown(plain_json(value), 30)


def _print_diff(found: StateDiff, limit: int) -> None:
    if not found:
        print("no difference")
        return
    table = _table("type", "matched by", ">added", ">removed", ">modified", ">unchanged", "note")
    for one in found.changed():
        counts = one.counts
        numbers = (counts.added, counts.removed, counts.modified, counts.unchanged)
        note = "" if one.only_in is None else f"only {one.only_in}"
        _row(table, one.name, ", ".join(one.key) if one.key else "content", *numbers, note)
    _print_table(table)
    fields = [(one, field) for one in found.changed() for field in one.fields.values()]
    if any(field.changed or field.only_in for _, field in fields):
        table = _table("field", ">changed", ">set", ">cleared", "note")
        for one, field in fields:
            only = field.only_in if one.only_in is None else None
            if field.changed or only:
                note = f"only {only}, missing on the other side" if only else ""
                _row(table, f"{one.name}.{field.name}", field.changed, field.set, field.cleared, note)
        _print_table(table)
    for one in found.changed() if limit else ():
        _print_changes(one, limit)


def _print_changes(one: TypeDiff, limit: int) -> None:
    for change in one.records(limit=limit):
        key = "" if change.key is None else f" {', '.join(shown(part) for part in change.key)}"
        print()
        _print_text(f"{one.name}{key}: {change.kind}")
        if change.kind == "modified":
            _print_text("\n".join(f"  {difference}" for difference in change.differences()))
        else:
            _print_text(_indented(value_text(change.after if change.kind == "added" else change.before)))


def _number(text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"{text!r} is no version; versions are whole numbers")
    return int(text)


def _key_option(text: str) -> tuple[str, list[str]]:
    name, found, paths = text.partition("=")
    if not found or not name:
        raise InputError(f"--key {text!r}: write TYPE=PATH or TYPE=PATH,PATH; nothing behind = compares as a bag")
    return name, [path for path in paths.split(",") if path]


def _record(state: ReadState, type_name: str, ordinal: int) -> dict[str, Any]:
    from deltaic.compare.export import record_json

    return {"type": type_name, "ordinal": ordinal, "record": record_json(state, type_name, ordinal)}


def _first(records: OrdinalSet, limit: int) -> dict[str, list[int]]:
    return {"ordinals": records.ordinals()[:limit].tolist()}


def _named(state: ReadState, name: str, records: OrdinalSet, limit: int) -> dict[str, Any]:
    """The first records, by ordinal and where they have one by key."""
    found: dict[str, Any] = _first(records, limit)
    if declared_key(state, name) is not None:
        keys = key_values(state, name, records.ordinals()[:limit])
        found["keys"] = [plain_json(key[0] if len(key) == 1 else list(key)) for key in keys]
    return found


def _table(*columns: str) -> Table:
    """A table for people; a column whose name begins with `>` is aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(
            column.removeprefix(">"), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    return table


def _row(table: Table, *cells: Any) -> None:
    texts = []
    for cell in cells:
        if isinstance(cell, list):
            cell = ", ".join(shown(each, 60) for each in cell)
        texts.append(escape(_clean(f"{cell:,}" if isinstance(cell, int) else str(cell))))
    table.add_row(*texts)


def _print_table(table: Table) -> None:
    if table.row_count:
        console = Console(highlight=False)
        # What is not read on a screen has no width to keep to.
        Console(width=console.width if console.is_terminal else _WIDE, highlight=False).print(table)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _clean(text: str) -> str:
    """Text that any terminal takes: lone surrogates, legal in Hollow's texts, as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def _print_text(text: str) -> None:
    print(_clean(text))


def _print_json(values: Any) -> None:
    json.dump(values, sys.stdout, indent=2, ensure_ascii=True)
    print()

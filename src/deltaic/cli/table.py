"""`deltaic table …`: look at an index table, maintain it, go back in it."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from msgspec import structs

from deltaic.cli.table_companion import app as companion_app
from deltaic.cli.table_rows import MAPPED_KEYS, open_rows, print_row_changes
from deltaic.cli.table_rows import app as rows_app
from deltaic.table import Commit, Table, parse_predicate
from deltaic.table.describe import describe_log, describe_state, describe_table

app = typer.Typer(help="Look at an index table, change its rows, maintain it, go back in it.", no_args_is_help=True)
app.registered_commands += rows_app.registered_commands
app.add_typer(companion_app, name="companion")

_Url = Annotated[str, typer.Argument(metavar="URL", help="The folder of a table.")]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
_Version = Annotated[int | None, typer.Option("--version", help="At this version instead of the newest.")]
_Timestamp = Annotated[str | None, typer.Option("--timestamp", help="At this time: 2024-01-31T12:00:00+00:00.")]
_Tag = Annotated[str | None, typer.Option("--tag", help="At this tag.")]
_Run = Annotated[bool, typer.Option("--run", help="Do it. Without this, only tell what would be done.")]
_Set = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting, by either name.")]


@app.command("describe")
def describe(
    url: _Url,
    part: Annotated[str, typer.Option(help="table, state, or log (one line for each action).")] = "table",
    version: _Version = None,
    timestamp: _Timestamp = None,
    tag: _Tag = None,
    as_json: _Json = False,
) -> None:
    """Say what a table is: schema, versions, files, bytes; or its state; or every action of its log."""
    table = Table.open(url)
    if part == "log":
        for line in describe_log(table.log):
            print(json.dumps(line) if as_json else "  ".join(f"{key}={value}" for key, value in line.items()))
        return
    if part == "state":
        _print(describe_state(table), as_json)
        return
    if part != "table":
        raise typer.BadParameter("one of table, state, log", param_hint="--part")
    _print(describe_table(table, table.at(version=version, timestamp=timestamp, tag=tag)), as_json)


@app.command("history")
def history(
    url: _Url,
    limit: Annotated[int | None, typer.Option(help="The newest so many.")] = None,
    as_json: _Json = False,
) -> None:
    """List the versions, newest first: when, what, how many files."""
    for entry in Table.open(url).history(limit=limit):
        if as_json:
            print(json.dumps(entry.to_dict()))
            continue
        when = datetime.fromtimestamp(entry.committed_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        more = "".join((f"  [{', '.join(entry.tags)}]" if entry.tags else "", f"  {entry.note}" if entry.note else ""))
        print(f"{entry.version:8}  {when}  {entry.operation:16} +{entry.files_added} -{entry.files_removed}{more}")


@app.command("files")
def files(
    url: _Url,
    where: Annotated[str | None, typer.Option("--where", help="Only files that may hold such rows.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say what each step of pruning left out.")] = False,
    version: _Version = None,
    timestamp: _Timestamp = None,
    tag: _Tag = None,
    as_json: _Json = False,
) -> None:
    """List the files of a table, or of an old version."""
    table = Table.open(url)
    snapshot = table.at(version=version, timestamp=timestamp, tag=tag)
    found = table.plan(None if where is None else parse_predicate(where), snapshot=snapshot)
    if explain:
        _print(structs.asdict(found.explain), as_json) if as_json else print(found.explain)
        return
    for add in sorted(found.files(), key=lambda one: one.path):
        if as_json:
            print(json.dumps(structs.asdict(add)))
        else:
            records = "-" if add.num_records is None else f"{add.num_records:,}"
            print(f"{add.size_bytes:>14,}  {records:>12}  {add.path}")


@app.command("changes")
def changes(
    url: _Url,
    from_version: Annotated[int, typer.Argument(metavar="FROM", help="The version before.")],
    to_version: Annotated[int | None, typer.Argument(metavar="TO", help="The version after; the newest.")] = None,
    rows: Annotated[bool, typer.Option("--rows", help="The rows that changed, in place of files.")] = False,
    net: Annotated[
        bool, typer.Option("--net", help="With --rows: what differs in all, not version by version.")
    ] = False,
    as_json: _Json = False,
) -> None:
    """List the files that came and went from one version to another, or the rows that changed."""
    if rows or net:
        print_row_changes(url, from_version, to_version, net=net, as_json=as_json)
        return
    for step in Table.open(url).changes(from_version, to_version):
        for sign, actions in (("-", step.removed), ("+", step.added)):
            for action in actions:
                line = {"version": step.version, "change": sign, "path": action.path, "data_change": action.data_change}
                print(json.dumps(line) if as_json else f"{step.version:8} {sign} {action.path}")


@app.command("checkpoint")
def checkpoint(
    url: _Url,
    format: Annotated[str | None, typer.Option(help="avro or json; the table's own by default.")] = None,
    settings: _Set = None,
    as_json: _Json = False,
) -> None:
    """Write a full checkpoint; a table of an older protocol is upgraded to 4, or by json taken back to 3."""
    _told(_open(url, settings).checkpoint(format=format), as_json)


@app.command("purge")
def purge(
    url: _Url,
    run: _Run = False,
    older_than_hours: Annotated[float | None, typer.Option(help="Keep removed files for so long.")] = None,
    log_hours: Annotated[float | None, typer.Option(help="Keep superseded versions for so long.")] = None,
    settings: _Set = None,
    as_json: _Json = False,
) -> None:
    """Delete versions, manifests and files that no version in the window needs."""
    found = _open(url, settings).purge(
        file_retention_hours=older_than_hours, log_retention_hours=log_hours, dry_run=not run
    )
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    for key in (*found.log_files, *found.manifests, *found.files):
        print(key)
    done = "deleted" if run else "would delete"
    print(
        f"{done} {len(found.log_files)} files of the log, {len(found.manifests)} manifests, {len(found.files)} files "
        f"({found.size_bytes:,} bytes); oldest version is {found.oldest_version}, {found.too_young} files too young"
    )


@app.command("truncate")
def truncate(url: _Url, run: _Run = False, as_json: _Json = False) -> None:
    """Forget every version but the newest and the tagged ones; files stay until a purge."""
    found = Table.open(url).truncate(dry_run=not run)
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    print(
        f"{'deleted' if run else 'would delete'} {len(found.log_files)} files of the log; version {found.version} stays"
    )


@app.command("verify")
def verify(
    url: _Url,
    quick: Annotated[bool, typer.Option("--quick", help="The log only, not the files.")] = False,
    rows: Annotated[bool, typer.Option("--rows", help="Read every row too: counts, statistics, constraints.")] = False,
    as_json: _Json = False,
) -> None:
    """Check that the log is dense, its states are true, and every file is there with its size. Exit 1 if not."""
    found = open_rows(url).verify(files=not quick) if rows else Table.open(url).verify(files=not quick)
    if as_json:
        print(json.dumps(found.to_dict(), indent=2))
    else:
        for line in (*found.findings, *found.remarks):
            print(line)
        print(
            f"version {found.version}: {found.versions} version files, {found.states} states, {found.files} files "
            f"({found.size_bytes:,} bytes): {len(found.findings)} problems"
        )
    raise typer.Exit(0 if found.ok else 1)


@app.command("repair")
def repair(
    url: _Url,
    run: _Run = False,
    drop_missing: Annotated[bool, typer.Option(help="Remove files from the table that are gone.")] = False,
    to: Annotated[str | None, typer.Option(help="Write a new log there instead, of the files that exist.")] = None,
    as_json: _Json = False,
) -> None:
    """Put a table right after damage, or write a new log of what is left."""
    table = Table.open(url)
    found = table.repair(drop_missing=drop_missing, dry_run=not run) if to is None else table.repair_to(to)
    if as_json:
        print(json.dumps(found.to_dict()))
        return
    for line in (*(f"missing {path}" for path in found.missing_files), *found.actions):
        print(line)
    print(f"version {found.version}{'' if not found.dry_run else ': nothing was done yet, --run does it'}")


@app.command("restore")
def restore(
    url: _Url, version: _Version = None, timestamp: _Timestamp = None, tag: _Tag = None, as_json: _Json = False
) -> None:
    """Make the table what it was at a version, time or tag; by a new version."""
    if version is None and timestamp is None and tag is None:
        raise typer.BadParameter("one of --version, --timestamp, --tag is needed")
    table = Table.open(url)
    # Columns that were renamed, and constraints, go back together with the rows.
    mapped = any(key in table.snapshot().metadata.configuration for key in MAPPED_KEYS)
    back = open_rows(url).restore if mapped else table.restore
    _told(back(version=version, timestamp=timestamp, tag=tag), as_json)


@app.command("tag")
def tag_version(
    url: _Url,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The tag.")],
    version: _Version = None,
    delete: Annotated[bool, typer.Option("--delete", help="Take the tag away.")] = False,
    as_json: _Json = False,
) -> None:
    """Name a version, which stays readable as long as the tag does."""
    table = Table.open(url)
    _told(table.untag(name) if delete else table.tag(name, version), as_json)


@app.command("adopt")
def adopt(url: _Url, as_json: _Json = False) -> None:
    """Make another family's table one of ours, so that it can be written. Stop its writers first."""
    _told(Table.open(url).adopt(), as_json)


@app.command("drop-partitions")
def drop_partitions(
    url: _Url,
    where: Annotated[str, typer.Option("--where", help="A predicate over partition columns.")],
    run: _Run = False,
    as_json: _Json = False,
) -> None:
    """Remove the files of some partitions."""
    table = Table.open(url)
    predicate = parse_predicate(where)
    if run:
        _told(table.drop_partitions(predicate), as_json)
        return
    found = table.plan(predicate)
    print(json.dumps({"files": found.paths()}) if as_json else f"would remove {len(found)} files")


def _open(url: str, settings: list[str] | None) -> Table:
    options: dict[str, object] = {}
    for setting in settings or ():
        name, equals, value = setting.partition("=")
        if not equals:
            raise typer.BadParameter(f"{setting!r} is not NAME=VALUE", param_hint="--set")
        options[name] = value
    return Table.open(url, settings=options)


def _told(commit: Commit, as_json: bool) -> None:
    if as_json:
        print(json.dumps(asdict(commit)))
        return
    state = f", state {commit.state_kind}" if commit.state_kind else ""
    print(f"{commit.operation}: version {commit.version}{state}{', was done already' if commit.repeated else ''}")


def _print(values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps(values, indent=2))
        return
    width = max(map(len, values), default=0)
    for key, value in values.items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else value
        print(f"{key:{width}}  {shown}")

"""`deltaic registry`: the numbers of a dataset's fields."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from deltaic.dataset.dataset import Dataset
from deltaic.dataset.registry import pending_fields, stored_registry
from deltaic.errors import InputError, StorageError
from deltaic.schema.registry import Plan, RegisteredField, Registry, type_text
from deltaic.schema.registry_plan import MIN_GAIN, MIN_SAMPLES, index_bytes

Json = dict[str, Any]

_MOST_COUNT_BYTES = 64 << 20
_MOST_USES = 1 << 40
_LAST_MS = 253_402_300_799_000
"""The last millisecond that a date can show."""

app = typer.Typer(help="Look at the numbers of fields, and give the short ones to those that are used most.")

_Url = Annotated[str, typer.Argument(metavar="URL", help="A dataset, or the folder of a bare chain.")]
_AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@app.callback()
def _group() -> None:
    """Look at the numbers of fields, and give the short ones to those that are used most."""


@app.command("show")
def show(
    url: _Url,
    version: Annotated[
        int | None, typer.Option("--version", metavar="N", help="A version of the registry; the current one.")
    ] = None,
    as_json: _AsJson = False,
) -> None:
    """Print the fields of a version with their numbers, and those of the model that will join. Nothing is written."""
    dataset = Dataset.open(url)
    registry = stored_registry(dataset)
    fields = list(registry.fields(version))
    pending = [] if version is not None else pending_fields(dataset, registry)
    if as_json:
        print(
            json.dumps(
                {
                    **_about(registry),
                    "version": registry.version if version is None else version,
                    "fields": [_field_json(field) for field in fields],
                    "pending": [{"path": path, "type": type_text(kind)} for path, kind in pending],
                },
                indent=2,
            )
        )
        return
    title = _title(registry, version)
    shown = Table("index", "bytes", "path", "type", "registered", "", title=title, title_justify="left")
    sizes = index_bytes(np.array([field.index for field in fields], np.int64)).tolist()
    for field, size in zip(fields, sizes, strict=True):
        when = datetime.fromtimestamp(min(field.created_ms, _LAST_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
        gone = "retired" if field.retired else ""
        shown.add_row(str(field.index), str(size), field.path, type_text(field.type), when, gone)
    for path, kind in pending:
        shown.add_row("", "", path, type_text(kind), "", "joins when it is first used")
    Console(markup=False, highlight=False).print(shown)


@app.command("optimize")
def optimize(
    url: _Url,
    use: Annotated[
        Path | None,
        typer.Option("--use", metavar="FILE", help="How often fields were used: a JSON object, path to count."),
    ] = None,
    min_gain: Annotated[float, typer.Option("--min-gain", help="The share of bytes that must be saved.")] = MIN_GAIN,
    min_samples: Annotated[
        int, typer.Option("--min-samples", help="So many uses must have been counted.")
    ] = MIN_SAMPLES,
    force: Annotated[
        bool, typer.Option("--force", help="Make a version in any case; retired fields are left out of it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what it would do.")] = False,
    as_json: _AsJson = False,
) -> None:
    """Make a version in which the most used fields have the shortest numbers, if that saves enough."""
    dataset = Dataset.open(url)
    registry = stored_registry(dataset) if dry_run else dataset.registry
    for path, count in _counts(use).items():
        index = registry.lookup(path)
        if index is not None:
            registry.touch(index, count)
    before, plan = registry.version, registry.plan()
    wanted = force or plan.gains(min_gain, min_samples)
    after = before if dry_run else registry.optimize(min_gain, min_samples, force)
    if as_json:
        print(json.dumps({**_plan_json(plan), "before": before, "current": after, "gains": wanted}, indent=2))
        return
    done = f"version {after} is made" if after != before else f"version {before} stays"
    if dry_run:
        done = f"version {before + 1} would be made" if wanted else done
    saved = plan.bytes_before - plan.bytes_after
    share = 100 * saved / plan.bytes_before if plan.bytes_before else 0.0
    print(
        f"{done}: {plan.moved:,} of {len(plan.old_index_of):,} fields move, {plan.samples:,} uses take "
        f"{plan.bytes_after:,} bytes instead of {plan.bytes_before:,} ({share:.1f} % less)"
    )


def _about(registry: Registry) -> Json:
    return {"current": registry.version, "oldest": registry.oldest, "sequence": registry.sequence}


def _title(registry: Registry, version: int | None) -> str:
    current, oldest = registry.version, registry.oldest
    shown = current if version is None else version
    return f"version {shown} of {oldest}–{current}, {registry.sequence:,} records"


def _field_json(field: RegisteredField) -> Json:
    return {
        "index": field.index,
        "path": field.path,
        "type": type_text(field.type),
        "typeCode": field.type,
        "createdMs": field.created_ms,
        "retired": field.retired,
    }


def _plan_json(plan: Plan) -> Json:
    return {
        "fields": len(plan.old_index_of),
        "moved": plan.moved,
        "samples": plan.samples,
        "bytesBefore": plan.bytes_before,
        "bytesAfter": plan.bytes_after,
    }


def _counts(file: Path | None) -> dict[str, int]:
    if file is None:
        return {}
    try:
        if file.stat().st_size > _MOST_COUNT_BYTES:
            raise InputError(f"{file.name} is larger than {_MOST_COUNT_BYTES:,} bytes")
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise StorageError(f"{file}: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file.name} is no JSON: {error}") from error
    counts = found.values() if isinstance(found, dict) else [None]
    if not all(type(count) is int and 0 <= count <= _MOST_USES for count in counts):
        raise InputError(f"{file.name}: an object is wanted, from path to how often it was used")
    return dict(found)

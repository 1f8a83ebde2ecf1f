"""`deltaic publish`: files become the next version of a dataset, which is made if it is not there."""

import json
import re
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from deltaic.dataset.dataset import Dataset
from deltaic.errors import InputError, MissingExtraError, NotFoundError
from deltaic.producer.listeners import CycleListener
from deltaic.producer.populate import Population
from deltaic.producer.report import Cycle
from deltaic.producer.sources import ArrowRows, DictRows, Format, RowSource, file_rows
from deltaic.producer.steps import Step
from deltaic.schema.model import Model
from deltaic.schema.types import ObjectSchema
from deltaic.storage.announced import MAIN
from deltaic.storage.packing import PACKINGS, Packing

app = typer.Typer(help="Publish versions.", no_args_is_help=True)

_FORMATS: tuple[Format, ...] = ("parquet", "json", "csv", "arrow")


@app.command("publish")
def publish(
    url: Annotated[str, typer.Argument(metavar="URL", help="The dataset, or the folder of a bare chain.")],
    data: Annotated[list[Path], typer.Argument(metavar="DATA...", help="Files: Parquet, JSON (lines), CSV, Arrow.")],
    type_name: Annotated[
        str | None, typer.Option("--type", metavar="NAME", help="The type of a row; by default the only root.")
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="FIELD", help="A field of the primary key of a new dataset.")
    ] = None,
    schema: Annotated[
        Path | None, typer.Option("--schema", metavar="FILE", help="The model of a new dataset as schema text.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", help="parquet, json, csv or arrow; by default by the ending.")
    ] = None,
    note: Annotated[str | None, typer.Option("--note", help="Free text about the version.")] = None,
    incremental: Annotated[
        bool, typer.Option("--incremental", help="The files hold only what was added or changed, by key.")
    ] = False,
    channel: Annotated[str, typer.Option("--channel", help="canary: announce for few, promote later.")] = MAIN,
    compression: Annotated[
        str | None, typer.Option("--compression", help="zstd or gzip; not for consumers in Java.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Publish files as the next version. Without --incremental the version holds exactly their rows."""
    form = _checked_format(file_format)
    packing = _checked_packing(compression)
    dataset, created = _opened(url, data, type_name, key or [], schema, form)
    root = _root(dataset.model, type_name)
    console = Console(stderr=True)
    watch = _Progress(console) if console.is_terminal and not as_json else None
    listeners = (watch,) if watch is not None else ()
    producer = dataset.producer(listeners=listeners, channel=channel, compression=packing)
    with watch.shown if watch is not None else nullcontext(), producer:
        if incremental:
            with producer.incremental(note=note) as changes:
                for path in data:
                    changes.add_or_modify(_rows_of(path, root, form, dataset.model), root)
            assert changes.cycle is not None
            cycle = changes.cycle
        else:

            def populate(population: Population) -> None:
                for path in data:
                    population.add_rows(file_rows(path, root, form, model=dataset.model))

            cycle = producer.cycle(populate, note=note)
    if as_json:
        print(json.dumps(_as_json(dataset, created, cycle), indent=2))
    else:
        _print(dataset, created, cycle)


class _Progress(CycleListener):
    """A bar for the steps and a count of rows."""

    def __init__(self, console: Console) -> None:
        self.shown = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self.shown.add_task("restore", total=len(Step))

    def step_started(self, step: Step) -> None:
        """Name the step."""
        self.shown.update(self._task, description=str(step))

    def step_finished(self, step: Step, seconds: float) -> None:
        """Move the bar."""
        self.shown.advance(self._task)

    def progress(self, type_name: str, rows: int) -> None:
        """Count rows."""
        self.shown.update(self._task, description=f"populate {type_name}: {rows:,} rows")


def _opened(
    url: str, data: list[Path], type_name: str | None, key: list[str], schema: Path | None, form: Format | None
) -> tuple[Dataset, bool]:
    try:
        dataset = Dataset.open(url)
    except NotFoundError:
        return Dataset.create(url, _new_model(data, type_name, key, schema, form)), True
    _check_model(dataset, type_name, key, schema)
    return dataset, False


def _check_model(dataset: Dataset, type_name: str | None, key: list[str], schema: Path | None) -> None:
    """A command that is repeated names the model again; it must be the one that the dataset has."""
    url, has = dataset.store.url, dataset.model.schemas
    if schema is not None and _parsed(schema).schemas != has:
        raise InputError(f"{url} has another model than {schema}: --schema is for a new dataset")
    if key:
        described = has[_root(dataset.model, type_name)]
        known = described.primary_key if isinstance(described, ObjectSchema) else ()
        if tuple(key) != known:
            shown = f"the key {', '.join(known)}" if known else "no key"
            raise InputError(f"{url} has {described.name} with {shown}: --key is for a new dataset")


def _new_model(
    data: list[Path], type_name: str | None, key: list[str], schema: Path | None, form: Format | None
) -> Model:
    if schema is not None:
        if key:
            raise InputError("the key of a type stands in the schema text: --key is for models taken from the data")
        return _parsed(schema)
    name = type_name or _type_name(data[0])
    first = file_rows(data[0], name, form)
    table = first.data if isinstance(first, ArrowRows) else _inferred(data[0])
    return Model.from_arrow(table.schema, name, key=key)


def _parsed(schema: Path) -> Model:
    try:
        return Model.parse(schema.read_text(encoding="utf-8"), schema.name)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{schema} cannot be read: {error}") from error


def _inferred(path: Path) -> Any:
    """A JSON file as an Arrow table, for its schema."""
    try:
        import pyarrow
        import pyarrow.json
    except ImportError:
        raise MissingExtraError("taking a model from JSON", "arrow") from None
    try:
        return pyarrow.json.read_json(str(path))
    except pyarrow.ArrowException as error:
        raise InputError(f"no model can be taken from {path}: {error}; give one with --schema") from error


def _rows_of(path: Path, root: str, form: Format | None, model: Model) -> Any:
    source: RowSource = file_rows(path, root, form, model=model)
    return source.rows if isinstance(source, DictRows) else source.data if isinstance(source, ArrowRows) else ()


def _root(model: Model, type_name: str | None) -> str:
    if type_name is not None:
        if type_name not in model.schemas:
            raise InputError(f"there is no type {type_name!r}; types: {', '.join(model.schemas.names)}")
        return type_name
    if len(model.roots) != 1:
        raise InputError(f"the rows may be of any of {', '.join(model.roots)}: say which with --type")
    return model.roots[0]


def _type_name(path: Path) -> str:
    words = re.findall(r"[A-Za-z0-9]+", path.stem)
    name = "".join(word[:1].upper() + word[1:] for word in words)
    return name if name and not name[0].isdigit() else f"Row{name}"


def _checked_format(text: str | None) -> Format | None:
    for known in _FORMATS:
        if text == known:
            return known
    if text is None:
        return None
    raise InputError(f"--format {text}: one of {', '.join(_FORMATS)}")


def _checked_packing(text: str | None) -> Packing | None:
    for known in PACKINGS:
        if text == known:
            return known
    if text is None:
        return None
    raise InputError(f"--compression {text}: one of {', '.join(PACKINGS)}")


def _as_json(dataset: Dataset, created: bool, cycle: Cycle) -> dict[str, Any]:
    return {
        "dataset": dataset.name,
        "created": created,
        "version": cycle.version,
        "from_version": cycle.from_version,
        "note": cycle.note,
        "types": {
            name: {
                "records": change.records,
                "added": change.added,
                "removed": change.removed,
                "modified": change.modified,
            }
            for name, change in cycle.types.items()
        },
        "files": {artifact.name: artifact.size for artifact in cycle.artifacts},
        "size_bytes": cycle.size_bytes,
        "seconds": {str(step): round(seconds, 6) for step, seconds in cycle.seconds.items()},
    }


def _print(dataset: Dataset, created: bool, cycle: Cycle) -> None:
    console = Console(file=sys.stdout)
    if created:
        console.print(f"made the dataset {dataset.name}")
    if cycle.version is None:
        console.print(f"nothing changed since version {cycle.from_version}: no new version")
        return
    console.print(
        f"version [bold]{cycle.version}[/bold]" + (f" after {cycle.from_version}" if cycle.from_version else "")
    )
    table = Table("type")
    for column in ("records", "added", "removed", "modified"):
        table.add_column(column, justify="right")
    for name, change in cycle.types.items():
        table.add_row(name, *(f"{n:,}" for n in (change.records, change.added, change.removed, change.modified)))
    console.print(table)
    files = Table("file")
    files.add_column("bytes", justify="right")
    for artifact in cycle.artifacts:
        files.add_row(artifact.name, f"{artifact.size:,}")
    console.print(files)
    steps = ", ".join(f"{step} {seconds:.3f}" for step, seconds in cycle.seconds.items())
    console.print(f"seconds: {steps}; {cycle.total_seconds:.3f} in all")

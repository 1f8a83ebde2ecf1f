"""`deltaic generate`: typed classes for the records of a dataset."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from deltaic.cli.opening import is_file
from deltaic.schema.classes import VectorColumn
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.schema.schemas import SchemaSet
from deltaic.state.generate import class_names, generate_module

app = typer.Typer(help="Write typed classes for the records of a dataset.", no_args_is_help=True)


@app.command("generate")
def generate(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="A dataset, the folder of a chain, a snapshot file or a schema text.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write, else it is printed.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", help="The version to read; by default the announced one.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Say which classes there are, as JSON.")] = False,
) -> None:
    """Write a module of typed classes for the types of a dataset."""
    model = model_of(url, version)
    text = generate_module(model, url)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    classes = list(_described(model))
    if as_json:
        told: dict[str, Any] = {"classes": classes}
        told |= {"module": text} if output is None else {"file": str(output)}
        json.dump(told, sys.stdout, indent=2)
        print()
    elif output is None:
        print(text, end="")
    else:
        _print_classes(classes)
        print(f"{len(classes)} classes in {output}")


def _described(model: Model) -> Iterator[dict[str, Any]]:
    for type_name, name in class_names(model).items():
        schema = model.schemas.object_schema(type_name)
        yield {"class": name, "type": type_name, "fields": len(schema.fields), "key": list(schema.primary_key or ())}


def _print_classes(classes: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("class", "type", "fields", "key", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for one in classes:
        table.add_row(
            *(escape(text) for text in (one["class"], one["type"], str(one["fields"]), ", ".join(one["key"])))
        )
    if classes:
        Console(highlight=False).print(table)


def model_of(url: str, version: int | None = None) -> Model:
    """The model of a dataset, a chain, a snapshot or a schema text."""
    if is_file(url):
        from deltaic.cli.schema import load_schemas

        path = Path(url)
        schemas, kind = load_schemas(path)
        if kind == "text":
            return Model.from_schemas(schemas)
        from deltaic.limits import DEFAULT_LIMITS
        from deltaic.state.source import opened
        from deltaic.wire.header import read_header

        with opened(path, DEFAULT_LIMITS) as cursor:
            tags = read_header(cursor).tags if kind != "part" else {}
        return Model.from_schemas(schemas, tags.get(TYPES_TAG, ""))
    from deltaic.cli.opening import open_state

    state = open_state(url, version)
    model = Model.from_schemas(SchemaSet(state.schemas), state.header_tags.get(TYPES_TAG, ""))
    vectors = (VectorColumn(*names, column.dimensions) for names, column in state.vectors.items())
    return replace(model, vectors=tuple(vectors))

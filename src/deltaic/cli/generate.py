"""`deltaic generate`: typed classes for the records of a dataset."""

from pathlib import Path
from typing import Annotated

import typer

from deltaic.cli.opening import is_file
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.schema.schemas import SchemaSet
from deltaic.state.generate import generate_module

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
) -> None:
    """Write a module of typed classes for the types of a dataset."""
    text = generate_module(model_of(url, version), url)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")


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
    return Model.from_schemas(SchemaSet(state.schemas), state.header_tags.get(TYPES_TAG, ""))

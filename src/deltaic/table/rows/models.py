"""The columns of a table from a model: those that a state of the model gives back, so that no type is lost."""

import io
from typing import Any

import pyarrow as pa

from deltaic.errors import InputError, SchemaError
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.schema.types import ObjectSchema
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.table.rows.types import vector_field


def model_schema(model: Model | type) -> tuple[Any, tuple[str, ...]]:
    """The Arrow schema of the rows of a model's one root, and the columns of its primary key."""
    chosen = model if isinstance(model, Model) else Model.of(model)
    root = root_type(chosen)
    return table_columns(chosen, root), key_columns(chosen, root)


def root_type(model: Model, wanted: str | None = None) -> str:
    """The type whose records are the rows of a table.

    Raises:
        InputError: there are several, and none is named; or the named one is no OBJECT.
    """
    name = wanted if wanted is not None else model.roots[0]
    if wanted is None and len(model.roots) > 1:
        raise InputError(f"a table holds the rows of one type: name one of {', '.join(model.roots)}")
    if not isinstance(model.schemas.get(name), ObjectSchema):
        raise InputError(f"type {name} is no OBJECT type of the model: its records cannot be rows")
    return name


def table_columns(model: Model, root: str) -> Any:
    """The Arrow schema of the rows of a type (`pyarrow.Schema`): its fields, then its vectors.

    Raises:
        SchemaError: a type that the rows refer to has vectors, which have no column to be in.
    """
    _refuse_inner_vectors(model, root)
    state = WriteState(model.schemas)
    if tag := model.types_tag():
        state.header_tags[TYPES_TAG] = tag
    state.prepare()
    snapshot = io.BytesIO()
    state.write_snapshot(snapshot)
    fields = list(pa.RecordBatchReader.from_stream(ReadState.load(snapshot.getvalue())[root].to_arrow()).schema)
    # By name, as a state has them: vector parts do not know the order of the model.
    vectors = sorted(
        (vector for vector in model.vectors if vector.type_name == root), key=lambda vector: vector.field_name
    )
    return pa.schema([*fields, *(vector_field(vector.field_name, vector.dimensions) for vector in vectors)])


def _refuse_inner_vectors(model: Model, root: str) -> None:
    found, waiting = {root}, [root]
    while waiting:
        for name in model.schemas[waiting.pop()].references():
            if name not in found:
                found.add(name)
                waiting.append(name)
    for vector in model.vectors:
        if vector.type_name != root and vector.type_name in found:
            raise SchemaError(
                f"{vector.type_name}.{vector.field_name} is a vector of a type that rows of {root} refer to: a table "
                f"holds vectors of its rows, those of {root}"
            )


def key_columns(model: Model, root: str) -> tuple[str, ...]:
    """The columns of the primary key; none if the type has no key, or one that looks inside a column."""
    schema = model.schemas.object_schema(root)
    columns = []
    for path in schema.primary_key or ():
        name, *below = path.rstrip("!").split(".")
        if below and below != ["value"]:
            return ()
        referenced = schema.fields[schema.position(name)].referenced
        if referenced is not None and model.boxed_field(referenced) is None:
            return ()
        columns.append(name)
    return tuple(columns)

"""The columns of a table from a model: those that a state of it gives back, so that no type is lost on the way."""

import io
from typing import Any

import pyarrow as pa

from deltaic.errors import InputError
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.schema.types import ObjectSchema
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState


def model_schema(model: Model | type) -> tuple[Any, tuple[str, ...]]:
    """The Arrow schema of the rows of a model's one root, and the columns of its primary key."""
    chosen = model if isinstance(model, Model) else Model.of(model)
    if len(chosen.roots) != 1:
        raise InputError(f"a table holds the rows of one type, the model has {', '.join(chosen.roots)}")
    (root,) = chosen.roots
    state = WriteState(chosen.schemas)
    if tag := chosen.types_tag():
        state.header_tags[TYPES_TAG] = tag
    state.prepare()
    snapshot = io.BytesIO()
    state.write_snapshot(snapshot)
    schema = pa.RecordBatchReader.from_stream(ReadState.load(snapshot.getvalue())[root].to_arrow()).schema
    found = chosen.schemas[root]
    assert isinstance(found, ObjectSchema)
    key = tuple(path.split(".")[0].rstrip("!") for path in found.primary_key or ())
    nested = any(name not in schema.names or pa.types.is_nested(schema.field(name).type) for name in key)
    return schema, () if nested else key

"""The Arrow types of a model's columns: what a file that has no types of its own is read as."""

import io
from typing import Any

from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState


def flat_columns(model: Model, type_name: str) -> dict[str, Any]:
    """The columns of a type that are no lists, maps or structs, with their pyarrow types."""
    import pyarrow

    # A version without records, read back: its columns have the types that readers will see.
    writer, snapshot = WriteState(model.schemas), io.BytesIO()
    if tag := model.types_tag():
        writer.header_tags[TYPES_TAG] = tag
    writer.prepare()
    writer.write_snapshot(snapshot)
    schema = pyarrow.schema(ReadState.load(snapshot.getvalue())[type_name].to_arrow())
    return {field.name: field.type for field in schema if not pyarrow.types.is_nested(field.type)}

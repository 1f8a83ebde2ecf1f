"""`dataset.json`: the name and the model of a dataset (docs/formats/dataset.md)."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta, Struct

from deltaic.errors import DecodeError, DeltaicError, LimitError, SchemaError
from deltaic.schema.mapping import read_types_tag
from deltaic.schema.model import Model, VectorColumn
from deltaic.schema.text import parse_schemas

FILE_NAME = "dataset.json"
"""What makes a folder a dataset."""

FORMAT = 1
MAX_BYTES = 4 << 20

_Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**53)]
_TypeName: TypeAlias = Annotated[str, Meta(min_length=1, max_length=65_535)]


class VectorText(Struct, frozen=True):
    """A vector column."""

    type: _TypeName
    field: _TypeName
    dimensions: Annotated[int, Meta(ge=1, le=1 << 20)]


class ModelText(Struct, frozen=True):
    """A model as text."""

    schema: str
    roots: Annotated[tuple[_TypeName, ...], Meta(min_length=1)]
    types: str
    shards: dict[_TypeName, Annotated[int, Meta(ge=1, le=1 << 16)]]
    vectors: tuple[VectorText, ...]


class Description(Struct, frozen=True):
    """The whole of `dataset.json`."""

    format: int
    token: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")]
    created_ms: _Count
    model: ModelText


def describe(model: Model) -> ModelText:
    """A model as text."""
    return ModelText(
        str(model.schemas),
        model.roots,
        model.types_tag(),
        dict(model.shards),
        tuple(VectorText(each.type_name, each.field_name, each.dimensions) for each in model.vectors),
    )


def encode_description(description: Description, unknown: dict[str, Any] | None = None) -> bytes:
    """The bytes of `dataset.json`."""
    data = msgspec.json.encode({**(unknown or {}), **msgspec.to_builtins(description)})
    if len(data) > MAX_BYTES:
        raise LimitError("TooLarge", f"{len(data):,} bytes, the limit is {MAX_BYTES:,}", FILE_NAME)
    return data


def decode_description(data: bytes, at: str = FILE_NAME) -> tuple[Description, Model, dict[str, Any]]:
    """Read `dataset.json`: what it says, the model, and fields beside those that this version knows."""
    values = _decode_json(data, at)
    try:
        description = msgspec.convert(values, Description, strict=True)
    except msgspec.ValidationError as error:
        raise DecodeError("BadField", str(error), at) from error
    model = _model(description.model, at)
    known = set(Description.__struct_fields__)
    return description, model, {name: value for name, value in values.items() if name not in known}


def _decode_json(data: bytes, at: str) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise LimitError("TooLarge", f"{len(data):,} bytes, the limit is {MAX_BYTES:,}", at)
    try:
        values = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise DecodeError("BadJson", f"no JSON: {error}", at) from error
    if not isinstance(values, dict) or type(values.get("format")) is not int:
        raise DecodeError("BadField", "no object with a number `format`", at)
    if not 1 <= values["format"] <= FORMAT:
        raise DecodeError(
            "UnknownFormat", f"format {values['format']}, this version reads up to {FORMAT}: update deltaic", at
        )
    return values


def _model(text: ModelText, at: str) -> Model:
    try:
        schemas = parse_schemas(text.schema, at).validated()
    except (SchemaError, RecursionError) as error:
        raise DecodeError("BadSchema", str(error), at) from error
    try:
        logical = read_types_tag(text.types)
    except (DeltaicError, RecursionError) as error:
        raise DecodeError("BadTypes", str(error), at) from error
    for name in (*text.roots, *text.shards, *(vector.type for vector in text.vectors)):
        if name not in schemas:
            raise DecodeError("UnknownType", f"type {name!r} is not in the schema", at)
    if len(set(text.roots)) != len(text.roots):
        raise DecodeError("TwiceListed", "a root is listed twice", at)
    for name, count in text.shards.items():
        if count & (count - 1):
            raise DecodeError("BadShards", f"type {name}: {count} shards, the number must be a power of two", at)
    vectors = tuple(VectorColumn(each.type, each.field, each.dimensions) for each in text.vectors)
    return Model(schemas, text.roots, logical, dict(text.shards), vectors)

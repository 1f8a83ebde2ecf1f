"""How a vector column is stored: beside the records in vector parts, or as bytes inside them.

    Producer(url, Model.of(Movie), vectors={"Movie.embedding": VectorStorage(quantization="int8")})
    Producer(url, Model.of(Movie), vectors="bytes")

A *part* carries only the dimensions that changed and loses nothing, unless a quantization is asked for. As *bytes* the
vector is a BYTES field of the record, its float32s in little-endian order: Java reads it, and a change is a new record.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from deltaic.errors import InputError, NotFoundError, SchemaError
from deltaic.schema.model import Model, VectorColumn
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Field, FieldType, ObjectSchema
from deltaic.wire.vectors import EncodeOptions, Packing, Quantization

Form = Literal["part", "bytes"]
ColumnKey = tuple[str, str]

VECTORS_TAG = "deltaic.vectors"
"""The header tag that names the vector columns of a version and their form; Java passes over it."""


@dataclass(frozen=True, slots=True)
class VectorStorage:
    """How one vector column is stored.

    Args:
        form: `part` or `bytes`.
        quantization: `none` keeps every bit; `f16`, `int8` and `int4` send fewer.
        max_error: the most that a dimension may be off; by default half a step of the quantization over the range of
            its vector. A vector that the quantization would put further off is sent without loss.
        refresh_every: after so many lossy changes a vector is sent whole, without loss; None: never.
        compression: of the frames: `zstd`, `zlib`, `lz4` or `none`.
        level: of the compression.
    """

    form: Form = "part"
    quantization: Quantization | str = Quantization.NONE
    max_error: float | None = None
    refresh_every: int | None = 100
    compression: Packing | str = Packing.ZSTD
    level: int = 3

    def __post_init__(self) -> None:
        if self.form not in ("part", "bytes"):
            raise InputError(f"vectors as {self.form!r}: 'part' or 'bytes'")
        if self.quantization == Quantization.AUTO:
            raise InputError("a vector column has one quantization: none, f16, int8 or int4")
        options = self.options
        object.__setattr__(self, "quantization", options.quantization)
        object.__setattr__(self, "compression", options.compression)
        if self.form == "bytes" and self.lossy:
            raise InputError("vectors as bytes are float32: a quantization is for parts")
        if self.max_error is not None and not (math.isfinite(self.max_error) and self.max_error > 0):
            raise InputError(f"max_error {self.max_error}: it is a finite number above 0")
        if self.refresh_every is not None and self.refresh_every < 1:
            raise InputError(f"refresh_every {self.refresh_every}: it is at least 1")

    @property
    def lossy(self) -> bool:
        """True if readers may have other values than were given."""
        return self.quantization is not Quantization.NONE

    @property
    def options(self) -> EncodeOptions:
        """The options of the frames."""
        given: dict[str, Any] = {"quantization": self.quantization, "compression": self.compression}
        return EncodeOptions(level=self.level, **given)


Storages = VectorStorage | Form | Mapping[str, VectorStorage | Form]
"""One storage for all vector columns, or by `Type.field`."""


def storage_of_columns(model: Model, given: Storages) -> dict[ColumnKey, VectorStorage]:
    """The storage of every vector column of a model."""
    known = {f"{column.type_name}.{column.field_name}": column for column in model.vectors}
    if not isinstance(given, Mapping):
        one = given if isinstance(given, VectorStorage) else VectorStorage(given)
        return {(column.type_name, column.field_name): one for column in model.vectors}
    for name in given:
        if name not in known:
            shown = ", ".join(known) or "none"
            raise NotFoundError(f"there is no vector column {name!r}; vector columns: {shown}")
    return {(column.type_name, column.field_name): _storage(given.get(name, "part")) for name, column in known.items()}


def stored_model(model: Model, storages: Mapping[ColumnKey, VectorStorage]) -> Model:
    """The model as its blobs have it: with a BYTES field for each vector column that is stored as bytes."""
    added: dict[str, list[Field]] = {}
    for column in model.vectors:
        if storages[column.type_name, column.field_name].form == "bytes":
            schema = model.schemas.object_schema(column.type_name)
            if schema.position(column.field_name) < 0:
                added.setdefault(column.type_name, []).append(Field(column.field_name, FieldType.BYTES))
    if not added:
        return model
    schemas = [
        replace(schema, fields=(*schema.fields, *added[schema.name]))
        if isinstance(schema, ObjectSchema) and schema.name in added
        else schema
        for schema in model.schemas
    ]
    return replace(model, schemas=SchemaSet(schemas).validated())


@dataclass(frozen=True, slots=True)
class VectorNote:
    """What the header of a version says of a vector column."""

    column: VectorColumn
    form: Form

    @property
    def key(self) -> ColumnKey:
        """Type and field."""
        return self.column.type_name, self.column.field_name


def vectors_tag(model: Model, storages: Mapping[ColumnKey, VectorStorage]) -> str:
    """The value of the header tag; empty if there is no vector column."""
    notes = [
        [column.type_name, column.field_name, column.dimensions, storages[column.type_name, column.field_name].form]
        for column in sorted(model.vectors, key=lambda each: (each.type_name, each.field_name))
    ]
    return json.dumps(notes, separators=(",", ":"), ensure_ascii=False) if notes else ""


def read_vectors_tag(header_tags: Mapping[str, str]) -> tuple[VectorNote, ...]:
    """The vector columns that a header names.

    Raises:
        SchemaError: the tag is not what a producer writes.
    """
    text = header_tags.get(VECTORS_TAG, "")
    if not text:
        return ()
    try:
        notes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"the header tag {VECTORS_TAG} cannot be read: {error}") from error
    found = []
    for note in notes if isinstance(notes, list) else [None]:
        match note:
            case [str() as type_name, str() as field_name, int() as dimensions, "part" | "bytes" as form] if (
                0 < dimensions <= 1 << 20
            ):
                found.append(VectorNote(VectorColumn(type_name, field_name, dimensions), form))
            case _:
                raise SchemaError(f"the header tag {VECTORS_TAG} cannot be read: {text[:80]!r}")
    return tuple(found)


def _storage(given: VectorStorage | Form) -> VectorStorage:
    return given if isinstance(given, VectorStorage) else VectorStorage(given)

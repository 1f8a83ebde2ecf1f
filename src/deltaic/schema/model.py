"""The model: the types of a dataset and what is known about them beyond Hollow's schemas.

Written once, as Python classes, as schema text or as an Arrow schema; everything else is derived from it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

from deltaic.errors import NotFoundError, SchemaError
from deltaic.schema.arrow import ArrowOptions, ArrowReader
from deltaic.schema.building import ModelBuilder
from deltaic.schema.classes import ClassReader, VectorColumn
from deltaic.schema.logical import LogicalType, natural
from deltaic.schema.mapping import Logical, read_types_tag, write_types_tag
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.text import parse_schemas
from deltaic.schema.types import Field, FieldType, ObjectSchema

__all__ = ["Model", "VectorColumn"]


@dataclass(frozen=True)
class Model:
    """Types in order, the roots among them, logical types, fixed shard counts and vector columns."""

    schemas: SchemaSet
    roots: tuple[str, ...]
    """The types whose records are added as such; the others are what these refer to."""
    logical: Logical = field(default_factory=lambda: MappingProxyType({}))
    """Type name → field name (or `element`, `key`, `value`) → logical type, where Hollow's schema does not say it."""
    shards: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    vectors: tuple[VectorColumn, ...] = ()
    classes: Mapping[str, type] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    """Type name → the Python class it was made from."""
    renamed: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}), compare=False)
    """Type name → field name → what the field was called before (docs/schema-append.md)."""

    @classmethod
    def of(cls, *classes: type) -> Self:
        """The model of some Python classes and all they refer to (`deltaic.schema.classes` has the rules)."""
        if not classes:
            raise SchemaError("a model is made of at least one class")
        builder = ModelBuilder()
        reader = ClassReader(builder)
        roots = tuple(dict.fromkeys(reader.add_class(given) for given in classes))
        return cls(
            SchemaSet(builder.schemas.values()).validated(),
            roots,
            _frozen_logical(builder.logical),
            MappingProxyType(builder.shards),
            tuple(reader.vectors),
            MappingProxyType(reader.classes),
        ).with_renamed(reader.renamed)

    @classmethod
    def from_arrow(
        cls,
        schema: Any,
        name: str,
        *,
        key: str | Collection[str] = (),
        inline_strings: bool | Collection[str] = False,
        keep_null_elements: bool = False,
        wide: Collection[str] = (),
        vectors: Collection[str] = (),
        shards: Mapping[str, int] | None = None,
        renamed_from: Mapping[str, str] | None = None,
    ) -> Self:
        """The model of the rows of an Arrow schema (`deltaic.schema.arrow` has the rules).

        Args:
            schema: anything with `__arrow_c_schema__`, or rows: anything with `__arrow_c_stream__`.
            name: the name of the type that a row becomes.
            key: the paths of its primary key.
            inline_strings: True, or the columns whose texts lie in the record instead of behind a reference.
            keep_null_elements: keep null structs and lists inside lists and maps, by a type in between.
            wide: integer columns in which the smallest number is a value like others, beside nulls.
            vectors: columns of fixed-size lists of float32 that are vectors.
            shards: fixed shard counts by type name.
            renamed_from: column → what it was called before.
        """
        columns = _arrow_schema(schema)
        if columns.format != "+s":
            raise SchemaError(f"type {name}: rows come from an Arrow schema or struct, not from {columns.format!r}")
        primary_key = (key,) if isinstance(key, str) else tuple(key) or None
        builder = ModelBuilder()
        reader = ArrowReader(builder, ArrowOptions(inline_strings, keep_null_elements, wide, vectors))
        root = reader.add_record(columns, name, primary_key)
        known = {child.name for child in columns.children}
        for column in (*wide, *vectors, *(() if isinstance(inline_strings, bool) else inline_strings)):
            if column not in known:
                raise NotFoundError(f"type {name} has no column {column!r}")
        model = cls(
            SchemaSet(builder.schemas.values()).validated(),
            (root,),
            _frozen_logical(builder.logical),
            vectors=tuple(reader.vectors),
        )
        return model.with_shards(shards or {}).with_renamed({root: renamed_from} if renamed_from else {})

    @classmethod
    def parse(cls, text: str, name: str = "<text>") -> Self:
        """The model of a schema text. Its roots are the types that no other type refers to."""
        return cls.from_schemas(parse_schemas(text, name).validated())

    @classmethod
    def from_schemas(cls, schemas: SchemaSet, types_tag: str = "") -> Self:
        """The model of schemas as a blob has them, with the value of its header tag `deltaic.types` if it has one."""
        referenced = {name for schema in schemas for name in schema.references() if name != schema.name}
        roots = tuple(name for name in schemas.names if name not in referenced) or schemas.names
        return cls(schemas, roots, _frozen_logical(read_types_tag(types_tag)))

    def with_shards(self, shards: Mapping[str, int]) -> Self:
        """This model with fixed shard counts for some types."""
        for name, count in shards.items():
            if name not in self.schemas:
                raise NotFoundError(f"there is no type {name!r} to give {count} shards")
            if count < 1 or count & (count - 1):
                raise SchemaError(f"type {name}: a shard count is a power of two, not {count}")
        return replace(self, shards=MappingProxyType({**self.shards, **shards}))

    def with_renamed(self, renamed: Mapping[str, Mapping[str, str]]) -> Self:
        """This model with what some fields were called before: type → field → old name."""
        for name, fields in renamed.items():
            schema = self.schemas.object_schema(name)
            for field_name in fields:
                if schema.position(field_name) < 0:
                    raise NotFoundError(f"type {name} has no field {field_name!r} that could have had another name")
        merged = {name: dict(fields) for name, fields in self.renamed.items()}
        for name, fields in renamed.items():
            merged[name] = {**merged.get(name, {}), **fields}
        return replace(self, renamed=MappingProxyType(merged))

    def logical_of(self, type_name: str, field_name: str) -> LogicalType | None:
        """What a field stands for; None if it refers to a record about which nothing more is noted.

        A field that refers to a boxed type ({value}) stands for that value.
        """
        noted = self.logical.get(type_name, {}).get(field_name)
        if noted is not None:
            return noted
        schema = self.schemas.object_schema(type_name)
        position = schema.position(field_name)
        if position < 0:
            raise NotFoundError(f"type {type_name} has no field {field_name!r}")
        found = schema.fields[position]
        if found.type is not FieldType.REFERENCE:
            return natural(found.type)
        boxed = self.boxed_field(found.referenced or "")
        return None if boxed is None else self.logical_of(found.referenced or "", boxed.name)

    def boxed_field(self, type_name: str) -> Field | None:
        """The one field of a boxed type: an OBJECT with only a field `value` that is no reference. Else None."""
        schema = self.schemas.get(type_name)
        if isinstance(schema, ObjectSchema) and len(schema.fields) == 1:
            only = schema.fields[0]
            if only.name == "value" and only.type is not FieldType.REFERENCE:
                return only
        return None

    def types_tag(self) -> str:
        """The value of the header tag `deltaic.types`; empty if there is nothing to say."""
        return write_types_tag(self.logical)

    def __str__(self) -> str:
        return str(self.schemas)

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only views do not travel between Spark's processes; plain dictionaries do.
        logical = {name: dict(fields) for name, fields in self.logical.items()}
        renamed = {name: dict(fields) for name, fields in self.renamed.items()}
        plain = dict(self.shards), self.vectors, dict(self.classes), renamed
        return _rebuilt, (self.schemas, self.roots, logical, *plain)


def _rebuilt(
    schemas: SchemaSet,
    roots: tuple[str, ...],
    logical: Logical,
    shards: dict[str, int],
    vectors: tuple[VectorColumn, ...],
    classes: dict[str, type],
    renamed: dict[str, dict[str, str]],
) -> Model:
    frozen = _frozen_logical(logical), MappingProxyType(shards)
    return Model(schemas, roots, *frozen, vectors, MappingProxyType(classes), MappingProxyType(renamed))


def _arrow_schema(source: Any) -> Any:
    import nanoarrow

    if hasattr(source, "__arrow_c_schema__") or not hasattr(source, "__arrow_c_stream__"):
        return nanoarrow.c_schema(source)
    with nanoarrow.c_array_stream(source) as stream:
        return stream.get_schema()


def _frozen_logical(logical: Mapping[str, Mapping[str, LogicalType]]) -> Logical:
    return MappingProxyType({name: MappingProxyType(dict(fields)) for name, fields in logical.items()})

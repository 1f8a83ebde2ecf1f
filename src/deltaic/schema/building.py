"""A model in the making: types by name, each once, a referenced type before the type that refers to it."""

from collections.abc import Mapping

from deltaic.errors import SchemaError
from deltaic.schema.logical import LogicalType
from deltaic.schema.mapping import boxed_name
from deltaic.schema.printing import print_schema
from deltaic.schema.types import Field, ObjectSchema, Schema

_PLAIN_LAYOUTS = {"U": "u", "vu": "u", "Z": "z", "vz": "z"}


class ModelBuilder:
    """Gathers types in the order in which they are complete."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self.logical: dict[str, dict[str, LogicalType]] = {}
        self.shards: dict[str, int] = {}

    def add(self, schema: Schema, logical: Mapping[str, LogicalType], why: str) -> str:
        """Add a type, or accept that the very same is there already; returns its name."""
        noted = {field: kind for field, kind in logical.items() if not kind.is_natural}
        if not self.fits(schema, noted):
            raise SchemaError(
                f"{why}: type {schema.name} is declared twice and differs; give one of them another name\n"
                f"{print_schema(self.schemas[schema.name])}\n{print_schema(schema)}"
            )
        if schema.name not in self.schemas:
            self.schemas[schema.name] = schema
            if noted:
                self.logical[schema.name] = noted
        return schema.name

    def fits(self, schema: Schema, logical: Mapping[str, LogicalType]) -> bool:
        """True if the name is free, or taken by an equal type."""
        existing = self.schemas.get(schema.name)
        noted = {field: kind for field, kind in logical.items() if not kind.is_natural}
        return existing is None or (existing == schema and self.logical.get(schema.name, {}) == noted)

    def add_boxed(self, logical: LogicalType, why: str, name: str | None = None) -> str:
        """Add the type {value} that stands for a scalar, under its usual name if none is given."""
        # Large and view layouts are noted where the type is used; the boxed type is shared.
        plain = _PLAIN_LAYOUTS.get(logical.format, logical.format)
        kept = LogicalType(plain, wide=logical.wide)
        schema = ObjectSchema(name or boxed_name(kept), (Field("value", kept.field_type),))
        return self.add(schema, {"value": kept}, why)

    def set_shards(self, name: str, count: int) -> None:
        """Fix the number of shards of a type."""
        if self.shards.setdefault(name, count) != count:
            raise SchemaError(f"type {name} is given {self.shards[name]} and {count} shards")

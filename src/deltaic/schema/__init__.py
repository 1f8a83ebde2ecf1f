"""The model of types: schemas, their text and binary form, paths, evolution, and the mapping to Arrow and Python.

What reading blobs needs is here; the model and what makes it (`deltaic.schema.model`, `.annotations`, `.mapping`) are
imported where they are used.
"""

from deltaic.schema.binary import read_schema, write_schema
from deltaic.schema.paths import ResolvedPath, Step, resolve_path
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.text import parse_schemas, print_schema, print_schemas
from deltaic.schema.types import Field, FieldType, Kind, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema

__all__ = [
    "Field",
    "FieldType",
    "Kind",
    "ListSchema",
    "MapSchema",
    "ObjectSchema",
    "ResolvedPath",
    "Schema",
    "SchemaSet",
    "SetSchema",
    "Step",
    "parse_schemas",
    "print_schema",
    "print_schemas",
    "read_schema",
    "resolve_path",
    "write_schema",
]

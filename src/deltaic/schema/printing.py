"""The text form of one type, exactly as Java prints it (hollow-blob.md, section 3). Reading it is in `text`."""

from deltaic.schema.types import Field, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema


def print_schema(schema: Schema) -> str:
    """The text form of one type, exactly as Java prints it."""
    match schema:
        case ObjectSchema():
            lines = "".join(f"\t{type_text(field)} {field.name};\n" for field in schema.fields)
            return f"{schema.name}{_key_text('PrimaryKey', schema.primary_key)} {{\n{lines}}}"
        case ListSchema():
            return f"{schema.name} List<{schema.element}>;"
        case SetSchema():
            return f"{schema.name} Set<{schema.element}>{_key_text('HashKey', schema.hash_key)};"
        case MapSchema():
            return f"{schema.name} Map<{schema.key},{schema.value}>{_key_text('HashKey', schema.hash_key)};"


def type_text(field: Field) -> str:
    """How a field's type is written: `int`, or the name of the referenced type."""
    return field.referenced if field.referenced is not None else field.type.value.lower()


def _key_text(annotation: str, paths: tuple[str, ...] | None) -> str:
    return f" @{annotation}({', '.join(paths)})" if paths else ""

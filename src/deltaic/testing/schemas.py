"""Hypothesis strategies for schemas: any names and kinds, references that lead somewhere, keys that can be followed."""

from hypothesis import strategies as st

from deltaic.schema.paths import resolve_path
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema

_INLINE = [member for member in FieldType if member is not FieldType.REFERENCE]
_RESERVED = {member.value.lower() for member in _INLINE}

names: st.SearchStrategy[str] = st.one_of(
    st.from_regex(r"[A-Z][A-Za-z0-9_]{0,12}", fullmatch=True),
    st.text(
        st.characters(exclude_categories=["Cc", "Zs", "Zl", "Zp"], exclude_characters="{}<>(),;@/.!"),
        min_size=1,
        max_size=8,
    ),
).filter(lambda name: name not in _RESERVED and name not in ("List", "Set", "Map") and not any(map(str.isspace, name)))
"""Names of types and fields: mostly such as people give, now and then of any characters, lone surrogates too."""


@st.composite
def schema_sets(draw: st.DrawFn, max_types: int = 6, *, acyclic: bool = False, keys: bool = True) -> SchemaSet:
    """Sets of schemas that `SchemaSet.validated` accepts.

    Args:
        draw: given by Hypothesis.
        max_types: how many types at most.
        acyclic: types refer only to types before them.
        keys: declare primary keys and hash keys where there are fields for them.
    """
    type_names = draw(st.lists(names, min_size=1, max_size=max_types, unique=True))
    schemas: list[Schema] = []
    for position, name in enumerate(type_names):
        targets = type_names[:position] if acyclic else type_names
        kinds = ["object", "list", "set", "map"] if targets else ["object"]
        match draw(st.sampled_from(kinds)):
            case "object":
                schemas.append(ObjectSchema(name, draw(_fields(targets))))
            case "list":
                schemas.append(ListSchema(name, draw(st.sampled_from(targets))))
            case "set":
                schemas.append(SetSchema(name, draw(st.sampled_from(targets))))
            case _:
                schemas.append(MapSchema(name, draw(st.sampled_from(targets)), draw(st.sampled_from(targets))))
    made = SchemaSet(schemas)
    return SchemaSet([draw(_with_key(made, schema)) for schema in made]) if keys else made


@st.composite
def _fields(draw: st.DrawFn, targets: list[str]) -> tuple[Field, ...]:
    field_names = draw(st.lists(names, max_size=6, unique=True))
    fields = []
    for name in field_names:
        field_type = draw(st.sampled_from(list(FieldType) if targets else _INLINE))
        is_reference = field_type is FieldType.REFERENCE
        fields.append(Field(name, field_type, draw(st.sampled_from(targets)) if is_reference else None))
    return tuple(fields)


@st.composite
def _with_key(draw: st.DrawFn, schemas: SchemaSet, schema: Schema) -> Schema:
    match schema:
        case ObjectSchema():
            start = schema.name
        case SetSchema():
            start = schema.element
        case MapSchema():
            start = schema.key
        case _:
            return schema
    keyed = schemas.get(start)
    if not isinstance(keyed, ObjectSchema) or not draw(st.booleans()):
        return schema
    # A path must not need expansion: other types may get keys later, which would change where it leads.
    usable = [field.name for field in keyed.fields if field.type is not FieldType.REFERENCE]
    if not usable:
        return schema
    paths = tuple(draw(st.lists(st.sampled_from(usable), min_size=1, max_size=3, unique=True)))
    for path in paths:
        resolve_path(schemas, start, path)
    match schema:
        case ObjectSchema():
            return ObjectSchema(schema.name, schema.fields, paths)
        case SetSchema():
            return SetSchema(schema.name, schema.element, paths)
        case MapSchema():
            return MapSchema(schema.name, schema.key, schema.value, paths)

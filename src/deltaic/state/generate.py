"""A Python module of classes for the types of a model: what `deltaic generate` writes.

The classes are frozen dataclasses without `Any`, so that editors and type checkers know every field of a record that
`typed` makes. They also say all that the schemas say: a model of them is the model that they were made of, but for
names that Python has no way to write, which are left out and named in a comment.
"""

import builtins
import keyword
import re
from collections.abc import Iterator

from deltaic.schema.classes import VectorColumn
from deltaic.schema.logical import LogicalType, natural
from deltaic.schema.mapping import boxed_name
from deltaic.schema.model import Model
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema

_ALIASES = {
    "c": "Int8",
    "s": "Int16",
    "i": "Int32",
    "C": "UInt8",
    "S": "UInt16",
    "I": "UInt32",
    "L": "UInt64",
    "e": "Float16",
    "f": "Float32",
}
_PLAIN = {"l": "int", "b": "bool", "g": "float", "u": "str", "z": "bytes"}
_TAKEN = {"Annotated", "annotations", "builtins", "dataclass", "datetime", "decimal", "marks"}


def generate_module(model: Model, source: str = "") -> str:
    """The text of a module with a class for each OBJECT type that is not only a value.

    Args:
        model: the types.
        source: where they come from, for the first line.
    """
    return _Writer(model).module(source)


def class_names(model: Model) -> dict[str, str]:
    """The names of the classes of that module, by type."""
    return dict(_Writer(model)._class_names)


class _Writer:
    def __init__(self, model: Model) -> None:
        self._model = model
        self._class_names: dict[str, str] = {}
        used = set(_TAKEN) | set(dir(builtins))
        for schema in self._classes():
            name = _identifier(schema.name)
            while name in used:
                name += "_"
            used.add(name)
            self._class_names[schema.name] = name

    def _classes(self) -> list[ObjectSchema]:
        return [
            schema
            for schema in self._model.schemas
            if isinstance(schema, ObjectSchema) and self._model.boxed_field(schema.name) is None
        ]

    def module(self, source: str) -> str:
        body = "".join(f"\n\n{self._class(schema)}" for schema in self._classes())
        imports = ["from dataclasses import dataclass"]
        imports += [f"import {name}" for name in ("builtins", "datetime", "decimal") if f"{name}." in body]
        if "Annotated[" in body:
            imports.append("from typing import Annotated")
        imports = sorted(imports, key=lambda line: (line.startswith("from"), line))
        if "marks." in body:
            imports += ["", "from deltaic.schema import annotations as marks"]
        names = "".join(f'    "{name}",\n' for name in sorted(self._class_names.values()))
        title = f"Classes for the types of {_quoted(source)}." if source else "Classes for the types of a dataset."
        head = f'"""{title}\n\nWritten by `deltaic generate`; changes are lost when it runs again.\n"""\n\n'
        listed = f"__all__ = [\n{names}]\n" if names else "__all__: list[str] = []\n"
        return head + "from __future__ import annotations\n\n" + "\n".join(imports) + "\n\n" + listed + body

    def _class(self, schema: ObjectSchema) -> str:
        name = self._class_names[schema.name]
        lines = []
        if schema.primary_key:
            lines.append(f"@marks.key({', '.join(map(_literal, schema.primary_key))})")
        if name != schema.name:
            lines.append(f"@marks.type_name({_literal(schema.name)})")
        if schema.name in self._model.shards:
            lines.append(f"@marks.shards({self._model.shards[schema.name]})")
        lines.append("@dataclass(frozen=True, slots=True, kw_only=True)")
        lines.append(f"class {name}:")
        lines.append(f'    """{self._docstring(schema)}"""\n')
        lines += list(self._fields(schema))
        return "\n".join(lines).rstrip("\n") + "\n"

    def _vectors(self, type_name: str) -> list[VectorColumn]:
        return [column for column in self._model.vectors if column.type_name == type_name]

    def _docstring(self, schema: ObjectSchema) -> str:
        count = len(schema.fields) + len(self._vectors(schema.name))
        fields = "one field" if count == 1 else f"{count} fields"
        found = f", found by {' and '.join(map(_quoted, schema.primary_key))}" if schema.primary_key else ""
        return f"A record of type {_quoted(schema.name)}: {fields}{found}."

    def _fields(self, schema: ObjectSchema) -> Iterator[str]:
        # Inside a class a field named `list` hides the type of that name.
        own = {field.name for field in schema.fields} | {column.field_name for column in self._vectors(schema.name)}
        prefix = "builtins." if own & {*_PLAIN.values(), "tuple", "frozenset", "dict", "list"} else ""
        key = {path.removesuffix("!").split(".")[0] for path in schema.primary_key or ()}
        for field in schema.fields:
            if not _is_writable(field.name):
                yield f"    # The field {_quoted(field.name)} has a name that Python cannot write."
                continue
            hint = self._hint(schema.name, field, prefix)
            if hint is None:
                wanted = _quoted(str(field.referenced))
                yield f"    # The field {_quoted(field.name)} leads to a type that no annotation has: {wanted}."
                continue
            yield f"    {field.name}: {hint}" if field.name in key else f"    {field.name}: {hint} | None = None"
            yield f'    """{self._field_docstring(field)}"""\n'
        for column in self._vectors(schema.name):
            if not _is_writable(column.field_name):
                yield f"    # The vector {_quoted(column.field_name)} has a name that Python cannot write."
                continue
            hint = f"{prefix}list[{prefix}float]"
            yield f"    {column.field_name}: Annotated[{hint}, marks.Vector({column.dimensions})] | None = None"
            yield f'    """A vector of {column.dimensions} numbers, beside the record."""\n'

    def _field_docstring(self, field: Field) -> str:
        if field.type is not FieldType.REFERENCE:
            return f"{field.type.value}, in the record."
        return f"A reference to {_quoted(str(field.referenced))}."

    def _hint(self, type_name: str, field: Field, prefix: str) -> str | None:
        if field.type is FieldType.REFERENCE:
            return self._referenced(str(field.referenced), prefix, boxed=True)
        logical = self._model.logical.get(type_name, {}).get(field.name) or natural(field.type)
        marks = ["marks.Inline"] if field.type is FieldType.STRING else []
        return self._scalar(logical, marks, prefix)

    def _scalar(self, logical: LogicalType, marks: list[str], prefix: str) -> str:
        form = logical.format
        base = _PLAIN.get(form)
        if form in _ALIASES:
            base = f"marks.{_ALIASES[form]}"
        elif base is not None:
            base = prefix + base
        else:
            base = prefix + _python_of(form) if "." not in _python_of(form) else _python_of(form)
            marks = [f"marks.Logical({_literal(form)})", *marks]
        if logical.wide:
            marks = [*marks, "marks.Wide"]
        return f"Annotated[{base}, {', '.join(marks)}]" if marks else base

    def _referenced(
        self, type_name: str, prefix: str, *, boxed: bool = False, above: tuple[str, ...] = ()
    ) -> str | None:
        """The annotation of a reference; None if there is none: a missing type, or collections that hold themselves.

        `boxed` says that the reference itself has to be told of a value, `above` names the collections around it.
        """
        if type_name in above:
            return None
        within = (*above, type_name)
        only = self._model.boxed_field(type_name)
        if only is not None:
            logical = self._model.logical.get(type_name, {}).get(only.name) or natural(only.type)
            if type_name != boxed_name(logical):
                return self._scalar(logical, [f"marks.TypeName({_literal(type_name)})"], prefix)
            is_text = logical.format == "u" and not logical.wide
            return self._scalar(logical, ["marks.Boxed"] if boxed and not is_text else [], prefix)
        schema = self._model.schemas.get(type_name)
        match schema:
            case ObjectSchema():
                return self._class_names[type_name]
            case ListSchema(element=element):
                inner = self._referenced(element, prefix, above=within)
                usual, form, key = f"ListOf{element}", f"{prefix}tuple[{inner}, ...]", None
            case SetSchema(element=element):
                inner = self._referenced(element, prefix, above=within)
                usual, form, key = f"SetOf{element}", f"{prefix}frozenset[{inner}]", self._hash_mark(schema, element)
            case MapSchema(key=key_type, value=value_type):
                inner = self._referenced(key_type, prefix, above=within)
                value = self._referenced(value_type, prefix, above=within)
                inner = None if value is None else inner
                usual = f"MapOf{key_type}To{value_type}"
                form, key = f"{prefix}dict[{inner}, {value}]", self._hash_mark(schema, key_type)
            case None:
                return None
        if inner is None:
            return None
        marks = [key] if key else []
        if type_name != usual:
            marks.append(f"marks.TypeName({_literal(type_name)})")
        return f"Annotated[{form}, {', '.join(marks)}]" if marks else form

    def _hash_mark(self, schema: SetSchema | MapSchema, element: str) -> str | None:
        """The hash key, if it is not the one that such a collection takes anyway."""
        inner = self._model.schemas.get(element)
        usual: tuple[str, ...] | None = None
        if isinstance(inner, ObjectSchema):
            usual = inner.primary_key
            if usual is None and len(inner.fields) == 1 and inner.fields[0].type is not FieldType.REFERENCE:
                usual = (inner.fields[0].name,)
        if schema.hash_key == usual:
            return None
        return f"marks.HashKey({', '.join(map(_literal, schema.hash_key or ()))})"


def _python_of(form: str) -> str:
    """The Python type of the values of an Arrow format."""
    match form[:2]:
        case "ts":
            return "datetime.datetime"
        case "td":
            return "datetime.date"
        case "tt":
            return "datetime.time"
        case "tD":
            return "datetime.timedelta"
        case "d:":
            return "decimal.Decimal"
        case "U" | "vu":
            return "str"
    return "bytes"


def _identifier(name: str) -> str:
    """A name that Python can write, the name itself if it can."""
    made = re.sub(r"\W", "_", name.encode("ascii", "replace").decode())
    return made if made.isidentifier() and not keyword.iskeyword(made) else f"T_{made}"


def _is_writable(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and not name.startswith("__")


def _quoted(name: str) -> str:
    """A name for a docstring or a comment, whatever is in it."""
    return re.sub(r"[^\w .:/!-]", "?", name.encode("utf-8", "replace").decode())


def _literal(text: str) -> str:
    """A Python literal in double quotes."""
    inner = repr(text)[1:-1].replace('"', '\\"') if "'" not in text else repr(text + '"')[1:-2].replace('"', '\\"')
    return f'"{inner}"'

"""The text form of schemas: what schema files hold and what the schema hash is taken of (hollow-blob.md, section 3).

    Movie @PrimaryKey(id) {
        long id;
        String title;
    }

    SetOfMovie Set<Movie> @HashKey(id);

    MapOfStringToMovie Map<String,Movie> @HashKey(value);

White space only separates; `//` to the end of the line and `/* … */` are comments. Lower-case `int long boolean float
double string bytes` are inline fields, any other word refers to the type of that name.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from deltaic.errors import SchemaError
from deltaic.schema.printing import print_schema, type_text
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema

__all__ = ["parse_schemas", "print_schema", "print_schemas", "type_text"]

_INLINE = {member.value.lower(): member for member in FieldType if member is not FieldType.REFERENCE}
_TOKEN = re.compile(r"(?P<space>\s+|//[^\n]*|/\*.*?\*/)|(?P<sign>[{}<>(),;@])|(?P<word>[^\s{}<>(),;@/]+)", re.DOTALL)


def print_schemas(schemas: SchemaSet) -> str:
    """The content of a schema file: every type in order, a blank line between, a newline at the end."""
    return f"{schemas}\n" if len(schemas) else ""


def parse_schemas(text: str, name: str = "<text>") -> SchemaSet:
    """The types that a text declares, in order.

    Args:
        text: the text form of any number of types.
        name: what the text is called in errors: `name:line:column: …`.

    Raises:
        SchemaError: the text is not in this form, or declares a type or a field twice.
    """
    return SchemaSet(_Parser(text, name).schemas())


class _Token(NamedTuple):
    text: str
    offset: int
    is_word: bool


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._tokens = self._tokenize()
        self._next = next(self._tokens)

    def schemas(self) -> Iterator[Schema]:
        declared: set[str] = set()
        while self._next.text:
            at = self._next
            schema = self._schema()
            if schema.name in declared:
                self._fail(f"type {schema.name} is declared twice", at)
            declared.add(schema.name)
            yield schema

    def _schema(self) -> Schema:
        name = self._word("a type name")
        if not self._next.is_word:
            return self._object(name)
        at = self._next
        kind = self._word("'{'")
        if kind not in ("List", "Set", "Map"):
            self._fail(
                f"expected '{{', '@PrimaryKey', 'List', 'Set' or 'Map' after type name {name}, found {kind!r}", at
            )
        self._sign("<", f"after {kind!r} of type {name}")
        element = self._word(f"the {'key' if kind == 'Map' else 'element'} type of {name}")
        if kind == "Map":
            self._sign(",", f"after the key type of {name}")
            value = self._word(f"the value type of {name}")
        self._sign(">", f"after the types of {name}")
        key = None if kind == "List" else self._key("HashKey")
        self._sign(";", f"after type {name}")
        if kind == "List":
            return ListSchema(name, element)
        return SetSchema(name, element, key) if kind == "Set" else MapSchema(name, element, value, key)

    def _object(self, name: str) -> ObjectSchema:
        primary_key = self._key("PrimaryKey")
        self._sign("{", f"after type name {name}")
        fields: dict[str, Field] = {}
        while self._next.text != "}":
            type_name = self._word(f"a field type or '}}' in type {name}")
            at = self._next
            field_name = self._word(f"a field name after {type_name!r} in type {name}")
            if field_name in fields:
                self._fail(f"field {field_name!r} is declared twice in type {name}", at)
            inline = _INLINE.get(type_name)
            fields[field_name] = (
                Field(field_name, inline) if inline else Field(field_name, FieldType.REFERENCE, type_name)
            )
            self._sign(";", f"after field {field_name} of type {name}")
        self._sign("}", f"at the end of type {name}")
        return ObjectSchema(name, tuple(fields.values()), primary_key)

    def _key(self, annotation: str) -> tuple[str, ...] | None:
        if self._next.text != "@":
            return None
        self._sign("@", "")
        at = self._next
        if self._word(f"{annotation!r} after '@'") != annotation:
            self._fail(f"expected {annotation!r} after '@', found {at.text!r}", at)
        self._sign("(", f"after '@{annotation}'")
        paths = []
        while self._next.text != ")":
            paths.append(self._word(f"a field path in '@{annotation}'"))
            if self._next.text != ")":
                self._sign(",", f"or ')' after path {paths[-1]!r} in '@{annotation}'")
        self._sign(")", f"at the end of '@{annotation}'")
        return tuple(paths) or None

    def _word(self, expected: str) -> str:
        token = self._next
        if not token.is_word:
            self._fail(f"expected {expected}, found {_shown(token)}", token)
        self._next = next(self._tokens)
        return token.text

    def _sign(self, sign: str, where: str) -> None:
        token = self._next
        if token.text != sign:
            self._fail(f"expected {sign!r} {where}, found {_shown(token)}", token)
        self._next = next(self._tokens)

    def _tokenize(self) -> Iterator[_Token]:
        position, text = 0, self._text
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                reason = "comment without end" if text.startswith("/*", position) else "unexpected '/'"
                self._fail(reason, _Token("/", position, False))
            if match.lastgroup != "space":
                yield _Token(match.group(), position, match.lastgroup == "word")
            position = match.end()
        while True:
            yield _Token("", len(text), False)

    def _fail(self, reason: str, token: _Token) -> NoReturn:
        line = self._text.count("\n", 0, token.offset) + 1
        column = token.offset - self._text.rfind("\n", 0, token.offset)
        raise SchemaError(f"{self._name}:{line}:{column}: {reason}")


def _shown(token: _Token) -> str:
    return repr(token.text) if token.text else "the end of the text"

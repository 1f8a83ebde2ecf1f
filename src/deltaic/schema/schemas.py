"""A set of schemas: the types of a dataset, in an order that matters.

The order is the engine's: it decides the order of type sections in a blob. Names are unique. A reference may name a
type that is not in the set (types of an optional part, types that a filter left out); `validated` refuses that.
"""

import heapq
from collections.abc import Iterable, Iterator
from typing import Self

from deltaic.errors import NotFoundError, SchemaError
from deltaic.schema.hashing import string_hash
from deltaic.schema.paths import resolve_path
from deltaic.schema.printing import print_schema
from deltaic.schema.types import MapSchema, ObjectSchema, Schema, SetSchema


class SchemaSet:
    """An immutable, ordered mapping from type name to schema. Iteration gives the schemas, `in` asks for a name."""

    __slots__ = ("_by_name",)

    def __init__(self, schemas: Iterable[Schema] = ()) -> None:
        by_name: dict[str, Schema] = {}
        for schema in schemas:
            if schema.name in by_name:
                raise SchemaError(f"type {schema.name} is declared twice")
            by_name[schema.name] = schema
        self._by_name = by_name

    @property
    def names(self) -> tuple[str, ...]:
        """The type names in order."""
        return tuple(self._by_name)

    def __getitem__(self, name: str) -> Schema:
        try:
            return self._by_name[name]
        except KeyError:
            raise NotFoundError(f"there is no type {name!r}; types: {_shortened(self.names)}") from None

    def get(self, name: str) -> Schema | None:
        """The schema of a type, or None."""
        return self._by_name.get(name)

    def object_schema(self, name: str) -> ObjectSchema:
        """The schema of an OBJECT type."""
        schema = self[name]
        if not isinstance(schema, ObjectSchema):
            raise SchemaError(f"type {name} is a {schema.kind}, not an OBJECT")
        return schema

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Schema]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def __eq__(self, other: object) -> bool:
        """True if the other set holds equal schemas in the same order."""
        if not isinstance(other, SchemaSet):
            return NotImplemented
        return tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"SchemaSet({', '.join(self.names)})"

    def __str__(self) -> str:
        """The text form of every type, in order, with a blank line between."""
        return "\n\n".join(print_schema(schema) for schema in self)

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[Schema, ...]]]:
        return type(self), (tuple(self),)

    def with_schema(self, schema: Schema) -> "SchemaSet":
        """This set with a type added at the end, or replaced in its place."""
        return SchemaSet({**self._by_name, schema.name: schema}.values())

    def without(self, names: Iterable[str]) -> "SchemaSet":
        """This set without the named types."""
        left_out = frozenset(names)
        return SchemaSet(schema for schema in self if schema.name not in left_out)

    def unresolved(self) -> tuple[str, ...]:
        """Types that are referred to and not in the set, by name."""
        referenced = {name for schema in self for name in schema.references()}
        return tuple(sorted(referenced - self._by_name.keys(), key=java_order))

    def validated(self, *, partial: bool = False) -> Self:
        """The set itself, if every reference names a type of it, fields are unique and every key can be followed.

        Args:
            partial: references may lead to types outside the set, as in a delta or an optional part. Keys that lead
                through such types are not followed.
        """
        if not partial:
            for schema in self:
                for referenced in schema.references():
                    if referenced not in self._by_name:
                        raise SchemaError(f"type {schema.name} refers to {referenced!r}, which is not declared")
        for schema in self:
            if isinstance(schema, ObjectSchema):
                _check_fields(schema)
            if not partial or not self.closure([schema.name]).unresolved():
                self._check_keys(schema)
        return self

    def dependency_order(self) -> "SchemaSet":
        """The same types, a referenced type before the types that refer to it (hollow-blob.md, "traps", 9).

        Repeatedly the first type by name all of whose referenced types are placed; members of cycles, and what refers
        to them, at the end by name. References to types that are not in the set do not count.
        """
        waiting = {schema.name: set(schema.references()) & self._by_name.keys() for schema in self}
        users: dict[str, list[str]] = {name: [] for name in waiting}
        for name, needs in waiting.items():
            for need in needs:
                users[need].append(name)
        ready = [(java_order(name), name) for name, needs in waiting.items() if not needs]
        heapq.heapify(ready)
        order = []
        while ready:
            _, name = heapq.heappop(ready)
            order.append(name)
            for user in users[name]:
                waiting[user].discard(name)
                if not waiting[user]:
                    heapq.heappush(ready, (java_order(user), user))
        order += sorted((name for name, needs in waiting.items() if needs), key=java_order)
        return SchemaSet(self._by_name[name] for name in order)

    def closure(self, names: Iterable[str]) -> "SchemaSet":
        """The named types and all they refer to, directly or not, in this set's order."""
        reached: set[str] = set()
        stack = [self[name].name for name in names]
        while stack:
            name = stack.pop()
            if name in reached or name not in self._by_name:
                continue
            reached.add(name)
            stack.extend(self._by_name[name].references())
        return SchemaSet(schema for schema in self if schema.name in reached)

    def hash(self) -> str:
        """The schema hash as the header tag `hollow.schema.hash` carries it. The order of types does not matter."""
        ordered = sorted(self, key=lambda schema: java_order(schema.name))
        return str(string_hash("".join(print_schema(schema) for schema in ordered)))

    def _check_keys(self, schema: Schema) -> None:
        match schema:
            case ObjectSchema(name=name, primary_key=paths):
                start, what = name, "primary key"
            case SetSchema(element=start, hash_key=paths):
                what = "hash key"
            case MapSchema(key=start, hash_key=paths):
                what = "hash key"
            case _:
                return
        if paths == ORDINAL_HASH_KEY:
            return
        for path in paths or ():
            try:
                resolve_path(self, start, path)
            except SchemaError as error:
                raise SchemaError(f"{what} of type {schema.name}: {error}") from error


ORDINAL_HASH_KEY = ("0rdinal",)
"""What Java's object mapper writes for an empty hash key annotation: elements are placed by their ordinal."""


def java_order(name: str) -> bytes:
    """A sort key that orders names as Java does: by UTF-16 unit, not by code point."""
    return name.encode("utf-16-be", "surrogatepass")


def _check_fields(schema: ObjectSchema) -> None:
    seen: set[str] = set()
    for field in schema.fields:
        if field.name in seen:
            raise SchemaError(f"type {schema.name} declares field {field.name!r} twice")
        seen.add(field.name)


def _shortened(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:20])
    return f"{shown}, … ({len(names)} in all)" if len(names) > 20 else shown or "none"

"""The columns of a table as a query sees them: type, kind, and whether the index or the rows answer for them."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from deltaic.table.split.mapping import (
    DocMapping,
    IndexedColumn,
    element_type,
    is_list,
    is_string,
    kind_of,
)
from deltaic.table.split.vectors import is_vector

ValueKind = Literal[
    "text", "string", "integer", "float", "decimal", "date", "timestamp", "time", "duration", "boolean", "binary", "ip",
    "json", "none",
]  # fmt: skip
"""What the values of a column are to a query. `json` is a JSON text, whose leaves have the types that they have."""

_NAMES = {
    "text": "text", "string": "text that is compared whole", "integer": "a whole number", "float": "a number",
    "decimal": "a decimal number", "date": "a date", "timestamp": "a time", "time": "a time of day",
    "duration": "a duration", "boolean": "true or false", "binary": "bytes", "ip": "an IP address",
    "json": "JSON", "none": "of a type that cannot be searched",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class SearchColumn:
    """One column of the table."""

    name: str
    type: pa.DataType
    physical: str
    index: IndexedColumn | None = None
    """What the index has of it; None if it is answered from rows."""
    partition: bool = False
    vector: bool = False
    """Whether it is a vector: as a whole it is there or null, and its numbers one by one mean nothing."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a clause looks at: a column, or a path within a nested one."""

    column: SearchColumn
    kind: ValueKind
    type: pa.DataType
    """Of one value: without the lists and maps around it."""
    path: tuple[str, ...] = ()
    many: bool = False
    """Whether a row may have several values."""

    @property
    def name(self) -> str:
        """The name as a query writes it."""
        return ".".join((self.column.name, *self.path))

    @property
    def described(self) -> str:
        """For errors: the column and what it holds."""
        return f"column {self.name!r} is {_NAMES[self.kind]}"

    @property
    def tokenizer(self) -> str | None:
        """The tokenizer, where the index has words and not whole values."""
        index = self.column.index
        if index is None or not index.indexed or self.kind not in ("text", "json"):
            return None
        return index.tokenizer if index.tokenizer != "raw" else None


class UnknownColumn(LookupError):
    """There is no such column; holds a sentence that says so and suggests another."""


@dataclass(frozen=True)
class SearchColumns:
    """Every column that a query may name."""

    columns: Mapping[str, SearchColumn]
    default: tuple[str, ...] = ()
    """The columns in which a word without a field is looked for; if none are given, those that hold text."""
    _found: dict[str, Target] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        mapping: DocMapping,
        *,
        physical: Mapping[str, str] | None = None,
        partition_columns: Iterable[str] = (),
        default: Iterable[str] = (),
    ) -> "SearchColumns":
        """The columns of a logical schema; the mapping has physical names."""
        physical, partitions = physical or {}, frozenset(partition_columns)
        columns = {}
        for one in schema:
            stored = physical.get(one.name, one.name)
            index = None if one.name in partitions else mapping.by_name.get(stored)
            if index is not None and index.kind == "none":
                index = None
            columns[one.name] = SearchColumn(one.name, one.type, stored, index, one.name in partitions, is_vector(one))
        made = cls(columns)
        return cls(columns, tuple(default) or made._holding_text())

    def target(self, name: str) -> Target:
        """What a name in a query means.

        Raises:
            UnknownColumn: nothing.
        """
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._look_up(name)
        return found

    def _look_up(self, name: str) -> Target:
        if name in self.columns:
            return _whole(self.columns[name])
        # The longest column that is a prefix, so that a column's own name may have dots.
        parts = name.split(".")
        for count in range(len(parts) - 1, 0, -1):
            column = self.columns.get(".".join(parts[:count]))
            if column is not None:
                return _within(column, tuple(parts[count:]))
        raise UnknownColumn(f"there is no column {name!r}{_suggestion(name, self.columns)}")

    def _holding_text(self) -> tuple[str, ...]:
        for kind in ("text", "string"):
            names = tuple(name for name, column in self.columns.items() if _whole(column).kind == kind)
            if names:
                return names
        return ()


def _suggestion(name: str, known: Iterable[str]) -> str:
    listed = list(known)
    close = difflib.get_close_matches(name[:200], listed, 1, 0.6)
    folded = [one for one in listed if one.lower() == name.lower()]
    if folded or close:
        return f"; did you mean {(folded or close)[0]!r}?"
    return f"; there are {', '.join(listed[:20])}{', …' if len(listed) > 20 else ''}" if listed else ""


def _whole(column: SearchColumn) -> Target:
    whole = element_type(column.type)
    many = is_list(whole)
    value = element_type(whole.value_type) if many else whole
    return Target(column, _kind(value, column.index), value, (), many)


def _kind(value: pa.DataType, index: IndexedColumn | None) -> ValueKind:
    if is_string(value):
        if index is not None and index.kind in ("ip", "json"):
            return "ip" if index.kind == "ip" else "json"
        return "text" if index is not None and index.kind == "text" and index.indexed else "string"
    if pa.types.is_time(value):
        return "time"
    if pa.types.is_duration(value):
        return "duration"
    kind = kind_of(value)
    if kind == "unsigned":
        return "integer"
    return "none" if kind == "json" else kind


def _within(column: SearchColumn, path: tuple[str, ...]) -> Target:
    """The leaf of a nested column."""
    kind, many, here, walked = column.type, False, 0, column.name
    kind = element_type(kind)
    if _is_json_text(kind, column.index):
        return Target(column, "json", kind, path, True)
    steps: list[str] = []
    while True:
        kind = element_type(kind)
        if is_list(kind):
            kind, many = kind.value_type, True
            continue
        if here == len(path):
            break
        if pa.types.is_struct(kind):
            names = [kind.field(place).name for place in range(kind.num_fields)]
            # A field's own name may have dots.
            for count in range(len(path), here, -1):
                step = ".".join(path[here:count])
                if step in names:
                    break
            else:
                raise UnknownColumn(f"{walked!r} has no field {path[here]!r}{_suggestion(path[here], names)}")
            kind, here = kind.field(names.index(step)).type, count
        elif pa.types.is_map(kind):
            step, kind, here = path[here], kind.item_type, here + 1
        else:
            raise UnknownColumn(f"{walked!r} is {kind} and has nothing inside")
        steps.append(step)
        walked = f"{walked}.{step}"
    leaf = _kind(kind, None)
    if column.index is not None and column.index.indexed and leaf == "string" and column.index.tokenizer != "raw":
        leaf = "text"
    return Target(column, leaf, kind, tuple(steps), many)


def _is_json_text(kind: pa.DataType, index: IndexedColumn | None) -> bool:
    if is_list(kind):
        kind = element_type(kind.value_type)
    return is_string(kind) and index is not None and index.kind == "json"

"""What rows must be like: columns that are never null, and checks. A row that is not is refused by column, row, value.

A check is a predicate; as in SQL, a row for which nobody knows (a null) passes. Checks are kept by the physical names
of columns, so that a rename does not touch them.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.errors import InputError
from deltaic.table.predicate import Predicate, columns_in, parse_predicate
from deltaic.table.rows.conform import refused
from deltaic.table.rows.matching import as_predicate, predicate_text, renamed, truth
from deltaic.table.rows.schema import TableSchema


class Checks:
    """The constraints of a table, ready to be asked."""

    def __init__(self, schema: TableSchema, *, time_zone: str | None = None) -> None:
        self._schema, self._time_zone = schema, time_zone
        self.predicates = named_checks(schema)

    def __call__(self, rows: Any, *, first_row: int = 0) -> None:
        """Refuse rows of which one is not what it must be."""
        for column in self._schema.columns:
            _check_nulls(rows.column(column.name), column.field, column.name, first_row)
        for name in self._schema.key:
            _check_nulls(rows.column(name), self._schema.by_name[name].field.with_nullable(False), name, first_row)
        for name, predicate in self.predicates.items():
            failed = pc.fill_null(pc.invert(truth(predicate, rows, time_zone=self._time_zone)), False)
            place = pc.index(failed, True).as_py()
            if place >= 0:
                about = sorted(columns_in(predicate))[0]
                value = rows.column(about)[place].as_py()
                raise refused(about, first_row + place, value, f"the constraint {name} is {predicate_text(predicate)}")


def named_checks(schema: TableSchema) -> dict[str, Predicate]:
    """The checks of a table by name, over the names that people use."""
    names = {column.physical: column.name for column in schema.columns}
    found = {}
    for name, text in schema.constraints.items():
        predicate = parse_predicate(text)
        missing = columns_in(predicate) - set(names)
        if missing:
            raise InputError(f"the constraint {name} is about {sorted(missing)[0]!r}, which the table has not")
        found[name] = renamed(predicate, names.__getitem__)
    return found


def kept_check(name: str, check: Predicate | str, schema: TableSchema) -> str:
    """A check as the configuration keeps it."""
    predicate = as_predicate(check)
    assert predicate is not None
    if not name or not name.isprintable():
        raise InputError(f"{name!r} cannot be the name of a constraint")
    for column in columns_in(predicate):
        schema.column(column)
    truth(predicate, schema.arrow.empty_table())
    return predicate_text(renamed(predicate, schema.physical.__getitem__))


def kept_checks(checks: Mapping[str, Predicate | str], schema: TableSchema) -> dict[str, str]:
    """Checks by name as the configuration keeps them."""
    return {name: kept_check(name, check, schema) for name, check in checks.items()}


def _check_nulls(values: Any, field: Any, path: str, first_row: int) -> None:
    """Refuse nulls where none may be, also inside of structs, lists and maps."""
    if not field.nullable and values.null_count:
        place = pc.index(pc.is_null(values), True).as_py()
        raise refused(path, first_row + place, None, "the column is never null")
    if not _has_strict(field.type):
        return
    chunks = values.chunks if isinstance(values, pa.ChunkedArray) else [values]
    first = first_row
    for chunk in chunks:
        _check_inside(chunk, field.type, path, first)
        first += len(chunk)


def _check_inside(values: Any, kind: Any, path: str, first_row: int) -> None:
    if pa.types.is_struct(kind):
        present = values.filter(pc.is_valid(values)) if values.null_count else values
        for place in range(kind.num_fields):
            child = kind.field(place)
            _check_nulls(present.field(place), child, f"{path}.{child.name}", first_row)
    elif pa.types.is_map(kind):
        whole = values.filter(pc.is_valid(values)) if values.null_count else values
        entries = whole.items[whole.offsets[0].as_py() : whole.offsets[-1].as_py()] if len(whole) else None
        if entries is not None:
            _check_nulls(entries, kind.item_field, f"{path}.value", first_row)
    elif pa.types.is_nested(kind):
        _check_nulls(values.flatten(), kind.value_field, f"{path}[]", first_row)


def _has_strict(kind: Any) -> bool:
    """Whether something inside of a type is never null."""
    kinds = pa.types
    if kinds.is_struct(kind):
        fields = [kind.field(place) for place in range(kind.num_fields)]
    elif kinds.is_map(kind):
        fields = [kind.item_field]
    elif kinds.is_nested(kind) and not kinds.is_dictionary(kind):
        fields = [kind.value_field]
    else:
        return False
    return any(not field.nullable or _has_strict(field.type) for field in fields)

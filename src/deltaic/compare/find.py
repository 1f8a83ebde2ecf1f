"""Find a value anywhere: in which types and fields it stands, and which root records lead there.

found = find(state, "Solaris")
found.matches                     # String.value: 1 record
found.roots()                     # {"Movie": ...}: the records that refer to it, over however many steps
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.digest import number_bits
from deltaic.compare.keys import value_column
from deltaic.compare.links import root_types
from deltaic.compare.traverse import add_parents
from deltaic.errors import InputError, NotFoundError
from deltaic.schema.types import Field, FieldType, ObjectSchema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.columns import BytesColumn, Column, FixedColumn
from deltaic.state.read import ReadState

How = Literal["equal", "prefix", "contains"]


@dataclass(frozen=True, slots=True, eq=False)
class FieldMatch:
    """Records of one type whose field holds the value."""

    type_name: str
    field_name: str
    records: OrdinalSet


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """Where a value stands."""

    state: ReadState
    matches: tuple[FieldMatch, ...]

    def __bool__(self) -> bool:
        return bool(self.matches)

    def records(self) -> dict[str, OrdinalSet]:
        """The records that hold the value themselves, by type."""
        found: dict[str, OrdinalSet] = {}
        for match in self.matches:
            found[match.type_name] = found.get(match.type_name, EMPTY).union(match.records)
        return found

    def roots(self, types: Iterable[str] | None = None) -> dict[str, OrdinalSet]:
        """The root records that hold the value or lead to it, by type.

        Args:
            types: what counts as root; by default types with a primary key, and types that no other refers to.
        """
        names = root_types(data.schema for data in self.state.types.values()) if types is None else tuple(types)
        above = add_parents(self.state, self.records())
        return {name: above[name] for name in names if name in above}


def find(
    state: ReadState,
    value: Any,
    *,
    types: Iterable[str] | None = None,
    field: str | None = None,
    how: How = "equal",
) -> Found:
    """Look for a value in every field of every type.

    Args:
        state: where to look.
        value: a number, a truth value, bytes, or a text; a text also finds the number, truth value or (in hex) bytes
            that it spells. None finds nulls.
        types: look in these only.
        field: look in fields of this name only.
        how: whether a text has to be equal, begin with the value, or contain it; texts and bytes only.
    """
    if how not in ("equal", "prefix", "contains"):
        raise InputError(f"how is 'equal', 'prefix' or 'contains', not {how!r}")
    names = tuple(state.types) if types is None else tuple(types)
    matches = []
    for name in names:
        schema = state[name].schema
        if not isinstance(schema, ObjectSchema):
            continue
        for one in schema.fields:
            if field is None or one.name == field:
                hit = _search(state, name, one, value, how)
                if hit:
                    matches.append(FieldMatch(name, one.name, hit))
    if field is not None and not any(_has_field(state, name, field) for name in names):
        raise NotFoundError(f"no type of {', '.join(names) or 'none'} has a field {field!r}")
    return Found(state, tuple(matches))


def _has_field(state: ReadState, name: str, field: str) -> bool:
    schema = state[name].schema
    return isinstance(schema, ObjectSchema) and schema.position(field) >= 0


def _search(state: ReadState, type_name: str, field: Field, value: Any, how: How) -> OrdinalSet:
    if value is not None and field.type is FieldType.REFERENCE:
        return EMPTY
    wanted: Column | None = None
    if value is not None:
        if not _can_hold(field.type, value, how):
            return EMPTY
        try:
            wanted = value_column(field.type, value, f"{type_name}.{field.name}")
        except InputError:
            return EMPTY
    column = state[type_name].column(field.name)
    if wanted is None:
        hit = np.zeros(len(column), np.bool_) if column.valid is None else ~column.valid
    elif isinstance(column, BytesColumn):
        assert isinstance(wanted, BytesColumn)
        hit = _search_bytes(column, wanted.data.tobytes(), how)
    else:
        assert isinstance(column, FixedColumn) and isinstance(wanted, FixedColumn)
        hit = number_bits(column.values) == number_bits(wanted.values)
    if wanted is not None and column.valid is not None:
        hit &= column.valid
    return OrdinalSet.from_ordinals(column.ordinals[hit])


def _can_hold(field_type: FieldType, value: Any, how: How) -> bool:
    """Whether it makes sense to look for a value in a field: a text is looked for as whatever it spells."""
    if field_type.is_variable:
        return isinstance(value, str) or (field_type is FieldType.BYTES and isinstance(value, bytes))
    if how != "equal":
        return False
    if field_type is FieldType.BOOLEAN:
        return isinstance(value, bool | str)
    return not isinstance(value, bool | bytes)


def _search_bytes(column: BytesColumn, wanted: bytes, how: How) -> NDArray[np.bool_]:
    lengths = np.diff(column.offsets)
    if how == "contains":
        return _containing(column, wanted)
    hit: NDArray[np.bool_] = lengths == len(wanted) if how == "equal" else lengths >= len(wanted)
    # Byte by byte over what is left: nearly everything goes with the first few.
    rows = np.flatnonzero(hit)
    for place, byte in enumerate(wanted):
        rows = rows[column.data[column.offsets[rows] + place] == byte]
        if not len(rows):
            break
    found = np.zeros(len(hit), np.bool_)
    found[rows] = True
    return found


def _containing(column: BytesColumn, wanted: bytes) -> NDArray[np.bool_]:
    found = np.zeros(len(column), np.bool_)
    if not wanted:
        found[:] = True
        return found
    whole = column.data.tobytes()
    place = whole.find(wanted)
    while place >= 0:
        row = int(np.searchsorted(column.offsets, place, side="right")) - 1
        end = int(column.offsets[row + 1])
        if place + len(wanted) <= end:
            found[row] = True
            # One hit is enough for a row: go on behind it.
            place = whole.find(wanted, end)
        else:
            place = whole.find(wanted, place + 1)
    return found

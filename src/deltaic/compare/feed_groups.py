"""What a step changed, in columns: groups of places, each with one operation and one path.

A group says of many records the same kind of thing: field `cast[].name` was set, entry `ratings{}` went, the record
came. Its columns are the keys, one column of selectors for each placeholder of the path, the values after and, if they
were asked for, before. Rows of all groups of a step stand for different places, so that their order means nothing.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from deltaic.binary.arrow import ArrowColumn, ArrowField, ArrowTable, struct_column
from deltaic.compare.feed_values import Indices, Keys, Places, Selectors, Values, joined_selectors, joined_values
from deltaic.compare.keys import KeyColumn
from deltaic.wire.patches.patch import ABSENT, MISSING, Operation


@dataclass(frozen=True, slots=True, eq=False)
class ChangeGroup:
    """Changes of one kind at one path."""

    type_name: str
    operation: Operation
    path: str
    """From the record: `cast[].name`; empty for the record itself."""
    keys: Keys | None
    """None for a type without a primary key: records are told apart by all they hold."""
    selectors: tuple[Selectors, ...]
    """One for each placeholder of the path."""
    after: Values | None
    before: Values | None
    """None if there was nothing, or it was not asked for."""
    count: int
    with_before: bool
    """Whether values before were asked for."""

    def __len__(self) -> int:
        return self.count

    def take(self, places: Places) -> "ChangeGroup":
        """Some of the rows."""
        return replace(
            self,
            keys=None if self.keys is None else self.keys.take(places),
            selectors=tuple(column.take(places) for column in self.selectors),
            after=None if self.after is None else self.after.take(places),
            before=None if self.before is None else self.before.take(places),
            count=len(places),
        )

    def rows(self) -> Iterator[tuple[Any, tuple[Any, ...], Any, Any]]:
        """Key, selectors, value after and value before of each row."""
        keys: Iterable[Any] = [None] * self.count if self.keys is None else self.keys.to_pylist()
        chosen: Iterable[Any] = [()] * self.count
        if self.selectors:
            chosen = zip(*(column.to_pylist() for column in self.selectors), strict=True)
        after = [None] * self.count if self.after is None else self.after.to_pylist()
        yield from zip(keys, chosen, after, self.previous(), strict=True)

    def previous(self) -> list[Any]:
        """The values before, one for each row; MISSING if they were not asked for, ABSENT where there was no place."""
        if not self.with_before:
            return [MISSING] * self.count
        if self.before is not None:
            return self.before.to_pylist()
        return [ABSENT if self.operation is Operation.PUT or self.path.endswith("{}") else None] * self.count

    def to_arrow(self) -> ArrowTable:
        """The rows with the types of the model: a column for each path of the key, `selector_0` and so on for the
        placeholders of the path, `after`, and `before` if it was asked for.
        """
        columns: list[ArrowColumn] = []
        for key in () if self.keys is None else self.keys.columns():
            columns.append(_key_column(key))
        for place, selector in enumerate(self.selectors):
            columns.append(selector.arrow_column(f"selector_{place}"))
        for name, values in (("after", self.after), ("before", self.before)):
            if values is not None and (name == "after" or self.with_before):
                columns.append(values.arrow_column(name))
        whole = struct_column("", tuple(columns), self.count)
        return ArrowTable(whole.field, self.count, lambda: iter((whole,)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    @property
    def place(self) -> str:
        """For people: the type and the path."""
        return f"{self.type_name}.{self.path}" if self.path else self.type_name


@dataclass(frozen=True, slots=True)
class StepChanges:
    """What one step changed."""

    groups: tuple[ChangeGroup, ...]
    notes: tuple[str, ...] = ()
    """What cannot be told by changes of records: fields and types that the model lost, keys that are not unique."""

    def __len__(self) -> int:
        return sum(group.count for group in self.groups)


@dataclass(slots=True)
class Gathering:
    """Gathers pieces of groups; what has one path and one operation becomes one group.

    Args:
        type_name: the type of the records.
        keys: of the compared records, by the number of the pair.
        with_before: whether values before are wanted.
    """

    type_name: str
    keys: Keys | None
    with_before: bool
    _pieces: dict[tuple[Any, ...], list["_Piece"]] = field(default_factory=dict)

    def add(
        self,
        operation: Operation,
        path: str,
        pairs: Places,
        selectors: tuple[Selectors, ...],
        after: Values | None,
        before: Values | None,
        *,
        always: bool = False,
    ) -> None:
        """One more piece; without rows it is nothing. `always` keeps the values before though nobody asked."""
        if not len(pairs):
            return
        piece = _Piece(pairs, selectors, after, before if self.with_before or always else None)
        kinds = tuple(isinstance(column, Indices) for column in selectors)
        shape = (operation, path, kinds, _kind(piece.after), _kind(piece.before))
        self._pieces.setdefault(shape, []).append(piece)

    def groups(self) -> Iterator[ChangeGroup]:
        """The groups, in the order in which their first pieces came."""
        for (operation, path, *_), pieces in self._pieces.items():
            for piece in _merged(pieces):
                keys = None if self.keys is None else self.keys.take(piece.pairs)
                yield ChangeGroup(
                    self.type_name,
                    operation,
                    path,
                    keys,
                    piece.selectors,
                    piece.after,
                    piece.before,
                    len(piece.pairs),
                    self.with_before,
                )


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    pairs: Places
    selectors: tuple[Selectors, ...]
    after: Values | None
    before: Values | None


def _key_column(key: KeyColumn) -> ArrowColumn:
    name = str(key.path)
    if key.column is None:
        return ArrowColumn(ArrowField(name, "n"), key.count)
    found = key.column.arrow_column()
    if len(key.rows) < key.count:
        places = np.zeros(key.count, np.int64)
        places[key.rows] = np.arange(len(key.rows))
        there = np.zeros(key.count, np.bool_)
        there[key.rows] = True
        found = found.take(places)
        found = replace(found, valid=there if found.valid is None else there & found.valid)
    return replace(found, field=replace(found.field, name=name))


def _kind(values: Values | None) -> tuple[Any, ...]:
    if values is None:
        return ()
    return (type(values).__name__, getattr(values, "type_name", ""), getattr(values, "field_name", ""))


def _merged(pieces: list[_Piece]) -> list[_Piece]:
    if len(pieces) == 1:
        return pieces
    pairs = np.concatenate([piece.pairs for piece in pieces])
    sides: list[Values | None] = []
    for values in ([piece.after for piece in pieces], [piece.before for piece in pieces]):
        given = [each for each in values if each is not None]
        whole = joined_values(given) if given else None
        if whole is None and given:
            return pieces
        sides.append(whole)
    # In the order of the records, so that what is told of one record stands together.
    order = np.argsort(pairs, kind="stable")
    selectors = tuple(
        joined_selectors([piece.selectors[place] for piece in pieces]).take(order)
        for place in range(len(pieces[0].selectors))
    )
    after, before = (None if side is None else side.take(order) for side in sides)
    return [_Piece(pairs[order], selectors, after, before)]

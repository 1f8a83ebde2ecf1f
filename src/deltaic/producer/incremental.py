"""Incremental: only what changed is given, by primary key.

    with producer.incremental() as changes:
        changes.add_or_modify(movie)          # objects, dicts, Arrow, DataFrames
        changes.delete(Movie, 7)

Inside a batch the last change of a key wins. Records are found by key in the version before; a record that is replaced
or deleted goes, and with it everything it referred to that nobody else refers to. A record that others still refer to
stays, as in Hollow: a reference never leads nowhere.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import NotFoundError
from deltaic.producer.keys import KeyMap
from deltaic.producer.populate import Population
from deltaic.producer.references import Counts, ReferenceCounts, change_counts, references
from deltaic.producer.sources import DictRows, ObjectRows, RowSource, row_sources
from deltaic.schema.model import Model
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState

if TYPE_CHECKING:
    from deltaic.producer.report import Cycle

Ordinals = NDArray[np.int64]

_UNTOUCHED, _DELETED = -2, -1


class _Kind(Enum):
    ADD = "add or modify"
    ADD_IF_ABSENT = "add if absent"
    DELETE = "delete"
    DISCARD = "discard"


@dataclass(slots=True)
class _Change:
    kind: _Kind
    type_name: str
    rows: RowSource | None = None
    keys: list[Any] | None = None


class ChangeBatch:
    """Changes by key, in the order in which they were made."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.changes: list[_Change] = []
        self.cycle: Cycle | None = None
        """The report, once the batch was published."""

    def add_or_modify(self, data: Any, type_name: str | None = None) -> None:
        """Put these records in place of those with the same keys."""
        self._add(_Kind.ADD, data, type_name)

    def add_if_absent(self, data: Any, type_name: str | None = None) -> None:
        """Add those of these records whose key is not there."""
        self._add(_Kind.ADD_IF_ABSENT, data, type_name)

    def delete(self, of: type | str, key: Any) -> None:
        """Remove the record with this key, a tuple if the key has several fields; nothing happens if there is none."""
        self._by_key(_Kind.DELETE, of, (key,))

    def delete_many(self, of: type | str, keys: Iterable[Any]) -> None:
        """Remove the records with these keys."""
        self._by_key(_Kind.DELETE, of, keys)

    def discard(self, of: type | str, key: Any) -> None:
        """Forget what this batch did to a key so far."""
        self._by_key(_Kind.DISCARD, of, (key,))

    def _add(self, kind: _Kind, data: Any, type_name: str | None) -> None:
        for source in row_sources(data, self._model, type_name):
            last = self.changes[-1] if self.changes else None
            if last is not None and last.kind is kind and last.type_name == source.type_name:
                # Single objects and dicts gather in one source, so that a loop of calls is read by column too.
                match last.rows, source:
                    case ObjectRows(objects=list() as held), ObjectRows(objects=new):
                        held.extend(new)
                        continue
                    case DictRows(rows=list() as held), DictRows(rows=new):
                        held.extend(new)
                        continue
            match source:
                case ObjectRows(objects=new):
                    source = ObjectRows(source.type_name, list(new))
                case DictRows(rows=new):
                    source = DictRows(source.type_name, list(new))
                case _:
                    source = source.twice_readable()
            self.changes.append(_Change(kind, source.type_name, rows=source))

    def _by_key(self, kind: _Kind, of: type | str, keys: Iterable[Any]) -> None:
        name = self._type_name(of)
        given = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
        last = self.changes[-1] if self.changes else None
        if last is not None and last.kind is kind and last.type_name == name and last.keys is not None:
            last.keys.extend(given)
        else:
            self.changes.append(_Change(kind, name, keys=given))

    def _type_name(self, of: type | str) -> str:
        if isinstance(of, str):
            if of not in self._model.schemas:
                raise NotFoundError(f"there is no type {of!r}; types: {', '.join(self._model.schemas.names)}")
            return of
        for name, known in self._model.classes.items():
            if known is of:
                return name
        raise NotFoundError(f"{of.__name__} is no class of the model")


class ChangeIndex:
    """What a producer keeps between incremental cycles: records by key, and how often each is referred to."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._keys: dict[str, KeyMap] = {}
        self._references = ReferenceCounts()

    def advance(self, state: ReadState) -> None:
        """Follow to a version that was announced, however it was made; what was never asked for stays unread."""
        for keys in self._keys.values():
            keys.advance(state)
        if self._references.in_use:
            self._references.advance(state)

    def keys(self, type_name: str, previous: ReadState | None) -> KeyMap:
        """The records of a type by key, as the version before has them."""
        found = self._keys.setdefault(type_name, KeyMap(self._model, type_name))
        if previous is not None:
            found.advance(previous)
        return found

    def populate(self, cycle: Population, batch: ChangeBatch) -> None:
        """Build the version from the one before and a batch."""
        previous = cycle.previous
        wanted = _Wanted()
        for type_name in dict.fromkeys(change.type_name for change in batch.changes):
            self._decide(type_name, [each for each in batch.changes if each.type_name == type_name], previous, wanted)
        # Only the winners are added, and nothing is kept yet: what is populated now is exactly what they need.
        for source in wanted.sources:
            cycle.add_rows(source)
        cycle.finish()
        if previous is None:
            return
        state = cycle.write_state
        needed = {name: state.populated(name) for name in state.schemas.names}
        removed = self.released(previous, wanted.replaced, needed) if wanted.replaced else {}
        state.keep_all_from_previous()
        for name, gone in removed.items():
            if name in state.schemas:
                state.remove(name, gone.ordinals())

    def removed_by(self, previous: ReadState, rows: Mapping[str, Iterable[RowSource]]) -> dict[str, OrdinalSet]:
        """The records of a version that go when those with the keys of these rows are replaced or deleted.

        What a new row has in common with them goes too: adding the row brings it back under its ordinal.
        """
        replaced = {}
        for type_name, sources in rows.items():
            keys = self.keys(type_name, previous)
            numbers = [keys.numbers.of_rows(source) for source in sources]
            touched = np.zeros(len(keys.numbers), np.bool_)
            for found in numbers:
                touched[found] = True
            old, _ = keys.records(touched)
            if len(old):
                replaced[type_name] = OrdinalSet.from_ordinals(old)
        return self.released(previous, replaced, {}) if replaced else {}

    def _decide(self, type_name: str, changes: list[_Change], previous: ReadState | None, wanted: "_Wanted") -> None:
        """Which rows of a type win, and which records of the version before they replace."""
        keys = self.keys(type_name, previous)
        numbers = [
            keys.numbers.of_rows(change.rows) if change.rows is not None else keys.numbers.of_values(change.keys or ())
            for change in changes
        ]
        count = len(keys.numbers)
        present = np.zeros(count, np.bool_)
        touched = np.zeros(count, np.bool_)
        for found in numbers:
            touched[found] = True
        old, old_numbers = keys.records(touched) if previous is not None else (_NO_ORDINALS, _NO_ORDINALS)
        present[old_numbers] = True
        # Per key: the row that wins, counted over all changes; or that it is deleted, or untouched.
        winner = np.full(count, _UNTOUCHED, np.int64)
        first_row = 0
        for change, found in zip(changes, numbers, strict=True):
            rows = np.arange(first_row, first_row + len(found))
            match change.kind:
                case _Kind.ADD:
                    winner[found] = rows
                case _Kind.ADD_IF_ABSENT:
                    absent = (winner[found] == _DELETED) | ((winner[found] == _UNTOUCHED) & ~present[found])
                    # Of several rows with one key the first is the one that was absent.
                    winner[found[absent][::-1]] = rows[absent][::-1]
                case _Kind.DELETE:
                    winner[found] = _DELETED
                case _Kind.DISCARD:
                    winner[found] = _UNTOUCHED
            first_row += len(found)
        replaced = old[winner[old_numbers] != _UNTOUCHED]
        if len(replaced):
            wanted.replaced[type_name] = OrdinalSet.from_ordinals(replaced)
        first_row = 0
        for change, found in zip(changes, numbers, strict=True):
            if change.rows is not None:
                won = np.flatnonzero(winner[found] == np.arange(first_row, first_row + len(found)))
                if len(won) == len(found):
                    wanted.sources.append(change.rows)
                elif len(won):
                    wanted.sources.append(change.rows.picked(won))
            first_row += len(found)

    def released(
        self, previous: ReadState, replaced: dict[str, OrdinalSet], needed: dict[str, OrdinalSet]
    ) -> dict[str, OrdinalSet]:
        """The records that go: replaced ones, and what only they referred to; none that is needed or referred to."""
        self._references.advance(previous)
        counts = self._references.copy()
        roots = set(self._model.roots)
        removed: dict[str, OrdinalSet] = {}
        waiting = dict(replaced)
        held = dict(replaced)
        # Referring types first; types that refer to each other may need several rounds.
        order = [schema.name for schema in reversed(tuple(previous.schemas.dependency_order()))]
        while waiting:
            name = min(waiting, key=order.index)
            candidates = (
                waiting.pop(name).difference(removed.get(name, _NOTHING)).difference(needed.get(name, _NOTHING))
            )
            ordinals = candidates.intersection(previous.types[name].populated).ordinals()
            going = ordinals[_count(counts, name, ordinals) == 0]
            if not len(going):
                continue
            removed[name] = removed.get(name, _NOTHING).union(OrdinalSet.from_ordinals(going))
            for target, found in references(previous, name, going):
                change_counts(counts, target, found, -1)
                freed = OrdinalSet.from_ordinals(np.unique(found).astype(np.int64))
                if target in roots:
                    # Records of a root type were added for themselves; only a change of their own removes them.
                    freed = freed.intersection(held.get(target, _NOTHING))
                if freed:
                    waiting[target] = waiting.get(target, _NOTHING).union(freed)
        return removed


class _Wanted:
    """What a batch comes to: the rows to add, and the records whose keys were changed or deleted."""

    def __init__(self) -> None:
        self.sources: list[RowSource] = []
        self.replaced: dict[str, OrdinalSet] = {}


_NOTHING = OrdinalSet(np.zeros(0, np.uint64))
_NO_ORDINALS: NDArray[np.int64] = np.zeros(0, np.int64)


def _count(counts: Counts, name: str, ordinals: Ordinals) -> NDArray[np.int32]:
    held = counts.get(name)
    found = np.zeros(len(ordinals), np.int32)
    if held is not None:
        inside = ordinals < len(held)
        found[inside] = held[ordinals[inside]]
    return found

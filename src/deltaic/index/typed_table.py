"""A table whose records are objects of the user's own class."""

from collections.abc import Iterator, Mapping
from typing import Any, Generic, TypeVar

from deltaic.index.tables import RecordTable, TypeTable
from deltaic.state.typed import Typed

T = TypeVar("T")


class TypedTable(Generic[T]):
    """The records of a type as objects of one class: `[key]`, `get`, `where`, iteration over the objects.

    Args:
        table: the records.
        typed: makes the objects.
    """

    def __init__(self, table: RecordTable, typed: Typed[T]) -> None:
        self.table, self.typed = table, typed

    def __getitem__(self, key: object) -> T:
        return self.typed(self._keyed()[key])

    def get(self, key: object, default: T | None = None) -> T | None:
        """The object with a key, or `default`."""
        record = self._keyed().get(key)
        return default if record is None else self.typed(record)

    def __contains__(self, key: object) -> bool:
        return key in self._keyed()

    def __len__(self) -> int:
        return len(self.table)

    def __iter__(self) -> Iterator[T]:
        return map(self.typed, self.table.records())

    def where(self, paths: Mapping[str, Any] | None = None, /, **fields: Any) -> list[T]:
        """The objects that meet all conditions, as `RecordTable.where` has them."""
        return self.typed.all(self.table.where(paths, **fields))

    def __repr__(self) -> str:
        return f"TypedTable({self.typed.cls.__qualname__}, {len(self):,} records)"

    def _keyed(self) -> TypeTable:
        if not isinstance(self.table, TypeTable):
            from deltaic.errors import InputError

            raise InputError(f"type {self.table.name} has no primary key; use where(…)", "NoKey")
        return self.table

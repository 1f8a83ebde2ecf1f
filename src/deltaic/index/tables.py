"""The records of a type as people ask for them: by key, by condition, some of them, all of them as a table.

`table[key]` is as fast as the index itself: the look-up is the kernel's own.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import ArrowTable
from deltaic.errors import InputError, MissingExtraError
from deltaic.index.conditions import conditions
from deltaic.index.index_set import IndexSet
from deltaic.index.plan import Plan, make_plan, run_plan
from deltaic.index.primary import PrimaryKeyIndex
from deltaic.kernels import keys
from deltaic.state.view import TypeView

if TYPE_CHECKING:
    import pandas
    import polars

Ordinals = NDArray[np.int64]
_BATCH = 8_192


class Selection:
    """Some records of a type, in rising order of their ordinals."""

    def __init__(self, view: TypeView, ordinals: Ordinals, plan: Plan | None = None) -> None:
        self.view = view
        self.ordinals = ordinals
        """The ordinals of the records."""
        self.plan = plan
        """How they were found."""

    def __len__(self) -> int:
        return len(self.ordinals)

    def __iter__(self) -> Iterator[Any]:
        return map(self.view.__getitem__, self.ordinals.tolist())

    def __getitem__(self, place: int) -> Any:
        return self.view[int(self.ordinals[place])]

    def __repr__(self) -> str:
        return f"Selection({len(self):,} of {len(self.view):,} {self.view.name})"

    def to_arrow(self, **options: Any) -> ArrowTable:
        """The records as Arrow rows; options as for `TypeView.to_arrow`."""
        return self.view.to_arrow(ordinals=self.ordinals, **options)

    def to_pandas(self, **options: Any) -> "pandas.DataFrame":
        """The records as a pandas frame; options as for `TypeView.to_arrow`."""
        return as_pandas(self.to_arrow(**options))

    def to_polars(self, **options: Any) -> "polars.DataFrame":
        """The records as a polars frame; options as for `TypeView.to_arrow`."""
        return as_polars(self.to_arrow(**options))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)


class RecordTable:
    """The records of a type, with or without a key."""

    _own: IndexSet
    view: TypeView
    """The type in the state: columns, ordinals, Arrow."""

    @property
    def _indexes(self) -> IndexSet:
        return self._own

    @property
    def name(self) -> str:
        """The name of the type."""
        return self.view.name

    def __len__(self) -> int:
        return len(self.view)

    def where(self, paths: Mapping[str, Any] | None = None, /, **fields: Any) -> Selection:
        """The records that meet all conditions.

        Args:
            paths: conditions by dotted path: `{"cast.element.id": 7}`.
            fields: conditions by field; `cast__element__id=7` is the same.

        A condition is a value, a list of values, None for null, `between(low, high)` or `starts_with(text)`. Through a
        collection one member is enough, for each condition anew. An index that fits is used; `explain` says which.
        """
        plan = self.explain(paths, **fields)
        return Selection(self.view, run_plan(self._indexes.state, plan), plan)

    def explain(self, paths: Mapping[str, Any] | None = None, /, **fields: Any) -> Plan:
        """How `where` would go about it: `print(table.explain(year=1999))`."""
        state = self._indexes.state
        asked = conditions(state, self.name, paths, fields)
        indexes = self._indexes
        key_paths = indexes.primary_key(self.name) or ()
        return make_plan(state, self.name, asked, indexes.indexes(), key_paths, lambda: indexes.key(self.name))

    def sample(self, count: int, seed: int | None = None) -> list[Any]:
        """Some records by chance, no record twice; all of them if there are fewer."""
        ordinals = self.view.populated.ordinals()
        chosen = np.random.default_rng(seed).choice(ordinals, min(count, len(ordinals)), replace=False)
        return [self.view[ordinal] for ordinal in chosen.tolist()]

    def head(self, count: int = 5) -> list[Any]:
        """The first records by ordinal."""
        return [self.view[ordinal] for ordinal in self.view.populated.ordinals()[: max(count, 0)].tolist()]

    def records(self) -> Iterator[Any]:
        """All records in rising order of their ordinals."""
        return iter(self.view)

    def to_arrow(self, **options: Any) -> ArrowTable:
        """The records as Arrow rows; options as for `TypeView.to_arrow`."""
        return self.view.to_arrow(**options)

    def to_pandas(self, **options: Any) -> "pandas.DataFrame":
        """The records as a pandas frame; options as for `TypeView.to_arrow`."""
        return as_pandas(self.to_arrow(**options))

    def to_polars(self, **options: Any) -> "polars.DataFrame":
        """The records as a polars frame; options as for `TypeView.to_arrow`."""
        return as_polars(self.to_arrow(**options))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.view.__arrow_c_stream__(requested_schema)


class KeylessTable(RecordTable):
    """The records of a type that has no primary key; iteration gives records."""

    def __init__(self, indexes: IndexSet, type_name: str) -> None:
        self._own, self.view = indexes, indexes.state[type_name]

    def __iter__(self) -> Iterator[Any]:
        return self.records()

    def __getitem__(self, key: object) -> Any:
        raise self._no_key()

    def get(self, key: object, default: Any = None) -> Any:
        """There is nothing to look up by: InputError."""
        raise self._no_key()

    def __contains__(self, key: object) -> bool:
        raise self._no_key()

    def find(self, keys: Any) -> Ordinals:
        """There is nothing to look up by: InputError."""
        raise self._no_key()

    def values(self) -> Iterator[Any]:
        """The records, in rising order of their ordinals."""
        return self.records()

    def _no_key(self) -> InputError:
        return InputError(f"type {self.name} has no primary key; use where(…), or view[ordinal]", "NoKey")

    def __repr__(self) -> str:
        return f"KeylessTable({self.name}, {len(self):,} records)"


class TypeTable(keys.KeyFinder, RecordTable):
    """The records of a type by primary key, as a mapping: `table[key]`, `table.get(key)`, `key in table`.

    It is no `collections.abc.Mapping` by name: polars and others would take such a one for columns, and not for the
    Arrow rows that it gives.

    The index is made on the first look-up. Iteration gives the keys; a record with a null in its key has none, and one
    whose key an earlier record has too gives it once more.
    """

    def __init__(self, indexes: IndexSet, type_name: str) -> None:
        self._own, self.view = indexes, indexes.state[type_name]
        self._is_made = False

    def _prepare(self) -> None:
        with self._indexes.making:
            if not self._is_made:
                keys.KeyFinder.__init__(self, *self.index._finder())
                self._is_made = True

    @property
    def index(self) -> PrimaryKeyIndex:
        """The index by primary key."""
        return self._indexes.key(self.name)

    def __iter__(self) -> Iterator[Any]:
        index = self.index
        missing = set(index.nulls().tolist())
        ordinals = self.view.populated.ordinals()
        for start in range(0, len(ordinals), _BATCH):
            part = ordinals[start : start + _BATCH]
            for ordinal, key in zip(part.tolist(), index.keys_of(part), strict=True):
                if ordinal not in missing:
                    yield key

    def keys(self) -> Iterator[Any]:
        """The keys, in rising order of their records' ordinals."""
        return iter(self)

    def values(self) -> Iterator[Any]:
        """The records, in rising order of their ordinals."""
        return self.records()

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Keys and records, in rising order of ordinals."""
        return ((key, self[key]) for key in self)

    def find(self, keys: Any) -> Ordinals:
        """The ordinals of the records with these keys, -1 where there is none; as `PrimaryKeyIndex.find`."""
        return self.index.find(keys)

    def __repr__(self) -> str:
        return (
            f"TypeTable({self.name}, {len(self):,} records by {', '.join(self._indexes.primary_key(self.name) or ())})"
        )


def as_pandas(rows: ArrowTable) -> "pandas.DataFrame":
    """Arrow rows as a pandas frame."""
    try:
        import pandas
    except ImportError:
        raise MissingExtraError("to_pandas", "spark") from None
    frame: pandas.DataFrame = rows.to_pyarrow().to_pandas()
    return frame


def as_polars(rows: ArrowTable) -> "polars.DataFrame":
    """Arrow rows as a polars frame."""
    try:
        import polars
    except ImportError:
        raise InputError("to_polars needs polars: pip install polars") from None
    return polars.DataFrame(rows)

"""Text search from a consumer: hits in the table's own splits at exactly the version of the loaded state.

A state that was made from a table says of which version (`deltaic.table.version`). The search runs there, so a hit is a
row that the state has as a record, whatever was committed since; the record is found by its primary key.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from deltaic.errors import DecodeError, InputError, NotFoundError
from deltaic.index.catalog import Lookup
from deltaic.index.tables import TypeTable
from deltaic.schema.mapping import TYPES_TAG, from_python
from deltaic.schema.model import Model
from deltaic.state.read import ReadState
from deltaic.storage.announcement import Announcements

if TYPE_CHECKING:
    from deltaic.consumer.refresher import Settings
    from deltaic.table.rows.table import Table
    from deltaic.table.search.result import SearchExplain

ORDINAL_COLUMN = "_ordinal"
"""In the index that a chain carries itself: which record a row is."""

TABLE_VERSION_TAG = "deltaic.table.version"
"""Header tag of a blob: the version of the table that it holds the rows of."""


def text_name(version: int, type_name: str) -> str:
    """What the index of a type is called that a chain carries itself."""
    return f"text-{version}-{type_name}.split"


def table_version_of(header_tags: Mapping[str, str]) -> int | None:
    """The table version of which a state holds the rows, by its header tags; None if it was not made from a table."""
    text = header_tags.get(TABLE_VERSION_TAG, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


@dataclass(frozen=True, slots=True)
class Hit:
    """A record that was found."""

    score: float
    record: Any
    snippets: Mapping[str, str]
    """Column → the best part of its text, as HTML with the found words in bold; where they were asked for."""
    ordinal: int = -1


@dataclass(frozen=True, slots=True)
class Hits(Sequence[Hit]):
    """What a search found, best first."""

    found: tuple[Hit, ...]
    total: int | None
    """How many records match in all: known if they are all here, or if `total=True` asked for it."""
    limited: bool
    """Whether there are more than `k` asked for."""
    table_version: int | None
    """The version of the table that was searched; None if the chain carries the index itself."""
    explain: "SearchExplain"

    def __len__(self) -> int:
        return len(self.found)

    @overload
    def __getitem__(self, place: int) -> Hit: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, place: int | slice) -> Hit | tuple[Hit, ...]:
        return self.found[place]

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.found)

    @property
    def records(self) -> tuple[Any, ...]:
        """The records alone."""
        return tuple(hit.record for hit in self.found)


def search_table(table: "Table", lookup: Lookup, type_name: str, query: Any, **options: Any) -> Hits:
    """Search the rows that a state was made from; gives its records.

    Raises:
        NotFoundError: the table has no such version any more, or the state was not made from a table.
        InputError: the type has no primary key that the table knows.
    """
    version = table_version_of(lookup.state.header_tags)
    if version is None:
        raise NotFoundError("the loaded version was not published from a table: there is nothing to search in")
    try:
        view = table.at(version=version)
    except NotFoundError as error:
        raise NotFoundError(
            f"version {version} of the table {table.url}, of which the loaded state is, is gone from its history"
        ) from error
    key = view.reader.schema.key
    records = lookup[type_name]
    if not key or not isinstance(records, TypeTable):
        raise InputError(f"type {type_name} has no primary key by which rows of the table could be found in memory")
    result = view.search(query, columns=list(key), **options)
    ordinals = _ordinals(lookup.state, records, {name: result.table.column(name) for name in key})
    if (missing := np.flatnonzero(ordinals < 0)).size:
        row = {name: result.table.column(name)[int(missing[0])].as_py() for name in key}
        raise DecodeError("TableDiffers", f"row {row} of table version {version} is not in the state", table.url)
    return Hits(_hits(result, records.view, ordinals), result.hits, result.limited, version, result.explain)


def _ordinals(state: ReadState, records: TypeTable, keys: Mapping[str, Any]) -> Any:
    """The records with these keys, which are in the table's types; the index knows Hollow's."""
    model = Model.from_schemas(state.schemas, state.header_tags.get(TYPES_TAG, ""))
    columns = []
    for name, column in keys.items():
        note = model.logical_of(records.name, name)
        values = column.to_pylist()
        columns.append(values if note is None else [from_python(value, note, name) for value in values])
    if not columns[0]:
        return np.zeros(0, np.int64)
    return np.asarray(records.find(columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))))


def _hits(result: Any, view: Any, ordinals: Any) -> tuple[Hit, ...]:
    from deltaic.table.search.result import SNIPPET_PREFIX

    texts = {
        name.removeprefix(SNIPPET_PREFIX): result.table.column(name).to_pylist()
        for name in result.table.column_names
        if name.startswith(SNIPPET_PREFIX)
    }
    return tuple(
        Hit(score, view[int(ordinal)], {name: values[place] for name, values in texts.items()}, int(ordinal))
        for place, (score, ordinal) in enumerate(zip(result.scores, ordinals, strict=True))
    )


def search_chain(
    settings: "Settings", version: int, lookup: Lookup, type_name: str, query: Any, **options: Any
) -> Hits:
    """Search the index that a version carries itself.

    Raises:
        NotFoundError: it carries none for this type.
    """
    from deltaic.table.search.searcher import Searcher
    from deltaic.table.search.splits import SearchedSplit
    from deltaic.table.split import SplitCache

    name = text_name(version, type_name)
    entry = Announcements(settings.store).entry_of(version)
    artifact = None if entry is None else entry.artifact(name)
    if artifact is None:
        raise NotFoundError(
            f"version {version} of {settings.store.url} has no text index of {type_name}: publish it from a table, or "
            "with Producer(text_index=…)"
        )
    cached = SplitCache().get(settings.store, name)
    records = lookup[type_name]
    result = Searcher([SearchedSplit(cached, {})], cached.rows.schema).search(
        query, columns=[ORDINAL_COLUMN], **options
    )
    ordinals = result.table.column(ORDINAL_COLUMN).to_numpy()
    populated = records.view.populated
    if len(ordinals) and (
        int(ordinals.min()) < 0 or not populated.flags(int(ordinals.max()) + 1)[ordinals.astype(np.int64)].all()
    ):
        raise DecodeError("TextDiffers", f"it has ordinals that {type_name} has not", f"{settings.store.url}/{name}")
    return Hits(_hits(result, records.view, ordinals), result.hits, result.limited, None, result.explain)

"""A version of a table as something to search: its splits in the cache of this host, with their partition values.

Scores count over every split that the clauses on partition columns leave, so statistics leave none out of a search by
score; counts and groups leave out what they can.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from deltaic.table.actions import AddFile
from deltaic.table.predicate import Predicate
from deltaic.table.rows.conform import filled
from deltaic.table.rows.matching import weakened
from deltaic.table.rows.partitioning import partition_values
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.types import stored_type
from deltaic.table.rows.writing import document_mapping

if TYPE_CHECKING:
    from deltaic.table.search.searcher import Searcher
    from deltaic.table.split import CachedSplit, SplitCache


@dataclass(frozen=True)
class Searched:
    """The files of a version that are searched, and the searcher over them."""

    adds: tuple[AddFile, ...]
    cached: "tuple[CachedSplit, ...]"
    searcher: "Searcher"


def searched(cache: "SplitCache", reader: RowReader, where: Predicate | None, *, ranked: bool) -> Searched:
    """A searcher over the splits that may hold rows for which a predicate is true.

    Args:
        cache: where splits are unpacked.
        reader: the version.
        where: what is true of the wanted rows.
        ranked: whether scores matter: then only partitions leave splits out.
    """
    return opened(cache, reader, searched_files(reader, where, ranked=ranked))


def searched_files(reader: RowReader, where: Predicate | None, *, ranked: bool) -> tuple[AddFile, ...]:
    """The splits that a search is about."""
    if ranked and where is not None:
        where = weakened(where, lambda name: name in reader.schema.partition_by)
    return tuple(reader.files_of(where))


def opened(cache: "SplitCache", reader: RowReader, adds: tuple[AddFile, ...]) -> Searched:
    """A searcher over some splits of a version."""
    from deltaic.table.search.searcher import Searcher
    from deltaic.table.search.splits import SearchedSplit

    schema = reader.schema
    splits, unpacked = [], []
    for add in adds:
        store, key = reader.files.locate(add.path)
        cached = cache.get(store, key, add)
        unpacked.append(cached)
        values = partition_values(add, schema, schema.partition_by)
        splits.append(SearchedSplit(_with_defaults(cached, reader), values))
    arrow = pa.schema([column.field.with_type(stored_type(column.type)) for column in schema.columns])
    searcher = Searcher(splits, arrow, physical=schema.physical, mapping=document_mapping(schema))
    return Searched(adds, tuple(unpacked), searcher)


def _with_defaults(cached: "CachedSplit", reader: RowReader) -> "CachedSplit":
    """A split with the columns that came after it and have a default."""
    rows = cached.rows
    for column in reader.schema.stored:
        if column.default is not None and rows.schema.get_field_index(column.physical) < 0:
            plain = replace(column, field=column.field.with_type(stored_type(column.type)))
            rows = rows.append_column(column.physical, filled(plain, rows.num_rows))
    return cached if rows is cached.rows else replace(cached, rows=rows)


def found_rows(searched: Searched, query: Any, where: Predicate | None) -> dict[str, Any]:
    """For each file the numbers of its rows that match, as `RowReader.read` counts them: hidden rows left out."""
    by_split = searched.searcher.row_numbers(query, where=where)
    found = {}
    for add, cached in zip(searched.adds, searched.cached, strict=True):
        numbers = by_split.get(cached.split_id)
        if numbers is None:
            continue
        if cached.dead is not None and len(cached.dead):
            numbers = numbers - np.searchsorted(cached.dead, numbers)
        found[add.path] = numbers
    return found

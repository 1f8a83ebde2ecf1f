"""The schema of a new companion: the columns of its source, those of the paths behind them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa

from deltaic.errors import InputError, SchemaError
from deltaic.table.companion.parquet import SourceReader, schema_of
from deltaic.table.companion.source import Listing
from deltaic.table.rows.schema import TableSchema, make_schema
from deltaic.table.rows.types import stored_type
from deltaic.table.rows.writing import document_mapping
from deltaic.table.split import ColumnIndex

Partitions = Mapping[str, Any] | Sequence[str]
"""Partition columns of a folder: names, or names with their Arrow types."""


def companion_schema(
    listing: Listing,
    source: SourceReader,
    names: Sequence[str],
    *,
    partitions: Partitions,
    columns: Sequence[str] | None,
    index: Mapping[str, ColumnIndex] | None,
    schema: pa.Schema | None,
) -> TableSchema:
    """The columns that a companion has, checked."""
    given = schema if schema is not None else listing.schema
    if given is None:
        if not listing.files:
            raise InputError("the source has no Parquet files: give a schema, or make the companion later")
        given = schema_of([source.facts(path) for path in listing.files])
    kinds = {one.name: stored_type(one.type) for one in given}
    for name in names:
        said = partitions.get(name) if isinstance(partitions, Mapping) else None
        if said is None:
            known = listing.schema is not None or schema is not None
            said = kinds.get(name) if known else None
        kinds[name] = said if said is not None else _inferred(one.partition.get(name) for one in listing.files.values())
    if columns is not None:
        missing = [name for name in columns if name not in kinds]
        if missing:
            raise InputError(f"the source has no column {missing[0]!r}; there are {', '.join(kinds)}", "NoColumn")
        kinds = {name: kinds[name] for name in dict.fromkeys((*columns, *names))}
    fields = [pa.field(name, kind) for name, kind in kinds.items() if not pa.types.is_null(kind)]
    if not fields:
        raise SchemaError("the source has no column with a type")
    chosen = {column: asdict(wanted) for column, wanted in (index or {}).items()}
    made = make_schema(fields, partition_by=names, index=chosen)
    document_mapping(made, by_type=True)
    return made


def _inferred(texts: Iterable[str | None]) -> pa.DataType:
    known = [text for text in texts if text is not None]
    whole = bool(known) and all(text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() for text in known)
    # "007" is no number: as one it would be written otherwise.
    return pa.int64() if whole and all(str(int(text)) == text and len(text) < 19 for text in known) else pa.string()

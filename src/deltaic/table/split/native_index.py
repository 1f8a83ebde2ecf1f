"""The index of a native split: fields that others know, beside those that we search by.

A column whose index field others could not read as its value (dates and timestamps as numbers, decimals, names that the
engine's syntax does not take) has two fields: a public one under its own name, stored, as the public implementation
would write it, and ours under `x_…`. Dates of a public field are cut to seconds in terms, to microseconds in fast
fields.
"""

import dataclasses
import datetime
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaic.errors import InputError
from deltaic.table.split.documents import column_values, documents_of_rows
from deltaic.table.split.engine import guarded_writer, new_index
from deltaic.table.split.mapping import (
    MAX_TERM_BYTES,
    PRESENT_FIELD,
    SPLIT_FIELD,
    DocMapping,
    IndexedColumn,
    hidden_name,
    index_fields,
)
from deltaic.table.split.native import documents_of, segment_parts
from deltaic.table.split.segment import check_segment_file, footer_version, read_meta, segment_footer

_SETTINGS = {"docstore_compression": "lz4", "docstore_blocksize": 16384}
_TWO_FIELDS = ("date", "timestamp", "decimal")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_UNIT_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_DAY_NANOSECONDS = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class _PublicField:
    """A stored field for others, and its values by row."""

    definition: dict[str, Any]
    values: list[Any]


def native_mapping(mapping: DocMapping) -> DocMapping:
    """The mapping of a native split: columns with two fields are searched by the hidden one."""
    return DocMapping(
        tuple(
            dataclasses.replace(column, field=hidden_name(column.name)) if column.kind in _TWO_FIELDS else column
            for column in mapping.columns
        )
    )


def build_native_index(rows: pa.Table, mapping: DocMapping, folder: Path, split_id: str, dictionary: Path) -> None:
    """Index rows into an empty folder with a native dictionary; the package's own goes to `dictionary`."""
    mapping = native_mapping(mapping)
    own = {column.field: column_values(column, rows.column(column.name)) for column in mapping.indexed_columns}
    public: dict[str, _PublicField] = {}
    for column in mapping.indexed_columns:
        field = _public_field(column, rows.column(column.name))
        if field is not None:
            public[column.name] = field
    fields = _native_fields(mapping, public)
    names = [field["name"] for field in fields]
    if len(set(names)) != len(names):
        twins = sorted({name for name in names if names.count(name) > 1})
        raise InputError(
            f"a native split cannot have columns named {', '.join(twins)}: they are names of hidden fields"
        )
    index = new_index(folder, fields, _SETTINGS)
    with guarded_writer(index, str(folder)) as writer:
        for document in documents_of_rows(
            rows, mapping, split_id, public=[_adding(field) for field in public.values()]
        ):
            writer.add_document(document)
    values = documents_of({**own, **{name: field.values for name, field in public.items()}})
    values[SPLIT_FIELD] = [(split_id,)] * rows.num_rows
    noted = [column for column in mapping.indexed_columns if column.presence == "term"]
    values[PRESENT_FIELD] = [
        [column.name for column in noted if own[column.field][row] is not None] for row in range(rows.num_rows)
    ]
    _replace_dictionary(folder, fields, values, rows.num_rows, dictionary)


def _replace_dictionary(
    folder: Path, fields: list[dict[str, Any]], values: dict[str, list[Sequence[Any]]], count: int, dictionary: Path
) -> None:
    meta = read_meta((folder / "meta.json").read_bytes(), str(folder))
    if not meta.segments:
        dictionary.write_bytes(b"")
        return
    segment = meta.segments[0]
    made = segment_parts(fields, values, count)
    if len(meta.segments) > 1:
        raise InputError("the rows are too many for one segment: write smaller splits")
    for suffix, body in ((".idx", made.idx), (".pos", made.pos), (".fieldnorm", made.fieldnorm)):
        theirs = check_segment_file((folder / segment.file(suffix)).read_bytes(), segment.file(suffix))
        if theirs != body:
            raise InputError(f"a value cannot be indexed natively: {suffix} would be another; write without `native`")
    path = folder / segment.file(".term")
    data = path.read_bytes()
    path.rename(dictionary)
    path.write_bytes(made.term + segment_footer(made.term, footer_version(data, path.name)))


def _native_fields(mapping: DocMapping, public: dict[str, _PublicField]) -> list[dict[str, Any]]:
    fields = index_fields(mapping)
    own = {column.field: column for column in mapping.indexed_columns}
    for field in fields:
        column = own.get(field["name"])
        if column is None or column.name in public:
            continue
        field["options"]["stored"] = True
        if field["type"] == "text" and column.kind == "string" and column.indexed:
            field["options"]["indexing"]["record"] = "position"
            field["options"]["fast"] = {"with_tokenizer": "raw"} if column.fast else False
    return [*fields, *(field.definition for field in public.values())]


def _public_field(column: IndexedColumn, values: pa.ChunkedArray) -> _PublicField | None:
    if column.kind == "string" and max((len(text.encode()) for text in _texts(values)), default=0) > MAX_TERM_BYTES:
        raise InputError(
            f"column {column.name!r} has a string over {MAX_TERM_BYTES:,} bytes: a native split takes none"
        )
    if column.field == column.name:
        return None
    options: dict[str, Any] = {"indexed": column.indexed, "fieldnorms": False, "fast": column.fast, "stored": True}
    if column.kind in ("date", "timestamp"):
        step = _DAY_NANOSECONDS if column.kind == "date" else _UNIT_NANOSECONDS[column.unit or "us"]
        options["precision"] = "microseconds"
        moments = [_moments(value, step, column.name) for value in column_values(column, values)]
        return _PublicField({"name": column.name, "type": "date", "options": options}, moments)
    if column.kind == "decimal":
        indexing = {"record": "position", "fieldnorms": False, "tokenizer": "raw"}
        options = {"indexing": indexing, "stored": True, "fast": {"with_tokenizer": "raw"}}
        texts = [_decimal_text(value) for value in values.to_pylist()]
        return _PublicField({"name": column.name, "type": "text", "options": options}, texts)
    # A name that the engine's syntax does not take: the same field once more, under the name that others look for.
    renamed = dataclasses.replace(column, field=column.name)
    definition = json.loads(json.dumps(index_fields(DocMapping((renamed,)))[0]))
    definition["options"]["stored"] = True
    return _PublicField(definition, column_values(column, values))


def _texts(values: pa.ChunkedArray) -> list[str]:
    found: list[str] = []
    for value in values.to_pylist():
        found.extend(one for one in (value if isinstance(value, list) else (value,)) if one is not None)
    return found


def _moments(value: Any, step: int, name: str) -> Any:
    if value is None:
        return None
    if isinstance(value, list):
        return [_moments(one, step, name) for one in value if one is not None]
    nanoseconds = value * step
    if not -(2**63) <= nanoseconds < 2**63 or nanoseconds % 1000:
        raise InputError(
            f"column {name!r}: a native split takes microseconds from 1677 to 2262, not {value} ({step} ns)"
        )
    return nanoseconds


def _decimal_text(value: Any) -> Any:
    if isinstance(value, list):
        return [_decimal_text(one) for one in value if one is not None]
    return None if value is None else f"{value:f}"


def _adding(field: _PublicField) -> tuple[str, str, list[Any]]:
    """Field name, type, and values as a document takes them."""
    kind = field.definition["type"]
    if kind != "date":
        return field.definition["name"], kind, field.values
    return field.definition["name"], kind, [_datetimes(value) for value in field.values]


def _datetimes(value: Any) -> Any:
    if isinstance(value, list):
        return [_datetimes(one) for one in value]
    return None if value is None else _EPOCH + datetime.timedelta(microseconds=value // 1000)

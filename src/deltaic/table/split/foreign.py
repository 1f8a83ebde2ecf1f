"""Splits of other writers: their rows from the document store, and a mapping to index them by.

Types are those of the index: text, 64-bit integers, doubles, booleans, instants (microseconds, or nanoseconds if a
value needs them), bytes; IP addresses and JSON come as text. A null is a value that is not stored. A field that has
several values in some document is a list column.
"""

import ipaddress
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaic.errors import DecodeError, LimitError
from deltaic.table.split import docstore
from deltaic.table.split.docstore import StoredBatch, Values, fixed_values, nested_value, read_store
from deltaic.table.split.mapping import ColumnIndex, DocMapping
from deltaic.table.split.segment import IndexMeta, Segment, check_segment_file, read_alive
from deltaic.table.split.tokenizers import tokenizer_names

_STORED_TYPES = {
    "text": docstore.TEXT,
    "i64": docstore.I64,
    "u64": docstore.U64,
    "f64": docstore.F64,
    "bool": docstore.BOOL,
    "date": docstore.DATE,
    "bytes": docstore.BYTES,
    "ip_addr": docstore.IP,
    "json_object": docstore.OBJECT,
}

MAX_CELLS = 1 << 28
"""Columns times rows of a foreign split: nulls take no bytes in the file, and some in memory."""

ReadMember = Callable[[str], bytes]


def stored_fields(meta: IndexMeta) -> dict[int, Mapping[str, Any]]:
    """The fields whose values are in the document store, by their number."""
    return {number: field for number, field in enumerate(meta.fields) if field.get("options", {}).get("stored")}


def foreign_mapping(meta: IndexMeta, schema: pa.Schema) -> DocMapping:
    """How to index the rows of a foreign split: as its own index says, as far as we have its tokenizers."""
    options: dict[str, ColumnIndex] = {}
    for field in stored_fields(meta).values():
        indexing = field["options"].get("indexing") or {}
        tokenizer = indexing.get("tokenizer")
        known = tokenizer if tokenizer in tokenizer_names() else "default"
        if field["type"] == "text" and tokenizer != "raw" and indexing:
            options[field["name"]] = ColumnIndex("text", tokenizer=known)
        elif field["type"] == "json_object":
            options[field["name"]] = ColumnIndex("json", tokenizer=known)
        elif field["type"] == "ip_addr":
            options[field["name"]] = ColumnIndex("ip")
    return DocMapping.from_schema(schema, options)


def read_foreign_rows(
    meta: IndexMeta, member: ReadMember, where: str, columns: Sequence[str] | None = None
) -> tuple[pa.Table, NDArray[np.bool_] | None]:
    """Every row by its number, and which of them are alive (None: all)."""
    fields = stored_fields(meta)
    if len({field["name"] for field in fields.values()}) != len(fields):
        raise DecodeError("BadIndex", "two fields have the same name", where)
    if columns is not None:
        fields = {number: field for number, field in fields.items() if field["name"] in columns}
    gathered = {number: _Column(field, where) for number, field in fields.items()}
    cells = len(fields) * sum(segment.max_doc for segment in meta.segments)
    if cells > MAX_CELLS:
        raise LimitError("TooLarge", f"{cells:,} values in one split, the limit is {MAX_CELLS:,}", where)
    total = 0
    for segment in meta.segments:
        body = check_segment_file(member(segment.file(".store")), f"{where}, {segment.id}.store")
        for batch in read_store(body, segment.max_doc, f"{where}, {segment.id}.store"):
            for values in batch.values:
                column = gathered.get(values.field)
                if column is not None:
                    column.take(batch, values, total + batch.first_document)
                elif values.field >= len(meta.fields):
                    raise DecodeError("BadStore", f"a stored value of field {values.field}, which is none", where)
        total += segment.max_doc
    arrays = {field["name"]: gathered[number].array(total) for number, field in fields.items()}
    names = list(arrays) if columns is None else list(columns)
    for name in names:
        if name not in arrays:
            raise DecodeError("MissingColumn", f"the split has no stored column {name!r}", where)
    if not names:
        # A table without columns has no rows either; the number must not be lost.
        table = pa.table({"_": pa.nulls(total)}).select([])
    else:
        table = pa.table({name: arrays[name] for name in names})
    return table, alive_rows(meta.segments, member, where)


def alive_rows(segments: Sequence[Segment], member: ReadMember, where: str) -> NDArray[np.bool_] | None:
    """Which rows no delete file hides; None if there is no delete file."""
    if all(segment.deletes is None for segment in segments):
        return None
    parts = []
    for segment in segments:
        name = segment.delete_file
        if name is None:
            parts.append(np.ones(segment.max_doc, np.bool_))
        else:
            parts.append(read_alive(member(name), segment, f"{where}, {name}"))
    return np.concatenate(parts)


class _Column:
    """The values of one field, gathered over the batches."""

    def __init__(self, field: Mapping[str, Any], where: str) -> None:
        self.name, self.kind, self.where = field["name"], field["type"], where
        self.rows: list[NDArray[np.int64]] = []
        self.pieces: list[pa.Array] = []
        if self.kind not in _STORED_TYPES:
            raise DecodeError("UnknownType", f"field {self.name[:80]!r} is of type {self.kind[:80]!r}", where)

    def take(self, batch: StoredBatch, values: Values, first_row: int) -> None:
        if values.type == docstore.NULL:
            return
        if values.type != _STORED_TYPES[self.kind]:
            raise DecodeError("BadStore", f"a value of type {values.type} in {self.name[:80]!r}", self.where)
        self.rows.append(values.documents + first_row)
        self.pieces.append(self._piece(batch, values))

    def array(self, total: int) -> pa.Array:
        kind = _ARROW_TYPES[self.kind]
        if not self.pieces:
            return pa.nulls(total, kind)
        values = pa.concat_arrays([piece.cast(kind) if piece.type != kind else piece for piece in self.pieces])
        if self.kind == "date":
            values = _instants(values)
        rows = np.concatenate(self.rows)
        # The values of one document come one per step, so that a stable sort keeps their order.
        order = np.argsort(rows, kind="stable")
        rows = rows[order]
        if len(rows) == 0 or (np.diff(rows) > 0).all():
            places = np.zeros(total, np.int64)
            missing = np.ones(total, np.bool_)
            places[rows] = order
            missing[rows] = False
            return values.take(pa.array(places, mask=missing))
        counts = np.bincount(rows, minlength=total)
        offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        mask = pa.array(counts == 0)
        return pa.LargeListArray.from_arrays(pa.array(offsets), values.take(pa.array(order)), mask=mask)

    def _piece(self, batch: StoredBatch, values: Values) -> pa.Array:
        match self.kind:
            case "text":
                return _texts(batch, values, self.where)
            case "bytes":
                return _cut(batch, values)
            case "u64":
                return pa.array(fixed_values(batch, values))
            case "i64" | "date":
                return pa.array(fixed_values(batch, values).view(np.int64))
            case "f64":
                return pa.array(docstore.float_of(fixed_values(batch, values)))
            case "bool":
                return pa.array(fixed_values(batch, values) != 0)
            case "ip_addr":
                return pa.array([_address(raw) for raw in _cut(batch, values).to_pylist()], pa.string())
        found = [
            nested_value(batch.data[: start + length], start, values.type, self.where)[0]
            for start, length in zip(values.starts.tolist(), values.lengths.tolist(), strict=True)
        ]
        return pa.array([json.dumps(_json(value), ensure_ascii=False) for value in found], pa.string())


_ARROW_TYPES = {
    "text": pa.string(),
    "i64": pa.int64(),
    "u64": pa.uint64(),
    "f64": pa.float64(),
    "bool": pa.bool_(),
    "date": pa.int64(),
    "bytes": pa.binary(),
    "ip_addr": pa.string(),
    "json_object": pa.string(),
}


def _cut(batch: StoredBatch, values: Values) -> pa.Array:
    """The bytes of values, cut out by Arrow: every second element of an array whose others are what lies between."""
    count = len(values.starts)
    offsets = np.empty(2 * count, np.int64)
    offsets[0::2] = values.starts
    offsets[1::2] = values.starts + values.lengths
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(batch.data)]
    pieces = pa.Array.from_buffers(pa.large_binary(), 2 * count - 1, buffers)
    return pieces.take(pa.array(np.arange(0, 2 * count, 2)))


def _texts(batch: StoredBatch, values: Values, where: str) -> pa.Array:
    try:
        return _cut(batch, values).cast(pa.large_string()).cast(pa.string())
    except pa.ArrowException as error:
        raise DecodeError("BadText", "a stored text is no UTF-8", where) from error


def _instants(nanoseconds: pa.Array) -> pa.Array:
    words = nanoseconds.to_numpy(zero_copy_only=False)
    if (words % 1000 == 0).all():
        return pa.array(words // 1000).cast(pa.timestamp("us", "UTC"))
    return nanoseconds.cast(pa.timestamp("ns", "UTC"))


def _address(raw: bytes) -> str:
    address = ipaddress.IPv6Address(int.from_bytes(raw, "little"))
    return str(address.ipv4_mapped or address)


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_json(one) for one in value]
    if isinstance(value, docstore.Moment):
        return f"{np.datetime64(int(value), 'ns')}".rstrip("0").rstrip(".") + "Z" if value % 10**9 else _seconds(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and value - value != 0:
        return None
    return value


def _seconds(nanoseconds: int) -> str:
    return f"{np.datetime64(nanoseconds // 10**9, 's')}Z"


def filtered(table: pa.Table, alive: NDArray[np.bool_] | None) -> pa.Table:
    """The rows that are alive."""
    return table if alive is None else table.filter(pc.cast(pa.array(alive), pa.bool_()))

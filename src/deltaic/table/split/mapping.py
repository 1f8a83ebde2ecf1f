"""The document mapping: which column becomes which field of the index, and how.

A column's Arrow type decides; a `ColumnIndex` says otherwise. Whatever the index cannot hold exactly is turned into
something that it can, in the same order, so that equality and ranges never lose a row:

    string            text field, the whole value as one term           kind "string"
    string            tokens, with positions                            kind "text"  (by option)
    string of JSON    JSON field                                        kind "json"  (by option)
    string            IP address                                        kind "ip"    (by option)
    int*, time, duration, date, timestamp   i64: the number, in the column's own unit (date: days)
    uint*             u64
    float*            f64, -0.0 as 0.0
    decimal           i64 of the unscaled number up to 18 digits, else text of fixed width that sorts as numbers do
    bool, binary      bool, bytes
    struct, map       JSON field; leaves as columns of their type
    list              several values of its element's kind

Hidden fields of every index of ours: `_row` (u64, fast) is the row's number in the rows of the split; `_split` is one
term, the split's id, in every document; `_present` has the name of each column that is not null and whose fast field
cannot tell (`IndexedColumn.presence`).
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pyarrow as pa

from deltaic.errors import DecodeError, InputError
from deltaic.table.split.tokenizers import check_tokenizer

if TYPE_CHECKING:
    import tantivy

Kind = Literal[
    "string", "text", "json", "ip", "integer", "unsigned", "float", "decimal", "date", "timestamp", "boolean", "binary",
    "none",
]  # fmt: skip
"""How a column is indexed."""

ROW_FIELD = "_row"
SPLIT_FIELD = "_split"
PRESENT_FIELD = "_present"
HIDDEN_FIELDS = (ROW_FIELD, SPLIT_FIELD, PRESENT_FIELD)

MAX_TERM_BYTES = 32_000
"""Longer strings are indexed by their beginning and a hash: the engine drops terms over 65,530 bytes silently."""

_PLAIN_NAME = re.compile(r"(?!x_[0-9a-f]*\Z)[A-Za-z][A-Za-z0-9_]{0,99}")
_FIELD_TYPES: dict[str, str] = {
    "string": "text", "text": "text", "json": "object", "ip": "ip", "integer": "i64", "unsigned": "u64", "float": "f64",
    "decimal": "i64", "date": "i64", "timestamp": "i64", "boolean": "bool", "binary": "bytes",
}  # fmt: skip
_META_TYPES = {"object": "json_object", "ip": "ip_addr", "datetime": "date"}
MAX_INTEGER_DIGITS = 18
"""The decimals whose unscaled number is indexed as a 64-bit integer."""


@dataclass(frozen=True, slots=True)
class ColumnIndex:
    """What a user wants of a column's index; None is what its type suggests."""

    kind: Kind | None = None
    tokenizer: str | None = None
    """Of `text` (default: `default`) and `json` (default: `raw`)."""
    indexed: bool = True
    """Whether values can be found by term; a column that is not can still be fast."""
    fast: bool | None = None
    """Whether values are kept by column, for ranges, sorting and aggregates; all kinds but `text` are by default."""
    stored: bool = False
    """Whether a native split repeats the value in the document store even if it need not; our own never do."""
    positions: bool = True
    """Whether `text` can be searched by phrase."""


@dataclass(frozen=True, slots=True)
class IndexedColumn:
    """A column as the index knows it."""

    name: str
    """The physical name of the column."""
    kind: Kind
    field: str
    """The name of its field in the index."""
    field_type: str
    """text, i64, u64, f64, bool, bytes, ip or object."""
    tokenizer: str | None = None
    indexed: bool = True
    fast: bool = True
    positions: bool = False
    many: bool = False
    """Whether a row may have several values."""
    scale: int = 0
    """Of decimals."""
    digits: int = 0
    """Of decimals."""
    unit: str | None = None
    """Of timestamps: s, ms, us, ns."""

    @property
    def presence(self) -> Literal["fast", "term"]:
        """How to find the rows where it is not null: by the fast field, or by its name as a term of `_present`."""
        return "fast" if self.fast and not self.many and self.kind not in ("text", "json") else "term"

    def to_members(self) -> dict[str, Any]:
        """Everything, as JSON members."""
        found = {name: getattr(self, name) for name in self.__slots__}
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True)
class DocMapping:
    """The columns of a split as its index knows them, in the order of the fields."""

    columns: tuple[IndexedColumn, ...]
    by_name: Mapping[str, IndexedColumn] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {column.name: column for column in self.columns})

    @classmethod
    def from_schema(
        cls,
        schema: pa.Schema,
        options: Mapping[str, ColumnIndex] | None = None,
        *,
        partition_columns: Sequence[str] = (),
    ) -> "DocMapping":
        """The mapping of a schema; partition columns are not in the splits."""
        options = options or {}
        if len(set(schema.names)) != len(schema.names):
            raise InputError("two columns have the same name")
        for name in options:
            if name not in schema.names:
                raise InputError(f"index options for {name!r}, which is no column; there are {', '.join(schema.names)}")
        default = ColumnIndex()
        return cls(
            tuple(
                _column(field_.name, field_.type, options.get(field_.name, default))
                for field_ in schema
                if field_.name not in partition_columns
            )
        )

    def __getitem__(self, name: str) -> IndexedColumn:
        return self.by_name[name]

    @property
    def indexed_columns(self) -> tuple[IndexedColumn, ...]:
        """The columns that have a field."""
        return tuple(column for column in self.columns if column.kind != "none")

    def to_json(self, *, native: bool = False) -> str:
        """The `docMappingJson` of the log; a native one has only what the public implementation knows."""
        return json.dumps(
            [mapping_entry(column, native=native) for column in self.indexed_columns]
            if native
            else [mapping_entry(column, native=False) for column in self.columns],
            separators=(",", ":"),
            ensure_ascii=False,
        )

    @classmethod
    def from_json(cls, text: str, where: str = "docMappingJson") -> "DocMapping":
        """The mapping from the log's text, ours or that of the public implementation."""
        try:
            document = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise DecodeError("BadJson", f"no JSON: {error}", where) from error
        if isinstance(document, dict):
            document = document.get("field_mappings")
        if not isinstance(document, list):
            raise DecodeError("BadMapping", "a list of fields must stand here", where)
        return cls(tuple(_read_entry(entry, where) for entry in document))

    @cached_property
    def fields(self) -> list[dict[str, Any]]:
        """The schema of our own index, as its `meta.json` says it."""
        return index_fields(self)

    def tantivy_schema(self) -> "tantivy.Schema":
        """The schema as the engine's object."""
        from deltaic.table.split.engine import schema_object

        return schema_object(self.fields)


def exact_term(text: str) -> str:
    """The term of a whole string: the string, or for a very long one its beginning and a hash of all of it."""
    if len(text) <= MAX_TERM_BYTES // 4:
        return text
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= MAX_TERM_BYTES:
        return text
    return f"{text[:1000]}\x00sha256:{hashlib.sha256(raw).hexdigest()}"


def field_name(name: str) -> str:
    """The name of a column's field: its own where the engine's query syntax allows it, else its bytes in hex."""
    return name if _PLAIN_NAME.fullmatch(name) else hidden_name(name)


def hidden_name(name: str) -> str:
    """A name for a column's field that no column has itself."""
    return f"x_{name.encode('utf-8', 'surrogatepass').hex()}"


def index_fields(mapping: DocMapping) -> list[dict[str, Any]]:
    """The schema of our own index: a field for each indexed column, then the hidden ones."""
    fields = [_own_field(column) for column in mapping.indexed_columns]
    fields.append(_number_field(ROW_FIELD, "u64", indexed=False, fast=True))
    fields.append(_text_field(SPLIT_FIELD, "raw", "basic", norms=False, fast=False))
    if any(column.presence == "term" for column in mapping.indexed_columns):
        fields.append(_text_field(PRESENT_FIELD, "raw", "basic", norms=False, fast=False))
    return fields


def element_type(arrow: pa.DataType) -> pa.DataType:
    """The type without dictionary encoding, extension, and run-end encoding."""
    while True:
        if pa.types.is_dictionary(arrow) or pa.types.is_run_end_encoded(arrow):
            arrow = arrow.value_type
        elif isinstance(arrow, pa.BaseExtensionType):
            arrow = arrow.storage_type
        else:
            return arrow


def is_list(arrow: pa.DataType) -> bool:
    """Whether rows have several elements."""
    return bool(
        pa.types.is_list(arrow)
        or pa.types.is_large_list(arrow)
        or pa.types.is_fixed_size_list(arrow)
        or pa.types.is_list_view(arrow)
        or pa.types.is_large_list_view(arrow)
    )


def is_string(arrow: pa.DataType) -> bool:
    """Whether values are text."""
    return bool(pa.types.is_string(arrow) or pa.types.is_large_string(arrow) or pa.types.is_string_view(arrow))


def is_binary(arrow: pa.DataType) -> bool:
    """Whether values are bytes."""
    return bool(
        pa.types.is_binary(arrow)
        or pa.types.is_large_binary(arrow)
        or pa.types.is_binary_view(arrow)
        or pa.types.is_fixed_size_binary(arrow)
    )


def kind_of(arrow: pa.DataType) -> Kind:
    """The kind that a scalar type suggests; nested types are JSON."""
    types = pa.types
    if is_string(arrow):
        return "string"
    if is_binary(arrow):
        return "binary"
    if types.is_boolean(arrow):
        return "boolean"
    if types.is_unsigned_integer(arrow):
        return "unsigned"
    if types.is_integer(arrow) or types.is_time(arrow) or types.is_duration(arrow):
        return "integer"
    if types.is_floating(arrow):
        return "float"
    if types.is_decimal(arrow):
        return "decimal"
    if types.is_date(arrow):
        return "date"
    if types.is_timestamp(arrow):
        return "timestamp"
    if types.is_struct(arrow) or types.is_map(arrow) or is_list(arrow):
        return "json"
    return "none"


def _column(name: str, arrow: pa.DataType, wanted: ColumnIndex) -> IndexedColumn:
    whole = element_type(arrow)
    many = is_list(whole)
    value = element_type(whole.value_type) if many else whole
    suggested = kind_of(value)
    kind = wanted.kind or suggested
    if kind not in (suggested, "none") and not (suggested == "string" and kind in ("text", "json", "ip")):
        raise InputError(f"column {name!r} of type {arrow} cannot be indexed as {kind}")
    if kind != "none" and not wanted.indexed and wanted.fast is False:
        kind = "none"
    if kind == "none":
        return IndexedColumn(name, kind, field_name(name), "", None, False, False)
    tokenizer = None
    if kind in ("text", "json"):
        tokenizer = check_tokenizer(wanted.tokenizer or ("default" if kind == "text" else "raw"))
    elif kind == "string":
        tokenizer = "raw"
    if wanted.tokenizer is not None and kind not in ("text", "json"):
        raise InputError(f"column {name!r} is indexed as {kind}, which has no tokenizer: only text and json have")
    field_type = _FIELD_TYPES[kind]
    digits = scale = 0
    if kind == "decimal":
        digits, scale = value.precision, value.scale
        if digits > MAX_INTEGER_DIGITS:
            field_type, tokenizer = "text", "raw"
    fast = wanted.fast if wanted.fast is not None else kind != "text"
    unit = value.unit if kind == "timestamp" else None
    positions = wanted.positions and kind in ("text", "json") and tokenizer != "raw"
    return IndexedColumn(
        name, kind, field_name(name), field_type, tokenizer, wanted.indexed, fast, positions, many, scale, digits, unit
    )


def mapping_entry(column: IndexedColumn, *, native: bool) -> dict[str, Any]:
    """A column's entry in docMappingJson."""
    entry: dict[str, Any] = {"name": column.name, "type": column.field_type or "none", "stored": native}
    entry.update(indexed=column.indexed, fast=column.fast)
    if column.tokenizer is not None:
        entry["tokenizer"] = column.tokenizer
    if native:
        if column.field_type == "text" and column.fast:
            entry["fast_tokenizer"] = "raw"
        if column.field_type == "object":
            entry["expand_dots"] = False
            entry["field_mappings"] = []
        if column.kind in ("date", "timestamp"):
            entry["type"] = "datetime"
        if column.kind == "decimal":
            entry.update(type="text", tokenizer="raw", fast_tokenizer="raw")
    else:
        entry["deltaic"] = column.to_members()
    return entry


def _read_entry(entry: Any, where: str) -> IndexedColumn:
    try:
        own = entry.get("deltaic")
        if own is not None:
            return msgspec.convert(own, IndexedColumn)
        return _foreign_column(entry)
    except (msgspec.ValidationError, KeyError, TypeError, AttributeError) as error:
        raise DecodeError("BadMapping", f"a field of the mapping is none: {error}", where) from error


def _foreign_column(entry: Mapping[str, Any]) -> IndexedColumn:
    name, field_type = str(entry["name"]), str(entry["type"])
    tokenizer = entry.get("tokenizer")
    kinds: dict[str, Kind] = {
        "i64": "integer", "u64": "unsigned", "f64": "float", "bool": "boolean", "datetime": "timestamp",
        "bytes": "binary", "ip": "ip", "object": "json",
    }  # fmt: skip
    if field_type == "text":
        kind: Kind = "string" if tokenizer == "raw" else "text"
        tokenizer = tokenizer or "default"
    elif field_type in kinds:
        kind = kinds[field_type]
    else:
        kind = "none"
    unit = "us" if kind == "timestamp" else None
    fast = bool(entry.get("fast", False))
    return IndexedColumn(
        name,
        kind,
        field_name(name),
        "i64" if field_type == "datetime" else field_type if kind != "none" else "",
        str(tokenizer) if tokenizer is not None else None,
        bool(entry.get("indexed", True)),
        fast,
        kind == "text",
        unit=unit,
    )


def _own_field(column: IndexedColumn) -> dict[str, Any]:
    if column.field_type == "text":
        record = "position" if column.positions else "freq" if column.kind == "text" else "basic"
        made = _text_field(
            column.field, column.tokenizer or "raw", record, norms=column.kind == "text", fast=column.fast
        )
        if not column.indexed:
            made["options"].pop("indexing")
        return made
    if column.field_type == "object":
        record = "position" if column.positions else "basic"
        indexing = {"record": record, "fieldnorms": column.tokenizer != "raw", "tokenizer": column.tokenizer or "raw"}
        options: dict[str, Any] = {"stored": False, "fast": column.fast, "expand_dots_enabled": False}
        if column.indexed:
            options["indexing"] = indexing
        return {"name": column.field, "type": "json_object", "options": options}
    made_type = _META_TYPES.get(column.field_type, column.field_type)
    return _number_field(column.field, made_type, indexed=column.indexed, fast=column.fast)


def _text_field(name: str, tokenizer: str, record: str, *, norms: bool, fast: bool) -> dict[str, Any]:
    indexing = {"record": record, "fieldnorms": norms, "tokenizer": tokenizer}
    return {"name": name, "type": "text", "options": {"indexing": indexing, "stored": False, "fast": fast}}


def _number_field(name: str, kind: str, *, indexed: bool, fast: bool) -> dict[str, Any]:
    options = {"indexed": indexed, "fieldnorms": False, "fast": fast, "stored": False}
    return {"name": name, "type": kind, "options": options}

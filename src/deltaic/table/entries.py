"""File entries: the records of a manifest, and the add actions that they are.

The interoperable schema is the one that public writers use, field ids and all. Two fields more, `tags` and
`unknownMembers`, stand at its end only in manifests that need them: a reader resolves by name and passes over them.
The literal schema is the one printed in the protocol text, with what an entry needs beyond it as further fields.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from deltaic.errors import DecodeError
from deltaic.table.actions import NULL_PARTITION, AddFile
from deltaic.table.avro import encode_long, encode_text

_MAP: Final = {"type": "map", "values": "string"}
_TEXTS: Final = {"type": "array", "items": "string"}

# name in the file, our name, kind, nullable, field id
_Field = tuple[str, str, str, bool, int]
_FIELDS: Final[tuple[_Field, ...]] = (
    ("path", "path", "text", False, 100),
    ("partitionValues", "partition_values", "partition", False, 101),
    ("size", "size_bytes", "long", False, 102),
    ("modificationTime", "modified_ms", "long", False, 103),
    ("dataChange", "data_change", "bool", False, 104),
    ("stats", "stats", "text", True, 110),
    ("minValues", "min_values", "map", True, 111),
    ("maxValues", "max_values", "map", True, 112),
    ("numRecords", "num_records", "long", True, 113),
    ("footerStartOffset", "footer_start", "long", True, 120),
    ("footerEndOffset", "footer_end", "long", True, 121),
    ("hasFooterOffsets", "has_footer_offsets", "bool", False, 124),
    ("deleteOpstamp", "delete_opstamp", "long", True, 123),
    ("splitTags", "split_tags", "texts", True, 132),
    ("numMergeOps", "num_merge_ops", "int", True, 134),
    ("docMappingJson", "doc_mapping_json", "text", True, 133),
    ("docMappingRef", "doc_mapping_ref", "text", True, 135),
    ("uncompressedSizeBytes", "uncompressed_bytes", "long", True, 136),
    ("timeRangeStart", "time_range_start", "text", True, 137),
    ("timeRangeEnd", "time_range_end", "text", True, 138),
    ("addedAtVersion", "added_at_version", "long", False, 140),
    ("addedAtTimestamp", "added_at_ms", "long", False, 141),
    ("companionSourceFiles", "companion_source_files", "texts", True, 150),
    ("companionDeltaVersion", "companion_delta_version", "long", True, 151),
    ("companionFastFieldMode", "companion_fast_field_mode", "text", True, 152),
)
_MORE: Final[tuple[_Field, ...]] = (
    ("tags", "tags", "map", True, 160),
    ("unknownMembers", "unknown", "json", True, 161),
)
_BY_NAME: Final = {field[0]: field for field in (*_FIELDS, *_MORE)}
# The protocol text numbers some fields otherwise than every writer does, and names another namespace.
_LITERAL_IDS: Final = {
    "hasFooterOffsets": 122,
    "splitTags": 130,
    "numMergeOps": 131,
    "docMappingRef": 132,
    "uncompressedSizeBytes": 133,
}
_BEYOND_LITERAL: Final = frozenset(
    (
        "deleteOpstamp",
        "docMappingJson",
        "timeRangeStart",
        "timeRangeEnd",
        "companionSourceFiles",
        "companionDeltaVersion",
        "companionFastFieldMode",
    )
)


def _avro_field(field: _Field, *, literal: bool) -> dict[str, Any]:
    name, _, kind, nullable, number = field
    simple: Any = {"text": "string", "json": "string", "bool": "boolean", "long": "long", "int": "int"}.get(kind)
    avro = simple or (_TEXTS if kind == "texts" else _MAP)
    number = _LITERAL_IDS.get(name, number) if literal else number
    made: dict[str, Any] = {"name": name, "type": ["null", avro] if nullable else avro}
    if nullable:
        made["default"] = None
    elif name == "hasFooterOffsets":
        made["default"] = False
    made["field-id"] = number
    return made


def _writer(field: _Field) -> Callable[[AddFile], bytes]:
    _, ours, kind, nullable, _ = field
    encoders: dict[str, Callable[[Any], bytes]] = {
        "text": encode_text,
        "json": lambda value: encode_text(msgspec.json.encode(value).decode()),
        "long": encode_long,
        "int": encode_long,
        "bool": lambda value: b"\1" if value else b"\0",
        "map": _encode_map,
        "partition": _encode_partition,
        "texts": _encode_texts,
    }
    encode = encoders[kind]
    if not nullable:
        return lambda add: encode(getattr(add, ours))
    if kind == "json":
        return lambda add: b"\2" + encode(dict(getattr(add, ours))) if getattr(add, ours) else b"\0"

    def write(add: AddFile) -> bytes:
        value = getattr(add, ours)
        return b"\0" if value is None else b"\2" + encode(value)

    return write


def _encode_map(values: Mapping[str, str]) -> bytes:
    if not values:
        return b"\0"
    parts = [encode_long(len(values))]
    for key, text in values.items():
        parts += (encode_text(key), encode_text(text))
    parts.append(b"\0")
    return b"".join(parts)


def _encode_partition(values: Mapping[str, str | None]) -> bytes:
    return _encode_map({key: NULL_PARTITION if text is None else text for key, text in values.items()})


def _encode_texts(values: Sequence[str]) -> bytes:
    if not values:
        return b"\0"
    return b"".join((encode_long(len(values)), *(encode_text(text) for text in values), b"\0"))


class EntrySchema:
    """One shape of file entries: its Avro schema, and how add actions are written in it."""

    def __init__(self, fields: Sequence[_Field], *, literal: bool) -> None:
        self.fields = tuple(fields)
        space = "io.indextables.spark.transaction.avro" if literal else "io.indextables.state"
        self.avro_fields = [_avro_field(field, literal=literal) for field in fields]
        schema = {"type": "record", "name": "FileEntry", "namespace": space, "fields": self.avro_fields}
        self.text = json.dumps(schema, separators=(",", ":"))
        self._writers = [_writer(field) for field in fields]

    def encode(self, add: AddFile) -> bytes:
        """One record."""
        return b"".join([write(add) for write in self._writers])


BASE: Final = EntrySchema(_FIELDS, literal=False)
"""The shape of public manifests."""

FULL: Final = EntrySchema((*_FIELDS, *_MORE), literal=False)
"""The same with tags and members that nobody here knows."""

LITERAL: Final = EntrySchema([field for field in _FIELDS if field[0] not in _BEYOND_LITERAL], literal=True)
"""The shape of the protocol text."""

LITERAL_FULL: Final = EntrySchema(
    (*LITERAL.fields, *(f for f in _FIELDS if f[0] in _BEYOND_LITERAL), *_MORE), literal=True
)
"""The same with all that an add action may say."""


def schema_for(adds: Iterable[AddFile], *, literal: bool) -> EntrySchema:
    """The smallest shape that keeps all of these."""
    if literal:
        rich = any(_beyond_literal(add) for add in adds)
        return LITERAL_FULL if rich else LITERAL
    return FULL if any(add.tags is not None or add.unknown for add in adds) else BASE


def _beyond_literal(add: AddFile) -> bool:
    names = ("delete_opstamp", "doc_mapping_json", "time_range_start", "time_range_end", "companion_source_files")
    more = ("companion_delta_version", "companion_fast_field_mode", "tags")
    return bool(add.unknown) or any(getattr(add, name) is not None for name in (*names, *more))


def encode_entries(adds: Iterable[AddFile], schema: EntrySchema) -> tuple[bytes, list[int]]:
    """The records one after the other, and where each starts (and the last ends)."""
    pieces, starts, position = [], [0], 0
    for add in adds:
        piece = schema.encode(add)
        pieces.append(piece)
        position += len(piece)
        starts.append(position)
    return b"".join(pieces), starts


def entry_from(values: Mapping[str, Any], where: str) -> AddFile:
    """An add action from the fields of a record, as far as they are known; missing optional ones are null."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        field = _BY_NAME.get(name)
        if field is None or value is None:
            continue
        _, ours, kind, _, _ = field
        if kind == "partition" and isinstance(value, dict):
            value = {key: None if text == NULL_PARTITION else text for key, text in value.items()}
        elif kind == "texts" and isinstance(value, list):
            value = tuple(value)
        elif not isinstance(value, _TYPES[kind]):
            raise DecodeError("BadEntry", f"{name} of a file entry is no {kind}", where)
        elif kind == "json":
            try:
                value = msgspec.json.decode(str(value))
            except msgspec.DecodeError as error:
                raise DecodeError("BadJson", f"unknownMembers is no JSON: {error}", where) from error
            if not isinstance(value, dict):
                raise DecodeError("BadJson", "unknownMembers is no object", where)
        found[ours] = value
    for needed in ("path", "size_bytes", "modified_ms"):
        if needed not in found:
            raise DecodeError("BadEntry", f"a file entry without {needed}", where)
    found.setdefault("partition_values", {})
    return AddFile(**found)


_TYPES: Final = {
    "text": str,
    "json": str,
    "long": int,
    "int": int,
    "bool": bool,
    "map": dict,
    "partition": dict,
    "texts": list,
}
_PROGRAM_KINDS: Final = {"text": 0, "json": 0, "long": 1, "int": 1, "bool": 2, "map": 3, "partition": 3, "texts": 4}


def program_of(schema: Any) -> tuple[tuple[str, ...], bytes] | None:
    """The names of a manifest's fields and the kernel's program for them; None for a shape that it does not know."""
    fields = schema.get("fields") if isinstance(schema, dict) and schema.get("type") == "record" else None
    if not isinstance(fields, list):
        return None
    names, program = [], bytearray()
    for field in fields:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str):
            return None
        kind, nulls = field.get("type"), 0
        if isinstance(kind, list):
            if len(kind) != 2 or "null" not in kind or kind[0] == kind[1]:
                return None
            nulls = 8 if kind[0] == "null" else 16
            kind = kind[1] if kind[0] == "null" else kind[0]
        code = _kernel_kind(kind)
        if code is None or not _fits(field["name"], code, bool(nulls)):
            return None
        names.append(field["name"])
        program.append(code | nulls)
    return (tuple(names), bytes(program)) if len(set(names)) == len(names) else None


def _kernel_kind(kind: Any) -> int | None:
    if isinstance(kind, dict):
        inner = kind.get("type")
        if inner == "map" and _is_text(kind.get("values")):
            return 3
        if inner == "array" and _is_text(kind.get("items")):
            return 4
        return _kernel_kind(inner) if isinstance(inner, str) else None
    return {"string": 0, "long": 1, "int": 1, "boolean": 2}.get(kind) if isinstance(kind, str) else None


def _is_text(kind: Any) -> bool:
    # Java's Avro writes strings as {"type": "string", "avro.java.string": "String"}.
    return bool(kind == "string" or (isinstance(kind, dict) and kind.get("type") == "string"))


def _fits(name: str, code: int, nullable: bool) -> bool:
    field = _BY_NAME.get(name)
    return field is None or (_PROGRAM_KINDS[field[2]] == code and (field[3] or not nullable))

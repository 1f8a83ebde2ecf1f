"""Actions: what the lines of a version file say.

One JSON object per line with one member: `protocol`, `metaData`, `add`, `remove`, `mergeskip` (or `skip`). Missing and
null members are the same. Members that are not known here are kept in `unknown` and written back, because another
writer put them there for somebody; unknown actions are passed over.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from deltaic.errors import DecodeError

NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""How a null partition value is written."""

_EMPTY: Mapping[str, Any] = {}


class Protocol(msgspec.Struct, frozen=True):
    """Which readers and writers a table needs."""

    min_reader_version: int = 4
    min_writer_version: int = 4
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None
    unknown: Mapping[str, Any] = msgspec.field(default_factory=dict)


class Metadata(msgspec.Struct, frozen=True):
    """What a table is: its schema, partitioning and configuration."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = msgspec.field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    provider: str = "indextables"
    format_options: Mapping[str, str] = msgspec.field(default_factory=dict)
    created_ms: int | None = None
    unknown: Mapping[str, Any] = msgspec.field(default_factory=dict)

    def configured(self, changes: Mapping[str, str | None]) -> "Metadata":
        """The same with some keys of the configuration set, or removed where the value is None."""
        configuration = {**self.configuration}
        for key, value in changes.items():
            if value is None:
                configuration.pop(key, None)
            else:
                configuration[key] = value
        return replace(self, configuration=configuration)


class AddFile(msgspec.Struct, frozen=True):
    """A file that belongs to the table from this action on."""

    path: str
    partition_values: Mapping[str, str | None]
    size_bytes: int
    modified_ms: int
    data_change: bool = True
    stats: str | None = None
    min_values: Mapping[str, str] | None = None
    max_values: Mapping[str, str] | None = None
    num_records: int | None = None
    footer_start: int | None = None
    footer_end: int | None = None
    has_footer_offsets: bool = False
    delete_opstamp: int | None = None
    split_tags: tuple[str, ...] | None = None
    num_merge_ops: int | None = None
    doc_mapping_json: str | None = None
    doc_mapping_ref: str | None = None
    uncompressed_bytes: int | None = None
    time_range_start: str | None = None
    time_range_end: str | None = None
    companion_source_files: tuple[str, ...] | None = None
    companion_delta_version: int | None = None
    companion_fast_field_mode: str | None = None
    tags: Mapping[str, str] | None = None
    unknown: Mapping[str, Any] = msgspec.field(default_factory=dict)
    added_at_version: int = 0
    """0 is unknown: the public writers never filled it in."""
    added_at_ms: int = 0


class RemoveFile(msgspec.Struct, frozen=True):
    """A file that belongs to the table no more."""

    path: str
    deletion_ms: int | None = None
    data_change: bool = True
    partition_values: Mapping[str, str | None] | None = None
    size_bytes: int | None = None
    extended_file_metadata: bool | None = None
    tags: Mapping[str, str] | None = None
    unknown: Mapping[str, Any] = msgspec.field(default_factory=dict)


class SkipFile(msgspec.Struct, frozen=True):
    """A file that an operation could not handle and leaves alone for a while."""

    path: str
    skipped_ms: int
    reason: str = ""
    operation: str = ""
    retry_after_ms: int | None = None
    skip_count: int = 1
    partition_values: Mapping[str, str | None] | None = None
    size_bytes: int | None = None
    unknown: Mapping[str, Any] = msgspec.field(default_factory=dict)


Action: TypeAlias = Protocol | Metadata | AddFile | RemoveFile | SkipFile


def read_actions(text: bytes, name: str) -> Iterator[Action]:
    """The actions of a version file's or JSON checkpoint's text, in the order of its lines."""
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{name} line {number}"
        members = decode_object(line, where)
        for key, value in members.items():
            reader = _READERS.get(key)
            if reader is not None and value is not None:
                if not isinstance(value, dict):
                    raise DecodeError("BadAction", f"{key} is no object", where)
                yield reader(_Members(value, key, where))


def decode_object(data: bytes | str, where: str) -> dict[str, Any]:
    """One JSON object, or DecodeError."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError("BadJson", f"no JSON: {error}", where) from error
    if not isinstance(value, dict):
        raise DecodeError("BadJson", "a JSON object must stand here", where)
    return value


def write_actions(actions: Iterable[Action]) -> bytes:
    """The text of a version file: one line for each action."""
    return b"".join(msgspec.json.encode(action_members(action)) + b"\n" for action in actions)


def action_members(action: Action) -> dict[str, Any]:
    """An action as the JSON object of its line."""
    if isinstance(action, AddFile):
        return {"add": add_members(action)}
    if isinstance(action, RemoveFile):
        return {"remove": _named(action, _REMOVE)}
    if isinstance(action, Metadata):
        return {"metaData": metadata_members(action)}
    if isinstance(action, Protocol):
        return {"protocol": protocol_members(action)}
    return {"mergeskip": _named(action, _SKIP)}


def metadata_members(metadata: Metadata) -> dict[str, Any]:
    """The members of a metaData action."""
    members: dict[str, Any] = {
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "format": {"provider": metadata.provider, "options": dict(metadata.format_options)},
        "schemaString": metadata.schema_string,
        "partitionColumns": list(metadata.partition_columns),
        "configuration": dict(sorted(metadata.configuration.items())),
        "createdTime": metadata.created_ms,
        **metadata.unknown,
    }
    return {key: value for key, value in members.items() if value is not None}


def read_metadata(value: Mapping[str, Any], where: str) -> Metadata:
    """A metaData action from its members."""
    return _read_metadata(_Members(dict(value), "metaData", where))


def protocol_members(protocol: Protocol) -> dict[str, Any]:
    """The members of a protocol action."""
    return _named(protocol, _PROTOCOL)


def read_protocol(value: Mapping[str, Any], where: str) -> Protocol:
    """A protocol action from its members."""
    return _read_protocol(_Members(dict(value), "protocol", where))


def add_members(add: AddFile) -> dict[str, Any]:
    """The members of an add action; the version it was added at is no member of it."""
    return _named(add, _ADD)


def read_add(value: Mapping[str, Any], where: str) -> AddFile:
    """An add action from its members."""
    return _read_add(_Members(dict(value), "add", where))


# Our name, the name in the log, and how a value is checked.
_PROTOCOL = (
    ("min_reader_version", "minReaderVersion", "int"),
    ("min_writer_version", "minWriterVersion", "int"),
    ("reader_features", "readerFeatures", "texts"),
    ("writer_features", "writerFeatures", "texts"),
)
_ADD = (
    ("path", "path", "text"),
    ("partition_values", "partitionValues", "partition"),
    ("size_bytes", "size", "int"),
    ("modified_ms", "modificationTime", "int"),
    ("data_change", "dataChange", "bool"),
    ("stats", "stats", "text"),
    ("min_values", "minValues", "map"),
    ("max_values", "maxValues", "map"),
    ("num_records", "numRecords", "int"),
    ("footer_start", "footerStartOffset", "int"),
    ("footer_end", "footerEndOffset", "int"),
    ("has_footer_offsets", "hasFooterOffsets", "bool"),
    ("delete_opstamp", "deleteOpstamp", "int"),
    ("split_tags", "splitTags", "texts"),
    ("num_merge_ops", "numMergeOps", "int"),
    ("doc_mapping_json", "docMappingJson", "text"),
    ("doc_mapping_ref", "docMappingRef", "text"),
    ("uncompressed_bytes", "uncompressedSizeBytes", "int"),
    ("time_range_start", "timeRangeStart", "loose"),
    ("time_range_end", "timeRangeEnd", "loose"),
    ("companion_source_files", "companionSourceFiles", "texts"),
    ("companion_delta_version", "companionDeltaVersion", "int"),
    ("companion_fast_field_mode", "companionFastFieldMode", "text"),
    ("tags", "tags", "map"),
)
_REMOVE = (
    ("path", "path", "text"),
    ("deletion_ms", "deletionTimestamp", "int"),
    ("data_change", "dataChange", "bool"),
    ("partition_values", "partitionValues", "partition"),
    ("size_bytes", "size", "int"),
    ("extended_file_metadata", "extendedFileMetadata", "bool"),
    ("tags", "tags", "map"),
)
_SKIP = (
    ("path", "path", "text"),
    ("skipped_ms", "skipTimestamp", "int"),
    ("reason", "reason", "text"),
    ("operation", "operation", "text"),
    ("retry_after_ms", "retryAfter", "int"),
    ("skip_count", "skipCount", "int"),
    ("partition_values", "partitionValues", "partition"),
    ("size_bytes", "size", "int"),
)


def _named(action: Any, names: tuple[tuple[str, str, str], ...]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for ours, theirs, kind in names:
        value = getattr(action, ours)
        if value is None:
            continue
        if kind == "partition":
            value = {key: NULL_PARTITION if text is None else text for key, text in value.items()}
        elif kind == "texts":
            value = list(value)
        elif kind == "map":
            value = dict(value)
        members[theirs] = value
    members.update(action.unknown)
    return members


class _Members:
    """The members of one action, taken one after the other; what is left is unknown."""

    def __init__(self, values: dict[str, Any], action: str, where: str) -> None:
        self._values, self._action, self._where = values, action, where

    def take(self, name: str, kind: str, default: Any = None) -> Any:
        value = self._values.pop(name, None)
        if value is None:
            return default
        if kind == "loose" and isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if kind == "partition" and isinstance(value, dict):
            return {key: self._partition_value(text) for key, text in value.items()}
        if kind == "int" and type(value) is float and value.is_integer():
            value = int(value)
        if not _CHECKS[kind](value):
            raise DecodeError("BadAction", f"{self._action}.{name} is {_shown(value)}", self._where)
        return tuple(value) if kind == "texts" else value

    def need(self, name: str, kind: str) -> Any:
        value = self.take(name, kind)
        if value is None:
            raise DecodeError("BadAction", f"{self._action} has no {name}", self._where)
        return value

    def taken(self, names: tuple[tuple[str, str, str], ...], needed: tuple[str, ...]) -> dict[str, Any]:
        found = {}
        for ours, theirs, kind in names:
            value = self.need(theirs, kind) if ours in needed else self.take(theirs, kind)
            if value is not None:
                found[ours] = value
        found["unknown"] = self.rest()
        return found

    def rest(self) -> Mapping[str, Any]:
        left = {name: value for name, value in self._values.items() if value is not None}
        return left or _EMPTY

    def _partition_value(self, value: Any) -> str | None:
        if value is None or value == NULL_PARTITION:
            return None
        if not isinstance(value, str):
            raise DecodeError("BadAction", f"a partition value is {_shown(value)}", self._where)
        return value


def _text_map(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "loose": lambda value: isinstance(value, str),
    "int": lambda value: type(value) is int and -(2**63) <= value < 2**63,
    "bool": lambda value: isinstance(value, bool),
    "map": _text_map,
    "partition": lambda _: False,
    "texts": lambda value: isinstance(value, list) and all(isinstance(text, str) for text in value),
    "object": lambda value: isinstance(value, dict),
}


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _read_protocol(members: _Members) -> Protocol:
    return Protocol(**members.taken(_PROTOCOL, ("min_reader_version", "min_writer_version")))


def _read_metadata(members: _Members) -> Metadata:
    form = members.take("format", "object", {})
    provider, options = form.get("provider", "indextables"), form.get("options") or {}
    if not isinstance(provider, str) or not _text_map(options):
        raise DecodeError("BadAction", "metaData.format is not what it must be", members._where)
    configuration = members.take("configuration", "object", {})
    found = {
        "id": members.need("id", "text"),
        "schema_string": members.need("schemaString", "text"),
        "partition_columns": members.take("partitionColumns", "texts", ()),
        "configuration": {key: value for key, value in configuration.items() if value is not None},
        "name": members.take("name", "text"),
        "description": members.take("description", "text"),
        "created_ms": members.take("createdTime", "int"),
    }
    if not _text_map(found["configuration"]):
        raise DecodeError("BadAction", "metaData.configuration holds something else than text", members._where)
    return Metadata(provider=provider, format_options=options, unknown=members.rest(), **found)


def _read_add(members: _Members) -> AddFile:
    found = members.taken(_ADD, ("path", "size_bytes", "modified_ms"))
    found.setdefault("partition_values", _EMPTY)
    return AddFile(**found)


def _read_remove(members: _Members) -> RemoveFile:
    return RemoveFile(**members.taken(_REMOVE, ("path",)))


def _read_skip(members: _Members) -> SkipFile:
    found = members.taken(_SKIP, ("path",))
    found.setdefault("skipped_ms", 0)
    return SkipFile(**found)


_READERS: Mapping[str, Any] = {
    "protocol": _read_protocol,
    "metaData": _read_metadata,
    "add": _read_add,
    "remove": _read_remove,
    "mergeskip": _read_skip,
    "skip": _read_skip,
}

"""The write side of a dataset: records go in, numbered; snapshots, deltas and reverse deltas come out.

A write state alternates: records are added, `prepare` fixes how they will be written, blobs are written, `next_cycle`
starts over with the same ordinals. What it writes is, byte for byte, what Java Hollow writes for the same calls
(hollow-blob.md, sections 11 to 17).
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, NotFoundError
from deltaic.kernels import records
from deltaic.limits import MAX_ORDINAL
from deltaic.schema.evolve import ModelStep, Renames, model_step
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state import write_blobs, write_columns
from deltaic.state.append_write import CollectedAppend, SchemaAppend, collect_append
from deltaic.state.bitset import OrdinalSet
from deltaic.state.project import renamed_type
from deltaic.state.read import ReadState
from deltaic.state.write_blobs import NO_PARTS, BlobPart, BlobTags, Parts, prepared_type
from deltaic.state.write_columns import AnyColumn, Column
from deltaic.state.write_records import (
    ObjectRecord,
    checked_ordinal,
    serialize_list,
    serialize_map,
    serialize_object,
    serialize_set,
)
from deltaic.state.write_type import TypeWriter, WriteOptions
from deltaic.wire.tag_order import TagMap, java_hash_order
from deltaic.wire.write_header import Envelope
from deltaic.wire.write_stream import Stream

__all__ = ["NO_TAG", "RESHARDING_TAG", "BlobPart", "WriteState"]

NO_TAG = 0xFFFF_FFFF_FFFF_FFFF
"""The origin tag of a first state."""

RESHARDING_TAG = "hollow.type.resharding.invoked"
"""The header tag that names the types whose number of shards changed in this cycle."""

_S = TypeVar("_S", ObjectSchema, ListSchema, SetSchema, MapSchema)
_HIGH_WORD = 0xFFFF_FFFF_0000_0000


class WriteState:
    """Collects the records of a version and writes blobs.

    One thread at a time. Records are added after those they refer to; references that lead to no record are refused.

    Args:
        schemas: the types, in the order in which blobs will have them.
        order: how new records are numbered. "given": in the order they are added, as Java does. "canonical": in the
            order of their bytes; every type is then added by one batch call per cycle, referenced types first.
        pinned_shards: the number of shards of types that shall not compute it.
        target_shard_bytes: types are split so that shards stay below; None: one shard.
        allow_resharding: let the number of shards follow the size from cycle to cycle, pinned types too.
        focus_holes: hand out freed ordinals shard by shard, so that deltas touch few shards.
        partitioned: spread every type over four ordinal maps, for more than 2^29 records.
        tag: the state tag of the first version; drawn by `randomness` if None.
        randomness: where state tags come from.
    """

    def __init__(
        self,
        schemas: SchemaSet | Iterable[Schema],
        *,
        order: Literal["given", "canonical"] = "given",
        pinned_shards: Mapping[str, int] | None = None,
        target_shard_bytes: int | None = None,
        allow_resharding: bool = False,
        focus_holes: bool = False,
        partitioned: bool = False,
        tag: int | None = None,
        randomness: random.Random | None = None,
    ) -> None:
        if order not in ("given", "canonical"):
            raise InputError(f"order {order!r}: 'given' or 'canonical'")
        self.schemas = schemas if isinstance(schemas, SchemaSet) else SchemaSet(schemas)
        self.order = order
        self.header_tags = TagMap()
        """The tags of the version that is being built. They stay for the following cycles until changed or removed."""
        self._options = WriteOptions(focus_holes, None, allow_resharding)
        self.target_shard_bytes = target_shard_bytes
        self._random = randomness or random.SystemRandom()
        self._previous_tags = TagMap()
        self._previous_tag = NO_TAG
        self._tag = 0
        self.set_tag(tag)
        pinned = dict(pinned_shards or {})
        for name in pinned:
            if name not in self.schemas:
                raise NotFoundError(f"shards are pinned for {name!r}, which is not a type of the model")
        self._types = {
            schema.name: TypeWriter(
                schema,
                self.schemas,
                pinned.get(schema.name),
                canonical=order == "canonical",
                partitioned=partitioned,
            )
            for schema in self.schemas
        }
        self._prepared = False
        self._previous_schemas: SchemaSet | None = None
        self._renamed: Renames = {}

    @property
    def tag(self) -> int:
        """The state tag of the version that is being built, unsigned."""
        return self._tag

    @property
    def previous_tag(self) -> int:
        """The state tag of the version before, unsigned; all ones if there is none."""
        return self._previous_tag

    @property
    def previous_header_tags(self) -> Mapping[str, str]:
        """The header tags of the version before, which a reverse delta carries."""
        return self._previous_tags

    @property
    def target_shard_bytes(self) -> int | None:
        """How large shards may get; None is without limit."""
        return self._options.target_shard_bytes

    @target_shard_bytes.setter
    def target_shard_bytes(self, size_bytes: int | None) -> None:
        if size_bytes is not None and size_bytes < 1:
            raise InputError(f"shards of {size_bytes} bytes: the target must be positive")
        self._options = replace(self._options, target_shard_bytes=size_bytes)

    @property
    def allow_resharding(self) -> bool:
        """True if the number of shards follows the size."""
        return self._options.allow_resharding

    @allow_resharding.setter
    def allow_resharding(self, allowed: bool) -> None:
        self._options = replace(self._options, allow_resharding=allowed)

    @property
    def focus_holes(self) -> bool:
        """True if freed ordinals are handed out shard by shard."""
        return self._options.focus_holes

    @focus_holes.setter
    def focus_holes(self, focused: bool) -> None:
        self._options = replace(self._options, focus_holes=focused)

    def set_tag(self, tag: int | None = None) -> None:
        """Give the version that is being built this state tag, or draw one."""
        if tag is not None:
            if not -(1 << 63) <= tag < 1 << 64:
                raise InputError(f"{tag} is no 64-bit state tag")
            self._tag = tag & NO_TAG
            return
        high = self._previous_tag & _HIGH_WORD
        # Java keeps off these high words: they would clash with what its object mapper remembers per cycle.
        while self._tag & _HIGH_WORD in (0, _HIGH_WORD, high) or tag is None:
            tag = self._tag = self._random.getrandbits(64)

    def writer(self, type_name: str) -> TypeWriter:
        """The type's own write side, for adding serialized records without further checks.

        Raises:
            InputError: the version is prepared already.
        """
        return self._adding(type_name)

    def record(self, type_name: str) -> ObjectRecord:
        """A reusable record of an OBJECT type, for `add_object`."""
        return ObjectRecord(self._object(type_name))

    def add_object(self, type_name: str, values: Mapping[str, object] | ObjectRecord) -> int:
        """Add one record of an OBJECT type; gives its ordinal."""
        schema, writer = self._object(type_name), self._adding(type_name)
        if isinstance(values, ObjectRecord):
            if values.schema != schema:
                raise InputError(f"the record is of type {values.schema.name}, not of {type_name}", "WrongType")
            for field, ordinal in values.references():
                self._check_references(f"{type_name}.{field.name}", field.referenced or "", (ordinal,))
            return writer.add(values.serialize())
        for field in schema.fields:
            if field.referenced is not None and values.get(field.name) is not None:
                self._check_references(f"{type_name}.{field.name}", field.referenced, (values[field.name],))
        return writer.add(serialize_object(schema, values))

    def add_list(self, type_name: str, elements: Iterable[int]) -> int:
        """Add one list of element ordinals; gives its ordinal."""
        schema, writer, ordinals = self._schema(type_name, ListSchema), self._adding(type_name), list(elements)
        self._check_references(f"{type_name} element", schema.element, ordinals)
        return writer.add(serialize_list(type_name, ordinals))

    def add_set(self, type_name: str, elements: Iterable[int], hash_codes: Iterable[int] | None = None) -> int:
        """Add one set of element ordinals; gives its ordinal. Without a hash key, hash codes place the elements."""
        schema, writer, ordinals = self._schema(type_name, SetSchema), self._adding(type_name), list(elements)
        self._check_references(f"{type_name} element", schema.element, ordinals)
        return writer.add(serialize_set(type_name, ordinals, hash_codes))

    def add_map(
        self,
        type_name: str,
        entries: Mapping[int, int] | Iterable[tuple[int, int]],
        hash_codes: Iterable[int] | None = None,
    ) -> int:
        """Add one map of key ordinals to value ordinals; gives its ordinal."""
        schema, writer = self._schema(type_name, MapSchema), self._adding(type_name)
        pairs = list(entries.items() if isinstance(entries, Mapping) else entries)
        self._check_references(f"{type_name} key", schema.key, [key for key, _ in pairs])
        self._check_references(f"{type_name} value", schema.value, [value for _, value in pairs])
        return writer.add(serialize_map(type_name, pairs, hash_codes))

    def add_objects(
        self, type_name: str, columns: Mapping[str, AnyColumn | NDArray[Any]], count: int | None = None
    ) -> NDArray[np.int32]:
        """Add many records of an OBJECT type from one column per field; gives their ordinals.

        A field without a column is null in all records; `count` is needed only if there is no column at all.
        """
        schema, writer = self._object(type_name), self._adding(type_name)
        typed = {name: Column(given) if isinstance(given, np.ndarray) else given for name, given in columns.items()}
        referenced = {name: last for name in schema.references() if (last := self._last(name)) is not None}
        return writer.add_batch(write_columns.object_batch(schema, typed, count, referenced))

    def add_lists(self, type_name: str, offsets: NDArray[Any], elements: NDArray[Any]) -> NDArray[np.int32]:
        """Add many lists; list i holds the ordinals `elements[offsets[i]:offsets[i + 1]]`."""
        schema, writer = self._schema(type_name, ListSchema), self._adding(type_name)
        last = self._last(schema.element)
        return writer.add_batch(write_columns.list_batch(type_name, offsets, elements, last))

    def add_sets(
        self,
        type_name: str,
        offsets: NDArray[Any],
        elements: NDArray[Any],
        hash_codes: NDArray[np.int32] | None = None,
    ) -> NDArray[np.int32]:
        """Add many sets; set i holds the ordinals `elements[offsets[i]:offsets[i + 1]]`."""
        schema, writer = self._schema(type_name, SetSchema), self._adding(type_name)
        last = self._last(schema.element)
        return writer.add_batch(write_columns.set_batch(type_name, offsets, elements, hash_codes, last))

    def add_maps(
        self,
        type_name: str,
        offsets: NDArray[Any],
        keys: NDArray[Any],
        values: NDArray[Any],
        hash_codes: NDArray[np.int32] | None = None,
    ) -> NDArray[np.int32]:
        """Add many maps; map i holds the entries from `offsets[i]` to `offsets[i + 1]`."""
        schema, writer = self._schema(type_name, MapSchema), self._adding(type_name)
        last_key, last_value = self._last(schema.key), self._last(schema.value)
        return writer.add_batch(
            write_columns.map_batch(type_name, offsets, keys, values, hash_codes, last_key, last_value)
        )

    def add_serialized(self, type_name: str, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.int32]:
        """Add records that are serialized already (hollow-blob.md, section 11); record i ends at `ends[i]` of `data`.

        Their form is checked, their references are not.
        """
        writer = self._adding(type_name)
        schema = self.schemas[type_name]
        data, ends = np.ascontiguousarray(data, np.uint8), np.ascontiguousarray(ends, np.int64)
        bounds = np.concatenate((np.zeros(1, np.int64), ends))
        if int(bounds[-1]) != len(data) or bool((np.diff(bounds) < 0).any()):
            raise InputError(f"type {type_name}: the ends of records must rise to the end of their bytes", "Offsets")
        match schema:
            case ObjectSchema():
                bad = records.first_bad_object(data, ends, writer.kinds)
            case ListSchema():
                bad = records.first_bad_collection(data, ends, 1, 0)
            case SetSchema():
                bad = records.first_bad_collection(data, ends, 1, 1)
            case MapSchema():
                bad = records.first_bad_collection(data, ends, 2, 1)
        if bad >= 0:
            raise InputError(f"type {type_name}, row {bad}: the bytes are no serialized {schema.kind}", "BadRecord")
        return writer.add_many(data, ends)

    def place(
        self, type_name: str, data: NDArray[np.uint8], ends: NDArray[np.int64], ordinals: NDArray[np.int64]
    ) -> None:
        """Add serialized records at chosen ordinals, for tools that move records; what they hold is not checked.

        Raises:
            InputError: an ordinal is taken by a record of this version or of the one before.
        """
        self._adding(type_name).ordinals.place(data, ends, ordinals)

    def keep_all_from_previous(self) -> None:
        """Take all records of the version before into this one."""
        for name in self._types:
            self._adding(name).ordinals.keep_all()

    def keep(self, type_name: str, ordinals: "int | NDArray[Any]") -> None:
        """Take these records of the version before into this one."""
        self._adding(type_name).ordinals.keep(_ordinals(type_name, ordinals))

    def remove(self, type_name: str, ordinals: "int | NDArray[Any]") -> None:
        """Take these records out of this version."""
        self._adding(type_name).ordinals.remove(_ordinals(type_name, ordinals))

    def populated(self, type_name: str) -> OrdinalSet:
        """The records of a type in the version that is being built."""
        return self._type(type_name).ordinals.populated

    def previous(self, type_name: str) -> OrdinalSet:
        """The records of a type in the version before."""
        return self._type(type_name).ordinals.previous

    def shard_counts(self) -> dict[str, int | None]:
        """The number of shards of every type; None where no write has decided it yet."""
        return {name: writer.shards for name, writer in self._types.items()}

    def has_changed(self) -> bool:
        """True if this version differs from the one before."""
        if self._prepared:
            return any(prepared_type(writer).changed for writer in self._types.values())
        return any(writer.ordinals.populated != writer.ordinals.previous for writer in self._types.values())

    def prepare(self) -> None:
        """Fix how the version will be written; no record can be added until `next_cycle`. Writing does it by itself."""
        if self._prepared:
            return
        resharded = {}
        for name, writer in self._types.items():
            counts = writer.prepare(self._options)
            if counts is not None:
                resharded[name] = counts
        for name in java_hash_order(self._types):
            if name in resharded:
                before, after = resharded[name]
                entries = [*self.header_tags.get(RESHARDING_TAG, "").split(), f"{name}:({before},{after})"]
                self.header_tags[RESHARDING_TAG] = " ".join(entries)
        self._prepared = True

    def write_header(self, stream: Stream) -> None:
        """Write a header file: the header that the snapshot has."""
        self.prepare()
        write_blobs.write_header_file(self._types, self._tags(), stream)

    def write_snapshot(self, stream: Stream, *, parts: Parts = NO_PARTS, envelope: Envelope | None = None) -> None:
        """Write all records of the version."""
        self.prepare()
        write_blobs.write_snapshot(self._types, self._tags(), stream, parts, envelope or Envelope())

    @property
    def model_step(self) -> ModelStep:
        """How the model changed since the version before."""
        return model_step(self._previous_schemas or self.schemas, self.schemas, self._renamed)

    def collect_append(self, options: SchemaAppend) -> CollectedAppend:
        """What the delta of this version appends: new fields, and their values for records that stayed."""
        self.prepare()
        return collect_append(self._types, self.model_step, options)

    def write_delta(
        self,
        stream: Stream,
        *,
        parts: Parts = NO_PARTS,
        envelope: Envelope | None = None,
        append: CollectedAppend | SchemaAppend | None = None,
    ) -> None:
        """Write what leads from the version before to this one.

        Args:
            stream: where the delta goes.
            parts: optional parts, and where they go.
            envelope: what the blob carries for readers of another age.
            append: what it appends for records that stayed, collected before or by these options.
        """
        self.prepare()
        if isinstance(append, SchemaAppend):
            append = self.collect_append(append)
        section = None if append is None else append.section
        write_blobs.write_delta(
            self._types, self._tags(), stream, parts, envelope or Envelope(), reverse=False, append=section
        )

    def write_reverse_delta(self, stream: Stream, *, parts: Parts = NO_PARTS, envelope: Envelope | None = None) -> None:
        """Write what leads from this version back to the one before."""
        self.prepare()
        tags = self._tags(reverse=True)
        write_blobs.write_delta(self._types, tags, stream, parts, envelope or Envelope(), reverse=True)

    def next_cycle(self, tag: int | None = None) -> None:
        """Start the next version; does nothing if this one was not prepared, as nothing was written of it.

        Args:
            tag: the state tag of the next version; drawn if None.
        """
        if not self._prepared:
            return
        self._previous_tag = self._tag
        self.set_tag(tag)
        self._previous_tags.replace_all(self.header_tags)
        for writer in self._types.values():
            writer.next_cycle(self._options)
        self._previous_schemas, self._renamed = None, {}
        self._prepared = False

    def reset_to_last(self, tag: int | None = None) -> None:
        """Forget what was done since the last `next_cycle` (or `restore`), and draw another state tag."""
        for writer in self._types.values():
            writer.reset(self._options)
        self.set_tag(tag)
        self._prepared = False

    def restore(
        self,
        state: ReadState,
        tag: int | None = None,
        *,
        exact: bool | None = None,
        renamed: Renames | None = None,
    ) -> None:
        """Continue the chain that led to a read state, with the same model or another one.

        Types that the model lacks are left out, types that the state lacks start empty.

        Args:
            state: the version to go on from.
            tag: the state tag of the next version; drawn if None.
            exact: keep NaN apart from null. Java's restore does not: a record with a NaN gets a new ordinal, and one
                that is kept without being added again has a null instead. None: exact in canonical order, as Java
                in given.
            renamed: type → field → what it was called in the state, where the model calls it otherwise: records
                keep its values.

        Raises:
            SchemaError: a type or field has the same name and another type.
            InputError: records were added already, or a pinned shard count differs.
        """
        if self._prepared or any(
            writer.ordinals.previous or writer.ordinals.populated for writer in self._types.values()
        ):
            raise InputError("only a write state without records can be restored", "NotEmpty")
        # All types are looked at before the first one is changed: a restore that fails leaves nothing behind.
        restored = {
            name: self._types[name].restorable(
                renamed_type(data, self.schemas[name], (renamed or {}).get(name, {})), exact=exact
            )
            for name, data in state.types.items()
            if name in self._types
        }
        for name, records_of_type in restored.items():
            self._types[name].restore(records_of_type)
        self._previous_tag = state.tag & NO_TAG
        self.set_tag(tag)
        self._previous_tags.replace_all(state.header_tags)
        self._previous_schemas, self._renamed = state.schemas, renamed or {}

    def _tags(self, *, reverse: bool = False) -> BlobTags:
        if reverse:
            return BlobTags(self._tag, self._previous_tag, self._previous_tags)
        return BlobTags(self._previous_tag, self._tag, self.header_tags)

    def _type(self, type_name: str) -> TypeWriter:
        writer = self._types.get(type_name)
        if writer is None:
            raise NotFoundError(f"there is no type {type_name!r}; types: {', '.join(self._types) or 'none'}")
        return writer

    def _adding(self, type_name: str) -> TypeWriter:
        writer = self._type(type_name)
        if self._prepared:
            raise InputError("the version is prepared for writing: call next_cycle() before adding to it", "Prepared")
        return writer

    def _object(self, type_name: str) -> ObjectSchema:
        return self._schema(type_name, ObjectSchema)

    def _schema(self, type_name: str, kind: type[_S]) -> _S:
        schema = self._type(type_name).schema
        if not isinstance(schema, kind):
            raise InputError(f"type {type_name} is of kind {schema.kind}", "WrongType")
        return schema

    def _last(self, type_name: str) -> int | None:
        writer = self._types.get(type_name)
        return None if writer is None else writer.ordinals.last_ordinal

    def _check_references(self, what: str, type_name: str, values: Iterable[object]) -> None:
        last = self._last(type_name)
        for value in values:
            if checked_ordinal(what, value) > (MAX_ORDINAL if last is None else last):
                raise InputError(f"{what}: type {type_name} has no record {value}", "OutOfRange")


def _ordinals(type_name: str, given: "int | NDArray[Any]") -> NDArray[np.int64]:
    ordinals = np.atleast_1d(np.asarray(given))
    if not len(ordinals):
        return np.zeros(0, np.int64)
    if ordinals.dtype.kind not in "iu" or int(ordinals.min()) < 0:
        raise InputError(f"type {type_name}: ordinals to keep or remove must be numbers from 0", "WrongType")
    return ordinals.astype(np.int64)

"""What a producer appends to a delta: fields that are new in its model, and their values for records that stayed.

New fields are found by comparing the model of the version before with that of this one, whether the producer was
restarted or went on with another model. Values are collected from the serialized records, column by column, by a
kernel. Types and fields stand in the order of Java's hash tables, as the first implementation wrote them, so that one
history gives one sequence of bytes.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from deltaic.errors import InputError
from deltaic.kernels import append as kernel
from deltaic.schema.evolve import ModelStep
from deltaic.schema.types import ObjectSchema
from deltaic.state.write_type import PreparedType, TypeWriter
from deltaic.wire.append import AddedType, Extension, TypeDefinition
from deltaic.wire.append_write import EncodedSection, EncodedValues, encode_append
from deltaic.wire.tag_order import java_hash_order

AppendCodec = Literal["zstd", "zlib"]
"""How a section may be compressed."""


@dataclass(frozen=True, slots=True)
class SchemaAppend:
    """Whether and how deltas carry new fields for records that did not change.

    Args:
        enabled: False writes deltas as Hollow does, and nothing else.
        include_definitions: let readers take new fields over that they do not have. False sends values alone.
        types: the types that take part: their names, or True and False by name, where types that are not named
            take part; None is all. New types that a new field leads to come with it, unless they are False.
        max_bytes: the largest section that is written; None is without limit.
        on_too_large: what becomes of a larger one. `omit`: readers have the new fields from the next snapshot on.
            `snapshot`: this version gets a snapshot.
        all_fields: send all fields of all kept records of each type in the delta, not only new ones: for readers that
            missed a section.
        compression: pack the section; readers of the base layout then pass over it.
    """

    enabled: bool = True
    include_definitions: bool = True
    types: Collection[str] | Mapping[str, bool] | None = None
    max_bytes: int | None = None
    on_too_large: Literal["omit", "snapshot"] = "omit"
    all_fields: bool = False
    compression: AppendCodec | None = None

    def __post_init__(self) -> None:
        if self.on_too_large not in ("omit", "snapshot"):
            raise InputError(f"on_too_large {self.on_too_large!r}: 'omit' or 'snapshot'")
        if self.max_bytes is not None and self.max_bytes < 0:
            raise InputError(f"max_bytes {self.max_bytes}: a size, or None")
        if self.compression not in (None, "zstd", "zlib"):
            raise InputError(f"compression {self.compression!r}: None, 'zstd' or 'zlib'")
        if isinstance(self.types, str):
            raise InputError(f"types {self.types!r}: a collection of names")

    def takes(self, type_name: str) -> bool:
        """True if a type takes part."""
        if self.types is None:
            return True
        if isinstance(self.types, Mapping):
            return bool(self.types.get(type_name, True))
        return type_name in self.types


@dataclass(frozen=True, slots=True, eq=False)
class CollectedAppend:
    """What was found to append. `section` is None if there was nothing, or too much."""

    section: EncodedSection | None
    fields: int = 0
    """Fields with values."""
    values: int = 0
    """Values of all fields."""
    size_bytes: int = 0
    """Bytes of the section, also of one that was too large."""
    plain_bytes: int = 0
    """Bytes without compression."""
    seconds: float = 0.0
    too_large: bool = False
    complete: bool = True
    """True if a reader that takes it has the whole model of the version afterwards."""


def collect_append(types: Mapping[str, TypeWriter], step: ModelStep, options: SchemaAppend) -> CollectedAppend:
    """Collect what a delta appends; the version is prepared.

    Args:
        types: the write side.
        step: how the model changed since the version before.
        options: what to send.
    """
    started = time.perf_counter()
    if not options.enabled:
        return CollectedAppend(None, complete=not step)
    sent = dict(_sent_fields(types, step, options))
    values = []
    for name in java_hash_order(sent):
        if fields := _collected(types[name], sent[name]):
            values.append((name, fields))
    definitions: list[TypeDefinition] = []
    extension = None
    if options.include_definitions:
        definitions = _definitions(types, step, options, sent)
        extension = _extension(types, step, options)
    complete = step.complete and _is_whole(step, options)
    if not values and not definitions and not extension:
        return CollectedAppend(None, complete=complete and not step, seconds=time.perf_counter() - started)
    section = encode_append(definitions, values, extension, options.compression)
    size = section.size_bytes
    too_large = options.max_bytes is not None and size > options.max_bytes
    return CollectedAppend(
        None if too_large else section,
        sum(len(fields) for _, fields in values),
        sum(one.count for _, fields in values for one in fields),
        size,
        section.plain_bytes,
        time.perf_counter() - started,
        too_large,
        complete and not too_large,
    )


def _sent_fields(
    types: Mapping[str, TypeWriter], step: ModelStep, options: SchemaAppend
) -> Iterator[tuple[str, frozenset[str]]]:
    new_types = {schema.name for schema in step.added_types}
    for name, writer in types.items():
        if not isinstance(writer.schema, ObjectSchema) or not options.takes(name) or name in new_types:
            continue
        # Renamed fields too: a reader that walked back over the change has records without them.
        renamed = (new for _, new in step.renamed_fields.get(name, ()))
        new = frozenset((*(field.name for field in step.added_fields.get(name, ())), *renamed))
        if options.all_fields and (new or _prepared(writer).changed):
            new = frozenset(field.name for field in writer.schema.fields)
        if new:
            yield name, new


def _collected(writer: TypeWriter, names: frozenset[str]) -> list[EncodedValues]:
    """The values of some fields of a type, for records that stayed."""
    schema, prepared = writer.schema, _prepared(writer)
    assert isinstance(schema, ObjectSchema)
    kept = prepared.populated.intersection(prepared.previous)
    if not kept:
        return []
    positions = [place for place, field in enumerate(schema.fields) if field.name in names]
    source = writer.ordinals.map
    found = kernel.collect_fields(
        source.arena, source.starts, kept.ordinals().astype(np.int32), writer.kinds, np.array(positions, np.int64)
    )
    collected = {
        schema.fields[place].name: EncodedValues(schema.fields[place], count, pairs)
        for place, (count, pairs) in zip(positions, found, strict=True)
        if count
    }
    order = java_hash_order([schema.fields[place].name for place in positions])
    return [collected[name] for name in order if name in collected]


def _definitions(
    types: Mapping[str, TypeWriter], step: ModelStep, options: SchemaAppend, sent: Mapping[str, frozenset[str]]
) -> list[TypeDefinition]:
    names = [name for name in types if name in sent] if options.all_fields else list(step.added_fields)
    defined = []
    for name in java_hash_order(name for name in names if options.takes(name)):
        schema = types[name].schema
        assert isinstance(schema, ObjectSchema)
        fields = schema.fields if options.all_fields else step.added_fields[name]
        defined.append(TypeDefinition(name, fields))
    return defined


def _extension(types: Mapping[str, TypeWriter], step: ModelStep, options: SchemaAppend) -> Extension:
    return Extension(
        tuple(
            AddedType(schema, types[schema.name].shards or 1)
            for schema in step.added_types
            if schema.name in _new_types(step, options)
        ),
        tuple(name for name in step.removed_types if options.takes(name)),
        tuple((name, field) for name, fields in step.removed_fields.items() if options.takes(name) for field in fields),
        tuple((name, *pair) for name, pairs in step.renamed_fields.items() if options.takes(name) for pair in pairs),
        tuple((name, key) for name, key in step.keys.items() if options.takes(name)),
    )


def _is_whole(step: ModelStep, options: SchemaAppend) -> bool:
    if not step:
        return True
    names = {*step.added_fields, *step.removed_fields, *step.renamed_fields, *step.removed_types, *step.keys}
    return (
        options.include_definitions
        and all(options.takes(name) for name in names)
        and len(_new_types(step, options)) == len(step.added_types)
    )


def _new_types(step: ModelStep, options: SchemaAppend) -> set[str]:
    """New types that are sent: those that take part, and those that new fields of others lead to."""
    new = {schema.name: schema for schema in step.added_types}
    todo = [name for name in new if options.takes(name)]
    for name, fields in step.added_fields.items():
        if options.takes(name):
            todo += [field.referenced for field in fields if field.referenced is not None]
    found: set[str] = set()
    refused = {name for name, on in options.types.items() if not on} if isinstance(options.types, Mapping) else set()
    while todo:
        name = todo.pop()
        if name in new and name not in found and name not in refused:
            found.add(name)
            todo += new[name].references()
    return found


def _prepared(writer: TypeWriter) -> PreparedType:
    assert writer.prepared is not None
    return writer.prepared

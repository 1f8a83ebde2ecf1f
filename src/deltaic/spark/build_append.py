"""Append: when the model changed, the new fields of records that stayed, collected in one task for the delta.

The collecting is the embedded producer's own; it is given the types that have something to send.
"""

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import numpy as np

from deltaic.schema.evolve import ModelStep
from deltaic.schema.types import ObjectSchema, Schema
from deltaic.spark.build_numbers import CodeReader, FreeOrdinals
from deltaic.spark.build_pack import RangeRecords
from deltaic.spark.build_runs import joined
from deltaic.spark.build_scratch import Scratch
from deltaic.state.append_write import SchemaAppend, collect_append
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.write_statistics import field_kinds

_FIRST_START = 4


@dataclass(frozen=True)
class AppendType:
    """A type as the collecting sees it; without ranges if it has no values to send."""

    schema: Schema
    shards: int
    changed: bool
    free: FreeOrdinals
    ranges: tuple[RangeRecords, ...]


class AppendedSection(msgspec.Struct, frozen=True, array_like=True):
    """A section in a scratch file, and what is told of it."""

    envelope: bytes | None
    """None: there is no section."""
    key: str
    length: int
    fields: int
    values: int
    size_bytes: int
    plain_bytes: int
    seconds: float
    too_large: bool
    complete: bool


@dataclass(frozen=True)
class CollectAppend:
    """Collect what the delta appends."""

    Result: ClassVar[type] = AppendedSection

    types: tuple[AppendType, ...]
    step: ModelStep
    options: SchemaAppend
    scratch: Scratch

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return sum(part.data.count for each in self.types for part in each.ranges)

    def run(self) -> AppendedSection:
        """Do it."""
        started = time.perf_counter()
        found = collect_append({each.schema.name: self._loaded(each) for each in self.types}, self.step, self.options)
        section, key, length = found.section, "", 0
        if section is not None:
            pieces = [memoryview(bytes(piece)) for piece in section.pieces]
            key, length = self.scratch.write_bytes(pieces), section.size_bytes
        return AppendedSection(
            None if section is None else section.envelope,
            key,
            length,
            found.fields,
            found.values,
            found.size_bytes,
            found.plain_bytes,
            time.perf_counter() - started,
            found.too_large,
            found.complete,
        )

    def _loaded(self, of: AppendType) -> Any:
        """A type in the shape of one of a write state."""
        reader = CodeReader(self.scratch, of.free)
        parts = [each.read(self.scratch, reader) for each in of.ranges]
        whole = joined([part.found for part in parts])
        nothing = np.zeros(0, np.int32)
        ordinals = np.concatenate([nothing, *(part.ordinals for part in parts)])
        stayed = np.concatenate([nothing, *(part.ordinals[: part.live][~part.new[: part.live]] for part in parts)])
        starts = np.zeros(int(ordinals.max(initial=-1)) + 1, np.int64)
        starts[ordinals] = whole.starts + _FIRST_START
        arena = np.concatenate((np.zeros(_FIRST_START, np.uint8), whole.data, np.zeros(16, np.uint8)))
        kept = OrdinalSet.from_ordinals(stayed.astype(np.int64)) if len(stayed) else EMPTY
        return SimpleNamespace(
            schema=of.schema,
            shards=of.shards,
            kinds=field_kinds(of.schema),
            prepared=SimpleNamespace(populated=kept, previous=kept, changed=of.changed),
            ordinals=SimpleNamespace(map=SimpleNamespace(arena=arena, starts=starts)),
        )


def sends_values(schema: Schema, changed: bool, step: ModelStep, options: SchemaAppend) -> bool:
    """True if records of a type may have values to send."""
    if not isinstance(schema, ObjectSchema):
        return False
    touched = schema.name in step.added_fields or schema.name in step.renamed_fields
    return touched or (options.all_fields and changed)

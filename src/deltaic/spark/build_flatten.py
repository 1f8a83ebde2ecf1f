"""Flatten: the rows of one task become records of all types, deduplicated and numbered among themselves.

The work is that of the embedded producer: Arrow columns into a write state of the task's own. What the task leaves
are the distinct records of each type; references name the task's own ordinals until the types that they lead to are
numbered for all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import records, renumber
from deltaic.schema.model import Model
from deltaic.schema.types import ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.spark.build_keep import KeyColumns
from deltaic.spark.build_runs import Records, Run, write_run
from deltaic.spark.build_scratch import Part, Scratch
from deltaic.spark.build_sources import Split
from deltaic.spark.build_vector_rows import CollectedVectors, LocalVectors
from deltaic.state.ingest import ingest_arrow
from deltaic.state.write import WriteState
from deltaic.state.write_statistics import field_kinds

Ordinals = NDArray[np.int32]

_LIST, _SET, _MAP = 0, 1, 2
_MIXED_BUCKETS = 1
_NO_HASHES: Ordinals = np.zeros(0, np.int32)


class LocalType(msgspec.Struct, frozen=True, array_like=True):
    """The distinct records of a type in one task, by the task's own ordinals."""

    rows: int
    run: Run | None
    """Set if the type refers to nothing: its records are what they will be."""
    columns: list[Part]
    """Else bytes and ends of an OBJECT, offsets, elements or keys, and values of a collection."""
    nbytes: int


class Flattened(msgspec.Struct, frozen=True, array_like=True):
    """What a task found in its rows."""

    rows: int
    types: dict[str, LocalType]
    keys: Part | None = None
    """Key columns of the rows, if they were asked for."""
    vectors: list[LocalVectors] = []
    """Vectors of the rows."""


@dataclass(frozen=True)
class FlattenSplits:
    """Flatten what some splits of a source hold."""

    Result: ClassVar[type] = Flattened

    model: Model
    type_name: str
    splits: tuple[Split, ...]
    scratch: Scratch
    cut: int
    key_columns: tuple[str, ...] = ()
    """If not empty, these columns are kept."""

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return sum(split.size_bytes for split in self.splits)

    def run(self) -> Flattened:
        """Do it."""
        flat = _Flattening(self.model, self.type_name, self.scratch, self.cut, self.key_columns)
        for split in self.splits:
            flat.add(split.read())
        return flat.finish()


@dataclass(frozen=True)
class FlattenRows:
    """Flatten the rows of a partition of a DataFrame."""

    Result: ClassVar[type] = Flattened

    model: Model
    type_name: str
    scratch: Scratch
    cut: int
    key_columns: tuple[str, ...] = ()

    def run(self, batches: Iterator[Any]) -> Flattened:
        """Do it."""
        import pyarrow

        flat = _Flattening(self.model, self.type_name, self.scratch, self.cut, self.key_columns)
        first = next(batches, None)
        if first is not None:

            def every() -> Iterator[Any]:
                yield first
                yield from batches

            flat.add(pyarrow.RecordBatchReader.from_batches(first.schema, every()))
        return flat.finish()


class _Flattening:
    def __init__(self, model: Model, type_name: str, scratch: Scratch, cut: int, key_columns: tuple[str, ...]) -> None:
        self._keys = KeyColumns(key_columns) if key_columns else None
        self._model, self._type_name, self._scratch, self._cut = model, type_name, scratch, cut
        self._state = WriteState(model.schemas, tag=0)
        self._vectors = CollectedVectors(scratch)
        self._rows = 0

    def add(self, data: Any) -> None:
        if self._keys is not None:
            import pyarrow

            held = list(self._keys.passing(data))
            if not held:
                return
            data = pyarrow.Table.from_batches(held)
        try:
            take = self._vectors.take
            self._rows += len(ingest_arrow(self._state, self._type_name, data, model=self._model, vectors=take))
        except InputError as error:
            raise InputError(f"{error.reason} (rows are counted inside one partition)", error.code) from error

    def finish(self) -> Flattened:
        types = {}
        for schema in self._model.schemas:
            source = self._state.writer(schema.name).ordinals.map
            if len(source):
                types[schema.name] = self._left(schema, source.arena, source.starts)
        keys = self._keys.write(self._scratch) if self._keys is not None else None
        return Flattened(self._rows, types, keys, self._vectors.found)

    def _left(self, schema: Schema, arena: NDArray[np.uint8], starts: NDArray[np.int64]) -> LocalType:
        rows = np.arange(len(starts), dtype=np.int32)
        if isinstance(schema, ObjectSchema):
            kinds = field_kinds(schema)
            data, ends = renumber.renumber_objects(arena, starts, rows, kinds, [None] * len(kinds))
            if not set(schema.references()) & set(self._model.schemas.names):
                run = write_run(self._scratch, Records(data, ends), cut=self._cut)
                return LocalType(len(rows), run, [], len(data))
            return LocalType(len(rows), None, self._scratch.write(data, ends), len(data))
        columns = renumber.entries(arena, starts, rows, collection_form(schema))
        return LocalType(len(rows), None, self._scratch.write(*columns), sum(column.nbytes for column in columns))


def renumbered(schema: Schema, columns: list[NDArray[Any]], maps: Mapping[str, Ordinals]) -> Records:
    """The records of a task with references that hold for all; `maps` leads from the task's ordinals to those."""
    if isinstance(schema, ObjectSchema):
        data, ends = columns
        found = Records(data, ends)
        by_field = [maps.get(field.referenced) if field.referenced else None for field in schema.fields]
        rows = np.arange(len(ends), dtype=np.int32)
        return Records(*renumber.renumber_objects(data, found.starts, rows, field_kinds(schema), by_field))
    offsets, keys, values = columns
    match schema:
        case ListSchema():
            return Records(*records.serialize_lists(offsets, _led(maps, schema.element, keys)))
        case SetSchema():
            elements = _led(maps, schema.element, keys)
            return Records(*records.serialize_sets(offsets, elements, _NO_HASHES, _MIXED_BUCKETS))
        case MapSchema():
            key_ordinals, value_ordinals = _led(maps, schema.key, keys), _led(maps, schema.value, values)
            return Records(*records.serialize_maps(offsets, key_ordinals, value_ordinals, _NO_HASHES, _MIXED_BUCKETS))


def collection_form(schema: Schema) -> int:
    """How the kernel `renumber` numbers the kinds of collections."""
    match schema:
        case ListSchema():
            return _LIST
        case SetSchema():
            return _SET
        case _:
            return _MAP


def _led(maps: Mapping[str, Ordinals], type_name: str, ordinals: Ordinals) -> Ordinals:
    if not len(ordinals):
        return ordinals
    found: Ordinals = maps[type_name][ordinals]
    return found

"""Keep: in an incremental build, which records of the version before stay without being given again.

Records whose key is among the changed rows go, and with them what only they referred to. Who refers to what is a
question about the whole version, so one task loads it; the rows that did not change are not read at all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np

from deltaic.errors import InputError
from deltaic.limits import Limits
from deltaic.producer.incremental import ChangeIndex
from deltaic.producer.sources import ArrowRows, RowSource
from deltaic.schema.model import Model
from deltaic.schema.paths import resolve_path
from deltaic.schema.types import ObjectSchema
from deltaic.spark.build_restore import load_types
from deltaic.spark.build_scratch import Part, Place, Scratch, open_place
from deltaic.spark.build_sources import Split
from deltaic.state.bitset import EMPTY
from deltaic.storage.chain import BlobName


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """The bits of the records that stay, by type."""

    types: dict[str, Part]


@dataclass(frozen=True)
class Keep:
    """Find out what stays of the version before."""

    Result: ClassVar[type] = Kept

    chain: Place
    steps: tuple[BlobName, ...]
    model: Model
    keys: tuple[tuple[str, Part], ...]
    """By type: key columns of the changed rows."""
    limits: Limits
    scratch: Scratch
    weight: int = 0

    def run(self) -> Kept:
        """Do it."""
        state, _ = load_types(open_place(self.chain), self.steps, None, self.limits)
        rows: dict[str, list[RowSource]] = {}
        for type_name, part in self.keys:
            rows.setdefault(type_name, []).append(ArrowRows(type_name, read_keys(self.scratch, part)))
        removed = ChangeIndex(self.model).removed_by(state, rows)
        types = {}
        for name, data in state.types.items():
            if name in self.model.schemas:
                (types[name],) = self.scratch.write(data.populated.difference(removed.get(name, EMPTY)).words)
        return Kept(types)


class ChangedKeys(msgspec.Struct, frozen=True, array_like=True):
    """Key columns of rows that went."""

    keys: Part | None


@dataclass(frozen=True)
class SplitKeys:
    """Read the keys of rows that went from splits."""

    Result: ClassVar[type] = ChangedKeys

    splits: tuple[Split, ...]
    columns: tuple[str, ...]
    scratch: Scratch

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return sum(split.size_bytes for split in self.splits)

    def run(self) -> ChangedKeys:
        """Do it."""
        found = KeyColumns(self.columns)
        for split in self.splits:
            for _ in found.passing(split.read()):
                pass
        return ChangedKeys(found.write(self.scratch))


@dataclass(frozen=True)
class FrameKeys:
    """Read the keys of rows that went from a DataFrame."""

    Result: ClassVar[type] = ChangedKeys

    columns: tuple[str, ...]
    scratch: Scratch

    def run(self, batches: Iterator[Any]) -> ChangedKeys:
        """Do it."""
        found = KeyColumns(self.columns)
        for batch in batches:
            found.add(batch)
        return ChangedKeys(found.write(self.scratch))


class KeyColumns:
    """Collects the key columns of rows that pass by."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = list(columns)
        self._batches: list[Any] = []

    def passing(self, data: Any) -> Iterator[Any]:
        """The same rows, batch by batch."""
        import pyarrow

        for batch in pyarrow.RecordBatchReader.from_stream(data):
            self.add(batch)
            yield batch

    def add(self, batch: Any) -> None:
        """Take the keys of some rows."""
        missing = [name for name in self._columns if name not in batch.schema.names]
        if missing:
            raise InputError(f"changed rows have no column {missing[0]!r}, which their key needs", "NoKey")
        self._batches.append(batch.select(self._columns))

    def write(self, scratch: Scratch) -> Part | None:
        """Write them down; None if there were no rows."""
        import pyarrow

        if not self._batches:
            return None
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, self._batches[0].schema) as writer:
            for batch in self._batches:
                writer.write_batch(batch)
        (part,) = scratch.write(np.frombuffer(sink.getvalue(), np.uint8))
        return part


def read_keys(scratch: Scratch, part: Part) -> Any:
    """Key columns as they were written."""
    import pyarrow

    return pyarrow.ipc.open_stream(pyarrow.py_buffer(scratch.read(part))).read_all()


def key_columns(model: Model, type_name: str) -> tuple[str, ...]:
    """The columns of a row in which its key is.

    Raises:
        InputError: the type has no primary key.
    """
    schema = model.schemas[type_name]
    if not isinstance(schema, ObjectSchema) or not schema.primary_key:
        raise InputError(f"type {type_name} has no primary key: its changes cannot be told from other rows", "NoKey")
    paths = (resolve_path(model.schemas, type_name, path) for path in schema.primary_key)
    return tuple(dict.fromkeys(schema.fields[path.steps[0].position].name for path in paths))

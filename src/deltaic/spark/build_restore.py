"""Restore: the records of the version before, read from the chain inside tasks, type by type.

Nothing of a version but its header comes to the driver. A task loads the one type that it is asked for, by the nearest
snapshot and the deltas after it, and leaves its records in the form in which new records are compared with them.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import ChainError
from deltaic.limits import Limits
from deltaic.producer.reading import read_stored
from deltaic.producer.vector_parts import read_vectors
from deltaic.schema.binary import write_schema
from deltaic.schema.types import MapSchema, Schema, SetSchema
from deltaic.spark.build_runs import Records, Run, write_run
from deltaic.spark.build_scratch import Part, Place, Scratch, open_place
from deltaic.state.bitset import OrdinalSet
from deltaic.state.filter import Filter
from deltaic.state.project import renamed_type
from deltaic.state.read import ReadState
from deltaic.state.restore import RestoredType
from deltaic.state.source import opened
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName
from deltaic.storage.store import Store
from deltaic.wire.append import AppendMode
from deltaic.wire.header import read_header


class Restored(msgspec.Struct, frozen=True, array_like=True):
    """A type of the version before, and the header of that version."""

    tag: int
    header_tags: dict[str, str]
    schemas: list[bytes]
    present: bool
    """False if the version has no such type."""
    count: int
    last: int
    """The highest populated ordinal."""
    shards: int
    populated: Part | None
    run: Run | None
    """Its records; labels are their ordinals. Beside them, if that is not the same, how blobs have them."""
    fields: list[int] | None
    """Fields that the version before had too; None if it had all."""
    schema: bytes = b""
    """What the type was then."""


@dataclass(frozen=True)
class Restore:
    """Read one type of the version before."""

    Result: ClassVar[type] = Restored

    chain: Place
    steps: tuple[BlobName, ...]
    schema: Schema
    limits: Limits
    scratch: Scratch
    cut: int
    piece: int
    pieces: int
    weight: int
    renamed: tuple[tuple[str, str], ...] = ()
    """What fields of the type were called before."""

    def run(self) -> Restored:
        """Do it."""
        store = open_place(self.chain)
        state, schemas = load_types(store, self.steps, (self.schema.name,), self.limits)
        header = (state.tag, dict(state.header_tags), schemas)
        data = state.types.get(self.schema.name)
        if data is None:
            return Restored(*header, False, 0, -1, 0, None, None, None)
        before = write_schema(data.schema)
        data = renamed_type(data, self.schema, dict(self.renamed))
        restored = RestoredType(self.schema, data, exact=True)
        fields = None if restored.common_fields is None else restored.common_fields.tolist()
        bits: Part | None = None
        if self.piece == 0:
            (bits,) = self.scratch.write(data.populated.words)
        every = data.populated.ordinals()
        first, last = (len(every) * number // self.pieces for number in (self.piece, self.piece + 1))
        ordinals = every[first:last]
        run = self._run(restored, ordinals) if len(ordinals) else None
        return Restored(*header, True, len(every), data.populated.max(), len(data.shards), bits, run, fields, before)

    def _run(self, restored: RestoredType, ordinals: NDArray[np.int64]) -> Run:
        matched = Records(*restored.as_added(ordinals))
        beside = None
        if restored.common_fields is not None or isinstance(self.schema, SetSchema | MapSchema):
            beside = Records(*restored.serialized(OrdinalSet.from_ordinals(ordinals)))
        return write_run(self.scratch, matched, cut=self.cut, labels=ordinals.astype(np.int32), beside=beside)


def load_types(
    store: Store, steps: tuple[BlobName, ...], names: tuple[str, ...] | None, limits: Limits, *, vectors: bool = False
) -> tuple[ReadState, list[bytes]]:
    """Some types of a version (None: all), by a snapshot and deltas; and the schemas that its snapshot lists.

    With `vectors` the state has the vector columns of these types too.
    """
    announcements = Announcements(store)
    state: ReadState | None = None
    schemas: list[bytes] = []
    for blob in steps:
        name, entry = str(blob), announcements.entry_of(blob.owner)
        artifact, before = None if entry is None else entry.artifact(name), state
        with read_stored(store, name, artifact, limit_bytes=limits.max_blob_bytes) as source:
            if state is not None:
                state = state.apply(source, limits=limits, schema_append=AppendMode.FULL)
            else:
                with opened(source, limits) as cursor:
                    schemas = [write_schema(schema) for schema in read_header(cursor, limits).schemas]
                wanted: Any = None if names is None else Filter.only(*names)
                state = ReadState.load(source, filter=wanted, limits=limits)
        if vectors:
            state = read_vectors(store, entry, blob, before, state, limits=limits)
    if state is None:
        raise ChainError(f"no blob of {store.url} leads to the version before")
    return state, schemas

"""From a blob's state to one with its vectors: the columns of its vector part, and those held as bytes in records.

What a reader calls after a snapshot was loaded or a delta applied, before the state is shown to anyone.
"""

from collections.abc import Collection

import numpy as np

from deltaic.binary.cursor import ReadableBuffer
from deltaic.errors import DecodeError
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.schema.model import VectorColumn
from deltaic.schema.types import FieldType, ObjectSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.columns import BytesColumn
from deltaic.state.read import ReadState
from deltaic.state.vector_column import StoredVectors
from deltaic.vector.part_read import ColumnKey, VectorPart, apply_part
from deltaic.vector.storage import VectorNote, read_vectors_tag


def with_vectors(
    state: ReadState,
    before: ReadState | None,
    part: ReadableBuffer | VectorPart | None,
    *,
    columns: Collection[ColumnKey] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    name: str = "vector part",
    check: bool = True,
) -> ReadState:
    """The state with its vector columns.

    Args:
        state: as the blob gave it.
        before: the state that the delta was applied to, with its vectors; None for a snapshot.
        part: the vector part of the blob; None if it has none, or it cannot be had: its columns are missing then.
        columns: those that are wanted, by type and field; None: all.
        limits: bounds on what the bytes may ask for.
        name: the part, for errors.
        check: compare each column with the checksum that its producer noted.

    Raises:
        DecodeError: the part is damaged, or belongs to another blob; a vector inside a record has other dimensions.
    """
    made: dict[ColumnKey, StoredVectors] = {}
    if part is not None:
        made = apply_part(
            part,
            None if before is None else before.vectors,
            {type_name: data.populated for type_name, data in state.types.items()},
            tag=state.tag,
            origin_tag=None if before is None else before.tag,
            columns=columns,
            limits=limits,
            name=name,
            check=check,
        )
    for note in read_vectors_tag(state.header_tags):
        if note.form == "bytes" and (columns is None or note.key in columns) and _has_bytes(state, note):
            old = before.vectors.get(note.key) if before is not None else None
            made[note.key] = vectors_in_records(state, note.column, old, name)
    return state.with_vectors(made) if made or state.vectors else state


def missing_columns(state: ReadState) -> tuple[VectorNote, ...]:
    """The vector columns that the header of a state names, and that are not there: their part was not had."""
    return tuple(
        note
        for note in read_vectors_tag(state.header_tags)
        if note.key not in state.vectors and note.column.type_name in state
    )


def vectors_in_records(
    state: ReadState, column: VectorColumn, before: StoredVectors | None, name: str
) -> StoredVectors:
    """A column from the bytes of its records; with the column before only new records are read."""
    data = state.types[column.type_name]
    wanted = data.populated
    base = StoredVectors.empty(column.dimensions)
    if before is not None and before.dimensions == column.dimensions and not data.appended:
        wanted = data.populated.difference(data.previous)
        base = before
    ordinals = wanted.ordinals()
    found = state[column.type_name].column(column.field_name, ordinals)
    assert isinstance(found, BytesColumn)
    valid = np.ones(len(ordinals), np.bool_) if found.valid is None else found.valid
    lengths, width = np.diff(found.offsets), 4 * column.dimensions
    wrong = np.flatnonzero(lengths != np.where(valid, width, 0))
    if len(wrong):
        where = f"{name}: type {column.type_name}, ordinal {ordinals[wrong[0]]}"
        reason = f"{lengths[wrong[0]]} bytes where a vector of {column.dimensions} dimensions belongs"
        raise DecodeError("DimensionMismatch", reason, where)
    there = ordinals[valid]
    # A null takes no bytes: those of the others stand side by side.
    patterns = found.data[int(found.offsets[0]) : int(found.offsets[0]) + len(there) * width].reshape(-1, width)
    matrix = np.ascontiguousarray(patterns).view("<f4").astype(np.float32, copy=False)
    present = base.present.intersection(data.populated).difference(wanted).union(OrdinalSet.from_ordinals(there))
    return base.changed(there, matrix, present)


def _has_bytes(state: ReadState, note: VectorNote) -> bool:
    data = state.types.get(note.column.type_name)
    if data is None or not isinstance(data.schema, ObjectSchema):
        return False
    position = data.schema.position(note.column.field_name)
    return position >= 0 and data.schema.fields[position].type is FieldType.BYTES

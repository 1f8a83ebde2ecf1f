"""Reading vector parts and applying them: everything is checked, and no column that is in use changes.

Rows are written into chunks of the next column only; a part that turns out to be wrong at its last byte leaves nothing
behind. Beside both columns a reader needs the memory of one frame.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.cursor import ReadableBuffer
from deltaic.errors import LimitError
from deltaic.kernels import vectors
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.state.bitset import OrdinalSet
from deltaic.state.vector_column import CHUNK_ROWS, Ordinals, StoredVectors, VectorEdit, by_chunk
from deltaic.vector.layout import END_OF_FRAMES, HEADER_BYTES, ColumnHead, PartHeader
from deltaic.wire.vectors import Format, Frame, Section, read_frames
from deltaic.wire.vectors.faults import fault
from deltaic.wire.vectors.layout import HEADER, padded
from deltaic.wire.vectors.layout import HEADER_BYTES as FRAME_HEADER_BYTES

ColumnKey = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class VectorPart:
    """A vector part, its heads read."""

    header: PartHeader
    view: memoryview
    name: str
    limits: Limits

    def columns(self) -> "Iterator[ColumnReader]":
        """The columns one after another; each must be read to its end before the next is asked for."""
        position = HEADER_BYTES
        last: ColumnKey | None = None
        for _ in range(self.header.columns):
            head, position = ColumnHead.read(self.view, position, self.name, self.limits)
            if last is not None and head.key <= last:
                raise fault("MalformedPart", f"column {head.key} does not come after {last}", self.name)
            if not self.header.delta and not head.from_nothing:
                raise fault("MalformedPart", f"column {head.key} of a snapshot starts at another one", self.name)
            last = head.key
            reader = ColumnReader(head, self.view, position, self.name)
            yield reader
            position = reader.end()
        if position != len(self.view):
            raise fault("TrailingData", f"{len(self.view) - position} bytes too many", f"{self.name}: byte {position}")


class ColumnReader:
    """The frames of a column, read one by one."""

    def __init__(self, head: ColumnHead, view: memoryview, position: int, name: str) -> None:
        self.head = head
        self._view, self._position, self._name = view, position, name
        self._groups = 0

    def frames(self) -> Iterator[tuple[bool, Frame]]:
        """Every frame, and whether its vectors are new."""
        while self._more():
            at = f"{self._name}, frame at byte {self._position}"
            frame = next(read_frames(self._view[self._position :], name=at))
            self._position += frame.size_bytes
            if frame.dims != self.head.dimensions:
                reason = f"a frame of {frame.dims} dimensions in a column of {self.head.dimensions}"
                raise fault("DimensionMismatch", reason, at)
            yield self._groups == 0, frame

    def end(self) -> int:
        """Where the column ends; frames that nobody asked for are passed over."""
        while self._more():
            at = f"{self._name}, frame at byte {self._position}"
            if len(self._view) < self._position + FRAME_HEADER_BYTES:
                raise fault("Truncated", "the part ends inside a frame's header", at)
            length = HEADER.unpack(self._view[self._position : self._position + HEADER.size])[5]
            if length < FRAME_HEADER_BYTES or length != padded(length):
                raise fault("MalformedFrame", f"a frame of {length} bytes", at)
            self._position += length
        return self._position

    def _more(self) -> bool:
        """Go on to the next frame; False if there is none."""
        while self._groups < 2:
            if len(self._view) < self._position + len(END_OF_FRAMES):
                raise fault("Truncated", "the part ends inside a column", f"{self._name}: byte {len(self._view)}")
            if self._view[self._position : self._position + len(END_OF_FRAMES)] != END_OF_FRAMES:
                return True
            self._position += len(END_OF_FRAMES)
            self._groups += 1
        return False


def read_part(data: ReadableBuffer, *, limits: Limits = DEFAULT_LIMITS, name: str = "vector part") -> VectorPart:
    """Read the header of a part; its columns are read when they are asked for.

    Raises:
        DecodeError: the bytes are no vector part.
    """
    view = memoryview(data).cast("B")
    if len(view) > limits.max_blob_bytes:
        raise fault("LimitExceeded", f"{len(view):,} bytes, limit is {limits.max_blob_bytes:,}", name)
    return VectorPart(PartHeader.read(view, name), view, name, limits)


def apply_part(
    data: ReadableBuffer | VectorPart,
    before: Mapping[ColumnKey, StoredVectors] | None,
    populated: Mapping[str, OrdinalSet],
    *,
    tag: int,
    origin_tag: int | None = None,
    columns: Collection[ColumnKey] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    name: str = "vector part",
    check: bool = True,
) -> dict[ColumnKey, StoredVectors]:
    """The vector columns after a part.

    A column whose type is not in `populated`, and one that goes on from a column that is not in `before`, is left out.

    Args:
        data: the bytes of the part; a mapped file is read where it is.
        before: the columns of the state that the blob starts at; None for a snapshot.
        populated: by type, the records of the state that the blob leads to.
        tag: the tag of that state.
        origin_tag: the tag of the state that the blob starts at; None for a snapshot.
        columns: those that are wanted, by type and field; None: all.
        limits: bounds on what the bytes may ask for.
        name: the file, for errors.
        check: compare each column with the checksum that its producer noted.

    Raises:
        DecodeError: the bytes are no vector part, or one of another blob (`BadPart`).
    """
    part = data if isinstance(data, VectorPart) else read_part(data, limits=limits, name=name)
    header = part.header
    wrong_base = header.delta != (origin_tag is not None) or (header.delta and header.origin_tag != origin_tag)
    if wrong_base or header.destination_tag != tag:
        way = f"{header.origin_tag:016x} to {header.destination_tag:016x}"
        raise fault("BadPart", f"this part leads from {way}: it belongs to another blob", part.name)
    made: dict[ColumnKey, StoredVectors] = {}
    for reader in part.columns():
        head = reader.head
        base = (before or {}).get(head.key)
        wanted = head.type_name in populated and (columns is None or head.key in columns)
        if not wanted or (base is None and not head.from_nothing):
            continue
        if head.from_nothing or base is None:
            base = StoredVectors.empty(head.dimensions)
        elif base.dimensions != head.dimensions:
            reason = f"column {head.key} of {head.dimensions} dimensions goes on from one of {base.dimensions}"
            raise fault("DimensionMismatch", reason, part.name)
        made[head.key] = _applied(reader, base, populated[head.type_name], part, made, check=check)
    return made


def _applied(
    reader: ColumnReader,
    base: StoredVectors,
    populated: OrdinalSet,
    part: VectorPart,
    made: Mapping[ColumnKey, StoredVectors],
    *,
    check: bool,
) -> StoredVectors:
    head, name = reader.head, part.name
    size = populated.max() + 1
    there = populated.flags(size)
    if head.rows > len(populated):
        raise fault("MalformedPart", f"column {head.key} has more vectors than its type has records", name)
    _check_room(head, populated, part, made)
    based = base.present.flags(size) & there
    _remove(head, based, size, name)
    _check_moves(head, base, based, there, name)
    edit = VectorEdit(base)
    edit.move(head.origins, head.targets)
    based[head.targets] = True
    present, seen = based.copy(), np.zeros(size, np.bool_)
    for fresh, frame in reader.frames():
        for section in frame.sections:
            rows = section.row_ids
            if int(rows[-1]) >= size or not bool(there[rows].all()):
                raise fault("IndexOutOfRange", f"column {head.key}: a vector of an ordinal without a record", name)
            if bool(seen[rows].any()):
                raise fault("DuplicateRow", f"column {head.key}: a vector stands there twice", name)
            seen[rows] = True
            if fresh:
                if frame.relative or section.format is not Format.DENSE or bool(based[rows].any()):
                    raise fault("MalformedPart", f"column {head.key}: a new vector that goes on from an old one", name)
                present[rows] = True
            elif not bool(based[rows].all()):
                raise fault("BaseMismatch", f"column {head.key}: a change of a vector that is not there", name)
            _write_section(edit, frame, section)
    column = edit.finish(OrdinalSet.from_ordinals(np.flatnonzero(present)))
    if len(column) != head.rows:
        raise fault("MalformedPart", f"column {head.key} has {len(column):,} vectors, not {head.rows:,}", name)
    if check and column.checksum() != head.checksum:
        raise fault("ChecksumMismatch", f"column {head.key} is not what its producer had", name)
    return column


def _remove(head: ColumnHead, based: NDArray[np.bool_], size: int, name: str) -> None:
    if head.removed.last >= size:
        raise fault("IndexOutOfRange", f"column {head.key}: ordinal {head.removed.last} has no record", name)
    gone = head.removed.ordinals()
    if not bool(based[gone].all()):
        raise fault("BaseMismatch", f"column {head.key}: a vector goes that is not there", name)
    based[gone] = False


def _check_moves(
    head: ColumnHead, base: StoredVectors, based: NDArray[np.bool_], there: NDArray[np.bool_], name: str
) -> None:
    if not len(head.targets):
        return
    if int(head.targets[-1]) >= len(there) or not bool(there[head.targets].all()):
        raise fault("IndexOutOfRange", f"column {head.key}: a vector moves to an ordinal without a record", name)
    if bool(based[head.targets].any()):
        raise fault("DuplicateRow", f"column {head.key}: a vector moves where another one stays", name)
    held = base.present.flags(base.present.max() + 1)
    if int(head.origins.max()) >= len(held) or not bool(held[head.origins].all()):
        raise fault("BaseMismatch", f"column {head.key}: a vector moves that is not there", name)


def _check_room(
    head: ColumnHead, populated: OrdinalSet, part: VectorPart, made: Mapping[ColumnKey, StoredVectors]
) -> None:
    """Refuse a column that cannot fit, before its memory is taken: by the chunks that its records may need."""
    limit = part.limits.max_state_bytes
    if limit is None:
        return
    words = CHUNK_ROWS // 64
    used = np.add.reduceat(populated.words != 0, np.arange(0, len(populated.words), words)) if populated else ()
    chunks = min(int(np.count_nonzero(used)), head.rows)
    needed = chunks * CHUNK_ROWS * head.dimensions * 4 + sum(column.nbytes for column in made.values())
    if needed > limit:
        reason = f"column {head.key} would take up to {needed:,} bytes, limit is {limit:,}"
        raise LimitError("Limit", reason, part.name)


def _write_section(edit: VectorEdit, frame: Frame, section: Section) -> None:
    """Write the rows of a section, chunk by chunk: arrays of a section stay whole, offsets tell where a row starts."""
    for number, places in by_chunk(section.row_ids):
        assert isinstance(places, slice)
        chunk = edit.chunk(number).view(np.uint32)
        rows: Ordinals = section.row_ids[places] & CHUNK_ROWS - 1
        bounds = slice(places.start, places.stop + 1)
        if section.gaps is not None:
            vectors.apply_sparse(chunk, rows, section.offsets[bounds], section.gaps, section.words, frame.relative)
        elif section.run_offsets is not None and section.run_gaps is not None and section.run_lengths is not None:
            first = int(section.offsets[places.start])
            vectors.apply_runs(
                chunk,
                rows,
                section.run_offsets[bounds],
                section.run_gaps,
                section.run_lengths,
                section.words[first:],
                frame.relative,
            )
        else:
            words = section.words.reshape(-1, frame.dims)[places].reshape(-1)
            vectors.apply_dense(chunk, rows, words, frame.relative)

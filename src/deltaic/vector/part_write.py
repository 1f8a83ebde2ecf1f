"""Writing vector parts: what leads from the vector columns of one state to those of another.

Pieces of bytes come out one after another, so that a part of many gigabytes is never held. The same columns give the
same bytes, whoever made their chunks.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.vector_column import CHUNK_ROWS, Ordinals, StoredVectors, is_shared_zero, present_in
from deltaic.vector.frames import FRAME_VALUE_BYTES, dense_frames, frame_rows, lossless_of
from deltaic.vector.layout import END_OF_FRAMES, ColumnHead, PartHeader
from deltaic.vector.lossy import exact_frames
from deltaic.vector.numbers import Runs
from deltaic.wire.vectors import FRAME_OPTIONS, EncodeOptions, encode_batch, smaller_form

ColumnKey = tuple[str, str]
Matrix = NDArray[np.float32]

_MOST_MATRIX_BYTES = 32 << 20
_SAMPLED_ROWS = 256
_ROW_BYTES = 16
_CHANGE_BYTES = 5


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """Vectors that go with their keys from one ordinal to another."""

    origins: Ordinals = field(default_factory=lambda: np.zeros(0, np.int64))
    targets: Ordinals = field(default_factory=lambda: np.zeros(0, np.int64))
    """As many as origins, in any order."""

    def reversed(self) -> "Moves":
        """The way back."""
        return Moves(self.targets, self.origins)


@dataclass(frozen=True, slots=True, eq=False)
class ColumnStep:
    """One column of a part: its head, the frames of new vectors, and the frames of changed ones."""

    head: ColumnHead
    fresh: Iterable[bytes]
    changed: Iterable[bytes]

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the column."""
        yield self.head.to_bytes()
        yield from self.fresh
        yield END_OF_FRAMES
        yield from self.changed
        yield END_OF_FRAMES


def encode_snapshot_part(
    columns: Mapping[ColumnKey, StoredVectors],
    tag: int,
    *,
    options: Mapping[ColumnKey, EncodeOptions] | None = None,
) -> bytes:
    """The vector part of a snapshot: all vectors of these columns.

    Args:
        columns: by type and field.
        tag: the state tag of the snapshot.
        options: per column, how frames are packed; a quantization is used for rows that it loses nothing of.
    """
    return b"".join(snapshot_pieces(columns, tag, options=options))


def snapshot_pieces(
    columns: Mapping[ColumnKey, StoredVectors],
    tag: int,
    *,
    options: Mapping[ColumnKey, EncodeOptions] | None = None,
) -> Iterator[bytes]:
    """The same, piece by piece."""
    chosen = options or {}
    steps = (
        whole_column(key, column, options=chosen.get(key, FRAME_OPTIONS)) for key, column in sorted(columns.items())
    )
    return part_pieces(PartHeader(False, len(columns), 0, tag), steps)


def encode_delta_part(
    before: Mapping[ColumnKey, StoredVectors],
    after: Mapping[ColumnKey, StoredVectors],
    moves: Mapping[str, Moves],
    from_tag: int,
    to_tag: int,
    populated: Mapping[str, OrdinalSet],
    *,
    options: Mapping[ColumnKey, EncodeOptions] | None = None,
) -> bytes:
    """The vector part of a delta or a reverse delta. Nothing is lost.

    Args:
        before: the columns of the state that the delta starts at.
        after: those of the state that it leads to.
        moves: by type, which new record has the key of which old one.
        from_tag: the tag of the state that the delta starts at.
        to_tag: the tag of the state that it leads to.
        populated: by type, the records of the state that it leads to.
        options: per column, how frames are packed.
    """
    return b"".join(delta_pieces(before, after, moves, from_tag, to_tag, populated, options=options))


def delta_pieces(
    before: Mapping[ColumnKey, StoredVectors],
    after: Mapping[ColumnKey, StoredVectors],
    moves: Mapping[str, Moves],
    from_tag: int,
    to_tag: int,
    populated: Mapping[str, OrdinalSet],
    *,
    options: Mapping[ColumnKey, EncodeOptions] | None = None,
) -> Iterator[bytes]:
    """The same, piece by piece."""
    chosen = options or {}
    steps = (
        column_step(
            key,
            before.get(key),
            column,
            moves.get(key[0], Moves()),
            populated.get(key[0], EMPTY),
            options=chosen.get(key, FRAME_OPTIONS),
        )
        for key, column in sorted(after.items())
    )
    return part_pieces(PartHeader(True, len(after), from_tag, to_tag), steps)


def part_pieces(header: PartHeader, steps: Iterable[ColumnStep]) -> Iterator[bytes]:
    """A part from its columns, which come in the order of their types and fields."""
    yield header.to_bytes()
    for step in steps:
        yield from step.pieces()


def whole_column(key: ColumnKey, column: StoredVectors, *, options: EncodeOptions = FRAME_OPTIONS) -> ColumnStep:
    """A column that starts empty."""
    head = ColumnHead(*key, column.dimensions, len(column), column.checksum(), from_nothing=True)
    return ColumnStep(head, _fresh_frames(column, column.present.ordinals(), options), ())


def column_step(
    key: ColumnKey,
    before: StoredVectors | None,
    after: StoredVectors,
    moves: Moves,
    populated: OrdinalSet,
    *,
    options: EncodeOptions = FRAME_OPTIONS,
) -> ColumnStep:
    """A column that goes on from the one before; whole if there is none, or one of other dimensions."""
    if before is None or before.dimensions != after.dimensions:
        return whole_column(key, after, options=options)
    plan = StepPlan.of(before, after, moves, populated)
    head = ColumnHead(
        *key,
        after.dimensions,
        len(after),
        after.checksum(),
        removed=Runs.of(plan.removed),
        origins=plan.origins,
        targets=plan.targets,
    )
    return ColumnStep(
        head,
        _fresh_frames(after, plan.fresh.ordinals(), options),
        _changed_frames(before, after, plan, options),
    )


@dataclass(frozen=True, slots=True, eq=False)
class StepPlan:
    """Which vectors of the next column come from where."""

    kept: OrdinalSet
    """Ordinals whose record stays and had a vector."""
    removed: OrdinalSet
    """Those of them that have none afterwards."""
    origins: Ordinals
    targets: Ordinals
    """Vectors that move, by rising target."""
    fresh: OrdinalSet
    """Vectors without a base."""

    @classmethod
    def of(cls, before: StoredVectors, after: StoredVectors, moves: Moves, populated: OrdinalSet) -> "StepPlan":
        """The plan between two columns."""
        if after.present.difference(populated):
            raise InputError("a vector of an ordinal that has no record", "OutOfRange")
        kept = before.present.intersection(populated)
        order = np.argsort(moves.targets, kind="stable")
        origins, targets = moves.origins[order], moves.targets[order]
        useful = (
            before.present.flags(_size(origins))[origins]
            & after.present.flags(_size(targets))[targets]
            & ~kept.flags(_size(targets))[targets]
        )
        origins, targets = origins[useful], targets[useful]
        if len(targets) > 1 and bool((targets[1:] == targets[:-1]).any()):
            raise InputError("two vectors move to one ordinal", "DuplicateRow")
        fresh = after.present.difference(kept).difference(OrdinalSet.from_ordinals(targets))
        return cls(kept, kept.difference(after.present), origins, targets, fresh)

    def sources(self, ordinals: Ordinals) -> Ordinals:
        """Where the column before has the base of ordinals that are not fresh."""
        found = ordinals.copy()
        if len(self.targets):
            places = np.minimum(np.searchsorted(self.targets, ordinals), len(self.targets) - 1)
            moved = self.targets[places] == ordinals
            found[moved] = self.origins[places[moved]]
        return found

    def changed(self, before: StoredVectors, after: StoredVectors) -> Ordinals:
        """The ordinals whose vector is another one than its base, rising."""
        found: list[Ordinals] = []
        staying = self.kept.difference(self.removed)
        for number, chunk in enumerate(after.chunks):
            first = number * CHUNK_ROWS
            stays = present_in(staying, number)
            if number < len(before.chunks) and chunk is before.chunks[number]:
                stays[:] = False
            moved = self.targets[slice(*np.searchsorted(self.targets, [first, first + CHUNK_ROWS]))]
            if not len(moved) and stays.any() and not is_shared_zero(chunk):
                # The base is the same row of the chunk before, if there is one: all of its rows are there then.
                differs = (chunk.view(np.uint32) != before.chunks[number].view(np.uint32)).any(axis=1)
                found.append(np.flatnonzero(differs & stays) + first)
                continue
            stays[moved - first] = True
            places = np.flatnonzero(stays)
            if len(places):
                base = before.rows(self.sources(places + first)).view(np.uint32)
                rows = chunk[places].view(np.uint32)
                found.append(places[(rows != base).any(axis=1)] + first)
        return np.concatenate(found) if found else np.zeros(0, np.int64)


def _fresh_frames(column: StoredVectors, ordinals: Ordinals, options: EncodeOptions) -> Iterator[bytes]:
    step = frame_rows(column.dimensions)
    for start in range(0, len(ordinals), step):
        here = ordinals[start : start + step]
        if options.lossy:
            yield from exact_frames(column.rows(here), here, options)
        else:
            yield from dense_frames(column.rows(here), here, options)


def _changed_frames(
    before: StoredVectors, after: StoredVectors, plan: StepPlan, options: EncodeOptions
) -> Iterator[bytes]:
    ordinals = plan.changed(before, after)
    most = max(1, _MOST_MATRIX_BYTES // (4 * after.dimensions))
    lossless = lossless_of(options)
    start = 0
    while start < len(ordinals):
        here = ordinals[start : start + most]
        sample = here[:: max(1, len(here) // _SAMPLED_ROWS)]
        old, new = before.rows(plan.sources(sample)), after.rows(sample)
        here = here[: _rows_of_changes(old, new)]
        form = smaller_form(old, new, lossless)
        yield encode_batch(before.rows(plan.sources(here)), after.rows(here), here, options=form)
        start += len(here)


def _rows_of_changes(old: Matrix, new: Matrix) -> int:
    """How many rows a frame has, if the others change as much as these."""
    changes = int((old.view(np.uint32) != new.view(np.uint32)).sum())
    return max(1, FRAME_VALUE_BYTES * len(old) // (len(old) * _ROW_BYTES + changes * _CHANGE_BYTES))


def _size(ordinals: Ordinals) -> int:
    return int(ordinals.max(initial=-1)) + 1

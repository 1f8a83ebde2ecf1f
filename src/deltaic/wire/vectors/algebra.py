"""Frames that are composed or turned round, row by row as single deltas are (vector-delta.md, "apply, compose, undo").

    compose_batch(first, second)   one step with the effect of both
    inverse_batch(frames)          the way back

No Python runs per row. The result has at most three frames: differences, values with what was there before, and values
without. A row is dense if it has all dimensions, else the smaller of runs and sparse.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.cursor import ReadableBuffer
from deltaic.wire.vectors.bounds import DEFAULT_VECTOR_LIMITS, VectorLimits
from deltaic.wire.vectors.dictionary import Dictionaries
from deltaic.wire.vectors.faults import misuse
from deltaic.wire.vectors.frame import Frame
from deltaic.wire.vectors.frame_read import read_frames
from deltaic.wire.vectors.frame_write import write_frame
from deltaic.wire.vectors.layout import Array, Column, Type
from deltaic.wire.vectors.message import unzigzag, zigzag
from deltaic.wire.vectors.options import FRAME_OPTIONS, EncodeOptions, Flag, Format

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Words = NDArray[np.uint32]
Frames = ReadableBuffer | Frame | Iterable[Frame]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """Deltas of many rows, entry by entry: rows rise, and so do the dimensions of a row."""

    dims: int
    ids: Numbers
    relative: Mask
    """By row."""
    has_prev: Mask
    """By row."""
    places: Numbers
    """By entry: which row."""
    indices: Numbers
    words: Words
    """New patterns, or differences."""
    prev: Words


def compose_batch(
    first: Frames,
    second: Frames,
    *,
    prune: bool = False,
    options: EncodeOptions = FRAME_OPTIONS,
    dictionaries: Dictionaries = None,
    limits: VectorLimits = DEFAULT_VECTOR_LIMITS,
) -> bytes:
    """Frames with the effect of the first and then the second, without loss.

    Args:
        first: bytes of frames, or frames that were read.
        second: what is applied afterwards.
        prune: drop entries that are known to change nothing.
        options: how buffers are packed.
        dictionaries: where patterns are looked up.
        limits: what bytes may ask for.

    Raises:
        DecodeError: the bytes are no frames.
        InputError: `DimensionMismatch`; `NotComposable` where a row would be half relative; `DuplicateRow`.
    """
    one, two = (_flat(_read(frames, dictionaries, limits)) for frames in (first, second))
    if one is None or two is None:
        known = two if one is None else one
        return b"" if known is None else _written(_pruned(known) if prune else known, options)
    if one.dims != two.dims:
        raise misuse("DimensionMismatch", f"frames of {one.dims} and of {two.dims} dimensions")
    made = _composed(one, two)
    return _written(_pruned(made) if prune else made, options)


def inverse_batch(
    frames: Frames,
    *,
    options: EncodeOptions = FRAME_OPTIONS,
    dictionaries: Dictionaries = None,
    limits: VectorLimits = DEFAULT_VECTOR_LIMITS,
) -> bytes:
    """The frames that lead back.

    Raises:
        DecodeError: the bytes are no frames.
        InputError: `NotInvertible`, for values of which it is not known what was there before.
    """
    rows = _flat(_read(frames, dictionaries, limits))
    if rows is None:
        return b""
    counts = np.bincount(rows.places, minlength=len(rows.ids))
    lost = np.flatnonzero(~rows.relative & ~rows.has_prev & (counts > 0))
    if len(lost):
        raise misuse("NotInvertible", f"row {rows.ids[lost[0]]}: values without previous ones cannot be undone")
    relative = rows.relative[rows.places]
    words = np.where(relative, np.uint32(0) - rows.words, rows.prev)
    return _written(
        _Rows(rows.dims, rows.ids, rows.relative, rows.has_prev, rows.places, rows.indices, words, rows.words), options
    )


def _read(frames: Frames, dictionaries: Dictionaries, limits: VectorLimits) -> list[Frame]:
    if isinstance(frames, Frame):
        return [frames]
    if isinstance(frames, bytes | bytearray | memoryview | mmap):
        return list(read_frames(frames, dictionaries=dictionaries, limits=limits))
    return list(frames)


def _flat(frames: list[Frame]) -> _Rows | None:
    """All rows of some frames by rising id; None if there are no frames."""
    if not frames:
        return None
    dims = frames[0].dims
    if any(frame.dims != dims for frame in frames):
        raise misuse("DimensionMismatch", "frames of different dimensions")
    pieces = [(frame, section) for frame in frames for section in frame.sections]
    ids = np.concatenate([np.zeros(0, np.int64), *(section.row_ids for _, section in pieces)])
    order = np.argsort(ids, kind="stable")
    ids = ids[order]
    if len(ids) > 1 and bool((ids[1:] == ids[:-1]).any()):
        raise misuse("DuplicateRow", "a row is in two frames of one step")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    relative, has_prev = np.zeros(len(ids), np.bool_), np.zeros(len(ids), np.bool_)
    places: list[Numbers] = [np.zeros(0, np.int64)]
    indices: list[Numbers] = [np.zeros(0, np.int64)]
    words: list[Words] = [np.zeros(0, np.uint32)]
    prev: list[Words] = [np.zeros(0, np.uint32)]
    start = 0
    for frame, section in pieces:
        here = place[start : start + len(section)]
        start += len(section)
        relative[here], has_prev[here] = frame.relative, section.prev is not None
        places.append(np.repeat(here, np.diff(section.offsets)))
        indices.append(section.indices(dims).astype(np.int64))
        words.append(unzigzag(section.words) if frame.relative else section.words)
        prev.append(np.zeros(len(section.words), np.uint32) if section.prev is None else section.prev)
    joined = np.concatenate(places)
    by_row = np.argsort(joined, kind="stable")
    entries = np.concatenate(indices)[by_row], np.concatenate(words)[by_row], np.concatenate(prev)[by_row]
    return _Rows(dims, ids, relative, has_prev, joined[by_row], *entries)


def _composed(first: _Rows, second: _Rows) -> _Rows:
    ids = np.union1d(first.ids, second.ids)
    one, two = _Aligned.of(first, ids), _Aligned.of(second, ids)
    keys = np.union1d(one.keys, two.keys)
    places, indices = np.divmod(keys, first.dims)
    in_one, in_two = np.zeros(len(keys), np.bool_), np.zeros(len(keys), np.bool_)
    at_one, at_two = np.searchsorted(keys, one.keys), np.searchsorted(keys, two.keys)
    in_one[at_one], in_two[at_two] = True, True
    words_one, words_two, prev_one, prev_two = (np.zeros(len(keys), np.uint32) for _ in range(4))
    words_one[at_one], words_two[at_two] = first.words, second.words
    prev_one[at_one], prev_two[at_two] = first.prev, second.prev
    both = one.used & two.used
    _refuse_halves(ids, places, both & ~one.relative & two.relative, in_two & ~in_one, "first", "second")
    _refuse_halves(ids, places, both & one.relative & ~two.relative, in_one & ~in_two, "second", "first")
    added = in_one & in_two & two.relative[places]
    words = np.where(added, words_one + words_two, np.where(in_two, words_two, words_one))
    relative = np.where(both, one.relative & two.relative, np.where(two.used, two.relative, one.relative))
    # What was there before both: what the first says, or the second where the first leaves a dimension alone; where
    # the first is a difference, what the second says less that difference.
    through = both & one.relative & ~two.relative
    from_two = np.where(through[places] & in_one, prev_two - words_one, prev_two)
    take_one = in_one & ~through[places]
    prev = np.where(take_one, prev_one, from_two)
    known = np.where(take_one, one.has_prev[places], two.has_prev[places])
    has_prev = ~relative & (np.bincount(places, ~known, minlength=len(ids)) == 0)
    has_prev &= np.bincount(places, minlength=len(ids)) > 0
    return _Rows(first.dims, ids, relative, has_prev, places, indices, words, prev)


@dataclass(frozen=True, slots=True, eq=False)
class _Aligned:
    """Rows by their places in the union of two."""

    keys: Numbers
    used: Mask
    """Rows with an entry: one without changes nothing."""
    relative: Mask
    has_prev: Mask

    @classmethod
    def of(cls, rows: _Rows, ids: Numbers) -> "_Aligned":
        at = np.searchsorted(ids, rows.ids)
        used, relative, has_prev = (np.zeros(len(ids), np.bool_) for _ in range(3))
        relative[at], has_prev[at] = rows.relative, rows.has_prev
        places = at[rows.places]
        used[places] = True
        return cls(places * rows.dims + rows.indices, used, relative, has_prev)


def _refuse_halves(ids: Numbers, places: Numbers, mixed: Mask, lacking: Mask, one: str, two: str) -> None:
    wrong = np.flatnonzero(mixed[places] & lacking)
    if len(wrong):
        reason = f"row {ids[places[wrong[0]]]}: the {one} delta is absolute and lacks dimensions of the {two}"
        raise misuse("NotComposable", reason)


def _pruned(rows: _Rows) -> _Rows:
    relative, has_prev = rows.relative[rows.places], rows.has_prev[rows.places]
    kept = np.where(relative, rows.words != 0, ~has_prev | (rows.words != rows.prev))
    arrays = (each[kept] for each in (rows.places, rows.indices, rows.words, rows.prev))
    return _Rows(rows.dims, rows.ids, rows.relative, rows.has_prev, *arrays)


def _written(rows: _Rows, options: EncodeOptions) -> bytes:
    used = np.bincount(rows.places, minlength=len(rows.ids)) > 0
    groups = (
        (Flag.RELATIVE, used & rows.relative),
        (Flag.HAS_PREV, used & ~rows.relative & rows.has_prev),
        (Flag(0), used & ~rows.relative & ~rows.has_prev),
    )
    frames = [_frame(rows, chosen, flags, options) for flags, chosen in groups if chosen.any()]
    return b"".join(frames) or write_frame(rows.dims, 0, 0, {}, Type.F32, options)


def _frame(rows: _Rows, chosen: Mask, flags: Flag, options: EncodeOptions) -> bytes:
    inside = chosen[rows.places]
    numbers = np.cumsum(chosen) - 1
    places, indices = numbers[rows.places[inside]], rows.indices[inside]
    words, prev, ids = rows.words[inside], rows.prev[inside], rows.ids[chosen]
    counts = np.bincount(places, minlength=len(ids))
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)[:-1]])
    gaps = np.diff(indices, prepend=0)
    gaps[before] = indices[before]
    # A run starts where a row does, and where a dimension does not follow the one before it.
    begins = np.zeros(len(indices), np.bool_)
    begins[before] = True
    runs = np.flatnonzero(begins | (gaps != 1))
    run_places, run_lengths = places[runs], np.diff(runs, append=len(indices))
    run_gaps = gaps[runs] - ~begins[runs]
    run_counts = np.bincount(run_places, minlength=len(ids))
    sparse_bytes = _uleb(counts) + np.bincount(places, _uleb(gaps), minlength=len(ids))
    run_bytes = _uleb(run_counts) + np.bincount(run_places, _uleb(run_gaps) + _uleb(run_lengths), minlength=len(ids))
    form = np.where(run_bytes <= sparse_bytes, int(Format.RUNS), int(Format.SPARSE))
    form[counts == rows.dims] = Format.DENSE
    columns: dict[tuple[int, int], Array] = {}
    for section in (Format.SPARSE, Format.DENSE, Format.RUNS):
        own = form == section
        if not own.any():
            continue
        entries = own[places]
        columns[section, Column.ROW_IDS] = ids[own]
        columns[section, Column.VALUES] = zigzag(words[entries]) if flags & Flag.RELATIVE else words[entries]
        if flags & Flag.HAS_PREV:
            columns[section, Column.PREV] = prev[entries]
        if section is Format.SPARSE:
            columns[section, Column.OFFSETS] = _offsets(counts[own])
            columns[section, Column.GAPS] = gaps[entries].astype(np.uint32)
        elif section is Format.RUNS:
            of_rows = own[run_places]
            columns[section, Column.RUN_OFFSETS] = _offsets(run_counts[own])
            columns[section, Column.RUN_GAPS] = run_gaps[of_rows].astype(np.uint32)
            columns[section, Column.RUN_LENGTHS] = run_lengths[of_rows].astype(np.uint32)
    value_type = Type.U32 if flags & Flag.RELATIVE else Type.F32
    return write_frame(rows.dims, int(flags), len(ids), columns, value_type, options)


def _offsets(counts: Numbers) -> Numbers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _uleb(numbers: Numbers) -> Numbers:
    """How many bytes numbers take as uleb."""
    lengths = np.ones(len(numbers), np.int64)
    for more in range(1, 5):
        lengths += numbers >= 1 << 7 * more
    return lengths

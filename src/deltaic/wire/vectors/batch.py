"""Many rows at once: frames from two matrices, and frames put into a matrix (vector-delta.md, "batch frames").

No Python runs per row. Everything is checked before the matrix changes: it is either the old or the new one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from mmap import mmap

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.cursor import ReadableBuffer
from deltaic.errors import InputError
from deltaic.kernels import vectors
from deltaic.wire.vectors.bounds import DEFAULT_VECTOR_LIMITS, VectorLimits
from deltaic.wire.vectors.dictionary import Dictionaries, Dictionary
from deltaic.wire.vectors.faults import misuse
from deltaic.wire.vectors.frame import Frame, Section
from deltaic.wire.vectors.frame_read import read_frames
from deltaic.wire.vectors.frame_write import write_frame
from deltaic.wire.vectors.layout import VALUE_TYPES, Array, Column, Type
from deltaic.wire.vectors.options import FRAME_OPTIONS, EncodeOptions, Flag, Format, Mode, NonFinite

Matrix = NDArray[np.float32]
RowIds = NDArray[np.int64]

_LOOKED_AT_ROWS = 4096
_SAMPLED_ROWS = 1024

FRAME_BYTES = 256 << 20
"""The most memory that the values of one frame's rows may take in a matrix; more rows become more frames."""


def encode_batch(
    old: Matrix,
    new: Matrix,
    rows: RowIds | None = None,
    *,
    options: EncodeOptions = FRAME_OPTIONS,
    dictionary: Dictionary | None = None,
) -> bytes:
    """The frames that lead from the rows of one matrix to those of the other.

    Mostly that is one frame. Rows that the asked-for quantization cannot hold go into a second one, and matrices over
    256 MiB are cut; `read_frames` and `apply_batch` take them one after another.

    Args:
        old: what the reader has, (n, dims) float32. With a lossy option that is not what the writer had: see
            `BatchWriter`.
        new: what it should have.
        rows: the ids of the n rows, rising from 0 or more; their places if left out.
        options: what counts as a change, what may be lost, how buffers are packed.
        dictionary: a published version that the reader has too, for rows that match a pattern exactly.

    Raises:
        InputError: `DimensionMismatch`, `InvalidDims`, `LimitExceeded`, `IndexOrder` of the rows, or `NonFinite`.
    """
    return b"".join(encode_frames(old, new, rows, options=options, dictionary=dictionary))


def encode_frames(
    old: Matrix,
    new: Matrix,
    rows: RowIds | None = None,
    *,
    options: EncodeOptions = FRAME_OPTIONS,
    dictionary: Dictionary | None = None,
) -> Iterator[bytes]:
    """The same, frame by frame."""
    before, after = as_patterns(old, "the old matrix"), as_patterns(new, "the new matrix")
    if before.shape != after.shape:
        raise misuse("DimensionMismatch", f"a matrix of {before.shape} became one of {after.shape}")
    count, dims = before.shape
    check_dims(dims)
    ids = checked_row_ids(rows, count)
    if options.non_finite is NonFinite.REJECT:
        _refuse_non_finite(new, ids)
    patterns = _patterns_for(dictionary, dims, options)
    step = max(1, FRAME_BYTES // (4 * dims))
    made = False
    for start in range(0, max(count, 1), step):
        here = slice(start, start + step)
        columns = vectors.encode_rows(
            before[here],
            after[here],
            ids[here],
            options.epsilon,
            options.thresholds,
            options.value_mode,
            options.max_quant_error or 0.0,
            options.has_prev,
            options.relative,
            patterns,
        )
        last = start + step >= count
        for frame in _frames(dims, columns, options, dictionary, needed=last and not made):
            made = True
            yield frame


def smaller_form(old: Matrix, new: Matrix, options: EncodeOptions = FRAME_OPTIONS) -> EncodeOptions:
    """The options with `relative` set or not, whichever makes the smaller frames of these matrices.

    Judged by at most 1,024 rows that change, spread over the matrix. Only for chains whose versions are checked: a
    relative delta must be applied exactly once, to exactly its base.
    """
    before, after = as_patterns(old, "the old matrix"), as_patterns(new, "the new matrix")
    if before.shape != after.shape:
        raise misuse("DimensionMismatch", f"a matrix of {before.shape} became one of {after.shape}")
    step = max(1, len(before) // _LOOKED_AT_ROWS)
    places = np.arange(0, len(before), step)
    places = places[(before[places] != after[places]).any(axis=1)][:_SAMPLED_ROWS]
    forms = [replace(options, relative=relative) for relative in (False, True)]
    return min(forms, key=lambda form: len(encode_batch(old[places], new[places], options=form)))


def apply_batch(
    frames: ReadableBuffer | Frame | Iterable[Frame],
    matrix: Matrix,
    *,
    row_ids: RowIds | None = None,
    check_prev: bool = False,
    in_place: bool = False,
    dictionaries: Dictionaries = None,
    limits: VectorLimits = DEFAULT_VECTOR_LIMITS,
    name: str = "frames",
) -> Matrix:
    """The matrix after the frames.

    Args:
        frames: bytes of frames, or frames that were read.
        matrix: (n, dims) float32.
        row_ids: the ids of the matrix's rows, rising; their places if left out.
        check_prev: refuse if the matrix does not hold what the frames say it held, where they say it.
        in_place: change the matrix itself, which must be C-contiguous and writable.
        dictionaries: where patterns are looked up.
        limits: what bytes may ask for.
        name: the file, for errors.

    Raises:
        DecodeError: the bytes are no frames.
        InputError: `DimensionMismatch`; `BaseMismatch` if a row is not in the matrix or held something else;
            `DuplicateRow` if two relative frames change a row and previous values would be checked.
    """
    patterns = as_patterns(matrix, "the matrix")
    if isinstance(frames, Frame):
        read = [frames]
    elif isinstance(frames, bytes | bytearray | memoryview | mmap):
        read = list(read_frames(frames, dictionaries=dictionaries, limits=limits, name=name))
    else:
        read = list(frames)
    if in_place and not (matrix.flags.c_contiguous and matrix.flags.writeable):
        raise InputError("a matrix that is changed in place must be C-contiguous and writable")
    targets = [[_targets(frame, section, patterns, row_ids) for section in frame.sections] for frame in read]
    if check_prev:
        _check_prev(read, targets, patterns)
    result = matrix if in_place else np.array(matrix, order="C")
    after = result.view(np.uint32)
    for frame, of_sections in zip(read, targets, strict=True):
        for section, places in zip(frame.sections, of_sections, strict=True):
            _apply_section(frame, section, places, after)
    return result


def check_dims(dims: int) -> None:
    """Refuse a number of dimensions that no frame can have."""
    if not dims:
        raise misuse("InvalidDims", "vectors without dimensions")
    if dims > DEFAULT_VECTOR_LIMITS.max_dims:
        raise misuse("LimitExceeded", f"{dims:,} dimensions, the limit is {DEFAULT_VECTOR_LIMITS.max_dims:,}")


def as_patterns(matrix: Matrix, what: str) -> NDArray[np.uint32]:
    """The patterns of a float32 matrix, its rows side by side.

    Raises:
        InputError: it is something else.
    """
    array = np.asarray(matrix)
    if array.dtype != np.float32 or array.ndim != 2:
        raise InputError(f"{what} is no matrix of float32")
    return np.ascontiguousarray(array).view(np.uint32)


def checked_row_ids(rows: RowIds | None, count: int) -> RowIds:
    """The ids of so many rows, by their places where none are given.

    Raises:
        InputError: they are other than so many, or `IndexOrder`.
    """
    if rows is None:
        return np.arange(count, dtype=np.int64)
    ids = np.ascontiguousarray(rows, np.int64)
    if ids.shape != (count,):
        raise InputError(f"{len(ids)} row ids of {count} rows")
    if count and (ids[0] < 0 or not bool((ids[1:] > ids[:-1]).all())):
        raise misuse("IndexOrder", "row ids must rise, from 0 or more")
    return ids


def _refuse_non_finite(new: Matrix, ids: RowIds) -> None:
    finite = np.isfinite(new)
    if not finite.all():
        row, dimension = np.argwhere(~finite)[0].tolist()
        raise misuse("NonFinite", f"row {ids[row]}: dimension {dimension} is {new[row, dimension]}")


def _patterns_for(
    dictionary: Dictionary | None, dims: int, options: EncodeOptions
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]] | None:
    if dictionary is None:
        return None
    if dictionary.dims != dims:
        raise misuse("DimensionMismatch", f"a matrix of {dims} dimensions, a dictionary of {dictionary.dims}")
    # A section of patterns has no place beside previous values, differences and fewer bits.
    if options.has_prev or options.relative or options.value_mode:
        return None
    return dictionary.arrays()


def _frames(
    dims: int,
    by_mode: list[dict[tuple[int, int], Array]],
    options: EncodeOptions,
    dictionary: Dictionary | None,
    *,
    needed: bool,
) -> Iterator[bytes]:
    """The frame of each mode that has rows, fewest bits first; an empty one if `needed` and there are no rows."""
    for mode in (Mode.INT4, Mode.INT8, Mode.F16, Mode.F32):
        columns = by_mode[mode]
        rows = sum(len(array) for (_, column), array in columns.items() if column == Column.ROW_IDS)
        if not rows:
            continue
        needed = False
        if (Format.DICTIONARY, Column.PATTERNS) in columns and dictionary is not None:
            columns[Format.DICTIONARY, Column.DICT_ID] = np.array([dictionary.dict_id], np.uint64)
            columns[Format.DICTIONARY, Column.DICT_VERSION] = np.array([dictionary.version], np.uint32)
        value_type = Type.U32 if options.relative else VALUE_TYPES[mode]
        yield write_frame(dims, _flags(mode, options), rows, columns, value_type, options)
    if needed:
        yield write_frame(dims, _flags(Mode.F32, options), 0, {}, Type.F32, options)


def _flags(mode: Mode, options: EncodeOptions) -> int:
    flags = Flag.RELATIVE if options.relative else Flag.HAS_PREV if options.has_prev else 0
    return int(flags | (mode << 4 | Flag.QUANTIZED if mode else 0))


def _targets(frame: Frame, section: Section, patterns: NDArray[np.uint32], row_ids: RowIds | None) -> RowIds:
    """Where in the matrix the rows of a section are."""
    if frame.dims != patterns.shape[1]:
        raise misuse("DimensionMismatch", f"a frame of {frame.dims} dimensions on a matrix of {patterns.shape[1]}")
    if row_ids is None:
        if int(section.row_ids[-1]) >= len(patterns):
            raise misuse("BaseMismatch", f"{frame.name}: row {section.row_ids[-1]} of a matrix of {len(patterns)} rows")
        return section.row_ids
    if row_ids.shape != (len(patterns),):
        raise InputError(f"{len(row_ids)} row ids of {len(patterns)} rows")
    places = np.searchsorted(row_ids, section.row_ids)
    known = np.zeros(len(places), np.bool_)
    inside = places < len(row_ids)
    known[inside] = row_ids[places[inside]] == section.row_ids[inside]
    if not known.all():
        raise misuse("BaseMismatch", f"{frame.name}: row {section.row_ids[~known][0]} is not in the matrix")
    return places.astype(np.int64)


def _check_prev(frames: list[Frame], targets: list[list[RowIds]], patterns: NDArray[np.uint32]) -> None:
    seen: RowIds = np.zeros(0, np.int64)
    for frame, of_sections in zip(frames, targets, strict=True):
        for section, places in zip(frame.sections, of_sections, strict=True):
            if section.prev is None:
                continue
            # What an earlier frame of the same call leaves is not known before it is applied.
            if len(np.intersect1d(seen, places)):
                raise misuse("DuplicateRow", "a row is in two frames of which previous values should be checked")
            row = _differing_row(section, places, patterns)
            if row >= 0:
                row_id = section.row_ids[row]
                raise misuse("BaseMismatch", f"{frame.name}: row {row_id} is not what it was before the delta")
        seen = np.union1d(seen, np.concatenate([np.zeros(0, np.int64), *of_sections]))


def _differing_row(section: Section, places: RowIds, patterns: NDArray[np.uint32]) -> int:
    prev = section.prev
    assert prev is not None
    if section.gaps is not None:
        return vectors.differs_sparse(patterns, places, section.offsets, section.gaps, prev)
    if section.run_offsets is not None and section.run_gaps is not None and section.run_lengths is not None:
        return vectors.differs_runs(patterns, places, section.run_offsets, section.run_gaps, section.run_lengths, prev)
    wrong = np.flatnonzero((patterns[places] != prev.reshape(len(places), -1)).any(axis=1))
    return int(wrong[0]) if len(wrong) else -1


def _apply_section(frame: Frame, section: Section, places: RowIds, after: NDArray[np.uint32]) -> None:
    if section.gaps is not None:
        vectors.apply_sparse(after, places, section.offsets, section.gaps, section.words, frame.relative)
    elif section.run_offsets is not None and section.run_gaps is not None and section.run_lengths is not None:
        vectors.apply_runs(
            after, places, section.run_offsets, section.run_gaps, section.run_lengths, section.words, frame.relative
        )
    elif section.known_indices is not None:
        after[np.repeat(places, np.diff(section.offsets)), section.known_indices] = section.words
    else:
        vectors.apply_dense(after, places, section.words, frame.relative)

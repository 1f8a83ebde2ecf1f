"""Vector deltas row by row in plain Python and NumPy: the reference for `_vectors`.

Vectors come as 32-bit patterns. A row's *runs* are the stretches of changed dimensions; sizes, gaps and heads follow
from them (vector-delta.md, "choosing a format"). Modes of values: 0 patterns or zigzag words, 1 f16, 2 int8, 3 int4,
4 the first of int4, int8, f16 that is small and exact enough.
"""

from collections import defaultdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Columns = dict[tuple[int, int], NDArray[Any]]
Patterns = tuple[NDArray[np.int64], Words, Words, Words]
Block = tuple[NDArray[Any], np.float32, int]

NONE, F16, INT8, INT4, AUTO = range(5)
SPARSE, DENSE, RUNS, DICTIONARY = range(4)
ROW_IDS, OFFSETS, GAPS, VALUES, PREV, SCALE, ZERO_POINT, RUN_OFFSETS, RUN_GAPS, RUN_LENGTHS = range(1, 11)
PATTERNS = 13
GOOD, NOT_RISING, OUT_OF_RANGE, CUT, BAD_NUMBER = range(5)

_MOST_ZERO_POINT = 1 << 24
_LEAST_SCALE = 2.0**-126
_LEAST_TOO_LARGE_FOR_F16 = 65520.0
_VALUE_TYPES: tuple[Any, ...] = (np.uint32, np.uint16, np.int8, np.uint8)


def changed_runs(old: Words, new: Words, epsilon: float) -> tuple[Words, Words]:
    """Where each run of changed dimensions starts, and how long it is."""
    changed = old != new
    if epsilon > 0:
        with np.errstate(invalid="ignore"):
            distance = np.abs(_widened(new) - _widened(old))
        changed &= ~(distance <= epsilon)
    edges = np.flatnonzero(np.diff(changed.astype(np.int8), prepend=0, append=0)).astype(np.uint32)
    return edges[::2], edges[1::2] - edges[::2]


def encode_rows(
    old: NDArray[np.uint32],
    new: NDArray[np.uint32],
    row_ids: NDArray[np.int64],
    epsilon: float,
    thresholds: tuple[float, float, float, int] | None,
    mode: int,
    most_error: float,
    prev: bool,
    relative: bool,
    patterns: Patterns | None,
) -> list[Columns]:
    """The columns of the rows that changed, for each mode of values; gaps and run heads are 32 bits wide.

    `thresholds` are those of the rules (sparse, dense, runs, shortest run), None for the smallest size.
    """
    dims = old.shape[1]
    known = _known_patterns(patterns)
    parts: list[defaultdict[tuple[int, int], list[NDArray[Any]]]] = [defaultdict(list) for _ in range(4)]
    for row in range(len(old)):
        starts, lengths = changed_runs(old[row], new[row], epsilon)
        if not len(starts):
            continue
        indices = _members(starts, lengths)
        here = new[row][indices]
        row_id = np.array([row_ids[row]], np.int64)
        match = known.get((indices.tobytes(), here.tobytes()))
        if match is not None:
            parts[NONE][DICTIONARY, ROW_IDS].append(row_id)
            parts[NONE][DICTIONARY, PATTERNS].append(np.array([match], np.uint32))
            continue
        words = _zigzag(here - old[row][indices]) if relative else here
        all_words = _zigzag(new[row] - old[row]) if relative else new[row]
        few_mode, few = _block(words, mode, most_error)
        all_mode, whole = _block(all_words, mode, most_error)
        gap_bytes, head_bytes = _head_sizes(starts, lengths, dims)
        previous = 4 if prev else 0
        few_size = block_size(len(words), few_mode) + previous * len(words)
        all_size = block_size(dims, all_mode) + previous * dims
        section = choose(
            uleb_length(dims) + all_size,
            head_bytes + few_size,
            gap_bytes + few_size,
            thresholds,
            len(indices),
            dims,
            lengths,
        )
        made_mode, made = (all_mode, whole) if section == DENSE else (few_mode, few)
        target = parts[made_mode]
        target[section, ROW_IDS].append(row_id)
        target[section, VALUES].append(made[0])
        if prev:
            target[section, PREV].append(old[row] if section == DENSE else old[row][indices])
        if made_mode in (INT8, INT4):
            target[section, SCALE].append(np.array([made[1]], np.float32))
            target[section, ZERO_POINT].append(np.array([made[2]], np.int32))
        if section == SPARSE:
            target[section, OFFSETS].append(np.array([len(indices)], np.int64))
            target[section, GAPS].append(np.diff(indices, prepend=np.uint32(0)))
        elif section == RUNS:
            target[section, RUN_OFFSETS].append(np.array([len(starts)], np.int64))
            target[section, RUN_GAPS].append(_run_gaps(starts, lengths))
            target[section, RUN_LENGTHS].append(lengths)
    return [_joined(columns, made_mode) for made_mode, columns in enumerate(parts)]


def choose(
    dense_size: int,
    runs_size: int,
    sparse_size: int,
    thresholds: tuple[float, float, float, int] | None,
    count: int,
    dims: int,
    lengths: Words,
) -> int:
    """The section of a row: by the rules where thresholds are given and decide, else the smallest."""
    if thresholds is not None:
        sparse_threshold, dense_threshold, rle_threshold, min_run_length = thresholds
        if count / dims > dense_threshold:
            return DENSE
        if int(lengths[lengths >= min_run_length].sum()) / count > rle_threshold:
            return RUNS
        if count / dims <= sparse_threshold:
            return SPARSE
    if dense_size <= runs_size and dense_size <= sparse_size:
        return DENSE
    return RUNS if runs_size <= sparse_size else SPARSE


def uleb_length(value: int) -> int:
    """Bytes of an unsigned LEB128 number."""
    return max(1, (int(value).bit_length() + 6) // 7)


def block_size(count: int, mode: int) -> int:
    """Bytes of a value block."""
    return (4 * count, 2 * count, 8 + count, 8 + (count + 1) // 2)[mode]


def quantize(words: Words, mode: int) -> Block | None:
    """Values as f16, int8 or nibbles with scale and zero point; None if the mode cannot hold them."""
    values = words.view(np.float32)
    if mode == F16:
        # Widened first: a comparison of f32 with a Python number would be done in f32.
        size = np.abs(_widened(words))
        if bool(np.any(np.isfinite(size) & (size >= _LEAST_TOO_LARGE_FOR_F16))):
            return None
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            half = values.astype(np.float16).view(np.uint16)
        nan = np.isnan(values)
        half = np.where(nan, (words >> 16 & 0x8000 | 0x7E00).astype(np.uint16), half)
        return half, np.float32(0), 0
    lowest, highest = (-128, 127) if mode == INT8 else (-8, 7)
    wide = _widened(words)
    if not bool(np.isfinite(wide).all()):
        return None
    if not len(wide) or wide.min() == wide.max():
        x = float(wide[0]) if len(wide) else 0.0
        scale = np.float32(abs(x)) if x else np.float32(1)
        numbers = np.full(len(wide), (x > 0) - (x < 0), np.int8)
        return (_nibbles(numbers) if mode == INT4 else numbers), scale, 0
    with np.errstate(over="ignore"):
        scale = np.float32((wide.max() - wide.min()) / (highest - lowest))
    if not np.isfinite(scale) or scale < _LEAST_SCALE:
        return None
    zero_point = float(np.rint(lowest - wide.min() / float(scale)))
    if abs(zero_point) > _MOST_ZERO_POINT:
        return None
    numbers = np.clip(np.rint(wide / float(scale)) + zero_point, lowest, highest)
    with np.errstate(over="ignore"):
        back = ((numbers - zero_point) * float(scale)).astype(np.float32)
    if not bool(np.isfinite(back).all()):
        return None
    small = numbers.astype(np.int8)
    return (_nibbles(small) if mode == INT4 else small), scale, int(zero_point)


def dequantize_rows(
    data: NDArray[Any], counts: NDArray[np.int64], scale: NDArray[np.float32], zero_point: NDArray[np.int32], mode: int
) -> tuple[Words, int]:
    """The patterns that value blocks stand for, and the first row that cannot be (-1 if all can).

    Nibbles of each row start on a byte. Rows behind a bad one are not made.
    """
    total = int(counts.sum())
    words = np.zeros(total, np.uint32)
    if mode == F16:
        half = data.view(np.uint16)
        words[:] = half.view(np.float16).astype(np.float32).view(np.uint32)
        nan = half & 0x7FFF > 0x7C00
        words[nan] = (half[nan].astype(np.uint32) & 0x8000) << 16 | np.uint32(0x7FC00000)
        return words, -1
    made = taken = 0
    for row, count in enumerate(counts.tolist()):
        if not (np.isfinite(scale[row]) and scale[row] > 0) or abs(int(zero_point[row])) > _MOST_ZERO_POINT:
            return words, row
        if mode == INT4:
            stored = data[taken : taken + (count + 1) // 2].view(np.uint8)
            taken += (count + 1) // 2
            both = np.stack([stored & 15, stored >> 4], axis=1).reshape(-1)
            if count % 2 and both[-1]:
                return words, row
            numbers = (both[:count].astype(np.int64) ^ 8) - 8
        else:
            numbers = data[taken : taken + count].view(np.int8).astype(np.int64)
            taken += count
        with np.errstate(over="ignore"):
            values = ((numbers.astype(np.float64) - float(zero_point[row])) * float(scale[row])).astype(np.float32)
        if not bool(np.isfinite(values).all()):
            return words, row
        words[made : made + count] = values.view(np.uint32)
        made += count
    return words, -1


def read_gaps(data: NDArray[np.uint8], start: int, count: int, dims: int) -> tuple[Words, int, int]:
    """Indices from LEB128 gaps: the indices, the byte behind them or that of the fault, and the fault (0: none)."""
    indices = np.zeros(min(count, len(data) - start), np.uint32)
    position, index = start, 0
    for place in range(count):
        gap, after, fault = _read_uleb32(data, position)
        if fault:
            return indices, position, fault
        if place and not gap:
            return indices, position, NOT_RISING
        index += gap
        if index >= dims:
            return indices, position, OUT_OF_RANGE
        indices[place] = index
        position = after
    return indices, position, GOOD


def read_runs(data: NDArray[np.uint8], start: int, count: int, dims: int) -> tuple[Words, Words, int, int]:
    """Starts and lengths of runs from LEB128 heads, then as `read_gaps`."""
    room = min(count, (len(data) - start) // 2 + 1)
    starts, lengths = np.zeros(room, np.uint32), np.zeros(room, np.uint32)
    position, end = start, 0
    for place in range(count):
        gap, after, fault = _read_uleb32(data, position)
        if fault:
            return starts, lengths, position, fault
        if place and not gap:
            return starts, lengths, position, NOT_RISING
        position = after
        length, after, fault = _read_uleb32(data, position)
        if fault:
            return starts, lengths, position, fault
        if not length:
            return starts, lengths, position, NOT_RISING
        if end + gap + length > dims:
            return starts, lengths, position, OUT_OF_RANGE
        starts[place], lengths[place] = end + gap, length
        end += gap + length
        position = after
    return starts, lengths, position, GOOD


def check_gaps(offsets: NDArray[np.int64], gaps: NDArray[Any], dims: int) -> tuple[int, int]:
    """The first row whose gaps cannot be, and why (-1 and 0 if all can)."""
    for row in range(len(offsets) - 1):
        index = 0
        for place in range(int(offsets[row]), int(offsets[row + 1])):
            gap = int(gaps[place])
            if not gap and place > offsets[row]:
                return row, NOT_RISING
            index += gap
            if index >= dims:
                return row, OUT_OF_RANGE
    return -1, GOOD


def check_runs(
    offsets: NDArray[np.int64], gaps: NDArray[Any], lengths: NDArray[Any], dims: int
) -> tuple[NDArray[np.int64], int, int]:
    """How many values each row has, the first row whose runs cannot be, and why."""
    counts = np.zeros(len(offsets) - 1, np.int64)
    for row in range(len(offsets) - 1):
        end = 0
        for place in range(int(offsets[row]), int(offsets[row + 1])):
            gap, length = int(gaps[place]), int(lengths[place])
            if (not gap and place > offsets[row]) or not length:
                return counts, row, NOT_RISING
            end += gap + length
            if end > dims:
                return counts, row, OUT_OF_RANGE
            counts[row] += length
    return counts, -1, GOOD


def indices_of_gaps(offsets: NDArray[np.int64], gaps: NDArray[Any]) -> Words:
    """The index of every entry within its row."""
    counts = np.diff(offsets)
    total = np.cumsum(gaps, dtype=np.int64)
    before = np.concatenate([[0], total])[offsets[:-1]]
    indices: NDArray[np.int64] = total - np.repeat(before, counts)
    return indices.astype(np.uint32)


def indices_of_runs(offsets: NDArray[np.int64], gaps: NDArray[Any], lengths: NDArray[Any]) -> Words:
    """The index of every value of runs within its row."""
    both = np.cumsum(gaps.astype(np.int64) + lengths)
    before = np.concatenate([[0], both])[offsets[:-1]]
    ends = both - np.repeat(before, np.diff(offsets))
    return _members((ends - lengths).astype(np.uint32), lengths.astype(np.uint32))


def apply_sparse(
    matrix: NDArray[np.uint32],
    targets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    gaps: NDArray[Any],
    words: Words,
    relative: bool,
) -> None:
    """Put the entries of sparse rows into the rows of a matrix."""
    _apply(matrix, targets, np.diff(offsets), indices_of_gaps(offsets, gaps), words, relative)


def apply_runs(
    matrix: NDArray[np.uint32],
    targets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    gaps: NDArray[Any],
    lengths: NDArray[Any],
    words: Words,
    relative: bool,
) -> None:
    """Put the values of runs into the rows of a matrix."""
    counts = _counts_of_runs(offsets, lengths)
    _apply(matrix, targets, counts, indices_of_runs(offsets, gaps, lengths), words, relative)


def apply_dense(matrix: NDArray[np.uint32], targets: NDArray[np.int64], words: Words, relative: bool) -> None:
    """Put whole rows into a matrix."""
    whole = words.reshape(len(targets), matrix.shape[1])
    if relative:
        matrix[targets] += _unzigzag(whole)
    else:
        matrix[targets] = whole


def differs_sparse(
    matrix: NDArray[np.uint32],
    targets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    gaps: NDArray[Any],
    prev: Words,
) -> int:
    """The first sparse row whose previous values are not those of the matrix; -1 if there is none."""
    return _differs(matrix, targets, np.diff(offsets), indices_of_gaps(offsets, gaps), prev)


def differs_runs(
    matrix: NDArray[np.uint32],
    targets: NDArray[np.int64],
    offsets: NDArray[np.int64],
    gaps: NDArray[Any],
    lengths: NDArray[Any],
    prev: Words,
) -> int:
    """The same for rows of runs."""
    counts = _counts_of_runs(offsets, lengths)
    return _differs(matrix, targets, counts, indices_of_runs(offsets, gaps, lengths), prev)


def to_planes(data: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """All first bytes of the words, then all second bytes, and so on."""
    return np.ascontiguousarray(data.reshape(-1, width).T).reshape(-1)


def from_planes(data: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    """The words again."""
    return np.ascontiguousarray(data.reshape(width, -1).T).reshape(-1)


def _known_patterns(patterns: Patterns | None) -> dict[tuple[bytes, bytes], int]:
    if patterns is None:
        return {}
    offsets, indices, words, ids = patterns
    known: dict[tuple[bytes, bytes], int] = {}
    for place, pattern_id in enumerate(ids.tolist()):
        start, end = int(offsets[place]), int(offsets[place + 1])
        known.setdefault((indices[start:end].tobytes(), words[start:end].tobytes()), pattern_id)
    return known


def _block(words: Words, mode: int, most_error: float) -> tuple[int, Block]:
    """The values in the mode, or in the first that will do, or as they are."""
    plain: Block = (words, np.float32(0), 0)
    if mode == AUTO:
        for tried in (INT4, INT8, F16):
            made = quantize(words, tried)
            if made is None or block_size(len(words), tried) >= 4 * len(words):
                continue
            if worst_error(words, made, tried) <= most_error:
                return tried, made
        return NONE, plain
    found = None if mode == NONE else quantize(words, mode)
    return (NONE, plain) if found is None else (mode, found)


def worst_error(words: Words, block: Block, mode: int) -> float:
    """The largest distance of a value from what its block gives back."""
    counts, scale, zero = np.array([len(words)]), np.array([block[1]], np.float32), np.array([block[2]], np.int32)
    back, _ = dequantize_rows(block[0], counts, scale, zero, mode)
    before, after = _widened(words), _widened(back)
    with np.errstate(invalid="ignore"):
        distance = np.abs(before - after)
    # Infinities and NaN stay what they are.
    distance[~np.isfinite(before)] = 0
    return float(distance.max(initial=0.0))


def _head_sizes(starts: Words, lengths: Words, dims: int) -> tuple[int, int]:
    gaps = _run_gaps(starts, lengths).tolist()
    count = int(lengths.sum())
    first = uleb_length(gaps[0])
    # The step to a later run counts from the last index of the run before, its gap from one past it.
    steps = first + sum(uleb_length(gap + 1) for gap in gaps[1:]) + count - len(gaps)
    heads = sum(uleb_length(gap) for gap in gaps) + sum(uleb_length(length) for length in lengths.tolist())
    dims_bytes = uleb_length(dims)
    return uleb_length(count) + dims_bytes + steps, uleb_length(len(gaps)) + dims_bytes + heads


def _run_gaps(starts: Words, lengths: Words) -> Words:
    ends = starts + lengths
    gaps: Words = starts - np.concatenate([np.zeros(1, np.uint32), ends[:-1]])
    return gaps


def _members(starts: Words, lengths: Words) -> Words:
    """The indices of all runs, in order."""
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    places: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return places.astype(np.uint32)


def _joined(columns: dict[tuple[int, int], list[NDArray[Any]]], mode: int) -> Columns:
    joined: Columns = {}
    for (section, column), parts in columns.items():
        whole = np.concatenate(parts)
        if column in (OFFSETS, RUN_OFFSETS):
            whole = np.concatenate([np.zeros(1, np.int64), np.cumsum(whole)])
        joined[section, column] = whole.astype(_VALUE_TYPES[mode]) if column == VALUES else whole
    return joined


def _widened(words: Words) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):  # what a signalling NaN raises
        return words.view(np.float32).astype(np.float64)


def _zigzag(differences: Words) -> Words:
    return (differences << np.uint32(1)) ^ (differences.view(np.int32) >> 31).view(np.uint32)


def _unzigzag(words: Words) -> Words:
    return (words >> np.uint32(1)) ^ (np.uint32(0) - (words & np.uint32(1)))


def _nibbles(numbers: NDArray[np.int8]) -> NDArray[np.uint8]:
    low = numbers.view(np.uint8) & 15
    if len(low) % 2:
        low = np.append(low, np.uint8(0))
    return (low[::2] | low[1::2] << np.uint8(4)).astype(np.uint8)


def _read_uleb32(data: NDArray[np.uint8], position: int) -> tuple[int, int, int]:
    value = 0
    for length in range(5):
        if position + length >= len(data):
            return 0, position, CUT
        byte = int(data[position + length])
        value |= (byte & 0x7F) << 7 * length
        if byte < 0x80:
            wrong = value > 0xFFFF_FFFF or (length > 0 and not byte)
            return value, position + length + 1, BAD_NUMBER if wrong else GOOD
    return 0, position, BAD_NUMBER


def _counts_of_runs(offsets: NDArray[np.int64], lengths: NDArray[Any]) -> NDArray[np.int64]:
    return np.diff(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[offsets])


def _apply(
    matrix: NDArray[np.uint32],
    targets: NDArray[np.int64],
    counts: NDArray[np.int64],
    indices: Words,
    words: Words,
    relative: bool,
) -> None:
    rows = np.repeat(targets, counts)
    if relative:
        matrix[rows, indices] += _unzigzag(words)
    else:
        matrix[rows, indices] = words


def _differs(
    matrix: NDArray[np.uint32], targets: NDArray[np.int64], counts: NDArray[np.int64], indices: Words, prev: Words
) -> int:
    wrong = np.flatnonzero(matrix[np.repeat(targets, counts), indices] != prev)
    return int(np.repeat(np.arange(len(counts)), counts)[wrong[0]]) if len(wrong) else -1

"""Frames of many rows: what is left out, where rows go, what a failed call leaves."""

import numpy as np
import pytest

from deltaic.errors import DecodeError, InputError
from deltaic.wire.vectors import (
    BatchWriter,
    DictionaryKeeper,
    EncodeOptions,
    Format,
    Mode,
    RefreshOptions,
    apply_batch,
    batch,
    encode_batch,
    encode_frames,
    encode_message,
    read_frame,
    read_frames,
    read_message,
)
from deltaic.wire.vectors.frame import Section


@pytest.fixture
def matrices():
    random = np.random.default_rng(5)
    old = random.standard_normal((60, 48)).astype(np.float32)
    new = old.copy()
    new[3, ::7] += 1
    new[10, 5:25] += 1
    new[20] += 1
    new[59, 0] = np.nan
    return old, new


def same(left, right):
    return left.tobytes() == right.tobytes()


def test_rows_that_do_not_change_are_left_out(matrices):
    frame = read_frame(encode_batch(*matrices))
    assert frame.row_ids.tolist() == [3, 10, 20, 59]
    assert {section.format: section.row_ids.tolist() for section in frame.sections} == {
        Format.SPARSE: [3, 59],
        Format.DENSE: [20],
        Format.RUNS: [10],
    }


def test_each_row_takes_the_format_that_it_has_as_a_message(matrices):
    old, new = matrices
    options = EncodeOptions()
    for row_id, form, delta in read_frame(encode_batch(old, new, options=options)).rows():
        alone = read_message(encode_message(old[row_id], new[row_id], options))
        assert (alone.format, alone.delta) == (form, delta)


def test_nothing_changed_is_one_empty_frame(matrices):
    old, _ = matrices
    data = encode_batch(old, old)
    assert len(data) == 32 and len(read_frame(data)) == 0
    assert same(apply_batch(data, old), old)
    assert len(read_frame(encode_batch(old[:0], old[:0]))) == 0


def test_the_matrix_that_was_given_stays_unless_it_is_to_change(matrices):
    old, new = matrices
    data, before = encode_batch(old, new), old.copy()
    result = apply_batch(data, old)
    assert same(result, new) and same(old, before) and result is not old
    assert apply_batch(data, old, in_place=True) is old
    assert same(old, new)


@pytest.mark.parametrize("damage", ["cut", "last frame", "row", "prev"])
def test_a_call_that_fails_changes_nothing(matrices, damage):
    old, new = matrices
    good = encode_batch(old, new, options=EncodeOptions(include_prev=True))
    matrix, arguments = old.copy(), {}
    match damage:
        case "cut":
            data = good[:-8]
        case "last frame":
            data = good + good[:-1] + b"x"
        case "row":
            data = good + encode_batch(old[:1], old[:1] + 1, np.array([60]))
        case _:
            matrix[20, 47] += 1
            data, arguments = good, {"check_prev": True}
    before = matrix.copy()
    with pytest.raises((DecodeError, InputError)):
        apply_batch(data, matrix, in_place=True, **arguments)
    assert same(matrix, before)


@pytest.mark.parametrize("form", ["sparse", "dense", "runs"])
def test_previous_values_are_checked_in_every_format(form):
    old = np.zeros((4, 30), np.float32)
    new = old.copy()
    places = {"sparse": [1, 9, 20], "dense": list(range(30)), "runs": list(range(5, 15))}[form]
    new[2, places] = 7
    data = encode_batch(old, new, options=EncodeOptions(include_prev=True))
    assert read_frame(data).sections[0].format.name.lower() == form
    assert same(apply_batch(data, old, check_prev=True), new)
    other = old.copy()
    other[2, places[-1]] = -0.0
    with pytest.raises(InputError, match="row 2") as caught:
        apply_batch(data, other, check_prev=True)
    assert caught.value.code == "BaseMismatch"
    assert same(apply_batch(data, other), new)


def test_rows_are_found_by_their_ids(matrices):
    old, new = matrices
    ids = np.arange(60, dtype=np.int64) * 10**12
    data = encode_batch(old, new, ids)
    part = [3, 10, 20, 30, 59]
    assert same(apply_batch(data, old[part], row_ids=ids[part]), new[part])
    with pytest.raises(InputError, match="row 20000000000000 ") as caught:
        apply_batch(data, old[[3, 10, 59]], row_ids=ids[[3, 10, 59]])
    assert caught.value.code == "BaseMismatch"


def test_a_view_with_gaps_between_its_rows_can_be_given(matrices):
    old, new = matrices
    wide_old, wide_new = np.repeat(old, 2, axis=1)[:, ::2], np.asfortranarray(new)
    data = encode_batch(wide_old, wide_new)
    assert data == encode_batch(old, new)
    assert same(apply_batch(data, wide_old), new)
    with pytest.raises(InputError, match="C-contiguous"):
        apply_batch(data, wide_old, in_place=True)
    fixed = old.copy()
    fixed.flags.writeable = False
    assert same(apply_batch(data, fixed), new)
    with pytest.raises(InputError, match="writable"):
        apply_batch(data, fixed, in_place=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, np.int32])
def test_other_numbers_than_float32_are_refused(dtype, matrices):
    old, new = matrices
    with pytest.raises(InputError, match="float32"):
        encode_batch(old.astype(dtype), new)


def test_bytes_that_start_anywhere_can_be_read(matrices):
    old, new = matrices
    data = encode_batch(old, new, options=EncodeOptions(include_prev=True))
    for shift in range(1, 8):
        moved = memoryview(bytes(shift) + data)[shift:]
        assert same(apply_batch(moved, old, check_prev=True), new)


def test_rows_that_a_mode_cannot_hold_go_into_a_second_frame(matrices):
    old, new = matrices
    data = encode_batch(old, new, options=EncodeOptions(quantization="int8"))
    quantized, plain = read_frames(data)
    assert (quantized.mode, quantized.row_ids.tolist()) == (Mode.INT8, [3, 10, 20])
    assert (plain.mode, plain.row_ids.tolist()) == (Mode.F32, [59])
    assert np.isnan(apply_batch(data, old)[59, 0])


def test_auto_makes_one_frame_for_each_mode(matrices):
    old, _ = matrices
    new = old.copy()
    new[1] += np.linspace(0, 1, 48, dtype=np.float32)
    new[2] = np.linspace(-100, 100, 48)
    new[3] = 2.0
    new[4, 7] = 0.3
    options = EncodeOptions(quantization="auto", max_quant_error=0.02)
    frames = list(encode_frames(old, new, options=options))
    modes = {int(row): frame.mode for data in frames for frame in [read_frame(data)] for row in frame.row_ids}
    alone = {row: read_message(encode_message(old[row], new[row], options)).mode for row in range(1, 5)}
    assert modes == alone and len(set(modes.values())) == len(frames) > 2
    assert float(np.abs(apply_batch(b"".join(frames), old) - new).max()) <= 0.02


def test_large_matrices_become_several_frames(matrices, monkeypatch):
    old, new = matrices
    monkeypatch.setattr(batch, "FRAME_BYTES", 48 * 4 * 11)
    data = encode_batch(old, new)
    frames = list(read_frames(data))
    assert [frame.row_ids.tolist() for frame in frames] == [[3, 10], [20], [59]]
    assert same(apply_batch(data, old), new)
    assert len(list(read_frames(encode_batch(old, old)))) == 1


def test_exact_matches_of_patterns_come_first_and_decode_to_the_same(matrices):
    old, new = matrices
    new[30:40, [2, 3, 40]] = [1.5, -2.5, np.inf]
    keeper = DictionaryKeeper(48, dict_id=2**64 - 1)
    for _ in range(2):
        keeper.observe(read_message(encode_message(old[30], new[30])).delta)
    dictionary = keeper.publish().dictionary
    data = encode_batch(old, new, dictionary=dictionary)
    frame = read_frame(data, dictionaries=dictionary)
    patterns: Section = frame.sections[-1]
    assert (patterns.format, patterns.row_ids.tolist()) == (Format.DICTIONARY, list(range(30, 40)))
    assert same(apply_batch(data, old, dictionaries=dictionary), new)
    with pytest.raises(DecodeError) as caught:
        apply_batch(data, old)
    assert caught.value.code == "UnknownDictionary"
    for options in (EncodeOptions(relative=True), EncodeOptions(include_prev=True), EncodeOptions(quantization="f16")):
        other = read_frame(encode_batch(old, new, options=options, dictionary=dictionary))
        assert Format.DICTIONARY not in {section.format for section in other.sections}


def test_a_lossy_column_is_whole_again_after_its_refresh():
    random = np.random.default_rng(8)
    start = random.standard_normal((30, 64)).astype(np.float32)
    writer = BatchWriter(
        start,
        np.arange(30) * 3,
        options=EncodeOptions(quantization="int4", epsilon=0.01),
        refresh=RefreshOptions(refresh_interval=5, refresh_bytes_ratio=None),
    )
    reader, target = start.copy(), start.copy()
    exact = 0
    for step in range(1, 13):
        target = target + random.standard_normal(target.shape).astype(np.float32) / 10
        apply_batch(writer.write(target), reader, row_ids=np.arange(30) * 3, in_place=True)
        assert same(reader, writer.shadow)
        assert same(reader, target) == (step % 6 == 0)
        exact += same(reader, target)
    assert exact == 2 and writer.lengths.tolist() == [0] * 30


def test_a_row_that_is_too_far_off_comes_whole():
    old = np.zeros((3, 32), np.float32)
    new = old.copy()
    new[0] = np.linspace(0, 1e-3, 32)
    new[1] = np.linspace(0, 100, 32)
    writer = BatchWriter(old, options=EncodeOptions(quantization="int8"), refresh=RefreshOptions(max_drift=0.01))
    result = apply_batch(writer.write(new), old)
    assert same(result[1], new[1]) and not same(result[0], new[0])
    assert float(np.abs(result - new).max()) <= 0.01

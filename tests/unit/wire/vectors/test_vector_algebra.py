"""Frames that are composed and undone: what single deltas do, for many rows at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.errors import InputError
from deltaic.wire.vectors import EncodeOptions, VectorDelta, apply_batch, encode_batch, read_frames
from deltaic.wire.vectors.algebra import compose_batch, inverse_batch

ROWS, DIMS = 5, 6
FORMS = [{}, {"relative": True}, {"include_prev": True}]

patterns = st.sampled_from([0, 1, 0x80000000, 0x7FC00001, 0x3F800000, 0x40000000])
matrices = st.lists(patterns, min_size=ROWS * DIMS, max_size=ROWS * DIMS).map(
    lambda words: np.array(words, np.uint32).reshape(ROWS, DIMS).view(np.float32)
)


def deltas(frames: bytes) -> dict[int, VectorDelta]:
    return {row: delta for frame in read_frames(frames) for row, _, delta in frame.rows() if not delta.is_identity}


@settings(max_examples=200, deadline=None)
@given(matrices, matrices, matrices, st.sampled_from(FORMS), st.sampled_from(FORMS), st.booleans())
def test_composed_frames_are_the_composed_deltas_of_their_rows(one, two, three, first_form, second_form, prune):
    ids = np.array([2, 3, 5, 300, 2**40])
    first = encode_batch(one, two, ids, options=EncodeOptions(**first_form))
    second = encode_batch(two, three, ids, options=EncodeOptions(**second_form))
    single, after = deltas(first), deltas(second)
    wanted, failed = {}, False
    identity = VectorDelta(DIMS, np.zeros(0, np.uint32), np.zeros(0, np.uint32))
    for row in single.keys() | after.keys():
        try:
            wanted[row] = single.get(row, identity).then(after.get(row, identity), prune=prune)
        except InputError as error:
            assert error.code == "NotComposable"
            failed = True
    if failed:
        with pytest.raises(InputError) as refused:
            compose_batch(first, second, prune=prune)
        assert refused.value.code == "NotComposable"
        return
    made = compose_batch(first, second, prune=prune, options=EncodeOptions())
    assert deltas(made) == {row: delta for row, delta in wanted.items() if not delta.is_identity}
    assert apply_batch(made, one, row_ids=ids).tobytes() == three.tobytes()


@settings(max_examples=100, deadline=None)
@given(matrices, matrices, st.sampled_from(FORMS[1:]))
def test_frames_and_their_inverse_lead_back(one, two, form):
    frames = encode_batch(one, two, options=EncodeOptions(**form))
    back = inverse_batch(frames)
    assert apply_batch(back, two).tobytes() == one.tobytes()
    assert deltas(back) == {row: delta.inverse() for row, delta in deltas(frames).items()}
    assert deltas(inverse_batch(back)) == deltas(frames)


def test_quantized_values_are_composed_and_undone_as_what_they_decode_to():
    random = np.random.default_rng(3)
    one, two = (random.standard_normal((40, 64)).astype(np.float32) for _ in range(2))
    frames = encode_batch(one, two, options=EncodeOptions(quantization="int8", include_prev=True))
    after = apply_batch(frames, one)
    assert apply_batch(inverse_batch(frames), after).tobytes() == one.tobytes()
    other = after.copy()
    other[:, 3] = 1
    both = compose_batch(frames, encode_batch(after, other))
    assert apply_batch(both, one).tobytes() == other.tobytes()


def test_what_cannot_be_undone_or_composed_is_refused():
    zeros, ones = np.zeros((2, 4), np.float32), np.ones((2, 4), np.float32)
    with pytest.raises(InputError, match="row 0") as refused:
        inverse_batch(encode_batch(zeros, ones))
    assert refused.value.code == "NotInvertible"
    with pytest.raises(InputError) as refused:
        compose_batch(encode_batch(zeros, ones), encode_batch(zeros[:, :3], ones[:, :3]))
    assert refused.value.code == "DimensionMismatch"
    frames = encode_batch(zeros, ones)
    with pytest.raises(InputError) as refused:
        compose_batch(frames + frames, frames)
    assert refused.value.code == "DuplicateRow"


def test_nothing_composed_with_nothing_is_nothing():
    zeros, ones = np.zeros((2, 4), np.float32), np.ones((2, 4), np.float32)
    nothing, frames = encode_batch(ones, ones), encode_batch(zeros, ones)
    assert deltas(compose_batch(nothing, nothing)) == {} == deltas(inverse_batch(nothing))
    assert compose_batch(b"", b"") == b"" == inverse_batch(b"")
    assert deltas(compose_batch(b"", frames)) == deltas(compose_batch(frames, nothing)) == deltas(frames)


def test_many_rows_are_composed_at_once_and_the_smaller_form_is_taken():
    random = np.random.default_rng(5)
    one = random.standard_normal((2_000, 96)).astype(np.float32)
    two, three = one.copy(), one.copy()
    two[:, 5:20] += 1
    three[:, 5:20] += 1
    three[::2, 40] += 1
    three[1::2, 20:30] += 2
    three[:10] += 1
    options = EncodeOptions(relative=True)
    made = compose_batch(encode_batch(one, two, options=options), encode_batch(two, three, options=options))
    assert apply_batch(made, one).tobytes() == three.tobytes()
    (frame,) = read_frames(made)
    assert sorted(section.format.name for section in frame.sections) == ["DENSE", "RUNS"]

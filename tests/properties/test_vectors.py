"""Vector deltas over random vectors with every kind of pattern: exact, composable, undoable, without drift."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.kernels import COMPILED, vectors
from deltaic.kernels.plain import vectors as plain
from deltaic.wire.vectors import (
    BatchWriter,
    EncodeOptions,
    RefreshOptions,
    VectorWriter,
    apply_batch,
    encode_batch,
    encode_delta,
    encode_message,
    read_frames,
    read_message,
    read_stream,
)

SPECIAL = [
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0xFF7FFFFF,
    0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FA00001, 0x7FFFFFFF, 0xFFFFFFFF,
    0x3F800000, 0xBF800000, 0x477FF000, 0x477FEFFF, 0x33000000, 0x33000001, 0x38800000, 0x387FFFFF,
]  # fmt: skip
"""Zeros, denormals, infinities, NaN of both kinds and signs, and the edges of f16."""

words = st.one_of(
    st.sampled_from(SPECIAL),
    st.integers(0, 2**32 - 1),
    st.floats(-2, 2, width=32).map(lambda x: int(np.float32(x).view(np.uint32))),
)


@st.composite
def pairs(draw, most_dims=200):
    """Two versions of a vector: scattered changes, runs, all or nothing."""
    dims = draw(st.one_of(st.integers(1, 20), st.integers(1, most_dims)))
    old = np.array(draw(st.lists(words, min_size=dims, max_size=dims)), np.uint32)
    return old.view(np.float32), changed(draw, old).view(np.float32)


def changed(draw, old):
    new = old.copy()
    kind = draw(st.sampled_from(["none", "scattered", "run", "all", "mixed"]))
    dims = len(old)
    if kind in ("scattered", "mixed"):
        for at in draw(st.sets(st.integers(0, dims - 1), max_size=dims)):
            new[at] = draw(words)
    if kind in ("run", "mixed"):
        start = draw(st.integers(0, dims - 1))
        end = draw(st.integers(start, dims))
        new[start:end] = draw(st.lists(words, min_size=end - start, max_size=end - start))
    if kind == "all":
        new[:] = draw(st.lists(words, min_size=dims, max_size=dims))
    return new


options = st.builds(
    EncodeOptions,
    selection=st.sampled_from(["size", "rules"]),
    include_prev=st.booleans(),
    relative=st.booleans(),
    compression=st.sampled_from(["none", "zstd", "zlib"]),
    compress_min=st.sampled_from([0, 512]),
)

lossy = st.builds(
    EncodeOptions,
    epsilon=st.sampled_from([0.0, 1e-7, 0.01, 1.0]),
    selection=st.sampled_from(["size", "rules"]),
    quantization=st.sampled_from(["none", "f16", "int8", "int4", "auto"]),
    max_quant_error=st.sampled_from([0.0, 0.001, 0.5]),
    include_prev=st.booleans(),
)


def same(left, right):
    return left.tobytes() == right.tobytes()


@given(pairs(), options)
def test_a_message_gives_the_new_vector_bit_for_bit(pair, options):
    old, new = pair
    message = encode_message(old, new, options)
    read = read_message(message)
    assert same(read.delta.apply(old, check_prev=True), new)
    assert read_message(encode_delta(read.delta)).delta == read.delta
    assert [start for start, _ in read_stream(message * 2)] == [0, len(message)]


@given(pairs(), options)
def test_the_chosen_size_is_never_larger_than_by_rules_or_dense(pair, options):
    old, new = pair
    small = encode_message(old, new, EncodeOptions(include_prev=options.include_prev))
    ruled = encode_message(old, new, EncodeOptions(include_prev=options.include_prev, selection="rules"))
    dense = 13 + (1 if len(old) < 128 else 2) + (8 if options.include_prev else 4) * len(old)
    assert len(small) <= max(15, min(len(ruled), dense))


@st.composite
def chains(draw):
    """A vector and some versions after it."""
    old, new = draw(pairs(60))
    vectors_of = [old, new]
    for _ in range(draw(st.integers(1, 3))):
        vectors_of.append(changed(draw, vectors_of[-1].view(np.uint32).copy()).view(np.float32))
    return vectors_of


@given(chains(), st.booleans(), st.booleans())
def test_composed_is_applied_one_after_the_other_in_any_grouping(versions, relative, prune):
    settings_of = EncodeOptions(relative=relative, include_prev=not relative)
    deltas = [read_message(encode_message(old, new, settings_of)).delta for old, new in pairwise(versions)]
    left = deltas[0]
    for delta in deltas[1:]:
        left = left.then(delta, prune=prune)
    right = deltas[-1]
    for delta in reversed(deltas[:-1]):
        right = delta.then(right, prune=prune)
    assert same(left.apply(versions[0]), versions[-1])
    assert same(right.apply(versions[0]), versions[-1])
    assert prune or left == right


@given(pairs(), st.booleans(), st.sampled_from(["none", "f16", "int8", "int4"]))
def test_undone_is_the_base_bit_for_bit(pair, relative, quantization):
    old, new = pair
    settings_of = EncodeOptions(relative=relative, include_prev=True, quantization=quantization)
    delta = read_message(encode_message(old, new, settings_of)).delta
    after = delta.apply(old)
    inverse = read_message(encode_delta(delta.inverse())).delta
    assert same(inverse.apply(after), old)
    assert delta.then(delta.inverse(), prune=True).is_identity


@st.composite
def matrices(draw):
    dims, rows = draw(st.integers(1, 80)), draw(st.integers(0, 8))
    old = np.array(draw(st.lists(words, min_size=dims * rows, max_size=dims * rows)), np.uint32).reshape(rows, dims)
    new = np.stack([changed(draw, row) for row in old]) if rows else old.copy()
    ids = np.array(sorted(draw(st.sets(st.integers(0, 2**62), min_size=rows, max_size=rows))), np.int64)
    return old.view(np.float32), new.view(np.float32), ids


@given(matrices(), options)
def test_frames_give_the_new_matrix_bit_for_bit(made, options):
    old, new, ids = made
    data = encode_batch(old, new, ids, options=options)
    assert same(apply_batch(data, old, row_ids=ids, check_prev=True), new)


@given(matrices(), lossy)
def test_a_row_of_a_frame_is_what_it_would_be_as_a_message(made, options):
    old, new, ids = made
    data = encode_batch(old, new, ids, options=options)
    rows = {row: (form, delta) for frame in read_frames(data) for row, form, delta in frame.rows()}
    for row_id, before, after in zip(ids.tolist(), old, new, strict=True):
        message = read_message(encode_message(before, after, options))
        if message.delta.is_identity:
            assert row_id not in rows
        else:
            assert rows[row_id] == (message.format, message.delta)


@given(pairs(), lossy)
def test_what_is_lost_is_within_epsilon_or_half_a_scale(pair, options):
    old, new = pair
    read = read_message(encode_message(old, new, options))
    with np.errstate(invalid="ignore"):  # what a signalling NaN raises
        after, wanted = read.delta.apply(old).astype(np.float64), new.astype(np.float64)
    sent = np.zeros(len(old), np.bool_)
    sent[read.delta.indices] = True
    unsent = ~sent & (old.view(np.uint32) != new.view(np.uint32))
    assert (np.abs(after[unsent] - wanted[unsent]) <= options.epsilon).all()
    finite = wanted[sent][np.isfinite(wanted[sent])]
    if not len(finite):
        return
    with np.errstate(invalid="ignore"):
        error = float(np.nanmax(np.abs(after[sent] - wanted[sent])[np.isfinite(wanted[sent])], initial=0.0))
    if read.mode in (2, 3):
        scale = (finite.max() - finite.min()) / (255 if read.mode == 2 else 15)
        assert error <= scale / 2 * (1 + 1e-6) + np.abs(finite).max() * 2.0**-23 * (1 + scale)
    elif read.mode == 0:
        assert error == 0


def drifting(steps, dims, random):
    """A vector that moves by steps smaller than what is sent, and now and then jumps."""
    vector = random.standard_normal(dims).astype(np.float32)
    direction = random.standard_normal(dims).astype(np.float32)
    for step in range(steps):
        vector = vector + direction * np.float32(2e-3)
        if step % 97 == 0:
            direction = random.standard_normal(dims).astype(np.float32)
        yield vector


@pytest.mark.parametrize("quantization, most", [("none", 0.0101), ("f16", 0.02), ("int8", 0.2), ("int4", 2.5)])
def test_a_thousand_lossy_deltas_do_not_drift(quantization, most):
    options = EncodeOptions(epsilon=0.01, quantization=quantization)
    never = RefreshOptions(refresh_interval=None, refresh_bytes_ratio=None)
    path = list(drifting(1_000, 64, np.random.default_rng(17)))
    writer = VectorWriter(path[0], options, refresh=never)
    reader, open_loop = path[0].copy(), path[0].copy()
    worst = 0.0
    for before, after in pairwise(path):
        reader = read_message(writer.write(after)).delta.apply(reader)
        worst = max(worst, float(np.abs(reader.astype(np.float64) - after).max()))
        open_loop = read_message(encode_message(before, after, options)).delta.apply(open_loop)
    assert same(reader, writer.shadow) and worst <= most
    # A writer that compares its own versions never sends a slow change: the test would see drift.
    assert float(np.abs(open_loop - path[-1]).max()) > 3 * worst or quantization == "int4"


def test_a_thousand_lossy_frames_do_not_drift():
    random = np.random.default_rng(18)
    paths = [list(drifting(1_000, 24, random)) for _ in range(6)]
    options = EncodeOptions(epsilon=0.005, quantization="int8")
    writer = BatchWriter(
        np.stack([path[0] for path in paths]),
        options=options,
        refresh=RefreshOptions(refresh_interval=None, refresh_bytes_ratio=None),
    )
    reader = np.stack([path[0] for path in paths])
    worst = 0.0
    for step in range(1, 1_000):
        wanted = np.stack([path[step] for path in paths])
        apply_batch(writer.write(wanted), reader, in_place=True)
        worst = max(worst, float(np.abs(reader.astype(np.float64) - wanted).max()))
    assert same(reader, writer.shadow) and worst <= 0.15


@pytest.mark.skipif(not COMPILED, reason="the plain kernels are all there is here")
class TestKernels:
    """The compiled kernels and their plain twins agree."""

    @given(matrices(), lossy, st.booleans())
    @settings(max_examples=100)
    def test_the_same_columns_come_out(self, made, options, relative):
        old, new, ids = made
        mode = 0 if relative else options.value_mode
        prev = options.include_prev and not relative
        patterns = None
        if mode == 0 and not prev and not relative and len(old):
            starts, lengths = plain.changed_runs(old[0].view(np.uint32), new[0].view(np.uint32), options.epsilon)
            indices = np.concatenate(
                [np.zeros(0, np.uint32), *(np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True))]
            ).astype(np.uint32)
            known = new[0].view(np.uint32)[indices]
            patterns = (np.array([0, len(indices)]), indices, known, np.array([5], np.uint32))
        arguments = (
            old.view(np.uint32), new.view(np.uint32), ids, options.epsilon, options.thresholds, mode,
            options.max_quant_error or 0.0, prev, relative, patterns,
        )  # fmt: skip
        for ours, theirs in zip(vectors.encode_rows(*arguments), plain.encode_rows(*arguments), strict=True):
            assert ours.keys() == theirs.keys()
            for key in ours:
                assert ours[key].dtype == theirs[key].dtype and same(ours[key], theirs[key]), key

    @given(st.lists(words, max_size=60), st.sampled_from([1, 2, 3]))
    def test_the_same_blocks_come_out_and_back(self, values, mode):
        array = np.array(values, np.uint32)
        ours, theirs = vectors.quantize(array, mode), plain.quantize(array, mode)
        assert (ours is None) == (theirs is None)
        if ours is None or theirs is None:
            return
        assert same(ours[0], theirs[0]) and ours[1:] == theirs[1:]
        arguments = (np.array([len(array)]), np.array([ours[1]], np.float32), np.array([ours[2]], np.int32), mode)
        left, right = vectors.dequantize_rows(ours[0], *arguments), plain.dequantize_rows(ours[0], *arguments)
        assert same(left[0], right[0]) and left[1] == right[1] == -1

    def test_every_half_comes_back_as_numpy_widens_it(self):
        halves = np.arange(65536, dtype=np.uint16)
        counts, none = np.array([65536]), (np.zeros(0, np.float32), np.zeros(0, np.int32))
        ours, theirs = (kernel.dequantize_rows(halves, counts, *none, 1)[0] for kernel in (vectors, plain))
        assert same(ours, theirs)
        finite = ours[np.isfinite(ours.view(np.float32))]
        again = vectors.quantize(finite, 1)
        assert again is not None and same(again[0], halves[np.isfinite(ours.view(np.float32))])

    @given(st.data(), st.integers(1, 40), st.sampled_from([np.uint8, np.uint16, np.uint32]))
    def test_the_same_faults_are_found(self, data, dims, dtype):
        counts = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=6))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        small = st.lists(st.integers(0, 12), min_size=int(offsets[-1]), max_size=int(offsets[-1]))
        gaps, lengths = (np.array(data.draw(small), dtype) for _ in range(2))
        assert vectors.check_gaps(offsets, gaps, dims) == plain.check_gaps(offsets, gaps, dims)
        ours, theirs = (kernel.check_runs(offsets, gaps, lengths, dims) for kernel in (vectors, plain))
        assert ours[1:] == theirs[1:]
        if ours[1] < 0:
            assert same(ours[0], theirs[0])
            left, right = (kernel.indices_of_runs(offsets, gaps, lengths) for kernel in (vectors, plain))
            assert same(left, right)
        if vectors.check_gaps(offsets, gaps, dims)[0] < 0:
            left, right = (kernel.indices_of_gaps(offsets, gaps) for kernel in (vectors, plain))
            assert same(left, right)

    @given(st.binary(max_size=40), st.integers(0, 12), st.integers(1, 500))
    def test_the_same_numbers_are_read(self, data, count, dims):
        array = np.frombuffer(data, np.uint8)
        ours, theirs = (kernel.read_gaps(array, 0, count, dims) for kernel in (vectors, plain))
        assert ours[1:] == theirs[1:] and (ours[2] or same(ours[0], theirs[0]))
        left, right = (kernel.read_runs(array, 0, count, dims) for kernel in (vectors, plain))
        assert left[2:] == right[2:] and (left[3] or (same(left[0], right[0]) and same(left[1], right[1])))

    @given(st.binary(max_size=400), st.sampled_from([1, 2, 4, 8]))
    def test_planes_are_the_same_and_lead_back(self, data, width):
        array = np.frombuffer(data[: len(data) // width * width], np.uint8)
        turned = vectors.to_planes(array, width)
        assert same(turned, plain.to_planes(array, width))
        assert same(vectors.from_planes(turned, width), array) and same(plain.from_planes(turned, width), array)

    def test_a_length_of_a_number_is_that_of_its_bytes(self):
        for value in (0, 127, 128, 16383, 16384, 2**32 - 1, 2**64 - 1):
            assert vectors.uleb_length(value) == plain.uleb_length(value) == max(1, math.ceil(value.bit_length() / 7))

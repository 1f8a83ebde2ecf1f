"""Options: what they may be, and what formats they lead to."""

import numpy as np
import pytest

from deltaic.errors import InputError
from deltaic.wire.vectors import (
    Chain,
    EncodeOptions,
    Format,
    RefreshOptions,
    VectorWriter,
    encode_message,
    read_message,
    refresh_message,
)

DIMS = 384


def scattered(share):
    return np.unique(np.linspace(0, DIMS - 2, round(share * DIMS)).astype(int))


# vector-delta.md, "choosing a format": bytes of the whole message, what the size takes, what the rules take
TABLE = [
    (list(range(100, 150)), 218, Format.RUNS, Format.RUNS),
    (list(range(0, 192)), 787, Format.RUNS, Format.RUNS),
    (list(range(0, 346)), 1403, Format.RUNS, Format.DENSE),
    (list(range(DIMS)), 1551, Format.DENSE, Format.DENSE),
    (list(range(0, 380, 20)), 111, Format.SPARSE, Format.SPARSE),
    (list(range(0, 380, 10)), 206, Format.SPARSE, Format.SPARSE),
    ([], 16, Format.SPARSE, Format.SPARSE),
]


@pytest.mark.parametrize("indices, size_bytes, by_size, by_rules", TABLE)
def test_sizes_and_formats_are_those_of_the_page(indices, size_bytes, by_size, by_rules):
    old = np.zeros(DIMS, np.float32)
    new = old.copy()
    new[indices] = 1.25
    smallest = encode_message(old, new)
    assert len(smallest) == size_bytes and read_message(smallest).format is by_size
    assert read_message(encode_message(old, new, EncodeOptions(selection="rules"))).format is by_rules


def test_the_preset_of_the_document_drops_small_changes_and_goes_by_rules():
    options = EncodeOptions.adr()
    assert (options.epsilon, options.selection, options.lossy) == (1e-7, "rules", True)
    old = np.zeros(DIMS, np.float32)
    assert read_message(encode_message(old, old + np.float32(1e-8), options)).delta.is_identity
    assert not read_message(encode_message(old, old + np.float32(1e-8))).delta.is_identity


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1.0},
        {"epsilon": float("nan")},
        {"epsilon": float("inf")},
        {"selection": "largest"},
        {"quantization": "int2"},
        {"quantization": "auto"},
        {"compression": "brotli"},
        {"non_finite": "drop"},
        {"min_run_length": 0},
    ],
)
def test_options_that_cannot_be_are_refused(wrong):
    with pytest.raises(InputError):
        EncodeOptions(**wrong)


@pytest.mark.parametrize("codec", ["zstd", "zlib", "lz4"])
def test_compression_is_kept_only_where_it_helps(codec):
    if codec == "lz4":
        pytest.importorskip("cramjam")
    random = np.random.default_rng(3)
    old = random.standard_normal(2000).astype(np.float32)
    noisy = (old * (1 + 1e-4 * random.standard_normal(2000))).astype(np.float32)
    options = EncodeOptions(relative=True, compression=codec)
    small = encode_message(old, noisy, options)
    assert len(small) < 0.8 * len(encode_message(old, noisy, options.uncompressed()))
    assert read_message(small).delta.apply(old).tobytes() == noisy.tobytes()
    hard = random.integers(0, 2**32, 2000, dtype=np.uint32).view(np.float32)
    assert read_message(encode_message(old, hard, EncodeOptions(compression=codec))).flags & 4 == 0
    short = encode_message(old, noisy, EncodeOptions(relative=True, compression=codec, compress_min=10**6))
    assert read_message(short).flags & 4 == 0


def test_a_writer_of_one_vector_refreshes_when_it_is_due():
    random = np.random.default_rng(4)
    vector = random.standard_normal(50).astype(np.float32)
    writer = VectorWriter(
        vector, EncodeOptions(quantization="int8"), refresh=RefreshOptions(refresh_interval=3, refresh_bytes_ratio=0)
    )
    reader = vector
    sizes = []
    for _ in range(8):
        vector = vector + random.standard_normal(50).astype(np.float32)
        message = writer.write(vector)
        sizes.append(len(message))
        reader = read_message(message).delta.apply(reader)
        assert reader.tobytes() == writer.shadow.tobytes()
    whole = len(refresh_message(vector))
    assert [size == whole for size in sizes] == [False, False, False, True] * 2


def test_a_chain_without_a_shadow_adds_its_errors_up():
    chain = Chain()
    for _ in range(10):
        chain = chain.after(100, worst_error=0.5, epsilon=0.1)
    assert (chain.length, chain.size_bytes, chain.drift) == (10, 1000, 5.0)
    assert chain.refresh_due(384, RefreshOptions(max_drift=4.9))
    assert not chain.refresh_due(384, RefreshOptions(max_drift=5.0))
    assert not chain.refresh_due(384, RefreshOptions(refresh_interval=0, refresh_bytes_ratio=0, max_drift=0))

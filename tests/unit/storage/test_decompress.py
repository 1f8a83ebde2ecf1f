"""Decompression takes no more than it was allowed, whatever the bytes say."""

import gzip
import io
import random
import struct
import subprocess
import sys
import time
import zlib

import pytest
from backports import zstd

from deltaic.errors import DecodeError, LimitError, MissingExtraError
from deltaic.storage.decompress import (
    MAX_FRAMES,
    Codec,
    DecompressingReader,
    compress,
    decompress,
    iter_decompressed,
)

MIB = 1 << 20
STREAMED = [Codec.ZSTD, Codec.GZIP, Codec.ZLIB, Codec.DEFLATE]
ALL = [*STREAMED, Codec.SNAPPY, Codec.LZ4]


def zstd_frame(data: bytes, *, size_stated: bool = True, window_log: int = 0, checksum: bool = True) -> bytes:
    parameter = zstd.CompressionParameter
    options = {parameter.content_size_flag: size_stated, parameter.checksum_flag: checksum}
    if window_log:
        options[parameter.window_log] = window_log
    packer = zstd.ZstdCompressor(options=options)
    if size_stated:
        packer.set_pledged_input_size(len(data))
    return packer.compress(data) + packer.flush()


def lying_zstd_header(size_bytes: int) -> bytes:
    """A frame of one segment that states any size, with one empty last block."""
    return b"\x28\xb5\x2f\xfd" + b"\xe0" + struct.pack("<Q", size_bytes) + b"\x01\x00\x00"


def restated(frame: bytes, size_bytes: int) -> bytes:
    """The same frame with another stated size: the 4-byte content size behind descriptor 0xa4 or so."""
    assert frame[4] >> 6 == 2 and frame[4] & 0x20
    return frame[:5] + struct.pack("<I", size_bytes) + frame[9:]


ZEROS = bytes(256 * MIB)
FEWER_ZEROS = ZEROS[: 64 * MIB]  # the other codecs take long to pack more
BOMBS = {
    "a zstd frame of 8 KB with 256 MB in it": (Codec.ZSTD, lambda: zstd.compress(ZEROS)),
    "the same without a stated size": (Codec.ZSTD, lambda: zstd_frame(ZEROS, size_stated=False)),
    "16 bytes that state 4 GB": (Codec.ZSTD, lambda: lying_zstd_header(4 << 30)),
    "a stated size of 2^63": (Codec.ZSTD, lambda: lying_zstd_header(1 << 63)),
    "a stated size of 2^64-2, which libraries keep for themselves": (Codec.ZSTD, lambda: lying_zstd_header(2**64 - 2)),
    "a stated size that is too small": (Codec.ZSTD, lambda: restated(zstd_frame(bytes(200_000)), 100_000)),
    "a stated size that is too large": (Codec.ZSTD, lambda: restated(zstd_frame(bytes(200_000)), 200_001)),
    "many frames that are small each": (Codec.ZSTD, lambda: zstd.compress(bytes(MIB)) * 64),
    "very many empty frames": (Codec.ZSTD, lambda: zstd.compress(b"") * 500_000),
    "a window of 2 GB": (Codec.ZSTD, lambda: b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00" + bytes(20)),
    "a gzip member of 64 KB with 64 MB in it": (Codec.GZIP, lambda: gzip.compress(FEWER_ZEROS)),
    "many gzip members": (Codec.GZIP, lambda: gzip.compress(bytes(MIB)) * 64),
    "a zlib stream": (Codec.ZLIB, lambda: zlib.compress(FEWER_ZEROS)),
    "a deflate stream": (Codec.DEFLATE, lambda: compress(FEWER_ZEROS, "deflate")),
    "an lz4 frame": (Codec.LZ4, lambda: compress(FEWER_ZEROS, "lz4")),
    "a snappy block": (Codec.SNAPPY, lambda: compress(FEWER_ZEROS, "snappy")),
    "snappy that states 4 GB in 8 bytes": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0fabc"),
}


@pytest.mark.parametrize("case", BOMBS)
def test_a_bomb_is_refused_within_the_limit_and_in_a_second(case: str) -> None:
    codec, make = BOMBS[case]
    data = make()
    limit = 16 * MIB
    made = 0
    started = time.perf_counter()
    with pytest.raises(DecodeError):
        for piece in iter_decompressed((data,), codec, limit):
            made += len(piece)
    with pytest.raises(DecodeError):
        decompress(data, codec, limit)
    assert made <= limit + MIB
    assert time.perf_counter() - started < 2  # two runs


def test_a_bomb_in_a_bomb_is_unpacked_once_and_then_refused() -> None:
    nested = zstd.compress(zstd.compress(ZEROS))
    inner = decompress(nested, "zstd", MIB)
    assert len(inner) < MIB
    with pytest.raises(LimitError):
        decompress(inner, "zstd", MIB)


def test_the_memory_of_the_process_stays_within_the_limit() -> None:
    script = """
import resource, sys
from backports import zstd
from deltaic.storage.decompress import decompress
from deltaic.errors import DecodeError
packer = zstd.ZstdCompressor()
data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    decompress(data, "zstd", 64 << 20)
except DecodeError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    answer = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    assert int(answer.stdout) < (64 + 8 + 4) * 1024  # the limit, the window, and slack


@pytest.mark.parametrize("codec", ALL)
@pytest.mark.parametrize("size", [0, 1, 1000, 70_000, MIB, 3 * MIB + 7])
def test_what_was_packed_comes_out(codec: Codec, size: int) -> None:
    data = random.Random(size).randbytes(size // 2) + bytes(size - size // 2)
    packed = compress(data, codec)
    assert decompress(packed, codec, size) == data
    assert decompress(packed, codec, size + 5, expected_bytes=size) == data
    if size:
        with pytest.raises(LimitError):
            decompress(packed, codec, size - 1)


@pytest.mark.parametrize("codec", ALL)
def test_input_that_ends_early_is_refused(codec: Codec) -> None:
    packed = compress(bytes(range(256)) * 20 + random.Random(1).randbytes(2000), codec)
    for cut in {*range(20), *range(0, len(packed), 37), *range(len(packed) - 20, len(packed))}:
        with pytest.raises(DecodeError):
            decompress(packed[:cut], codec, MIB)


@pytest.mark.parametrize("codec", ALL)
@pytest.mark.parametrize("garbage", [b"\0", b"garbage", bytes(100), b"x" * 100])
def test_bytes_behind_the_end_are_refused(codec: Codec, garbage: bytes) -> None:
    with pytest.raises(DecodeError):
        decompress(compress(b"abc" * 1000, codec) + garbage, codec, MIB)


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP])
def test_a_flipped_bit_is_noticed(codec: Codec) -> None:
    data = random.Random(2).randbytes(3000)
    packed = zstd_frame(data) if codec is Codec.ZSTD else compress(data, codec)
    first = 0 if codec is Codec.ZSTD else 10  # flags of the gzip header carry no data
    for place in range(first, len(packed), 61):
        flipped = bytearray(packed)
        flipped[place] ^= 1 << place % 8
        with pytest.raises(DecodeError):
            assert decompress(flipped, codec, MIB) == b"never"


@pytest.mark.parametrize("expected", [0, 2999, 3001, MIB])
def test_another_size_than_expected_is_refused(expected: int) -> None:
    for codec in [Codec.NONE, *ALL]:
        with pytest.raises(DecodeError):
            decompress(compress(bytes(3000), codec), codec, MIB, expected_bytes=expected)


def test_an_expected_size_over_the_limit_is_refused_at_once() -> None:
    with pytest.raises(LimitError):
        decompress(b"", "zstd", 10, expected_bytes=11)


@pytest.mark.parametrize("codec", [Codec.ZSTD, Codec.GZIP])
def test_frames_follow_each_other(codec: Codec) -> None:
    parts = [bytes([number]) * (number * 1000) for number in range(20)]
    packed = b"".join(compress(part, codec) for part in parts)
    assert decompress(packed, codec, MIB) == b"".join(parts)


def test_as_many_frames_as_allowed_and_not_one_more() -> None:
    one = zstd.compress(b"x")
    assert decompress(one * MAX_FRAMES, "zstd", MIB) == b"x" * MAX_FRAMES
    with pytest.raises(LimitError):
        decompress(one * (MAX_FRAMES + 1), "zstd", MIB)


def test_levels_up_to_19_fit_the_window() -> None:
    data = random.Random(3).randbytes(MIB) * 20
    packer = zstd.ZstdCompressor(level=19)
    packed = b"".join(packer.compress(data[start : start + MIB]) for start in range(0, len(data), MIB))
    assert decompress(packed + packer.flush(), "zstd", len(data)) == data


@pytest.mark.parametrize("codec", STREAMED)
@pytest.mark.parametrize("chunk", [1, 17, 4096])
def test_a_stream_in_any_chunks_gives_the_same(codec: Codec, chunk: int) -> None:
    data = random.Random(chunk).randbytes(5000) + bytes(50_000)
    packed = compress(data, codec)
    chunks = [packed[start : start + chunk] for start in range(0, len(packed), chunk)]
    assert b"".join(iter_decompressed(chunks, codec, len(data))) == data
    reader = io.BufferedReader(DecompressingReader(chunks, codec, len(data)))
    assert reader.read(7) == data[:7]
    assert reader.read() == data[7:]
    with pytest.raises(LimitError):
        io.BufferedReader(DecompressingReader(chunks, codec, len(data) - 1)).read()
    with pytest.raises(DecodeError):
        DecompressingReader(chunks[:-1], codec, len(data)).read()


def test_without_cramjam_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cramjam", None)
    for codec in (Codec.SNAPPY, Codec.LZ4):
        with pytest.raises(MissingExtraError, match=r"deltaic\[table\]"):
            decompress(b"x", codec, 10)
        with pytest.raises(MissingExtraError):
            compress(b"x", codec)


def test_a_codec_is_never_guessed() -> None:
    with pytest.raises(ValueError):
        decompress(b"", "brotli", 10)
    with pytest.raises(DecodeError):
        decompress(gzip.compress(b"x"), "zstd", 10)

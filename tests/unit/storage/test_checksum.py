"""CRC-32C: known values, three computations that agree, and files that are not what was announced."""

import random
from pathlib import Path

import numpy as np
import pytest

from deltaic.errors import ChecksumError, DecodeError
from deltaic.kernels.plain import crc as plain
from deltaic.storage.checksum import Checksum, checksum, checksum_file, verify, verify_file

compiled = pytest.importorskip("deltaic.kernels._crc", reason="the kernel is not compiled here")

KNOWN = {
    # RFC 3720, B.4
    "zeros": (bytes(32), 0x8A9136AA),
    "ones": (b"\xff" * 32, 0x62A8AB43),
    "rising": (bytes(range(32)), 0x46DD794E),
    "falling": (bytes(range(31, -1, -1)), 0x113FDB5C),
    "digits": (b"123456789", 0xE3069283),
    "nothing": (b"", 0),
}


@pytest.mark.parametrize("name", KNOWN)
@pytest.mark.parametrize("crc32c", [compiled.crc32c, compiled.crc32c_by_tables, plain.crc32c])
def test_known_values(name: str, crc32c: object) -> None:
    data, expected = KNOWN[name]
    assert callable(crc32c) and crc32c(data) == expected
    assert checksum(data) == f"crc32c:{expected:08x}"


@pytest.mark.parametrize(
    "length", [*range(0, 40), 255, 256, 767, 768, 769, 777, 24_575, 24_576, 24_577, 65_536, 200_003]
)
def test_all_computations_agree_at_every_alignment(length: int) -> None:
    data = random.Random(length).randbytes(length + 16)
    for offset in (0, 1, 7):
        view = memoryview(data)[offset : offset + length]
        start = length * 7919
        expected = plain.crc32c(view, start)
        assert compiled.crc32c(view, start) == expected
        assert compiled.crc32c_by_tables(view, start) == expected


@pytest.mark.parametrize("length", [0, 1, 5, 1000, 70_000])
def test_stretches_are_joined(length: int) -> None:
    first, second = random.Random(1).randbytes(333), random.Random(2).randbytes(length)
    whole = compiled.crc32c(first + second)
    for module in (compiled, plain):
        assert module.combine(compiled.crc32c(first), compiled.crc32c(second), length) == whole
    joined = Checksum()
    joined.update(first)
    other = Checksum()
    other.update(second)
    assert joined.joined(other).text() == checksum(first + second)
    assert joined.joined(other).size_bytes == 333 + length


@pytest.mark.parametrize("exponent", [29, 30, 31, 32, 33, 40, 62])
def test_stretches_longer_than_the_period_of_the_polynomial_are_joined(exponent: int) -> None:
    # Over 2^n zero bytes, step by step: each step doubles the zeros.
    one = compiled.crc32c(b"x")
    zeros, length = compiled.crc32c(b"\0"), 1
    for _ in range(exponent):
        zeros = plain.combine(zeros, zeros, length)
        length *= 2
    assert compiled.combine(one, zeros, length) == plain.combine(one, zeros, length)
    half = plain.combine(plain.combine(one, _zeros(exponent - 1), length // 2), _zeros(exponent - 1), length // 2)
    assert compiled.combine(one, zeros, length) == half


def _zeros(exponent: int) -> int:
    zeros, length = compiled.crc32c(b"\0"), 1
    for _ in range(exponent):
        zeros = compiled.combine(zeros, zeros, length)
        length *= 2
    return zeros


def test_pieces_arrays_and_read_only_memory_are_taken() -> None:
    data = random.Random(3).randbytes(10_000)
    total = Checksum()
    for start in range(0, len(data), 777):
        total.update(memoryview(data)[start : start + 777])
    assert total.text() == checksum(data) == checksum(bytearray(data))
    assert compiled.crc32c(np.frombuffer(data, np.uint8)) == total.value
    assert (total.size_bytes, total.value) == (10_000, compiled.crc32c(data))


def test_a_file_is_checked_for_size_and_bytes(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"x" * 10_000_000)
    text, size_bytes = checksum_file(path)
    assert (text, size_bytes) == (checksum(b"x" * 10_000_000), 10_000_000)
    verify_file(path, text, size_bytes, "blob")
    with pytest.raises(ChecksumError) as caught:
        verify_file(path, text, size_bytes - 1, "blob")
    assert caught.value.code == "WrongSize"
    with open(path, "r+b") as file:
        file.seek(5_000_000)
        file.write(b"y")
    with pytest.raises(ChecksumError) as caught:
        verify_file(path, text, size_bytes, "blob")
    assert (caught.value.code, caught.value.at) == ("WrongChecksum", "blob")


def test_every_flipped_bit_is_noticed() -> None:
    data = random.Random(4).randbytes(300)
    expected = checksum(data)
    verify(data, expected, "blob")
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ChecksumError):
            verify(flipped, expected, "blob")


@pytest.mark.parametrize(
    "text", ["", "crc32c", "crc32c:", "crc32c:123", "crc32c:E3069283", "md5:00000000", "crc32c:e30692830"]
)
def test_an_unknown_checksum_is_refused(text: str) -> None:
    with pytest.raises(DecodeError) as caught:
        verify(b"", text, "blob")
    assert caught.value.code == "UnknownChecksum"

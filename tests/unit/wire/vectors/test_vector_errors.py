"""Every code of the format page can be had, says where, and is an error of ours."""

import re
import struct
import sys
import zlib

import numpy as np
import pytest

from deltaic.errors import ChecksumError, DecodeError, InputError, LimitError, MissingExtraError
from deltaic.wire.vectors import (
    CODES,
    Dictionary,
    DictionaryKeeper,
    EncodeOptions,
    KnownDictionaries,
    VectorDelta,
    VectorLimits,
    apply_batch,
    encode_batch,
    encode_message,
    read_frame,
    read_frames,
    read_message,
    read_stream,
)

OLD = np.arange(40, dtype=np.float32)
NEW = OLD.copy()
NEW[[3, 9, 10, 30]] = -1
MESSAGE = encode_message(OLD, NEW)
MATRIX = np.stack([OLD, OLD, OLD])
CHANGED = np.stack([NEW, OLD + 1, OLD])
FRAME = encode_batch(MATRIX, CHANGED, options=EncodeOptions())
FRAME_PREV = encode_batch(MATRIX, CHANGED, options=EncodeOptions(include_prev=True))


def sealed(message: bytes) -> bytes:
    """The message with its length and checksum made right."""
    body = message[:5] + struct.pack("<I", len(message) - 13) + message[9:-4]
    return body + struct.pack("<I", zlib.crc32(body))


def message(payload: bytes, *, version: int = 1, form: int = 0, flags: int = 0) -> bytes:
    return sealed(bytes([0xDE, 0x7A, version, form, flags, 0, 0, 0, 0]) + payload + bytes(4))


def resealed(frame: bytes) -> bytes:
    """The frame with the checksums of its buffers and of its header made right."""
    made = bytearray(frame)
    (entries,) = struct.unpack_from("<I", made, 24)
    for place in range(entries):
        at = 32 + 32 * place
        offset, stored = struct.unpack_from("<QQ", made, at + 8)
        struct.pack_into("<I", made, at + 4, zlib.crc32(made[offset : offset + stored]))
    struct.pack_into("<I", made, 28, zlib.crc32(made[32 : 32 + 32 * entries], zlib.crc32(made[:28])))
    return bytes(made)


def changed(data: bytes, at: int, *values: int) -> bytes:
    made = bytearray(data)
    made[at : at + len(values)] = bytes(values)
    return bytes(made)


def buffer_of(frame: bytes, section: int, column: int) -> int:
    (entries,) = struct.unpack_from("<I", frame, 24)
    for place in range(entries):
        at = 32 + 32 * place
        if (frame[at], frame[at + 1]) == (section, column):
            return struct.unpack_from("<Q", frame, at + 8)[0]
    raise AssertionError("no such buffer")


def dictionary() -> Dictionary:
    keeper = DictionaryKeeper(40, dict_id=7)
    delta = read_message(MESSAGE).delta
    keeper.observe(delta)
    keeper.observe(delta)
    return keeper.publish().dictionary


def with_dictionary() -> bytes:
    return encode_message(OLD, NEW, dictionary=dictionary())


TWO_DIMS = b"\x01\x28\x03" + bytes(4)

BAD_BYTES = {
    "BadMagic": lambda: read_message(b"\x00" + MESSAGE[1:]),
    "UnsupportedVersion": lambda: read_message(changed(MESSAGE, 2, 3)),
    "UnsupportedFormat": lambda: read_message(message(b"", form=4)),
    "UnsupportedCodec": lambda: read_message(message(b"\x0f\x01a", flags=4)),
    "Truncated": lambda: read_message(MESSAGE[:-1]),
    "TrailingData": lambda: read_message(MESSAGE + b"\x00"),
    "LimitExceeded": lambda: read_message(MESSAGE, limits=VectorLimits(max_dims=39)),
    "InvalidDims": lambda: read_message(message(b"\x00\x00")),
    "ChecksumMismatch": lambda: read_message(changed(MESSAGE, 12, 0xFF)),
    "InvalidFlags": lambda: read_message(message(TWO_DIMS, flags=2)),
    "InvalidVarint": lambda: read_message(message(b"\x81\x00\x28")),
    "IndexOrder": lambda: read_message(message(b"\x02\x28\x03\x00" + bytes(8))),
    "IndexOutOfRange": lambda: read_message(message(b"\x01\x28\x28" + bytes(4))),
    "InvalidQuantization": lambda: read_message(message(b"\x01\x28\x03" + bytes(9), flags=0x22)),
    "DecompressionFailed": lambda: read_message(message(b"\x02\x03abc", flags=4)),
    "MalformedPayload": lambda: read_message(
        message(b"\x07\x01\x00\x28\x00\x01" + bytes(4), form=3, flags=1), dictionaries=dictionary()
    ),
    "MalformedFrame": lambda: read_frame(resealed(changed(FRAME, 8, 9))),
    "DuplicateRow": lambda: read_frame(resealed(changed(FRAME, buffer_of(FRAME, 1, 1), 0))),
    "UnknownDictionary": lambda: read_message(with_dictionary()),
    "StaleDictionary": lambda: read_message(message(b"\x07\x09\x00\x28\x00", form=3), dictionaries=dictionary()),
    "UnknownPattern": lambda: read_message(message(b"\x07\x01\x05\x28\x00", form=3), dictionaries=dictionary()),
    "DimensionMismatch": lambda: read_message(message(b"\x07\x01\x00\x27\x00", form=3), dictionaries=dictionary()),
}
BAD_CALLS = {
    "DimensionMismatch": lambda: read_message(MESSAGE).delta.apply(OLD[:-1]),
    "BaseMismatch": lambda: apply_batch(FRAME_PREV, MATRIX + 1, check_prev=True),
    "NotInvertible": lambda: read_message(MESSAGE).delta.inverse(),
    "NotComposable": lambda: read_message(MESSAGE).delta.then(
        read_message(encode_message(OLD, OLD + 1, EncodeOptions(relative=True))).delta
    ),
    "NonFinite": lambda: encode_message(OLD, OLD / 0, EncodeOptions(non_finite="reject")),
    "IndexOrder": lambda: encode_batch(MATRIX, CHANGED, np.array([2, 1, 3])),
    "InvalidDims": lambda: encode_batch(MATRIX[:, :0], CHANGED[:, :0]),
    "DuplicateRow": lambda: apply_batch(FRAME_PREV + FRAME_PREV, MATRIX, check_prev=True),
}


@pytest.mark.parametrize("code", BAD_BYTES)
def test_bytes_that_cannot_be_are_a_decode_error_with_its_code_and_place(code):
    with pytest.raises(DecodeError) as caught:
        BAD_BYTES[code]()
    assert caught.value.code == code and caught.value.code in CODES
    assert re.match(r"\w+", caught.value.at) and caught.value.reason


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("code", BAD_CALLS)
def test_a_call_that_cannot_be_is_an_input_error_with_its_code(code):
    with pytest.raises(InputError) as caught:
        BAD_CALLS[code]()
    assert caught.value.code == code and caught.value.code in CODES


def test_every_code_of_the_page_is_shown_here_and_no_other(project_root):
    page = (project_root / "docs/formats/vector-delta.md").read_text()
    rows = re.findall(r"^\| ([A-Z]\w+(?:, [A-Z]\w+)*) \|", page.partition("## 12.")[2].partition("## 13.")[0], re.M)
    assert {code for row in rows for code in row.split(", ")} == CODES == set(BAD_BYTES) | set(BAD_CALLS)


def test_checksums_and_limits_have_classes_of_their_own():
    with pytest.raises(ChecksumError):
        BAD_BYTES["ChecksumMismatch"]()
    with pytest.raises(LimitError):
        BAD_BYTES["LimitExceeded"]()


def test_an_error_names_the_file_and_the_byte():
    with pytest.raises(DecodeError, match=r"at chain-7\.vec: byte 66, in the message that starts at byte 35"):
        list(read_stream(MESSAGE + changed(MESSAGE, 9, 0xFF), name="chain-7.vec"))
    (_, first), *_ = read_stream(MESSAGE + MESSAGE)
    assert first.size_bytes == len(MESSAGE) == 13 + struct.unpack_from("<I", MESSAGE, 5)[0]


def test_an_error_of_a_row_names_the_row():
    at = buffer_of(FRAME, 0, 3) + 1
    with pytest.raises(DecodeError, match=r"at column\.bin: row 0") as caught:
        read_frame(resealed(changed(FRAME, at, 0)), name="column.bin")
    assert caught.value.code == "IndexOrder"


def test_two_zstd_frames_are_not_one():
    payload = b"\x01\x28\x03" + bytes(4)
    zstd = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")
    one = zstd.compress(payload)
    assert len(read_message(message(bytes([1, len(payload)]) + one, flags=4)).delta.indices) == 1
    split = zstd.compress(payload[:3]) + zstd.compress(payload[3:])
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 0) + one
    for stored in (split, skippable, one + skippable[:8], one[:-1], b""):
        with pytest.raises(DecodeError) as caught:
            read_message(message(bytes([1, len(payload)]) + stored, flags=4))
        assert caught.value.code == "DecompressionFailed"


def test_lz4_without_its_library_says_what_to_install(monkeypatch):
    pytest.importorskip("cramjam")
    options = EncodeOptions(compression="lz4", compress_min=0)
    packed = encode_message(np.zeros(900, np.float32), np.ones(900, np.float32), options)
    assert read_message(packed).delta.values.tolist() == [1.0] * 900
    monkeypatch.setitem(sys.modules, "cramjam", None)
    with pytest.raises(MissingExtraError, match=r"deltaic\[table\]"):
        read_message(packed)


@pytest.mark.parametrize("raw_length", [2**26, 2**32 - 1])
@pytest.mark.parametrize("codec", [1, 2, 3])
def test_a_length_that_is_a_lie_takes_no_memory(codec, raw_length):
    import tracemalloc

    stated = b""
    value = raw_length
    while value > 127:
        stated += bytes([value & 127 | 128])
        value >>= 7
    stated += bytes([value])
    data = message(bytes([codec]) + stated + b"\x28\xb5\x2f\xfd" + bytes(8), flags=4)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError) as caught:
            read_message(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert caught.value.code == ("LimitExceeded" if raw_length > 1 << 26 else "DecompressionFailed")


@pytest.mark.parametrize(
    "payload, form",
    [(b"\x80\x80\x40\x80\x80\x40", 0), (b"\x80\x80\x40", 1), (b"\x01\x80\x80\x40\x00\x80\x80\x40", 2)],
)
def test_a_count_without_data_takes_no_memory(payload, form):
    import tracemalloc

    tracemalloc.start()
    try:
        with pytest.raises(DecodeError) as caught:
            read_message(message(payload, form=form))
        assert tracemalloc.get_traced_memory()[1] < 1 << 17
    finally:
        tracemalloc.stop()
    assert caught.value.code == "Truncated"


def test_the_limit_of_a_frame_holds_for_what_it_unpacks_to():
    big = encode_batch(np.zeros((100, 384), np.float32), np.ones((100, 384), np.float32))
    assert len(big) < 2_000
    with pytest.raises(LimitError) as caught:
        list(read_frames(big, limits=VectorLimits(max_frame_bytes=100_000)))
    assert caught.value.code == "LimitExceeded"
    assert len(next(read_frames(big, limits=VectorLimits(max_frame_bytes=200_000)))) == 100


def test_patterns_that_a_later_version_dropped_stay_readable_until_they_are_forgotten():
    keeper = DictionaryKeeper(4, dict_id=9, capacity=1, admit_after=1)
    deltas = [VectorDelta(4, np.array([at], np.uint32), np.array([77 + at], np.uint32)) for at in range(2)]
    keeper.observe(deltas[0])
    first = keeper.publish()
    keeper.observe(deltas[1])
    second = keeper.publish()
    assert (first.added, second.added, second.evicted) == ((0,), (1,), (0,))
    uses_first = message(b"\x09\x01\x00\x04\x00", form=3)
    known = KnownDictionaries([first.dictionary, second.dictionary])
    assert read_message(uses_first, dictionaries=known).delta == deltas[0]
    with pytest.raises(DecodeError) as caught:
        read_message(uses_first, dictionaries=second.dictionary)
    assert caught.value.code == "UnknownPattern"
    known.forget_dropped(9)
    with pytest.raises(DecodeError):
        read_message(uses_first, dictionaries=known)

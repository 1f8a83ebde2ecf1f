"""Decompression that cannot take more than it was allowed: the only way to decompress in deltaic.

Output is made in pieces of at most 1 MiB and refused as soon as the limit is passed, whatever sizes the input states;
a stated size over the limit is refused before anything is made. Also refused: input that ends early, bytes behind
the end, a stated size that is not the real one, windows over 8 MiB (zstd), more than 1,024 frames or members. What was
packed twice comes out packed once: nothing is unpacked again by itself.

zstd is Python's own (`compression.zstd` of 3.14, backports.zstd before); gzip, zlib, deflate are `zlib`; snappy (raw)
and lz4 (frame) need cramjam (extra `table`).
"""

import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Protocol, cast

from deltaic.errors import DecodeError, InputError, LimitError, MissingExtraError
from deltaic.storage.store import Data

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PIECE_BYTES = 1 << 20
"""The most output that is made between two looks at the limit."""

MAX_WINDOW_BYTES = 8 << 20
"""The window a zstd frame may ask for; every level up to 19 stays within it."""

MAX_FRAMES = 1024
"""The frames or members that one input may consist of."""

_SLICE_BYTES = 64 << 10
_ZSTD_HEADER_BYTES = 18


class Codec(StrEnum):
    """How bytes are packed."""

    NONE = "none"
    ZSTD = "zstd"
    GZIP = "gzip"
    ZLIB = "zlib"
    DEFLATE = "deflate"
    SNAPPY = "snappy"
    LZ4 = "lz4"


class _Decoder(Protocol):
    """One frame or member being unpacked."""

    def take(self, data: bytes, most: int) -> bytes: ...

    @property
    def hungry(self) -> bool: ...

    @property
    def ended(self) -> bool: ...

    @property
    def rest(self) -> bytes: ...


def decompress(
    data: Data, codec: Codec | str, limit_bytes: int, *, expected_bytes: int | None = None, name: str = "bytes"
) -> bytes:
    """Unpack bytes to at most `limit_bytes`.

    Args:
        data: the packed bytes.
        codec: how they are packed; it is never guessed.
        limit_bytes: the most that may come out.
        expected_bytes: what must come out exactly, where a format says it elsewhere.
        name: the file or object, for errors.

    Raises:
        LimitError: more would come out than allowed.
        DecodeError: the bytes are cut, corrupt, followed by others, or unpack to another size than stated.
    """
    codec = Codec(codec)
    if expected_bytes is not None and expected_bytes > limit_bytes:
        raise _over(limit_bytes, name, stated=expected_bytes)
    if codec in (Codec.SNAPPY, Codec.LZ4):
        whole = _decompress_by_cramjam(bytes(data), codec, limit_bytes, name)
    else:
        bound = limit_bytes if expected_bytes is None else expected_bytes
        whole = b"".join(_pieces((data,), codec, limit_bytes, bound, name))
    if expected_bytes is not None and len(whole) != expected_bytes:
        raise _wrong_size(len(whole), expected_bytes, name)
    return whole


def iter_decompressed(
    chunks: Iterable[Data], codec: Codec | str, limit_bytes: int, *, name: str = "stream"
) -> Iterator[bytes]:
    """Unpack a stream piece by piece, each at most 1 MiB; the limit is for all of them together."""
    codec = Codec(codec)
    if codec in (Codec.SNAPPY, Codec.LZ4):
        return iter((decompress(b"".join(bytes(chunk) for chunk in chunks), codec, limit_bytes, name=name),))
    return _pieces(chunks, codec, limit_bytes, limit_bytes, name)


class DecompressingReader(io.RawIOBase):
    """A readable file over a packed stream, with the same limits. Wrap it in `io.BufferedReader` for small reads."""

    def __init__(self, chunks: Iterable[Data], codec: Codec | str, limit_bytes: int, *, name: str = "stream") -> None:
        self._pieces = iter_decompressed(chunks, codec, limit_bytes, name=name)
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Fill a buffer as far as the next piece reaches."""
        target = memoryview(buffer).cast("B")
        while not len(self._piece):
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        count = min(len(target), len(self._piece))
        target[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count


def compress(data: Data, codec: Codec | str, *, level: int | None = None) -> bytes:
    """Pack bytes; the result states its size where the codec can."""
    codec = Codec(codec)
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.ZSTD:
        return cast("bytes", _zstd().compress(data, 3 if level is None else level))
    if codec in _WINDOW_BITS:
        packer = zlib.compressobj(6 if level is None else level, zlib.DEFLATED, _WINDOW_BITS[codec])
        return packer.compress(data) + packer.flush()
    cramjam = _cramjam(codec)
    return bytes(cramjam.snappy.compress_raw(data) if codec is Codec.SNAPPY else cramjam.lz4.compress(data))


def iter_compressed(chunks: Iterable[Data], codec: Codec | str) -> Iterator[bytes]:
    """Pack a stream, with zstd or gzip, piece by piece."""
    codec = Codec(codec)
    if codec is Codec.ZSTD:
        zstd = _zstd()
        packer, flush = zstd.ZstdCompressor(level=3), zstd.ZstdCompressor.FLUSH_FRAME
    elif codec is Codec.GZIP:
        packer, flush = zlib.compressobj(6, zlib.DEFLATED, _WINDOW_BITS[codec]), zlib.Z_FINISH
    else:
        raise InputError(f"streams are not packed with {codec}: zstd or gzip")
    for chunk in chunks:
        if piece := packer.compress(chunk):
            yield piece
    yield packer.flush(flush)


_WINDOW_BITS = {Codec.GZIP: 31, Codec.ZLIB: 15, Codec.DEFLATE: -15}


def _pieces(chunks: Iterable[Data], codec: Codec, limit_bytes: int, bound: int, name: str) -> Iterator[bytes]:
    """Every piece of output; no more than `bound` bytes and one are ever made."""
    if codec is Codec.NONE:
        yield from _plain_pieces(chunks, limit_bytes, bound, name)
        return
    start, errors = _starter(codec)
    decoder: _Decoder | None = None
    made = frames = 0
    for data in _slices(chunks):
        while data:
            if decoder is None or decoder.ended:
                frames += 1
                _check_frame(codec, frames, data, limit_bytes - made, limit_bytes, name)
                decoder = start()
            first, data = data, b""
            while True:
                try:
                    piece = decoder.take(first, min(PIECE_BYTES, bound - made + 1))
                except errors as error:
                    raise DecodeError("BadCompression", f"{codec} data is corrupt: {error}", name) from error
                first = b""
                made += len(piece)
                if made > bound:
                    raise _over(limit_bytes, name) if bound == limit_bytes else _wrong_size(made, bound, name)
                if piece:
                    yield piece
                if decoder.ended:
                    data = decoder.rest
                    break
                if decoder.hungry:
                    break
    if decoder is None or not decoder.ended:
        raise DecodeError("Truncated", f"{codec} data ends early", name)


def _plain_pieces(chunks: Iterable[Data], limit_bytes: int, bound: int, name: str) -> Iterator[bytes]:
    made = 0
    for chunk in chunks:
        made += len(chunk)
        if made > bound:
            raise _over(limit_bytes, name) if bound == limit_bytes else _wrong_size(made, bound, name)
        yield bytes(chunk)


def _slices(chunks: Iterable[Data]) -> Iterator[bytes]:
    # Small slices, because a decoder copies what is left behind the end of each frame.
    for chunk in chunks:
        view = memoryview(chunk).cast("B")
        for start in range(0, len(view), _SLICE_BYTES):
            yield bytes(view[start : start + _SLICE_BYTES])


def _check_frame(codec: Codec, frames: int, data: bytes, left: int, limit_bytes: int, name: str) -> None:
    if frames > 1 and codec not in (Codec.ZSTD, Codec.GZIP):
        raise DecodeError("TrailingBytes", f"bytes behind the end of {codec} data", name)
    if frames > MAX_FRAMES:
        raise LimitError("TooManyFrames", f"more than {MAX_FRAMES} frames of {codec} data", name)
    if codec is Codec.ZSTD and len(data) >= _ZSTD_HEADER_BYTES:
        zstd = _zstd()
        try:
            stated = zstd.get_frame_info(data[:_ZSTD_HEADER_BYTES]).decompressed_size
        except zstd.ZstdError as error:
            code, reason = ("TrailingBytes", "bytes behind the end of") if frames > 1 else ("BadCompression", "no")
            raise DecodeError(code, f"{reason} zstd data: {error}", name) from error
        if stated is not None and stated > left:
            raise _over(limit_bytes, name, stated=stated)


class _ZstdDecoder:
    def __init__(self, zstd: ModuleType) -> None:
        window = {zstd.DecompressionParameter.window_log_max: MAX_WINDOW_BYTES.bit_length() - 1}
        self._inner = zstd.ZstdDecompressor(options=window)

    def take(self, data: bytes, most: int) -> bytes:
        return cast("bytes", self._inner.decompress(data, max_length=most))

    @property
    def hungry(self) -> bool:
        return cast("bool", self._inner.needs_input)

    @property
    def ended(self) -> bool:
        return cast("bool", self._inner.eof)

    @property
    def rest(self) -> bytes:
        return cast("bytes", self._inner.unused_data)


class _ZlibDecoder:
    def __init__(self, window_bits: int) -> None:
        self._inner = zlib.decompressobj(window_bits)
        self._full = False

    def take(self, data: bytes, most: int) -> bytes:
        piece = self._inner.decompress(self._inner.unconsumed_tail + data, most)
        # A piece that fills its room may have more behind it even if all input was taken.
        self._full = len(piece) == most
        return piece

    @property
    def hungry(self) -> bool:
        return not self._inner.unconsumed_tail and not self._full

    @property
    def ended(self) -> bool:
        return self._inner.eof

    @property
    def rest(self) -> bytes:
        return self._inner.unused_data


def _starter(codec: Codec) -> tuple[Callable[[], _Decoder], type[Exception]]:
    if codec is Codec.ZSTD:
        zstd = _zstd()
        return lambda: _ZstdDecoder(zstd), zstd.ZstdError
    return lambda: _ZlibDecoder(_WINDOW_BITS[codec]), zlib.error


@cache
def _zstd() -> ModuleType:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        from backports import zstd
    return zstd  # type: ignore[no-any-return,unused-ignore]


def _cramjam(codec: Codec) -> ModuleType:
    try:
        import cramjam
    except ImportError:
        raise MissingExtraError(f"{codec} compression", "table") from None
    return cramjam


def _decompress_by_cramjam(data: bytes, codec: Codec, limit_bytes: int, name: str) -> bytes:
    cramjam = _cramjam(codec)
    stated = _stated_snappy(cramjam, data) if codec is Codec.SNAPPY else _stated_lz4(data)
    if stated is not None and stated > limit_bytes:
        raise _over(limit_bytes, name, stated=stated)
    # The best that either codec can do; a stated size beyond it is a lie, and memory is not taken for it.
    most = len(data) * (64 if codec is Codec.SNAPPY else 256) + 64
    room = bytearray(min(most, limit_bytes if stated is None else stated) + 1)
    unpack = cramjam.snappy.decompress_raw_into if codec is Codec.SNAPPY else cramjam.lz4.decompress_into
    try:
        made = int(unpack(data, room))
    except cramjam.DecompressionError as error:
        if stated is None and "whole buffer" in str(error):
            raise _over(limit_bytes, name) from error
        raise DecodeError("BadCompression", f"{codec} data is corrupt: {error}", name) from error
    if made > limit_bytes:
        raise _over(limit_bytes, name)
    if stated is not None and made != stated:
        raise _wrong_size(made, stated, name)
    return bytes(memoryview(room)[:made])


def _stated_snappy(cramjam: ModuleType, data: bytes) -> int | None:
    try:
        return int(cramjam.snappy.decompress_raw_len(data))
    except cramjam.DecompressionError:
        return None


def _stated_lz4(data: bytes) -> int | None:
    """The content size of an LZ4 frame header, if bit 3 of its flags says that it is there."""
    if len(data) < 15 or not data[4] & 0x08:
        return None
    return int.from_bytes(data[6:14], "little")


def _over(limit_bytes: int, name: str, *, stated: int | None = None) -> LimitError:
    amount = "more" if stated is None else f"{stated:,} bytes"
    return LimitError("TooLarge", f"unpacks to {amount}, the limit is {limit_bytes:,} bytes", name)


def _wrong_size(made: int, stated: int, name: str) -> DecodeError:
    return DecodeError("WrongSize", f"unpacks to {made:,} bytes or more where {stated:,} are stated", name)

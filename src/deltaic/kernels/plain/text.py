"""Character data of STRING fields, UTF-8 and str: the plain twin of the compiled kernel."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_REPLACEMENT = "\ufffd"


def is_ascii(data: NDArray[np.uint8]) -> bool:
    """True if no byte has its top bit set."""
    return bool(len(data) == 0 or data.max() < 0x80)


def units_to_utf8(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], int, int]:
    """Many texts to UTF-8: offsets, bytes, and how many texts have a lone surrogate or a varint that is cut off.

    ASCII texts that follow each other without a gap are given as a read-only view of `data`.
    """
    count = len(starts)
    offsets = np.zeros(count + 1, np.int64)
    if count and np.array_equal(starts[1:], ends[:-1]) and is_ascii(data[starts[0] : ends[-1]]):
        offsets[:-1] = starts - starts[0]
        offsets[-1] = ends[-1] - starts[0]
        return offsets, _frozen(data[starts[0] : ends[-1]]), 0, 0
    raw = data.tobytes()
    encoded: list[bytes] = []
    lone = malformed = 0
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        units = raw[start:end]
        text = _decode(units)
        lone += any("\ud800" <= character <= "\udfff" for character in text)
        malformed += _is_cut(units)
        encoded.append(text.encode("utf-8", "surrogatepass"))
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(encoded), np.uint8), lone, malformed


def utf8_to_units(
    offsets: NDArray[np.int64], utf8: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8], int]:
    """Many texts to character data: offsets, bytes, and how many texts are not UTF-8 (nor WTF-8).

    A byte that cannot be decoded becomes U+FFFD. All-ASCII texts are given as a read-only view of `utf8`.
    """
    used = utf8[offsets[0] : offsets[-1]]
    if is_ascii(used):
        return offsets - offsets[0], _frozen(used), 0
    raw = utf8.tobytes()
    encoded: list[bytes] = []
    malformed = 0
    for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        try:
            text = raw[start:end].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            text = _decode_damaged(raw[start:end])
            malformed += 1
        encoded.append(encode_text(text))
    out_offsets = np.zeros(len(offsets), np.int64)
    np.cumsum([len(text) for text in encoded], out=out_offsets[1:])
    return out_offsets, np.frombuffer(b"".join(encoded), np.uint8), malformed


def decode_text(data: NDArray[np.uint8], start: int, end: int) -> str:
    """One text as a str."""
    return _decode(data[start:end].tobytes())


def texts_to_list(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    nulls: NDArray[np.uint8] | None = None,
) -> list[str | None]:
    """Many texts as a list of str, with None where `nulls` is not 0."""
    raw = data.tobytes()
    texts: list[str | None] = [
        _decode(raw[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    ]
    if nulls is not None:
        for position in np.flatnonzero(nulls).tolist():
            texts[position] = None
    return texts


def encode_text(text: str) -> bytes:
    """The character data of one str; unpaired surrogates stay as they are."""
    if text.isascii():
        return text.encode("ascii")
    encoded = bytearray()
    for unit in np.frombuffer(text.encode("utf-16-le", "surrogatepass"), "<u2").tolist():
        if unit >= 0x4000:
            encoded.append(0x80 | unit >> 14)
        if unit >= 0x80:
            encoded.append(0x80 | unit >> 7 & 0x7F)
        encoded.append(unit & 0x7F)
    return bytes(encoded)


def utf16_units(units: bytes) -> Iterator[int]:
    """The UTF-16 units of one text of character data."""
    if units == b"\x80":
        return
    value = 0
    for byte in units:
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            yield value & 0xFFFF
            value = 0
    if _is_cut(units):
        yield 0xFFFD


def _is_cut(units: bytes) -> bool:
    return units != b"\x80" and units[-1:] >= b"\x80"


def _decode(units: bytes) -> str:
    if units.isascii():
        return units.decode("ascii")
    return np.fromiter(utf16_units(units), "<u2").tobytes().decode("utf-16-le", "surrogatepass")


def _decode_damaged(utf8: bytes) -> str:
    """Decode character by character; each byte that starts none becomes U+FFFD."""
    text = ""
    at = 0
    while at < len(utf8):
        for length in (1, 2, 3, 4):
            try:
                text += utf8[at : at + length].decode("utf-8", "surrogatepass")
            except UnicodeDecodeError:
                continue
            at += length
            break
        else:
            text += _REPLACEMENT
            at += 1
    return text


def _frozen(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    view = data.view()
    view.flags.writeable = False
    return view

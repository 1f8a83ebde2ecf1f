"""Modified UTF-8: how Java writes names and header tags (hollow-blob.md, "strings").

Per UTF-16 unit: U+0001..U+007F one byte, U+0000 and U+0080..U+07FF two bytes, everything else three bytes. Characters
beyond the basic plane are two surrogate units of three bytes each. A pair becomes one code point in Python; an
unpaired surrogate stays one, so that every text comes back as it was. Overlong forms are read, as Java reads them.
"""

import array
import sys

from deltaic.errors import DecodeError, InputError
from deltaic.limits import MAX_NAME_BYTES

_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def decode(data: bytes | bytearray | memoryview, at: str) -> str:
    """The text of modified UTF-8 bytes; `at` says where they stand, for the error."""
    data = bytes(data)
    if data.isascii():
        return data.decode("ascii")
    units = array.array("H")
    position, end = 0, len(data)
    while position < end:
        first = data[position]
        if first < 0x80:
            units.append(first)
            position += 1
        elif first & 0xE0 == 0xC0:
            units.append((first & 0x1F) << 6 | _continuation(data, position + 1, at))
            position += 2
        elif first & 0xF0 == 0xE0:
            second = _continuation(data, position + 1, at)
            units.append((first & 0x0F) << 12 | second << 6 | _continuation(data, position + 2, at))
            position += 3
        else:
            raise DecodeError("BadText", f"byte 0x{first:02x} starts no character of modified UTF-8", at)
    return units.tobytes().decode(_UTF16, "surrogatepass")


def encode(text: str) -> bytes:
    """The modified UTF-8 bytes of a text, without a length."""
    if text.isascii() and "\0" not in text:
        return text.encode("ascii")
    data = bytearray()
    for unit in array.array("H", text.encode(_UTF16, "surrogatepass")):
        if 0 < unit < 0x80:
            data.append(unit)
        elif unit < 0x800:
            data += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            data += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return bytes(data)


def encode_utf(text: str) -> bytes:
    """The bytes of a text behind their 2-byte length, as names and header tags are written."""
    data = encode(text)
    if len(data) > MAX_NAME_BYTES:
        raise InputError(
            f"text of {len(data)} bytes starting with {text[:40]!r} is longer than {MAX_NAME_BYTES} bytes",
            "TooLong",
        )
    return len(data).to_bytes(2, "big") + data


def _continuation(data: bytes, position: int, at: str) -> int:
    if position >= len(data):
        raise DecodeError("BadText", "modified UTF-8 ends inside a character", at)
    byte = data[position]
    if byte & 0xC0 != 0x80:
        raise DecodeError("BadText", f"byte 0x{byte:02x} does not continue a character of modified UTF-8", at)
    return byte & 0x3F

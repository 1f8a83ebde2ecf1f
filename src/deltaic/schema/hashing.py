"""The hash of a text: what names a model in the header tag `hollow.schema.hash`.

`string_hash` is Murmur3 (x86, 32 bit, Hollow's seed) over the UTF-16 units of the text, each as a VInt
(hollow-blob.md, "hashes"). Plain Python: it runs once per model. Columns are hashed in `kernels`.
"""

import array
import sys

_SEED = 0xEAB524B9
_MASK = 0xFFFF_FFFF
_UTF16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def string_hash(text: str) -> int:
    """Hollow's hash of a text as a signed 32-bit number."""
    return bytes_hash(_character_data(text))


def bytes_hash(data: bytes) -> int:
    """Hollow's hash of bytes as a signed 32-bit number."""
    value = _SEED
    whole = len(data) & ~3
    for position in range(0, whole, 4):
        value ^= _mix(int.from_bytes(data[position : position + 4], "little"))
        value = _rotate(value, 13) * 5 + 0xE6546B64 & _MASK
    if whole < len(data):
        value ^= _mix(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value


def _character_data(text: str) -> bytes:
    if text.isascii():
        return text.encode("ascii")
    data = bytearray()
    for unit in array.array("H", text.encode(_UTF16, "surrogatepass")):
        if unit >= 0x4000:
            data.append(0x80 | unit >> 14)
        if unit >= 0x80:
            data.append(0x80 | unit >> 7 & 0x7F)
        data.append(unit & 0x7F)
    return bytes(data)


def _mix(block: int) -> int:
    return _rotate(block * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK

"""Prefix varints: whole numbers of 1 to 3 bytes, big-endian (field-registry.md, 1).

The first two bits say how long a number is: `0` one byte, `10` two, `11` three. One number has one spelling, so
references can be compared, hashed and deduplicated as bytes. Columns of numbers go through the kernel `references`.
"""

from typing import Final

from deltaic.errors import RegistryError

Bytes = bytes | memoryview
"""What is read from."""

LARGEST: Final = 4_194_303
"""The largest number there is: 22 bits."""

ONE_BYTE: Final = 128
"""Numbers below this take one byte."""

TWO_BYTES: Final = 16_384
"""Numbers below this take at most two bytes."""


def number_size(value: int) -> int:
    """How many bytes a number takes."""
    return 1 if value < ONE_BYTE else 2 if value < TWO_BYTES else 3


def encode_number(value: int) -> bytes:
    """The bytes of a number."""
    if 0 <= value < ONE_BYTE:
        return bytes((value,))
    if 0 <= value < TWO_BYTES:
        return bytes((0x80 | value >> 8, value & 0xFF))
    if 0 <= value <= LARGEST:
        return bytes((0xC0 | value >> 16, value >> 8 & 0xFF, value & 0xFF))
    raise RegistryError("VarintOverflow", f"{value} is no number from 0 to {LARGEST:,}")


def decode_number(data: Bytes, offset: int = 0, end: int | None = None) -> tuple[int, int]:
    """Read a number that lies before `end` (default: the end of the data); give it and the offset behind it."""
    end = len(data) if end is None else end
    if offset >= end:
        raise RegistryError("Truncated", "the bytes end where a number must stand", offset)
    first = data[offset]
    if first < 0x80:
        return first, offset + 1
    size = 3 if first >= 0xC0 else 2
    if offset + size > end:
        raise RegistryError("Truncated", f"the bytes end inside a number of {size} bytes", offset)
    value = int.from_bytes(data[offset : offset + size], "big") & (0x3FFFFF if size == 3 else 0x3FFF)
    if value < (TWO_BYTES if size == 3 else ONE_BYTE):
        raise RegistryError("NonCanonical", f"{value} is spelled in {size} bytes and fits fewer", offset)
    return value, offset + size

"""The frame of a patch batch: magic, sizes, checksum (docs/formats/patches.md)."""

import struct

MAGIC = b"DPAT"
FORMAT = 1
HEADER = struct.Struct("<4sBBHII")
"""Magic, format, flags, zero, stored and plain size of the body; the CRC-32C follows."""
HEADER_BYTES = HEADER.size + 4

PACKED = 1
"""The flag of a body that is packed with zstd."""

HAS_VALUES, HAS_PREVIOUS, HAS_TIMESTAMPS, HAS_SOURCES = 1, 2, 4, 8
"""What a group has beside keys and selectors."""

BY_REFERENCE, BY_PATH = 0, 1
"""How a field is named."""

CONSTANT, PACKED_NUMBERS, PACKED_STEPS = 0, 1, 2
"""How integers are stored."""

ABSENT_EXTENSION = 1
"""The MessagePack extension, without data, that stands for ABSENT."""

VECTOR_EXTENSION = 2
"""The MessagePack extension of a vector: its values as float32, little-endian."""

TEXT_EXTENSION = 3
"""The MessagePack extension of a text with a lone surrogate: its bytes, the surrogate's three among them."""

ROW_COUNTS: dict[int, int] = {2: 1, 3: 2, 4: 1, 5: 2}
"""How many columns of numbers a selector has, by its parameter type."""

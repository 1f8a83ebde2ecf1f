"""CRC-32C in plain Python and NumPy: the reference for `_crc`, and the fall-back where no compiler was.

Long buffers are cut into lanes that NumPy moves forward together, a byte of each at a time; the lanes' checksums are
joined by `combine`.
"""

import numpy as np
from numpy.typing import NDArray

_POLYNOMIAL = 0x82F63B78
_LANES = 1024
_LANE_BYTES = 64

Data = bytes | bytearray | memoryview | NDArray[np.uint8]


def _make_table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


_TABLE = _make_table()
_WORDS: list[int] = _TABLE.tolist()


def accelerated() -> bool:
    """True if the processor's instruction is used."""
    return False


def crc32c(data: Data, value: int = 0) -> int:
    """The checksum of the bytes, continued from the checksum `value` of what came before them."""
    buffer = np.frombuffer(data, np.uint8)
    if len(buffer) >= _LANES * _LANE_BYTES:
        length = len(buffer) // _LANES
        lanes = np.ascontiguousarray(buffer[: length * _LANES].reshape(_LANES, length).T)
        checksums = np.full(_LANES, 0xFFFFFFFF, np.uint32)
        for column in lanes:
            checksums = _TABLE[(checksums ^ column) & 0xFF] ^ (checksums >> 8)
        over_lane = _over_zeros(length)
        for checksum in (~checksums).tolist():
            value = _times(over_lane, value) ^ checksum
        buffer = buffer[length * _LANES :]
    value ^= 0xFFFFFFFF
    for byte in buffer.tolist():
        value = _WORDS[(value ^ byte) & 0xFF] ^ (value >> 8)
    return value ^ 0xFFFFFFFF


crc32c_by_tables = crc32c


def combine(first: int, second: int, second_length: int) -> int:
    """The checksum of two stretches from theirs and the length of the second."""
    return _times(_over_zeros(second_length), first) ^ second


def _times(a: int, b: int) -> int:
    """Product of two polynomials modulo the polynomial of the checksum; bit 31 is x to the power of 0."""
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


def _over_zeros(length: int) -> int:
    """What a checksum is multiplied by when that many zero bytes follow."""
    product, power = 1 << 31, 1 << 23  # x to the power of 0 and of 8
    while length:
        if length & 1:
            product = _times(power, product)
        power = _times(power, power)
        length >>= 1
    return product

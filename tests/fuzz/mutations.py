"""Damage to a blob, decided by a random generator alone: the same seed does the same damage."""

from collections.abc import Callable
from random import Random

from tests.fuzz.targets import Number, Target

HOSTILE = (0, 1, 127, 128, 2**16 - 1, 2**28, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
"""Counts, widths, lengths and ordinals that a decoder must not believe; 2^32 - 1 and 2^64 - 1 are -1."""

_FIXED_SIZES = {"int16": 2, "int32": 4, "int64": 8}


def mutate(target: Target, random: Random) -> tuple[str, bytes]:
    """One to three kinds of damage, and what they were."""
    blob = bytearray(target.blob)
    done = []
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        kind = random.choice(_KINDS)
        kind(blob, target, random)
        done.append(kind.__name__.strip("_"))
    return "+".join(done), bytes(blob)


def _flip_bit(blob: bytearray, _: Target, random: Random) -> None:
    if blob:
        blob[random.randrange(len(blob))] ^= 1 << random.randrange(8)


def _flip_bits(blob: bytearray, target: Target, random: Random) -> None:
    for _ in range(random.randint(2, 16)):
        _flip_bit(blob, target, random)


def _flip_bit_of_number(blob: bytearray, target: Target, random: Random) -> None:
    number = random.choice(target.numbers)
    at = number.at + random.randrange(number.length)
    if at < len(blob):
        blob[at] ^= 1 << random.randrange(8)


def _set_byte(blob: bytearray, _: Target, random: Random) -> None:
    if blob:
        blob[random.randrange(len(blob))] = random.choice((0, 1, 0x7F, 0x80, 0xFF, random.randrange(256)))


def _fill(blob: bytearray, _: Target, random: Random) -> None:
    start, end = _region(blob, random, 64)
    blob[start:end] = bytes([random.choice((0, 0x7F, 0x80, 0xFF))]) * (end - start)


def _insert(blob: bytearray, _: Target, random: Random) -> None:
    at = random.randint(0, len(blob))
    blob[at:at] = random.randbytes(random.randint(1, 16))


def _delete(blob: bytearray, _: Target, random: Random) -> None:
    start, end = _region(blob, random, 64)
    del blob[start:end]


def _repeat(blob: bytearray, _: Target, random: Random) -> None:
    start, end = _region(blob, random, 256)
    blob[end:end] = blob[start:end]


def _swap(blob: bytearray, _: Target, random: Random) -> None:
    start, end = _region(blob, random, 128)
    length = end - start
    other = random.randint(0, max(0, len(blob) - length))
    if other + length <= start or end <= other:
        blob[start:end], blob[other : other + length] = blob[other : other + length], blob[start:end]


def _truncate(blob: bytearray, _: Target, random: Random) -> None:
    del blob[random.randint(0, len(blob)) :]


def _hostile_number(blob: bytearray, target: Target, random: Random) -> None:
    number = random.choice(target.numbers)
    value = random.choice(HOSTILE)
    if number.at < len(blob):
        blob[number.at : number.at + number.length] = encoded(number, value)


def _near_number(blob: bytearray, target: Target, random: Random) -> None:
    """Off by a little: past every check that only looks for the absurd."""
    number = random.choice(target.numbers)
    raw = bytes(blob[number.at : number.at + number.length])
    value = _value(number, raw) + random.choice((-2, -1, 1, 2, 8, 64))
    if number.at < len(blob):
        blob[number.at : number.at + number.length] = encoded(number, value)


def encoded(number: Number, value: int) -> bytes:
    """A value in the form of the number it stands for, cut to its width."""
    if number.form in _FIXED_SIZES:
        size = _FIXED_SIZES[number.form]
        return (value % (1 << 8 * size)).to_bytes(size, "big")
    value %= 1 << (64 if number.form == "varlong" else 32)
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


def _value(number: Number, raw: bytes) -> int:
    if number.form in _FIXED_SIZES:
        return int.from_bytes(raw, "big")
    value = 0
    for byte in raw:
        value = value << 7 | byte & 0x7F
    return value


def _region(blob: bytearray, random: Random, longest: int) -> tuple[int, int]:
    start = random.randint(0, len(blob))
    return start, min(len(blob), start + random.randint(1, longest))


# Numbers steer everything else, so that a third of the damage goes to them.
_KINDS: tuple[Callable[[bytearray, Target, Random], None], ...] = (
    _flip_bit,
    _flip_bits,
    _set_byte,
    _fill,
    _insert,
    _delete,
    _repeat,
    _swap,
    _truncate,
    _flip_bit_of_number,
    _hostile_number,
    _hostile_number,
    _near_number,
)

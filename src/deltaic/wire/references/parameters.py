"""Parameters in bytes: type, length of the value in bytes, value (field-registry.md, 3).

The value of a known type is read whole first (a number that runs past it or bytes that are left are
`ParamLengthMismatch`), then held against the rules of its type (`InvalidParam`).
"""

from itertools import pairwise

from deltaic.errors import RegistryError
from deltaic.wire.references.numbers import Bytes, decode_number, encode_number
from deltaic.wire.references.reference import (
    MOST_KEY_BYTES,
    Index,
    Indices,
    MapKey,
    Parameter,
    ParameterType,
    Parent,
    Range,
    Ranges,
    Unknown,
)


def encode_parameter(parameter: Parameter) -> bytes:
    """The bytes of a parameter, with its type and length."""
    value = _value(parameter)
    return bytes((parameter.code,)) + encode_number(len(value)) + value


def encode_value(parameter: Parameter) -> bytes:
    """The bytes of a parameter's value alone."""
    return _value(parameter)


def decode_value(code: int, data: Bytes, start: int, end: int) -> Parameter:
    """Read a parameter's value, which lies whole in `data[start:end]`."""
    if code == ParameterType.PARENT:
        return Parent(_one_number(data, start, end))
    if code == ParameterType.INDEX:
        return Index(_one_number(data, start, end))
    if code == ParameterType.RANGE:
        low, position = _inner_number(data, start, end)
        high, position = _inner_number(data, position, end)
        _ends(position, end)
        _check_range(low, high, start)
        return Range(low, high)
    if code == ParameterType.INDICES:
        elements = _numbers(data, start, end, 1)
        _check_indices(elements, start)
        return Indices(elements)
    if code == ParameterType.RANGES:
        numbers = _numbers(data, start, end, 2)
        ranges = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        _check_ranges(ranges, start)
        return Ranges(ranges)
    if code == ParameterType.MAP_KEY:
        return MapKey(_key(data, start, end))
    if code == 0:
        raise RegistryError("ReservedParamType", "parameter type 0 is reserved", start)
    return Unknown(code, bytes(data[start:end]))


def _value(parameter: Parameter) -> bytes:
    match parameter:
        case Parent(number) | Index(number):
            return encode_number(number)
        case Range(start, end):
            value = encode_number(start) + encode_number(end)
            _check_range(start, end, None)
            return value
        case Indices(elements):
            value = encode_number(len(elements)) + b"".join(map(encode_number, elements))
            _check_indices(elements, None)
            return value
        case Ranges(ranges):
            value = encode_number(len(ranges))
            value += b"".join(encode_number(start) + encode_number(end) for start, end in ranges)
            _check_ranges(ranges, None)
            return value
        case MapKey(key):
            return _key_bytes(key)
        case Unknown(code, value):
            if not ParameterType.MAP_KEY < code <= 0xFF:
                raise RegistryError("InvalidParam", f"{code} is no type of an unknown parameter: those are 7 to 255")
            return value


def _key_bytes(key: str) -> bytes:
    try:
        value = key.encode()
    except UnicodeEncodeError as error:
        raise RegistryError("InvalidUtf8", f"a map key holds a lone surrogate: {error.reason}") from error
    if len(value) > MOST_KEY_BYTES:
        raise RegistryError("InvalidParam", f"a map key of {len(value):,} bytes; {MOST_KEY_BYTES:,} is the most")
    return value


def _key(data: Bytes, start: int, end: int) -> str:
    try:
        key = str(data[start:end], "utf-8")
    except UnicodeDecodeError as error:
        raise RegistryError("InvalidUtf8", f"a map key is no UTF-8: {error.reason}", start + error.start) from error
    if end - start > MOST_KEY_BYTES:
        raise RegistryError(
            "InvalidParam", f"a map key of {end - start:,} bytes; {MOST_KEY_BYTES:,} is the most", start
        )
    return key


def _inner_number(data: Bytes, offset: int, end: int) -> tuple[int, int]:
    try:
        return decode_number(data, offset, end)
    except RegistryError as error:
        if error.code != "Truncated":
            raise
        reason = "a parameter's value ends before its last number does"
        raise RegistryError("ParamLengthMismatch", reason, offset) from error


def _ends(position: int, end: int) -> None:
    if position != end:
        raise RegistryError("ParamLengthMismatch", f"{end - position} bytes are left in a parameter's value", position)


def _one_number(data: Bytes, start: int, end: int) -> int:
    number, position = _inner_number(data, start, end)
    _ends(position, end)
    return number


def _numbers(data: Bytes, start: int, end: int, each: int) -> tuple[int, ...]:
    """The numbers behind a count; the count alone never decides how much is taken."""
    count, position = _inner_number(data, start, end)
    numbers: list[int] = []
    for _ in range(count * each):
        number, position = _inner_number(data, position, end)
        numbers.append(number)
    _ends(position, end)
    return tuple(numbers)


def _check_range(start: int, end: int, offset: int | None) -> None:
    if start >= end:
        raise RegistryError("InvalidParam", f"the range from {start} to before {end} selects nothing", offset)


def _check_indices(elements: tuple[int, ...], offset: int | None) -> None:
    if not elements:
        raise RegistryError("InvalidParam", "indices select nothing", offset)
    if len(set(elements)) != len(elements):
        raise RegistryError("InvalidParam", "indices name an element twice", offset)


def _check_ranges(ranges: tuple[tuple[int, int], ...], offset: int | None) -> None:
    if not ranges:
        raise RegistryError("InvalidParam", "ranges select nothing", offset)
    for start, end in ranges:
        _check_range(start, end, offset)
    ordered = sorted(ranges)
    for (_, end), (start, _) in pairwise(ordered):
        if start < end:
            raise RegistryError("InvalidParam", f"ranges overlap at element {start}", offset)

"""References in bytes: version, index, count of parameters, parameters (field-registry.md, 2).

A reference says where it ends, so a value can follow it: `decode_prefix` gives the end, `decode_exact` refuses bytes
behind it. Neither needs a registry. Errors come in the order of section 11: the structure from the first byte to the
last, then the order of parents, then bytes behind.
"""

from collections.abc import Sequence
from typing import Final

from deltaic.errors import RegistryError
from deltaic.wire.references.numbers import Bytes, decode_number, encode_number
from deltaic.wire.references.parameters import decode_value, encode_parameter
from deltaic.wire.references.reference import LAST_VERSION, MOST_PARAMETERS, Parameter, Parent, Reference, Unknown

LONG_FORM: Final = 0xFFFF
"""What stands in two bytes before a version that does not fit them."""


def encode(reference: Reference) -> bytes:
    """The bytes of a reference."""
    parameters = reference.parameters
    if not parameters and 0 <= reference.index < 0x80 and 0 <= reference.version < LONG_FORM:
        return bytes((reference.version >> 8, reference.version & 0xFF, reference.index, 0))
    try:
        return encode_version(reference.version) + encode_body(reference.index, parameters)
    except RegistryError as error:
        raise RegistryError(error.code, error.reason, None, reference.version, reference.index) from error


def encode_version(version: int) -> bytes:
    """The bytes of a version: two, or six for those that do not fit two."""
    if 0 <= version < LONG_FORM:
        return version.to_bytes(2, "big")
    if 0 <= version <= LAST_VERSION:
        return b"\xff\xff" + version.to_bytes(4, "big")
    raise RegistryError("VersionExhausted", f"{version} is no version from 0 to {LAST_VERSION:,}", version=version)


def encode_body(index: int, parameters: Sequence[Parameter]) -> bytes:
    """The bytes of a reference behind its version, as blocks hold them."""
    if len(parameters) > MOST_PARAMETERS:
        raise RegistryError("TooManyParams", f"{len(parameters)} parameters; {MOST_PARAMETERS} is the most")
    head = encode_number(index) + bytes((len(parameters),))
    if not parameters:
        return head
    body = head + b"".join(map(encode_parameter, parameters))
    _check_order(parameters, None)
    return body


def decode_exact(data: Bytes) -> Reference:
    """Read a reference that fills the bytes."""
    if len(data) == 4 and data[2] < 0x80 and not data[3] and (data[0] & data[1]) != 0xFF:
        return Reference(data[0] << 8 | data[1], data[2])
    reference, end = decode_prefix(data)
    if end != len(data):
        raise RegistryError(
            "TrailingData", f"{len(data) - end} bytes behind the reference", end, reference.version, reference.index
        )
    return reference


def decode_prefix(data: Bytes, offset: int = 0) -> tuple[Reference, int]:
    """Read a reference from an offset; give it and the offset behind it."""
    version, position = decode_version(data, offset)
    index, parameters, position = decode_body(data, position, version)
    return Reference(version, index, parameters), position


def decode_version(data: Bytes, offset: int = 0) -> tuple[int, int]:
    """Read a version; give it and the offset behind it."""
    end = offset + 2
    if end > len(data):
        raise RegistryError("Truncated", "the bytes end inside the version", offset)
    version = int.from_bytes(data[offset:end], "big")
    if version != LONG_FORM:
        return version, end
    if end + 4 > len(data):
        raise RegistryError("Truncated", "the bytes end inside the long form of the version", end)
    version = int.from_bytes(data[end : end + 4], "big")
    if version < LONG_FORM:
        raise RegistryError("NonCanonical", f"version {version} fits two bytes and is in the long form", end, version)
    return version, end + 4


def decode_body(data: Bytes, offset: int, version: int) -> tuple[int, tuple[Parameter, ...], int]:
    """Read a reference behind its version: its index, its parameters and the offset behind them."""
    index: int | None = None
    try:
        index, position = decode_number(data, offset)
        if position >= len(data):
            raise RegistryError("Truncated", "the bytes end where the count of parameters must stand", position)
        count = data[position]
        position += 1
        if not count:
            return index, (), position
        parameters: list[Parameter] = []
        for _ in range(count):
            parameter, position = _decode_parameter(data, position)
            parameters.append(parameter)
        _check_order(parameters, offset)
    except RegistryError as error:
        raise RegistryError(error.code, error.reason, error.offset, version, index) from error
    return index, tuple(parameters), position


def _decode_parameter(data: Bytes, offset: int) -> tuple[Parameter, int]:
    if offset >= len(data):
        raise RegistryError("Truncated", "the bytes end where a parameter must stand", offset)
    code = data[offset]
    if code == 0:
        raise RegistryError("ReservedParamType", "parameter type 0 is reserved", offset)
    length, start = decode_number(data, offset + 1)
    end = start + length
    if end > len(data):
        raise RegistryError("Truncated", f"a parameter has {length} bytes and {len(data) - start} are left", start)
    return decode_value(code, data, start, end), end


def _check_order(parameters: Sequence[Parameter], offset: int | None) -> None:
    selected = False
    for parameter in parameters:
        if isinstance(parameter, Parent):
            if selected:
                raise RegistryError("InvalidParam", "a parent stands behind a selector", offset)
        elif not isinstance(parameter, Unknown):
            selected = True

"""Columns in bytes (docs/formats/patches.md, "columns")."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.binary.buffers import SLACK
from deltaic.errors import InputError
from deltaic.kernels import bits
from deltaic.wire.patches.columns import ColumnKind, PatchColumn
from deltaic.wire.patches.layout import (
    ABSENT_EXTENSION,
    CONSTANT,
    PACKED_NUMBERS,
    PACKED_STEPS,
    TEXT_EXTENSION,
    VECTOR_EXTENSION,
)
from deltaic.wire.patches.patch import ABSENT

_FLOATS = (ColumnKind.FLOAT64, ColumnKind.FLOAT32)


def number(value: int) -> bytes:
    """An unsigned number: seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """A signed number of 64 bits: 0, -1, 1, -2 and so on are 0, 1, 2, 3."""
    return number((value << 1 ^ value >> 63) & 0xFFFF_FFFF_FFFF_FFFF)


def text(value: str) -> bytes:
    """A text: its bytes in UTF-8 behind their number."""
    data = value.encode("utf-8", "surrogatepass")
    return number(len(data)) + data


def column(given: PatchColumn, out: list[bytes]) -> None:
    """Append the bytes of a column."""
    out.append(bytes((given.kind,)))
    if given.kind is ColumnKind.NULL:
        return
    if given.valid is None:
        out.append(b"\0")
    else:
        out += (b"\1", np.packbits(given.valid, bitorder="little").tobytes())
    if given.kind is ColumnKind.VECTOR:
        assert given.frames is not None
        out += (number(len(given.frames)), given.frames)
    elif given.kind is ColumnKind.ANY:
        assert given.items is not None
        data = _any(given.items)
        out += (number(len(data)), data)
    elif given.offsets is not None and given.data is not None:
        lengths = np.diff(given.offsets)
        integers(lengths if given.valid is None else lengths[given.valid], out)
        out.append(given.data.tobytes())
    else:
        assert given.values is not None
        values = given.values if given.valid is None else given.values[given.valid]
        if given.kind is ColumnKind.BOOL:
            out.append(np.packbits(values, bitorder="little").tobytes())
        elif given.kind in _FLOATS:
            width = values.dtype.itemsize
            out.append(np.ascontiguousarray(values).view(np.uint8).reshape(-1, width).T.tobytes())
        else:
            integers(values, out)


def integers(values: NDArray[Any], out: list[bytes]) -> None:
    """Append 64-bit integers in the form that takes the fewest bits."""
    if not len(values):
        out.append(bytes((CONSTANT, 0)))
        return
    plain = values.astype(np.int64, copy=False)
    least, most = int(plain.min()), int(plain.max())
    if least == most:
        out += (bytes((CONSTANT,)), signed(least))
        return
    width = (most - least).bit_length()
    steps = np.diff(plain)
    # A step that does not fit 64 bits would wrap: then the numbers themselves are packed.
    smallest, largest = (int(steps.min()), int(steps.max())) if width < 63 else (0, -1)
    step_width = (largest - smallest).bit_length() if largest >= smallest else 64
    if step_width < width:
        out += (bytes((PACKED_STEPS,)), signed(int(plain[0])), signed(smallest), bytes((step_width,)))
        out.append(_packed(steps - smallest, step_width))
    else:
        out += (bytes((PACKED_NUMBERS,)), signed(least), bytes((width,)))
        out.append(_packed(plain - np.int64(least), width))


def _packed(values: NDArray[np.int64], width: int) -> bytes:
    size = (len(values) * width + 7) // 8
    data = np.zeros((size + SLACK + 7) & ~7, np.uint8)
    bits.pack(np.ascontiguousarray(values).view(np.uint64), width, data, 0)
    return data[:size].tobytes()


def _any(items: tuple[Any, ...]) -> bytes:
    try:
        try:
            return msgspec.msgpack.encode(items, enc_hook=_extension)
        except UnicodeEncodeError:
            return msgspec.msgpack.encode(_with_surrogates(items), enc_hook=_extension)
    except (TypeError, OverflowError, ValueError, RecursionError, UnicodeEncodeError) as error:
        raise InputError(f"a value of a patch cannot be written: {error}", "WrongType") from error


def _with_surrogates(value: Any) -> Any:
    """A value whose texts with lone surrogates, which MessagePack refuses, are extensions; a map of such keys pairs."""
    if isinstance(value, str):
        return value if _is_utf8(value) else _surrogates(value)
    if isinstance(value, Mapping):
        pairs = [(_with_surrogates(key), _with_surrogates(each)) for key, each in value.items()]
        return dict(pairs) if all(isinstance(key, str | int | float | bytes) for key, _ in pairs) else pairs
    if isinstance(value, list | tuple | set | frozenset):
        return [_with_surrogates(each) for each in value]
    return value


def _is_utf8(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _surrogates(value: str) -> msgspec.msgpack.Ext:
    return msgspec.msgpack.Ext(TEXT_EXTENSION, value.encode("utf-8", "surrogatepass"))


def _extension(value: Any) -> Any:
    if value is ABSENT:
        return msgspec.msgpack.Ext(ABSENT_EXTENSION, b"")
    if isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1:
        return msgspec.msgpack.Ext(VECTOR_EXTENSION, value.astype("<f4").tobytes())
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} is a {type(value).__name__}")

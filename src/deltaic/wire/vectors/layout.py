"""The columns of a batch frame: their numbers, types and sections (vector-delta.md, "batch frames")."""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.wire.vectors.options import Flag, Format, Mode

MAGIC = b"\xde\x7b"
HEADER_BYTES = 32
ENTRY_BYTES = 32
HEADER = struct.Struct("<2sBBIQQI")
"""The header without its checksum."""
ENTRY = struct.Struct("<BBBBIQQQ")

Array = NDArray[Any]


class Column(IntEnum):
    """What a buffer holds."""

    ROW_IDS = 1
    OFFSETS = 2
    GAPS = 3
    VALUES = 4
    PREV = 5
    SCALE = 6
    ZERO_POINT = 7
    RUN_OFFSETS = 8
    RUN_GAPS = 9
    RUN_LENGTHS = 10
    DICT_ID = 11
    DICT_VERSION = 12
    PATTERNS = 13


class Type(IntEnum):
    """How the numbers of a buffer are stored."""

    U8 = 1
    U16 = 2
    U32 = 3
    U64 = 4
    I8 = 5
    I32 = 6
    I64 = 7
    F16 = 8
    F32 = 9
    NIBBLES = 10


NUMPY_TYPES: dict[Type, Any] = {
    Type.U8: np.uint8,
    Type.U16: np.uint16,
    Type.U32: np.uint32,
    Type.U64: np.uint64,
    Type.I8: np.int8,
    Type.I32: np.int32,
    Type.I64: np.int64,
    Type.F16: np.uint16,
    # Patterns: a NaN must come out as it went in.
    Type.F32: np.uint32,
    Type.NIBBLES: np.uint8,
}
"""As which arrays kernels see them."""

WIDTHS = {type_: int(np.dtype(numpy_type).itemsize) for type_, numpy_type in NUMPY_TYPES.items()}

VALUE_TYPES = {Mode.F32: Type.F32, Mode.F16: Type.F16, Mode.INT8: Type.I8, Mode.INT4: Type.NIBBLES}

_OFFSETS = (Type.U32, Type.U64)
_GAPS = (Type.U8, Type.U16, Type.U32)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the directory."""

    section: int
    column: int
    type: int
    codec: int
    crc: int
    offset: int
    stored_length: int
    raw_length: int


def padded(length: int) -> int:
    """The next multiple of eight."""
    return (length + 7) & ~7


def expected_columns(section: Format, flags: int) -> dict[Column, tuple[Type, ...]]:
    """The columns that a section must have with these flags, and the types that each may have."""
    columns: dict[Column, tuple[Type, ...]] = {Column.ROW_IDS: (Type.I64,)}
    if section is Format.DICTIONARY:
        return columns | {
            Column.DICT_ID: (Type.U64,),
            Column.DICT_VERSION: (Type.U32,),
            Column.PATTERNS: (Type.U32,),
        }
    mode = Mode(flags >> 4)
    columns[Column.VALUES] = (Type.U32,) if flags & Flag.RELATIVE else (VALUE_TYPES[mode],)
    if section is Format.SPARSE:
        columns |= {Column.OFFSETS: _OFFSETS, Column.GAPS: _GAPS}
    elif section is Format.RUNS:
        columns |= {Column.RUN_OFFSETS: _OFFSETS, Column.RUN_GAPS: _GAPS, Column.RUN_LENGTHS: _GAPS}
    if flags & Flag.HAS_PREV:
        columns[Column.PREV] = (Type.F32,)
    if mode in (Mode.INT8, Mode.INT4):
        columns |= {Column.SCALE: (Type.F32,), Column.ZERO_POINT: (Type.I32,)}
    return columns

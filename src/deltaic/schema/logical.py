"""Logical types: what a Hollow field stands for when its own type does not say it.

A logical type is an Arrow type, named by its format string of the Arrow C data interface (`tsu:UTC`, `d:10,2`, `C`),
and what Hollow cannot say: that a column has no nulls, that it is dictionary-encoded, that it is stored wide. It knows
the Hollow field that carries it and turns whole columns from one form into the other.

Hollow has no bit for null in INT and LONG: the smallest number means null. So that number survives only
- in a column without nulls: it is written as null, and null reads as the smallest number, as Java's getters do;
- in a *wide* column: INT is stored as LONG, LONG as 8 bytes, big-endian.
Anywhere else it is refused, with column, row and value.

Values are in Arrow's own storage: numbers as numpy arrays of `storage`, decimals and fixed-size binary as a uint8
matrix with one row per value. In Hollow's form INT, LONG, FLOAT, DOUBLE, BOOLEAN are int32, int64, float32, float64 and
bool arrays, and BYTES of one width a uint8 matrix. Texts and bytes of any length are the same in both and pass through.
"""

import re
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import DecodeError, InputError
from deltaic.schema.types import FieldType

Column = NDArray[Any]
Mask = NDArray[np.bool_]

_MAX_LONG_DIGITS = 18
_TIME_UNITS = {"s": "seconds", "m": "milliseconds", "u": "microseconds", "n": "nanoseconds"}

_PRIMITIVE: dict[str, tuple[FieldType, str | None, str]] = {
    "n": (FieldType.BOOLEAN, "bool", "null"),
    "b": (FieldType.BOOLEAN, "bool", "bool"),
    "c": (FieldType.INT, "int8", "int8"),
    "C": (FieldType.INT, "uint8", "uint8"),
    "s": (FieldType.INT, "int16", "int16"),
    "S": (FieldType.INT, "uint16", "uint16"),
    "i": (FieldType.INT, "int32", "int32"),
    "I": (FieldType.LONG, "uint32", "uint32"),
    "l": (FieldType.LONG, "int64", "int64"),
    "L": (FieldType.LONG, "uint64", "uint64"),
    "e": (FieldType.FLOAT, "float16", "float16"),
    "f": (FieldType.FLOAT, "float32", "float32"),
    "g": (FieldType.DOUBLE, "float64", "float64"),
    "u": (FieldType.STRING, None, "string"),
    "U": (FieldType.STRING, None, "large_string"),
    "vu": (FieldType.STRING, None, "string_view"),
    "z": (FieldType.BYTES, None, "binary"),
    "Z": (FieldType.BYTES, None, "large_binary"),
    "vz": (FieldType.BYTES, None, "binary_view"),
    "tdD": (FieldType.INT, "int32", "date32"),
    "tdm": (FieldType.LONG, "int64", "date64"),
    "tts": (FieldType.INT, "int32", "time32[s]"),
    "ttm": (FieldType.INT, "int32", "time32[ms]"),
    "ttu": (FieldType.LONG, "int64", "time64[us]"),
    "ttn": (FieldType.LONG, "int64", "time64[ns]"),
    "tDs": (FieldType.LONG, "int64", "duration[s]"),
    "tDm": (FieldType.LONG, "int64", "duration[ms]"),
    "tDu": (FieldType.LONG, "int64", "duration[us]"),
    "tDn": (FieldType.LONG, "int64", "duration[ns]"),
}
_PHYSICAL = {FieldType.INT: "int32", FieldType.LONG: "int64", FieldType.FLOAT: "float32", FieldType.DOUBLE: "float64"}
_INDEXES = ("c", "C", "s", "S", "i", "I", "l", "L")
_DECIMAL = re.compile(r"d:(\d{1,2}),(-?\d{1,3})(?:,(32|64|128|256))?")
_NESTED = re.compile(r"\+[slLm]|\+v[lL]|\+w:\d{1,9}")
_NATURAL_NESTED = {"+s": "struct", "+l": "list", "+m": "map"}
_DECIMAL_DIGITS = {32: 9, 64: 18, 128: 38, 256: 76}


class LogicalType(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the values of a field are. Made by `LogicalType.of` or by `deltaic.schema.mapping`."""

    format: str
    """The Arrow format string; of the values if the column is dictionary-encoded."""
    nullable: bool = True
    index: str | None = None
    """The format string of the indexes of a dictionary-encoded column."""
    ordered: bool = False
    """True if the dictionary's order means something."""
    wide: bool = False
    """True if the smallest INT or LONG is a value like others; of nested types, if nulls in a collection are kept
    by a type {value} in between.
    """

    @classmethod
    def of(
        cls,
        arrow_format: str,
        *,
        nullable: bool = True,
        index: str | None = None,
        ordered: bool = False,
        wide: bool = False,
    ) -> "LogicalType":
        """A logical type, if there is one of that format."""
        made = cls(arrow_format, nullable, index, ordered, wide)
        made.check()
        return made

    def check(self) -> None:
        """Raise `InputError` unless the format and its options are known and fit each other."""
        if self.is_nested:
            if self.index is not None or self.ordered or _NESTED.fullmatch(self.format) is None:
                raise InputError(f"there is no logical type for the Arrow format {self.format!r}", "UnknownType")
            return
        shape = _shape(self.format)
        if self.index is not None and self.index not in _INDEXES:
            raise InputError(f"{self.index!r} is no format of dictionary indexes", "UnknownType")
        if self.wide and (shape.field_type not in _WIDER or shape.width):
            raise InputError(f"{self.name} cannot be stored wide: it has no reserved value", "UnknownType")

    @property
    def is_nested(self) -> bool:
        """True for structs, lists and maps: a reference to a type of their own carries them."""
        return self.format.startswith("+")

    @property
    def field_type(self) -> FieldType:
        """The Hollow field that carries it."""
        if self.is_nested:
            return FieldType.REFERENCE
        field_type = _shape(self.format).field_type
        return _WIDER[field_type] if self.wide else field_type

    @property
    def storage(self) -> np.dtype[Any] | None:
        """The numpy type of Arrow's values buffer; uint8 for matrices; None for texts and bytes of any length."""
        storage: np.dtype[Any] | None = _shape(self.format).storage
        return storage

    @property
    def width(self) -> int:
        """Bytes per value where values are rows of a uint8 matrix, else 0."""
        return _shape(self.format).width

    @property
    def name(self) -> str:
        """The type as people write it: `timestamp[us, UTC]`."""
        if self.is_nested:
            return _NATURAL_NESTED.get(self.format, self.format)
        return _shape(self.format).name

    @property
    def is_natural(self) -> bool:
        """True if the Hollow field alone says all of it, so that nothing must be noted."""
        if self.is_nested:
            return self.format in _NATURAL_NESTED and self == LogicalType(self.format)
        return self == natural(_shape(self.format).field_type)

    def __str__(self) -> str:
        text = f"dictionary<{_shape(self.index).name}, {self.name}>" if self.index else self.name
        return text + (" wide" if self.wide else "") + ("" if self.nullable else " not null")

    def encode(self, values: Column, valid: Mask | None, column: str) -> tuple[Column, Mask]:
        """A column in Hollow's form, and which of its values are not null.

        Args:
            values: the column in Arrow's storage.
            valid: which values are not null; None if all are.
            column: its name, for errors.

        Raises:
            InputError: a value that Hollow cannot keep; the message has column, row and value.
        """
        self._check_shape(values, self.storage, self.width, column)
        present = np.ones(len(values), np.bool_) if valid is None else valid
        if not self.nullable and not present.all():
            raise InputError(f"column {column!r}, row {_first(~present)}: null in a column without nulls", "Null")
        physical = self._to_physical(values, present, column)
        if self.field_type in _SMALLEST and self.storage is not None and not self.wide:
            smallest = present & (physical == _SMALLEST[self.field_type])
            if smallest.any():
                if self.nullable:
                    row = _first(smallest)
                    raise InputError(
                        f"column {column!r}, row {row}: {values[row]} means null in a Hollow {self.field_type}; "
                        "declare the column without nulls, or store it wide",
                        "Reserved",
                    )
                present = present & ~smallest
        return physical, present

    def decode(self, values: Column, valid: Mask | None, column: str) -> tuple[Column, Mask]:
        """A column in Arrow's storage from Hollow's form; the inverse of `encode`.

        Raises:
            DecodeError: code `TypeRange`, a value outside the logical type; the message has column, row and value.
        """
        if self.storage is None:
            return values, np.ones(len(values), np.bool_) if valid is None else valid
        self._check_shape(values, self._physical_dtype(), self._physical_width(), column)
        present = np.ones(len(values), np.bool_) if valid is None else valid
        if not self.nullable and not self.wide and self._uses_all_of_physical() and not present.all():
            values = np.where(present, values, _SMALLEST[self.field_type]).astype(values.dtype)
            present = np.ones(len(values), np.bool_)
        return self._from_physical(values, present, column), present

    def _to_physical(self, values: Column, present: Mask, column: str) -> Column:
        shape = _shape(self.format)
        if shape.storage is None:
            return values
        if shape.digits:
            return _encode_decimal(values, present, shape, column, self.name)
        if shape.width:
            return values
        if self.wide and self.field_type is FieldType.BYTES:
            return (
                np.ascontiguousarray(values.astype(">u8" if shape.storage.kind == "u" else ">i8"))
                .view(np.uint8)
                .reshape(len(values), 8)
            )
        return _cast(values, np.dtype(_PHYSICAL.get(self.field_type, "bool")))

    def _from_physical(self, values: Column, present: Mask, column: str) -> Column:
        shape = _shape(self.format)
        assert shape.storage is not None
        if shape.digits:
            return _decode_decimal(values, shape)
        if shape.width:
            return values
        if self.wide and self.field_type is FieldType.BYTES:
            wide = np.ascontiguousarray(values).view(">u8" if shape.storage.kind == "u" else ">i8")
            return wide.reshape(len(values)).astype(shape.storage)
        if shape.storage.kind in "iu" and not self._uses_all_of_physical():
            limits = np.iinfo(shape.storage)
            outside = present & ((values < limits.min) | (values > limits.max))
            if outside.any():
                row = _first(outside)
                raise DecodeError("TypeRange", f"{values[row]} is no {self.name}", f"column {column!r}, row {row}")
        return _cast(values, shape.storage)

    def _uses_all_of_physical(self) -> bool:
        """True if the smallest INT or LONG is within the logical type."""
        if self.wide or self.field_type not in _SMALLEST:
            return False
        return self.format == "L" or self.storage == self._physical_dtype()

    def _physical_dtype(self) -> np.dtype[Any]:
        if self.field_type is FieldType.BYTES:
            return np.dtype(np.uint8)
        return np.dtype(_PHYSICAL.get(self.field_type, "bool"))

    def _physical_width(self) -> int:
        if self.field_type is not FieldType.BYTES:
            return 0
        return 8 if self.wide else self.width

    def _check_shape(self, values: Column, dtype: np.dtype[Any] | None, width: int, column: str) -> None:
        if dtype is None:
            return
        expected_dimensions = 2 if width else 1
        if values.dtype != dtype or values.ndim != expected_dimensions or (width and values.shape[1] != width):
            raise InputError(
                f"column {column!r}: {self.name} is an array of {dtype}"
                f"{f' with rows of {width}' if width else ''}, not {values.dtype} of shape {values.shape}",
                "TypeConflict",
            )


class _Shape(msgspec.Struct, frozen=True):
    field_type: FieldType
    storage: Any
    name: str
    width: int = 0
    digits: int = 0


def natural(field_type: FieldType) -> LogicalType:
    """What a Hollow field stands for when nothing else is said."""
    return _NATURAL[field_type]


_NATURAL = {
    FieldType.INT: LogicalType("i"),
    FieldType.LONG: LogicalType("l"),
    FieldType.BOOLEAN: LogicalType("b"),
    FieldType.FLOAT: LogicalType("f"),
    FieldType.DOUBLE: LogicalType("g"),
    FieldType.STRING: LogicalType("u"),
    FieldType.BYTES: LogicalType("z"),
}
_SMALLEST = {FieldType.INT: -(2**31), FieldType.LONG: -(2**63)}
_WIDER = {FieldType.INT: FieldType.LONG, FieldType.LONG: FieldType.BYTES}


@lru_cache(maxsize=1024)
def _shape(arrow_format: str) -> _Shape:
    known = _PRIMITIVE.get(arrow_format)
    if known is not None:
        field_type, dtype, name = known
        return _Shape(field_type, None if dtype is None else np.dtype(dtype), name)
    if arrow_format[:2] == "ts" and arrow_format[2:3] in _TIME_UNITS and arrow_format[3:4] == ":":
        unit = {"m": "ms", "u": "us", "n": "ns"}.get(arrow_format[2], "s")
        zone = f", {arrow_format[4:]}" if arrow_format[4:] else ""
        return _Shape(FieldType.LONG, np.dtype(np.int64), f"timestamp[{unit}{zone}]")
    if re.fullmatch(r"w:[1-9]\d{0,8}", arrow_format):
        width = int(arrow_format[2:])
        return _Shape(FieldType.BYTES, np.dtype(np.uint8), f"fixed_size_binary[{width}]", width)
    decimal = _DECIMAL.fullmatch(arrow_format)
    if decimal:
        precision, scale, bits = int(decimal[1]), int(decimal[2]), int(decimal[3] or 128)
        if 1 <= precision <= _DECIMAL_DIGITS[bits]:
            field_type = FieldType.LONG if precision <= _MAX_LONG_DIGITS else FieldType.BYTES
            name = f"decimal{bits}({precision}, {scale})"
            return _Shape(field_type, np.dtype(np.uint8), name, bits // 8, precision)
    raise InputError(f"there is no logical type for the Arrow format {arrow_format!r}", "UnknownType")


def _encode_decimal(values: Column, present: Mask, shape: _Shape, column: str, name: str) -> Column:
    # Big-endian two's complement of all bytes is what Java's BigInteger reads.
    if shape.field_type is FieldType.BYTES:
        return np.ascontiguousarray(values[:, ::-1])
    if shape.width < 8:
        unscaled = np.ascontiguousarray(values).view("<i4").reshape(len(values)).astype(np.int64)
        inside = np.ones(len(values), np.bool_)
    else:
        words = np.ascontiguousarray(values).view("<i8").reshape(len(values), shape.width // 8)
        unscaled = words[:, 0].astype(np.int64)
        inside = (words[:, 1:] == (unscaled >> 63)[:, None]).all(axis=1)
    limit = 10**shape.digits
    outside = present & ~(inside & (unscaled > -limit) & (unscaled < limit))
    if outside.any():
        row = _first(outside)
        unscaled_value = int.from_bytes(values[row].tobytes(), "little", signed=True)
        raise InputError(f"column {column!r}, row {row}: unscaled {unscaled_value} is no {name}", "TypeRange")
    return unscaled


def _decode_decimal(values: Column, shape: _Shape) -> Column:
    if shape.field_type is FieldType.BYTES:
        return np.ascontiguousarray(values[:, ::-1])
    if shape.width < 8:
        return np.ascontiguousarray(values.astype("<i4")).view(np.uint8).reshape(len(values), shape.width)
    words = np.empty((len(values), shape.width // 8), "<i8")
    words[:, 0] = values
    words[:, 1:] = (values >> 63)[:, None]
    return words.view(np.uint8).reshape(len(values), shape.width)


def _cast(values: Column, dtype: np.dtype[Any]) -> Column:
    if values.dtype == dtype:
        return values
    # Unsigned 64-bit numbers keep their bits; numbers of nulls may be anything and may not fit.
    with np.errstate(invalid="ignore", over="ignore"):
        return values.astype(dtype)


def _first(mask: Mask) -> int:
    return int(np.argmax(mask))

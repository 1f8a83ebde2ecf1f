"""Vectors in rows: fixed-size lists of float32 whose field says that they are vectors.

In memory a vector is `fixed_size_list<float32>[n]` with the field metadata `deltaic.vector`; in Parquet it is its 4 × n
bytes, `FIXED_LEN_BYTE_ARRAY`, little-endian: a column without levels of nesting, a tenth of the time to read. The index
of a split does not know it. A vector is there or null; none of its elements is.
"""

from typing import Any, Final

import pyarrow as pa

from deltaic.errors import InputError, SchemaError
from deltaic.schema.arrow import VECTOR_METADATA

_FLOAT_BYTES: Final = 4


def is_vector(field: Any) -> bool:
    """Whether an Arrow field says that it is a vector."""
    return VECTOR_METADATA in (field.metadata or {})


def is_vector_type(kind: Any) -> bool:
    """Whether a type can be that of a vector."""
    return bool(pa.types.is_fixed_size_list(kind) and kind.value_type == pa.float32() and kind.list_size > 0)


def check_vector_field(field: Any) -> None:
    """Refuse a field that says it is a vector and has another type."""
    if is_vector(field) and not is_vector_type(field.type):
        raise SchemaError(f"{field.name} is a {field.type}: a vector is a fixed-size list of float32")


def packed(values: Any, name: str) -> Any:
    """The vectors of a chunked array as fixed-size bytes, without copying.

    Raises:
        InputError: an element of a vector is null.
    """
    width = values.type.list_size * _FLOAT_BYTES
    return pa.chunked_array([_packed(chunk, width, name) for chunk in values.chunks], pa.binary(width))


def _packed(values: Any, width: int, name: str) -> Any:
    size = values.type.list_size
    place = null_element(values)
    if place is not None:
        raise InputError(f"column {name}, row {place}: an element of the vector is null", "BadValue")
    elements = values.values
    first = values.offset * size + elements.offset
    validity, data = values.buffers()[0], elements.buffers()[1]
    if first:
        # Elements have an offset of their own, so what is left out is left out of both buffers.
        data = data.slice(first * _FLOAT_BYTES, len(values) * width)
        validity = values.is_valid().buffers()[1] if values.null_count else None
    return pa.Array.from_buffers(pa.binary(width), len(values), [validity, data])


def unpacked(values: Any, kind: Any) -> Any:
    """Fixed-size bytes as vectors, without copying."""
    return pa.chunked_array([_unpacked(chunk, kind) for chunk in values.chunks], kind)


def _unpacked(values: Any, kind: Any) -> Any:
    size = kind.list_size
    count = len(values) + values.offset
    validity, data = values.buffers()
    elements = pa.Array.from_buffers(pa.float32(), count * size, [None, data])
    return pa.Array.from_buffers(kind, len(values), [validity], offset=values.offset, children=[elements])


def null_element(values: Any) -> int | None:
    """The first vector of an array that is not null and has an element that is; None if there is none."""
    import numpy as np

    size = values.type.list_size
    elements = values.values.slice(values.offset * size, len(values) * size)
    if not elements.null_count:
        return None
    broken = np.asarray(elements.is_null()).reshape(-1, size).any(axis=1) & np.asarray(values.is_valid())
    places = np.flatnonzero(broken)
    return int(places[0]) if len(places) else None

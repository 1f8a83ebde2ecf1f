"""Vector columns as Arrow: fixed-size lists of float32, marked as vectors by the metadata of their field."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import ArrowColumn, ArrowField
from deltaic.schema.arrow import VECTOR_METADATA
from deltaic.state.vector_column import StoredVectors

VECTOR_VALUE: Final = b"float32"
"""What the metadata says; only that it is there counts."""


def vector_field(name: str, dimensions: int) -> ArrowField:
    """The type of a vector column."""
    item = ArrowField("item", "f", True)
    return ArrowField(name, f"+w:{dimensions}", True, (item,), ((VECTOR_METADATA, VECTOR_VALUE),))


def vector_column(name: str, column: StoredVectors, ordinals: NDArray[np.int64]) -> ArrowColumn:
    """The vectors of ordinals; null where there is none, and for an ordinal below 0."""
    field = vector_field(name, column.dimensions)
    valid = present_rows(column, ordinals)
    rows = column.rows(np.maximum(ordinals, 0))
    items = ArrowColumn(field.children[0], rows.size, data=rows.reshape(-1))
    return ArrowColumn(field, len(ordinals), None if bool(valid.all()) else valid, children=(items,))


def present_rows(column: StoredVectors, ordinals: NDArray[np.int64]) -> NDArray[np.bool_]:
    """For each ordinal whether it has a vector."""
    flags = column.present.flags(column.present.max() + 2)
    # The last flag is false: it stands for all that is out of range.
    inside = (ordinals >= 0) & (ordinals < len(flags))
    found: NDArray[np.bool_] = flags[np.where(inside, ordinals, len(flags) - 1)]
    return found

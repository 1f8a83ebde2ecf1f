"""NumPy's arrays as Arrow's, by their buffers: asking Arrow to convert would import pandas, a third of a second."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_TYPES = {"int64": pa.int64(), "float32": pa.float32()}


def arrow_array(values: NDArray[Any]) -> pa.Array:
    """An array without nulls, of int64, float32 or truths."""
    if values.dtype == np.bool_:
        bits = np.packbits(values, bitorder="little")
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
    held = np.ascontiguousarray(values)
    return pa.Array.from_buffers(_TYPES[held.dtype.name], len(held), [None, pa.py_buffer(held)])

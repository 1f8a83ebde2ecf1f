"""Rows given as columns: a name with an array or list each, and a matrix for a column of lists of one length.

    table.append({"id": [1, 2], "embedding": numpy.zeros((2, 384), numpy.float32)})

A matrix becomes a column without copying if it is contiguous; a masked or nested column is for Arrow to say.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from deltaic.errors import InputError
from deltaic.table.rows.schema import TableSchema


def table_of_columns(given: Mapping[str, Any], schema: TableSchema) -> Any:
    """The columns as an Arrow table, not yet of the table's exact types.

    Raises:
        InputError: a column is none of the table, is no array or list, or is not as long as the others.
    """
    arrays: dict[str, Any] = {}
    for name, values in given.items():
        if name not in schema.by_name:
            raise InputError(f"{name!r} is no column of the table; add it first", "NoColumn")
        arrays[name] = _column(values, schema, name)
    if not arrays:
        raise InputError("rows without any column")
    lengths = {name: len(column) for name, column in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"columns are of one length: {', '.join(f'{name} {n:,}' for name, n in lengths.items())}")
    return pa.table(list(arrays.values()), names=list(arrays))


def _column(values: Any, schema: TableSchema, name: str) -> Any:
    from deltaic.table.rows.conform import python_array

    if isinstance(values, np.ndarray):
        return _array(values, name)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "__arrow_c_stream__"):
        return pa.chunked_array(values)
    if hasattr(values, "__arrow_c_array__"):
        return pa.array(values)
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return python_array(list(values), schema.by_name[name], 0)
    raise InputError(f"column {name}: a {type(values).__name__} is no column: give an array or a list")


def _array(values: Any, name: str) -> Any:
    try:
        if values.ndim == 1:
            return pa.array(values)
        if values.ndim == 2 and values.shape[1]:
            elements = pa.array(np.ascontiguousarray(values).reshape(-1))
            return pa.FixedSizeListArray.from_arrays(elements, values.shape[1])
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise InputError(f"column {name}: {error}") from error
    raise InputError(f"column {name}: an array of shape {values.shape} is no column: give a list or a matrix")

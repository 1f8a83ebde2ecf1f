"""Values at the end of a path as Python objects, for people and for keys that are handed out."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.schema.paths import resolve_path
from deltaic.state.columns import Column, FixedColumn
from deltaic.state.read import ReadState


def path_column(
    state: ReadState, type_name: str, path: str, ordinals: NDArray[np.int64]
) -> tuple[Column | None, NDArray[np.int64]]:
    """The values that records have at the end of a path through references, and the rows that have a way to them.

    The column is None where no row has.
    """
    schemas = {name: data.schema for name, data in state.types.items()}
    resolved = resolve_path(schemas, type_name, path)
    rows = np.arange(len(ordinals), dtype=np.int64)
    current = ordinals
    column: Column | None = None
    for number, step in enumerate(resolved.steps):
        if not len(current):
            return None, rows
        column = state[step.type_name].column(step.name, current)
        if number < len(resolved.steps) - 1:
            assert isinstance(column, FixedColumn)
            there = slice(None) if column.valid is None else column.valid
            rows, current = rows[there], column.values[there].astype(np.int64)
    return column, rows


def key_values(state: ReadState, type_name: str, path: str, ordinals: NDArray[np.int64]) -> list[Any]:
    """The value of each record at the end of a path, None for null."""
    column, rows = path_column(state, type_name, path, ordinals)
    if column is not None and len(rows) == len(ordinals):
        return column.to_pylist()
    values: list[Any] = [None] * len(ordinals)
    if column is not None:
        for row, value in zip(rows.tolist(), column.to_pylist(), strict=True):
            values[row] = value
    return values

"""Vectors of rows on their way in: matrices of float32, whatever they were given as.

Arrow gives fixed-size lists or lists of any float type, Python anything that numpy takes as numbers. A float32 is
taken bit by bit; other numbers are rounded to the nearest one. Null is no vector.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.schema.classes import VectorColumn
from deltaic.schema.model import Model
from deltaic.state.ingest_columns import Column, Part, part_length, select
from deltaic.state.ingest_rows import Mask, Ordinals, Rows, Variable

Matrix = NDArray[np.float32]

VectorSink = Callable[[VectorColumn, Ordinals, Matrix, Mask | None], None]
"""Takes the vectors of numbered records: the column, ordinals, one row each, and which are not null (None: all)."""

VectorFields = Mapping[str, Mapping[str, VectorColumn]]
"""Type → field → its vector column."""


@dataclass(frozen=True, slots=True, eq=False)
class GivenVectors:
    """The vectors of one column for the records of one place."""

    column: VectorColumn
    matrix: Matrix
    valid: Mask | None


def vector_fields(model: Model | None) -> dict[str, dict[str, VectorColumn]]:
    """The vector columns of a model."""
    found: dict[str, dict[str, VectorColumn]] = {}
    for column in () if model is None else model.vectors:
        found.setdefault(column.type_name, {})[column.field_name] = column
    return found


def hand_over(root: Rows, sink: VectorSink | None) -> None:
    """Give the vectors of numbered rows, and of all rows below, to whoever collects them."""
    if sink is None:
        return
    for rows in root.walk():
        for given in rows.vectors:
            if rows.count:
                sink(given.column, rows.ordinals, given.matrix, given.valid)


def vectors_from_python(column: VectorColumn, values: list[Any], rows: Rows, path: str) -> GivenVectors:
    """Vectors given one by one: lists, arrays, None."""
    dims = column.dimensions
    valid = np.fromiter((value is not None for value in values), np.bool_, len(values))
    matrix = np.zeros((len(values), dims), np.float32)
    there = values if valid.all() else [value for value in values if value is not None]
    try:
        numbers = np.asarray(there)
    except (ValueError, TypeError):
        numbers = np.zeros(0, object)
    if there and (numbers.shape != (len(there), dims) or numbers.dtype.kind not in "fiu"):
        raise _first_refused(column, values, rows, path)
    if there:
        matrix[valid] = _rounded(numbers, valid, rows, path)
    return GivenVectors(column, matrix, None if valid.all() else valid)


def vectors_from_arrow(column: VectorColumn, given: Column | None, part: Part, rows: Rows, path: str) -> GivenVectors:
    """Vectors of an Arrow column; not copied where it is a fixed-size list of float32 without nulls."""
    dims, count = column.dimensions, part_length(part)
    if given is None or given.format == "n":
        return GivenVectors(column, np.zeros((count, dims), np.float32), np.zeros(count, np.bool_))
    valid = given.valid(part)
    lists, inside = given.resolve(part if valid is None else select(part, valid))
    if not lists.format.startswith(("+w:", "+l", "+L", "+vl", "+vL")) or lists.children[0].format not in "efg":
        why = f"column {path!r} is Arrow {lists.format!r}: a vector is a list of {dims} floats"
        raise InputError(why, "TypeConflict")
    offsets, elements = lists.list_part(inside)
    wrong = np.flatnonzero(np.diff(offsets) != dims)
    if len(wrong):
        index = int(wrong[0]) if valid is None else int(np.flatnonzero(valid)[wrong[0]])
        size = int(offsets[wrong[0] + 1] - offsets[wrong[0]])
        raise rows.refused(index, path, f"{size} numbers where a vector of {dims} belongs", "DimensionMismatch")
    child = lists.children[0]
    filled = child.valid(elements)
    if filled is not None:
        place = int(np.argmin(filled)) // dims
        index = place if valid is None else int(np.flatnonzero(valid)[place])
        raise rows.refused(index, path, "a dimension is null", "Null")
    numbers = _rounded(child.values(elements).reshape(-1, dims), valid, rows, path)
    if valid is None:
        return GivenVectors(column, numbers, None)
    matrix = np.zeros((count, dims), np.float32)
    matrix[valid] = numbers
    return GivenVectors(column, matrix, valid)


def _rounded(numbers: NDArray[Any], valid: Mask | None, rows: Rows, path: str) -> Matrix:
    """The nearest float32s; a number that would become infinite is refused."""
    if numbers.dtype == np.float32:
        return numbers
    with np.errstate(over="ignore"):
        rounded: Matrix = numbers.astype(np.float32)
    lost = np.isinf(rounded) & np.isfinite(numbers)
    if lost.any():
        place, dimension = np.argwhere(lost)[0].tolist()
        index = place if valid is None else int(np.flatnonzero(valid)[place])
        why = f"dimension {dimension} is {numbers[place, dimension]}, too large for a float32"
        raise rows.refused(index, path, why, "OutOfRange")
    return rounded


def as_bytes(given: GivenVectors) -> Variable:
    """Vectors as a BYTES field: the patterns of each, little-endian, one after another."""
    matrix = np.ascontiguousarray(given.matrix.astype("<f4", copy=False))
    width = 4 * matrix.shape[1]
    starts = np.arange(len(matrix), dtype=np.int64) * width
    return Variable(starts, starts + width, matrix.view(np.uint8).reshape(-1), given.valid)


def _first_refused(column: VectorColumn, values: list[Any], rows: Rows, path: str) -> InputError:
    dims = column.dimensions
    for index, value in enumerate(values):
        if value is None:
            continue
        try:
            numbers = np.asarray(value)
        except (ValueError, TypeError):
            numbers = np.zeros(0, object)
        if numbers.dtype.kind not in "fiu" or numbers.ndim != 1:
            return rows.refused(index, path, f"{_shown(value)} is no vector of numbers", "WrongType")
        if numbers.shape != (dims,):
            why = f"{len(numbers)} numbers where a vector of {dims} belongs"
            return rows.refused(index, path, why, "DimensionMismatch")
    return rows.refused(0, path, f"the vectors are no numbers that belong to {dims} dimensions", "WrongType")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"

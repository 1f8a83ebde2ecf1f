"""The vectors of a task's rows, written down beside its records until those are numbered for all."""

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.schema.model import VectorColumn
from deltaic.spark.build_scratch import Part, Scratch


class LocalVectors(msgspec.Struct, frozen=True, array_like=True):
    """Vectors that a task found in some of its rows."""

    type_name: str
    field_name: str
    ordinals: Part
    """Of their records, as the task counts them."""
    matrix: Part
    valid: Part | None
    """Which of them are there; None: all."""


class CollectedVectors:
    """Writes the vectors of rows down as they come."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self.found: list[LocalVectors] = []

    def take(
        self,
        column: VectorColumn,
        ordinals: NDArray[np.int32],
        matrix: NDArray[np.float32],
        valid: NDArray[np.bool_] | None,
    ) -> None:
        """Take the vectors of some records, as ingest hands them over."""
        flags = () if valid is None else (valid,)
        parts = self._scratch.write(ordinals, np.ascontiguousarray(matrix), *flags)
        self.found.append(
            LocalVectors(column.type_name, column.field_name, parts[0], parts[1], None if valid is None else parts[2])
        )

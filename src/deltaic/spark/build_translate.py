"""Translate: once the types below are numbered, a task's records get references that hold for all."""

from dataclasses import dataclass
from typing import ClassVar

import msgspec
import numpy as np

from deltaic.schema.types import Schema
from deltaic.spark.build_flatten import LocalType, Ordinals, renumbered
from deltaic.spark.build_merge import Segment
from deltaic.spark.build_numbers import CodeReader, FreeOrdinals
from deltaic.spark.build_runs import Run, write_run
from deltaic.spark.build_scratch import Scratch


class Translated(msgspec.Struct, frozen=True, array_like=True):
    """Runs of the types of a task, by name."""

    runs: dict[str, Run]


@dataclass(frozen=True)
class Numbered:
    """What became of the records of one type of a task."""

    rows: int
    free: FreeOrdinals
    segments: tuple[tuple[int, Segment], ...]
    """By range: the new records before it, and the task's rows in it."""

    def ordinals(self, scratch: Scratch) -> Ordinals:
        """From the task's own ordinals to those of the version."""
        found = np.zeros(self.rows, np.int32)
        reader = CodeReader(scratch, self.free)
        for offset, segment in self.segments:
            found[scratch.read(segment.labels)] = reader.ordinals(scratch.read(segment.codes), offset)
        return found


@dataclass(frozen=True)
class Translate:
    """Translate the types of one level of one task."""

    Result: ClassVar[type] = Translated

    types: tuple[tuple[Schema, LocalType], ...]
    below: tuple[tuple[str, Numbered], ...]
    scratch: Scratch
    cut: int

    @property
    def weight(self) -> int:
        """Bytes to read."""
        return sum(local.nbytes for _, local in self.types)

    def run(self) -> Translated:
        """Do it."""
        maps = {name: numbered.ordinals(self.scratch) for name, numbered in self.below}
        runs = {}
        for schema, local in self.types:
            columns = [self.scratch.read(part) for part in local.columns]
            runs[schema.name] = write_run(self.scratch, renumbered(schema, columns, maps), cut=self.cut)
        return Translated(runs)

"""Which engine publishes: Spark, or the embedded producer where the data fit one machine."""

import os
from dataclasses import dataclass
from typing import Any, Literal

from deltaic.errors import InputError
from deltaic.producer.populate import Population
from deltaic.producer.producer import Producer
from deltaic.producer.report import Cycle
from deltaic.schema.model import Model
from deltaic.spark.build_sources import Input
from deltaic.spark.build_types import levels_of

EngineName = Literal["auto", "embedded", "spark"]
"""Who builds a version."""

BYTES_PER_INPUT_BYTE = 8
"""Memory that the embedded path takes for a byte of a Parquet file, about: unpacked columns, records, blobs."""

MEMORY_SHARE = 0.5
"""How much of the memory that is free may be used."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine that was taken, and why."""

    engine: Literal["embedded", "spark"]
    reason: str


def choose_engine(
    rows: Input, model: Model, *, engine: EngineName = "auto", free_bytes: int | None = None
) -> EngineChoice:
    """Decide who builds a version.

    Args:
        rows: what the version holds.
        model: its model.
        engine: what the caller wants.
        free_bytes: memory of this machine that can be used; asked of the system if None.

    Raises:
        InputError: Spark is asked for and cannot build the model.
    """
    if engine == "embedded":
        return EngineChoice("embedded", "it was asked for")
    if engine == "spark":
        levels_of(model.schemas)
        return EngineChoice("spark", "it was asked for")
    if engine != "auto":
        raise InputError(f"engine {engine!r}: 'auto', 'embedded' or 'spark'")
    try:
        levels_of(model.schemas)
    except InputError:
        return EngineChoice("embedded", "a type refers to itself, which only the embedded path can build")
    size_bytes = _input_bytes(rows)
    if size_bytes is None:
        return EngineChoice("spark", "the size of a DataFrame is not known")
    free = _free_bytes() if free_bytes is None else free_bytes
    needed = size_bytes * BYTES_PER_INPUT_BYTE
    if needed <= free * MEMORY_SHARE:
        return EngineChoice(
            "embedded", f"{size_bytes:,} bytes of rows fit the {free:,} bytes of memory of this machine"
        )
    return EngineChoice(
        "spark", f"{size_bytes:,} bytes of rows may not fit the {free:,} bytes of memory of this machine"
    )


def publish_embedded(producer: Producer, rows: Input, *, note: str | None = None) -> Cycle:
    """Publish in this process what would be built by tasks."""

    def populate(cycle: Population) -> None:
        for type_name, splits in rows.splits:
            for split in splits:
                cycle.add_arrow(type_name, split.read())
        for type_name, frame in rows.frames:
            cycle.add_arrow(type_name, frame.toArrow())

    return producer.cycle(populate, note=note)


def _input_bytes(rows: Input) -> int | None:
    total = rows.split_bytes
    for _, frame in rows.frames:
        size = _frame_bytes(frame)
        if size is None:
            return None
        total += size
    return total


def _frame_bytes(frame: Any) -> int | None:
    """What Spark's planner thinks of the size of a DataFrame; a Connect session does not tell."""
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        return None
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        size = int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
    except (Py4JError, PySparkException):
        # A plan that cannot be made fails later, with its reason.
        return None
    # The planner says "as large as can be" where it does not know.
    return size if 0 <= size < 1 << 62 else None


def _free_bytes() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return 0

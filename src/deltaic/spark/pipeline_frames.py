"""The frames of a pipeline: sources by name, transforms over them, expectations on what comes out."""

import contextlib
import importlib
import importlib.util
import io
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic.errors import InputError
from deltaic.spark.pipeline_file import Expectation, Pipeline
from deltaic.spark.pipeline_sources import Opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def transformed(spark: "SparkSession", pipeline: Pipeline, opened: Sequence[Opened]) -> "DataFrame":
    """What is written to the table, before expectations."""
    frames: dict[str, Any] = {}
    for each in opened:
        frames[each.source.name] = each.frame
        each.frame.createOrReplaceTempView(each.source.name)
    for transform in pipeline.transform:
        if transform.sql is not None:
            frame = spark.sql(transform.sql)
        else:
            frame = _function(pipeline, str(transform.python))(spark, dict(frames))
            if not hasattr(frame, "createOrReplaceTempView"):
                raise InputError(
                    f"transform {transform.name}: {transform.python} gave a {type(frame).__name__}, not a DataFrame"
                )
        frames[transform.name] = frame
        frame.createOrReplaceTempView(transform.name)
    return frames[pipeline.written]


def checked_rows(frame: "DataFrame", expectations: Sequence[Expectation]) -> "DataFrame":
    """The rows that are wanted; one that must not be fails the job that meets it."""
    from pyspark.sql import functions as sql

    for each in expectations:
        holds = sql.coalesce(sql.expr(f"({each.that})").cast("boolean"), sql.lit(False))
        if each.otherwise == "drop":
            frame = frame.filter(holds)
        elif each.otherwise == "fail":
            # In a filter, so that no column that is not wanted takes it away.
            said = sql.concat(
                sql.lit(f"expectation {each.name!r} does not hold ({each.that}): "), sql.to_json(sql.struct("*"))
            )
            frame = frame.filter(sql.when(holds, sql.lit(True)).otherwise(sql.raise_error(said).cast("boolean")))
    return frame


def counted(
    frame: "DataFrame", expectations: Sequence[Expectation]
) -> "tuple[DataFrame, Callable[[], Mapping[str, int]]]":
    """The frame, and after it was written, how many of its rows break what only warns."""
    from pyspark.sql import Observation

    counts = broken_counts(expectations)
    if not counts:
        return frame, dict
    seen = Observation()
    observed = frame.observe(seen, *counts)
    return observed, lambda: {name: count or 0 for name, count in seen.get.items()}


def broken_counts(expectations: Sequence[Expectation]) -> list[Any]:
    """For each expectation that only warns, the count of rows that break it, as a column to observe."""
    from pyspark.sql import functions as sql

    counts = []
    for each in expectations:
        if each.otherwise == "warn":
            holds = sql.coalesce(sql.expr(f"({each.that})").cast("boolean"), sql.lit(False))
            counts.append(sql.sum(sql.when(holds, 0).otherwise(1)).alias(each.name))
    return counts


def plan_text(frame: "DataFrame") -> str:
    """Spark's plan of a frame."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain("formatted")
    return out.getvalue().strip()


def _function(pipeline: Pipeline, said: str) -> Callable[..., Any]:
    """The function of a transform, from a file beside the pipeline's or from a module."""
    place, _, name = said.rpartition(":")
    if place.endswith(".py"):
        file = Path(pipeline.place(place))
        spec = importlib.util.spec_from_file_location(f"deltaic_pipeline_{file.stem}", file)
        if spec is None or spec.loader is None or not file.is_file():
            raise InputError(f"there is no file {file}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _sent_by_value(module)
    else:
        try:
            module = importlib.import_module(place)
        except ImportError as error:
            raise InputError(f"transform {said}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        raise InputError(f"{place} has no function {name!r}")
    made: Callable[..., Any] = found
    return made


def _sent_by_value(module: Any) -> None:
    """Workers cannot import a file that lies beside the pipeline: its functions go to them whole."""
    from pyspark import cloudpickle

    sys.modules[module.__name__] = module
    cloudpickle.register_pickle_by_value(module)

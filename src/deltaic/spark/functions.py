"""Functions for DataFrames over columns of vectors: deltas between them, and vectors in fewer bytes.

    from deltaic.spark import functions as F

    frame.select("id", F.vector_delta("yesterday", "today").alias("delta"))
    frame.select("id", F.apply_vector_delta("yesterday", "delta").alias("today"))
    frame.select("id", F.quantize("embedding", "int8").alias("small"))

A vector is an `array<float>`; a delta and a quantised vector are `binary`, the messages of `deltaic.wire.vectors`, so
that anything which reads those reads these. `register(spark)` gives the functions to SQL.
"""

from typing import TYPE_CHECKING, Any

from deltaic.spark.session import activate
from deltaic.wire.vectors import EncodeOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

__all__ = ["apply_vector_delta", "dequantize", "quantize", "register", "vector_delta"]

_VECTOR = "array<float>"


def vector_delta(old: "Column | str", new: "Column | str", options: EncodeOptions | None = None) -> "Column":
    """What leads from one vector to another, as binary: null if there is no new one, all of it if there was no old one.

    Args:
        old: the vectors that the reader has.
        new: those that it should have.
        options: what counts as a change, what may be lost, compression; bit-exact and without by default.
    """
    return _delta_function(options or EncodeOptions())(old, new)


def apply_vector_delta(old: "Column | str", delta: "Column | str") -> "Column":
    """The vectors that deltas make of others."""
    return _apply_function()(old, delta)


def quantize(vector: "Column | str", quantization: str = "int8", *, max_error: float | None = None) -> "Column":
    """Vectors in fewer bytes, as binary.

    Args:
        vector: the vectors.
        quantization: `f16`, `int8`, `int4`; `none` keeps every bit; `auto` takes the smallest within `max_error`.
        max_error: the largest error of a value that `auto` may make.
    """
    return _quantize_function(EncodeOptions(quantization=quantization, max_quant_error=max_error))(vector)  # type: ignore[arg-type]


def dequantize(small: "Column | str") -> "Column":
    """The vectors that `quantize` kept, as far as it kept them."""
    return _dequantize_function()(small)


def register(spark: "SparkSession") -> None:
    """Make them known to SQL: `vector_delta`, `apply_vector_delta`, `quantize_<how>` and `dequantize`."""
    activate(spark)
    spark.udf.register("vector_delta", _delta_function(EncodeOptions()))
    spark.udf.register("apply_vector_delta", _apply_function())
    spark.udf.register("dequantize", _dequantize_function())
    for name in ("f16", "int8", "int4"):
        spark.udf.register(f"quantize_{name}", _quantize_function(EncodeOptions(quantization=name)))  # type: ignore[arg-type]


# Spark tells kinds of functions apart by their annotations, which must be real types when it looks.


def _delta_function(options: EncodeOptions) -> Any:
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    def vector_delta(old: pa.Array, new: pa.Array) -> pa.Array:
        from deltaic.spark.vector_columns import delta_column

        return delta_column(old, new, options)

    return arrow_udf(vector_delta, "binary")


def _apply_function() -> Any:
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    def apply_vector_delta(old: pa.Array, delta: pa.Array) -> pa.Array:
        from deltaic.spark.vector_columns import applied_column

        return applied_column(old, delta)

    return arrow_udf(apply_vector_delta, _VECTOR)


def _quantize_function(options: EncodeOptions) -> Any:
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    def quantize(vector: pa.Array) -> pa.Array:
        from deltaic.spark.vector_columns import quantized_column

        return quantized_column(vector, options)

    return arrow_udf(quantize, "binary")


def _dequantize_function() -> Any:
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf

    def dequantize(small: pa.Array) -> pa.Array:
        from deltaic.spark.vector_columns import dequantized_column

        return dequantized_column(small)

    return arrow_udf(dequantize, _VECTOR)

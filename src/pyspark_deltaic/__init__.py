"""Where Spark finds the data source `deltaic`: it looks for modules named `pyspark_*` that have a `DefaultSource`."""

from deltaic.spark.source import DeltaicSource as DefaultSource

__all__ = ["DefaultSource"]

"""A transform in Python: it gets the session and the frames before it by name."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import trim


def clean(spark: SparkSession, frames: dict[str, DataFrame]) -> DataFrame:
    """Titles without blanks around them."""
    return frames["known"].withColumn("title", trim("title"))

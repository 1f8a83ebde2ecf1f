"""A declarative pipeline of Spark with a deltaic table as sink.

    cd examples/declarative
    python -c "from films_table import make; make()"     # once: the table
    spark-pipelines run                                  # JSON files → table, what is new, exactly once

Spark runs the flow as a stream: the table keeps the number of every batch beside its rows.
"""

from pathlib import Path

from pyspark import pipelines
from pyspark.sql import DataFrame, SparkSession

HERE = Path(__file__).resolve().parent

pipelines.create_sink(
    "films",
    "deltaic",
    {"path": str(HERE / "table"), "txnAppId": "declarative-films"},
)


@pipelines.append_flow(target="films")
def new_films() -> DataFrame:
    """What is new in the folder."""
    spark = SparkSession.active()
    return spark.readStream.schema("id bigint, title string").json(str(HERE / "incoming"))

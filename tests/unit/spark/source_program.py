"""A program that writes, reads, streams and runs a pipeline on a Spark of its own.

    python -m tests.unit.spark.source_program connect|classic URL FOLDER [EVENT_LOG_FOLDER]

It prints what it found as one line of JSON, and every plan that Spark made of it.
"""

import json
import os
import sys

import pyarrow as pa


def start(kind, events):
    from deltaic.spark import session
    from deltaic.spark.java import java_home

    if kind == "classic":
        logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events, "spark.eventLog.compress": "false"}
        return session(quick_start=True, config=logged)
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    with java_home() as home:
        os.environ["JAVA_HOME"] = home
        made = (
            SparkSession.builder.remote("local[2]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .getOrCreate()
        )
    assert session() is made, "a Connect session that is there is the one that is used"
    return made


def main(kind, url, folder, events=None):
    import deltaic.spark
    from deltaic.spark.pipeline_file import make_pipeline
    from deltaic.spark.pipeline_run import run_pipeline
    from deltaic.table.rows import Table

    spark = start(kind, events)
    frame = spark.range(0, 20).selectExpr("id", "concat('film ', id) AS title", "CAST(id % 3 AS INT) AS year")
    deltaic.spark.write(frame, f"{url}/films", create=True, key=["id"])
    films = deltaic.spark.read(spark, f"{url}/films", where="year = 1", columns=["id", "title"])
    films.explain("extended")
    Table.create(f"{url}/copy", Table.open(f"{url}/films").schema)
    query = (
        spark.readStream.format("deltaic")
        .load(f"{url}/films")
        .writeStream.format("deltaic")
        .options(txnAppId="copy", checkpointLocation=f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{url}/copy")
    )
    query.awaitTermination(120)
    pipeline = make_pipeline(
        {
            "name": "films",
            "source": [{"name": "raw", "format": "deltaic", "path": f"{url}/films", "stream": True}],
            "transform": [{"name": "films", "sql": "SELECT id, upper(title) AS title FROM raw"}],
            "table": {"dataset": f"{url}/dataset", "type": "Film", "key": ["id"], "mode": "merge"},
            "publish": {"engine": "embedded"},
            "checkpoint": f"{folder}/merge",
        },
        folder,
    )
    steps = [step.name for step in run_pipeline(pipeline, spark)]
    found = {
        "module": type(spark).__module__,
        "ids": sorted(row["id"] for row in films.collect()),
        "copied": Table.open(f"{url}/copy").count(),
        "steps": steps,
        "rows": pa.table(Table.open(f"{url}/dataset/table").to_arrow()).num_rows,
        "progress": deltaic.spark.stream_progress(f"{url}/copy", "copy").offsets,
    }
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

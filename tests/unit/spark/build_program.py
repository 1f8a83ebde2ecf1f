"""A program that publishes versions on a Spark of its own: a Connect session, or a standalone cluster.

    python -m tests.unit.spark.build_program MASTER INPUT_FOLDER CHAIN_FOLDER VERSIONS [GATE_FOLDER]

MASTER is `connect` or the URL of a cluster. With a gate, tasks that read rows leave a file there with the number of
their process, and wait until there is a file `go`.
"""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GatedSplit:
    """The rows of a file, once the gate is open."""

    path: str
    gate: str
    size_bytes: int = 1

    def read(self):
        import pyarrow.parquet as pq

        gate = Path(self.gate)
        if not (gate / "go").exists():
            (gate / f"waiting-{os.getpid()}-{os.getppid()}").touch()
            until = time.monotonic() + 120
            while not (gate / "go").exists() and time.monotonic() < until:
                time.sleep(0.05)
        return pq.read_table(self.path)


def main() -> None:
    from tests.unit.spark.build_chains import producer, write_files

    master, folder, chain, versions, *gate = sys.argv[1:]
    if master == "connect":
        from pyspark.sql import SparkSession

        from deltaic.spark.java import java_home

        os.environ["PYSPARK_PYTHON"] = sys.executable
        with java_home() as home:
            os.environ["JAVA_HOME"] = home
            spark = (
                SparkSession.builder.remote("local[2]")
                .config("spark.ui.enabled", "false")
                .config("spark.sql.session.timeZone", "UTC")
                .getOrCreate()
            )
    else:
        from deltaic.spark import session

        spark = session(
            master,
            config={
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.ui.enabled": "false",
                "spark.executor.memory": "512m",
                "spark.executor.cores": "1",
                "spark.default.parallelism": "2",
                # Both executors are there before the first job: else one of them gets all tasks.
                "spark.scheduler.minRegisteredResourcesRatio": "1.0",
                "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            },
        )
    from deltaic.spark.build import Sizes, publish

    tiny = Sizes(sorted_rows=1, range_bytes=1, group_bytes=1, restore_bytes=1)
    jobs = []
    with producer(chain) as built:
        for version in range(int(versions)):
            sources = write_files(Path(folder), version)
            if gate:
                sources = {name: [GatedSplit(path, gate[0]) for path in paths] for name, paths in sources.items()}
            elif version == 0 and master == "connect":
                sources = {name: spark.read.parquet(*paths) for name, paths in sources.items()}
            publish(spark, built, sources, tasks=2, sizes=tiny, progress=lambda *job: jobs.append(job))
    print("published", len(jobs), type(spark).__module__, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

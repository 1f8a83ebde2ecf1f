"""How the catalogue of the demonstration comes into the table and is published: by a Spark pipeline, or from Arrow."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from deltaic.cli.demo_catalogue import Catalogue, Movie
from deltaic.dataset.dataset import Dataset

_PIPELINE = """\
name = "catalogue"

[[source]]
name = "files"
format = "parquet"
path = "incoming"

[[transform]]
name = "movies"
sql = "SELECT {columns} FROM files"

[[expect]]
name = "a movie has a title"
that = "length(title) > 0"

[table]
dataset = "{url}"
type = "Movie"
key = ["id"]
mode = "overwrite"
text = ["title"]

[publish]
engine = "embedded"
"""
_DECADE = "*, CAST(year DIV 10 * 10 AS INT) AS decade"


class Engine(Protocol):
    """What brings a catalogue into the table and publishes it."""

    def load(self, catalogue: Catalogue, note: str, *, with_decade: bool = False) -> dict[str, Any]:
        """Make a catalogue the table's rows, publish them, and give the facts of the version."""
        ...

    def stop(self) -> None:
        """End what was started."""
        ...


class SparkEngine:
    """A pipeline over Parquet files, as `deltaic run` runs it."""

    def __init__(self, url: str, spark: Any, folder: Path, say: Callable[[str], None]) -> None:
        self._url, self._spark, self._folder, self._say = url, spark, folder, say

    def load(self, catalogue: Catalogue, note: str, *, with_decade: bool = False) -> dict[str, Any]:
        """Write the files of a day, and run the pipeline."""
        import pyarrow.parquet as parquet

        from deltaic.spark.pipeline_file import read_pipeline
        from deltaic.spark.pipeline_run import PipelineRun

        start = time.perf_counter()
        incoming = self._folder / "incoming"
        incoming.mkdir(exist_ok=True)
        parquet.write_table(catalogue.to_arrow(), incoming / "movies.parquet")
        self._say(f"{len(catalogue):,} movies in Parquet files, {note} ({time.perf_counter() - start:.1f} s)")
        file = self._folder / "catalogue.toml"
        columns = _DECADE if with_decade else "*"
        file.write_text(_PIPELINE.format(columns=columns, url=str(Path(self._url).absolute())))
        facts: dict[str, Any] = {}
        for step in PipelineRun(read_pipeline(file), self._spark).run():
            self._say(f"  {step.name:<9} {step.seconds:6.2f} s  {step.text}")
            facts = dict(step.facts) if step.name == "published" else facts
        return facts

    def stop(self) -> None:
        """End Spark."""
        self._spark.stop()


class ArrowEngine:
    """The same without Spark: the table is written and published in this process."""

    def __init__(self, url: str, say: Callable[[str], None]) -> None:
        self._url, self._say = url, say
        self._dataset: Dataset | None = None

    def load(self, catalogue: Catalogue, note: str, *, with_decade: bool = False) -> dict[str, Any]:
        """Overwrite the table, and publish it."""
        from deltaic.schema.model import Model
        from deltaic.spark.pipeline_publish import published_facts
        from deltaic.table.split import ColumnIndex

        start = time.perf_counter()
        rows = _with_decade(catalogue.to_arrow()) if with_decade else catalogue.to_arrow()
        self._say(f"{len(catalogue):,} movies as an Arrow table, {note} ({time.perf_counter() - start:.1f} s)")
        start = time.perf_counter()
        if self._dataset is None:
            model = Model.from_arrow(rows.schema, Movie.__name__, key="id")
            index = {"title": ColumnIndex(kind="text")}
            self._dataset = Dataset.create(self._url, model, table=True, index=index)
        dataset = self._dataset
        if with_decade:
            dataset.table.add_column("decade", rows.schema.field("decade").type)
        done = dataset.table.overwrite(rows, note=note)
        self._say(f"  rows      {time.perf_counter() - start:6.2f} s  table version {done.version}")
        return published_facts(dataset.publish(note=note))

    def stop(self) -> None:
        """Nothing was started."""


def _with_decade(rows: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    year = rows["year"].cast(pa.int64())
    return rows.append_column("decade", pc.multiply(pc.divide(year, 10), 10).cast(pa.int32()))

"""`spark.read.format("deltaic")`: tables as a Spark data source, for batches and streams.

Thin: options are read here, everything else is the table's own columnar code. The class is found by Spark through the
module `pyspark_deltaic`, in sessions of any kind.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from deltaic.errors import InputError
from deltaic.spark.feed_source import FeedReader, FeedRequest, FeedStream, feed_schema, wants_feed
from deltaic.spark.request import ReadRequest, WriteRequest

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class DeltaicSource(DataSource):
    """Tables of deltaic in Spark. `path` is the URL; `ReadRequest` and `WriteRequest` have the other options."""

    _version: int | None = None

    @classmethod
    def name(cls) -> str:
        """What it is called in `format`."""
        return "deltaic"

    def schema(self) -> "StructType":
        """The columns that are asked for."""
        if wants_feed(self.options):
            return feed_schema(FeedRequest.of(self.options))
        request = ReadRequest.of(self.options)
        if request.changes:
            from deltaic.spark.streaming import changes_schema

            return changes_schema(request)
        from deltaic.spark.reading import read_schema

        # Spark keeps this object and asks it for the rows at the first action: they are of the version that the
        # schema is of, however many commits come in between.
        schema, self._version = read_schema(request)
        return schema

    def reader(self, schema: "StructType") -> DataSourceReader:
        """A batch read; `.schema(…)` with some of the columns reads only those."""
        from deltaic.spark.reading import BatchReader

        if wants_feed(self.options):
            return FeedReader(FeedRequest.of(self.options), schema)
        request = ReadRequest.of(self.options)
        if request.changes:
            raise InputError("the change feed is a stream: spark.readStream; in a program there is Table.changes")
        if self._version is not None:
            request = replace(request, version=self._version, timestamp=None, tag=None)
        return BatchReader(request, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """A batch write: append or overwrite."""
        from deltaic.spark.writing import BatchWriter

        return BatchWriter(WriteRequest.of(self.options), schema, overwrite)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        """A stream of the table's versions, or of a dataset's changes."""
        from deltaic.spark.streaming import VersionStream

        if wants_feed(self.options):
            return FeedStream(FeedRequest.of(self.options), schema)
        return VersionStream(ReadRequest.of(self.options), schema)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:
        """A sink that takes every batch once."""
        from deltaic.spark.writing import StreamWriter

        return StreamWriter(WriteRequest.of(self.options), schema, overwrite)

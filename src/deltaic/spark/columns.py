"""Columns as Spark knows them: the schema of a table, and batches of exactly the types that Spark expects."""

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltaic.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def spark_schema(arrow_schema: Any) -> "StructType":
    """The Spark schema of Arrow columns; what Spark has no type for is its next larger one."""
    from pyspark.sql.types import StructType

    from deltaic.table.rows.types import spark_schema as spark_json

    made: StructType = StructType.fromJson(json.loads(spark_json(list(arrow_schema))))
    return made


def arrow_schema(schema: "StructType") -> Any:
    """The Arrow schema that Spark expects of a source, and gives to a sink, for its schema."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")


def for_spark(batch: Any, wanted: Any) -> Any:
    """A batch with exactly these names and types.

    Raises:
        InputError: a value that Spark's type cannot hold.
    """
    if batch.schema.equals(wanted):
        return batch
    columns = []
    for field in wanted:
        column = batch.column(field.name)
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except pa.ArrowInvalid as error:
                raise InputError(f"column {field.name}: Spark's {field.type} cannot hold it: {error}") from error
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=wanted)

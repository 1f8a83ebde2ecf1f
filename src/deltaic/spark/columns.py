"""Columns as Spark knows them: the schema of a table, and batches of exactly the types that Spark expects.

Spark has no unsigned numbers, half floats, durations of every unit, or decimals of more than 38 digits. It sees them as
the next larger type that holds their values (`table.rows.types`), and what it writes there becomes the table's own type
again, if every value fits.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltaic.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def spark_schema(arrow_schema: Any) -> "StructType":
    """The Spark schema of Arrow columns; what Spark has no type for is its next larger one."""
    from pyspark.sql.types import StructType

    from deltaic.table.rows.types import spark_schema as spark_json

    made: StructType = StructType.fromJson(json.loads(spark_json(list(arrow_schema))))
    return made


def arrow_schema(schema: "StructType") -> Any:
    """The Arrow schema that Spark expects of a source, and gives to a sink, for its schema."""
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema

    try:
        return to_arrow_schema(schema, timezone="UTC")
    except PySparkException as error:
        raise InputError(f"a table cannot hold columns of these types: {error}") from error


def with_vectors(schema: Any, vectors: Mapping[str, int]) -> Any:
    """An Arrow schema from Spark with vectors of so many dimensions in the place of some of its lists of floats.

    Raises:
        InputError: such a column is not there, or is no `array<float>`.
    """
    from deltaic.table.rows.types import vector_field

    for name, dimensions in vectors.items():
        place = schema.get_field_index(name)
        if place < 0:
            raise InputError(f"there is no column {name!r} to be a vector; columns: {', '.join(schema.names)}")
        field = schema.field(place)
        if not pa.types.is_list(field.type) or field.type.value_type != pa.float32():
            raise InputError(f"column {name} is a {field.type}: a vector is an array<float>")
        schema = schema.set(place, vector_field(name, dimensions, nullable=field.nullable))
    return schema


def for_spark(batch: Any, wanted: Any) -> Any:
    """A batch with exactly these names and types.

    Raises:
        InputError: a value that Spark's type cannot hold.
    """
    if batch.schema.equals(wanted):
        return batch
    columns = []
    for field in wanted:
        place = batch.schema.get_field_index(field.name)
        if place < 0:
            raise InputError(f"there is no column {field.name!r} any more; columns: {', '.join(batch.schema.names)}")
        columns.append(_as(batch.column(place), field.type, field.name))
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def for_table(batch: Any, table_schema: Any) -> Any:
    """A batch from Spark, with the table's own types where Spark has none that are like them.

    The rest (narrower numbers, other units) is the table's to convert, or to refuse with row and value.
    """
    columns, fields = [], []
    for place, field in enumerate(batch.schema):
        known = table_schema.get_field_index(field.name)
        column = batch.column(place)
        if known >= 0:
            kind = table_schema.field(known).type
            if _has_stand_in(kind) and not _has_stand_in(field.type):
                column = _from_stand_in(column, kind, field.name)
        columns.append(column)
        fields.append(field.with_type(column.type))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _as(column: Any, kind: Any, name: str) -> Any:
    if column.type == kind:
        return column
    if pa.types.is_struct(kind) and pa.types.is_struct(column.type):
        return _struct_as(column, kind, name)
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"column {name}: Spark's {kind} cannot hold it: {error}") from error


def _struct_as(column: Any, kind: Any, name: str) -> Any:
    """Structs by the names of their fields: a table may have gained some that a stream does not know."""
    children = []
    for field in kind:
        place = column.type.get_field_index(field.name)
        if place < 0:
            raise InputError(f"column {name} has no field {field.name!r} any more")
        child = column.field(place)
        children.append(_as(child, field.type, f"{name}.{field.name}"))
    mask = pc.is_null(column) if column.null_count else None
    # A child that is never null is null below a null struct, for Arrow; nobody looks there.
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)


def _has_stand_in(kind: Any) -> bool:
    """Whether Spark sees a type, or one inside it, as something that the table would not take for it."""
    types = pa.types
    if types.is_time(kind) or types.is_duration(kind):
        return True
    if types.is_decimal(kind):
        return bool(kind.precision > 38 or kind.scale < 0 or kind.scale > kind.precision)
    if types.is_dictionary(kind):
        return _has_stand_in(kind.value_type)
    if types.is_map(kind):
        return _has_stand_in(kind.key_type) or _has_stand_in(kind.item_type)
    if types.is_nested(kind):
        return any(_has_stand_in(kind.field(place).type) for place in range(kind.num_fields))
    return False


def _from_stand_in(column: Any, kind: Any, name: str) -> Any:
    try:
        found = column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"column {name}: {column.type} cannot become the table's {kind}: {error}") from error
    if pa.types.is_time(kind) and len(column):
        ends = pc.min_max(column)
        low, high = ends["min"].as_py(), ends["max"].as_py()
        if low is not None and (low < 0 or high >= _DAY[kind.unit]):
            raise InputError(f"column {name}: {low if low < 0 else high} {kind.unit} is no time of a day")
    return found

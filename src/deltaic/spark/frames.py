"""The data source by Python calls: options with names and types, and a version that is fixed before Spark plans.

films = deltaic.spark.read(spark, "s3://bucket/films", columns=["id", "title"], where="year >= 1970")
deltaic.spark.write(films, "s3://bucket/old", mode="overwrite", note="nightly")
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from deltaic.errors import InputError
from deltaic.spark.session import activate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deltaic.table.rows.matching import Where


def read(
    spark: "SparkSession",
    url: str | PathLike[str],
    *,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    tag: str | None = None,
    columns: Sequence[str] | None = None,
    where: "Where | None" = None,
    query: str | None = None,
    limit: int | None = None,
) -> "DataFrame":
    """The rows of a table as a Spark DataFrame, as they are now or were then.

    Spark hands nothing down to a Python source: what is said here is applied before rows reach Spark, what is said to
    the DataFrame after that.

    Args:
        spark: a session, classic or Connect.
        url: of the table.
        version: a version by number.
        timestamp: the version of a time.
        tag: the version of a tag.
        columns: the wanted columns, in this order.
        where: a predicate or its text.
        query: a search; it filters, scores are not told.
        limit: so many rows at most.
    """
    activate(spark)
    options: dict[str, str] = {}
    if isinstance(timestamp, datetime):
        timestamp = (timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)).isoformat()
    for name, value in (("version", version), ("timestamp", timestamp), ("tag", tag), ("limit", limit)):
        if value is not None:
            options[name] = str(value)
    if columns is not None:
        options["columns"] = json.dumps(list(columns))
    if where is not None:
        options["where"] = _text(where)
    if query is not None:
        options["query"] = query
    return spark.read.format("deltaic").options(**options).load(fspath(url))


def write(
    frame: "DataFrame",
    url: str | PathLike[str],
    *,
    mode: Literal["append", "overwrite"] = "append",
    where: "Where | None" = None,
    dynamic: bool = False,
    create: bool = False,
    partition_by: Sequence[str] = (),
    key: Sequence[str] = (),
    vectors: Mapping[str, int] | None = None,
    note: str | None = None,
    user: Mapping[str, str] | None = None,
    transaction: tuple[str, int] | None = None,
) -> None:
    """Write a DataFrame to a table, in one commit.

    Args:
        frame: the rows.
        url: of the table.
        mode: append, or overwrite all rows.
        where: overwrite only the rows for which this is true; all new ones must fulfil it.
        dynamic: overwrite only the partitions that the new rows are in.
        create: make the table if there is none.
        partition_by: of a table that is made.
        key: of a table that is made.
        vectors: of a table that is made: which columns (`array<float>`) are vectors, of how many dimensions.
        note: for the history.
        user: texts for the history.
        transaction: application and number; not done twice.
    """
    if mode not in ("append", "overwrite"):
        raise InputError(f"mode {mode!r}: 'append' or 'overwrite'")
    activate(frame.sparkSession)
    options: dict[str, Any] = {"createTable": str(create).lower()}
    if where is not None:
        options["replaceWhere"] = _text(where)
    if dynamic:
        options["partitionOverwriteMode"] = "dynamic"
    for name, names in (("partitionBy", partition_by), ("key", key)):
        if names:
            options[name] = json.dumps([names] if isinstance(names, str) else list(names))
    if vectors:
        options["vectors"] = json.dumps(dict(vectors))
    if note is not None:
        options["note"] = note
    if user:
        options["user"] = json.dumps(dict(user))
    if transaction is not None:
        options |= {"txnAppId": transaction[0], "txnVersion": str(transaction[1])}
    frame.write.format("deltaic").mode(mode).options(**options).save(fspath(url))


def _text(where: "Where") -> str:
    from deltaic.table.rows.matching import as_predicate, predicate_text

    predicate = as_predicate(where)
    return "" if predicate is None else predicate_text(predicate)

"""The table that the declarative pipeline writes to."""

from pathlib import Path

import pyarrow as pa

from deltaic.table.rows import Table


def make() -> Table:
    """Make the table, if it is not there."""
    schema = pa.schema([("id", pa.int64()), ("title", pa.string())])
    return Table.create(Path(__file__).resolve().parent / "table", schema, key=("id",), exist_ok=True)

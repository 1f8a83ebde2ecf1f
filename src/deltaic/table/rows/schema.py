"""The columns of a table: what people call them, what splits call them, their exact types and defaults.

A split knows a column by its *physical* name, which it got when it was made and keeps for good; people know it by the
name in `schemaString`. What `schemaString` cannot say is in the configuration, key `deltaic.columns`:

    {"columns": [{"name": "price", "physical": "cost", "type": {"format": "S"}, "default": 0, "widened": ["float"]}],
     "retired": ["old"]}

Only columns that need an entry have one: without it both names are the same, the type is what Spark's JSON says and
what a split lacks is null. `retired` are physical names of dropped columns, which no later column may get.
"""

import base64
import datetime
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from deltaic.errors import InputError, SchemaError
from deltaic.table.actions import Metadata
from deltaic.table.rows.types import (
    describe_type,
    fields_of_spark,
    from_spark,
    read_type,
    spark_schema,
    stored_type,
    to_spark,
)
from deltaic.table.split.vectors import check_vector_field

COLUMNS_KEY: Final = "deltaic.columns"
"""Where the configuration says what `schemaString` cannot."""
KEY_KEY: Final = "deltaic.key"
"""Where it says which columns, by physical name, tell rows apart."""
INDEX_KEY: Final = "deltaic.index"
"""Where it says how columns, by physical name, are indexed."""
CONSTRAINTS_KEY: Final = "deltaic.constraints"
"""Where it says what rows must be like; column names in it are physical."""

RESERVED: Final = frozenset(("_change", "_version", "_score", "_row", "_split", "before", "after"))


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a table."""

    field: Any
    """Its Arrow field: name, exact type, whether it may be null."""
    physical: str
    """Its name in splits and statistics."""
    default: Any = None
    """What rows have that were written before the column was there, and those that leave it out."""
    widened: tuple[str, ...] = ()
    """The Spark types that it had before."""

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self.field.name)

    @property
    def type(self) -> Any:
        """Its exact Arrow type."""
        return self.field.type


@dataclass(frozen=True)
class TableSchema:
    """The columns of a table at one version. Immutable."""

    columns: tuple[TableColumn, ...]
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    """The columns that tell rows apart, by their names."""
    retired: tuple[str, ...] = ()
    index: Mapping[str, Any] = field(default_factory=dict)
    """How columns are indexed, by physical name, as JSON."""
    constraints: Mapping[str, str] = field(default_factory=dict)
    """Checks by their names; columns in them are physical."""

    def __post_init__(self) -> None:
        for names, what in (
            ([column.name for column in self.columns], "name"),
            ([column.physical for column in self.columns], "physical name"),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise SchemaError(f"two columns have the {what} {twice[0]!r}")
        if not self.columns:
            raise SchemaError("a table needs a column")

    @cached_property
    def arrow(self) -> Any:
        """The Arrow schema, as people see it."""
        return pa.schema([column.field for column in self.columns])

    @cached_property
    def by_name(self) -> dict[str, TableColumn]:
        """Columns by their names."""
        return {column.name: column for column in self.columns}

    @cached_property
    def stored(self) -> tuple[TableColumn, ...]:
        """The columns that lie in splits: all but the partition columns."""
        return tuple(column for column in self.columns if column.name not in self.partition_by)

    @cached_property
    def stored_arrow(self) -> Any:
        """The Arrow schema of splits, by physical names."""
        fields = [column.field.with_type(stored_type(column.type)) for column in self.stored]
        return pa.schema([field.with_name(column.physical) for field, column in zip(fields, self.stored, strict=True)])

    @property
    def physical(self) -> dict[str, str]:
        """The physical name of each column."""
        return {column.name: column.physical for column in self.columns}

    def column(self, name: str) -> TableColumn:
        """A column by its name."""
        found = self.by_name.get(name)
        if found is None:
            raise InputError(f"there is no column {name!r}; there are {_listed(self.by_name)}", "NoColumn")
        return found

    def spark_json(self) -> str:
        """What `schemaString` says."""
        return spark_schema([column.field for column in self.columns])

    def physical_metadata(self, metadata: Metadata) -> Metadata:
        """The metadata with physical names in its schema, for planning by statistics."""
        from msgspec.structs import replace as changed

        text = spark_schema([column.field.with_name(column.physical) for column in self.columns])
        return changed(metadata, schema_string=text)

    def configuration(self) -> dict[str, str | None]:
        """The keys of the configuration that say the rest; None where there is nothing to say."""
        columns = [entry for column in self.columns if (entry := _entry(column)) is not None]
        said: dict[str, Any] = {}
        if columns:
            said["columns"] = columns
        if self.retired:
            said["retired"] = list(self.retired)
        key = [self.by_name[name].physical for name in self.key]
        return {
            COLUMNS_KEY: _json(said) if said else None,
            KEY_KEY: _json(key) if key else None,
            INDEX_KEY: _json(dict(self.index)) if self.index else None,
            CONSTRAINTS_KEY: _json(dict(sorted(self.constraints.items()))) if self.constraints else None,
        }

    def with_columns(self, columns: Iterable[TableColumn], **more: Any) -> "TableSchema":
        """The same table with other columns."""
        return replace(self, columns=tuple(columns), **more)

    def free_physical(self, name: str) -> str:
        """A physical name that no column has or had."""
        taken = {*self.retired, *(column.physical for column in self.columns)}
        found, number = name, 1
        while found in taken:
            number += 1
            found = f"{name}_{number}"
        return found


def make_schema(
    fields: Iterable[Any],
    *,
    partition_by: Sequence[str] = (),
    key: Sequence[str] = (),
    index: Mapping[str, Any] | None = None,
    defaults: Mapping[str, Any] | None = None,
) -> TableSchema:
    """The schema of a new table."""
    columns = []
    for one in fields:
        check_name(one.name)
        kept = pa.field(one.name, one.type, nullable=one.nullable, metadata=one.metadata)
        describe_type(one.type, one.name)
        check_vector_field(kept)
        _metadata_texts(kept)
        default = (defaults or {}).get(one.name)
        columns.append(TableColumn(kept, one.name, check_default(default, kept)))
    made = TableSchema(tuple(columns), tuple(partition_by), tuple(key), index=dict(index or {}))
    for name, what in (*((name, "partition") for name in partition_by), *((name, "key") for name in key)):
        if name not in made.by_name:
            raise InputError(f"the {what} column {name!r} is no column of the table", "NoColumn")
    for names in (partition_by, key):
        if len(set(names)) != len(names):
            raise InputError(f"{', '.join(names)}: a column is named twice")
    if len(partition_by) == len(columns):
        raise SchemaError("a table needs a column that is no partition column: splits hold no others")
    for name in partition_by:
        check_partition_type(name, made.by_name[name].type)
    for name in key:
        check_key_type(name, made.by_name[name].type)
    unknown = sorted({*(defaults or {}), *(index or {})} - set(made.by_name))
    if unknown:
        raise InputError(f"there is no column {unknown[0]!r}; there are {_listed(made.by_name)}", "NoColumn")
    return made


def read_schema(metadata: Metadata) -> TableSchema:
    """The columns of a table, from its metadata."""
    said = _read_json(metadata, COLUMNS_KEY, dict)
    entries: dict[str, Mapping[str, Any]] = {}
    for entry in said.get("columns", ()):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
            raise SchemaError(f"{COLUMNS_KEY} of the table's configuration is not what it must be")
        entries[entry["name"]] = entry
    columns = tuple(_read_column(one, entries.get(one.name, {})) for one in fields_of_spark(metadata.schema_string))
    names = {column.physical: column.name for column in columns}
    key = _read_json(metadata, KEY_KEY, list)
    retired = said.get("retired", [])
    if not all(isinstance(name, str) for name in (*retired, *key)):
        raise SchemaError(f"{COLUMNS_KEY} or {KEY_KEY} of the table's configuration is not what it must be")
    return TableSchema(
        columns,
        metadata.partition_columns,
        tuple(names[physical] for physical in key if physical in names),
        tuple(retired),
        _read_json(metadata, INDEX_KEY, dict),
        _read_json(metadata, CONSTRAINTS_KEY, dict),
    )


def _read_column(given: Any, entry: Mapping[str, Any]) -> TableColumn:
    name, kind, metadata = given.name, given.type, None
    if "type" in entry:
        exact = read_type(entry["type"], name)
        # Another writer may have changed the column since: then what Spark's JSON says holds.
        if from_spark(to_spark(exact), name) == kind:
            kind = exact
    if isinstance(entry.get("metadata"), dict):
        metadata = {str(key): str(value) for key, value in entry["metadata"].items()}
    made = pa.field(name, kind, nullable=given.nullable, metadata=metadata)
    physical = entry.get("physical", name)
    widened = entry.get("widened", ())
    if not isinstance(physical, str) or not all(isinstance(one, str) for one in widened):
        raise SchemaError(f"{COLUMNS_KEY} of the table's configuration is not what it must be")
    return TableColumn(made, physical, _read_default(entry.get("default"), kind, name), tuple(widened))


def _entry(column: TableColumn) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    if column.physical != column.name:
        found["physical"] = column.physical
    if from_spark(to_spark(column.type, column.name), column.name) != column.type:
        found["type"] = describe_type(column.type, column.name)
    if column.field.metadata:
        found["metadata"] = _metadata_texts(column.field)
    if column.default is not None:
        found["default"] = _default_json(column.default)
    if column.widened:
        found["widened"] = list(column.widened)
    return {"name": column.name, **found} if found else None


def check_name(name: str) -> None:
    """Refuse a name that cannot be a column's."""
    if not name or name in RESERVED or not name.isprintable() or len(name) > 200:
        raise SchemaError(f"a column cannot be called {name[:60]!r}")


def check_partition_type(name: str, kind: Any) -> None:
    """Refuse a partition column whose values have no exact text."""
    kinds = pa.types
    fits = (
        kinds.is_integer(kind)
        or kinds.is_boolean(kind)
        or kinds.is_string(kind)
        or kinds.is_large_string(kind)
        or kinds.is_date32(kind)
        or kind in (pa.float32(), pa.float64())
        or (kinds.is_timestamp(kind) and kind.unit != "ns")
        or (kinds.is_decimal(kind) and kind.precision <= 38 and kind.scale >= 0)
    )
    if not fits:
        raise SchemaError(f"{name}: a table cannot be partitioned by a column of type {kind}")


def check_key_type(name: str, kind: Any) -> None:
    """Refuse a key column whose values are not simply equal or not."""
    if pa.types.is_floating(kind) or pa.types.is_nested(kind):
        raise SchemaError(f"{name}: a column of type {kind} cannot be part of a key")


def check_default(value: Any, column: Any) -> Any:
    """A default as a Python value of its column's type."""
    if value is None:
        return None
    if pa.types.is_nested(column.type):
        raise SchemaError(f"{column.name}: a column of type {column.type} cannot have a default")
    try:
        # Through JSON and back: what is kept must be what was given.
        kept = _read_default(json.loads(json.dumps(_default_json(value))), column.type, column.name)
        if pa.scalar(kept, column.type).as_py() != pa.scalar(value, column.type).as_py() and value == value:
            raise SchemaError(f"{column.name}: the default {value!r} cannot be kept")
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        raise SchemaError(f"{column.name}: {value!r} cannot be the default of a {column.type}") from error
    return kept


def _default_json(value: Any) -> Any:
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, bytes):
        return {"binary": base64.b64encode(value).decode()}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, datetime.datetime):
        return {"timestamp": value.isoformat()}
    if isinstance(value, datetime.date):
        return {"date": value.isoformat()}
    if isinstance(value, datetime.time):
        return {"time": value.isoformat()}
    raise TypeError(f"a {type(value).__name__} cannot be a default")


_DEFAULTS: Final[Mapping[str, Any]] = {
    "float": float,
    "binary": lambda text: base64.b64decode(text, validate=True),
    "decimal": Decimal,
    "timestamp": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "time": datetime.time.fromisoformat,
}


def _read_default(said: Any, kind: Any, name: str) -> Any:
    if said is None:
        return None
    try:
        if isinstance(said, dict):
            ((word, text),) = said.items()
            said = _DEFAULTS[word](text)
        pa.scalar(said, kind)
    except (pa.ArrowException, ValueError, TypeError, KeyError, ArithmeticError) as error:
        raise SchemaError(f"{name}: the default in the table's configuration is none of a {kind}") from error
    return said


def _metadata_texts(one: Any) -> dict[str, str]:
    try:
        return {key.decode(): value.decode() for key, value in (one.metadata or {}).items()}
    except UnicodeDecodeError:
        raise SchemaError(f"{one.name}: the metadata of the field is no text") from None


def _read_json(metadata: Metadata, key: str, kind: type) -> Any:
    text = metadata.configuration.get(key)
    if text is None:
        return kind()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{key} of the table's configuration is no JSON: {error}") from error
    if not isinstance(found, kind):
        raise SchemaError(f"{key} of the table's configuration is not what it must be")
    return found


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:20]) + (", …" if len(found) > 20 else "")

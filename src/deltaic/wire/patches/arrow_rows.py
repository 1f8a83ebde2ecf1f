"""Patches as Arrow rows: what a DataFrame, a table or Spark holds them in."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltaic.errors import DecodeError, MissingExtraError
from deltaic.wire.patches.json_lines import json_value, patch_of_json, patch_to_json
from deltaic.wire.patches.patch import ABSENT, MISSING, Patch

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaic.wire.patches.batch import PatchBatch

_TEXTS = ("op", "type", "key", "path", "value", "previous", "source", "reference")
_JSON = ("key", "value", "previous")


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError("patches as Arrow rows", "arrow") from None
    return pyarrow


def arrow_schema() -> "pa.Schema":
    """The columns of patches as rows."""
    arrow = _pyarrow()
    fields = [arrow.field(name, arrow.string(), nullable=name not in ("op", "type")) for name in _TEXTS]
    return arrow.schema([*fields, arrow.field("absent", arrow.bool_()), arrow.field("timestamp", arrow.uint64())])


def to_table(batch: "PatchBatch") -> "pa.Table":
    """A row for each patch."""
    arrow, schema = _pyarrow(), arrow_schema()
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for patch in batch:
        found = patch_to_json(patch)
        for name in _TEXTS:
            given = found.get(name, MISSING)
            columns[name].append(None if given is MISSING else json_value(given) if name in _JSON else given)
        columns["absent"].append(patch.previous is ABSENT)
        columns["timestamp"].append(patch.timestamp)
    return arrow.table(columns, schema=schema)


def from_table(data: Any, name: str) -> Iterator[Patch]:
    """The patches of rows."""
    arrow = _pyarrow()
    table = data if isinstance(data, arrow.Table) else arrow.table(data)
    known = {*_TEXTS, "absent", "timestamp"}
    if unknown := sorted(set(table.column_names) - known):
        raise DecodeError("BadField", f"{unknown[0]!r} is no column of patches: {', '.join(sorted(known))}", name)
    first = 0
    for batch in table.to_batches():
        for number, row in enumerate(batch.to_pylist(), first):
            yield _patch(row, f"{name}: row {number}")
        first += batch.num_rows


def _patch(row: dict[str, Any], at: str) -> Patch:
    found: dict[str, Any] = {}
    for name, value in row.items():
        if value is None or name == "timestamp":
            continue
        if name not in _JSON:
            found[name] = value
            continue
        try:
            found[name] = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise DecodeError("BadJson", f"column {name}: no JSON: {error}", at) from error
    stamp = row.get("timestamp")
    if stamp is not None:
        found["time"] = f"{stamp >> 16}.{stamp & 0xFFFF}"
    return patch_of_json(found, at)

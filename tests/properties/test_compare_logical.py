"""Exports hold what values stand for, and what is exported and published again is the same state."""

import datetime
import decimal
import io
import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaic.compare import diff, json_lines, record_json, write_parquet
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.state.ingest import ingest_arrow, ingest_dicts
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from tests.properties.test_ingest_round_trip import _LOGICAL, _PLAIN, tables

KINDS = [
    *_PLAIN,
    *_LOGICAL,
    (pa.uint64(), st.integers(0, 2**64 - 1).filter(lambda number: number != 2**63)),
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.date64(), st.dates()),
    (pa.time32("s"), st.times().map(lambda time: time.replace(microsecond=0))),
    (pa.timestamp("ns"), st.integers(-(2**62), 2**62).map(lambda ticks: pa.scalar(ticks, pa.timestamp("ns")))),
    (
        pa.timestamp("s", "Europe/Berlin"),
        st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2100, 1, 1), timezones=st.just(datetime.UTC)).map(
            lambda moment: moment.replace(microsecond=0)
        ),
    ),
    (pa.decimal128(5, -2), st.integers(-99_999, 99_999).map(lambda number: decimal.Decimal(number * 100))),
]


def published(model: Model, fill: Any) -> ReadState:
    state = WriteState(model.schemas)
    state.header_tags[TYPES_TAG] = model.types_tag()
    fill(state)
    blob = io.BytesIO()
    state.write_snapshot(blob)
    return ReadState.load(blob.getvalue())


@given(tables(KINDS))
def test_lines_of_logical_values_publish_the_same_state(table: pa.Table) -> None:
    model = Model.from_arrow(table.schema, "Row")
    state = published(model, lambda state: ingest_arrow(state, "Row", table, model=model))
    rows = [json.loads(line) for line in json_lines(state, "Row")]
    assert not diff(state, published(model, lambda state: ingest_dicts(state, "Row", rows, model=model)))


@given(tables(KINDS))
def test_one_record_is_written_as_all_of_them_are(table: pa.Table) -> None:
    model = Model.from_arrow(table.schema, "Row")
    state = published(model, lambda state: ingest_arrow(state, "Row", table, model=model))
    for ordinal, line in zip(state["Row"].populated, json_lines(state, "Row"), strict=True):
        assert _same(record_json(state, "Row", ordinal), json.loads(line))


@given(tables([kind for kind in KINDS if kind[0] != pa.decimal128(5, -2)]))
def test_parquet_of_logical_values_publishes_the_same_state(tmp_path_factory: Any, table: pa.Table) -> None:
    import pyarrow.parquet

    model = Model.from_arrow(table.schema, "Row")
    state = published(model, lambda state: ingest_arrow(state, "Row", table, model=model))
    file = tmp_path_factory.mktemp("logical") / "rows.parquet"
    write_parquet(state, "Row", file)
    # Parquet has no date64 and no times and moments of whole seconds: those come back finer than they were.
    back = pyarrow.parquet.read_table(file).cast(state["Row"].to_arrow().to_pyarrow().schema)
    assert not diff(state, published(model, lambda state: ingest_arrow(state, "Row", back, model=model)))


def _same(one: Any, other: Any) -> bool:
    """Equal but for the last digits of a FLOAT, of which lines have the shortest text."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or abs(one - other) <= abs(one) * 1e-6
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)

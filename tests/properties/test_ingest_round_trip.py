"""Arrow → write → read → Arrow gives equal rows and types; Arrow's values are those of the same Python objects."""

import datetime
import decimal
import io
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.state.ingest import ingest_arrow, ingest_dicts
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_PLAIN: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.integers(-(2**31) + 1, 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63) + 1, 2**63 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), _TEXT),
    (pa.binary(), st.binary(max_size=5)),
]
_LOGICAL: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint16(), st.integers(0, 2**16 - 1)),
    (pa.uint32(), st.integers(0, 2**32 - 1)),
    (pa.uint64(), st.integers(0, 2**63 - 1)),
    (pa.large_string(), _TEXT),
    (pa.date32(), st.dates()),
    (pa.time32("ms"), st.times().map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us"), st.datetimes()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    (pa.duration("us"), st.timedeltas(datetime.timedelta(-(10**6)), datetime.timedelta(10**6))),
    (pa.decimal128(9, 2), st.decimals(-(10**7) + 1, 10**7 - 1, places=2)),
    (
        pa.decimal128(38, 3),
        st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: decimal.Decimal(n).scaleb(-3, decimal.Context(prec=60))),
    ),
    (pa.binary(4), st.binary(min_size=4, max_size=4)),
]


@st.composite
def columns(draw: st.DrawFn, kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]], depth: int) -> Any:
    """A type, and a strategy of its values, null among them where Hollow can keep that."""
    shape = draw(st.sampled_from("sssltm" if depth else "s"))
    if shape == "s":
        arrow_type, values = draw(st.sampled_from(kinds))
        return arrow_type, st.none() | values
    if shape == "l":
        arrow_type, values = draw(columns(kinds, depth - 1))
        # A null inside a collection can be kept if it is a scalar.
        elements = values if not pa.types.is_nested(arrow_type) else values.filter(lambda value: value is not None)
        return pa.list_(arrow_type), st.none() | st.lists(elements, max_size=3)
    if shape == "m":
        arrow_type, values = draw(columns(kinds, 0))
        return pa.map_(pa.string(), arrow_type), st.none() | st.dictionaries(_TEXT, values, max_size=3).map(
            lambda entries: sorted(entries.items())
        )
    fields = [(f"f{position}", *draw(columns(kinds, depth - 1))) for position in range(draw(st.integers(1, 3)))]
    arrow_type = pa.struct([(name, inner) for name, inner, _ in fields])
    return arrow_type, st.none() | st.fixed_dictionaries({name: values for name, _, values in fields})


@st.composite
def tables(draw: st.DrawFn, kinds: list[tuple[pa.DataType, st.SearchStrategy[Any]]]) -> pa.Table:
    found = {f"c{position}": draw(columns(kinds, 2)) for position in range(draw(st.integers(1, 4)))}
    rows = draw(st.lists(st.fixed_dictionaries({name: values for name, (_, values) in found.items()}), max_size=5))
    return pa.Table.from_pylist(rows, pa.schema([(name, arrow_type) for name, (arrow_type, _) in found.items()]))


def _by_key(value: Any) -> Any:
    """Maps have no order in Hollow."""
    if isinstance(value, dict):
        return {name: _by_key(inner) for name, inner in value.items()}
    if isinstance(value, list):
        inner = [_by_key(each) for each in value]
        return dict(inner) if inner and isinstance(inner[0], tuple) else inner
    if isinstance(value, tuple):
        return tuple(_by_key(each) for each in value)
    return value


def _content(state: WriteState) -> dict[str, list[bytes]]:
    maps = {schema.name: state._types[schema.name].ordinals.map for schema in state.schemas}
    return {name: [held.record(ordinal) for ordinal in range(held.max_ordinal + 1)] for name, held in maps.items()}


@given(tables(_PLAIN + _LOGICAL), st.integers(1, 30))
def test_rows_and_types_come_back_equal(table: pa.Table, chunk_records: int) -> None:
    model = Model.from_arrow(table.schema, "Row")
    state = WriteState(model.schemas)
    state.header_tags[TYPES_TAG] = model.types_tag()
    ordinals = ingest_arrow(state, "Row", table, model=model, chunk_records=chunk_records)
    blob = io.BytesIO()
    state.write_snapshot(blob)
    back = ReadState.load(blob.getvalue())["Row"].to_arrow(ordinals=ordinals).to_pyarrow()
    assert back.schema.types == table.schema.types
    assert _by_key(back.to_pylist()) == _by_key(table.to_pylist())


@given(tables(_PLAIN + _LOGICAL), st.integers(1, 3))
def test_values_from_arrow_and_from_python_are_the_same_records(table: pa.Table, chunk_rows: int) -> None:
    model = Model.from_arrow(table.schema, "Row")
    by_arrow, by_dict = WriteState(model.schemas), WriteState(model.schemas)
    ordinals = ingest_arrow(by_arrow, "Row", table, model=model)
    assert (
        ingest_dicts(by_dict, "Row", table.to_pylist(), model=model, chunk_rows=chunk_rows).tolist()
        == ordinals.tolist()
    )
    assert _content(by_dict) == _content(by_arrow)

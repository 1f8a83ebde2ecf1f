"""Rows come back as what they were: logical types, sizes of lists, columns without nulls."""

import datetime
import decimal
import io

import pyarrow as pa
import pytest

from deltaic.errors import DecodeError
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.state.ingest import ingest_arrow
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState


def published(table: pa.Table, **options: object) -> ReadState:
    model = Model.from_arrow(table.schema, "Row", **options)
    state = WriteState(model.schemas)
    state.header_tags[TYPES_TAG] = model.types_tag()
    ingest_arrow(state, "Row", table, model=model)
    blob = io.BytesIO()
    state.write_snapshot(blob)
    return ReadState.load(blob.getvalue())


def there_and_back(table: pa.Table, **options: object) -> pa.Table:
    return published(table, **options)["Row"].to_arrow().to_pyarrow()


@pytest.mark.parametrize(
    ("arrow_type", "values"),
    [
        (pa.list_(pa.int16(), 2), [[1, 2], None, [3, -4]]),
        (pa.list_(pa.struct([("a", pa.date32())]), 1), [[{"a": datetime.date(2020, 1, 2)}], None]),
        (pa.list_(pa.int8(), 2), [None, None]),
        (pa.large_list(pa.large_string()), [["x", "é"], [], None]),
        (pa.uint64(), [2**63 + 1, 2**64 - 1, None]),
        (pa.float16(), [1.5, None, -2.0]),
        (pa.binary(3), [b"abc", None]),
        (pa.decimal128(30, 4), [decimal.Decimal("-123456789012345678901234.5678"), None]),
        (pa.decimal256(50, 0), [decimal.Decimal(-(10**49)), None]),
        (pa.timestamp("ns", "Europe/Berlin"), [datetime.datetime(2020, 5, 5, tzinfo=datetime.UTC), None]),
        (pa.map_(pa.int16(), pa.time64("us")), [[(1, datetime.time(1, 2, 3))], None, []]),
        (pa.null(), [None, None]),
        (pa.struct([("a", pa.uint8()), ("b", pa.list_(pa.date64()))]), [{"a": 255, "b": [None]}, None]),
    ],
    ids=str,
)
def test_values_and_types_come_back_equal(arrow_type, values):
    rows = pa.table({"id": pa.array(range(len(values)), pa.int32()), "value": pa.array(values, arrow_type)})
    back = there_and_back(rows)
    assert back.schema.types == rows.schema.types
    assert back.to_pylist() == rows.to_pylist()


def test_the_smallest_numbers_survive_in_a_column_without_nulls():
    fields = [pa.field("a", pa.int64(), False), pa.field("b", pa.int32(), False)]
    rows = pa.table([[-(2**63), 7], [-(2**31), 8]], schema=pa.schema(fields))
    back = there_and_back(rows)
    assert back.schema.equals(rows.schema) and back.equals(rows)


def test_the_smallest_numbers_survive_beside_nulls_in_a_wide_column():
    rows = pa.table({"a": pa.array([-(2**63), None, 5]), "b": pa.array([-(2**31), None, 5], pa.int32())})
    assert there_and_back(rows, wide=["a", "b"]).equals(rows)


def test_null_records_in_lists_are_kept_when_asked_for():
    rows = pa.table({"a": pa.array([[{"x": 1}, None], [None]], pa.list_(pa.struct([("x", pa.int32())])))})
    back = there_and_back(rows, keep_null_elements=True)
    assert back.to_pylist() == rows.to_pylist()
    assert back.schema.types == rows.schema.types


def test_what_carries_a_logical_type_can_be_had_too():
    rows = pa.table({"day": pa.array([datetime.date(1970, 1, 3)])})
    view = published(rows)["Row"]
    assert view.to_arrow(logical=False).to_pyarrow().to_pylist() == [{"day": 2}]
    assert view.column("day").to_pylist() == [2]


def _with_tag(state: ReadState, tag: str) -> ReadState:
    return ReadState(state.types, tag=state.tag, origin_tag=state.origin_tag, header_tags={TYPES_TAG: tag})


def test_a_damaged_tag_is_refused():
    state = _with_tag(published(pa.table({"a": [1]})), '{"Row":')
    with pytest.raises(DecodeError, match=r"deltaic\.types"):
        state["Row"].to_arrow()


@pytest.mark.parametrize("note", ["u", "+l", "+w:3", "w:4", "tdD", "+s", "d:30,2", "n"])
@pytest.mark.parametrize("column", ["number", "text", "list", "struct", "element"])
def test_a_tag_of_another_model_is_passed_over(note, column):
    rows = pa.table(
        {"number": pa.array([1.5]), "text": ["x"], "list": [[1]], "struct": [{"a": True}]},
    )
    state = published(rows)
    type_name = "Row" if column != "element" else next(name for name in state.types if name.startswith("ListOf"))
    told = _with_tag(state, f'{{"{type_name}": {{"{column}": {{"format": "{note}"}}}}}}')
    try:
        assert told["Row"].to_arrow().to_pyarrow().num_rows == 1
    except DecodeError as error:
        assert error.code == "TypeRange"

"""Columns are records, compiled is plain, and both are what was packed: for random schemas and content."""

import importlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, SetSchema
from deltaic.state.records import StateRecords
from deltaic.state.type_data import TypeData
from tests.unit.state.packed_types import pack_type, state_of

PLAIN = importlib.import_module("deltaic.kernels.plain.access")
try:
    COMPILED: Any = importlib.import_module("deltaic.kernels._access")
except ImportError:
    COMPILED = None

texts = st.text(st.characters(exclude_categories=()), max_size=12)
VALUES = {
    FieldType.INT: st.one_of(st.integers(-3, 3), st.integers(-(2**31) + 1, 2**31 - 1)),
    FieldType.LONG: st.one_of(st.integers(-3, 3), st.integers(-(2**63) + 1, 2**63 - 1)),
    FieldType.BOOLEAN: st.booleans(),
    FieldType.FLOAT: st.floats(width=32),
    FieldType.DOUBLE: st.floats(),
    FieldType.STRING: st.one_of(st.text("ab ", max_size=9), texts),
    FieldType.BYTES: st.binary(max_size=12),
}
KINDS = tuple(FieldType)


@st.composite
def states(draw: st.DrawFn) -> dict[str, TypeData]:
    """A box, an object with random fields, a list, a set and a map; holes, ghosts, shards of different widths."""
    sharding = {
        "shards": draw(st.sampled_from([1, 2, 4])),
        "extra": draw(st.lists(st.integers(0, 9), min_size=1, max_size=4)),
    }
    box_type = draw(st.sampled_from([kind for kind in KINDS if kind is not FieldType.REFERENCE]))
    box = ObjectSchema("Box", (Field("value", box_type),))
    boxes = draw(st.lists(st.tuples(st.none() | VALUES[box_type]), min_size=1, max_size=6))
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=5))
    fields = []
    columns = []
    count = draw(st.integers(0, 9))
    for place, kind in enumerate(kinds):
        target = draw(st.sampled_from(["Box", "Row", "Gone"])) if kind is FieldType.REFERENCE else None
        fields.append(Field(f"f{place}", kind, target))
        limit = {"Box": len(boxes), "Row": 4, "Gone": 99, None: 0}[target]
        values = st.integers(0, limit - 1) if kind is FieldType.REFERENCE else VALUES[kind]
        columns.append(draw(st.lists(st.none() | values, min_size=count, max_size=count)))
    rows: list[Any] = [tuple(column[row] for column in columns) for row in range(count)]
    holes = draw(st.sets(st.integers(0, 8), max_size=3))
    rows = [None if place in holes else row for place, row in enumerate(rows)]
    alive = [place for place, row in enumerate(rows) if row is not None]
    ghosts = draw(st.lists(st.sampled_from(alive), unique=True, max_size=2)) if alive else []
    ordinals = st.integers(0, len(boxes) - 1)
    lists = draw(st.lists(st.lists(ordinals, max_size=5), min_size=4, max_size=4))
    sets = draw(st.lists(_table(ordinals), max_size=4))
    maps = draw(st.lists(_table(st.tuples(ordinals, ordinals)), max_size=4))
    packed = [
        pack_type(box, boxes, **sharding),
        pack_type(ObjectSchema("Thing", tuple(fields)), rows, ghosts=ghosts, **sharding),
        pack_type(ListSchema("Row", "Box"), lists, **sharding),
        pack_type(SetSchema("Bag", "Box"), sets, **sharding),
        pack_type(MapSchema("Book", "Box", "Box"), maps, **sharding),
    ]
    return {data.schema.name: data for data in packed}


def _table(members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Buckets with at least one that is empty."""
    return st.lists(members, max_size=3).flatmap(
        lambda filled: st.permutations([*filled, None, None][:4] if filled else [None])
    )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or (
            one == other and math.copysign(1, one) == math.copysign(1, other)
        )
    return type(one) is type(other) and one == other


kernels = pytest.mark.parametrize("kernel", [k for k in (COMPILED, PLAIN) if k is not None], ids=lambda k: k.__name__)


@given(states())
def test_columns_are_the_fields_of_the_records(types):
    state = state_of(*types.values())
    view = state["Thing"]
    for position, field in enumerate(view.schema.fields):
        column = view.column(field.name)
        reader = StateRecords(types).reader
        assert column.ordinals.tolist() == list(view.populated)
        for value, ordinal in zip(column.to_pylist(), view.populated, strict=True):
            if field.type is FieldType.REFERENCE:
                assert value == view[ordinal].reference(field.name)
            else:
                assert same(value, view[ordinal][field.name])
                assert same(value, reader.field(1, ordinal, position))
        shuffled = view.column(field.name, column.ordinals[::-1])
        assert all(same(one, other) for one, other in zip(shuffled.to_pylist(), column.to_pylist()[::-1], strict=True))


@given(states())
def test_members_are_the_members_of_the_records(types):
    state = state_of(*types.values())
    for name in ("Row", "Bag", "Book"):
        found = [record.ordinals() for record in state[name]]
        assert state[name].members().to_pylist() == found
        assert [len(record) for record in state[name]] == [len(members) for members in found]


@pytest.mark.skipif(COMPILED is None, reason="the compiled kernel is not built")
@given(states(), st.data())
def test_compiled_reads_are_plain_reads(types, data):
    compiled, plain = StateRecords(types, COMPILED).reader, StateRecords(types, PLAIN).reader
    for number, spec in enumerate(compiled.types):
        populated = spec.populated
        count = sum(int(word).bit_count() for word in populated)
        chosen = data.draw(st.lists(st.integers(-1, spec.max_ordinal), max_size=6))
        choices = [
            (None, None, spec.max_ordinal + 1),
            (None, populated, count),
            (np.array(chosen, np.int64), None, len(chosen)),
        ]
        for ordinals, words, rows in choices:
            for position, code in enumerate(spec.field_codes):
                read = "read_variable" if code >= 6 else "read_fixed"
                one = getattr(compiled, read)(number, position, ordinals, words, rows)
                other = getattr(plain, read)(number, position, ordinals, words, rows)
                assert_same_arrays(one, other)
            if spec.kind:
                one = compiled.read_collections(number, ordinals, words, rows)
                assert_same_arrays(one, plain.read_collections(number, ordinals, words, rows))
        for ordinal in range(spec.max_ordinal + 1):
            for position, code in enumerate(spec.field_codes):
                assert (
                    same(compiled.scalar(number, ordinal, position), plain.scalar(number, ordinal, position))
                    or not code
                )
                assert repr(compiled.field(number, ordinal, position)) == repr(plain.field(number, ordinal, position))
            one, other = (outcome(reader.record, number, ordinal) for reader in (compiled, plain))
            assert repr(one) == repr(other)
            if not isinstance(one, str):
                assert repr(one.to_python()) == repr(other.to_python()) and hash(one) == hash(other)


def outcome(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def assert_same_arrays(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    for mine, theirs in zip(one, other, strict=True):
        if mine is None or theirs is None:
            assert mine is None and theirs is None
        else:
            assert mine.dtype == theirs.dtype and mine.tobytes() == theirs.tobytes()


@kernels
@given(types=states(), shards=st.sampled_from([1, 2, 8]))
@settings(deadline=None)
def test_records_are_equal_however_they_are_packed(kernel, types, shards):
    records = StateRecords(types, kernel)
    reader = records.reader

    def packed_again(data: TypeData) -> TypeData:
        number = records.number(data.schema.name)
        rows: list[Any] = []
        for ordinal in range(data.max_ordinal + 1):
            if isinstance(data.schema, ObjectSchema):
                known = ordinal in data.populated or ordinal in data.pending
                values = []
                for position, field in enumerate(data.schema.fields):
                    target = reader.pointer(number, ordinal, position) if field.type is FieldType.REFERENCE else None
                    values.append(
                        reader.field(number, ordinal, position) if target is None else None if target < 0 else target
                    )
                rows.append(tuple(values) if known else None)
            elif isinstance(data.schema, ListSchema):
                rows.append(reader.elements(number, ordinal))
            else:
                buckets = [reader.bucket(number, ordinal, place) for place in range(reader.buckets(number, ordinal))]
                maps = isinstance(data.schema, MapSchema)
                rows.append([None if bucket[0] < 0 else bucket if maps else bucket[0] for bucket in buckets][::-1])
        return pack_type(data.schema, rows, shards=shards, ghosts=list(data.pending), extra=(2,))

    again = StateRecords({name: packed_again(data) for name, data in types.items()}, kernel)
    for name, data in types.items():
        for ordinal in data.populated:
            one, other = records.of(name)[ordinal], again.of(name)[ordinal]
            assert one == other and hash(one) == hash(other)


@given(states())
@settings(deadline=None)
def test_arrow_rows_are_the_records(types):
    pa = pytest.importorskip("pyarrow")
    state = state_of(*types.values())
    for name in ("Box", "Thing", "Row", "Bag"):
        table = state[name].to_arrow(batch_rows=2, on_invalid_text="replace").to_pyarrow()
        table.validate(full=True)
        assert table.num_rows == len(state[name])
        for row, record in zip(table.to_pylist(), state[name], strict=True):
            assert arrow_like(row) == arrow_like(
                record.to_dict() if name in ("Box", "Thing") else {"elements": record.to_python()}
            )
    assert pa.table(state["Thing"].to_arrow(on_invalid_text="replace")).num_rows == len(state["Thing"])


def arrow_like(value: Any) -> Any:
    """A record's plain value as Arrow gives it: no lone surrogates, bare ordinals, NaN comparable."""
    if isinstance(value, dict):
        return {key: arrow_like(part) for key, part in value.items()}
    if isinstance(value, tuple) and hasattr(value, "ordinal"):
        return value.ordinal
    if isinstance(value, list):
        return [arrow_like(part) for part in value]
    if isinstance(value, str):
        return "".join("\ufffd" if 0xD800 <= ord(letter) < 0xE000 else letter for letter in value)
    return repr(value) if isinstance(value, float) else value

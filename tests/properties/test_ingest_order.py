"""Records by column, from Arrow, objects or dicts, get the ordinals that adding them one by one, depth first, gives."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.state import ingest_fold
from deltaic.state.ingest import CanonicalIngest, ingest_arrow, ingest_dicts, ingest_objects
from deltaic.state.write import WriteState

# Few different values: what matters is that records meet again, in other places and other rows.
_VALUES: dict[FieldType, st.SearchStrategy[Any]] = {
    FieldType.INT: st.integers(-1, 2) | st.just(2**31 - 1),
    FieldType.LONG: st.integers(-1, 2) | st.just(-(2**63) + 1),
    FieldType.BOOLEAN: st.booleans(),
    FieldType.FLOAT: st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]),
    FieldType.DOUBLE: st.sampled_from([0.0, 0.1, float("nan")]),
    FieldType.STRING: st.sampled_from(["", "a", "b", "żółw", "𝄞"]),
    FieldType.BYTES: st.sampled_from([b"", b"a", b"\x80"]),
}
_ARROW = {
    FieldType.INT: pa.int32(),
    FieldType.LONG: pa.int64(),
    FieldType.BOOLEAN: pa.bool_(),
    FieldType.FLOAT: pa.float32(),
    FieldType.DOUBLE: pa.float64(),
    FieldType.STRING: pa.string(),
    FieldType.BYTES: pa.binary(),
}
_BOXED = {FieldType.STRING: "String", FieldType.INT: "Integer", FieldType.LONG: "Long"}


@dataclass(frozen=True)
class Case:
    schemas: SchemaSet
    arrow: pa.DataType
    rows: list[dict[str, Any]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Some types of which each refers to earlier ones, so that most types are met in several places of a row."""
    schemas: list[Schema] = [ObjectSchema(name, (Field("value", kind),)) for kind, name in _BOXED.items()]
    for number in range(draw(st.integers(1, 5))):
        known = st.sampled_from([schema.name for schema in schemas])
        name = f"T{number}"
        kind = draw(st.sampled_from("OOOLSM"))
        if kind == "L":
            schemas.append(ListSchema(name, draw(known)))
        elif kind == "S":
            schemas.append(SetSchema(name, draw(known)))
        elif kind == "M":
            schemas.append(MapSchema(name, draw(known), draw(known)))
        else:
            schemas.append(ObjectSchema(name, _fields(draw, known)))
    known = st.sampled_from([schema.name for schema in schemas])
    schemas.append(ObjectSchema("Root", _fields(draw, known, least=2)))
    made = SchemaSet(schemas)
    rows = draw(st.lists(_rows(made, "Root"), max_size=6))
    return Case(made, _arrow_type(made, "Root"), rows)


def _fields(draw: st.DrawFn, known: st.SearchStrategy[str], least: int = 0) -> tuple[Field, ...]:
    fields = []
    for position in range(draw(st.integers(least, 3))):
        kind = draw(st.sampled_from([*_VALUES, *[FieldType.REFERENCE] * 9]))
        referenced = draw(known) if kind is FieldType.REFERENCE else None
        fields.append(Field(f"f{position}", kind, referenced))
    return tuple(fields)


def _rows(schemas: SchemaSet, name: str, root: bool = True) -> st.SearchStrategy[Any]:
    schema = schemas[name]
    match schema:
        case ListSchema() | SetSchema():
            return st.lists(_rows(schemas, schema.element, False), max_size=3)
        case MapSchema():
            pair = st.tuples(_rows(schemas, schema.key, False), _rows(schemas, schema.value, False))
            return st.lists(pair, max_size=2)
    if name in _BOXED.values():
        return _VALUES[schema.fields[0].type]
    values = {
        field.name: st.none()
        | (_rows(schemas, field.referenced, False) if field.referenced is not None else _VALUES[field.type])
        for field in schema.fields
    }
    return st.fixed_dictionaries(values)


def _arrow_type(schemas: SchemaSet, name: str) -> pa.DataType:
    schema = schemas[name]
    match schema:
        case ListSchema() | SetSchema():
            return pa.list_(_arrow_type(schemas, schema.element))
        case MapSchema():
            return pa.map_(_arrow_type(schemas, schema.key), _arrow_type(schemas, schema.value))
    if name in _BOXED.values():
        return _ARROW[schema.fields[0].type]
    return pa.struct(
        [
            (field.name, _arrow_type(schemas, field.referenced) if field.referenced else _ARROW[field.type])
            for field in schema.fields
        ]
    )


def _add_one(state: WriteState, name: str, value: Any) -> int:
    """What Java's object mapper does."""
    schema = state.schemas[name]
    match schema:
        case ListSchema():
            return state.add_list(name, [_add_one(state, schema.element, each) for each in value])
        case SetSchema():
            return state.add_set(name, [_add_one(state, schema.element, each) for each in value])
        case MapSchema():
            entries = [(_add_one(state, schema.key, key), _add_one(state, schema.value, each)) for key, each in value]
            return state.add_map(name, entries)
    if name in _BOXED.values():
        return state.add_object(name, {"value": value})
    record = {}
    for field in schema.fields:
        given_value = value[field.name]
        if field.referenced is not None and given_value is not None:
            given_value = _add_one(state, field.referenced, given_value)
        record[field.name] = given_value
    return state.add_object(name, record)


def _content(state: WriteState) -> dict[str, list[bytes]]:
    """Every type's records in the order of their ordinals."""
    content = {}
    for schema in state.schemas:
        held = state._types[schema.name].ordinals.map
        content[schema.name] = [held.record(ordinal) for ordinal in range(held.max_ordinal + 1)]
    return content


def _table(case: Case) -> pa.Table:
    array = pa.array(case.rows, case.arrow)
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(array)])


def _objects(schemas: SchemaSet, name: str, value: Any) -> Any:
    schema = schemas[name]
    match schema:
        case ListSchema() | SetSchema():
            return tuple(_objects(schemas, schema.element, each) for each in value)
        case MapSchema():
            return [(_objects(schemas, schema.key, key), _objects(schemas, schema.value, each)) for key, each in value]
    if name in _BOXED.values():
        return value
    attributes = {}
    for field in schema.fields:
        inner = value[field.name]
        if field.referenced is not None and inner is not None:
            inner = _objects(schemas, field.referenced, inner)
        attributes[field.name] = inner
    return SimpleNamespace(**attributes)


@given(cases(), st.integers(1, 40))
def test_arrow_rows_get_the_ordinals_of_records_added_one_by_one(case: Case, chunk_records: int) -> None:
    by_record, by_column = WriteState(case.schemas), WriteState(case.schemas)
    expected = [_add_one(by_record, "Root", row) for row in case.rows]
    ordinals = ingest_arrow(by_column, "Root", _table(case), chunk_records=chunk_records)
    assert ordinals.dtype == np.int32
    assert ordinals.tolist() == expected
    assert _content(by_column) == _content(by_record)


@given(cases(), st.integers(1, 10), st.integers(0, 6))
def test_structs_that_repeat_are_numbered_as_any_others(case: Case, chunk_records: int, judged_after: int) -> None:
    by_record, by_column = WriteState(case.schemas), WriteState(case.schemas)
    rows = [*case.rows, *case.rows[::-1], *case.rows]
    expected = [_add_one(by_record, "Root", row) for row in rows]
    with pytest.MonkeyPatch.context() as patch:
        # Some places are given up on after a few structs, others never.
        patch.setattr(ingest_fold, "_JUDGED_AFTER", judged_after)
        repeated = Case(case.schemas, case.arrow, rows)
        ordinals = ingest_arrow(by_column, "Root", _table(repeated), chunk_records=chunk_records)
    assert ordinals.tolist() == expected
    assert _content(by_column) == _content(by_record)


@given(cases(), st.integers(1, 4))
def test_dicts_and_objects_get_the_ordinals_of_records_added_one_by_one(case: Case, chunk_rows: int) -> None:
    by_record, by_dict, by_object = (WriteState(case.schemas) for _ in range(3))
    expected = [_add_one(by_record, "Root", row) for row in case.rows]
    assert ingest_dicts(by_dict, "Root", case.rows, chunk_rows=chunk_rows).tolist() == expected
    objects = [_objects(case.schemas, "Root", row) for row in case.rows]
    assert ingest_objects(by_object, "Root", objects, chunk_rows=chunk_rows).tolist() == expected
    assert _content(by_dict) == _content(by_object) == _content(by_record)


@given(cases(), cases())
def test_known_records_keep_their_ordinals_in_the_next_cycle(case: Case, other: Case) -> None:
    by_record, by_column = WriteState(case.schemas), WriteState(case.schemas)
    rows = case.rows
    for turn in (rows, rows[1::2], rows[::-1]):
        expected = [_add_one(by_record, "Root", row) for row in turn]
        part = Case(case.schemas, case.arrow, turn)
        assert ingest_arrow(by_column, "Root", _table(part), chunk_records=5).tolist() == expected
        for state in (by_record, by_column):
            state.prepare()
            state.next_cycle()


@given(cases(), st.randoms(use_true_random=False), st.integers(1, 20))
def test_canonical_order_does_not_depend_on_the_order_of_rows(case: Case, random: Any, chunk_records: int) -> None:
    given_state, other = WriteState(case.schemas, order="canonical"), WriteState(case.schemas, order="canonical")
    ordinals = ingest_arrow(given_state, "Root", _table(case), chunk_records=chunk_records)
    mixed = list(range(len(case.rows)))
    random.shuffle(mixed)
    cut = random.randint(0, len(mixed))
    both = CanonicalIngest(other)
    both.add_dicts("Root", [case.rows[row] for row in mixed[:cut]])
    both.add_arrow("Root", _table(Case(case.schemas, case.arrow, [case.rows[row] for row in mixed[cut:]])))
    first, second = both.finish()
    assert _content(given_state) == _content(other)
    assert [*first.tolist(), *second.tolist()] == [int(ordinals[row]) for row in mixed]
    for name, records in _content(given_state).items():
        assert records == sorted(set(records)), name


_RECURSIVE = SchemaSet(
    [
        ObjectSchema("String", (Field("value", FieldType.STRING),)),
        ListSchema("ListOfNode", "Node"),
        MapSchema("MapOfStringToNode", "String", "Node"),
        ObjectSchema(
            "Node",
            (
                Field("name", FieldType.REFERENCE, "String"),
                Field("children", FieldType.REFERENCE, "ListOfNode"),
                Field("named", FieldType.REFERENCE, "MapOfStringToNode"),
                Field("next", FieldType.REFERENCE, "Node"),
                Field("weight", FieldType.INT),
            ),
        ),
    ]
)


def _nodes() -> st.SearchStrategy[dict[str, Any]]:
    leaf = st.fixed_dictionaries(
        {
            "name": _VALUES[FieldType.STRING],
            "children": st.none(),
            "named": st.none(),
            "next": st.none(),
            "weight": _VALUES[FieldType.INT],
        }
    )
    return st.recursive(
        leaf,
        lambda node: st.fixed_dictionaries(
            {
                "name": st.none() | _VALUES[FieldType.STRING],
                "children": st.none() | st.lists(node, max_size=3),
                "named": st.none() | st.lists(st.tuples(_VALUES[FieldType.STRING], node), max_size=2),
                "next": st.none() | node,
                "weight": st.none() | _VALUES[FieldType.INT],
            }
        ),
        max_leaves=8,
    )


@given(st.lists(_nodes(), max_size=4), st.integers(1, 3))
def test_types_that_refer_to_themselves_are_added_depth_first_too(rows: list[dict[str, Any]], chunk_rows: int) -> None:
    by_record, by_dict, by_object = (WriteState(_RECURSIVE) for _ in range(3))
    expected = [_add_one(by_record, "Node", row) for row in rows]
    assert ingest_dicts(by_dict, "Node", rows, chunk_rows=chunk_rows).tolist() == expected
    objects = [_objects(_RECURSIVE, "Node", row) for row in rows]
    assert ingest_objects(by_object, "Node", objects, chunk_rows=chunk_rows).tolist() == expected
    assert _content(by_dict) == _content(by_object) == _content(by_record)


def test_arrow_may_nest_a_type_in_itself() -> None:
    leaf = pa.struct([("name", pa.string()), ("weight", pa.int32())])
    node = pa.struct([("name", pa.string()), ("children", pa.list_(leaf)), ("next", leaf), ("weight", pa.int32())])
    rows = [
        {
            "name": "a",
            "children": [{"name": "b", "weight": 1}, {"name": "a", "weight": None}],
            "next": None,
            "weight": 2,
        },
        {"name": "b", "children": [], "next": {"name": "b", "weight": 1}, "weight": 2},
    ]
    table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(pa.array(rows, node))])
    by_record, by_column = WriteState(_RECURSIVE), WriteState(_RECURSIVE)
    blank = {"name": None, "children": None, "named": None, "next": None, "weight": None}

    def whole(row: dict[str, Any]) -> dict[str, Any]:
        made = {**blank, **row}
        made["children"] = None if made["children"] is None else [whole(child) for child in made["children"]]
        made["next"] = None if made["next"] is None else whole(made["next"])
        return made

    expected = [_add_one(by_record, "Node", whole(row)) for row in rows]
    assert ingest_arrow(by_column, "Node", table).tolist() == expected
    assert _content(by_column) == _content(by_record)


def test_a_type_that_refers_to_itself_has_no_canonical_order() -> None:
    with pytest.raises(ValueError, match="refers to itself"):
        ingest_dicts(WriteState(_RECURSIVE, order="canonical"), "Node", [{"name": "a"}])

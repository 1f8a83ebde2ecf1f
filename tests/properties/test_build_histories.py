"""What tasks build together has the bytes that one producer writes: random models, random histories.

The calls run here one after the other in this process (`InlineJobs`), cut into as many small pieces as possible; the
same calls on a real Spark are in tests/unit/spark/test_build.py.
"""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.errors import DeltaicError
from deltaic.producer import Producer, count_up
from deltaic.schema.model import Model
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Field, FieldType, ListSchema, MapSchema, ObjectSchema, Schema, SetSchema
from deltaic.spark.build_engine import Sizes, SparkEngine
from deltaic.spark.build_jobs import InlineJobs
from deltaic.spark.build_sources import Input
from deltaic.state.append_write import SchemaAppend
from tests.properties.test_producer_histories import MODEL as CHANGED_MODEL
from tests.properties.test_producer_histories import key_of, movies, table

TINY = Sizes(sorted_rows=1, range_bytes=1, group_bytes=1, restore_bytes=1)

# Few different values: records are to meet again, in other rows, tasks and versions.
VALUES: dict[FieldType, st.SearchStrategy[Any]] = {
    FieldType.INT: st.integers(-1, 2) | st.just(2**31 - 1),
    FieldType.LONG: st.integers(-1, 2) | st.just(-(2**63) + 1),
    FieldType.BOOLEAN: st.booleans(),
    FieldType.FLOAT: st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")]),
    FieldType.DOUBLE: st.sampled_from([0.0, 0.1, float("nan")]),
    FieldType.STRING: st.sampled_from(["", "a", "b", "żółw", "𝄞", "a" * 70, "a" * 70 + "b"]),
    FieldType.BYTES: st.sampled_from([b"", b"a", b"\x80"]),
}
ARROW = {
    FieldType.INT: pa.int32(),
    FieldType.LONG: pa.int64(),
    FieldType.BOOLEAN: pa.bool_(),
    FieldType.FLOAT: pa.float32(),
    FieldType.DOUBLE: pa.float64(),
    FieldType.STRING: pa.string(),
    FieldType.BYTES: pa.binary(),
}
BOXED = {FieldType.STRING: "String", FieldType.INT: "Integer", FieldType.LONG: "Long"}


@dataclass(frozen=True)
class Held:
    """Rows that are here already, as a split."""

    table: pa.Table

    @property
    def size_bytes(self) -> int:
        return self.table.nbytes

    def read(self) -> pa.Table:
        return self.table


@dataclass(frozen=True)
class History:
    model: Model
    versions: list[dict[str, pa.Table]]
    options: dict[str, Any]
    tasks: int
    restarts: bool


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Types of which each refers to earlier ones, and two roots that share them."""
    schemas: list[Schema] = [ObjectSchema(name, (Field("value", kind),)) for kind, name in BOXED.items()]
    for number in range(draw(st.integers(0, 4))):
        known = st.sampled_from([schema.name for schema in schemas])
        name, kind = f"T{number}", draw(st.sampled_from("OOLSM"))
        if kind == "L":
            schemas.append(ListSchema(name, draw(known)))
            continue
        if kind == "O":
            schemas.append(ObjectSchema(name, draw(_fields(known))))
            continue
        element = draw(known)
        hash_key = ("value",) if element in BOXED.values() and draw(st.booleans()) else None
        if kind == "S":
            schemas.append(SetSchema(name, element, hash_key))
        else:
            schemas.append(MapSchema(name, element, draw(known), hash_key))
    known = st.sampled_from([schema.name for schema in schemas])
    roots = draw(st.integers(1, 2))
    for number in range(roots):
        fields = (Field("id", FieldType.INT), *draw(_fields(known, least=1)))
        schemas.append(ObjectSchema(f"Root{number}", fields, ("id",) if draw(st.booleans()) else None))
    return Model(SchemaSet(schemas), tuple(f"Root{number}" for number in range(roots)))


@st.composite
def _fields(draw: st.DrawFn, known: st.SearchStrategy[str], least: int = 0) -> tuple[Field, ...]:
    fields = []
    for position in range(draw(st.integers(least, 3))):
        kind = draw(st.sampled_from([*VALUES, *[FieldType.REFERENCE] * 9]))
        fields.append(Field(f"f{position}", kind, draw(known) if kind is FieldType.REFERENCE else None))
    return tuple(fields)


def rows_of(schemas: SchemaSet, name: str) -> st.SearchStrategy[Any]:
    schema = schemas[name]
    match schema:
        case ListSchema() | SetSchema():
            return st.lists(rows_of(schemas, schema.element), max_size=3)
        case MapSchema():
            return st.lists(st.tuples(rows_of(schemas, schema.key), rows_of(schemas, schema.value)), max_size=2)
    if name in BOXED.values():
        return VALUES[schema.fields[0].type]
    return st.fixed_dictionaries(
        {
            field.name: st.integers(0, 5)
            if field.name == "id"
            else st.none() | (rows_of(schemas, field.referenced) if field.referenced else VALUES[field.type])
            for field in schema.fields
        }
    )


def arrow_of(schemas: SchemaSet, name: str) -> pa.DataType:
    schema = schemas[name]
    match schema:
        case ListSchema() | SetSchema():
            return pa.list_(arrow_of(schemas, schema.element))
        case MapSchema():
            return pa.map_(arrow_of(schemas, schema.key), arrow_of(schemas, schema.value))
    if name in BOXED.values():
        return ARROW[schema.fields[0].type]
    return pa.struct(
        [
            (field.name, arrow_of(schemas, field.referenced) if field.referenced else ARROW[field.type])
            for field in schema.fields
        ]
    )


@st.composite
def histories(draw: st.DrawFn) -> History:
    model = draw(models())
    versions = []
    for _ in range(draw(st.integers(1, 4))):
        tables = {}
        for root in model.roots:
            rows = draw(st.lists(rows_of(model.schemas, root), max_size=8))
            columns = arrow_of(model.schemas, root)
            tables[root] = pa.Table.from_struct_array(pa.array(rows, columns))
        versions.append(tables)
    options = {
        "target_shard_bytes": draw(st.sampled_from([None, 1, 8, 40])),
        "allow_resharding": draw(st.booleans()),
        "snapshot_every": draw(st.sampled_from([1, 3])),
        "integrity": draw(st.sampled_from(["full", "deltas", "off"])),
    }
    return History(model, versions, options, draw(st.integers(1, 3)), draw(st.booleans()))


def cut(tables: dict[str, pa.Table], pieces: int) -> Input:
    splits = {
        name: tuple(
            Held(table.slice(len(table) * at // pieces, len(table) * (at + 1) // pieces - len(table) * at // pieces))
            for at in range(pieces)
        )
        for name, table in tables.items()
    }
    return Input((), tuple(splits.items()))


def blobs(folder: Path) -> dict[str, bytes]:
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.name.startswith(("snapshot", "delta", "reverse", "header"))
    }


class Pair:
    """Two producers with the same seeds, one that is built for."""

    def __init__(self, folder: Path, model: Model, options: dict[str, Any], tasks: int) -> None:
        self.folders = folder / "embedded", folder / "built"
        self._model, self._options, self._tasks = model, options, tasks
        self._seed = 0
        self.start()

    def start(self, model: Model | None = None) -> None:
        """Start both producers anew: they go on from what is in the store."""
        self._model = model or self._model
        self._seed += 1
        self.embedded, self.built = (
            Producer(
                place,
                self._model,
                order="canonical",
                versions=count_up,
                random=random.Random(self._seed),
                clock=lambda: 1.0,
                **self._options,
            )
            for place in self.folders
        )

    def publish(self, tables: dict[str, pa.Table], sizes: Sizes = TINY) -> None:
        """The same rows on both ways; what they refuse, and what they report, is the same."""
        outcomes = []
        for publish in (
            lambda: self.embedded.publish(tables=tables),
            lambda: self.built.build(
                SparkEngine(
                    InlineJobs(self._tasks), cut(tables, self._tasks), str(self.folders[1].absolute()), sizes=sizes
                )
            ),
        ):
            try:
                cycle = publish()
                outcomes.append((cycle.version, cycle.types))
            except DeltaicError as error:
                outcomes.append((type(error), getattr(error, "code", None)))
        assert outcomes[0] == outcomes[1]
        assert blobs(self.folders[0]) == blobs(self.folders[1])
        assert not (self.folders[1] / "staging").exists() or not any((self.folders[1] / "staging").iterdir())

    def close(self) -> None:
        self.embedded.close()
        self.built.close()


@given(histories())
def test_a_built_history_has_the_bytes_of_an_embedded_one(history):
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder), history.model, history.options, history.tasks)
        for tables in history.versions:
            pair.publish(tables)
            if history.restarts:
                pair.close()
                pair.start()
        pair.close()


@pytest.mark.parametrize(
    "append",
    [
        SchemaAppend(enabled=False),
        SchemaAppend(),
        SchemaAppend(all_fields=True, compression="zstd"),
        SchemaAppend(max_bytes=10, on_too_large="snapshot"),
    ],
    ids=["off", "on", "all-fields", "too-large"],
)
def test_a_changed_model_keeps_ordinals_and_appends_what_is_new(tmp_path, append):
    before = Model.parse("Movie { int id; String title; }\nString { string value; }")
    after = Model.parse("Movie { int id; int year; String title; String note; }\nString { string value; }")
    pair = Pair(tmp_path, before, {"schema_append": append, "integrity": "deltas", "snapshot_every": 5}, 3)
    rows = [{"id": number % 30, "title": f"title {number % 7}"} for number in range(60)]
    pair.publish({"Movie": pa.Table.from_pylist(rows)})
    pair.close()
    pair.start(after)
    changed = [
        {**row, "year": number % 3 if number < 40 else None, "note": None if number % 4 else "new"}
        for number, row in enumerate(rows[5:])
    ]
    columns = pa.schema([("id", pa.int32()), ("title", pa.string()), ("year", pa.int32()), ("note", pa.string())])
    pair.publish({"Movie": pa.Table.from_pylist(changed, schema=columns)})
    pair.publish({"Movie": pa.Table.from_pylist(changed[3:], schema=columns)})
    pair.close()
    pair.start()
    pair.publish({"Movie": pa.Table.from_pylist(changed, schema=columns)})
    pair.close()


@settings(max_examples=25)
@given(
    st.lists(movies, max_size=8),
    st.lists(st.tuples(st.lists(movies, max_size=4), st.lists(movies, max_size=2)), max_size=3),
    st.integers(1, 3),
)
def test_a_history_of_changes_has_the_bytes_of_embedded_incremental_cycles(first, steps, tasks):
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder), CHANGED_MODEL, {"target_shard_bytes": 30, "allow_resharding": True}, tasks)
        pair.publish({"Movie": table(list(unique(first).values()))})
        for changed, removed in steps:
            new, gone = unique(changed), unique(removed)
            for key in new:
                gone.pop(key, None)
            with pair.embedded.incremental() as batch:
                batch.delete_many("Movie", gone)
                batch.add_or_modify(table(list(new.values())), "Movie")
            engine = SparkEngine(
                InlineJobs(tasks),
                cut({"Movie": table(list(new.values()))}, tasks),
                str(pair.folders[1].absolute()),
                sizes=TINY,
                removed=cut({"Movie": table(list(gone.values()))}, tasks),
            )
            cycle = pair.built.build(engine)
            assert (cycle.version, cycle.types) == (batch.cycle.version, batch.cycle.types)
            assert blobs(pair.folders[0]) == blobs(pair.folders[1])
        pair.close()


def unique(rows: list[dict[str, Any]]) -> dict[tuple[str, int], dict[str, Any]]:
    return {key_of(row): row for row in rows}

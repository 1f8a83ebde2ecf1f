"""Table → publish → consume → Arrow with vectors: equal bits, for random vectors and histories, forwards and back."""

import tempfile
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.dataset.dataset import Dataset
from deltaic.schema.model import Model
from deltaic.table.rows import vector_field

# Patterns that numbers hide: NaNs with payloads, both zeros, denormals, infinities.
WORDS = st.sampled_from([0, 0x80000000, 1, 0x7FC12345, 0x7F800001, 0x7F800000, 0xFF800000, 0x3F800000]) | st.integers(
    0, 2**32 - 1
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, int], list[tuple[str, list[dict[str, Any]]]]]:
    sizes = {f"v{place}": draw(st.integers(1, 40)) for place in range(draw(st.integers(1, 2)))}
    vectors = {name: st.none() | st.lists(WORDS, min_size=size, max_size=size) for name, size in sizes.items()}
    row = st.fixed_dictionaries({"id": st.integers(0, 7), "title": st.sampled_from(["a", "b", None]), **vectors})
    rows = st.lists(row, max_size=5, unique_by=lambda one: one["id"])
    kinds = ["merge", "merge", "vectors", "delete", "overwrite", "compact", "full", "new process"]
    return sizes, draw(st.lists(st.tuples(st.sampled_from(kinds), rows), min_size=1, max_size=5))


def table_of(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    arrays = []
    for field in schema:
        values = [row[field.name] for row in rows]
        if pa.types.is_fixed_size_list(field.type):
            size = field.type.list_size
            words = np.array([value or [0] * size for value in values], np.uint32).reshape(-1)
            mask = pa.array([value is None for value in values], pa.bool_())
            arrays.append(
                pa.FixedSizeListArray.from_arrays(pa.array(words.view(np.float32)), type=field.type, mask=mask)
            )
        else:
            arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=schema)


def bits_of(found: pa.Table, sizes: dict[str, int]) -> dict[int, Any]:
    result = {}
    found = found.combine_chunks()
    for place, number in enumerate(found.column("id").to_pylist()):
        vectors = {
            name: np.asarray(found.column(name)[place].values).view(np.uint32).tolist()
            if found.column(name)[place].is_valid
            else None
            for name in sizes
        }
        result[number] = (found.column("title")[place].as_py(), vectors)
    return result


@settings(deadline=None, max_examples=25)
@given(histories())
def test_vectors_that_went_the_whole_road_are_those_of_the_table(
    history: tuple[dict[str, int], list[tuple[str, list[dict[str, Any]]]]],
) -> None:
    sizes, steps = history
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("title", pa.string()),
            *(vector_field(name, size) for name, size in sizes.items()),
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        dataset = Dataset.create(folder, Model.from_arrow(schema, "Row", key="id"), table=True)
        consumer = dataset.consumer(share=False)
        seen: list[tuple[int, dict[int, Any]]] = []
        for kind, rows in steps:
            given_rows = table_of(rows, schema)
            if kind == "merge" and rows:
                dataset.table.merge(given_rows)
            elif kind == "vectors" and rows:
                dataset.table.merge(given_rows.drop_columns(["title"]))
            elif kind == "overwrite":
                dataset.table.overwrite(given_rows)
            elif kind == "delete" and rows:
                dataset.table.delete(f"id = {rows[0]['id']}")
            elif kind == "compact":
                dataset.table.compact()
            elif kind == "new process":
                dataset = Dataset.open(folder)
            done = dataset.publish(full=kind == "full")
            if kind in ("compact", "full", "new process") and done.from_table_version is not None:
                assert done.version is None
            consumer.refresh()
            wanted = bits_of(dataset.table.to_arrow(), sizes)
            found = pa.table(consumer.state["Row"].to_arrow())
            if found.num_rows:
                assert found.schema.field("v0").equals(schema.field("v0"), check_metadata=True)
            assert bits_of(found, sizes) == wanted
            seen.append((consumer.version, wanted))
        # Reverse deltas undo it, and a snapshot leads to the same.
        for version, wanted in reversed(seen):
            dataset.announcements.pin(version)
            consumer.refresh()
            assert consumer.version == version
            assert bits_of(pa.table(consumer.state["Row"].to_arrow()), sizes) == wanted
            fresh = dataset.consumer(share=False)
            fresh.refresh()
            assert bits_of(pa.table(fresh.state["Row"].to_arrow()), sizes) == wanted

"""Table → publish → consume → Arrow: equal rows and types, for random schemas, values and histories."""

import tempfile
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.dataset.dataset import Dataset
from deltaic.schema.model import Model
from tests.properties.test_ingest_round_trip import _LOGICAL, _PLAIN, _by_key, columns


@st.composite
def histories(draw: st.DrawFn) -> tuple[pa.Schema, list[tuple[str, list[dict[str, Any]]]]]:
    found = {f"c{position}": draw(columns(_PLAIN + _LOGICAL, 2)) for position in range(draw(st.integers(1, 3)))}
    schema = pa.schema(
        [pa.field("id", pa.int64(), nullable=False), *((name, arrow_type) for name, (arrow_type, _) in found.items())]
    )
    row = st.fixed_dictionaries({"id": st.integers(0, 9), **{name: values for name, (_, values) in found.items()}})
    rows = st.lists(row, max_size=4, unique_by=lambda one: one["id"])
    step = st.tuples(st.sampled_from(["merge", "merge", "delete", "overwrite", "compact", "nothing"]), rows)
    return schema, draw(st.lists(step, min_size=1, max_size=4))


@settings(deadline=None, max_examples=25)
@given(histories())
def test_rows_that_went_the_whole_road_are_the_rows_of_the_table(
    history: tuple[pa.Schema, list[tuple[str, list[dict[str, Any]]]]],
) -> None:
    schema, steps = history
    with tempfile.TemporaryDirectory() as folder:
        dataset = Dataset.create(folder, Model.from_arrow(schema, "Row", key="id"), table=True)
        consumer = dataset.consumer(share=False)
        for kind, rows in steps:
            given_rows = pa.Table.from_pylist(rows, schema)
            if kind == "merge":
                dataset.table.merge(given_rows)
            elif kind == "overwrite":
                dataset.table.overwrite(given_rows)
            elif kind == "delete" and rows:
                dataset.table.delete(f"id = {rows[0]['id']}")
            elif kind == "compact":
                dataset.table.compact()
            published = dataset.publish()
            if kind in ("compact", "nothing") and published.from_table_version is not None:
                assert published.version is None
            consumer.refresh()
            wanted = dataset.table.to_arrow()
            if consumer.version is None:
                assert not wanted.num_rows
                continue
            found = consumer["Row"].to_arrow().to_pyarrow()
            assert found.schema.types == schema.types
            assert _by_key(found.sort_by("id").to_pylist()) == _by_key(wanted.sort_by("id").to_pylist())

"""Vector parts that tasks write together have the bytes of the embedded producer: random vectors, random histories.

The calls run in this process (`InlineJobs`), cut into small pieces; on a real Spark they are in
tests/unit/spark/test_vectors_publish.py.
"""

import random
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.errors import DeltaicError
from deltaic.producer import Producer, count_up
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from deltaic.spark.build_engine import SparkEngine
from deltaic.spark.build_jobs import InlineJobs
from deltaic.spark.build_sources import Input
from deltaic.vector.storage import VectorStorage
from tests.properties.test_build_histories import TINY, Held


@key("name")
@dataclass
class Studio:
    """Referred to by films, with a vector of its own."""

    name: str
    logo: Annotated[list[float], Vector(2)]


@key("id")
@dataclass
class Film:
    """A row."""

    id: int
    title: str
    studio: Studio
    embedding: Annotated[list[float], Vector(5)]


MODEL = Model.of(Film)
FLOATS = pa.list_(pa.float32())
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("title", pa.string()),
        ("studio", pa.struct([("name", pa.string()), ("logo", FLOATS)])),
        ("embedding", FLOATS),
    ]
)
# Few values: vectors are to be equal, and to differ in some dimensions only.
NUMBERS = st.sampled_from([0.0, -0.0, 1.0, 0.25, float("inf"), float("nan"), 3.14159])
STORAGES = st.sampled_from(
    [
        "part",
        "bytes",
        VectorStorage(quantization="int8"),
        VectorStorage(compression="none"),
        {"Film.embedding": "bytes"},
        {"Studio.logo": VectorStorage(quantization="f16", max_error=0.01)},
    ]
)


@st.composite
def versions(draw: st.DrawFn, *, twice: bool = True) -> list[list[dict[str, Any]]]:
    """Rows of some versions. A studio has one logo in a version, except now and then: then both must refuse it.

    With `twice` a key may then come twice; of changes by key the last would count, and tasks know no last one.
    """
    found = []
    for _ in range(draw(st.integers(1, 4))):
        logos = {name: draw(st.none() | st.lists(NUMBERS, min_size=2, max_size=2)) for name in "xy"}
        odd = draw(st.integers(0, 19)) == 0
        rows = []
        for number in draw(st.lists(st.integers(0, 6), unique=not (odd and twice), max_size=6)):
            name = draw(st.sampled_from("xy"))
            logo = draw(st.lists(NUMBERS, min_size=2, max_size=2)) if odd and draw(st.booleans()) else logos[name]
            vector = draw(st.none() | st.lists(NUMBERS, min_size=5, max_size=5))
            studio = draw(st.sampled_from([None, {"name": name, "logo": logo}]))
            rows.append({"id": number, "title": draw(st.sampled_from("ab")), "studio": studio, "embedding": vector})
        found.append(rows)
    return found


def producer(folder: Path, vectors: Any) -> Producer:
    return Producer(
        folder,
        MODEL,
        order="canonical",
        vectors=vectors,
        versions=count_up,
        clock=lambda: 1_700_000_000.0,
        random=random.Random(4),
    )


def files(folder: Path) -> dict[str, bytes]:
    kinds = ("snapshot", "delta", "reversedelta", "header", "vector")
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith(kinds)}


def outcome(run: Any) -> tuple[Any, ...]:
    try:
        cycle = run()
    except DeltaicError as error:
        return type(error), getattr(error, "code", None)
    return cycle.version, dict(cycle.vectors), {name: change.added for name, change in cycle.types.items()}


def engine(folder: Path, tasks: int, rows: Input, removed: Input | None = None) -> SparkEngine:
    return SparkEngine(InlineJobs(tasks), rows, str(folder), sizes=TINY, removed=removed)


@settings(deadline=None, max_examples=25)
@given(versions(), STORAGES, st.integers(1, 3))
def test_tasks_write_the_vector_parts_of_one_producer(
    history: list[list[dict[str, Any]]], vectors: Any, tasks: int
) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        here, there = producer(Path(one), vectors), producer(Path(two), vectors)
        for rows in history:
            table = pa.Table.from_pylist(rows, SCHEMA)
            splits = [Held(table.slice(start, 2)) for start in range(0, max(1, table.num_rows), 2)]
            mine = outcome(lambda table=table: here.cycle(lambda cycle: cycle.add_arrow("Film", table)))
            built = engine(Path(two), tasks, Input.of({"Film": splits}, MODEL))
            theirs = outcome(lambda built=built: there.build(built))
            assert mine == theirs
            assert files(Path(one)) == files(Path(two))
            if isinstance(mine[0], type):
                return


@settings(deadline=None, max_examples=25)
@given(versions(twice=False), STORAGES, st.integers(1, 3), st.lists(st.integers(0, 6), max_size=2))
def test_changes_by_key_are_the_same_too(
    history: list[list[dict[str, Any]]], vectors: Any, tasks: int, gone: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        here, there = producer(Path(one), vectors), producer(Path(two), vectors)
        for rows in history:
            table = pa.Table.from_pylist(rows, SCHEMA)
            changed = Input.of({"Film": [Held(table)]}, MODEL)
            going = [number for number in gone if number not in {row["id"] for row in rows}]
            keys = Held(pa.table({"id": pa.array(going, pa.int64())}))

            def changes(table: pa.Table = table, going: list[int] = going) -> Any:
                with here.incremental() as batch:
                    batch.add_or_modify(table, "Film")
                    batch.delete_many("Film", going)
                return batch.cycle

            mine = outcome(changes)
            built = engine(Path(two), tasks, changed, Input.of({"Film": [keys]}, MODEL))
            theirs = outcome(lambda built=built: there.build(built))
            assert mine == theirs
            assert files(Path(one)) == files(Path(two))
            if isinstance(mine[0], type):
                return

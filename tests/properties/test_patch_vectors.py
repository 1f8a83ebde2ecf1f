"""Deltas of vectors among other patches: each vector goes through its own in order, and stays with its record."""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.compare.diff import record_value
from deltaic.producer import Producer, count_up, patching
from deltaic.producer.patch_records import PatchRules
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from deltaic.wire.patches import Operation, Patch, PatchBatch
from deltaic.wire.vectors import VectorDelta

DIMS = 6


@key("id")
@dataclass
class Movie:
    id: int
    title: str | None
    embedding: Annotated[list[float], Vector(DIMS)] | None


MODEL = Model.of(Movie)
numbers = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e30])
vectors = st.lists(numbers, min_size=DIMS, max_size=DIMS)


@st.composite
def patches(draw: Any) -> tuple[str, Any]:
    number = draw(st.integers(0, 3))
    kind = draw(st.sampled_from(["delta", "delta", "delta", "expecting", "title", "set", "delete"]))
    if kind in ("delta", "expecting"):
        chosen = draw(st.lists(st.integers(0, DIMS - 1), unique=True, max_size=DIMS).map(sorted))
        return kind, (
            number,
            chosen,
            draw(st.lists(numbers, min_size=len(chosen), max_size=len(chosen))),
            draw(st.booleans()),
        )
    return kind, (number, draw(vectors) if kind == "set" else draw(st.sampled_from(["a", "b", None])))


def words(values: list[float]) -> Any:
    return np.array(values, np.float32).view(np.uint32)


@given(
    st.lists(st.none() | vectors, min_size=4, max_size=4),
    st.lists(st.lists(patches(), min_size=1, max_size=8), min_size=1, max_size=2),
    st.booleans(),
)
@settings(max_examples=100)
def test_vectors_go_through_their_deltas_in_order(
    tmp_path_factory: pytest.TempPathFactory, given_vectors: list[Any], batches: list[list[Any]], by_record: bool
) -> None:
    plain: dict[int, Any] = {number: [f"t{number}", vector] for number, vector in enumerate(given_vectors)}
    folder = str(tmp_path_factory.mktemp("vectors"))
    with pytest.MonkeyPatch.context() as monkey, Producer(folder, MODEL, versions=count_up) as producer:
        if by_record:
            monkey.setattr(patching, "takes", lambda *_: False)
        producer.publish([Movie(number, title, vector) for number, (title, vector) in plain.items()])
        for batch in batches:
            made, passed = [], 0
            for kind, (number, *more) in batch:
                record = plain[number]
                if kind == "title":
                    record[0] = more[0]
                    made.append(Patch("Movie", number, "title", more[0]))
                elif kind in ("set", "delete"):
                    record[1] = list(more[0]) if kind == "set" else None
                    operation = Operation.SET if kind == "set" else Operation.DELETE
                    made.append(Patch("Movie", number, "embedding", record[1], operation=operation))
                else:
                    chosen, values, right = more
                    now = record[1] if record[1] is not None else [0.0] * DIMS
                    expected = [now[place] if right else 77.0 for place in chosen]
                    prev = words(expected) if kind == "expecting" else None
                    delta = VectorDelta(DIMS, np.array(chosen, np.uint32), words(values), prev=prev)
                    made.append(Patch("Movie", number, "embedding", delta, operation=Operation.VECTOR))
                    whole = len(chosen) == DIMS
                    if (record[1] is None and not whole) or (kind == "expecting" and chosen and not right):
                        passed += 1
                        continue
                    record[1] = list(now)
                    for place, value in zip(chosen, values, strict=True):
                        record[1][place] = value
            read = PatchBatch.from_bytes(PatchBatch.of(made).to_bytes())
            report = patching.patch(producer, read, rules=PatchRules("skip"))
            assert (report.applied, report.mismatched) == (len(made) - passed, passed)
            state = producer.state
            assert state is not None
            found = [record_value(state, "Movie", ordinal) for ordinal in state["Movie"].populated.ordinals().tolist()]
            assert len(found) == len(plain)
            for record in found:
                title, vector = plain[record["id"]]
                assert record["title"] == title
                assert repr(record["embedding"]) == repr(None if vector is None else np.float32(vector).tolist())

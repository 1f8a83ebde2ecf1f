"""Vectors in the change feed: the dimensions that changed, vectors that came and went, versions of vectors alone."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from deltaic.consumer import Consumer
from deltaic.producer import Producer, count_up
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from deltaic.storage.urls import open_store
from deltaic.wire.patches import MISSING, Operation, PatchBatch


@key("id")
@dataclass
class Film:
    """A film with a vector."""

    id: int
    title: str
    embedding: Annotated[list[float], Vector(4)] | None = None


def steps(*versions, **options):
    store = open_store("memory:")
    with Producer(store, Model.of(Film), versions=count_up) as producer:
        for films in versions:
            producer.publish(films)
    return list(Consumer(store, share=False).changes(1, **options))


def test_of_a_vector_the_dimensions_that_changed_are_told_also_of_records_that_stayed():
    (step,) = steps(
        [Film(1, "a", [1, 2, 3, 4]), Film(2, "b", [0] * 4)], [Film(1, "a", [1, 2, 9, 4]), Film(2, "b", [0] * 4)]
    )
    (patch,) = step
    assert (patch.operation, patch.key, patch.path, patch.previous) == (Operation.VECTOR, 1, "embedding", MISSING)
    assert patch.value.dims == 4 and patch.value.indices.tolist() == [2] and patch.value.values.tolist() == [9.0]
    assert patch.value.prev is None


def test_with_before_the_numbers_before_go_with_them():
    (step,) = steps([Film(1, "a", [1, 2, 3, 4])], [Film(1, "A", [1, 2, 9, 4])], before=True)
    title, vector = sorted(step, key=lambda patch: patch.operation)
    assert title.path == "title" and vector.value.prev.view(np.float32).tolist() == [3.0]
    assert vector.value.apply(np.array([1, 2, 3, 4], np.float32), check_prev=True).tolist() == [1, 2, 9, 4]


def test_vectors_that_come_and_go_are_a_set_and_a_delete():
    (step,) = steps([Film(1, "a"), Film(2, "b", [1] * 4)], [Film(1, "a", [2] * 4), Film(2, "b")], before=True)
    assert {one.key: (one.operation, one.value, one.previous) for one in step} == {
        1: (Operation.SET, [2.0] * 4, None),
        2: (Operation.DELETE, None, [1.0] * 4),
    }


def test_a_record_that_comes_brings_its_vector():
    (step,) = steps([Film(1, "a")], [Film(1, "a"), Film(2, "b", [1] * 4)])
    (patch,) = step
    assert patch.operation is Operation.PUT and patch.value["embedding"] == [1.0] * 4


def test_vectors_survive_the_wire():
    films = [[Film(number, "x", [number, side, 0, 0]) for number in range(50)] for side in range(2)]
    (step,) = steps(*films, before=True)
    found = list(PatchBatch.from_bytes(step.to_bytes()))
    assert len(found) == 50 and all(one.value.indices.tolist() == [1] for one in found)
    assert [one.value for one in found] == [one.value for one in step]


@pytest.mark.parametrize("count", [4095, 4097])
def test_only_chunks_with_a_change_are_looked_at(count):
    films = [Film(number, "x", [number, 0, 0, 0]) for number in range(count)]
    changed = [*films[:-1], Film(count - 1, "x", [count - 1, 0, 0, 5])]
    (step,) = steps(films, changed)
    assert [one.key for one in step] == [count - 1]

"""Quantized columns: what they cost, how far they are off, and that errors never add up."""

from typing import Any

import numpy as np
import pytest

from deltaic.producer import Producer, count_up
from deltaic.producer.restoring import load_version
from deltaic.schema.model import Model
from deltaic.storage.announcement import Announcements
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.vector import VectorStorage
from deltaic.vector.lossy import error_bounds
from tests.unit.vector.plain_chain import KEY, by_key, plain_of, walk_plainly
from tests.unit.vector.test_vector_producer import model_of, part_bytes, table, wide

MODES = ("f16", "int8", "int4")


@pytest.fixture
def store() -> Store:
    return open_store("memory:")


def matrix_of(producer: Producer, count: int) -> Any:
    held = by_key(producer.state)
    return np.array([held[row] for row in range(count)], np.uint32).view(np.float32)


@pytest.mark.parametrize("quantization", MODES)
def test_a_vector_is_off_by_at_most_half_a_step_of_its_range(store, quantization):
    storage = VectorStorage(quantization=quantization)
    producer = Producer(store, model_of(64), versions=count_up, vectors=storage)
    matrix = wide(200, 64)
    producer.publish(table(matrix))
    off = np.abs(matrix_of(producer, 200).astype(np.float64) - matrix).max(axis=1)
    assert (off > 0).any() and (off <= error_bounds(matrix, storage)).all()
    steps = {"f16": None, "int8": 255, "int4": 15}[quantization]
    if steps:
        assert (off <= (matrix.max(axis=1) - matrix.min(axis=1)) / steps / 2 * 1.001).all()


@pytest.mark.parametrize("quantization", MODES)
def test_many_lossy_versions_do_not_drift(quantization):
    drift(quantization, 100)


@pytest.mark.long
@pytest.mark.parametrize("quantization", MODES)
def test_a_thousand_lossy_versions_do_not_drift(quantization):
    drift(quantization, 1_000)


def drift(quantization: str, versions: int) -> None:
    """Small changes, version after version; each time the vectors are near to what was given."""
    store = open_store("memory:")
    storage = VectorStorage(quantization=quantization, refresh_every=None)
    options: dict[str, Any] = {"versions": count_up, "snapshot_every": 10_000, "integrity": "off", "header_file": False}
    producer = Producer(store, model_of(16), vectors=storage, **options)
    random = np.random.default_rng(1)
    matrix = wide(5, 16)
    for _ in range(versions):
        matrix[random.integers(5), random.integers(16)] += np.float32(random.normal())
        producer.publish(table(matrix))
        off = np.abs(matrix_of(producer, 5).astype(np.float64) - matrix).max(axis=1)
        assert (off <= error_bounds(matrix, storage)).all()
    assert producer.version is not None and producer.version > versions * 0.7


def test_the_bytes_of_quantized_columns(store):
    count, dims = 1_000, 384
    found = {}
    for quantization in ("none", *MODES):
        storage = VectorStorage(quantization=quantization)
        producer = Producer(open_store("memory:"), model_of(dims), versions=count_up, vectors=storage)
        matrix = wide(count, dims)
        producer.publish(table(matrix))
        random = np.random.default_rng(3)
        changed = matrix.copy()
        places = np.argsort(random.random((count, dims)), axis=1)[:, :19]
        np.put_along_axis(changed, places, random.standard_normal((count, 19)).astype(np.float32), axis=1)
        cycle = producer.publish(table(changed))
        found[quantization] = part_bytes(cycle, "delta") / count, part_bytes(cycle, "snapshot") / count
    for quantization, (delta, snapshot) in found.items():
        print(f"{quantization}: 5 % changed {delta:.1f} bytes a row, snapshot {snapshot:.1f}")
    assert found["f16"][0] < found["none"][0] * 0.75
    assert found["int8"][0] < found["f16"][0] and found["int4"][0] < found["int8"][0]
    assert found["f16"][1] < 2.05 * dims


def test_a_change_within_the_bound_is_no_version_and_one_beyond_it_is(store):
    storage = VectorStorage(quantization="int8", max_error=0.01)
    producer = Producer(store, model_of(8), versions=count_up, vectors={"Movie.embedding": storage})
    matrix = wide(3, 8)
    producer.publish(table(matrix))
    near = matrix_of(producer, 3) + np.float32(0.009)
    assert producer.publish(table(near)).version is None
    assert producer.publish(table(near + np.float32(0.01))).version == 2
    assert np.abs(matrix_of(producer, 3) - (near + np.float32(0.01))).max() <= 0.01


def test_vectors_that_a_quantization_cannot_keep_within_the_bound_come_without_loss(store):
    storage = VectorStorage(quantization="int4", max_error=1e-6)
    producer = Producer(store, model_of(8), versions=count_up, vectors=storage)
    matrix = wide(3, 8)
    matrix[1, 0] = np.nan
    matrix[2, 3] = np.inf
    producer.publish(table(matrix))
    assert matrix_of(producer, 3).tobytes() == matrix.tobytes()
    matrix[0, :4] = 1e30, -1e30, 1, 2
    producer.publish(table(matrix))
    assert matrix_of(producer, 3).tobytes() == matrix.tobytes()
    walk_plainly(store)


def test_a_vector_comes_whole_again_after_so_many_lossy_changes(store):
    storage = VectorStorage(quantization="int4", refresh_every=3)
    producer = Producer(store, model_of(8), versions=count_up, vectors=storage)
    matrix = wide(2, 8)
    exact = []
    for step in range(8):
        matrix[0] = wide(9, 8)[step]
        # The title moves the record: the count goes with the vector.
        producer.publish(table(matrix, [f"film {step}", "film"]))
        exact.append(matrix_of(producer, 2)[0].tobytes() == matrix[0].tobytes())
    # The first vector counts as one lossy change, then two more, then it is due.
    assert exact == [False, False, False, True, False, False, False, True]
    walk_plainly(store)


def test_a_restored_producer_goes_on_from_what_readers_have(store):
    storage = VectorStorage(quantization="int8")
    matrix = wide(20, 16)
    with Producer(store, model_of(16), versions=count_up, vectors=storage) as producer:
        producer.publish(table(matrix))
    with Producer(store, model_of(16), versions=count_up, vectors=storage) as producer:
        assert producer.publish(table(matrix)).version is None
        matrix[:, 3] += 1
        cycle = producer.publish(table(matrix))
        assert cycle.vectors[KEY].changed == 20
        assert plain_of(load_version(store, Announcements(store), 2)) == walk_plainly(store)[2]
        assert plain_of(producer.state) == walk_plainly(store)[2]


def test_a_column_that_stops_losing_is_exact_from_the_next_version_on(store):
    matrix = wide(20, 16)
    with Producer(store, model_of(16), versions=count_up, vectors=VectorStorage(quantization="int4")) as producer:
        producer.publish(table(matrix))
    with Producer(store, Model(**vars(model_of(16))), versions=count_up) as producer:
        assert producer.publish(table(matrix)).version == 2
        assert matrix_of(producer, 20).tobytes() == matrix.tobytes()
    walk_plainly(store)

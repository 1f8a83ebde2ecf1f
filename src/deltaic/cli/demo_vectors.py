"""The demonstration's second part: embeddings that are trained again, and what a refresh of them ships.

A table of movies and their embeddings is published; then one dimension in twenty of every vector changes. What goes
over to a consumer is the vector part beside the delta, and the consumer must hold the table's vectors bit for bit.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from deltaic.dataset.dataset import Dataset
from deltaic.errors import ValidationError
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model

if TYPE_CHECKING:
    from deltaic.dataset.publishing import Published

DIMENSIONS = 384
CHANGED_SHARE = 0.05
"""How many of the dimensions of a vector change."""

Matrix = NDArray[np.float32]


@key("id")
@dataclass
class Embedded:
    """A movie with what a model makes of it."""

    id: int
    embedding: Annotated[list[float], Vector(DIMENSIONS)]


def show_vectors(url: str, movies: int, say: Callable[[str], None]) -> None:
    """Publish embeddings, then others, and follow them; prints the bytes.

    Raises:
        ValidationError: the consumer holds other vectors than the table.
    """
    dataset = Dataset.create(url, Model.of(Embedded), table=True)
    old, new = embeddings(movies)
    dataset.table.append(_rows(old))
    first, seconds = _timed(dataset.publish)
    whole = old.nbytes
    say(f"embeddings: {movies:,} of {DIMENSIONS} dimensions published in {seconds:.2f} s, {whole:,} bytes of float32")
    consumer = dataset.consumer()  # not started: it refreshes when it is told to, so that this can be timed
    try:
        consumer.refresh(to=first.version)
        _check(consumer, old)
        dataset.table.overwrite(_rows(new))
        second, seconds = _timed(dataset.publish)
        shipped = shipped_bytes(second)
        say(f"    trained again: {CHANGED_SHARE:.0%} of the dimensions of every one are others, in {seconds:.2f} s")
        say(f"    shipped: {shipped:,} bytes, {whole / shipped:.1f} times fewer than whole vectors")
        _, seconds = _timed(lambda: consumer.refresh(to=second.version))
        _check(consumer, new)
        say(f"    the consumer has them, bit for bit, in {seconds * 1e3:.0f} ms")
    finally:
        consumer.stop()


def shipped_bytes(published: "Published") -> int:
    """What a consumer fetches for a refresh from the version before: the delta, and its vector part."""
    return sum(each.size for each in published.cycle.artifacts if each.kind == "delta" or "-delta." in each.name)


def embeddings(movies: int, seed: int = 7) -> tuple[Matrix, Matrix]:
    """Unit vectors, and the same with some dimensions of each moved a little."""
    numbers = np.random.default_rng(seed)
    old = numbers.standard_normal((movies, DIMENSIONS), dtype=np.float32)
    old /= np.linalg.norm(old, axis=1, keepdims=True)
    new = old.copy()
    count = round(CHANGED_SHARE * DIMENSIONS)
    for start in range(0, movies, 10_000):
        rows = min(10_000, movies - start)
        places = numbers.random((rows, DIMENSIONS), dtype=np.float32).argpartition(count, axis=1)[:, :count]
        moved = new[start : start + rows]
        by = numbers.standard_normal(places.shape, dtype=np.float32) / 20
        np.put_along_axis(moved, places, np.take_along_axis(moved, places, axis=1) + by, axis=1)
    return old, new


def _rows(matrix: Matrix) -> dict[str, Any]:
    return {"id": np.arange(len(matrix), dtype=np.int64), "embedding": matrix}


def _check(consumer: Any, expected: Matrix) -> None:
    import pyarrow as pa

    found = pa.table(consumer.state["Embedded"].to_arrow())
    vectors = found.column("embedding").combine_chunks()
    values = np.asarray(vectors.values).reshape(-1, DIMENSIONS)
    same = values[np.argsort(np.asarray(found.column("id")))].view(np.uint32) == expected.view(np.uint32)
    if vectors.null_count or not bool(same.all()):
        raise ValidationError("the consumer holds other vectors than the table")


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    answer = run()
    return answer, time.perf_counter() - start

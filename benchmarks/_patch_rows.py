"""The patches of `_patch_rivals.py` as deltaic sends them: the rows of `registry.py` beside the rivals.

Encoding starts from the changes as Python values and ends with a frame; decoding gives columns. Applying finds the
records of a published state by key, changes them, numbers the new ones and finds what nobody refers to any more: all of
a cycle that is not writing files. `visible` is wall time from the call of `patch` with the bytes until a follower in
another process has the version, files on the local disk between them.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from _patch_rivals import DIMS, Change, PatchData
from _patch_table import PatchRow, cpu_seconds

from deltaic.compare.diff import record_value
from deltaic.producer import Producer
from deltaic.producer.patch_records import PatchCounts, PatchRules
from deltaic.producer.patching import Patcher, patch
from deltaic.producer.populate import Population
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from deltaic.schema.registry import Registry
from deltaic.schema.registry_model import model_fields
from deltaic.state.read import ReadState
from deltaic.wire.patches import Operation, Patch, PatchBatch
from deltaic.wire.references import Reference
from deltaic.wire.vectors import VectorDelta

_FOLLOWER = Path(__file__).with_name("_follower.py")


@dataclass
class Studio:
    """A nested record."""

    name: str
    city: str


@dataclass
class Role:
    """An element of a list."""

    name: str
    role: str


@key("id")
@dataclass
class Movie:
    """What is patched."""

    id: int
    title: str
    year: int
    rating: float
    country: str
    available: bool
    studio: Studio
    cast: list[Role]
    ratings: dict[str, float]
    embedding: Annotated[list[float], Vector(DIMS)]


MODEL = Model.of(Movie)


class _Measured(Exception):
    """Ends a cycle that was only measured."""


def patch_rows(data: PatchData, rounds: int) -> list[PatchRow]:
    """Encode, decode and apply the changes; one row for each way to do it."""
    registry = Registry()
    registry.register_many(model_fields(MODEL))
    refer = partial(_reference, registry)
    encode, decode = [], []
    for _ in range(rounds):
        seconds, sent = cpu_seconds(lambda: PatchBatch.of(map(_patch, data.changes)).to_bytes(refer))
        encode.append(seconds)
        seconds, batch = cpu_seconds(partial(PatchBatch.from_bytes, sent))
        decode.append(seconds)
    named = PatchBatch.of(map(_patch, data.changes)).to_bytes()
    plain = PatchBatch.of(map(_patch, data.changes)).to_bytes(refer, compress=False)
    with tempfile.TemporaryDirectory() as folder:
        applied = _applied(folder, data, batch.resolved(partial(_path, registry)), rounds)
    with tempfile.TemporaryDirectory() as folder:
        visible = _visible(folder, data, sent, registry)
    whole = min(decode) + applied
    return [
        PatchRow("deltaic", len(sent), None, min(encode), min(decode), whole, visible, f"visible in {visible:.2f} s"),
        PatchRow("deltaic, paths for references", len(named), None, None, None, None),
        PatchRow("deltaic, not packed", len(plain), None, None, None, None),
    ]


def _patch(change: Change) -> Patch:
    if not change.dimensions:
        return Patch("Movie", change.key, change.path, change.value)
    values = np.array(change.value, np.float32).view(np.uint32)
    delta = VectorDelta(DIMS, np.array(change.dimensions, np.uint32), values)
    return Patch("Movie", change.key, change.path, delta, operation=Operation.VECTOR)


def _reference(registry: Registry, path: str) -> Reference | None:
    index = registry.lookup(path)
    return None if index is None else Reference(registry.version, index)


def _path(registry: Registry, reference: Reference) -> str:
    return registry.descriptor(reference.index, reference.version).path


def _publish(folder: str, data: PatchData) -> Producer:
    producer = Producer(folder, MODEL, snapshot_every=1_000, integrity="deltas")
    producer.publish(list(data.movies.values()), type_name="Movie")
    return producer


def _applied(folder: str, data: PatchData, batch: PatchBatch, rounds: int) -> float:
    """CPU time of applying to the state that was published; what comes out is compared."""
    seconds = []
    with _publish(folder, data) as producer:
        patcher = Patcher(MODEL)

        def measured(cycle: Population) -> None:
            taken, _ = cpu_seconds(lambda: patcher.populate(cycle, batch, PatchRules(), PatchCounts()))
            seconds.append(taken)
            raise _Measured

        for _ in range(rounds + 1):  # the first finds the keys and counts the references
            with suppress(_Measured):
                producer.cycle(measured)
        patch(producer, batch)
        _compare(producer.state, data)
    return min(seconds[1:])


def _compare(state: ReadState | None, data: PatchData) -> None:
    assert state is not None
    for ordinal in state["Movie"].populated.ordinals().tolist():
        movie = record_value(state, "Movie", ordinal)
        movie["embedding"] = state.vectors["Movie", "embedding"][ordinal].tolist()
        assert movie == data.after[movie["id"]], f"deltaic leaves another movie {movie['id']}"


@contextmanager
def _follower(folder: str) -> Iterator[Any]:
    process = subprocess.Popen(
        [sys.executable, str(_FOLLOWER), folder, "own", "idle"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write("load\n")
        process.stdin.flush()
        for line in process.stdout:
            if "loaded" in json.loads(line):
                break
        yield (json.loads(line) for line in process.stdout)
    finally:
        process.stdin.close()
        process.wait(30)


def _visible(folder: str, data: PatchData, sent: bytes, registry: Registry) -> float:
    with _publish(folder, data) as producer, _follower(folder) as told:
        # The first batch finds the keys; a producer that runs knows them.
        patch(producer, [Patch("Movie", 0, "year", 1900)])
        assert "visible" in next(told)
        started = time.monotonic_ns()
        batch = PatchBatch.from_bytes(sent).resolved(partial(_path, registry))
        patch(producer, batch)
        return float(next(told)["at"] - started) / 1e9

"""A process that follows a chain with vectors through a consumer, for tests; told what to do line by line on its input.

`go 5` refreshes to version 5 and says how much memory that took at most, `read` gives its vectors as a number, `bits`
the same of all rows without taking memory for it, `memory` says what the process holds; each answer is a JSON line. As
a module it also writes such chains, of any size.
"""

import gc
import io
import json
import sys
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.consumer import Consumer
from deltaic.schema.text import parse_schemas
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.vector_column import StoredVectors
from deltaic.state.write import WriteState
from deltaic.state.write_columns import Column
from deltaic.storage.announced import Artifact
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName
from deltaic.storage.checksum import checksum
from deltaic.storage.lease import acquire_lease
from deltaic.storage.local import LocalStore
from deltaic.vector.names import VECTOR_KIND, part_name
from deltaic.vector.part import delta_pieces, snapshot_pieces

EMBEDDING = ("Movie", "embedding")


def write_chain(folder: Path, rows: int, dimensions: int, deltas: int, *, changed: float = 0.05) -> list[int]:
    """A chain in which each version changes a part of the dimensions of every vector, and one record in a hundred.

    Gives the checksum of the vectors of each version; the last version has a snapshot too.
    """
    store = LocalStore(folder)
    epoch = acquire_lease(Announcements(store)).epoch
    writer = WriteState(parse_schemas("Movie @PrimaryKey(id) { long id; int year; }"))
    random = np.random.default_rng(7)
    ids = np.arange(rows, dtype=np.int64)
    matrix = random.standard_normal((rows, dimensions), np.float32)
    years = np.zeros(rows, np.int32)
    before: ReadState | None = None
    place = np.zeros(0, np.int64)
    sums = []
    for version in range(1, deltas + 2):
        if before is not None:
            years[version::100] += 1
            for start in range(0, rows, 4096):
                part = matrix[start : start + 4096]
                part[random.random(part.shape, np.float32) < changed] += np.float32(0.01)
        ordinals = writer.add_objects("Movie", {"id": Column(ids), "year": Column(years)}).astype(np.int64)
        blobs = {BlobName.snapshot(version): _written(writer, "snapshot")} if version in (1, deltas + 1) else {}
        if before is not None:
            blobs[BlobName.delta(version - 1, version)] = _written(writer, "delta")
            blobs[BlobName.delta(version, version - 1)] = _written(writer, "reverse_delta")
        tag = writer.tag
        writer.next_cycle()
        populated = OrdinalSet.from_ordinals(ordinals)
        column = StoredVectors.of(dimensions, ordinals, matrix)
        vectors = {EMBEDDING: column}
        parts = {}
        if BlobName.snapshot(version) in blobs:
            parts[part_name(BlobName.snapshot(version))] = b"".join(snapshot_pieces(vectors, tag))
        if before is not None:
            moves = {"Movie": _moves(place, ordinals)}
            forward = delta_pieces(before.vectors, vectors, moves, before.tag, tag, {"Movie": populated})
            parts[part_name(BlobName.delta(version - 1, version))] = b"".join(forward)
        artifacts = []
        for name, data in (*((str(blob), data) for blob, data in blobs.items()), *parts.items()):
            store.put(name, data)
            kind = VECTOR_KIND if name in parts else name.split("-")[0].replace("reversedelta", "reverse_delta")
            artifacts.append(Artifact(kind, name, len(data), checksum(data)))
        Announcements(store).announce(version, artifacts, epoch=epoch)
        before = ReadState({}, tag=tag, origin_tag=0, header_tags={}, vectors=vectors)
        place = ordinals
        sums.append(column.checksum())
    return sums


def _moves(old: NDArray[np.int64], new: NDArray[np.int64]) -> Any:
    from deltaic.vector.part import Moves

    moved = old != new
    return Moves(old[moved], new[moved])


def _written(writer: WriteState, kind: str) -> bytes:
    stream = io.BytesIO()
    getattr(writer, f"write_{kind}")(stream)
    return stream.getvalue()


def held_bytes() -> int:
    """Memory of this process that no file on a disk stands behind."""
    found = 0
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(("RssAnon:", "RssShmem:")):
            found += int(line.split()[1]) * 1024
    return found


def memory() -> dict[str, int]:
    """What the kernel says this process holds, in bytes."""
    found = {}
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]:
        name, value, _ = line.split()
        found[name.rstrip(":")] = int(value) * 1024
    return {"pss": found["Pss"], "private": found["Private_Clean"] + found["Private_Dirty"], "held": held_bytes()}


class Peak:
    """The most memory that was held inside a block, looked at every half millisecond."""

    def __enter__(self) -> "Peak":
        self.bytes = held_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.0005):
            self.bytes = max(self.bytes, held_bytes())


class Follower:
    """One follower of a chain."""

    def __init__(self, folder: Path, share: bool, max_deltas: int) -> None:
        self.consumer = Consumer(LocalStore(folder), share=share, max_deltas=max_deltas)

    def answer(self, command: str) -> dict[str, Any]:
        if command == "memory":
            return memory()
        if command == "read":
            return {"sum": self.consumer.state.vectors[EMBEDDING].checksum()}
        if command == "bits":
            bits = 0
            for _, block in self.consumer.state.vectors[EMBEDDING].blocks():
                bits = zlib.crc32(block.data.cast("B"), bits)
            return {"bits": bits}
        gc.collect()
        started = time.perf_counter()
        with Peak() as peak:
            refresh = self.consumer.refresh(int(command.removeprefix("go ")))
            seconds = time.perf_counter() - started
        column = self.consumer.state.vectors[EMBEDDING]
        return {
            "seconds": seconds,
            "apply": refresh.seconds.get("apply", 0.0),
            "made": not any(step.shared for step in refresh.steps),
            "vector_bytes": sum(step.vector_bytes for step in refresh.steps),
            "peak": peak.bytes,
            "column": sum(block.nbytes for _, block in column.blocks()),
        }


def main() -> None:
    follower = Follower(Path(sys.argv[1]), sys.argv[2] == "share", int(sys.argv[3]))
    for line in sys.stdin:
        print(json.dumps(follower.answer(line.strip())), flush=True)


if __name__ == "__main__":
    main()

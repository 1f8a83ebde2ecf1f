"""A chain with vector parts, published version by version, for tests that read it.

Records stay where they are unless something in them changes; a vector changes without its record. Every version has a
stamp, and the first number of every vector is the version that last changed it, so that a mixture is caught.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from deltaic.schema.text import parse_schemas
from deltaic.state.read import ReadState
from deltaic.state.vector_column import StoredVectors
from deltaic.state.write import WriteState
from deltaic.storage.announced import Artifact
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName
from deltaic.storage.checksum import checksum
from deltaic.storage.lease import acquire_lease
from deltaic.storage.store import Store
from deltaic.vector.names import VECTOR_KIND, part_name
from deltaic.vector.part import Moves, encode_delta_part, encode_snapshot_part
from deltaic.vector.storage import VECTORS_TAG

SCHEMAS = """
Movie @PrimaryKey(id) { long id; String title; Actor star; }
Actor @PrimaryKey(name) { string name; }
String { string value; }
Stamp @PrimaryKey(id) { long id; long version; }
"""
DIMENSIONS = 4
EMBEDDING = ("Movie", "embedding")
Vector = NDArray[np.float32] | list[float] | None
Columns = dict[tuple[str, str], dict[object, Vector]]
"""By type and field, by key, the vector."""


def vector(*numbers: float) -> NDArray[np.float32]:
    """A vector of a test."""
    return np.array(numbers, np.float32)


@dataclass
class VectorChain:
    """Publishes to a store as a producer does: blobs and parts first, then the announcement."""

    store: Store
    record: bool = True
    """False announces by the bare number only, as a Java producer does."""
    tagged: bool = True
    """Whether blobs name the vector columns in their header."""
    shards: int = 1
    writer: WriteState = field(init=False)
    versions: list[int] = field(default_factory=list)
    states: dict[int, ReadState] = field(default_factory=dict)
    """The states of the versions, as they should be read."""
    files: dict[str, bytes] = field(default_factory=dict)
    spoil: dict[str, Callable[[bytes], bytes]] = field(default_factory=dict)
    """By name of a file, what is stored in its place; what is announced is the true one."""
    _ordinals: dict[str, dict[object, int]] = field(default_factory=dict)
    _epoch: int | None = None

    def __post_init__(self) -> None:
        self.writer = WriteState(parse_schemas(SCHEMAS), pinned_shards={"Movie": self.shards}, allow_resharding=True)

    def publish(
        self,
        titles: dict[int, str],
        columns: Columns | dict[int, Vector],
        *,
        snapshot: bool = True,
        parts: bool = True,
        stars: dict[int, str] | None = None,
    ) -> int:
        """Write the next version: movies by id, and vectors of `Movie.embedding` by id or of several columns."""
        version = self.versions[-1] + 1 if self.versions else 1
        if not columns or not isinstance(next(iter(columns)), tuple):
            columns = {EMBEDDING: dict(columns)}  # type: ignore[dict-item]
        ordinals = self._add(titles, stars or {}, version)
        tags = ",".join(f'["{one}","{two}",{_dimensions(rows)},"part"]' for (one, two), rows in sorted(columns.items()))
        self.writer.header_tags["hollow.blob.to.version"] = str(version)
        if self.tagged and columns and parts:
            self.writer.header_tags[VECTORS_TAG] = f"[{tags}]"
        else:
            self.writer.header_tags.pop(VECTORS_TAG, None)
        blobs = {BlobName.snapshot(version): self._written("snapshot")}
        before = self.versions[-1] if self.versions else None
        old = None if before is None else self.states[before]
        if before is not None:
            blobs[BlobName.delta(before, version)] = self._written("delta")
            blobs[BlobName.delta(version, before)] = self._written("reverse_delta")
        self.writer.next_cycle()
        state = ReadState.load(blobs[BlobName.snapshot(version)])
        state = state.with_vectors(
            {key: _stored(rows, ordinals[key[0]], _dimensions(rows)) for key, rows in columns.items()}
        )
        self.states[version] = state
        written = {str(name): data for name, data in blobs.items() if snapshot or name.from_version is not None}
        artifacts = [_artifact(name, data) for name, data in written.items()]
        if parts:
            made = self._parts(version, before, old, state, ordinals, snapshot=snapshot)
            artifacts += [_artifact(name, data) for name, data in made.items()]
            written |= made
        for name, data in written.items():
            self.store.put(name, self.spoil.get(name, bytes)(data))
            self.files[name] = data
        self._announce(version, artifacts)
        self._ordinals = ordinals
        self.versions.append(version)
        return version

    def _parts(
        self,
        version: int,
        before: int | None,
        old: ReadState | None,
        state: ReadState,
        ordinals: dict[str, dict[object, int]],
        *,
        snapshot: bool,
    ) -> dict[str, bytes]:
        made: dict[str, bytes] = {}
        if snapshot:
            made[part_name(BlobName.snapshot(version))] = encode_snapshot_part(state.vectors, state.tag)
        if before is None or old is None:
            return made
        moves = {name: _moves(self._ordinals.get(name, {}), keys) for name, keys in ordinals.items()}
        made[part_name(BlobName.delta(before, version))] = encode_delta_part(
            old.vectors, state.vectors, moves, old.tag, state.tag, _populated(state)
        )
        back = {name: one.reversed() for name, one in moves.items()}
        made[part_name(BlobName.delta(version, before))] = encode_delta_part(
            state.vectors, old.vectors, back, state.tag, old.tag, _populated(old)
        )
        return made

    def _add(self, titles: dict[int, str], stars: dict[int, str], version: int) -> dict[str, dict[object, int]]:
        writer = self.writer
        ordinals: dict[str, dict[object, int]] = {"Movie": {}, "Actor": {}}
        for name in dict.fromkeys(stars.values()):
            ordinals["Actor"][name] = writer.add_object("Actor", {"name": name})
        for number, title in titles.items():
            text = writer.add_object("String", {"value": title})
            star = ordinals["Actor"].get(stars.get(number))
            values = {"id": number, "title": text, "star": star}
            ordinals["Movie"][number] = writer.add_object("Movie", values)
        writer.add_object("Stamp", {"id": 0, "version": version})
        return ordinals

    def _announce(self, version: int, artifacts: list[Artifact]) -> None:
        if not self.record:
            self.store.put("announced.version", b"%d" % version)
            return
        announcements = Announcements(self.store)
        if self._epoch is None:
            self._epoch = acquire_lease(announcements).epoch
        announcements.announce(version, artifacts, epoch=self._epoch)

    def _written(self, kind: str) -> bytes:
        stream = io.BytesIO()
        getattr(self.writer, f"write_{kind}")(stream)
        return stream.getvalue()


def same_vectors(one: ReadState, other: ReadState) -> bool:
    """True if two states have the same vectors by key, whatever the ordinals."""
    return vectors_by_key(one) == vectors_by_key(other)


def vectors_by_key(state: ReadState) -> dict[tuple[str, str], dict[object, bytes | None]]:
    """The bits of every vector, by column and key."""
    found: dict[tuple[str, str], dict[object, bytes | None]] = {}
    for (type_name, field_name), column in state.vectors.items():
        key = "id" if type_name == "Movie" else "name"
        rows = found[type_name, field_name] = {}
        for record in state[type_name]:
            row = column[record.ordinal]
            rows[record[key]] = None if row is None else row.tobytes()
    return found


def stamp(state: ReadState) -> int:
    """The version that a state says it is of."""
    return int(next(iter(state["Stamp"])).version)


def damaged(data: bytes) -> bytes:
    """A file with one byte changed in its middle."""
    place = len(data) // 2
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def cut(data: bytes) -> bytes:
    """A file without its last byte."""
    return data[:-1]


def _dimensions(rows: dict[object, Vector]) -> int:
    return next((len(row) for row in rows.values() if row is not None), DIMENSIONS)


def _stored(rows: dict[object, Vector], ordinals: dict[object, int], dimensions: int) -> StoredVectors:
    chosen = {ordinals[key]: row for key, row in rows.items() if row is not None and key in ordinals}
    places = np.array(sorted(chosen), np.int64)
    matrix = np.array([chosen[place] for place in places.tolist()], np.float32).reshape(-1, dimensions)
    return StoredVectors.of(dimensions, places, matrix)


def _moves(old: dict[object, int], new: dict[object, int]) -> Moves:
    moved = [(old[key], new[key]) for key in new if key in old and old[key] != new[key]]
    origins, targets = zip_longest(*moved) if moved else ((), ())
    return Moves(np.array(origins, np.int64), np.array(targets, np.int64))


def _populated(state: ReadState) -> dict[str, object]:
    return {name: data.populated for name, data in state.types.items()}  # type: ignore[return-value]


def _artifact(name: str, data: bytes) -> Artifact:
    blob = BlobName.parse(name)
    if blob is None:
        return Artifact(VECTOR_KIND, name, len(data), checksum(data))
    kind = {"reversedelta": "reverse_delta"}.get(blob.kind.value, blob.kind.value)
    start, end = (None, None) if blob.from_version is None else (blob.from_version, blob.to_version)
    return Artifact(kind, name, len(data), checksum(data), start, end)

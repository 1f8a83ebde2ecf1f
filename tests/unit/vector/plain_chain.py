"""A chain of versions with vectors, and what its parts say to the plain reader."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from deltaic.producer import Producer, count_up
from deltaic.schema.annotations import Vector, key
from deltaic.schema.model import Model
from deltaic.state.read import ReadState
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName, Chain
from deltaic.storage.store import Store
from deltaic.wire.append import AppendMode
from tests.unit.vector.plain_part import plain_apply

DIMS = 8
KEY = ("Movie", "embedding")
Plain = dict[tuple[str, str], dict[int, tuple[int, ...]]]


@key("id")
@dataclass
class Movie:
    id: int
    title: str
    embedding: Annotated[Any, Vector(DIMS)] = None


def producer_of(store: Store, **options: Any) -> Producer:
    """A producer of movies, versions 1, 2, 3, …"""
    return Producer(store, Model.of(Movie), versions=count_up, **options)


def vector(*first: float) -> np.ndarray:
    """A vector that starts so, and goes on with zeros."""
    made = np.zeros(DIMS, np.float32)
    made[: len(first)] = first
    return made


def by_key(state: ReadState | None, field: str = "embedding") -> dict[int, tuple[int, ...] | None]:
    """The patterns of every movie's vector."""
    assert state is not None
    column = state.vectors["Movie", field]
    found: dict[int, tuple[int, ...] | None] = {}
    for ordinal in state["Movie"].populated.ordinals().tolist():
        row = column[ordinal]
        found[state["Movie"][ordinal].id] = None if row is None else tuple(row.view(np.uint32).tolist())
    return found


def patterns(given: Any) -> tuple[int, ...] | None:
    """The patterns of a vector as it was given."""
    return None if given is None else tuple(np.asarray(given, np.float32).view(np.uint32).tolist())


def plain_of(state: ReadState) -> Plain:
    """The vector columns of a state as the plain reader has them."""
    return {
        column: {
            ordinal: tuple(row.view(np.uint32).tolist())
            for ordinal in held.present.ordinals().tolist()
            if (row := held[ordinal]) is not None
        }
        for column, held in state.vectors.items()
    }


def walk_plainly(store: Store) -> dict[int, Plain]:
    """Every version by the plain reader: forward by deltas, compared with each snapshot, and back by reverse deltas."""
    chain = Chain.read(store)
    versions = sorted(chain.versions())
    state = ReadState.load(store.get(f"snapshot-{versions[0]}").data)
    made = {versions[0]: plain_apply(store.get(f"vector-{versions[0]}-snapshot").data, {}, _records(state), state.tag)}
    states = {versions[0]: state}
    for before, version in pairwise(versions):
        blob = store.get(str(BlobName.delta(before, version))).data
        states[version] = states[before].apply(blob, schema_append=AppendMode.FULL)
        tags = states[version].tag, states[before].tag
        part = store.get(f"vector-{version}-delta.{before}").data
        made[version] = plain_apply(part, made[before], _records(states[version]), *tags)
        if version in chain.snapshots:
            whole = store.get(f"vector-{version}-snapshot").data
            assert plain_apply(whole, {}, _records(states[version]), tags[0]) == made[version]
    for before, version in pairwise(versions):
        part = store.get(f"vector-{version}-reverse.{before}").data
        tags = states[before].tag, states[version].tag
        assert plain_apply(part, made[version], _records(states[before]), *tags) == made[before]
    listed = {artifact.name for entry in _entries(store, versions) for artifact in entry.artifacts}
    assert {info.key for info in store.list() if info.key.startswith("vector-")} <= listed
    return made


def _entries(store: Store, versions: list[int]) -> list[Any]:
    announcements = Announcements(store)
    return [entry for version in versions if (entry := announcements.entry_of(version)) is not None]


def _records(state: ReadState) -> dict[str, set[int]]:
    return {name: set(data.populated.ordinals().tolist()) for name, data in state.types.items()}

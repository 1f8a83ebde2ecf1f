"""A small catalogue that the tests of publishing share, and what a reader of its chain sees."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from deltaic.errors import NotFoundError
from deltaic.producer import Producer, count_up
from deltaic.producer.restoring import load_version
from deltaic.schema.annotations import key
from deltaic.schema.model import Model
from deltaic.state.read import ReadState
from deltaic.storage.announcement import Announcements
from deltaic.storage.backoff import Backoff
from deltaic.storage.chain import BlobKind, BlobName, Chain
from deltaic.storage.store import Store


@dataclass
class Actor:
    name: str
    born: int


@key("id")
@dataclass
class Movie:
    id: int
    title: str
    cast: list[Actor]


MODEL = Model.of(Movie)
NO_WAIT = Backoff(sleep=lambda seconds: None)


def movie(number: int, title: str | None = None, actors: Iterable[int] | None = None) -> Movie:
    cast = [Actor(f"actor {each}", 1900 + each) for each in (actors if actors is not None else (number, number % 3))]
    return Movie(number, title or f"movie {number}", cast)


def movies(*numbers: int) -> list[Movie]:
    return [movie(number) for number in numbers]


def producer_of(store: Store | str, **options: Any) -> Producer:
    options.setdefault("versions", count_up)
    options.setdefault("backoff", NO_WAIT)
    return Producer(store, options.pop("model", MODEL), **options)


def content(state: ReadState) -> dict[int, Any]:
    """The movies of a state by key."""
    return {record.id: (record.title, [(actor.name, actor.born) for actor in record.cast]) for record in state["Movie"]}


def content_of(given: Iterable[Movie]) -> dict[int, Any]:
    return {each.id: (each.title, [(actor.name, actor.born) for actor in each.cast]) for each in given}


def read(store: Store) -> tuple[int | None, dict[int, Any]]:
    """What somebody who follows the announcement sees: the version, and its movies."""
    announcements = Announcements(store, backoff=NO_WAIT)
    try:
        version = announcements.read().version()
    except NotFoundError:
        version = None
    if version is None:
        return None, {}
    return version, content(load_version(store, announcements, version))


def as_java_reads(store: Store, start: int | None, wanted: int) -> int | None:
    """Where Hollow's retriever and planner end: any file that starts right will do, listed or not."""
    names = [name for info in store.list() if "/" not in info.key and (name := BlobName.parse(info.key))]
    at = start
    if at is None:
        at = max((n.to_version for n in names if n.kind is BlobKind.SNAPSHOT and n.to_version <= wanted), default=None)
    while at is not None and at < wanted:
        # The first one by name: the worst choice for us is the one that leads nowhere.
        steps = sorted(n.to_version for n in names if n.kind is BlobKind.DELTA and n.from_version == at)
        if not steps or steps[0] > wanted:
            break
        at = steps[0]
    return at


def check_chain(store: Store) -> None:
    """Everything a reader could stumble over: only announced blobs, a closed chain both ways, nothing staged."""
    record = Announcements(store, backoff=NO_WAIT).read().record
    assert record is not None
    listed = {artifact.name for entry in record.versions for artifact in entry.artifacts}
    names = {info.key for info in store.list()}
    blobs = {name for name in names if BlobName.parse(name) is not None}
    assert blobs == listed, "blobs that are not announced, or announced ones that are gone"
    assert not [name for name in names if name.startswith("staging/")]
    chain = Chain.of_names(names)
    versions = [entry.version for entry in reversed(record.versions)]
    for before, after in pairwise(versions):
        assert chain.deltas[before] == after
        assert chain.reverse_deltas[after] == before
    newest = record.target()
    assert newest is not None
    for start in (None, *versions):
        assert as_java_reads(store, start, newest) == newest

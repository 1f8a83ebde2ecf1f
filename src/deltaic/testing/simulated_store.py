"""A store for simulated worlds: one dictionary, one clock, one seed, no threads and no input or output of its own.

`SimulatedStore(random=Random(seed), clock=now, faults=FaultRates(...))` behaves as a strict object store whose calls
fail at the given rates, before or after their effect. Every call is in `history` with its time and outcome, so that
a test can check the whole order of events. The same seed gives the same run.
"""

import os
import random as random_module
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar

from deltaic.errors import CommitConflictError, CommitUnknownError, DeltaicError, NotFoundError, StorageError
from deltaic.storage.names import check_key, join_key
from deltaic.storage.store import Blob, Data, ObjectInfo
from deltaic.storage.transfer import check_limit, check_range, file_chunks, new_file
from deltaic.testing.faulty_store import CONDITIONAL

_Result = TypeVar("_Result")
_Listing: TypeAlias = list[ObjectInfo]


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How often a call fails: before its effect, after it, or after it with the answer of a repeated request."""

    before: float = 0.0
    after: float = 0.0
    lost_answer: float = 0.0


@dataclass(frozen=True, slots=True)
class Call:
    """One call of the history."""

    at_seconds: float
    operation: str
    key: str
    outcome: str


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    etag: str
    modified_seconds: float


class _World:
    """What a store and its children share."""

    def __init__(self, random: random_module.Random, clock: Callable[[], float], faults: FaultRates) -> None:
        self.random, self.clock, self.faults = random, clock, faults
        self.objects: dict[str, _Object] = {}
        self.history: list[Call] = []
        self.writes = 0
        self.mutex = threading.RLock()


class SimulatedStore:
    """An object store in a dictionary, with its own clock and a seeded chance of failure."""

    def __init__(
        self,
        *,
        random: random_module.Random | None = None,
        clock: Callable[[], float] = time.time,
        faults: FaultRates | None = None,
    ) -> None:
        self._world = _World(random or random_module.Random(0), clock, faults or FaultRates())
        self._prefix = ""

    @property
    def url(self) -> str:
        """Where this is, for people: without credentials."""
        return f"simulated:/{self._prefix}"

    @property
    def history(self) -> list[Call]:
        """Every call so far, in order."""
        return self._world.history

    def set_faults(self, faults: FaultRates) -> None:
        """Fail at these rates from now on."""
        self._world.faults = faults

    def child(self, name: str) -> "SimulatedStore":
        """The same store seen from a folder inside it."""
        store = SimulatedStore()
        store._world, store._prefix = self._world, join_key(self._prefix, check_key(name))
        return store

    def get(self, key: str, *, limit_bytes: int | None = None) -> Blob:
        """Read a whole object; LimitError, before reading, if it is larger than the limit."""

        def read() -> Blob:
            found = self._object(key)
            check_limit(f"{self.url}/{key}", len(found.data), limit_bytes)
            return Blob(found.data, found.etag)

        return self._call("get", key, read)

    def get_if_changed(self, key: str, etag: str | None, *, limit_bytes: int | None = None) -> Blob | None:
        """Read the object unless its etag is still this one: then None."""

        def read() -> Blob | None:
            found = self._object(key)
            if found.etag == etag:
                return None
            check_limit(f"{self.url}/{key}", len(found.data), limit_bytes)
            return Blob(found.data, found.etag)

        return self._call("get_if_changed", key, read)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part; shorter at the end of the object, empty past it."""
        check_range(start, length)
        return self._call("get_range", key, lambda: self._object(key).data[start : start + length])

    def get_to_file(self, key: str, path: str | os.PathLike[str], *, limit_bytes: int | None = None) -> ObjectInfo:
        """Stream the object into a new file; the file must not exist and is removed again if anything fails."""
        blob = self.get(key, limit_bytes=limit_bytes)
        with new_file(path) as write:
            write(blob.data)
        return ObjectInfo(key, len(blob.data), blob.etag, datetime.fromtimestamp(self._world.clock(), UTC))

    def head(self, key: str) -> ObjectInfo:
        """Size, etag and time of an object."""
        return self._call("head", key, lambda: _info(key, self._object(key)))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key starts with the text `prefix`, at any depth, in no promised order."""

        def read() -> _Listing:
            start = f"{self._prefix}/" if self._prefix else ""
            return [
                _info(path[len(start) :], found)
                for path, found in sorted(self._world.objects.items())
                if path.startswith(start + prefix)
            ]

        yield from self._call("list", prefix, read)

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The names of the folders directly under the folder `prefix`, sorted."""
        start = f"{prefix.rstrip('/')}/" if prefix else ""
        rests = (info.key[len(start) :] for info in self.list(start))
        return tuple(sorted({rest.partition("/")[0] for rest in rests if "/" in rest}))

    def put(self, key: str, data: Data) -> str:
        """Write an object, over an older one if there is one; gives its etag."""
        check_key(key)
        return self._call("put", key, lambda: self._write(key, data))

    def put_file(self, key: str, path: str | os.PathLike[str]) -> str:
        """Write an object from a local file without holding it in memory."""
        return self.put_chunks(key, file_chunks(path))

    def put_chunks(self, key: str, chunks: Iterable[Data]) -> str:
        """Write an object from pieces; it appears when the last one is there, and never if the iterator raises."""
        return self.put(key, b"".join(bytes(chunk) for chunk in chunks))

    def put_if_absent(self, key: str, data: Data) -> str:
        """Write an object if there is none of that key, else CommitConflictError."""

        def write() -> str:
            if self._path(key) in self._world.objects:
                raise CommitConflictError(f"{self.url}/{key} exists")
            return self._write(key, data)

        return self._call("put_if_absent", key, write)

    def put_if_match(self, key: str, data: Data, etag: str) -> str:
        """Write over an object if its etag is still this one, else CommitConflictError."""

        def write() -> str:
            found = self._world.objects.get(self._path(key))
            if found is None or found.etag != etag:
                raise CommitConflictError(f"{self.url}/{key} was changed by another writer")
            return self._write(key, data)

        return self._call("put_if_match", key, write)

    def copy_if_absent(self, source: str, key: str) -> str:
        """Give the bytes of a staged object a second name if that is free, else CommitConflictError."""

        def write() -> str:
            found = self._object(source)
            if self._path(key) in self._world.objects:
                raise CommitConflictError(f"{self.url}/{key} exists")
            return self._write(key, found.data)

        return self._call("copy_if_absent", key, write)

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is no error."""
        path = self._path(key)
        self._call("delete", key, lambda: self._world.objects.pop(path, None))

    def _path(self, key: str) -> str:
        return join_key(self._prefix, check_key(key))

    def _object(self, key: str) -> _Object:
        try:
            return self._world.objects[self._path(key)]
        except KeyError:
            raise NotFoundError(f"there is no {self.url}/{key}") from None

    def _write(self, key: str, data: Data) -> str:
        world = self._world
        world.writes += 1
        etag = f"e{world.writes}"
        world.objects[self._path(key)] = _Object(bytes(data), etag, world.clock())
        return etag

    def _call(self, operation: str, key: str, call: Callable[[], _Result]) -> _Result:
        world = self._world
        with world.mutex:
            draw = world.random.random()
            before = world.faults.before
            after = before + world.faults.after
            lost = after + world.faults.lost_answer
            outcome = "done"
            try:
                if draw < before:
                    raise self._unanswered(operation, key)
                result = call()
                if draw < after:
                    raise self._unanswered(operation, key)
                if draw < lost and operation in CONDITIONAL:
                    raise CommitConflictError(f"{operation} {key}: the answer to the first request was lost")
            except DeltaicError as error:
                outcome = type(error).__name__
                raise
            finally:
                world.history.append(Call(world.clock(), operation, join_key(self._prefix, key), outcome))
            return result

    def _unanswered(self, operation: str, key: str) -> DeltaicError:
        kind = CommitUnknownError if operation in CONDITIONAL else StorageError
        return kind(f"{operation} {key}: no answer (simulated)")


def _info(key: str, found: _Object) -> ObjectInfo:
    return ObjectInfo(key, len(found.data), found.etag, datetime.fromtimestamp(found.modified_seconds, UTC))

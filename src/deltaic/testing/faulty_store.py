"""A store whose n-th call fails, before or after it had its effect.

    store = FaultyStore(open_store("memory:"), [Fault(FaultKind.TIMEOUT, Moment.AFTER, call_number=3)])

Calls are counted from 1 over all operations, children included, or per operation if the fault names one. A failure has
the type that a real store would give: an unanswered conditional write is CommitUnknownError, `LOST_ANSWER` is the
conflict that a client reports when it repeated its own successful request.
"""

import errno
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from os import PathLike
from typing import TypeVar

from deltaic.errors import CommitConflictError, CommitUnknownError, DeltaicError, InputError, StorageError
from deltaic.storage.store import Blob, Data, ObjectInfo, Store

_Result = TypeVar("_Result")

CONDITIONAL = frozenset({"put_if_absent", "put_if_match", "copy_if_absent"})
"""Operations whose outcome may be unknown."""

WRITES = CONDITIONAL | {"put", "put_file", "put_chunks", "delete"}
"""Operations that change something."""


class FaultKind(StrEnum):
    """What goes wrong."""

    IO_ERROR = "EIO"
    NO_SPACE = "ENOSPC"
    TIMEOUT = "timeout"
    UNAVAILABLE = "503"
    LOST_ANSWER = "412 after success"


class Moment(StrEnum):
    """When: before the call did anything, or after it did everything."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: which call, what, when, and whether all later calls fail too."""

    kind: FaultKind
    moment: Moment = Moment.BEFORE
    call_number: int = 1
    operation: str | None = None
    from_then_on: bool = False

    def __post_init__(self) -> None:
        if self.kind is FaultKind.LOST_ANSWER and self.moment is Moment.BEFORE:
            raise InputError("a lost answer comes after the effect")
        if self.kind is FaultKind.NO_SPACE and self.moment is Moment.AFTER:
            raise InputError("a full disk is noticed before the effect")

    def error(self, operation: str, key: str) -> DeltaicError:
        """The error that the caller sees."""
        where = f"{operation} {key} (injected: {self.kind} {self.moment})"
        conditional = operation in CONDITIONAL
        if self.kind is FaultKind.LOST_ANSWER:
            return CommitConflictError(where) if conditional else StorageError(where)
        if self.kind is FaultKind.NO_SPACE:
            return StorageError(errno.ENOSPC, where)
        if conditional and (self.moment is Moment.AFTER or self.kind in (FaultKind.TIMEOUT, FaultKind.UNAVAILABLE)):
            return CommitUnknownError(where)
        return StorageError(errno.EIO if self.kind is FaultKind.IO_ERROR else errno.ETIMEDOUT, where)


EVERY_FAULT = (
    (FaultKind.IO_ERROR, Moment.BEFORE),
    (FaultKind.IO_ERROR, Moment.AFTER),
    (FaultKind.NO_SPACE, Moment.BEFORE),
    (FaultKind.TIMEOUT, Moment.BEFORE),
    (FaultKind.TIMEOUT, Moment.AFTER),
    (FaultKind.UNAVAILABLE, Moment.BEFORE),
    (FaultKind.UNAVAILABLE, Moment.AFTER),
    (FaultKind.LOST_ANSWER, Moment.AFTER),
)
"""Each kind with the moments it can have, for parametrized tests."""


class _Counts:
    """Calls so far, shared by a store and its children."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = list(faults)
        self.calls: list[tuple[str, str]] = []
        self.by_operation: dict[str, int] = {}
        self.mutex = threading.Lock()

    def next_fault(self, operation: str, key: str) -> Fault | None:
        with self.mutex:
            self.calls.append((operation, key))
            self.by_operation[operation] = of_operation = self.by_operation.get(operation, 0) + 1
            for fault in self.faults:
                if fault.operation not in (None, operation):
                    continue
                number = len(self.calls) if fault.operation is None else of_operation
                if number == fault.call_number or (fault.from_then_on and number > fault.call_number):
                    return fault
        return None


class FaultyStore:
    """A store around another one that fails where it is told to."""

    def __init__(self, store: Store, faults: Iterable[Fault] = ()) -> None:
        self._store = store
        self._counts = _Counts(tuple(faults))

    @property
    def url(self) -> str:
        """Where this is, for people: without credentials."""
        return self._store.url

    @property
    def calls(self) -> list[tuple[str, str]]:
        """Every call so far: operation and key."""
        return self._counts.calls

    def fail(self, *faults: Fault) -> None:
        """Forget the old faults and the count; fail by these from now on."""
        with self._counts.mutex:
            self._counts.faults[:] = faults
            self._counts.calls.clear()
            self._counts.by_operation.clear()

    def child(self, name: str) -> "FaultyStore":
        """The same store seen from a folder inside it."""
        child = FaultyStore(self._store.child(name))
        child._counts = self._counts
        return child

    def get(self, key: str, *, limit_bytes: int | None = None) -> Blob:
        """Read a whole object; LimitError, before reading, if it is larger than the limit."""
        return self._call("get", key, lambda: self._store.get(key, limit_bytes=limit_bytes))

    def get_if_changed(self, key: str, etag: str | None, *, limit_bytes: int | None = None) -> Blob | None:
        """Read the object unless its etag is still this one: then None."""
        return self._call("get_if_changed", key, lambda: self._store.get_if_changed(key, etag, limit_bytes=limit_bytes))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part; shorter at the end of the object, empty past it."""
        return self._call("get_range", key, lambda: self._store.get_range(key, start, length))

    def get_to_file(self, key: str, path: str | PathLike[str], *, limit_bytes: int | None = None) -> ObjectInfo:
        """Stream the object into a new file; the file must not exist and is removed again if anything fails."""
        return self._call("get_to_file", key, lambda: self._store.get_to_file(key, path, limit_bytes=limit_bytes))

    def head(self, key: str) -> ObjectInfo:
        """Size, etag and time of an object."""
        return self._call("head", key, lambda: self._store.head(key))

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key starts with the text `prefix`, at any depth, in no promised order."""
        yield from self._call("list", prefix, lambda: self._store.list(prefix))

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The names of the folders directly under the folder `prefix`, sorted."""
        return self._call("folders", prefix, lambda: self._store.folders(prefix))

    def put(self, key: str, data: Data) -> str:
        """Write an object, over an older one if there is one; gives its etag."""
        return self._call("put", key, lambda: self._store.put(key, data))

    def put_file(self, key: str, path: str | PathLike[str]) -> str:
        """Write an object from a local file without holding it in memory."""
        return self._call("put_file", key, lambda: self._store.put_file(key, path))

    def put_chunks(self, key: str, chunks: Iterable[Data]) -> str:
        """Write an object from pieces; it appears when the last one is there, and never if the iterator raises."""
        return self._call("put_chunks", key, lambda: self._store.put_chunks(key, chunks))

    def put_if_absent(self, key: str, data: Data) -> str:
        """Write an object if there is none of that key, else CommitConflictError."""
        return self._call("put_if_absent", key, lambda: self._store.put_if_absent(key, data))

    def put_if_match(self, key: str, data: Data, etag: str) -> str:
        """Write over an object if its etag is still this one, else CommitConflictError."""
        return self._call("put_if_match", key, lambda: self._store.put_if_match(key, data, etag))

    def copy_if_absent(self, source: str, key: str) -> str:
        """Give the bytes of a staged object a second name if that is free, else CommitConflictError."""
        return self._call("copy_if_absent", key, lambda: self._store.copy_if_absent(source, key))

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is no error."""
        return self._call("delete", key, lambda: self._store.delete(key))

    def _call(self, operation: str, key: str, call: Callable[[], _Result]) -> _Result:
        fault = self._counts.next_fault(operation, key)
        if fault is not None and fault.moment is Moment.BEFORE:
            raise fault.error(operation, key)
        result = call()
        if fault is not None:
            raise fault.error(operation, key)
        return result

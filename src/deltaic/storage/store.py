"""What deltaic asks of a place that keeps objects: the `Store` protocol.

A key is a safe `/`-separated name (`storage/names.py`). An object appears whole or not at all. An *etag* is an opaque
text that changes when the object's bytes change; it is compared for equality and handed back to the same store only.

A conditional write ends in one of four ways, and a caller cannot overlook which:

    returns the new etag      done: the object is there and durable
    CommitConflictError       somebody else was first; this call wrote nothing
    CommitUnknownError        no answer; the object may be there: look for your token before trying again
    StorageError              refused or failed; nothing was written

CommitConflictError may also hide an own success: a client below may have repeated a request whose first answer was
lost. A writer that gets it reads the object and looks for its own token too.

Reads raise NotFoundError for a missing object and StorageError for everything else. Stores are safe to share between
threads. `deltaic.testing.store_conformance` is the protocol as tests.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from typing import Protocol, TypeAlias, runtime_checkable

Data: TypeAlias = bytes | bytearray | memoryview
"""What can be put: contiguous bytes."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What is known of an object without reading it."""

    key: str
    size_bytes: int
    etag: str | None
    """None where a listing does not tell it; `head` always does."""
    modified: datetime
    """Time of the last write, in UTC, by the store's clock."""


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of an object, and the etag that they had."""

    data: bytes
    etag: str


@runtime_checkable
class Store(Protocol):
    """A place that keeps objects. Users may bring their own: entry point `deltaic.stores`."""

    @property
    def url(self) -> str:
        """Where this is, for people: without credentials."""
        ...

    def get(self, key: str, *, limit_bytes: int | None = None) -> Blob:
        """Read a whole object; LimitError, before reading, if it is larger than the limit."""
        ...

    def get_if_changed(self, key: str, etag: str | None, *, limit_bytes: int | None = None) -> Blob | None:
        """Read the object unless its etag is still this one: then None."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read a part; shorter at the end of the object, empty past it."""
        ...

    def get_to_file(self, key: str, path: str | PathLike[str], *, limit_bytes: int | None = None) -> ObjectInfo:
        """Stream the object into a new file; the file must not exist and is removed again if anything fails."""
        ...

    def head(self, key: str) -> ObjectInfo:
        """Size, etag and time of an object."""
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object whose key starts with the text `prefix`, at any depth, in no promised order."""
        ...

    def folders(self, prefix: str = "") -> tuple[str, ...]:
        """The names of the folders directly under the folder `prefix`, sorted."""
        ...

    def put(self, key: str, data: Data) -> str:
        """Write an object, over an older one if there is one; gives its etag."""
        ...

    def put_file(self, key: str, path: str | PathLike[str]) -> str:
        """Write an object from a local file without holding it in memory."""
        ...

    def put_chunks(self, key: str, chunks: Iterable[Data]) -> str:
        """Write an object from pieces; it appears when the last one is there, and never if the iterator raises."""
        ...

    def put_if_absent(self, key: str, data: Data) -> str:
        """Write an object if there is none of that key, else CommitConflictError."""
        ...

    def put_if_match(self, key: str, data: Data, etag: str) -> str:
        """Write over an object if its etag is still this one, else CommitConflictError."""
        ...

    def copy_if_absent(self, source: str, key: str) -> str:
        """Give the bytes of a staged object a second name if that is free, else CommitConflictError."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; a missing one is no error."""
        ...

    def child(self, name: str) -> "Store":
        """The same store seen from a folder inside it."""
        ...

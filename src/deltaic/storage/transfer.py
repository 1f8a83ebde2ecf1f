"""Moving bytes between a store and local files: bounded, in pieces, nothing half left."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from deltaic.errors import InputError, LimitError, StorageError
from deltaic.storage.store import Data

CHUNK_BYTES = 8 << 20
"""The piece in which files are read and written."""


def check_limit(shown: str, size_bytes: int, limit_bytes: int | None) -> None:
    """Refuse an object that is larger than the caller wants to read."""
    if limit_bytes is not None and size_bytes > limit_bytes:
        raise LimitError("TooLarge", f"the object has {size_bytes:,} bytes, the limit is {limit_bytes:,}", shown)


def check_range(start: int, length: int) -> None:
    """Refuse a range that is none."""
    if start < 0 or length < 0:
        raise InputError(f"a range of {length} bytes from byte {start}")


def file_chunks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The bytes of a local file, in pieces."""
    try:
        with open(path, "rb") as source:
            while piece := source.read(CHUNK_BYTES):
                yield piece
    except OSError as error:
        raise StorageError(error.errno, f"cannot read {os.fspath(path)}: {error.strerror}") from error


@contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[Callable[[Data], None]]:
    """Write to a new file that only its owner reads; if anything fails the file is removed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise StorageError(error.errno, f"cannot make {os.fspath(path)}: {error.strerror}") from error

    def write(data: Data) -> None:
        view = memoryview(data)
        try:
            while len(view):
                view = view[os.write(handle, view) :]
        except OSError as error:
            raise StorageError(error.errno, f"cannot write {os.fspath(path)}: {error.strerror}") from error

    try:
        try:
            yield write
        finally:
            os.close(handle)
    except BaseException:
        with suppress(OSError):
            os.unlink(path)
        raise

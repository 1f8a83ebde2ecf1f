"""Scratch: what the tasks of a build leave for each other, as arrays in files of the store.

A file is written once, under a name that no other attempt of the same task has; what is not named by a result is
garbage, and goes with the folder. Where the store is a folder of the file system its files are written without the
syncing that a commit needs: after a crash they are worthless.
"""

import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import DeltaicError, StorageError
from deltaic.storage.local import LocalStore
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store

_ALIGNED = 8


Place = str | Store
"""A store as it travels to tasks: a URL or path, or an object store, whose pickle leaves its credentials behind."""


def open_place(place: Place) -> Store:
    """The store, with the credentials that this process finds in its environment or has by its role."""
    return open_store(place) if isinstance(place, str) else place


class Part(msgspec.Struct, frozen=True, array_like=True):
    """An array in a file of the scratch folder."""

    key: str
    start: int
    count: int
    dtype: str

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return self.count * np.dtype(self.dtype).itemsize

    def piece(self, first: int, last: int) -> "Part":
        """The elements from `first` up to `last`."""
        return Part(self.key, self.start + first * np.dtype(self.dtype).itemsize, last - first, self.dtype)


@dataclass(frozen=True)
class Scratch:
    """A folder of a store; tasks open it themselves, with credentials of their own."""

    place: Place
    folder: str

    @cached_property
    def _store(self) -> Store:
        return open_place(self.place)

    def __reduce__(self) -> tuple[Any, ...]:
        return Scratch, (self.place, self.folder)

    def write(self, *arrays: NDArray[Any]) -> list[Part]:
        """Write arrays into a new file."""
        key = f"{self.folder}/{secrets.token_hex(12)}"
        parts: list[Part] = []
        pieces: list[memoryview] = []
        start = 0
        for array in arrays:
            whole = np.ascontiguousarray(array)
            parts.append(Part(key, start, whole.size, whole.dtype.str))
            if whole.nbytes:
                pieces.append(whole.reshape(-1).view(np.uint8).data)
                padding = -whole.nbytes % _ALIGNED
                if padding:
                    pieces.append(memoryview(bytes(padding)))
                start += whole.nbytes + padding
        self.write_pieces(key, pieces)
        return parts

    def write_bytes(self, pieces: Sequence[memoryview]) -> str:
        """Write bytes into a new file; gives its key."""
        key = f"{self.folder}/{secrets.token_hex(12)}"
        self.write_pieces(key, pieces)
        return key

    def write_pieces(self, key: str, pieces: Sequence[memoryview]) -> None:
        """Write a file from pieces."""
        store = self._store
        if not isinstance(store, LocalStore):
            store.put_chunks(key, pieces or [memoryview(b"")])
            return
        path = store.path_of(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.writelines(pieces)
        except OSError as error:
            raise StorageError(error.errno or 0, f"cannot write scratch file {path}: {error}") from error

    def read(self, part: Part) -> NDArray[Any]:
        """Read an array."""
        dtype = np.dtype(part.dtype)
        if not part.count:
            return np.zeros(0, dtype)
        data = self.read_bytes(part.key, part.start, part.nbytes)
        found = np.frombuffer(data, dtype)
        if len(found) != part.count:
            raise StorageError(0, f"scratch file {part.key} is shorter than what was written")
        return found

    def read_bytes(self, key: str, start: int, length: int) -> bytes:
        """Read a range of a file."""
        store = self._store
        if not isinstance(store, LocalStore):
            return store.get_range(key, start, length)
        path = store.path_of(key)
        try:
            with path.open("rb", buffering=0) as file:
                file.seek(start)
                data = bytearray(length)
                view, done = memoryview(data), 0
                while done < length and (count := file.readinto(view[done:])):
                    done += count
        except OSError as error:
            raise StorageError(error.errno or 0, f"cannot read scratch file {path}: {error}") from error
        return data  # type: ignore[return-value]  # a bytearray saves a copy; nobody tells the difference

    def clear(self) -> None:
        """Remove the folder, as far as the store lets."""
        store = self._store
        if isinstance(store, LocalStore):
            folder: Path = store.path_of(f"{self.folder}/x").parent
            shutil.rmtree(folder, ignore_errors=True)
            if "/" in self.folder:
                # The staging folder, which is there only while something is staged; who uses it keeps it.
                with suppress(OSError):
                    os.rmdir(folder.parent)
            return
        with suppress(DeltaicError):
            for info in list(store.list(f"{self.folder}/")):
                store.delete(info.key)

"""Memory of shared states: files, mapped, and arrays over them that say how long they are needed.

A mapping needs no open file (Python's own would keep one per array, and a process may have about a thousand). Arrays
over it have a `Loan` as their base, which keeps two things: the mapping, so that the memory is there, and the lease of
a state, so that no other process writes over it.
"""

import ctypes
import mmap
import os
import weakref
from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import StorageError

Bytes = NDArray[np.uint8]

_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int64,
)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_munmap = _libc.munmap


class Mapping:
    """All bytes of a file in memory, shared with every process that maps it. Ends with its last user."""

    __slots__ = ("__weakref__", "address", "inode", "name", "size", "writable")

    def __init__(self, name: str, descriptor: int, *, writable: bool) -> None:
        found = os.fstat(descriptor)
        self.name, self.size, self.inode, self.writable = name, found.st_size, found.st_ino, writable
        self.address = 0
        flags, protection = mmap.MAP_SHARED, mmap.PROT_READ
        if writable:
            # All pages at once: one by one, as they are touched, takes several times as long.
            flags, protection = flags | getattr(mmap, "MAP_POPULATE", 0), protection | mmap.PROT_WRITE
        address = _libc.mmap(None, self.size, protection, flags, descriptor, 0)
        if address is None or address == _FAILED:
            error = ctypes.get_errno()
            raise StorageError(error, f"cannot map {self.size:,} bytes of a shared state: {os.strerror(error)}")
        self.address = address
        # Not by `__del__`: that runs while the weak references to this are still good, so that another thread could
        # be given a mapping whose memory is going.
        weakref.finalize(self, _munmap, address, self.size).atexit = False


class Loan:
    """The base of arrays over a mapping; `lease` is whatever must stay as long as they do."""

    __slots__ = ("__weakref__", "_writable", "lease", "mapping")

    def __init__(self, mapping: Mapping, lease: object, *, writable: bool = False) -> None:
        self.mapping, self.lease, self._writable = mapping, lease, writable

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {
            "data": (self.mapping.address, not self._writable),
            "shape": (self.mapping.size,),
            "typestr": "|u1",
            "version": 3,
        }

    def array(self) -> Bytes:
        """All bytes, as an array that keeps this loan alive."""
        array: Bytes = np.asarray(self)
        return array


def address_of(array: NDArray[Any]) -> int:
    """Where an array starts in memory."""
    return int(array.__array_interface__["data"][0])


class Ranges:
    """Which mapping an address belongs to."""

    def __init__(self, mappings: Iterable[Mapping]) -> None:
        self._mappings = sorted(mappings, key=lambda one: one.address)
        self._starts = [one.address for one in self._mappings]
        self.sizes = {one.name: one.size for one in self._mappings}
        """The sizes of the files by name."""

    def find(self, address: int, length: int) -> tuple[Mapping, int] | None:
        """The mapping that holds some bytes of memory, and where in it; None if none does."""
        position = bisect_right(self._starts, address) - 1
        if position < 0:
            return None
        mapping = self._mappings[position]
        offset = address - mapping.address
        return (mapping, offset) if offset + length <= mapping.size else None

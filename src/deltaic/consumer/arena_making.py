"""The making of one shared state: memory in files, and where in them its arrays came to lie.

Memory is taken from free files first. A file whose arrays are all gone again (those of a delta, of a version that is
only passed through) is free at once, so that a refresh by many deltas needs no more room than one by a single one.
"""

import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from os import close
from uuid import uuid4

import numpy as np

from deltaic.binary import buffers
from deltaic.consumer.arena_folder import PrivateFolder
from deltaic.consumer.arena_manifest import Bytes, Place, arrays_of
from deltaic.consumer.arena_memory import Loan, Mapping, Ranges, address_of
from deltaic.state.read import ReadState

MapToWrite = Callable[[str, int | None], Mapping]
"""Maps a file for writing: by its name, and by its descriptor if it is new."""

_ALIGNMENT_BYTES = 64
_STEP_BYTES = 64 << 10
_GROWTH_PARTS = 64


class Making:
    """Allocates arrays in files, and says afterwards where they are.

    Args:
        folder: where the files are.
        map_to_write: maps them.
        free: files without a reader, with their sizes.
    """

    def __init__(self, folder: PrivateFolder, map_to_write: MapToWrite, free: dict[str, int]) -> None:
        self._folder, self._map_to_write = folder, map_to_write
        self._free = dict(free)
        self._token = uuid4().hex[:12]
        self._made = 0
        self._lent: dict[str, weakref.ref[Loan]] = {}
        self._mappings: dict[str, Mapping] = {}
        self._copies: Bytes | None = None

    def allocating(self) -> AbstractContextManager[None]:
        """Large buffers come from here inside the block."""
        return buffers.allocating(self.allocate)

    def allocate(self, size_bytes: int) -> Bytes:
        """Memory in a file of its own, with any content."""
        return self._lend(size_bytes)[1]

    def places(self, state: ReadState, mapped: Iterable[Mapping]) -> Callable[[Bytes], Place]:
        """Where each array of a state lies; what is in none of the files is copied into one.

        Arrays that are in a file of an earlier state stay there, unless they are the lesser part of it: memory that
        belongs to nothing is never more than what is used.
        """
        known = Ranges(mapping for mapping in mapped if self._is_there(mapping))
        arrays = {(address_of(array), array.nbytes): array for array in arrays_of(state) if array.nbytes}
        found = {key: _place(known, *key) for key in arrays}
        used: dict[str, int] = {}
        for one in found.values():
            if one is not None:
                used[one.file] = used.get(one.file, 0) + one.length
        sparse = {file for file, size in used.items() if 2 * size < known.sizes[file] and file not in self._lent}
        kept = {key: one for key, one in found.items() if one is not None and one.file not in sparse}
        kept |= self._copy({key: array for key, array in arrays.items() if key not in kept})

        def place(array: Bytes) -> Place:
            return kept[address_of(array), array.nbytes] if array.nbytes else Place("", 0, 0)

        return place

    def hand_over(self, lease: object) -> None:
        """Give every array that is still in use the lease of the finished state."""
        for reference in self._lent.values():
            loan = reference()
            if loan is not None:
                loan.lease = lease

    def set_aside(self, limit_bytes: int) -> set[str]:
        """Mark unused files as free for the next state, up to a limit, and remove the rest; gives their names."""
        self._take_back()
        kept: set[str] = set()
        # What this state had a use for comes first: a file that was too small for it will be so for the next one.
        for name, size in sorted(self._free.items(), key=lambda item: (item[0] not in self._mappings, -item[1])):
            if size <= limit_bytes:
                limit_bytes -= size
                kept.add(free_name(name))
                if name == used_name(name):
                    self._folder.rename(name, free_name(name))
            else:
                self._folder.discard(name)
        return kept

    def written(self) -> list[Mapping]:
        """The files that were written into."""
        return list(self._mappings.values())

    def _lend(self, size_bytes: int) -> tuple[Mapping, Bytes]:
        self._take_back()
        fitting = [name for name, size in self._free.items() if size_bytes <= size <= size_bytes * 5 // 4 + _STEP_BYTES]
        name = min(fitting, key=self._free.__getitem__, default=None)
        mapping = self._new_file(size_bytes) if name is None else self._use_again(name)
        loan = Loan(mapping, None, writable=True)
        self._lent[mapping.name] = weakref.ref(loan)
        return mapping, loan.array()[:size_bytes]

    def _take_back(self) -> None:
        for name, loan in list(self._lent.items()):
            if loan() is None:
                del self._lent[name]
                self._free[name] = self._mappings[name].size

    def _new_file(self, size_bytes: int) -> Mapping:
        # A little room to grow, so that the next version of the same array fits into the same file.
        size_bytes += size_bytes // _GROWTH_PARTS + buffers.SLACK
        size_bytes = -(-size_bytes // _STEP_BYTES) * _STEP_BYTES
        name = f"a-{self._token}-{self._made}"
        self._made += 1
        descriptor = self._folder.create(name, size_bytes)
        try:
            mapping = self._mappings[name] = self._map_to_write(name, descriptor)
        finally:
            close(descriptor)
        return mapping

    def _use_again(self, name: str) -> Mapping:
        del self._free[name]
        used = used_name(name)
        if used != name:
            # Not free any more, before the first byte changes: should we die, it is swept.
            self._folder.rename(name, used)
        mapping = self._mappings[used] = self._map_to_write(used, None)
        return mapping

    def _is_there(self, mapping: Mapping) -> bool:
        try:
            return self._folder.stat(mapping.name).st_ino == mapping.inode
        except FileNotFoundError:
            return False

    def _copy(self, arrays: dict[tuple[int, int], Bytes]) -> dict[tuple[int, int], Place]:
        """Copy arrays into one file, each with slack behind it."""
        if not arrays:
            return {}
        sizes = [-(-(array.nbytes + buffers.SLACK) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for array in arrays.values()]
        # Held until the manifest names the file: the state does not hold it.
        mapping, target = self._lend(sum(sizes))
        self._copies = target
        places = {}
        for (key, array), end, size in zip(arrays.items(), np.cumsum(sizes).tolist(), sizes, strict=True):
            start = end - size
            target[start : start + array.nbytes] = array
            target[start + array.nbytes : end] = 0
            places[key] = Place(mapping.name, start, array.nbytes)
        return places


def _place(known: Ranges, address: int, length: int) -> Place | None:
    found = known.find(address, length)
    return None if found is None else Place(found[0].name, found[1], length)


def free_name(name: str) -> str:
    """The name of a file while it belongs to no state."""
    return f"f{name[1:]}"


def used_name(name: str) -> str:
    """The name of a file while it belongs to a state."""
    return f"a{name[1:]}"

"""Who wrote a field last: the timestamps of patches from several sources, in `patches/clocks` beside the chain.

Of two writes of one place the one with the later timestamp stays, and of two of one moment that of the larger source,
whatever order they arrive in. A write counts for its place, for what is below it and for what it is part of: a title
that was set later than a record was removed keeps the record. The same patch may come again.

The file is written before the patches are applied. So a crash in between leaves fields that count as written and are
not, until the same patches are sent again; it never leaves a field that an older patch may take back. Times older than
`KEEP_MS` behind the newest are forgotten, and so are the oldest beyond `MAX_CLOCKS`; the newest that was forgotten is
kept as the floor, and a patch that is not newer than it loses where nothing is known.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from deltaic.errors import CommitConflictError, DecodeError, NotFoundError
from deltaic.kernels import crc
from deltaic.storage.store import Store
from deltaic.wire.patches import Operation, Patch, PatchBatch, PatchGroup
from deltaic.wire.patches.patch import COUNTER_BITS

NAME = "patches/clocks"
"""The file, below the folder of the dataset."""

KEEP_MS = 7 * 24 * 3_600_000
"""How long the time of a write is remembered, behind the newest."""

MAX_CLOCKS = 1_000_000
"""How many times are remembered at most."""

_MAGIC = b"DPCK"
_HEADER_BYTES = 16
_MAX_BYTES = 256 << 20


class Clock(NamedTuple):
    """When a place was written last, and by whom; later ones are larger."""

    timestamp: int
    source: str


class Clocks:
    """The times of the last writes, by record and place."""

    def __init__(self, floor: int = 0) -> None:
        self.floor = floor
        self._records: dict[tuple[str, Any], dict[str, Clock]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._records.values()))

    def winners(self, batch: PatchBatch) -> tuple[PatchBatch, int]:
        """The patches that are not older than what was written, which become the last; and how many others there are.

        Patches without a timestamp are applied as they come and leave no time behind.
        """
        groups: list[PatchGroup] = []
        lost = 0
        for group in batch.groups:
            if group.timestamps is None:
                groups.append(group)
                continue
            kept = [row for row, patch in enumerate(group.patches(batch.sources)) if self._wins(patch)]
            lost += group.count - len(kept)
            if len(kept) == group.count:
                groups.append(group)
            elif kept:
                groups.append(group.picked(np.array(kept, np.int64)))
        return PatchBatch(tuple(groups), batch.sources), lost

    def _wins(self, patch: Patch) -> bool:
        assert patch.timestamp is not None and isinstance(patch.path, str)
        mine = Clock(patch.timestamp, patch.source or "")
        known = self._records.setdefault((patch.type_name, patch.key), {})
        related = [place for place in known if _touches(place, patch.path)]
        if any(known[place] > mine for place in related) or (not related and mine.timestamp <= self.floor):
            return False
        for place in related:
            # What is below is replaced; what is above stays for the rest of it.
            if _is_above(patch.path, place):
                del known[place]
        known[patch.path] = mine
        return True

    def forget(self, *, keep_ms: int = KEEP_MS, most: int = MAX_CLOCKS) -> None:
        """Drop the times of long ago, and the oldest if there are too many; the floor rises to the newest of them."""
        times = np.array([clock.timestamp for each in self._records.values() for clock in each.values()], np.uint64)
        if not len(times):
            return
        floor = max(0, int(times.max()) - (keep_ms << COUNTER_BITS))
        if len(times) > most:
            floor = max(floor, int(np.partition(times, len(times) - most - 1)[len(times) - most - 1]))
        if floor <= self.floor or int(times.min()) > floor:
            return
        self.floor = floor
        for key, each in list(self._records.items()):
            left = {place: clock for place, clock in each.items() if clock.timestamp > floor}
            if left:
                self._records[key] = left
            else:
                del self._records[key]

    def to_bytes(self) -> bytes:
        """The file: magic, floor, CRC-32C of both, and a frame of patches that say nothing but where and when."""
        head = _MAGIC + self.floor.to_bytes(8, "little")
        return head + crc.crc32c(head, 0).to_bytes(4, "little") + PatchBatch.of(self._patches()).to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes, name: str = NAME) -> "Clocks":
        """Read the file."""
        head = data[:12]
        if data[:4] != _MAGIC or len(data) < _HEADER_BYTES:
            raise DecodeError("BadMagic", "no clocks of patches", f"{name}: byte 0")
        if crc.crc32c(head, 0) != int.from_bytes(data[12:16], "little"):
            raise DecodeError("ChecksumMismatch", "the CRC-32C is that of other bytes", f"{name}: byte 12")
        clocks = cls(int.from_bytes(data[4:12], "little"))
        for patch in PatchBatch.from_bytes(data[_HEADER_BYTES:], name=name):
            if patch.timestamp is None or not isinstance(patch.path, str):
                raise DecodeError("MalformedGroup", "a place without a time", name)
            known = clocks._records.setdefault((patch.type_name, patch.key), {})
            known[patch.path] = Clock(patch.timestamp, patch.source or "")
        return clocks

    def _patches(self) -> Iterator[Patch]:
        for (type_name, key), each in self._records.items():
            for place, (timestamp, source) in each.items():
                operation = Operation.DELETE if place else Operation.REMOVE
                yield Patch(
                    type_name, key, place, None, timestamp=timestamp, source=source or None, operation=operation
                )


def read_clocks(store: Store) -> tuple[Clocks, str | None]:
    """The clocks of a dataset and the tag of their file; none if nobody ever gave a time."""
    try:
        found = store.get(NAME, limit_bytes=_MAX_BYTES)
    except NotFoundError:
        return Clocks(), None
    return Clocks.from_bytes(bytes(found.data), f"{store.url}/{NAME}"), found.etag


def write_clocks(store: Store, clocks: Clocks, etag: str | None) -> None:
    """Put the clocks in the place of those that were read.

    Raises:
        CommitConflictError: somebody else wrote them meanwhile. Nothing was written.
    """
    try:
        if etag is None:
            store.put_if_absent(NAME, clocks.to_bytes())
        else:
            store.put_if_match(NAME, clocks.to_bytes(), etag)
    except CommitConflictError as error:
        raise CommitConflictError("another process patched meanwhile: read again, then retry") from error


def _touches(one: str, other: str) -> bool:
    return one == other or _is_above(one, other) or _is_above(other, one)


def _is_above(one: str, other: str) -> bool:
    """True if a place holds another one: the whole record holds all."""
    if not one:
        return bool(other)
    return other.startswith(one) and len(other) > len(one) and other[len(one)] in ".[{"

"""Assemble: headers and packed pieces become blobs in the staging folder, streamed by one task each."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import msgspec

from deltaic.producer.stage import STAGING
from deltaic.spark.build_scratch import Place, Scratch, open_place
from deltaic.storage.checksum import Checksum
from deltaic.storage.decompress import iter_compressed
from deltaic.storage.packing import Packing

_CHUNK_BYTES = 4 << 20


class Assembled(msgspec.Struct, frozen=True, array_like=True):
    """What was stored: size and checksum as stored, and the size of the blob itself."""

    size_bytes: int
    checksum: str
    plain_bytes: int


@dataclass(frozen=True)
class Stretch:
    """A part of a packed file."""

    key: str
    start: int
    length: int


@dataclass(frozen=True)
class Assemble:
    """Write one blob."""

    Result: ClassVar[type] = Assembled

    chain: Place
    cycle_id: str
    name: str
    pieces: tuple[bytes | Stretch, ...]
    packing: Packing | None
    scratch: Scratch

    @property
    def key(self) -> str:
        """Where it is staged."""
        return f"{STAGING}/{self.cycle_id}/{self.name}"

    @property
    def weight(self) -> int:
        """Bytes to write."""
        return sum(len(piece) if isinstance(piece, bytes) else piece.length for piece in self.pieces)

    def run(self) -> Assembled:
        """Do it."""
        plain, stored = Checksum(), Checksum()
        chunks = _counted(self._chunks(), plain)
        if self.packing is None:
            open_place(self.chain).put_chunks(self.key, chunks)
            return Assembled(plain.size_bytes, plain.text(), plain.size_bytes)
        open_place(self.chain).put_chunks(self.key, _counted(iter_compressed(chunks, self.packing), stored))
        return Assembled(stored.size_bytes, stored.text(), plain.size_bytes)

    def _chunks(self) -> Iterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, bytes):
                yield piece
                continue
            for start in range(0, piece.length, _CHUNK_BYTES):
                yield self.scratch.read_bytes(piece.key, piece.start + start, min(_CHUNK_BYTES, piece.length - start))


def _counted(pieces: Iterator[bytes], total: Checksum) -> Iterator[bytes]:
    for piece in pieces:
        total.update(piece)
        yield piece

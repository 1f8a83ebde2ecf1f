"""Encode: the blobs of a version, as pieces of bytes with their checksum.

Pieces are kept as the writer hands them over; past a limit they go to a temporary file, so that a large snapshot does
not double the memory of a producer.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from deltaic.errors import StorageError
from deltaic.state.append_write import CollectedAppend
from deltaic.state.write import WriteState
from deltaic.storage.announced import Artifact
from deltaic.storage.chain import BlobKind, BlobName
from deltaic.storage.checksum import Checksum
from deltaic.storage.store import Store

ARTIFACT_KINDS = {
    BlobKind.SNAPSHOT: "snapshot",
    BlobKind.DELTA: "delta",
    BlobKind.REVERSE_DELTA: "reverse_delta",
    BlobKind.HEADER: "header",
}
"""How the announcement calls the kinds of blobs."""

SPOOL_BYTES = 256 << 20
"""A blob larger than this is kept in a temporary file until it is staged."""

_CHUNK_BYTES = 4 << 20


class Spool:
    """The bytes of one file before they are stored."""

    def __init__(self, name: object, spool_bytes: int = SPOOL_BYTES) -> None:
        self._called = name
        self._spool_bytes = spool_bytes
        self._checksum = Checksum()
        self._pieces: list[memoryview] = []
        self._file: IO[bytes] | None = None

    @property
    def size_bytes(self) -> int:
        """How many bytes it has."""
        return self._checksum.size_bytes

    @property
    def checksum(self) -> str:
        """Its checksum as the announcement has it."""
        return self._checksum.text()

    def write(self, data: memoryview, /) -> int:
        """Take the next piece; the writer does not change it any more."""
        self._checksum.update(data)
        if self._file is None and self.size_bytes > self._spool_bytes:
            self._spool()
        if self._file is None:
            self._pieces.append(data)
        else:
            self._to_file(data)
        return len(data)

    def chunks(self) -> Iterator[memoryview]:
        """The bytes, piece by piece; can be asked for again."""
        if self._file is None:
            yield from self._pieces
            return
        self._file.seek(0)
        while piece := self._file.read(_CHUNK_BYTES):
            yield memoryview(piece)

    def read(self) -> bytes:
        """All bytes at once."""
        return b"".join(self.chunks())

    def close(self) -> None:
        """Let go of the bytes."""
        self._pieces = []
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spool(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="deltaic-")  # noqa: SIM115 - closed by close()
        for piece in self._pieces:
            self._to_file(piece)
        self._pieces = []

    def _to_file(self, data: memoryview) -> None:
        assert self._file is not None
        try:
            self._file.write(data)
        except OSError as error:
            raise StorageError(error.errno or 0, f"cannot keep {self._called} in a temporary file: {error}") from error


class EncodedBlob(Spool):
    """The bytes of one blob before they are stored."""

    def __init__(self, name: BlobName, spool_bytes: int = SPOOL_BYTES) -> None:
        super().__init__(name, spool_bytes)
        self.name = name

    @property
    def artifact(self) -> Artifact:
        """What the announcement says of it."""
        delta = self.name.from_version is not None
        return Artifact(
            ARTIFACT_KINDS[self.name.kind],
            str(self.name),
            self.size_bytes,
            self.checksum,
            self.name.from_version,
            self.name.to_version if delta else None,
        )

    @contextmanager
    def read_back(self, store: Store) -> Iterator[bytes]:
        """The bytes, before any store has them: for snapshots that are only compared, or stored later."""
        yield self.read()


def encode_version(
    state: WriteState,
    version: int,
    from_version: int | None,
    *,
    snapshot: bool,
    header: bool,
    append: CollectedAppend | None = None,
) -> dict[BlobKind, EncodedBlob]:
    """The blobs of a version. The first version has no deltas and always a snapshot."""
    made: dict[BlobKind, EncodedBlob] = {}

    def encode(name: BlobName, write: Callable[[EncodedBlob], None]) -> None:
        made[name.kind] = blob = EncodedBlob(name)
        write(blob)

    try:
        state.prepare()
        if header:
            encode(BlobName.header(version), state.write_header)
        if from_version is not None:
            encode(BlobName.delta(from_version, version), lambda blob: state.write_delta(blob, append=append))
            encode(BlobName.delta(version, from_version), state.write_reverse_delta)
        if snapshot or from_version is None:
            encode(BlobName.snapshot(version), state.write_snapshot)
    except BaseException:
        for blob in made.values():
            blob.close()
        raise
    return made

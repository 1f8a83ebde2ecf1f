"""Packed blobs: a file of a chain that is stored compressed, as its entry in the announcement says.

Names stay Hollow's, so only the announcement tells that a file is packed, and with what. Its size and checksum are
those of the packed file: it is verified before it is unpacked, and unpacks to exactly the announced size.
"""

import os
from collections.abc import Iterator
from typing import Literal

from deltaic.errors import DecodeError
from deltaic.storage.announced import Artifact
from deltaic.storage.decompress import Codec, iter_decompressed
from deltaic.storage.store import Data
from deltaic.storage.transfer import check_limit, file_chunks, new_file

Packing = Literal["zstd", "gzip"]
"""How a producer may pack blobs."""

PACKINGS: tuple[Packing, ...] = ("zstd", "gzip")


def unpacked(data: Data, artifact: Artifact, limit_bytes: int) -> Data:
    """The bytes of a blob: those that are stored, or what they unpack to.

    Raises:
        LimitError: it is announced to be larger than the limit; nothing is unpacked.
        DecodeError: the codec is not known, or what comes out is not what was announced.
    """
    if artifact.codec is None:
        return data
    whole = bytearray()
    for piece in _pieces(iter((data,)), artifact, limit_bytes):
        whole += piece
    return whole


def unpack_file(
    packed: str | os.PathLike[str], target: str | os.PathLike[str], artifact: Artifact, limit_bytes: int
) -> None:
    """Unpack a file into a new one; raises as `unpacked` does."""
    with new_file(target) as write:
        for piece in _pieces(file_chunks(packed), artifact, limit_bytes):
            write(piece)


def _pieces(chunks: Iterator[Data], artifact: Artifact, limit_bytes: int) -> Iterator[bytes]:
    if artifact.codec not in PACKINGS:
        raise DecodeError("UnknownCodec", f"packed with {artifact.codec!r}: update deltaic", artifact.name)
    expected = artifact.plain_size
    check_limit(artifact.name, expected, limit_bytes)
    made = 0
    for piece in iter_decompressed(chunks, Codec(artifact.codec), expected, name=artifact.name):
        made += len(piece)
        yield piece
    if made != expected:
        raise DecodeError("WrongSize", f"unpacks to {made:,} bytes where {expected:,} were announced", artifact.name)

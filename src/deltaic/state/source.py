"""Where blobs come from: a path, bytes, or anything with `read()`.

A file, given by its path or open, is mapped, so that its bytes are copied once, into the state. Nothing of the mapping
stays in use afterwards: a file that is overwritten in place later cannot change a state. Of any other stream the bytes
are held until the state is made.
"""

import io
import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from deltaic.binary.cursor import Cursor
from deltaic.errors import DecodeError, LimitError, NotFoundError
from deltaic.limits import Limits

Source = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO
"""A blob: a path, its bytes, or a binary stream."""

_PIECE_BYTES = 4 << 20


@contextmanager
def opened(source: Source, limits: Limits) -> Iterator[Cursor]:
    """A cursor over a blob."""
    if isinstance(source, bytes | bytearray | memoryview):
        _check_size(len(memoryview(source).cast("B")), "<bytes>", limits)
        yield Cursor(source)
    elif isinstance(source, str | os.PathLike):
        with _mapped(Path(source), limits) as cursor:
            yield cursor
    else:
        name = str(getattr(source, "name", "<stream>"))
        mapping = _map_rest(source, name, limits)
        yield Cursor(_read_all(source, name, limits) if mapping is None else mapping, name)


@contextmanager
def _mapped(path: Path, limits: Limits) -> Iterator[Cursor]:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            _check_size(size, path.name, limits)
            if size == 0:
                yield Cursor(b"", path.name)
                return
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise NotFoundError(f"there is no blob {path.name} in {path.parent}") from None
    except IsADirectoryError:
        raise DecodeError("Truncated", "a folder, not a blob", path.name) from None
    cursor = Cursor(mapping, path.name)
    yield cursor


def _map_rest(stream: BinaryIO, name: str, limits: Limits) -> memoryview | None:
    """The rest of a file that is open, mapped; None for streams that are none, or that decode what they read."""
    if not isinstance(stream, io.FileIO | io.BufferedReader | io.BufferedRandom):
        return None
    try:
        state = os.fstat(stream.fileno())
        start = stream.tell()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(state.st_mode) or start >= state.st_size:
        return None
    _check_size(state.st_size - start, name, limits)
    mapping = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    stream.seek(0, os.SEEK_END)
    return memoryview(mapping)[start:]


def _read_all(stream: BinaryIO, name: str, limits: Limits) -> bytearray:
    """The rest of a stream, refused as soon as it passes the limit."""
    data = bytearray()
    while piece := stream.read(_PIECE_BYTES):
        data += piece
        _check_size(len(data), name, limits)
    return data


def _check_size(size: int, name: str, limits: Limits) -> None:
    if size > limits.max_blob_bytes:
        raise LimitError("Limit", f"a blob of {size:,} bytes, limit is {limits.max_blob_bytes:,}", name)

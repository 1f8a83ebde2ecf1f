"""Reading blobs back from the store: compared with what is known of them, unpacked, large ones through a file."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltaic.state.source import Source
from deltaic.storage.announced import Artifact
from deltaic.storage.checksum import verify, verify_file
from deltaic.storage.packing import unpack_file, unpacked
from deltaic.storage.store import Store
from deltaic.storage.transfer import check_limit

IN_MEMORY_BYTES = 256 << 20
"""A blob larger than this is read through a temporary file."""


@contextmanager
def read_stored(store: Store, key: str, artifact: Artifact | None, *, limit_bytes: int) -> Iterator[Source]:
    """The bytes of a blob, or a file that has them, which is gone at the end.

    Args:
        store: the folder of the chain.
        key: where the blob is stored.
        artifact: what must be stored there; None if that is not known.
        limit_bytes: the largest blob that is read.

    Raises:
        ChecksumError: other bytes are stored there.
    """
    size_bytes = store.head(key).size_bytes if artifact is None else artifact.size
    plain_bytes = size_bytes if artifact is None else artifact.plain_size
    check_limit(key, max(size_bytes, plain_bytes), limit_bytes)
    if max(size_bytes, plain_bytes) <= IN_MEMORY_BYTES:
        data = store.get(key, limit_bytes=size_bytes).data
        if artifact is None:
            yield data
            return
        verify(data, artifact.checksum, f"{store.url}/{key}")
        yield unpacked(data, artifact, limit_bytes)
        return
    with tempfile.TemporaryDirectory(prefix="deltaic-") as folder:
        path, plain = Path(folder) / "stored", Path(folder) / "plain"
        store.get_to_file(key, path, limit_bytes=size_bytes)
        if artifact is not None:
            verify_file(path, artifact.checksum, artifact.size, f"{store.url}/{key}")
            if artifact.codec is not None:
                unpack_file(path, plain, artifact, limit_bytes)
                path.unlink()
                path = plain
        yield path

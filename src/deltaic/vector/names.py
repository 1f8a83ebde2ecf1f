"""The names of vector parts: which file goes beside which blob (docs/formats/vector-part.md)."""

from deltaic.storage.chain import BlobKind, BlobName

VECTOR_KIND = "vector"
"""How the announcement calls vector parts."""


def part_name(blob: BlobName) -> str:
    """The name of the vector part that goes with a snapshot, a delta or a reverse delta."""
    if blob.kind is BlobKind.SNAPSHOT:
        return f"{VECTOR_KIND}-{blob.to_version}-snapshot"
    assert blob.from_version is not None
    if blob.kind is BlobKind.DELTA:
        return f"{VECTOR_KIND}-{blob.to_version}-delta.{blob.from_version}"
    return f"{VECTOR_KIND}-{blob.from_version}-reverse.{blob.to_version}"

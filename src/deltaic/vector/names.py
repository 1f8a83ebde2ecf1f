"""The names of vector parts: which file goes beside which blob (docs/formats/vector-part.md)."""

import re

from deltaic.storage.chain import BlobKind, BlobName

VECTOR_KIND = "vector"
"""How the announcement calls vector parts."""

_NAME = re.compile(r"vector-(?P<version>\d{1,19})-(?:snapshot|(?P<way>delta|reverse)\.(?P<other>\d{1,19}))")


def part_name(blob: BlobName) -> str:
    """The name of the vector part that goes with a snapshot, a delta or a reverse delta."""
    if blob.kind is BlobKind.SNAPSHOT:
        return f"{VECTOR_KIND}-{blob.to_version}-snapshot"
    assert blob.from_version is not None
    if blob.kind is BlobKind.DELTA:
        return f"{VECTOR_KIND}-{blob.to_version}-delta.{blob.from_version}"
    return f"{VECTOR_KIND}-{blob.from_version}-reverse.{blob.to_version}"


def blob_of_part(name: str) -> BlobName | None:
    """The blob that a vector part goes with, by its name; None if it is no vector part."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    version = int(found["version"])
    if found["way"] is None:
        return BlobName.snapshot(version)
    other = int(found["other"])
    if other >= version:
        return None
    return BlobName.delta(other, version) if found["way"] == "delta" else BlobName.delta(version, other)

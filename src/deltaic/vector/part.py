"""Vector parts: the vector columns of a version, beside its blobs (docs/formats/vector-part.md)."""

from deltaic.vector.layout import ColumnHead, PartHeader
from deltaic.vector.part_read import VectorPart, apply_part, read_part
from deltaic.vector.part_write import (
    ColumnKey,
    Moves,
    delta_pieces,
    encode_delta_part,
    encode_snapshot_part,
    snapshot_pieces,
)

__all__ = [
    "ColumnHead",
    "ColumnKey",
    "Moves",
    "PartHeader",
    "VectorPart",
    "apply_part",
    "delta_pieces",
    "encode_delta_part",
    "encode_snapshot_part",
    "read_part",
    "snapshot_pieces",
]

"""Vector columns: vectors beside the records of a type, shipped as what changed in them."""

from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors
from deltaic.vector.names import VECTOR_KIND, part_name
from deltaic.vector.part import (
    ColumnKey,
    Moves,
    VectorPart,
    apply_part,
    encode_delta_part,
    encode_snapshot_part,
    read_part,
)

__all__ = [
    "CHUNK_ROWS",
    "VECTOR_KIND",
    "ColumnKey",
    "Moves",
    "StoredVectors",
    "VectorPart",
    "apply_part",
    "encode_delta_part",
    "encode_snapshot_part",
    "part_name",
    "read_part",
]

"""Vector columns: vectors beside the records of a type, shipped as what changed in them."""

from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors
from deltaic.vector.attach import missing_columns, with_vectors
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
from deltaic.vector.storage import VECTORS_TAG, VectorStorage

__all__ = [
    "CHUNK_ROWS",
    "VECTORS_TAG",
    "VECTOR_KIND",
    "ColumnKey",
    "Moves",
    "StoredVectors",
    "VectorPart",
    "VectorStorage",
    "apply_part",
    "encode_delta_part",
    "encode_snapshot_part",
    "missing_columns",
    "part_name",
    "read_part",
    "with_vectors",
]

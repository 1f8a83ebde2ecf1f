"""Writing a companion split: the index of some source rows, the manifest that says where the rows are, no rows.

<segment>.*, meta.json, .managed.json    the index
_parquet_manifest.json                   document -> file and row (`manifest.py`)
_deltaic.json                            what the split is, with the checksum of every member
"""

import base64
import tempfile
import uuid
from pathlib import Path

import pyarrow as pa

from deltaic.errors import StorageError
from deltaic.table.companion.manifest import Manifest
from deltaic.table.split.engine import index_files
from deltaic.table.split.mapping import DocMapping
from deltaic.table.split.open import COMPANION_NAME
from deltaic.table.split.rows import RowsIndex, RowsPart
from deltaic.table.split.write import WrittenSplit, build_index, pack_files

KIND = "companion"
"""What the description of such a split calls it."""


def write_companion_split(rows: pa.Table, mapping: DocMapping, manifest: Manifest, target: Path) -> WrittenSplit:
    """Index rows into a new file that points to where they are."""
    split_id = str(uuid.uuid4())
    try:
        with tempfile.TemporaryDirectory(prefix=".deltaic-tmp-split-", dir=target.parent) as made:
            folder = Path(made)
            index = folder / "index"
            index.mkdir()
            build_index(rows, mapping, index, split_id)
            place = folder / COMPANION_NAME
            place.write_bytes(manifest.pack())
            members = [(name, index / name) for name in index_files(index)]
            # The schema is that of the rows elsewhere; there are no chunks of them here.
            schema = base64.b64encode(rows.schema.serialize()).decode()
            parts = RowsIndex(schema, RowsPart(0, 0, 0), ())
            members.append((COMPANION_NAME, place))
            return pack_files(members, target, mapping, rows.num_rows, split_id, parts, kind=KIND)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(error.errno, f"cannot write {target}: {error.strerror or error}") from error

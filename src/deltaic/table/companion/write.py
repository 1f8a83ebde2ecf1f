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
from deltaic.storage.checksum import Checksum, checksum
from deltaic.storage.transfer import file_chunks
from deltaic.table.companion.manifest import Manifest
from deltaic.table.split.container import FIELDS_NAME, Range, new_split, pack_footer
from deltaic.table.split.description import DESCRIPTION_NAME, Description
from deltaic.table.split.engine import engine_version, index_files
from deltaic.table.split.hotcache import WHOLE_FILES, pack_hotcache
from deltaic.table.split.mapping import DocMapping
from deltaic.table.split.open import COMPANION_NAME, TAG_DESCRIPTION, TAG_ENGINE, TAG_SPLIT
from deltaic.table.split.rows import RowsIndex, RowsPart
from deltaic.table.split.write import WrittenSplit, build_index

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
            return _pack([*members, (COMPANION_NAME, place)], target, mapping, rows, split_id)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(error.errno, f"cannot write {target}: {error.strerror or error}") from error


def _pack(
    members: list[tuple[str, Path]], target: Path, mapping: DocMapping, rows: pa.Table, split_id: str
) -> WrittenSplit:
    sums: dict[str, str] = {}
    places: dict[str, Range] = {}
    position = 0
    with new_split(target) as out:
        for name, path in members:
            total = Checksum()
            for piece in file_chunks(path):
                out.write(piece)
                total.update(piece)
            places[name] = Range(position, position + total.size_bytes)
            sums[name] = total.text()
            position += total.size_bytes
        # The schema is that of the rows elsewhere; there are no chunks of them here.
        schema = base64.b64encode(rows.schema.serialize()).decode()
        parts = RowsIndex(schema, RowsPart(0, 0, 0), ())
        described = Description(split_id, KIND, rows.num_rows, engine_version(), mapping.columns, sums, parts)
        description = described.pack()
        out.write(description)
        places[DESCRIPTION_NAME] = Range(position, position + len(description))
        position += len(description)
        places[FIELDS_NAME] = Range(position, position)
        whole = {name: path.read_bytes() for name, path in members if name in WHOLE_FILES}
        lengths = {name: place.length for name, place in places.items() if name != FIELDS_NAME}
        footer = pack_footer(places, pack_hotcache(lengths, whole))
        out.write(footer)
    size = position + len(footer)
    tags = {TAG_SPLIT: split_id, TAG_ENGINE: described.engine, TAG_DESCRIPTION: checksum(description)}
    return WrittenSplit(size, position, size, rows.num_rows, position, mapping.to_json(native=False), split_id, tags)

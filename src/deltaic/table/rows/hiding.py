"""Deletes without a rewrite, by option: the split is copied with the engine's delete file in it, and rows are hidden.

For large splits of which few rows go. Where a tenth of the rows would be dead, or the split cannot have such a file,
it is written anew; a compaction writes splits with hidden rows anew, however large they are.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from deltaic.errors import InputError
from deltaic.table.actions import AddFile
from deltaic.table.rows.partitioning import partition_values
from deltaic.table.rows.reading import RowReader
from deltaic.table.split import open_split
from deltaic.table.split.deletes import with_deletes

_MOST_DEAD = 0.1


def hide(reader: RowReader, add: AddFile, dead: Any) -> AddFile | None:
    """A copy of a split with the rows of a mask hidden, durable; None where it must be written anew."""
    store, key = reader.files.locate(add.path)
    split = open_split(store, key, add)
    mask = dead.combine_chunks() if hasattr(dead, "combine_chunks") else dead
    numbers = split.row_numbers()[np.flatnonzero(np.asarray(mask.to_numpy(zero_copy_only=False), bool))]
    alive = split.num_rows - len(numbers)
    if alive < split.num_numbers * (1 - _MOST_DEAD):
        return None
    values = partition_values(add, reader.schema, reader.schema.partition_by)
    path, texts = reader.files.new_path({name: value.as_py() for name, value in values.items()})
    with tempfile.TemporaryDirectory(prefix="deltaic-splits-") as folder:
        target = Path(folder, path.rpartition("/")[2])
        try:
            written = with_deletes(split, numbers, target)
        except InputError:
            return None
        reader.files.store.put_file(path, target)
    return replace(
        add,
        path=path,
        partition_values=texts,
        size_bytes=written.size,
        modified_ms=reader.files.now_ms(),
        data_change=True,
        num_records=written.num_records,
        footer_start=written.footer_start,
        footer_end=written.footer_end,
        has_footer_offsets=True,
        delete_opstamp=(add.delete_opstamp or 0) + 1,
        uncompressed_bytes=written.uncompressed_bytes,
        tags={**(add.tags or {}), **written.tags} or None,
        added_at_version=0,
        added_at_ms=0,
    )

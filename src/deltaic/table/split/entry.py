"""An entry of the split cache: a split unpacked into a folder, and how to see that it is still whole.

    index/…       the index; of a native split with the package's own dictionary in place
    rows.arrow    every row by its number, as Arrow IPC, to be mapped
    entry.json    what it is, with size, time and checksum of each file; written last

A file whose size or time is another than on record, or that was written before the machine last started, is read and
compared with its checksum before it is used; the others were compared since, and memory does not rot on disk.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaic.errors import DecodeError
from deltaic.storage.checksum import checksum_file
from deltaic.table.split.deletes import hide_rows
from deltaic.table.split.description import DESCRIPTION_NAME, DICTIONARY_NAME
from deltaic.table.split.mapping import DocMapping, IndexedColumn
from deltaic.table.split.open import SplitFile
from deltaic.table.split.segment import FILE_NAME
from deltaic.table.split.write import build_index

ENTRY_NAME = "entry.json"
ROWS_FILE = "rows.arrow"
INDEX_FOLDER = "index"
ENTRY_FORMAT = 1


class CachedFileFacts(msgspec.Struct, frozen=True, array_like=True):
    """What a file of an entry must look like."""

    size_bytes: int
    modified_ns: int
    checksum: str


class Entry(msgspec.Struct, frozen=True):
    """What an unpacked split is."""

    where: str
    split_id: str
    num_rows: int
    reindexed: bool
    columns: tuple[IndexedColumn, ...]
    files: Mapping[str, CachedFileFacts]
    boot: str
    description: str | None = None
    """The checksum of the description, as the log's tag says it."""
    dead: tuple[int, ...] = ()
    """The numbers of rows that a delete file hides."""
    format: int = ENTRY_FORMAT

    @property
    def size_bytes(self) -> int:
        """What it takes on disk."""
        return sum(file.size_bytes for file in self.files.values())


def unpack_split(split: SplitFile, folder: Path, split_id: str, boot: str) -> Entry:
    """Unpack a split into an empty folder; foreign ones are indexed from their rows."""
    index = folder / INDEX_FOLDER
    index.mkdir()
    rows = split.all_rows()
    alive = split.alive
    if split.description is None:
        build_index(rows, split.mapping, index, split_id)
        if alive is not None:
            hide_rows(index, alive)
        for lock in index.glob(".tantivy-*.lock"):
            with suppress(OSError):
                lock.unlink()
    else:
        _unpack_index(split, index)
    write_ipc(rows, folder / ROWS_FILE)
    dead = () if alive is None else tuple(np.flatnonzero(~alive).tolist())
    entry = Entry(
        where=split.where,
        split_id=split_id,
        num_rows=split.num_rows,
        reindexed=split.description is None,
        columns=split.mapping.columns,
        files=_facts(folder),
        boot=boot,
        description=split.tags.get("deltaic.description"),
        dead=dead,
    )
    write_entry(entry, folder)
    return entry


def read_entry(folder: Path, boot: str) -> Entry | None:
    """The entry in a folder if it is there and whole, else None."""
    try:
        entry = msgspec.json.decode((folder / ENTRY_NAME).read_bytes(), type=Entry)
        if entry.format != ENTRY_FORMAT:
            return None
        suspects = []
        for name, expected in entry.files.items():
            found = os.stat(folder / name, follow_symlinks=False)
            if found.st_size != expected.size_bytes:
                return None
            if found.st_mtime_ns != expected.modified_ns or entry.boot != boot:
                suspects.append(name)
        for name in suspects:
            if checksum_file(folder / name)[0] != entry.files[name].checksum:
                return None
        if suspects:
            entry = msgspec.structs.replace(entry, files=_facts(folder, entry.files), boot=boot)
            write_entry(entry, folder)
    except (OSError, ValueError, UnicodeDecodeError):
        return None
    return entry


def write_entry(entry: Entry, folder: Path) -> None:
    """Write `entry.json`, whole or not at all."""
    temporary = folder / f".{ENTRY_NAME}.{os.getpid()}"
    temporary.write_bytes(msgspec.json.encode(entry))
    temporary.replace(folder / ENTRY_NAME)


def map_rows(folder: Path) -> pa.Table:
    """The rows of an entry, mapped."""
    path = folder / ROWS_FILE
    try:
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()
    except (pa.ArrowException, OSError) as error:
        raise DecodeError("BadRows", f"the cached rows are no Arrow: {error}", str(path)) from error


def write_ipc(rows: pa.Table, path: Path) -> None:
    """Rows as an Arrow file, in as few batches as their types allow."""
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, rows.schema) as writer:
        for batch in rows.combine_chunks().to_batches():
            writer.write_batch(batch)


def mapping_of(entry: Entry) -> DocMapping:
    """How the index of an entry is made."""
    return DocMapping(entry.columns)


def dead_rows(entry: Entry) -> NDArray[np.int64] | None:
    """The numbers of hidden rows, or None."""
    return np.array(entry.dead, np.int64) if entry.dead else None


def _unpack_index(split: SplitFile, index: Path) -> None:
    for name in split.footer.members:
        if name == DESCRIPTION_NAME or not FILE_NAME.fullmatch(name):
            continue
        if split.kind == "native" and name.endswith(".term"):
            data = split.member(DICTIONARY_NAME)
        else:
            data = split.member(name)
        (index / name).write_bytes(data)


def _facts(folder: Path, known: Mapping[str, CachedFileFacts] | None = None) -> dict[str, CachedFileFacts]:
    facts = {}
    for path in sorted((*(folder / INDEX_FOLDER).iterdir(), folder / ROWS_FILE)):
        name = path.relative_to(folder).as_posix()
        if path.name.startswith(".tantivy-") or (known is not None and name not in known):
            continue
        found = path.stat()
        text = checksum_file(path)[0] if known is None else known[name].checksum
        facts[name] = CachedFileFacts(found.st_size, found.st_mtime_ns, text)
    return facts

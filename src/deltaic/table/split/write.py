"""Writing a split: the index, the rows as Parquet, a description with the checksum of every member, the container.

Members of our own, beside those of the engine: `_rows.parquet` has the rows, exactly; `_deltaic.json` says what the
split is; a native split also has the package's dictionary, `_dictionary.term`. They start with `_`, so that other
readers pass over them (index-table.md, 9.4).
"""

import errno
import os
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pyarrow as pa

from deltaic.errors import InputError, StorageError
from deltaic.storage.checksum import Checksum, checksum
from deltaic.storage.transfer import file_chunks
from deltaic.table.split.container import FIELDS_NAME, Range, new_split, pack_footer
from deltaic.table.split.description import DESCRIPTION_NAME, DICTIONARY_NAME, ROWS_NAME, Description
from deltaic.table.split.documents import add_documents
from deltaic.table.split.engine import engine_version, guarded_writer, index_files, new_index
from deltaic.table.split.hotcache import WHOLE_FILES, pack_hotcache
from deltaic.table.split.mapping import DocMapping
from deltaic.table.split.native_index import build_native_index, native_mapping
from deltaic.table.split.open import TAG_DESCRIPTION, TAG_ENGINE, TAG_ROWS, TAG_SPLIT
from deltaic.table.split.rows import RowsIndex, write_rows

_MEMORY_FOLDER = Path("/dev/shm")
_MEMORY_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """How a split is written."""

    native: bool = False
    """Document store and native dictionary, for IndexTables and Quickwit."""
    compression: Literal["zstd", "snappy", "lz4", "none"] = "zstd"
    compression_level: int | None = None
    row_group_rows: int = 65_536

    def __post_init__(self) -> None:
        if self.row_group_rows <= 0:
            raise InputError(f"row groups of {self.row_group_rows} rows")


@dataclass(frozen=True, slots=True)
class WrittenSplit:
    """What an add action says of a split that was written."""

    size: int
    footer_start: int
    footer_end: int
    num_records: int
    uncompressed_bytes: int
    """Bytes of all members, which others take for the size of the index."""
    doc_mapping_json: str
    split_id: str
    tags: Mapping[str, str] = field(default_factory=dict)


def write_split(
    rows: pa.Table,
    mapping: DocMapping,
    target: str | os.PathLike[str],
    *,
    options: SplitOptions | None = None,
    split_id: str | None = None,
) -> WrittenSplit:
    """Write rows (without partition columns) as a split into a new file.

    Raises:
        InputError: the rows do not fit the mapping, or a value its column's kind; no file is left.
    """
    options = options or SplitOptions()
    target = Path(target)
    missing = [column.name for column in mapping.columns if column.name not in rows.column_names]
    extra = [name for name in rows.column_names if name not in mapping.by_name]
    if missing or extra:
        raise InputError(f"the rows do not fit the mapping: missing {missing}, not mapped {extra}")
    split_id = split_id or str(uuid.uuid4())
    scratch = _scratch(rows.nbytes, target.parent)
    try:
        return _write(rows, mapping, target, options, split_id, scratch)
    except OSError as error:
        if scratch == target.parent or error.errno != errno.ENOSPC:
            raise _failed(target, error) from error
    try:
        return _write(rows, mapping, target, options, split_id, target.parent)
    except OSError as error:
        raise _failed(target, error) from error


def _write(
    rows: pa.Table, mapping: DocMapping, target: Path, options: SplitOptions, split_id: str, scratch: Path
) -> WrittenSplit:
    with tempfile.TemporaryDirectory(prefix=".deltaic-tmp-split-", dir=scratch) as made:
        folder = Path(made)
        index = folder / "index"
        index.mkdir()
        dictionary: list[tuple[str, Path]] = []
        if options.native:
            build_native_index(rows, mapping, index, split_id, folder / DICTIONARY_NAME)
            dictionary = [(DICTIONARY_NAME, folder / DICTIONARY_NAME)]
            mapping = native_mapping(mapping)
        elif mapping.indexed_columns:
            build_index(rows, mapping, index, split_id)
        parts = write_rows(
            rows,
            folder / ROWS_NAME,
            compression=options.compression,
            compression_level=options.compression_level,
            row_group_rows=options.row_group_rows,
        )
        # Where no column is indexed the rows are all there is to ask.
        indexed = options.native or mapping.indexed_columns
        members = [(name, index / name) for name in index_files(index)] if indexed else []
        members += [*dictionary, (ROWS_NAME, folder / ROWS_NAME)]
        kind = "native" if options.native else "deltaic"
        return pack_files(members, target, mapping, rows.num_rows, split_id, parts, kind=kind)


def _scratch(row_bytes: int, beside: Path) -> Path:
    """Where to build the index: in memory where there is plenty, because the engine waits for the disk at each file."""
    try:
        found = os.statvfs(_MEMORY_FOLDER)
        if row_bytes <= _MEMORY_BYTES and found.f_bavail * found.f_frsize > 16 * _MEMORY_BYTES:
            return _MEMORY_FOLDER if os.access(_MEMORY_FOLDER, os.W_OK) else beside
    except OSError:
        pass
    return beside


def _failed(target: Path, error: OSError) -> StorageError:
    if isinstance(error, StorageError):
        return error
    return StorageError(error.errno, f"cannot write {target}: {error.strerror or error}")


def write_splits(
    tables: Sequence[tuple[pa.Table, Path]],
    mapping: DocMapping,
    *,
    options: SplitOptions | None = None,
    threads: int | None = None,
) -> list[WrittenSplit]:
    """Write several splits at once, each by a thread; the engine works beside the interpreter.

    If one fails, those that were written are removed again.
    """
    with ThreadPoolExecutor(threads or os.cpu_count() or 1, "deltaic-split") as pool:
        waiting = [pool.submit(write_split, rows, mapping, target, options=options) for rows, target in tables]
        try:
            return [one.result() for one in waiting]
        except BaseException:
            for one in waiting:
                one.cancel()
            for one, (_, target) in zip(waiting, tables, strict=True):
                if not one.cancelled() and one.exception() is None:
                    with suppress(OSError):
                        Path(target).unlink()
            raise


def build_index(rows: pa.Table, mapping: DocMapping, folder: Path, split_id: str) -> None:
    """Index rows into an empty folder, as one segment."""
    index = new_index(folder, mapping.fields)
    with guarded_writer(index, str(folder)) as writer:
        add_documents(writer, rows, mapping, split_id)


def pack_files(
    members: Sequence[tuple[str, Path]],
    target: Path,
    mapping: DocMapping,
    num_rows: int,
    split_id: str,
    parts: RowsIndex,
    *,
    kind: str,
) -> WrittenSplit:
    """Put files into one container and describe it."""
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
        described = Description(split_id, kind, num_rows, engine_version(), mapping.columns, sums, parts)
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
    text = mapping.to_json(native=kind == "native")
    return WrittenSplit(size, position, size, num_rows, position, text, split_id, split_tags(described, description))


def split_tags(described: Description, description: bytes) -> dict[str, str]:
    """The tags of a split of ours: its id, its engine, and the checksums of what is read first."""
    tags = {TAG_SPLIT: described.split_id, TAG_ENGINE: described.engine, TAG_DESCRIPTION: checksum(description)}
    # A companion's rows lie elsewhere.
    return {**tags, TAG_ROWS: described.members[ROWS_NAME]} if ROWS_NAME in described.members else tags

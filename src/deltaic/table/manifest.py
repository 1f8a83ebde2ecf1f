"""Manifests: shared, immutable lists of files, and the cache of those that were read.

A manifest's name is random and its bytes never change, so that what was decoded once is right for ever. The cache is
shared by all tables of the process and bounded by bytes.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from deltaic.errors import InputError, NotFoundError
from deltaic.storage import Store
from deltaic.storage.names import safe_relative
from deltaic.table.actions import AddFile
from deltaic.table.avro import split_blocks, write_container
from deltaic.table.columns import FileColumns
from deltaic.table.entries import EntrySchema, encode_entries, schema_for
from deltaic.table.partitions import bounds_of
from deltaic.table.settings import Settings

FOLDER: Final = "manifests"
MAX_MANIFEST_BYTES: Final = 1 << 30
"""A larger manifest file is not read."""

CACHE_BYTES: Final = 256 << 20
"""What decoded manifests may take in memory, in all."""

_BLOCK_BYTES: Final = 16 << 20


class Bounds(msgspec.Struct, frozen=True):
    """The smallest and largest value of a partition column in a manifest; both None if all are null."""

    min: str | None = None
    max: str | None = None


class ManifestInfo(msgspec.Struct, frozen=True):
    """What a state says of a manifest."""

    path: str
    num_entries: int
    min_added_at_version: int = 0
    max_added_at_version: int = 0
    partition_bounds: Mapping[str, Bounds] | None = None
    tombstone_count: int = 0
    live_entry_count: int = -1
    """-1: not computed."""


class NewManifest(msgspec.Struct, frozen=True):
    """A manifest that is to be written: its file, and how a state refers to it."""

    info: ManifestInfo
    data: bytes
    columns: FileColumns


def manifest_key(path: str, state_folder: str) -> str:
    """The key, below the log, of a manifest that a state of that folder refers to."""
    if path.startswith("/") or "://" in path:
        raise InputError(f"the manifest {ascii(path)[:120]} lies outside of its log", "UnsafeName")
    return safe_relative("" if "/" in path else state_folder, path)


class ManifestCache:
    """Decoded manifests by store and key, the longest unused ones dropped first."""

    def __init__(self, limit_bytes: int = CACHE_BYTES) -> None:
        self._limit_bytes, self._size_bytes = limit_bytes, 0
        self._found: OrderedDict[tuple[str, str], FileColumns] = OrderedDict()
        self._mutex = threading.Lock()
        self.hits = self.misses = 0

    def get(self, store: Store, key: str) -> FileColumns | None:
        """What was kept of a manifest."""
        with self._mutex:
            found = self._found.get((store.url, key))
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._found.move_to_end((store.url, key))
            return found

    def put(self, store: Store, key: str, columns: FileColumns) -> None:
        """Keep a manifest."""
        with self._mutex:
            old = self._found.pop((store.url, key), None)
            self._size_bytes += columns.nbytes - (0 if old is None else old.nbytes)
            self._found[store.url, key] = columns
            while self._size_bytes > self._limit_bytes and len(self._found) > 1:
                _, dropped = self._found.popitem(last=False)
                self._size_bytes -= dropped.nbytes

    def clear(self) -> None:
        """Forget everything."""
        with self._mutex:
            self._found.clear()
            self._size_bytes = 0


CACHE: Final = ManifestCache()
"""The cache of this process."""


def read_manifest(log: Store, key: str, cache: ManifestCache = CACHE) -> FileColumns:
    """Read a manifest of a log, or take it from the cache."""
    found = cache.get(log, key)
    if found is None:
        blob = log.get(key, limit_bytes=MAX_MANIFEST_BYTES)
        found = FileColumns.read(blob.data, f"{log.url}/{key}")
        cache.put(log, key, found)
    return found


def read_manifests(
    log: Store, keys: Sequence[str], parallelism: int, cache: ManifestCache = CACHE
) -> list[FileColumns]:
    """Read several manifests, those that are not in the cache side by side."""
    missing = [key for key in keys if cache.get(log, key) is None]
    if len(missing) > 1 and parallelism > 1:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(parallelism, len(missing)), thread_name_prefix="deltaic-manifests") as pool:
            list(pool.map(lambda key: read_manifest(log, key, cache), missing))
    return [read_manifest(log, key, cache) for key in keys]


def new_name(*, literal: bool) -> str:
    """A fresh name below the log: eight digits as in the protocol text, else sixteen, which do not meet by chance."""
    return f"{FOLDER}/manifest-{secrets.token_hex(4 if literal else 8)}.avro"


def manifest_of_adds(
    adds: Iterable[AddFile], partition_columns: Sequence[str], types: Mapping[str, str], settings: Settings
) -> NewManifest:
    """A manifest of add actions."""
    listed = list(adds)
    schema = schema_for(listed, literal=settings.literal)
    data, starts = encode_entries(listed, schema)
    columns = FileColumns.of_adds(listed, "a new manifest")
    return _new_manifest(data, starts, schema, columns, partition_columns, types, settings)


def manifests_of_rows(
    parts: Sequence[tuple[FileColumns, "np.ndarray[tuple[int], np.dtype[np.int64]]"]],
    partition_columns: Sequence[str],
    types: Mapping[str, str],
    settings: Settings,
) -> list[NewManifest]:
    """Manifests of rows of other manifests, sorted by partition and cut to size; records are copied as they are."""
    order = _by_partition(parts, partition_columns)
    made = []
    for first in range(0, len(order), settings.entries_per_manifest):
        chosen = order[first : first + settings.entries_per_manifest]
        made.append(_copied(parts, chosen, partition_columns, types, settings))
    return made


def _by_partition(
    parts: Sequence[tuple[FileColumns, "np.ndarray[tuple[int], np.dtype[np.int64]]"]], partition_columns: Sequence[str]
) -> list[tuple[int, int]]:
    order = [(place, row) for place, (_, rows) in enumerate(parts) for row in rows.tolist()]
    if not partition_columns:
        return order
    keys: list[list[str]] = []
    for columns, rows in parts:
        values = [columns.value_of("partitionValues", name).texts(rows) for name in sorted(partition_columns)]
        keys.append(["|".join(text or "" for text in row) for row in zip(*values, strict=True)])
    flat = [key for part in keys for key in part]
    return [order[place] for place in sorted(range(len(order)), key=flat.__getitem__)]


def _copied(
    parts: Sequence[tuple[FileColumns, "np.ndarray[tuple[int], np.dtype[np.int64]]"]],
    chosen: list[tuple[int, int]],
    partition_columns: Sequence[str],
    types: Mapping[str, str],
    settings: Settings,
) -> NewManifest:
    schemas = {parts[place][0].schema for place, _ in chosen}
    schema = next(iter(schemas)) if len(schemas) == 1 else None
    if schema is None or settings.literal:
        adds = [parts[place][0].entry(row) for place, row in chosen]
        return manifest_of_adds(adds, partition_columns, types, settings)
    pieces, starts, position = [], [0], 0
    bounds = [columns.starts.tolist() for columns, _ in parts]
    for place, row in chosen:
        first, last = bounds[place][row], bounds[place][row + 1]
        pieces.append(parts[place][0].data[first:last])
        position += last - first
        starts.append(position)
    data = b"".join(pieces)
    columns = FileColumns.of_records(data, len(chosen), schema, "a new manifest")
    return _new_manifest(data, starts, schema, columns, partition_columns, types, settings)


def _new_manifest(
    data: bytes,
    starts: list[int],
    schema: EntrySchema,
    columns: FileColumns,
    partition_columns: Sequence[str],
    types: Mapping[str, str],
    settings: Settings,
) -> NewManifest:
    blocks = [(last - first, data[starts[first] : starts[last]]) for first, last in split_blocks(starts, _BLOCK_BYTES)]
    packed = write_container(
        schema.text, blocks, codec=settings.state_compression, level=settings.state_compression_level
    )
    versions, _ = columns.longs("addedAtVersion")
    # 0 is unknown: a range that pretends to start at version 0 would be the lie that public manifests tell.
    known = versions[versions > 0]
    whole = len(known) == len(versions)
    info = ManifestInfo(
        path=new_name(literal=settings.literal),
        num_entries=len(columns),
        min_added_at_version=int(known.min()) if len(known) and whole else 0,
        max_added_at_version=int(known.max()) if len(known) else 0,
        partition_bounds=_bounds(columns, partition_columns, types),
        live_entry_count=len(columns),
    )
    return NewManifest(info, packed, columns)


def _bounds(
    columns: FileColumns, partition_columns: Sequence[str], types: Mapping[str, str]
) -> dict[str, Bounds] | None:
    if not partition_columns or not len(columns):
        return None
    found = {}
    for name in partition_columns:
        values, _ = columns.value_of("partitionValues", name).distinct()
        found[name] = Bounds(*bounds_of([None if text is None else text.decode() for text in values], types.get(name)))
    return found


def write_manifest(log: Store, made: NewManifest, cache: ManifestCache = CACHE) -> None:
    """Put a new manifest into the log; its name is random, so there is nothing to overwrite."""
    log.put(made.info.path, made.data)
    cache.put(log, made.info.path, made.columns)


def manifest_exists(log: Store, key: str) -> bool:
    """Whether a manifest is there."""
    try:
        log.head(key)
    except NotFoundError:
        return False
    return True

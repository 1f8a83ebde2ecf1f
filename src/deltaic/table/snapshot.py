"""Snapshots: the table at one version.

A snapshot is a base (the manifests of a state, or the files of a JSON checkpoint) and a tail: what the version files
after it added, and which paths they removed or replaced. Manifests are read when somebody asks for files, and only
those that are asked for.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace as changed
from numpy.typing import NDArray

from deltaic.errors import DecodeError, NotFoundError
from deltaic.storage import Store
from deltaic.table import registry as schemas
from deltaic.table.actions import AddFile, Metadata, Protocol, RemoveFile
from deltaic.table.columns import FileColumns
from deltaic.table.manifest import CACHE, ManifestCache, ManifestInfo, read_manifests
from deltaic.table.protocol import tags_of, transactions_of
from deltaic.table.state import State
from deltaic.table.values import Column, columns_of
from deltaic.table.versionfile import VersionFile

Rows: TypeAlias = NDArray[np.int64]


class Part(msgspec.Struct, frozen=True):
    """A list of files of the base: a manifest in the log, or columns that are here already."""

    info: ManifestInfo | None = None
    key: str | None = None
    columns: FileColumns | None = None


@dataclass(frozen=True)
class Snapshot:
    """The table at one version. Immutable."""

    log: Store = field(repr=False)
    version: int
    protocol: Protocol
    metadata: Metadata = field(repr=False)
    base: tuple[Part, ...] = field(repr=False, default=())
    state: State | None = field(repr=False, default=None)
    """The state that the base is of, if it is one."""
    tail: Mapping[str, AddFile] = field(repr=False, default_factory=dict)
    hidden: frozenset[str] = field(repr=False, default=frozenset())
    """Paths that are not of the base any more: tombstones, and what the tail removed or replaced."""
    schemas: Mapping[str, str] = field(repr=False, default_factory=dict)
    created_ms: int = 0
    etag: str = field(repr=False, default="", compare=False)
    """Of this version's file, where it was read or written; a writer knows by it that the file is still that one."""
    parallelism: int = field(repr=False, default=8)
    cache: ManifestCache = field(repr=False, default=CACHE, compare=False)

    def advance(self, version_file: VersionFile, created_ms: int = 0) -> "Snapshot":
        """The next snapshot: strictly line by line, so that a path may be removed and added again."""
        tail, hidden = dict(self.tail), set(self.hidden)
        protocol, metadata = self.protocol, self.metadata
        for action in version_file.actions:
            if isinstance(action, AddFile):
                hidden.add(action.path)
                tail.pop(action.path, None)
                tail[action.path] = changed(
                    action, added_at_version=version_file.version, added_at_ms=created_ms or action.modified_ms
                )
            elif isinstance(action, RemoveFile):
                hidden.add(action.path)
                tail.pop(action.path, None)
            elif isinstance(action, Metadata):
                metadata = action
            elif isinstance(action, Protocol):
                protocol = action
        return replace(
            self,
            version=version_file.version,
            protocol=protocol,
            metadata=metadata,
            tail=tail,
            hidden=frozenset(hidden),
            created_ms=max(created_ms, self.created_ms),
            etag=version_file.etag,
        )

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the schema."""
        return columns_of(self.metadata.schema_string)

    @cached_property
    def types(self) -> dict[str, str]:
        """The type of each column."""
        return {column.name: column.type for column in self.columns}

    @cached_property
    def registry(self) -> dict[str, str]:
        """The registered document mappings by bare hash."""
        return schemas.registry_of(self.schemas, self.metadata)

    @property
    def tags(self) -> dict[str, int]:
        """The tags of versions that this version knows."""
        return tags_of(self.metadata)

    @property
    def transactions(self) -> dict[str, int]:
        """The last transaction number of each application."""
        return transactions_of(self.metadata)

    @cached_property
    def tail_columns(self) -> FileColumns | None:
        """The files of the tail as columns."""
        return FileColumns.of_adds(list(self.tail.values()), f"version {self.version}") if self.tail else None

    def live(self, keep: Sequence[bool] | None = None) -> list[tuple[FileColumns, Rows]]:
        """The live rows of each part of the base, then of the tail.

        Args:
            keep: the parts of the base that are wanted, all without it; the others are not even read.
        """
        return self._all_live if keep is None else self._live(keep)

    @cached_property
    def _all_live(self) -> list[tuple[FileColumns, Rows]]:
        return self._live([True] * len(self.base))

    def _live(self, keep: Sequence[bool]) -> list[tuple[FileColumns, Rows]]:
        wanted = [part for part, kept in zip(self.base, keep, strict=True) if kept]
        read = iter(self._read([part.key for part in wanted if part.columns is None]))
        found = []
        for part in wanted:
            columns = part.columns if part.columns is not None else next(read)
            dead = columns.find(self.hidden)
            rows = np.arange(len(columns), dtype=np.int64)
            found.append((columns, np.delete(rows, dead) if len(dead) else rows))
        if self.state is not None and not self.state.own:
            found = _last_of_each_path(found)
        if self.tail_columns is not None:
            found.append((self.tail_columns, np.arange(len(self.tail_columns), dtype=np.int64)))
        return found

    def _read(self, keys: Sequence[str | None]) -> list[FileColumns]:
        wanted = [key for key in keys if key is not None]
        try:
            return read_manifests(self.log, wanted, self.parallelism, self.cache)
        except NotFoundError as error:
            raise DecodeError("MissingManifest", f"a manifest of version {self.version} is gone", str(error)) from error

    @property
    def num_files(self) -> int:
        """The number of live files."""
        return sum(len(rows) for _, rows in self.live())

    @property
    def num_records(self) -> int | None:
        """The rows of all live files, or None if a file does not tell."""
        total = 0
        for columns, rows in self.live():
            values, valid = columns.longs("numRecords")
            if not valid[rows].all():
                return None
            total += int(values[rows].sum())
        return total

    @property
    def total_bytes(self) -> int:
        """The size of all live files."""
        return sum(int(columns.longs("size")[0][rows].sum()) for columns, rows in self.live())

    def paths(self) -> list[str]:
        """The paths of all live files, in no promised order."""
        return [path for columns, rows in self.live() for path in columns.paths.texts(rows) if path is not None]

    def files(self) -> Iterator[AddFile]:
        """Every live file, in no promised order; `plan` is faster where only some are needed."""
        for columns, rows in self.live():
            yield from columns.entries(rows)

    def find(self, paths: Sequence[str] | set[str]) -> dict[str, AddFile]:
        """The live files of these paths, as far as they are."""
        wanted = frozenset(paths)
        found = {path: self.tail[path] for path in wanted & self.tail.keys()}
        rest = wanted - self.hidden
        if not rest:
            return found
        if self.state is not None and not self.state.own:
            # Only these may hold several entries of one path, of which the last counts.
            for columns, rows in self.live():
                hits = np.intersect1d(columns.find(rest), rows)
                found.update({add.path: add for add in columns.entries(hits)})
            return found
        read = iter(self._read([part.key for part in self.base if part.columns is None]))
        for part in self.base:
            columns = part.columns if part.columns is not None else next(read)
            found.update({add.path: add for add in columns.entries(columns.find(rest))})
        return found

    def document_mapping(self, add: AddFile) -> list[Any] | None:
        """The document mapping of a file, by reference or inline."""
        return schemas.resolve(add, self.registry)


def is_absolute(path: str) -> bool:
    """Whether the path of an add action leads out of the table's folder."""
    return path.startswith("/") or "://" in path


def _last_of_each_path(parts: list[tuple[FileColumns, Rows]]) -> list[tuple[FileColumns, Rows]]:
    """Of several entries of one path the last; only other writers' states have such."""
    if not parts:
        return parts
    hashes = np.concatenate([columns.hashes[rows] for columns, rows in parts])
    if len(np.unique(hashes)) == len(hashes):
        return parts
    seen: set[bytes | None] = set()
    kept = []
    for columns, rows in reversed(parts):
        paths = columns.paths
        fresh = []
        for row in reversed(rows.tolist()):
            path = paths.octets(row)
            if path not in seen:
                seen.add(path)
                fresh.append(row)
        kept.append((columns, np.array(fresh[::-1], np.int64)))
    return kept[::-1]

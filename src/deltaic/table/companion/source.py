"""Where the rows of a companion are: a folder of Parquet files, or what a Delta table says are its files.

A source lists its files; it does not say when one changed in place. `parquet.py` compares what was indexed with what is
there before it believes a row.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import unquote

import msgspec

from deltaic.errors import DecodeError, InputError
from deltaic.storage import Store, open_store
from deltaic.storage.local import LocalStore
from deltaic.storage.names import check_key
from deltaic.table.actions import NULL_PARTITION
from deltaic.table.protocol import COMPANION_KEY

DELTA_VERSION_KEY = "deltaic.companion.version"
"""The Delta version that the newest refresh saw."""


SourceKind = Literal["parquet", "delta"]
_SUFFIXES = (".parquet", ".parq")


class SourceDescription(msgspec.Struct, frozen=True):
    """What a companion keeps of its source; never credentials."""

    url: str
    kind: SourceKind
    partitions: tuple[str, ...] = ()
    """Columns whose values are in the paths, `name=value`; of a Delta table, those of its log."""
    format: int = 1

    def to_json(self) -> str:
        """The text of the configuration."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, configuration: Mapping[str, str], where: str) -> "SourceDescription":
        """The source of a table; InputError if the table is no companion."""
        text = configuration.get(COMPANION_KEY)
        if text is None:
            raise InputError(f"{where} is no companion: open it as a table")
        try:
            found = msgspec.json.decode(text, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DecodeError("BadCompanion", f"{COMPANION_KEY} is not what it must be: {error}", where) from error
        if found.format != 1:
            raise DecodeError("UnknownVersion", f"a companion of format {found.format}: update deltaic", where)
        return found


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Parquet file of a source, as its list says."""

    path: str
    size_bytes: int
    modified_us: int | None
    """None if the list knows files by name alone, because none is ever written twice."""
    etag: str | None
    partition: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listing:
    """The files of a source at one time, by path."""

    files: Mapping[str, SourceFile]
    version: int | None = None
    """Of a Delta table."""
    schema: Any = None
    """The Arrow schema, where the source has one of its own."""


class Source(Protocol):
    """What a companion is over."""

    store: Store
    description: SourceDescription

    def listing(self, version: int | None = None) -> Listing:
        """The files that there are."""
        ...


class ParquetFolder:
    """Parquet files in a folder, at any depth; names that start with `_` or `.` are not looked at."""

    def __init__(self, store: Store, description: SourceDescription) -> None:
        self.store, self.description = store, description

    def listing(self, version: int | None = None) -> Listing:
        """The files that there are now."""
        if version is not None:
            raise InputError("a folder of Parquet files has no versions")
        found = {}
        for info in self.store.list():
            *folders, name = info.key.split("/")
            if not name.lower().endswith(_SUFFIXES) or any(part.startswith(("_", ".")) for part in (*folders, name)):
                continue
            check_key(info.key)
            modified = int(info.modified.timestamp() * 1_000_000)
            partition = _partition_of(folders, self.description.partitions, info.key)
            found[info.key] = SourceFile(info.key, info.size_bytes, modified, info.etag, partition)
        return Listing(dict(sorted(found.items())))


def open_source(
    description: SourceDescription,
    given: str | os.PathLike[str] | Store | None = None,
    options: Mapping[str, object] | None = None,
) -> Source:
    """The source that a companion describes, or the same one at another place."""
    place = description.url if given is None else given
    store = open_store(place, options=options) if isinstance(place, str | os.PathLike) else place
    if description.kind == "delta":
        from deltaic.table.companion.delta import DeltaSource

        return DeltaSource(store, description, options)
    return ParquetFolder(store, description)


def describe_source(
    source: str | os.PathLike[str] | Store,
    kind: SourceKind | None,
    partitions: Sequence[str],
    options: Mapping[str, object] | None,
) -> tuple[SourceDescription, Source]:
    """A source that is to get a companion; without a kind, a folder with a Delta log is a Delta table."""
    store = open_store(source, options=options) if isinstance(source, str | os.PathLike) else source
    if kind is None:
        kind = "delta" if "_delta_log" in store.folders() else "parquet"
    if kind not in ("parquet", "delta"):
        raise InputError(f"a source is parquet or delta, not {kind!r}")
    if kind == "delta" and partitions:
        raise InputError("a Delta table says itself by which columns it is partitioned")
    description = SourceDescription(plain_url(store), kind, tuple(partitions))
    return description, open_source(description, store, options)


def plain_url(store: Store) -> str:
    """Where a store is, as `open_store` takes it."""
    if isinstance(store, LocalStore):
        return os.path.abspath(store.url.removeprefix("file://"))
    return store.url


def refuse_nesting(companion: Store, source: Store) -> None:
    """Refuse a source inside its companion: a purge there deletes what no version of the companion needs."""
    inner, outer = (_parts(plain_url(store)) for store in (source, companion))
    if inner[: len(outer)] == outer:
        raise InputError("a companion needs a folder of its own: the source may not lie inside it")


def _parts(url: str) -> tuple[str, ...]:
    return Path(os.path.realpath(url)).parts if url.startswith("/") else tuple(url.rstrip("/").split("/"))


def _partition_of(folders: Sequence[str], names: Sequence[str], path: str) -> dict[str, str | None]:
    said = dict(part.split("=", 1) for part in folders if "=" in part)
    found: dict[str, str | None] = {}
    for name in names:
        if name not in said:
            raise InputError(f"{path} is in no folder {name}=…, by which the source is partitioned")
        text = unquote(said[name])
        found[name] = None if text == NULL_PARTITION else text
    return found


def infer_partitions(listing: Listing) -> tuple[str, ...]:
    """The partition columns that the paths of all files have in common."""
    common: tuple[str, ...] | None = None
    for path in listing.files:
        names = tuple(part.split("=", 1)[0] for part in path.split("/")[:-1] if "=" in part)
        if common is not None and names != common:
            raise InputError(f"{path} has other partition columns than the files before it")
        common = names
    return common or ()

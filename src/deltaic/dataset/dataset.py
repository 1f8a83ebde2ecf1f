"""The root object: a dataset in a folder, its model, its producer, its consumers, its versions.

dataset = Dataset.create("s3://bucket/movies", Model.of(Movie))
with dataset.producer() as producer:
    producer.publish(movies)
Dataset.open("s3://bucket/movies").versions()
"""

import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec

from deltaic.dataset.description import (
    FILE_NAME,
    FORMAT,
    MAX_BYTES,
    Description,
    decode_description,
    describe,
    encode_description,
)
from deltaic.errors import (
    ChainError,
    CommitConflictError,
    CommitUnknownError,
    InputError,
    MissingExtraError,
    NotFoundError,
    SchemaError,
)
from deltaic.limits import DEFAULT_LIMITS
from deltaic.producer.producer import Producer, model_of
from deltaic.schema.evolve import compare
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.schema.schemas import SchemaSet
from deltaic.storage.announced import NUMBER_NAME, RECORD_NAME
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName, Chain
from deltaic.storage.packing import unpacked
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.wire.header import read_header

if TYPE_CHECKING:
    from deltaic.consumer.consumer import Consumer
    from deltaic.consumer.feed import ChangeFeed
    from deltaic.dataset.patching import GivenPatches
    from deltaic.dataset.publishing import EngineName, Published
    from deltaic.producer.patch_records import OnMismatch, OnMissing
    from deltaic.producer.patching import PatchReport
    from deltaic.schema.registry import Registry
    from deltaic.table.rows.table import Table
    from deltaic.table.search.result import SearchResult

CHAIN = "chain"
"""The folder of the chain inside a dataset."""

TABLE = "table"
"""The folder of the table inside a dataset."""

TYPE_KEY = "deltaic.dataset.type"
"""In the table's configuration: the type of the model whose records are its rows."""

_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_HEADER_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class DatasetVersion:
    """One version of a dataset, as the announcement and the folder tell it."""

    version: int
    announced_ms: int | None
    """None if only a Java producer announced it, or it never was."""
    channels: tuple[str, ...] = ()
    pinned: bool = False
    withdrawn: bool = False
    has_snapshot: bool = False
    size_bytes: int = 0
    """Of its listed files."""


@dataclass(frozen=True, slots=True)
class _Source:
    description: Description | None
    etag: str | None
    unknown: dict[str, Any]


class Dataset:
    """A dataset: made by `create`, opened by `open`. A bare chain has no `dataset.json` and is opened all the same."""

    def __init__(self, store: Store, model: Model | None, source: _Source) -> None:
        self.store = store
        self._given_model = model
        self._source = source
        self._table: Table | None = None
        self._publisher: tuple[dict[str, Any], Producer] | None = None
        self._registry: Registry | None = None

    @classmethod
    def create(
        cls,
        url: str | os.PathLike[str] | Store,
        model: Model | SchemaSet | type | Iterable[Any],
        *,
        name: str | None = None,
        table: bool | str = False,
        exist_ok: bool = False,
        **table_options: Any,
    ) -> "Dataset":
        """Make a dataset in a folder, which holds none yet.

        Args:
            url: the folder.
            model: the model, its schemas, or the classes it is made of.
            name: for people; the last part of the URL by default.
            table: make the table too, from which versions are published; or the name of the type that its rows have.
            exist_ok: open the dataset if there is one; its own model counts then.
            table_options: as for `create_table`.

        Raises:
            CommitConflictError: there is a dataset already.
        """
        store = _store(url)
        whole = model_of(model)
        if table_options and not table:
            raise InputError(f"{', '.join(table_options)}: only for a dataset with a table (table=True)")
        if table:
            _row_table()
            from deltaic.dataset.columns import root_type

            root_type(whole, table if isinstance(table, str) else None)  # before anything is written
        description = Description(
            FORMAT, secrets.token_hex(16), name or _default_name(store), int(time.time() * 1000), describe(whole)
        )
        data = encode_description(description)
        decode_description(data)  # what cannot be read again is not written
        try:
            etag: str | None = store.put_if_absent(FILE_NAME, data)
        except (CommitConflictError, CommitUnknownError) as error:
            found = cls._read(store)
            if found is None:
                raise
            if found._source.description is None or found._source.description.token != description.token:
                if exist_ok:
                    if table and not found.has_table:
                        found.create_table(type_name=table if isinstance(table, str) else None, **table_options)
                    return found
                raise CommitConflictError(f"{store.url} holds a dataset already: open it") from error
            etag = found._source.etag
        made = cls(store, whole, _Source(description, etag, {}))
        if table:
            made.create_table(type_name=table if isinstance(table, str) else None, **table_options)
        return made

    @classmethod
    def open(cls, url: str | os.PathLike[str] | Store) -> "Dataset":
        """Open a dataset, or a bare chain; NotFoundError if the folder holds neither."""
        store = _store(url)
        found = cls._read(store)
        if found is not None:
            return found
        if any(_exists(store, name) for name in (RECORD_NAME, NUMBER_NAME)) or Chain.read(store).versions():
            return cls(store, None, _Source(None, None, {}))
        raise NotFoundError(f"{store.url} holds neither a dataset ({FILE_NAME}) nor a chain")

    @classmethod
    def _read(cls, store: Store) -> "Dataset | None":
        try:
            blob = store.get(FILE_NAME, limit_bytes=MAX_BYTES)
        except NotFoundError:
            return None
        description, model, unknown = decode_description(blob.data, f"{store.url}/{FILE_NAME}")
        return cls(store, model, _Source(description, blob.etag, unknown))

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {self.store.url!r}{', bare chain' if self.is_bare else ''})"

    @property
    def is_bare(self) -> bool:
        """True for a chain without `dataset.json`."""
        return self._source.description is None

    @property
    def name(self) -> str:
        """The dataset's name; of a bare chain the last part of its URL."""
        return _default_name(self.store) if self._source.description is None else self._source.description.name

    @property
    def created_ms(self) -> int | None:
        """When it was made, in milliseconds since 1970; None for a bare chain."""
        return None if self._source.description is None else self._source.description.created_ms

    @property
    def chain(self) -> Store:
        """The folder of the chain."""
        return self.store if self.is_bare else self.store.child(CHAIN)

    @property
    def announcements(self) -> Announcements:
        """What is announced, pinned, on which channel."""
        return Announcements(self.chain)

    @property
    def model(self) -> Model:
        """The model. Of a bare chain that of its newest snapshot, which is looked for when it is first asked for."""
        if self._given_model is None:
            self._given_model = _model_of_chain(self.chain)
        return self._given_model

    def with_classes(self, *classes: type) -> "Dataset":
        """The same dataset with Python classes to make its records from; they must give the dataset's own types."""
        given = Model.of(*classes)
        for schema in given.schemas:
            if self.model.schemas.get(schema.name) != schema:
                raise SchemaError(
                    f"class {schema.name} is not the type {schema.name} of the dataset: evolve() changes it"
                )
        model = replace(self.model, classes=given.classes)
        return Dataset(self.store, model, self._source)

    def evolve(self, model: Model | SchemaSet | type | Iterable[Any], *, allow_breaking: bool = False) -> "Dataset":
        """The same dataset with another model, which the next version will have.

        Raises:
            SchemaError: readers that follow deltas would misread records.
            CommitConflictError: somebody else changed it meanwhile.
        """
        whole = model_of(model)
        if self._source.description is None or self._source.etag is None:
            raise InputError("a bare chain has no file that names its model: give the model to producer()")
        if not allow_breaking and (breaking := compare(self.model.schemas, whole.schemas).breaks_readers):
            raise SchemaError(f"readers would break: {'; '.join(str(change) for change in breaking)}")
        token = secrets.token_hex(16)
        description = msgspec.structs.replace(self._source.description, token=token, model=describe(whole))
        data = encode_description(description, self._source.unknown)
        try:
            etag: str | None = self.store.put_if_match(FILE_NAME, data, self._source.etag)
        except (CommitConflictError, CommitUnknownError):
            found = Dataset._read(self.store)
            if found is None or found._source.description is None or found._source.description.token != token:
                raise
            etag = found._source.etag
        evolved = Dataset(self.store, whole, _Source(description, etag, self._source.unknown))
        evolved._registry = self._registry
        from deltaic.dataset.registry import announce_fields

        announce_fields(evolved, before=self.model)
        return evolved

    @property
    def registry(self) -> "Registry":
        """The numbers of this dataset's fields, in `registry/`; fields of the model join it by themselves.

        Raises:
            RegistryError: what is stored cannot be read.
            StorageError: there are new fields and the store cannot be written.
        """
        if self._registry is None:
            from deltaic.dataset.registry import opened_registry

            self._registry = opened_registry(self)
        return self._registry

    @property
    def has_table(self) -> bool:
        """True if the dataset has a table."""
        try:
            return self.table is not None
        except NotFoundError:
            return False

    @property
    def table(self) -> "Table":
        """The table in which the rows rest.

        Raises:
            NotFoundError: the dataset is a chain without a table.
        """
        if self._table is None:
            if self.is_bare:
                raise NotFoundError(f"{self.store.url} is a bare chain: it has no table")
            try:
                self._table = _row_table().open(self.store.child(TABLE))
            except NotFoundError as error:
                raise NotFoundError(f"{self.store.url} has no table: create_table() makes one") from error
        return self._table

    @property
    def table_type(self) -> str:
        """The type whose records are the rows of the table."""
        from deltaic.dataset.columns import root_type

        found = self.table.files.snapshot().metadata.configuration.get(TYPE_KEY)
        return root_type(self.model, found)

    def create_table(self, *, type_name: str | None = None, **options: Any) -> "Table":
        """Make the table of this dataset, without rows; options as for `Table.create`.

        Columns and key come from the model.

        Args:
            type_name: the type whose records are the rows; not needed if the model has one root.
            options: as for `Table.create`: `partition_by`, `index`, `constraints`, …
        """
        if self.is_bare:
            raise InputError("a bare chain has no folder for a table: Dataset.create makes one")
        made = _row_table()
        from deltaic.dataset.columns import key_columns, root_type, table_columns

        root = root_type(self.model, type_name)
        carried = {**options.pop("configuration", {}), TYPE_KEY: root}
        options.setdefault("key", key_columns(self.model, root))
        self._table = made.create(
            self.store.child(TABLE), table_columns(self.model, root), configuration=carried, **options
        )
        return self._table

    def publish(
        self,
        *,
        version: int | None = None,
        full: bool = False,
        note: str | None = None,
        engine: "EngineName" = "auto",
        spark: Any = None,
        **producer_options: Any,
    ) -> "Published":
        """Publish what the table holds as the next version of the chain.

        Only rows that changed since the version before are read, if the type has a key. A column that the table has
        and the model has not becomes a field of the model. Nothing changed: no version.

        Args:
            version: of the table; the newest by default.
            full: read all rows, even if the changes would do.
            note: free text about the version.
            engine: `embedded` in this process, `spark` on a cluster; `auto` takes Spark if a session is given and the
                data do not fit here.
            spark: a Spark session.
            producer_options: as for `Producer`.

        Raises:
            ValidationError: two rows have one key, or a validator refused the version.
            SchemaError: the table changed in a way that deltas cannot carry.
        """
        from deltaic.dataset.publishing import grow_model, publish_table
        from deltaic.dataset.registry import announce_fields

        if spark is not None:
            producer_options.setdefault("order", "canonical")
        following, growth = grow_model(self, version)
        if growth is not None:
            self._given_model, self._source = following._given_model, following._source
        announce_fields(self, optimize=True)
        producer = self._producer_for(producer_options, changed=growth is not None)
        try:
            return publish_table(
                self,
                producer,
                version=version,
                full=full,
                note=note,
                engine=engine,
                spark=spark,
                growth=growth,
            )
        finally:
            # The lease is given back, so that others may publish; what is known of the version is kept.
            producer.close()

    def _producer_for(self, options: dict[str, Any], *, changed: bool) -> Producer:
        if self._publisher is not None and self._publisher[0] == options:
            producer = self._publisher[1]
            if changed:
                producer.change_model(self.model)
            return producer
        producer = self.producer(**options)
        self._publisher = (dict(options), producer)
        return producer

    def patch(
        self,
        patches: "GivenPatches",
        *,
        on_mismatch: "OnMismatch" = "reject",
        on_missing: "OnMissing" = "reject",
        publish: bool = True,
        note: str | None = None,
        **producer_options: Any,
    ) -> "PatchReport":
        """Change fields of records, found by key: all patches together, or none of them.

        With a table its rows are changed by one commit, and a version is published from it. Without, the patches
        become a version of the chain.

        Args:
            patches: a `PatchBatch`, `Patch`es, or the bytes of frames.
            on_mismatch: what becomes of a patch that meets another value than it expects, or no place to put its own:
                the batch is refused, or the patch is passed over.
            on_missing: the same for a patch of a record that is not there; `insert` makes the record.
            publish: of a dataset with a table: publish a version, too.
            note: free text about the version.
            producer_options: as for `Producer`.

        Raises:
            PatchConflictError: a patch was refused. Nothing was changed.
            RegistryError: a reference leads nowhere.
        """
        from deltaic.dataset.patching import patch_dataset

        producer = self._producer_for(producer_options, changed=False)
        try:
            return patch_dataset(
                self,
                patches,
                on_mismatch=on_mismatch,
                on_missing=on_missing,
                publish=publish,
                note=note,
                producer=producer,
                producer_options=producer_options,
            )
        finally:
            # The lease is given back, so that others may publish; what is known of the version is kept.
            producer.close()

    def search(self, query: Any, **options: Any) -> "SearchResult":
        """Search the newest rows of the table; options as for `Table.search`."""
        found: SearchResult = self.table.search(query, **options)
        return found

    def producer(self, model: Model | SchemaSet | type | Iterable[Any] | None = None, **options: Any) -> Producer:
        """A producer of this dataset; options as for `Producer`.

        Args:
            model: only for a bare chain, to go on with another model than that of its newest snapshot.
            options: as for `Producer`.
        """
        if model is not None and not self.is_bare:
            raise InputError("the model of a dataset is changed by evolve()")
        if not self.is_bare:
            from deltaic.dataset.registry import announce_fields

            announce_fields(self, optimize=True)
        return Producer(self.chain, self.model if model is None else model, **options)

    def consumer(self, **options: Any) -> "Consumer":
        """A consumer of this dataset; options as for `Consumer`."""
        from deltaic.consumer.consumer import Consumer

        if not self.is_bare:
            options.setdefault("table", self.store.child(TABLE))
        return Consumer(self.chain, **options)

    def changes(
        self,
        from_version: int,
        to_version: int | None = None,
        *,
        before: bool = False,
        types: Sequence[str] | None = None,
        references: bool = False,
    ) -> "ChangeFeed":
        """What changed between two versions, step by step, as patches.

        Args:
            from_version: the version before the first step.
            to_version: the version after the last one; the announced one by default. Older than `from_version`: the
                steps back.
            before: give the values before, too, as expected previous values.
            types: tell of these only; by default of those with a primary key, and of those that nobody refers to.
            references: on the wire, name fields by their numbers in `registry`: shorter, for readers who have it.

        Raises:
            ChainError: as the feed is read, if no blobs lead from the one version to the other.
        """
        from deltaic.dataset.feed import dataset_changes

        return dataset_changes(self, from_version, to_version, before=before, types=types, references=references)

    def versions(self) -> tuple[DatasetVersion, ...]:
        """The versions that are known, newest first; those that left the announcement's list by their blobs alone."""
        chain = Chain.read(self.chain)
        try:
            announcement = self.announcements.read()
        except NotFoundError:
            announcement = None
        record = announcement.record if announcement is not None else None
        number = announcement.number if announcement is not None else None
        found: dict[int, DatasetVersion] = {}
        snapshots = set(chain.snapshots)
        newest = record.versions[0].version if record is not None and record.versions else number
        for version in chain.versions():
            # What is newer than the newest announced version is on its way, or a leftover.
            if newest is not None and version <= newest:
                found[version] = DatasetVersion(version, None, has_snapshot=version in snapshots)
        for entry in record.versions if record is not None else ():
            channels = tuple(
                name for name, at in sorted((record.channels if record else {}).items()) if at == entry.version
            )
            found[entry.version] = DatasetVersion(
                entry.version,
                entry.announced_ms,
                channels,
                record is not None and record.pin == entry.version,
                entry.withdrawn,
                entry.version in snapshots,
                sum(artifact.size for artifact in entry.artifacts),
            )
        if number is not None:
            known = found.get(number, DatasetVersion(number, None))
            found[number] = replace(known, channels=("main",))
        return tuple(found[version] for version in sorted(found, reverse=True))


def _row_table() -> "type[Table]":
    try:
        from deltaic.table.rows.table import Table
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("deltaic"):
            raise
        raise MissingExtraError("the table of a dataset", "table") from None
    return Table


def open_dataset(url: str | os.PathLike[str] | Store) -> Dataset:
    """Open a dataset or a bare chain."""
    return Dataset.open(url)


def list_datasets(url: str | os.PathLike[str] | Store, *, depth: int = 3) -> Iterator[str]:
    """The datasets under a URL, as paths below it, at most so many folders deep; none inside another dataset."""
    yield from _datasets(_store(url), "", depth)


def _datasets(store: Store, prefix: str, depth: int) -> Iterator[str]:
    for folder in store.folders(prefix):
        path = f"{prefix}/{folder}" if prefix else folder
        if _exists(store, f"{path}/{FILE_NAME}"):
            yield path
        elif depth > 1:
            yield from _datasets(store, path, depth - 1)


def _store(url: str | os.PathLike[str] | Store) -> Store:
    return open_store(url) if isinstance(url, str | os.PathLike) else url


def _exists(store: Store, key: str) -> bool:
    try:
        store.head(key)
    except NotFoundError:
        return False
    return True


def _default_name(store: Store) -> str:
    last = store.url.rstrip("/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]
    name = _NAME.sub("-", last).strip("-._")[:128]
    return name or "dataset"


def _model_of_chain(store: Store) -> Model:
    """The model of the newest announced snapshot of a bare chain."""
    from deltaic.binary.cursor import Cursor

    chain, announcements = Chain.read(store), Announcements(store)
    try:
        newest = announcements.read().version()
    except NotFoundError:
        newest = None
    version = chain.snapshot_at_or_before(newest) if newest is not None else (chain.snapshots or (None,))[-1]
    if version is None:
        raise ChainError(f"{store.url} has no snapshot to take the model from")
    name = str(BlobName.snapshot(version))
    entry = announcements.entry_of(version)
    artifact = None if entry is None else entry.artifact(name)
    if artifact is None or artifact.codec is None:
        # The header with all schemas comes first; a blob is not read whole for it.
        start = store.get_range(name, 0, _HEADER_BYTES)
    else:
        packed = store.get(name, limit_bytes=artifact.size).data
        start = bytes(unpacked(packed, artifact, DEFAULT_LIMITS.max_blob_bytes)[:_HEADER_BYTES])
    header = read_header(Cursor(start, name), DEFAULT_LIMITS)
    return Model.from_schemas(SchemaSet(header.schemas), header.tags.get(TYPES_TAG, ""))

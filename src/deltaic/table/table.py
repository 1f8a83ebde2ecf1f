"""`Table`: a folder with files and a transaction log, every version readable.

    table = Table.create("s3://bucket/events", columns={"id": "long", "day": "date"}, partition_by=("day",))
    table.append([AddFile(...)], note="nightly")
    table.plan(parse_predicate("day = '2024-01-01'")).paths()
    table.at(version=3).paths()

This is the table as far as files go: which belong to it, at which version, with which statistics.
"""

import random as random_module
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from deltaic.errors import CommitConflictError, InputError, NotFoundError
from deltaic.storage import Store, open_store
from deltaic.table.actions import AddFile, Metadata, Protocol, RemoveFile, SkipFile, write_actions
from deltaic.table.changes import EVERYTHING, Changes, Everything, Isolation
from deltaic.table.log import Log
from deltaic.table.manifest import CACHE, ManifestCache
from deltaic.table.predicate import Predicate
from deltaic.table.protocol import FAMILY, FAMILY_KEY, TAG_PREFIX, check_writable, first_protocol
from deltaic.table.prune import Plan, only_partitions, plan
from deltaic.table.settings import FORM_KEY, Settings
from deltaic.table.snapshot import Snapshot, is_absolute
from deltaic.table.values import columns_of, schema_text
from deltaic.table.versionfile import pack_text, version_name

# What commits and cleans is imported where it is used: opening and planning do without it, and many only do that.
if TYPE_CHECKING:
    from deltaic.table.commit import Commit, Committer
    from deltaic.table.history import Entry, FileChanges
    from deltaic.table.repair import Repair
    from deltaic.table.retention import Purge, Truncation
    from deltaic.table.verify import Verification

_COOLDOWN_MS = 24 * 3_600_000


class Table:
    """A table at a URL. Open or create one; it can be shared between threads."""

    def __init__(
        self,
        store: Store,
        *,
        settings: Settings | None = None,
        cache: ManifestCache = CACHE,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
        random: random_module.Random | None = None,
    ) -> None:
        self.store = store
        self._given = settings or Settings()
        self._cache, self._clock, self._sleep = cache, clock, sleep
        self._random = random or random_module.Random()
        self.log = Log(store, self._given, cache=cache)
        self._last: Snapshot | None = None

    @classmethod
    def open(
        cls,
        url: str | PathLike[str] | Store,
        *,
        settings: Settings | Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        **given: Any,
    ) -> "Table":
        """Open the table at a URL; NotFoundError if there is none."""
        table = cls(_store(url, options), settings=_settings(settings), **given)
        table.snapshot()
        return table

    @classmethod
    def create(
        cls,
        url: str | PathLike[str] | Store,
        *,
        schema: str | None = None,
        columns: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        name: str | None = None,
        description: str | None = None,
        configuration: Mapping[str, str] | None = None,
        settings: Settings | Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
        protocol_version: int | None = None,
        exist_ok: bool = False,
        **given: Any,
    ) -> "Table":
        """Make a table: version 0 says what it is.

        Args:
            url: where, or a store.
            schema: Spark's JSON of the schema; or `columns`, by name and Spark type.
            columns: the columns, where no schema text is at hand.
            partition_by: the partition columns.
            name: of the table, for people.
            description: of the table, for people.
            configuration: texts that the table carries.
            settings: how the log is written.
            options: of the store.
            protocol_version: 1 to 4; 4 by default, 3 where checkpoints are JSON.
            exist_ok: open the table if there is one, instead of CommitConflictError.
            given: clock, sleep, random, cache, for tests.
        """
        if (schema is None) == (columns is None):
            raise InputError("a table needs a schema or columns, one of them")
        text = schema if schema is not None else schema_text(columns or {})
        known = {column.name for column in columns_of(text)}
        if not set(partition_by) <= known or len(set(partition_by)) != len(partition_by):
            raise InputError(f"partition columns {', '.join(partition_by)} are not all columns of the table")
        table = cls(_store(url, options), settings=_settings(settings), **given)
        chosen = table._given
        carried = {**(configuration or {}), FAMILY_KEY: FAMILY}
        if chosen.literal:
            carried[FORM_KEY] = chosen.form
        metadata = Metadata(
            id=table._new_identity(),
            schema_string=text,
            partition_columns=tuple(partition_by),
            configuration=carried,
            name=name,
            description=description,
            created_ms=table._now_ms(),
        )
        data = pack_text(
            write_actions([first_protocol(chosen, protocol_version), metadata]), compressed=chosen.compress_versions
        )
        if table.log.listing().latest is not None:
            if not exist_ok:
                raise CommitConflictError(f"there is a table at {table.store.url}")
            return table
        try:
            table.log.store.put_if_absent(version_name(0), data)
        except CommitConflictError:
            # The answer to our own request may have been lost; the id inside is random.
            if not exist_ok and table.log.version_bytes(0) != data:
                raise
        return table

    def __repr__(self) -> str:
        return f"Table({self.store.url!r})"

    @property
    def url(self) -> str:
        """Where the table is."""
        return self.store.url

    @property
    def settings(self) -> Settings:
        """The settings in effect: given ones, then those that the table carries."""
        return self._given.over((self._last or self.snapshot()).metadata.configuration)

    def snapshot(self) -> Snapshot:
        """The newest version."""
        last = self._last
        found = self.log.snapshot() if last is None else self.log.newer(last)
        self._last = found
        return found

    @property
    def version(self) -> int:
        """The number of the newest version."""
        return self.snapshot().version

    def at(
        self, *, version: int | None = None, timestamp: datetime | str | None = None, tag: str | None = None
    ) -> Snapshot:
        """The table at a version, at a time, or at a tag; the newest without any."""
        if sum(one is not None for one in (version, timestamp, tag)) > 1:
            raise InputError("a version, a timestamp or a tag: one of them")
        if tag is not None:
            tags = self.snapshot().tags
            if tag not in tags:
                raise NotFoundError(f"there is no tag {tag!r}; there are {', '.join(sorted(tags)) or 'none'}")
            version = tags[tag]
        if timestamp is not None:
            from deltaic.table.history import version_at

            version = version_at(self.log, _timestamp_ms(timestamp))
        return self.snapshot() if version is None else self.log.snapshot(version)

    def plan(self, predicate: Predicate | None = None, *, snapshot: Snapshot | None = None) -> Plan:
        """The files that may hold rows for which a predicate is true, and how they were found."""
        return plan(snapshot or self.snapshot(), predicate, self.settings)

    def files(self, predicate: Predicate | None = None) -> list[AddFile]:
        """The files of the newest version, those that may match a predicate."""
        return self.plan(predicate).files()

    def locate(self, path: str) -> tuple[Store, str]:
        """The store and key of a file of the table."""
        if not is_absolute(path):
            return self.store, path
        if not self._given.allow_absolute_paths:
            raise InputError(
                f"{ascii(path)[:120]} lies outside of the table; allow_absolute_paths follows it", "UnsafeName"
            )
        folder, _, name = path.rpartition("/")
        return open_store(folder or "/"), name

    def new_path(self, partition: Mapping[str, Any] | None = None) -> tuple[str, dict[str, str | None]]:
        """A fresh path for a file of some partition values, and their texts for its add action."""
        from deltaic.table.partitions import partition_folder, partition_texts

        snapshot = self._last or self.snapshot()
        columns = snapshot.metadata.partition_columns
        values = partition_texts(partition or {}, columns, snapshot.types)
        identity = self._new_identity()
        name = f"splits/split-{identity}.split" if self.settings.literal else f"part-{identity}.split"
        folder = partition_folder(values, columns)
        return (f"{folder}/{name}" if folder else name), values

    def append(self, files: Iterable[AddFile], **terms: Any) -> "Commit":
        """Add files. Never in conflict with other appends."""
        adds = tuple(files)
        return self.commit(lambda _: Changes("append", adds=adds), **terms)

    def overwrite(self, files: Iterable[AddFile], *, where: Predicate | None = None, **terms: Any) -> "Commit":
        """Put files in the place of all, or of those of some partitions, as they are when this commit's turn comes."""
        adds = tuple(files)

        def planned(snapshot: Snapshot) -> Changes:
            return Changes("overwrite", adds=adds, removes=self._removals(snapshot, where, keep=adds))

        return self.commit(planned, replan=True, **terms)

    def drop_partitions(self, where: Predicate, **terms: Any) -> "Commit":
        """Remove the files of some partitions, as they are when this commit's turn comes."""

        def planned(snapshot: Snapshot) -> Changes:
            return Changes("drop partitions", removes=self._removals(snapshot, where))

        return self.commit(planned, replan=True, **terms)

    def remove(
        self,
        paths: Iterable[str],
        *,
        reads: Predicate | Everything | None = None,
        data_change: bool = True,
        **terms: Any,
    ) -> "Commit":
        """Remove files by path; `reads` is what was read to know that they may go."""
        return self.rewrite(paths, (), reads=reads, data_change=data_change, operation="remove", **terms)

    def rewrite(
        self,
        removed: Iterable[str],
        added: Iterable[AddFile],
        *,
        reads: Predicate | Everything | None = None,
        data_change: bool = True,
        operation: str = "rewrite",
        **terms: Any,
    ) -> "Commit":
        """Put files in the place of others: updates and deletes of rows.

        Args:
            removed: paths that must be live.
            added: the files that take their place.
            reads: what was read to know this; rows that others add to it meanwhile are a conflict.
            data_change: False if the rows are the same.
            operation: what history says.
            terms: note, user, transaction, isolation.
        """
        paths, adds = tuple(dict.fromkeys(removed)), tuple(added)

        def planned(snapshot: Snapshot) -> Changes:
            return Changes(operation, adds=adds, removes=self._removed(snapshot, paths, data_change), reads=reads)

        return self.commit(planned, **terms)

    def merge(self, removed: Iterable[str], added: Iterable[AddFile], **terms: Any) -> "Commit":
        """Put the same rows into other files: no change of data, in conflict only with what touches those files."""
        adds = tuple(replace(add, data_change=False) for add in added)
        return self.rewrite(removed, adds, data_change=False, operation="merge", merge=True, **terms)

    def configure(self, changes: Mapping[str, str | None], **terms: Any) -> "Commit":
        """Set keys of the configuration, or remove those whose value is None. Other keys compose."""
        return self.commit(lambda _: Changes("configure", configuration=dict(changes)), **terms)

    def change_schema(
        self,
        schema: str | None = None,
        *,
        partition_by: Sequence[str] | None = None,
        name: str | None = None,
        description: str | None = None,
        **terms: Any,
    ) -> "Commit":
        """Give the table another schema, partition columns, name or description."""
        if schema is not None:
            columns_of(schema)
        partitions = None if partition_by is None else tuple(partition_by)
        wanted = Changes(
            "change schema", schema_string=schema, partition_columns=partitions, name=name, description=description
        )
        return self.commit(lambda _: wanted, **terms)

    def tag(self, name: str, version: int | None = None, **terms: Any) -> "Commit":
        """Name a version; it stays readable as long as the tag does."""
        if not name or not name.isprintable():
            raise InputError(f"{name!r} cannot be a tag")
        found = self.at(version=version)
        change = {TAG_PREFIX + name: str(found.version)}
        return self.commit(lambda _: Changes("tag", configuration=change), **terms)

    def untag(self, name: str, **terms: Any) -> "Commit":
        """Take a tag away."""
        if name not in self.snapshot().tags:
            raise NotFoundError(f"there is no tag {name!r}")
        return self.commit(lambda _: Changes("untag", configuration={TAG_PREFIX + name: None}), **terms)

    def skip(
        self,
        paths: Iterable[str],
        *,
        reason: str,
        operation: str = "merge",
        retry_after_ms: int | None = None,
        **terms: Any,
    ) -> "Commit":
        """Leave files out of an operation for a while; they stay live and readable."""
        now, wanted = self._now_ms(), tuple(paths)
        if self.snapshot().protocol.min_writer_version < 2:
            raise InputError("skips are of protocol 2 and later")
        earlier = self.skips()
        made = tuple(
            SkipFile(
                path,
                now,
                reason,
                operation,
                now + _COOLDOWN_MS if retry_after_ms is None else retry_after_ms,
                max((one.skip_count for one in earlier.get(path, ())), default=0) + 1,
            )
            for path in wanted
        )
        return self.commit(lambda _: Changes("skip", skips=made), **terms)

    def skips(self) -> dict[str, list[SkipFile]]:
        """The skips of live files that version files still tell of."""
        live = set(self.snapshot().paths())
        found: dict[str, list[SkipFile]] = {}
        for version in sorted(self.log.listing().versions):
            version_file = self.log.read_version(version)
            for skip in version_file.skips if version_file is not None else ():
                if skip.path in live:
                    found.setdefault(skip.path, []).append(skip)
        return found

    def cooling(self, now_ms: int | None = None) -> frozenset[str]:
        """The files that a skip keeps out of merges now."""
        now = self._now_ms() if now_ms is None else now_ms
        return frozenset(
            path for path, skips in self.skips().items() if any((skip.retry_after_ms or 0) > now for skip in skips)
        )

    def restore(
        self,
        *,
        version: int | None = None,
        timestamp: datetime | str | None = None,
        tag: str | None = None,
        **terms: Any,
    ) -> "Commit":
        """Make the table what it was: a new version with the files and schema of an old one."""
        old = self.at(version=version, timestamp=timestamp, tag=tag)
        wanted = {add.path: add for add in old.files()}

        def planned(snapshot: Snapshot) -> Changes:
            live = set(snapshot.paths())
            back = [add for path, add in wanted.items() if path not in live]
            self._check_there(back)
            return Changes(
                "restore",
                adds=tuple(replace(add, data_change=True) for add in back),
                removes=self._removed(snapshot, tuple(path for path in live if path not in wanted), True),
                # Said even if nothing differs now: a change that comes first must not slip in between.
                schema_string=old.metadata.schema_string,
                partition_columns=_changed(old.metadata.partition_columns, snapshot.metadata.partition_columns),
                reads=EVERYTHING,
            )

        terms.setdefault("note", f"restored version {old.version}")
        return self.commit(planned, **terms)

    def commit(
        self,
        changes: Callable[[Snapshot], Changes] | Changes,
        *,
        snapshot: Snapshot | None = None,
        isolation: Isolation | str = Isolation.SERIALIZABLE,
        note: str | None = None,
        user: Mapping[str, str] | None = None,
        transaction: tuple[str, int] | None = None,
        replan: bool = False,
        merge: bool = False,
    ) -> "Commit":
        """Commit changes, planned against a snapshot: the one they were read from, or the newest.

        Raises:
            CommitConflictError: nothing was written.
            CommitUnknownError: the store does not answer; the commit may have landed.
        """
        from deltaic.table.commit import Terms

        plan = changes if callable(changes) else (lambda _: changes)
        terms = Terms(Isolation(isolation), replan, note, dict(user or {}), transaction, merge)
        done, after = self.committer().commit(snapshot or self.snapshot(), plan, terms)
        self._last = after
        return done

    def committer(self) -> "Committer":
        """What makes this table's commits."""
        from deltaic.table.commit import Committer

        settings = self.settings
        return Committer(self.log, self.store, settings, self._clock, self._sleep, self._random)

    def checkpoint(self, *, format: str | None = None) -> "Commit":
        """Write a full state, or by `format="json"` a JSON checkpoint, of the newest version.

        A table of an older protocol becomes one of protocol 4 by an Avro checkpoint, and of protocol 3 again by a JSON
        one: each takes a commit of its own.
        """
        from deltaic.table.commit import Commit

        snapshot = self.snapshot()
        check_writable(snapshot.protocol, self.log.url)
        wanted = format or ("json" if self.settings.state_format == "json" else "avro")
        if wanted not in ("avro", "json"):
            raise InputError(f"a checkpoint is avro or json, not {wanted!r}")
        committer = self.committer()
        number = snapshot.protocol.min_reader_version
        if (wanted == "avro") != (number >= 4):
            target = Protocol(4, 4) if wanted == "avro" else Protocol(3, 3)
            self.commit(Changes("upgrade" if wanted == "avro" else "downgrade", protocol=target))
            snapshot = self.snapshot()
        if wanted == "json":
            committer.write_json_checkpoint(snapshot)
            return Commit(snapshot.version, "checkpoint", state_kind="json")
        committer._check_family(snapshot, force=False)
        kind, self._last = committer.replace_state(snapshot)
        return Commit(snapshot.version, "checkpoint", state_kind=kind)

    def history(self, *, limit: int | None = None) -> "Iterator[Entry]":
        """The versions, newest first."""
        from deltaic.table.history import history

        return history(self.log, limit=limit)

    def changes(self, from_version: int, to_version: int | None = None) -> "Iterator[FileChanges]":
        """The files that each version after one added and removed."""
        from deltaic.table.history import changes

        return changes(self.log, from_version, self.version if to_version is None else to_version)

    def versions(self) -> tuple[int, ...]:
        """The versions that can be read."""
        from deltaic.table.retention import readable_versions

        return readable_versions(self.log)

    def purge(
        self,
        *,
        file_retention_hours: float | None = None,
        log_retention_hours: float | None = None,
        dry_run: bool = True,
        limit: int = 1_000_000,
    ) -> "Purge":
        """Delete what no version in the window needs; only tells what, unless `dry_run=False`."""
        from deltaic.table.retention import purge

        return purge(
            self.store,
            self.log,
            self.committer(),
            now_ms=self._now_ms(),
            file_retention_hours=file_retention_hours,
            log_retention_hours=log_retention_hours,
            dry_run=dry_run,
            limit=limit,
        )

    def truncate(self, *, dry_run: bool = True) -> "Truncation":
        """Forget all versions but the newest and the tagged ones; only tells which, unless `dry_run=False`."""
        from deltaic.table.retention import truncate

        found = truncate(self.log, self.committer(), dry_run=dry_run)
        self._last = None
        return found

    def adopt(self) -> "Commit":
        """Make another family's table one of ours; see `repair.adopt`."""
        from deltaic.table.repair import adopt

        done = adopt(self)
        self._last = None
        return done

    def repair(self, *, drop_missing: bool = False, dry_run: bool = True) -> "Repair":
        """Put the table right after damage; only tells what, unless `dry_run=False`."""
        from deltaic.table.repair import repair

        return repair(self, drop_missing=drop_missing, dry_run=dry_run)

    def repair_to(self, target: str | PathLike[str] | Store) -> "Repair":
        """Write a new log elsewhere of the files that are there."""
        from deltaic.table.repair import repair_to

        return repair_to(self, _store(target, None))

    def verify(
        self, *, files: bool = True, bounds: Callable[[AddFile], Mapping[str, tuple[Any, Any]]] | None = None
    ) -> "Verification":
        """Look whether the log is dense, its states are true, files are there and have their sizes."""
        from deltaic.table.verify import verify_table

        return verify_table(self.store, self.log, self.settings, files=files, bounds=bounds)

    def _removals(
        self, snapshot: Snapshot, where: Predicate | None, keep: Sequence[AddFile] = ()
    ) -> tuple[RemoveFile, ...]:
        kept = {add.path for add in keep}
        if where is not None and not only_partitions(where, snapshot.metadata.partition_columns):
            raise InputError("only partition columns say of whole files whether they match; rewrite is for rows")
        found = plan(snapshot, where, self.settings).files()
        return tuple(self._removal(add, True) for add in found if add.path not in kept)

    def _removed(self, snapshot: Snapshot, paths: tuple[str, ...], data_change: bool) -> tuple[RemoveFile, ...]:
        live = snapshot.find(set(paths))
        missing = [path for path in paths if path not in live]
        if missing:
            raise CommitConflictError(f"{missing[0]} is not in version {snapshot.version}; nothing was written")
        return tuple(self._removal(live[path], data_change) for path in paths)

    def _removal(self, add: AddFile, data_change: bool) -> RemoveFile:
        return RemoveFile(add.path, self._now_ms(), data_change, add.partition_values, add.size_bytes)

    def _check_there(self, adds: Sequence[AddFile]) -> None:
        for add in adds:
            store, key = self.locate(add.path)
            try:
                store.head(key)
            except NotFoundError as error:
                raise NotFoundError(f"{add.path} of that version is gone: it cannot be restored") from error

    def _new_identity(self) -> str:
        import uuid

        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _changed(old: Any, now: Any) -> Any:
    return None if old == now else old


def _store(url: str | PathLike[str] | Store, options: Mapping[str, object] | None) -> Store:
    if isinstance(url, str | PathLike):
        return open_store(url, options=options)
    return url


def _settings(settings: Settings | Mapping[str, object] | None) -> Settings:
    if settings is None or isinstance(settings, Settings):
        return settings or Settings()
    return Settings.of(settings)


def _timestamp_ms(timestamp: datetime | str) -> int:
    if isinstance(timestamp, str):
        try:
            timestamp = datetime.fromisoformat(timestamp)
        except ValueError:
            raise InputError(f"{timestamp!r} is no time; write 2024-01-31T12:00:00+00:00") from None
    if timestamp.tzinfo is None:
        timestamp = timestamp.replace(tzinfo=UTC)
    return int(timestamp.timestamp() * 1000)

"""What changes a table, by name: append, overwrite, merge, tag, restore, …; each is one commit.

An operation says what it does to a snapshot as `Changes`; `commit` brings it about against other writers.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from deltaic.errors import CommitConflictError, InputError, NotFoundError
from deltaic.table.actions import AddFile, RemoveFile, SkipFile
from deltaic.table.changes import EVERYTHING, Changes, Everything, Isolation
from deltaic.table.predicate import Predicate
from deltaic.table.protocol import TAG_PREFIX
from deltaic.table.prune import only_partitions, plan
from deltaic.table.snapshot import Snapshot
from deltaic.table.values import columns_of
from deltaic.table.versions import TableVersions

# What commits is imported where it is used: opening and planning do without it, and many only do that.
if TYPE_CHECKING:
    from deltaic.table.commit import Commit, Committer

_COOLDOWN_MS = 24 * 3_600_000


class TableOperations(TableVersions):
    """A table as far as commits go: the operations on its files and on its metadata."""

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
        from deltaic.table.admission import check_keys

        check_keys(changes, self.snapshot().metadata.configuration)
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
        tried: set[str] = set()

        def planned(against: Snapshot) -> Changes:
            made = plan(against)
            tried.update(add.path for add in made.adds)
            return made

        new_paths = frozenset(self._handed_out)
        terms = Terms(Isolation(isolation), replan, note, dict(user or {}), transaction, merge, new_paths)
        newest = self.snapshot()
        behind = snapshot is not None and snapshot.version < newest.version
        try:
            done, after = self.committer().commit(snapshot or newest, planned, terms, behind=behind)
        finally:
            # New once only: a commit whose outcome stayed unknown may have put them into the table.
            self._handed_out -= tried
        self._last = after
        return done

    def committer(self) -> "Committer":
        """What makes this table's commits."""
        from deltaic.table.commit import Committer

        settings = self.settings
        return Committer(self.log, self.store, settings, self._clock, self._sleep, self._random)

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


def _changed(old: Any, now: Any) -> Any:
    return None if old == now else old

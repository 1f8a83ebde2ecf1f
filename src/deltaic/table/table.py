"""`Table`: a folder with files and a transaction log, every version readable.

    table = Table.create("s3://bucket/events", columns={"id": "long", "day": "date"}, partition_by=("day",))
    table.append([AddFile(...)], note="nightly")
    table.plan(parse_predicate("day = '2024-01-01'")).paths()
    table.at(version=3).paths()

Here a table is made, opened and kept in order; `versions` is what it reads and `operations` what it commits.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from deltaic.errors import CommitConflictError, InputError
from deltaic.storage import Store, open_store
from deltaic.table.actions import AddFile, Metadata, Protocol
from deltaic.table.changes import Changes
from deltaic.table.operations import TableOperations
from deltaic.table.protocol import FAMILY, FAMILY_KEY, check_writable, first_protocol
from deltaic.table.settings import FORM_KEY, Settings
from deltaic.table.values import schema_text
from deltaic.table.versionfile import pack_text, version_name

# What cleans is imported where it is used: opening and planning do without it, and many only do that.
if TYPE_CHECKING:
    from deltaic.table.commit import Commit
    from deltaic.table.repair import Repair
    from deltaic.table.retention import Purge, Truncation
    from deltaic.table.verify import Verification


class Table(TableOperations):
    """A table at a URL. Open or create one; it can be shared between threads."""

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
        from deltaic.table.admission import admitted_text, check_metadata

        check_metadata(metadata)
        first = admitted_text([first_protocol(chosen, protocol_version), metadata], f"a table at {table.store.url}")
        data = pack_text(first, compressed=chosen.compress_versions)
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


def _store(url: str | PathLike[str] | Store, options: Mapping[str, object] | None) -> Store:
    if isinstance(url, str | PathLike):
        return open_store(url, options=options)
    return url


def _settings(settings: Settings | Mapping[str, object] | None) -> Settings:
    if settings is None or isinstance(settings, Settings):
        return settings or Settings()
    return Settings.of(settings)

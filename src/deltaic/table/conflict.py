"""Conflicts: whether what another writer committed meanwhile lets our commit stand.

Decided by what was read and written, not by order alone. With *winner* the commit that was first and *ours* the one
that wants to follow it:

    files       a path that we remove or replace was removed or replaced, or a path that we add was added: conflict
    reads       (serializable only) the winner added rows to what we read, or removed some that we read: conflict.
                A merge moves rows and changes none: it conflicts with nothing but the files that it moved
    metadata    keys of the configuration compose; one key with two values is a conflict; so are two schemas
    schema      new nullable columns let files written without them stand; any other change does not
    protocol    a newer protocol is refused if we do not know it; two changes of it are a conflict

Operations that are defined by the table's content at their turn (overwrite, drop partitions) are not checked but
planned again.
"""

from msgspec.structs import replace

from deltaic.errors import CommitConflictError
from deltaic.table.actions import Metadata
from deltaic.table.changes import Changes, Everything, Isolation
from deltaic.table.protocol import check_writable, of_one_commit
from deltaic.table.prune import may_contain_any
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Snapshot
from deltaic.table.values import columns_of
from deltaic.table.versionfile import VersionFile


def check(
    ours: Changes, before: Snapshot, winner: VersionFile, *, isolation: Isolation, settings: Settings, where: str
) -> None:
    """Raise CommitConflictError if the winner's commit on `before` does not let ours follow."""
    clash = _Clash(winner.version, ours.operation)
    if winner.protocol is not None and winner.protocol != before.protocol:
        check_writable(winner.protocol, where)
        if ours.protocol is not None and ours.protocol != winner.protocol:
            raise clash("both change the protocol")
    _check_files(ours, winner, clash)
    if winner.metadata is not None:
        _check_metadata(ours, before.metadata, winner.metadata, clash)
    if ours.schema_string is not None and winner.adds and not _extends(before.metadata, ours.schema_string):
        raise clash("it added files of the schema that this commit changes")
    if ours.partition_columns is not None and winner.adds:
        raise clash("it added files by the partition columns that this commit changes")
    if isolation is Isolation.SERIALIZABLE and ours.reads is not None:
        _check_reads(ours, before, winner, settings, clash)


class _Clash:
    def __init__(self, version: int, operation: str) -> None:
        self._version, self._operation = version, operation

    def __call__(self, why: str) -> CommitConflictError:
        return CommitConflictError(f"{self._operation} meets version {self._version}: {why}; read again, then retry")


def _check_files(ours: Changes, winner: VersionFile, clash: _Clash) -> None:
    removed = {action.path for action in winner.removes}
    added = {action.path for action in winner.adds}
    for remove in ours.removes:
        if remove.path in removed:
            raise clash(f"{remove.path} was removed")
        if remove.path in added:
            raise clash(f"{remove.path} was replaced")
    for add in ours.adds:
        if add.path in added or add.path in removed:
            raise clash(f"{add.path} was written by both")


def _check_metadata(ours: Changes, before: Metadata, after: Metadata, clash: _Clash) -> None:
    for key, value in ours.configuration.items():
        if of_one_commit(key):
            continue
        old, new = before.configuration.get(key), after.configuration.get(key)
        if new != old and new != value:
            raise clash(f"both set {key}")
    for name in ("name", "description"):
        wanted, old, new = getattr(ours, name), getattr(before, name), getattr(after, name)
        if wanted is not None and new not in (old, wanted):
            raise clash(f"both set the table's {name}")
    if after.schema_string != before.schema_string:
        if ours.schema_string is not None and ours.schema_string != after.schema_string:
            raise clash("both change the schema")
        if ours.adds and not _extends(before, after.schema_string):
            raise clash("it changed the schema by which the files were written")
    if after.partition_columns != before.partition_columns:
        if ours.partition_columns is not None and ours.partition_columns != after.partition_columns:
            raise clash("both change the partition columns")
        if ours.adds:
            raise clash("it changed the partition columns by which the files were written")


def _extends(before: Metadata, schema_string: str) -> bool:
    """Whether a schema has only new nullable columns beside those it had."""
    if schema_string == before.schema_string:
        return True
    old = {column.name: column for column in columns_of(before.schema_string)}
    new = {column.name: column for column in columns_of(schema_string)}
    if any(new.get(name) != column for name, column in old.items()):
        return False
    return all(column.nullable for name, column in new.items() if name not in old)


def _check_reads(ours: Changes, before: Snapshot, winner: VersionFile, settings: Settings, clash: _Clash) -> None:
    # dataChange is false on both sides of a merge: the same rows in other files.
    added = [add for add in winner.adds if add.data_change]
    removed = [remove for remove in winner.removes if remove.data_change]
    if isinstance(ours.reads, Everything):
        if added or removed:
            raise clash("it changed rows of the table, all of which were read")
        return
    assert ours.reads is not None
    if added and may_contain_any(added, ours.reads, before, settings).any():
        raise clash("it added rows that may be among those that were read")
    if removed:
        gone = list(before.find({remove.path for remove in removed}).values())
        if gone and may_contain_any(gone, ours.reads, before, settings).any():
            raise clash("it removed rows that may be among those that were read")


def composed(metadata: Metadata, ours: Changes) -> Metadata:
    """The newest metadata with our changes on top."""
    found = metadata.configured(ours.configuration)
    if ours.schema_string is not None:
        found = replace(found, schema_string=ours.schema_string)
    if ours.partition_columns is not None:
        found = replace(found, partition_columns=ours.partition_columns)
    if ours.name is not None:
        found = replace(found, name=ours.name)
    return found if ours.description is None else replace(found, description=ours.description)

"""Putting a table right: adopting another family's, standing up after damage, a new log for what is left."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from deltaic.errors import CommitConflictError, DecodeError, InputError
from deltaic.storage import Store
from deltaic.table.actions import AddFile, RemoveFile, write_actions
from deltaic.table.changes import Changes
from deltaic.table.commit import Commit, Terms, writes_json
from deltaic.table.log import FOLDER, Log
from deltaic.table.protocol import FAMILY, FAMILY_KEY, OPERATION_KEY, check_writable, is_ours, lasting
from deltaic.table.snapshot import Snapshot, is_absolute
from deltaic.table.versionfile import VersionFile, pack_text, version_name

if TYPE_CHECKING:
    from deltaic.table.table import Table


@dataclass(frozen=True, slots=True)
class Repair:
    """What a repair did, or would do."""

    dry_run: bool
    version: int
    missing_files: tuple[str, ...]
    actions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def adopt(table: "Table") -> Commit:
    """Make a table one of ours, so that commits are version files from now on.

    Tables of the first generation commit by states: the new state takes the next number first, which no other state can
    then have, and the version file of that number follows. A crash in between is made up by running this again. The old
    writers must have been stopped: nothing tells them.
    """
    snapshot = table.snapshot()
    check_writable(snapshot.protocol, table.log.url)
    if is_ours(snapshot.metadata) and table.log.version_bytes(snapshot.version) is not None:
        return Commit(snapshot.version, "adopt", repeated=True)
    committer = table.committer()
    by_states = snapshot.state is not None and snapshot.state.version == snapshot.version and not snapshot.state.own
    if not by_states or table.log.version_bytes(snapshot.version) is not None:
        done, _ = committer.commit(
            snapshot, lambda _: Changes("adopt", configuration={FAMILY_KEY: FAMILY}), Terms(force=True)
        )
        return done
    version = snapshot.version + 1
    told = {**lasting(snapshot.metadata.configuration), FAMILY_KEY: FAMILY, OPERATION_KEY: "adopt"}
    metadata = replace(snapshot.metadata, configuration=told)
    actions = (snapshot.protocol, metadata)
    after = snapshot.advance(VersionFile(version, actions))
    kind, _ = committer.write_state(after, force_full=True)
    data = pack_text(write_actions(actions), compressed=committer.settings.compress_versions)
    try:
        table.log.store.put_if_absent(version_name(version), data)
    except CommitConflictError:
        if table.log.version_bytes(version) != data:
            raise
    return Commit(version, "adopt", state_kind=kind)


def repair(table: "Table", *, drop_missing: bool = False, dry_run: bool = True) -> Repair:
    """Bring a table to where it can be read and written again; if asked, without the files that are lost."""
    snapshot = table.snapshot()
    actions = []
    try:
        snapshot.live()
        state = table.log.state(snapshot.version) if snapshot.version else None
        unreadable = False
    except DecodeError:
        # A manifest is damaged or gone: version files tell the same, as long as they are all there.
        snapshot, state, unreadable = table.log.snapshot(snapshot.version, replay=True), None, True
        actions.append(f"rebuild the state of version {snapshot.version} from version files")
    missing = missing_files(table.store, snapshot)
    foreign = state is not None and not state.own and is_ours(snapshot.metadata)
    if foreign:
        actions.append(f"commit on top of another writer's state under version {snapshot.version}")
    if missing and drop_missing:
        actions.append(f"remove {len(missing)} files that are gone")
    stateless = state is None and snapshot.version > 0 and not unreadable and not writes_json(snapshot, table.settings)
    if stateless and not (missing and drop_missing):
        actions.append(f"write the state of version {snapshot.version}")
    if dry_run:
        return Repair(True, snapshot.version, tuple(add.path for add in missing), tuple(actions))
    committer = table.committer()
    if unreadable:
        _, snapshot = committer.replace_state(snapshot)
    if foreign or (missing and drop_missing):
        lost = tuple(
            RemoveFile(add.path, table._now_ms(), True, add.partition_values, add.size_bytes) for add in missing
        )

        def planned(_: Snapshot) -> Changes:
            return Changes("repair", removes=lost if drop_missing else ())

        _, after = committer.commit(snapshot, planned, Terms(force=True, note="repaired"))
    elif stateless:
        _, after = committer.finish(snapshot, "repair", 1, force_full=True)
    else:
        after = snapshot
    table._last = None
    return Repair(False, after.version, tuple(add.path for add in missing), tuple(actions))


def repair_to(table: "Table", target: Store) -> Repair:
    """Write a new log elsewhere, of the files that are there: version 0 and 1, uncompressed, as plain as can be.

    The files stay where they are; copy them beside the new log, or the log beside them.
    """
    snapshot = table.snapshot()
    log = Log(target)
    if log.listing().latest is not None:
        raise InputError(f"there is a log at {target.url} already")
    missing = {add.path for add in missing_files(table.store, snapshot)}
    kept: list[AddFile] = [add for add in snapshot.files() if add.path not in missing]
    metadata = snapshot.metadata.configured({FAMILY_KEY: FAMILY})
    folder = target.child(FOLDER)
    folder.put_if_absent(version_name(0), write_actions([snapshot.protocol, metadata]))
    folder.put_if_absent(version_name(1), write_actions(kept))
    return Repair(False, 1, tuple(sorted(missing)), (f"kept {len(kept)} files",))


def missing_files(store: Store, snapshot: Snapshot) -> list[AddFile]:
    """The live files that are not in the table's folder."""
    there = {info.key for info in store.list() if not info.key.startswith(f"{FOLDER}/")}
    return [add for add in snapshot.files() if not is_absolute(add.path) and add.path not in there]

"""Commits: one put-if-absent of the next version file, then the state and the hint.

    plan against the newest snapshot → put N.json if absent → committed
                     ↑                        │ conflict: is it ours? else read the winners,
                     └── wait, a random share ┘           check (conflict.py), try N+1

Three outcomes. *Committed*: a `Commit`. *Conflict*: CommitConflictError, nothing was written. *Unknown*:
CommitUnknownError, the store does not answer and the version may be there or come. After an answer that got lost, the
version file is read back and compared with our bytes; as long as it is not there the same bytes are put again, so that
a request that arrives late meets its own content. Files of a commit are never deleted here, least of all after an
unknown outcome.

What follows the version file cannot fail the commit: a missing state is made up by the next writer, and readers replay.
"""

import logging
import random as random_module
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from msgspec.structs import replace as changed

from deltaic.errors import (
    CommitConflictError,
    CommitUnknownError,
    DecodeError,
    DeltaicError,
    InputError,
    NotFoundError,
    StorageError,
)
from deltaic.storage import Store
from deltaic.table.actions import Action
from deltaic.table.admission import admitted_text, check_files, check_metadata, check_terms
from deltaic.table.changes import Changes, Isolation
from deltaic.table.checkpoint import AVRO_FORMAT, Hint, JsonCheckpoint, write_checkpoint, write_hint
from deltaic.table.compaction import NewState, build_state
from deltaic.table.conflict import check, composed
from deltaic.table.log import Log
from deltaic.table.manifest import manifest_exists, write_manifest
from deltaic.table.protocol import (
    FAMILY,
    FAMILY_KEY,
    NOTE_KEY,
    OPERATION_KEY,
    TOKEN_KEY,
    TRANSACTION_PREFIX,
    USER_PREFIX,
    check_writable,
    is_ours,
    lasting,
)
from deltaic.table.registry import PREFIX, referenced
from deltaic.table.settings import Settings
from deltaic.table.snapshot import Part, Snapshot, is_absolute
from deltaic.table.state import encode_state
from deltaic.table.versionfile import VersionFile, pack_text, version_name

log = logging.getLogger("deltaic.table")

_READ_BACKS = 5
# What history reads off the actions needs no metaData action, which repeats the whole schema.
_TOLD_BY_FILES = ("append", "merge", "rewrite", "remove", "skip")


@dataclass(frozen=True, slots=True)
class Commit:
    """What became of a commit that is in the table."""

    version: int
    operation: str
    attempts: int = 1
    repeated: bool = False
    """The application's transaction was in the table already; nothing was written."""
    state_kind: str | None = None
    """How the state after it was written, or None if it was not."""
    state_problem: str | None = None
    """Why not. The commit is in the table all the same; readers of older generations see it with the next state."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How a commit is made: what it carries beside its changes, and when it may be overtaken."""

    isolation: Isolation = Isolation.SERIALIZABLE
    replan: bool = False
    """Plan again instead of checking for conflicts: the operation is about the table as it is at its turn."""
    note: str | None = None
    user: Mapping[str, str] = field(default_factory=dict)
    transaction: tuple[str, int] | None = None
    """Application and number: a transaction whose number is not above the application's last is not repeated."""
    merge: bool = False
    new_paths: frozenset[str] = frozenset()
    """Paths of files to add whose names were made for this commit: no version can hold them yet."""
    force: bool = False
    """Write over the refusal to write a damaged table; for repairs."""


@dataclass
class Committer:
    """Makes the commits of one table."""

    log: Log
    files: Store
    settings: Settings
    clock: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    random: random_module.Random = field(default_factory=random_module.Random)

    def commit(
        self, snapshot: Snapshot, plan: Callable[[Snapshot], Changes], terms: Terms, *, behind: bool = False
    ) -> tuple[Commit, Snapshot]:
        """Commit what `plan` makes of a snapshot, and give the snapshot after it.

        Args:
            snapshot: what the commit is planned on.
            plan: makes the changes.
            terms: how the commit is made.
            behind: others have committed since that snapshot.

        Raises:
            CommitConflictError: another commit does not let this one follow, or too many came first.
            CommitUnknownError: the store did not answer; the message has the version and the token.
        """
        token = secrets.token_hex(16)
        check_terms(terms.note, terms.user, terms.transaction)
        changes = plan(snapshot)
        check_files(changes.adds, snapshot, self.settings)
        self._check_old_files(changes)
        snapshot, cut_off = self._anchored(snapshot)
        if behind or cut_off:
            snapshot = self._after_winners(snapshot, changes, terms, taken=False)
            changes = plan(snapshot) if terms.replan else changes
        for attempt in range(1, self.settings.retry_max_attempts + 1):
            self._check_family(snapshot, force=terms.force)
            if self._repeated(snapshot, terms):
                return Commit(snapshot.version, changes.operation, attempt, repeated=True), snapshot
            actions = self._actions(snapshot, changes, terms, token)
            text = admitted_text(actions, f"{changes.operation} to {self.log.url}")
            data = pack_text(text, compressed=self.settings.compress_versions, token=token)
            version = snapshot.version + 1
            etag = self._put(version, data, token)
            if etag is not None:
                self._check_followed(snapshot, changes, terms, token)
                committed = VersionFile(version, tuple(actions), len(data), etag)
                # Times of versions never go back, whatever the writers' clocks say: time travel looks by halving.
                after = snapshot.advance(committed, max(self._now_ms(), snapshot.created_ms + 1))
                return self.finish(
                    after, changes.operation, attempt, after_merge=terms.merge, new_paths=terms.new_paths
                )
            snapshot = self._after_winners(snapshot, changes, terms, taken=True)
            if terms.replan:
                changes = plan(snapshot)
            if attempt < self.settings.retry_max_attempts:
                self.sleep(self._delay_seconds(attempt))
        attempts = self.settings.retry_max_attempts
        raise CommitConflictError(
            f"{changes.operation}: {attempts} times another commit came first; nothing was written"
        )

    def _anchored(self, snapshot: Snapshot) -> tuple[Snapshot, bool]:
        """The snapshot with the etag of its version file, and whether the log goes on elsewhere.

        Asked in this order: a clean-up moves the hint before it deletes, so that what was there while the hint had not
        moved is the file that the snapshot is of. Only the first commit on a state that was read needs to ask.
        """
        if snapshot.etag:
            return snapshot, False
        etag = self.log.version_etag(snapshot.version)
        return replace(snapshot, etag=etag or ""), self.log.is_cut_off(snapshot)

    def _check_family(self, snapshot: Snapshot, *, force: bool) -> None:
        check_writable(snapshot.protocol, self.log.url)
        if force:
            return
        state = snapshot.state
        if state is not None and state.version == snapshot.version:
            if state.own:
                return
        elif snapshot.version and is_ours(snapshot.metadata):
            state = self.log.state(snapshot.version)
            if state is not None and not state.own:
                reason = f"version {snapshot.version} of {self.log.url} has a state of another writer under our number"
                raise InputError(
                    f"{reason}: look with `deltaic table verify`, then `deltaic table repair`", "ForeignState"
                )
            return
        else:
            return
        if self.log.version_bytes(snapshot.version) is None:
            reason = f"{self.log.url} is committed to by states alone, by another family of writers"
            raise InputError(f"{reason}: stop those, then run `deltaic table adopt`", "NotAdopted")

    def _check_old_files(self, changes: Changes) -> None:
        """Files that waited long for their commit may have been cleaned up: look before the table refers to them."""
        oldest_ms = self._now_ms() - self.settings.file_retention_hours * 1_800_000
        for add in changes.adds:
            if add.modified_ms < oldest_ms and not is_absolute(add.path):
                try:
                    self.files.head(add.path)
                except NotFoundError as error:
                    raise NotFoundError(f"{add.path} waited too long for its commit and is gone") from error

    def _repeated(self, snapshot: Snapshot, terms: Terms) -> bool:
        if terms.transaction is None:
            return False
        application, number = terms.transaction
        last = snapshot.transactions.get(application)
        return last is not None and last >= number

    def _actions(self, snapshot: Snapshot, changes: Changes, terms: Terms, token: str) -> list[Action]:
        """The lines of the version file."""
        adds = list(changes.adds)
        own: dict[str, str | None] = dict(changes.configuration)
        protocol = changes.protocol or snapshot.protocol
        if protocol.min_writer_version >= 3:
            adds, schemas = referenced(adds, snapshot.registry)
            own |= {PREFIX + reference: text for reference, text in schemas.items()}
        if terms.transaction is not None:
            own[TRANSACTION_PREFIX + terms.transaction[0]] = str(terms.transaction[1])
        if not is_ours(snapshot.metadata):
            own[FAMILY_KEY] = FAMILY
        of_this: dict[str, str | None] = {USER_PREFIX + key: value for key, value in terms.user.items()}
        if terms.note is not None:
            of_this[NOTE_KEY] = terms.note
        if changes.operation not in _TOLD_BY_FILES:
            of_this[OPERATION_KEY] = changes.operation
        bare = not adds and not changes.removes
        if bare or not self.settings.compress_versions:
            of_this[TOKEN_KEY] = token
        actions: list[Action] = [] if changes.protocol is None else [changes.protocol]
        if own or of_this or changes.touches_metadata:
            of_this[OPERATION_KEY] = changes.operation
            kept = changed(snapshot.metadata, configuration=lasting(snapshot.metadata.configuration))
            metadata = composed(kept, changed(changes, configuration={**own, **of_this}))
            if changes.schema_string is not None or changes.partition_columns is not None:
                check_metadata(metadata)
            actions.append(metadata)
        return [*actions, *changes.removes, *adds, *changes.skips]

    def _put(self, version: int, data: bytes, token: str) -> str | None:
        """Put a version file and give its etag, empty if it is not known; None if another commit has the version."""
        name = version_name(version)
        for attempt in range(1, self.settings.retry_max_attempts + 1):
            try:
                return self.log.store.put_if_absent(name, data)
            except CommitConflictError:
                # A client below may have repeated a request of ours whose answer was lost.
                return "" if self._read_back(version, token) == data else None
            except CommitUnknownError as error:
                found = self._read_back(version, token)
                if found is not None:
                    return "" if found == data else None
                if attempt == self.settings.retry_max_attempts:
                    raise self._unknown(version, token) from error
            self.sleep(self._delay_seconds(attempt))
        raise self._unknown(version, token)

    def _check_followed(self, snapshot: Snapshot, changes: Changes, terms: Terms, token: str) -> None:
        """Whether the version file stands behind the one that it was planned on.

        A clean-up that ran since may have deleted the version files that took our number long ago: the name is free
        again, and a commit under it would be seen by nobody. It deletes the oldest first: as long as the predecessor is
        there, the very file that was read, our name was never free.
        """
        for attempt in range(1, _READ_BACKS + 1):
            try:
                if self._stands(snapshot, changes, terms):
                    return
                break
            except (StorageError, DecodeError) as error:
                # The version file is written: whatever fails from here on is no refusal.
                if attempt == _READ_BACKS:
                    raise self._unknown(snapshot.version + 1, token) from error
            self.sleep(self._delay_seconds(attempt))
        raise self._unknown(snapshot.version + 1, token)

    def _stands(self, before: Snapshot, changes: Changes, terms: Terms) -> bool:
        if before.etag and self.log.version_etag(before.version) == before.etag:
            return True
        hint = self.log.hint()
        if hint is not None and hint.version <= before.version + 1:
            return True
        # The predecessor was cleaned up, before our commit or after it: what the newest version has of ours tells.
        newest = self.log.snapshot()
        if newest.version == before.version + 1:
            return True
        if terms.transaction is not None:
            return self._repeated(newest, terms)
        return bool(changes.adds) and len(newest.find({add.path for add in changes.adds})) == len(changes.adds)

    def _read_back(self, version: int, token: str) -> bytes | None:
        for attempt in range(1, _READ_BACKS + 1):
            try:
                return self.log.version_bytes(version)
            except StorageError as error:
                if attempt == _READ_BACKS:
                    raise self._unknown(version, token) from error
            self.sleep(self._delay_seconds(attempt))
        raise self._unknown(version, token)

    def _unknown(self, version: int, token: str) -> CommitUnknownError:
        return CommitUnknownError(f"version {version} of {self.log.url} may or may not be written (token {token})")

    def _after_winners(self, snapshot: Snapshot, changes: Changes, terms: Terms, *, taken: bool) -> Snapshot:
        """The newest snapshot, once every commit in between was found to let ours follow."""
        seen = snapshot
        while True:
            winner = self.log.read_version(seen.version + 1)
            if winner is None:
                if self.log.is_cut_off(seen):
                    newest = self.log.snapshot()
                    if newest.version > seen.version and self.log.version_etag(seen.version + 1) is None:
                        return self._across_cut(snapshot, newest, changes, terms)
                    if newest.version > seen.version:
                        continue
                break
            isolation = Isolation.SNAPSHOT if terms.replan else terms.isolation
            checked = changed(changes, removes=(), adds=changes.adds) if terms.replan else changes
            check(checked, seen, winner, isolation=isolation, settings=self.settings, where=self.log.url)
            seen = seen.advance(winner)
        if seen.version == snapshot.version:
            if not taken:
                return snapshot  # the hint runs ahead of the log
            raise StorageError(f"version {seen.version + 1} of {self.log.url} is taken but cannot be read")
        # The winner's state may be there by now: replaying from it keeps the tail short.
        state = self.log.written_state(seen.version, literal=self.settings.literal)
        if state is not None and state.own and state.metadata is not None:
            parts = tuple(Part(i, k) for i, k in zip(state.manifests, state.manifest_keys(), strict=True))
            hidden, created_ms = frozenset(state.tombstones), max(state.created_ms, seen.created_ms)
            return replace(
                seen, base=parts, state=state, tail={}, hidden=hidden, schemas=state.schemas, created_ms=created_ms
            )
        return seen

    def _across_cut(self, snapshot: Snapshot, newest: Snapshot, changes: Changes, terms: Terms) -> Snapshot:
        """The newest snapshot, where the version files up to it are gone: what it differs by must tell enough."""
        blind = not changes.removes and (changes.reads is None or terms.isolation is Isolation.SNAPSHOT)
        if not terms.replan and not blind:
            reason = f"versions after {snapshot.version} of {self.log.url} were cleaned up"
            raise CommitConflictError(
                f"{changes.operation}: {reason}: nobody can tell whether they clash; read again, then retry"
            )
        actions: tuple[Action, ...] = (newest.metadata,)
        if newest.protocol != snapshot.protocol:
            actions = (newest.protocol, newest.metadata)
        checked = changed(changes, removes=(), reads=None)
        between = VersionFile(newest.version, actions)
        check(checked, snapshot, between, isolation=terms.isolation, settings=self.settings, where=self.log.url)
        return newest

    def finish(
        self,
        after: Snapshot,
        operation: str,
        attempts: int,
        *,
        after_merge: bool = False,
        force_full: bool = False,
        new_paths: frozenset[str] = frozenset(),
    ) -> tuple[Commit, Snapshot]:
        """Write what follows a version file: its state or JSON checkpoint, and the hint."""
        commit = Commit(after.version, operation, attempts)
        try:
            if writes_json(after, self.settings):
                if self.settings.checkpoint_enabled and after.version % self.settings.checkpoint_interval == 0:
                    self.write_json_checkpoint(after)
                    commit = replace(commit, state_kind="json")
                return commit, after
            if not self.settings.checkpoint_enabled:
                return commit, after
            made, after = self.write_state(after, after_merge=after_merge, force_full=force_full, new_paths=new_paths)
            return replace(commit, state_kind=made), after
        except DeltaicError as error:
            # The version file is the commit; what failed here is made up by the next one.
            log.warning("version %d is committed, but not its state: %s", after.version, error)
            return replace(commit, state_problem=str(error)), after

    def write_state(
        self,
        snapshot: Snapshot,
        *,
        after_merge: bool = False,
        force_full: bool = False,
        new_paths: frozenset[str] = frozenset(),
    ) -> tuple[str, Snapshot]:
        """Write the state of a snapshot if it has none, then the hint; gives how, and the snapshot on that state."""
        created_ms = snapshot.created_ms or self._now_ms()
        made = build_state(
            snapshot,
            self.settings,
            created_ms=created_ms,
            force_full=force_full,
            after_merge=after_merge,
            new_paths=new_paths,
        )
        started = self.clock()
        for manifest in made.manifests:
            write_manifest(self.log.store, manifest, self.log.cache)
        name, data = self._encoded(made)
        self._keep_manifests(made, started)
        key = f"{made.state.folder}/{name}"
        try:
            self.log.store.put_if_absent(key, data)
        except CommitConflictError:
            other = self.log.state(made.state.version)
            if other is None or not other.own:
                raise InputError(
                    f"{self.log.url}/{key} was written by another family of writers", "ForeignState"
                ) from None
            made = NewState(other, (), made.kind)
        write_hint(self.log.store, hint_of(made, self._now_ms()))
        return made.kind, on_state(snapshot, made)

    def replace_state(self, snapshot: Snapshot) -> tuple[str, Snapshot]:
        """Write the full state of a snapshot over the one that it has: the same files, fewer manifests."""
        if snapshot.version == 0:
            return "none", snapshot  # public commands put any version under the number 0, so that nobody reads it
        created_ms = snapshot.created_ms or self._now_ms()
        made = build_state(snapshot, self.settings, created_ms=created_ms, force_full=True)
        started = self.clock()
        for manifest in made.manifests:
            write_manifest(self.log.store, manifest, self.log.cache)
        name, data = self._encoded(made)
        self._keep_manifests(made, started)
        key = f"{made.state.folder}/{name}"
        try:
            etag = self.log.store.head(key).etag
        except NotFoundError:
            etag = None
        if etag is None:
            self.log.store.put_if_absent(key, data)
        else:
            found = self.log.state(made.state.version)
            if found is not None and not found.own:
                raise InputError(f"{self.log.url}/{key} is another writer's; it is not overwritten", "ForeignState")
            self.log.store.put_if_match(key, data, etag)
        write_hint(self.log.store, hint_of(made, self._now_ms()))
        return made.kind, on_state(snapshot, made)

    def write_json_checkpoint(self, snapshot: Snapshot) -> Hint:
        """Write a JSON checkpoint of a snapshot, then the hint."""
        checkpoint = JsonCheckpoint(snapshot.version, snapshot.protocol, snapshot.metadata, tuple(snapshot.files()))
        parts = snapshot.protocol.min_reader_version >= 3
        hint = write_checkpoint(
            self.log.store,
            checkpoint,
            actions_per_part=self.settings.actions_per_part if parts else 2**62,
            compressed=self.settings.compress_versions,
            created_ms=self._now_ms(),
        )
        write_hint(self.log.store, hint)
        return hint

    def _encoded(self, made: NewState) -> tuple[str, bytes]:
        level = self.settings.state_compression_level
        return encode_state(
            made.state, literal=self.settings.literal, codec=self.settings.state_compression, level=level
        )

    def _keep_manifests(self, made: NewState, started: float) -> None:
        """After a long pause a clean-up may have taken the new manifests for abandoned ones: put them again."""
        if self.clock() - started > self.settings.min_manifest_age_hours * 1800:
            for manifest in made.manifests:
                if not manifest_exists(self.log.store, manifest.info.path):
                    write_manifest(self.log.store, manifest, self.log.cache)

    def _delay_seconds(self, attempt: int) -> float:
        doubled = self.settings.retry_base_delay_ms << min(attempt - 1, 30)
        step = min(doubled, self.settings.retry_max_delay_ms)
        return step / 1000 * (0.75 + self.random.random() / 2)

    def _now_ms(self) -> int:
        return int(self.clock() * 1000)


def writes_json(snapshot: Snapshot, settings: Settings) -> bool:
    """Whether the table's checkpoints are JSON: by the settings, or because its protocol knows nothing else."""
    return settings.state_format == "json" or snapshot.protocol.min_reader_version < 4


def hint_of(made: NewState, created_ms: int) -> Hint:
    """The hint that leads to a state."""
    state = made.state
    return Hint(state.version, state.num_files, state.total_bytes, created_ms, AVRO_FORMAT, state.folder)


def on_state(snapshot: Snapshot, made: NewState) -> Snapshot:
    """The same snapshot, standing on a state of its own version."""
    state = made.state
    parts = tuple(Part(info, key) for info, key in zip(state.manifests, state.manifest_keys(), strict=True))
    hidden = frozenset(state.tombstones)
    return replace(snapshot, base=parts, state=state, tail={}, hidden=hidden, schemas=state.schemas)

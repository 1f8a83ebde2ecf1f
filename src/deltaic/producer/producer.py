"""The producer: publishes versions of a dataset, each whole or not at all.

    producer = Producer("s3://bucket/movies/chain", Model.of(Movie))
    producer.publish(movies)                             # everything; the difference is found by content
    with producer.incremental() as changes:              # only what changed
        changes.add_or_modify(movie)
        changes.delete(Movie, 7)

A cycle has visible steps: populate, diff, encode, stage, check, validate, publish, announce. Whatever fails before the
last one leaves nothing that a consumer could take, and the next cycle starts from the last announced version.
"""

import logging
import os
import random as random_module
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from deltaic.errors import CommitConflictError, CommitUnknownError, DeltaicError, InputError, NotFoundError
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.producer.append import Appended, SchemaAppend
from deltaic.producer.attachments import Attachment
from deltaic.producer.attempt import Attempt
from deltaic.producer.background import BackgroundSnapshots
from deltaic.producer.compaction import CompactionLimits, populate_compacted
from deltaic.producer.diff import model_changed, needs_version, type_changes, vectors_changed
from deltaic.producer.encode import encode_version
from deltaic.producer.engine import Engine
from deltaic.producer.holding import LeaseHolder
from deltaic.producer.incremental import ChangeBatch, ChangeIndex
from deltaic.producer.integrity import Integrity, ReadableBlob, TypeSums, check_integrity
from deltaic.producer.listeners import CycleListener, Listeners
from deltaic.producer.populate import Population
from deltaic.producer.position import Position
from deltaic.producer.publish import clear_the_way
from deltaic.producer.report import Cycle, TypeChange
from deltaic.producer.steps import Step, StepTimes
from deltaic.producer.tags import check_tags, forget_tags, set_tags
from deltaic.producer.validate import validate
from deltaic.producer.validators import Candidate, Validator
from deltaic.producer.vector_given import GivenVectors
from deltaic.producer.vector_parts import check_parts, encode_parts
from deltaic.producer.vector_step import VectorKeeper
from deltaic.producer.versions import TimeVersions, VersionMinter, minted
from deltaic.schema.model import Model
from deltaic.schema.schemas import SchemaSet
from deltaic.state.append_write import CollectedAppend
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.storage.announced import MAIN
from deltaic.storage.announcement import Announcements
from deltaic.storage.backoff import Backoff
from deltaic.storage.chain import BlobKind
from deltaic.storage.packing import PACKINGS, Packing
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.vector.storage import Storages, storage_of_columns, stored_model, vectors_tag

if TYPE_CHECKING:
    from deltaic.table.split.mapping import ColumnIndex

log = logging.getLogger("deltaic.producer")

DEFAULT_SHARD_BYTES = 16 << 20
"""Types are split into shards below this size, as Hollow's producer does."""

Populate = Callable[[Population], None]
"""Adds the records of a version."""


class Producer:
    """Publishes versions into the folder of a chain.

    One thread at a time has a cycle; others wait. One producer at a time has the lease; another one that starts
    meanwhile gets CommitConflictError until the lease is released or has expired.

    Args:
        store: the folder of the chain, or its URL.
        model: the model, its schemas, or the classes it is made of.
        versions: mints version numbers; UTC time and a counter by default.
        order: how new records are numbered, see `WriteState`.
        snapshot_every: a snapshot with every n-th version. The first, and the first of another model, always have one.
        snapshots_in_background: announce with the deltas and let the snapshot follow from another thread.
        compression: how blobs are packed in the store. Java consumers need a retriever of their own to unpack them.
        target_shard_bytes: types are split so that shards stay below; None: one shard.
        allow_resharding: let the number of shards follow the size along the chain. Java readers before 7.12 cannot
            follow.
        focus_holes: reuse freed ordinals shard by shard.
        integrity: how much of the staged bytes is checked.
        validators: judge every version before it is published.
        listeners: told of every step.
        channel: where versions are announced: `main`, or `canary` to promote them later.
        header_tags: free texts in the header of every blob.
        header_file: write a header file for every version, too.
        schema_append: whether and how deltas carry fields that are new in the model; by default they do, with their
            definitions.
        text_index: types, and how which of their columns are indexed: every version then carries an index of its own,
            in which consumers search. A dataset with a table needs none.
        attachments: make other files for every version.
        vectors: how vector columns are stored: "part" (beside the records, what changed in each vector, without loss),
            "bytes" (inside them, for Java), a `VectorStorage`, or one of these by `Type.field`.
        holder: the name under which the lease is held; must be unique.
        lease_seconds: how long the lease holds without being renewed.
        limits: bounds on blobs that are read back.
        clock: seconds since 1970.
        random: where tokens and state tags come from; the system's own source by default.
        backoff: how reads are repeated and races waited out.
    """

    def __init__(
        self,
        store: Store | str | os.PathLike[str],
        model: Model | SchemaSet | type | Iterable[Any],
        *,
        versions: VersionMinter | None = None,
        order: Literal["given", "canonical"] = "given",
        snapshot_every: int = 1,
        snapshots_in_background: bool = False,
        compression: Packing | None = None,
        target_shard_bytes: int | None = DEFAULT_SHARD_BYTES,
        allow_resharding: bool = False,
        focus_holes: bool = False,
        integrity: Integrity = "full",
        validators: Iterable[Validator] = (),
        listeners: Iterable[CycleListener] = (),
        channel: str = MAIN,
        header_tags: Mapping[str, str] | None = None,
        header_file: bool = True,
        schema_append: SchemaAppend | None = None,
        text_index: "Mapping[str, Mapping[str, ColumnIndex]] | None" = None,
        attachments: Iterable[Attachment] = (),
        vectors: Storages = "part",
        holder: str | None = None,
        lease_seconds: float = 60.0,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], float] = time.time,
        random: random_module.Random | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        if snapshot_every < 1:
            raise InputError(f"a snapshot every {snapshot_every} versions: the number starts at 1")
        if compression not in (None, *PACKINGS):
            raise InputError(f"compression {compression!r}: None, {' or '.join(map(repr, PACKINGS))}")
        if integrity not in ("full", "deltas", "off"):
            raise InputError(f"integrity {integrity!r}: 'full', 'deltas' or 'off'")
        self.store: Store = open_store(store) if isinstance(store, str | os.PathLike) else store
        self._storages_given: Storages = vectors
        self._take_model(model)
        self.validators = tuple(validators)
        self.attachments = tuple(attachments)
        if text_index:
            from deltaic.producer.text_index import TextIndex

            self.attachments += (TextIndex(self.model, text_index),)
        self.channel = channel
        self.announcements = Announcements(self.store, clock=clock, random=random, backoff=backoff)
        self._versions = versions or TimeVersions(clock)
        self._snapshot_every, self._in_background = snapshot_every, snapshots_in_background
        self._integrity: Integrity = integrity
        self._compression: Packing | None = compression
        self._listeners = Listeners(listeners)
        self._header_tags, self._header_file = check_tags(header_tags or {}), header_file
        self._limits, self._clock, self._random = limits, clock, random
        self.schema_append = schema_append or SchemaAppend()
        self._lease = LeaseHolder(self.announcements, holder=holder, ttl_seconds=lease_seconds)
        self._snapshots = BackgroundSnapshots(self.announcements, self._listeners, compression)
        self._mutex = threading.RLock()
        self._at_work = False
        self.order, self.lease_seconds = order, lease_seconds
        self.target_shard_bytes, self.allow_resharding = target_shard_bytes, allow_resharding

        def new_write_state() -> WriteState:
            return WriteState(
                self.model.schemas,
                order=order,
                pinned_shards=self.model.shards,
                target_shard_bytes=target_shard_bytes,
                allow_resharding=allow_resharding,
                focus_holes=focus_holes,
                randomness=random,
            )

        self._at = Position(
            self.announcements, self._lease, new_write_state, limits, lambda: self.model.renamed, random
        )
        self._sums = TypeSums()

    @property
    def version(self) -> int | None:
        """The version that the next cycle starts from, as far as is known; None before the first."""
        return self._at.version

    @property
    def state(self) -> ReadState | None:
        """The state of that version."""
        return self._at.state

    def restore(self) -> int | None:
        """Take the lease and go on from the announced version, which is given; cycles do it by themselves."""
        with self._alone():
            self._take_position()
            return self._at.version

    def change_model(self, model: Model | SchemaSet | type | Iterable[Any]) -> None:
        """Go on with another model from the next cycle on; its delta carries what is new in it.

        Raises:
            SchemaError: with the next cycle, if a type or field has the same name and another type.
        """
        with self._alone():
            self._take_model(model)
            self._at.begin_again()

    @property
    def header_tags(self) -> Mapping[str, str]:
        """The free texts in the header of every blob."""
        return dict(self._header_tags)

    def set_header_tags(self, tags: Mapping[str, str]) -> None:
        """Give the versions from the next one on these free texts in their headers, in place of those before."""
        with self._alone():
            self._header_tags = check_tags(tags)

    def publish(
        self,
        *data: Any,
        type_name: str | None = None,
        tables: Mapping[str, Any] | None = None,
        note: str | None = None,
    ) -> Cycle:
        """Publish a version that holds exactly this data.

        Args:
            data: objects, dicts, Arrow tables, DataFrames, paths of files; each may hold many rows.
            type_name: the type of the rows; not needed for objects, nor if the model has one root.
            tables: rows by type name.
            note: free text about the version.
        """

        def populate(cycle: Population) -> None:
            for each in data:
                cycle.add(each, type_name)
            for name, each in (tables or {}).items():
                cycle.add(each, name)

        return self.cycle(populate, note=note)

    @contextmanager
    def incremental(self, *, note: str | None = None) -> Iterator[ChangeBatch]:
        """Collect changes by key; at the end of the block they are published, unless it raises.

        The report is `changes.cycle` afterwards.
        """
        batch = ChangeBatch(self.model)
        yield batch
        batch.cycle = self.apply(batch, note=note)

    def apply(self, batch: ChangeBatch, *, note: str | None = None) -> Cycle:
        """Publish a version that is the one before with these changes."""
        return self.cycle(lambda cycle: self._index.populate(cycle, batch), note=note)

    def compact(self, limits: CompactionLimits = CompactionLimits(), *, note: str | None = None) -> Cycle:  # noqa: B008
        """Publish the same content with fewer holes; no version if no type has enough of them."""
        return self.cycle(lambda cycle: populate_compacted(cycle, limits), note=note)

    def cycle(self, populate: Populate, *, note: str | None = None) -> Cycle:
        """Run a cycle.

        Args:
            populate: adds all records of the version.
            note: free text about the version.

        Raises:
            ValidationError: a validator or a listener refused the version.
            CommitConflictError: another producer holds the lease, or took it meanwhile. Nothing was announced.
            CommitUnknownError: the store did not answer the announcement. The next cycle finds out what became of it.
        """
        with self._alone():
            times = StepTimes()
            attempt: Attempt | None = None
            started_ms = int(self._clock() * 1000)
            try:
                self._take_position()
                self._listeners.tell(lambda listener: listener.cycle_started(self._at.version))
                if not self._populated(populate, times):
                    return self._nothing_changed(times)
                with self._step(Step.ENCODE, times):
                    attempt = self._encode(started_ms, note)
                with self._step(Step.STAGE, times):
                    background = self._background(attempt)
                    due = self._snapshot_due(attempt.append)
                    attempt.stage(
                        kind for kind in attempt.blobs if kind is not BlobKind.SNAPSHOT or (due and not background)
                    )
                with self._step(Step.CHECK, times):
                    with self._fenced():
                        attempt.state = self._with_vectors(attempt, self._checked(attempt))
                    changes = type_changes(self.model, self._at.state, attempt.state)
                with self._step(Step.VALIDATE, times):
                    candidate = Candidate(attempt.version, attempt.state, self._at.state, self.model)
                    results = validate(candidate, self.validators)
                    attempt.attach(self.attachments, candidate)
                with self._step(Step.PUBLISH, times):
                    self._at.check()
                    with self._fenced():
                        clear_the_way(self.store, self._at.record, self._at.version)
                        attempt.publish()
                java_sees_it = self._announced(attempt, times)
                return self._accepted(attempt, changes, times, java_sees_it, background, results, note)
            except BaseException as error:
                self._failed(attempt, error, times)
                raise

    def build(self, engine: Engine, *, note: str | None = None) -> Cycle:
        """Run a cycle whose blobs an engine builds outside of this process; raises as `cycle` does."""
        from deltaic.producer.outside import run_engine

        return run_engine(self, engine, note)

    def close(self) -> None:
        """Wait for snapshots in the background and give the lease back."""
        self._snapshots.close()
        with self._mutex, suppress(DeltaicError):
            self._lease.release()

    def wait_for_snapshots(self, timeout_seconds: float | None = None) -> None:
        """Wait until snapshots that are made in the background are there, or failed."""
        self._snapshots.wait(timeout_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One cycle at a time; other threads wait, a cycle inside a cycle is refused."""
        with self._mutex:
            if self._at_work:
                raise InputError("a cycle is at work: its listeners and populate function cannot start another one")
            self._at_work = True
            try:
                yield
            finally:
                self._at_work = False

    def _take_model(self, model: Model | SchemaSet | type | Iterable[Any]) -> None:
        given = model_of(model)
        self._storages = storage_of_columns(given, self._storages_given)
        self.model = stored_model(given, self._storages)
        self._index = ChangeIndex(self.model)
        self._vectors = VectorKeeper(self.model)
        self._given: GivenVectors | None = None

    def _take_position(self, *, outside: bool = False) -> None:
        restored = self._at.take(at_work=self._snapshots.at_work, outside=outside)
        if restored and (version := self._at.version) is not None:
            self._listeners.tell_only(lambda listener: listener.restored(version))

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        """Say it when a staged blob is missing because another producer took the lease and swept it away."""
        try:
            yield
        except NotFoundError:
            self._at.check()
            raise

    def _populated(self, populate: Populate, times: StepTimes) -> bool:
        state = self._at.write_state
        with self._step(Step.POPULATE, times):
            forget_tags(state)
            before = {} if self._at.state is None else self._at.state.vectors
            self._given = GivenVectors(self.model.vectors, self._storages, before)
            population = Population(state, self.model, self._at.state, self._progress, self._given)
            populate(population)
            population.finish()
        with self._step(Step.DIFF, times):
            return needs_version(state, self.model, self._at.state) or vectors_changed(
                self._given, vectors_tag(self.model, self._storages), self._at.state
            )

    def _progress(self, type_name: str, rows: int) -> None:
        self._lease.keep()
        self._listeners.tell(lambda listener: listener.progress(type_name, rows))

    def _nothing_changed(self, times: StepTimes) -> Cycle:
        self._at.reset()
        state = self._at.state
        records = {name: TypeChange(len(data.populated)) for name, data in state.types.items()} if state else {}
        cycle = Cycle(None, self._at.version, records, seconds=dict(times.seconds))
        self._listeners.tell_only(lambda listener: listener.nothing_changed(cycle))
        return cycle

    def _encode(self, started_ms: int, note: str | None) -> Attempt:
        newest = self._at.record.versions[0].version if self._at.record.versions else None
        version = minted(self._versions, newest)
        set_tags(
            self._at.write_state,
            self.model,
            self._at.state,
            version=version,
            started_ms=started_ms,
            extra=self._header_tags,
            note=note,
            vectors=vectors_tag(self.model, self._storages),
        )
        append = None
        if self._at.version is not None:
            append = self._at.write_state.collect_append(self.schema_append)
        # Where the delta does not carry all of a new model, the snapshot tells what the version has.
        snapshot = self._integrity == "full" or self._snapshot_due(append) or not (append is None or append.complete)
        blobs = encode_version(
            self._at.write_state,
            version,
            self._at.version,
            snapshot=snapshot,
            header=self._header_file,
            append=append,
        )
        token = secrets.token_hex(8) if self._random is None else f"{self._random.getrandbits(64):016x}"
        return Attempt(self.store, version, f"{version}-{token}", blobs, self._compression, append)

    def _snapshot_due(self, append: CollectedAppend | None) -> bool:
        if self._at.version is None or model_changed(self.model, self._at.state):
            return True
        if append is not None and append.too_large and self.schema_append.on_too_large == "snapshot":
            return True
        return self._snapshot_by_turn()

    def _snapshot_by_turn(self) -> bool:
        without = 0
        for entry in self._at.record.versions:
            if any(artifact.kind == "snapshot" for artifact in entry.artifacts):
                break
            without += 1
        return without + 1 >= self._snapshot_every

    def _background(self, attempt: Attempt) -> bool:
        """True if the snapshot of this version follows later. Where consumers need one at once, it does not."""
        return (
            self._in_background
            and BlobKind.SNAPSHOT in attempt.blobs
            and self._snapshot_due(attempt.append)
            and self._at.version is not None
            and not model_changed(self.model, self._at.state)
        )

    def _checked(self, attempt: Attempt) -> ReadState:
        blobs: dict[BlobKind, ReadableBlob] = {**attempt.blobs, **attempt.staged}
        return check_integrity(
            self.store,
            blobs,
            self._at.state,
            self._at.write_state,
            level=self._integrity,
            limits=self._limits,
            sums=self._sums,
        )

    def _with_vectors(self, attempt: Attempt, state: ReadState) -> ReadState:
        """Make, stage and check the vector parts of a version; gives its state with the vectors."""
        given, self._given = self._given, None
        previous = self._at.state
        if given is None or not (self.model.vectors or (previous is not None and previous.vectors)):
            return state
        attempt.step = step = self._vectors.step(given, previous, state)
        names = [blob.name for kind, blob in attempt.blobs.items() if kind is not BlobKind.HEADER]
        staged = attempt.stage_parts(encode_parts(names, step, previous, state, self._storages))
        return check_parts(self.store, staged, step, previous, state, level=self._integrity, limits=self._limits)

    def _announced(self, attempt: Attempt, times: StepTimes) -> bool:
        self._listeners.tell(lambda listener: listener.step_started(Step.ANNOUNCE))
        with times.timed(Step.ANNOUNCE):
            attempt.announcing = True
            landed = self.announcements.announce(
                attempt.version, attempt.artifacts, epoch=self._lease.epoch, channel=self.channel
            )
        return landed.number_written

    def _accepted(
        self,
        attempt: Attempt,
        changes: Mapping[str, TypeChange],
        times: StepTimes,
        java_sees_it: bool,
        background: bool,
        results: tuple[Any, ...],
        note: str | None,
    ) -> Cycle:
        """The version is announced; from here on nothing fails the cycle."""
        from_version = self._at.version
        self._at.accept(attempt)
        self._vectors.accept(attempt.step)
        self._follow(attempt)
        attempt.close(keep=(BlobKind.SNAPSHOT,) if background else ())
        if background:
            self._snapshots.submit(
                attempt.blobs[BlobKind.SNAPSHOT],
                f"{attempt.cycle_id}-snapshot",
                self._lease.epoch,
                attempt.parts.get(BlobKind.SNAPSHOT),
            )
        cycle = Cycle(
            attempt.version,
            from_version,
            changes,
            attempt.artifacts,
            dict(times.seconds),
            results,
            snapshot_pending=background,
            java_sees_it=java_sees_it,
            note=note,
            appended=Appended.of(attempt.append),
            vectors={} if attempt.step is None else attempt.step.changes,
        )
        seconds = times.seconds[Step.ANNOUNCE]
        self._listeners.tell_only(lambda listener: listener.step_finished(Step.ANNOUNCE, seconds))
        self._listeners.tell_only(lambda listener: listener.cycle_announced(cycle))
        log.info("%s in %.3f s", cycle, cycle.total_seconds)
        return cycle

    def _follow(self, attempt: Attempt) -> None:
        """Keep what incremental cycles know up to date; if that fails it is built again when it is next asked for."""
        if attempt.state is None:
            # The version was built outside: this process has no record of it.
            self._index = ChangeIndex(self.model)
            return
        try:
            self._index.advance(attempt.state)
        except Exception:
            log.exception("the index of keys could not follow; it is built again")
            self._index = ChangeIndex(self.model)

    def _failed(self, attempt: Attempt | None, error: BaseException, times: StepTimes) -> None:
        unknown = (
            attempt is not None
            and attempt.announcing
            and (isinstance(error, CommitUnknownError) or not isinstance(error, DeltaicError))
        )
        if attempt is not None:
            attempt.close()
        fenced = isinstance(error, CommitConflictError)
        self._at.give_up(attempt, announced=None if unknown else False, fenced=fenced)
        self._listeners.tell_only(lambda listener: listener.cycle_failed(times.current, error))

    @contextmanager
    def _step(self, step: Step, times: StepTimes) -> Iterator[None]:
        self._listeners.tell(lambda listener: listener.step_started(step))
        with times.timed(step):
            yield
        self._listeners.tell(lambda listener: listener.step_finished(step, times.seconds[step]))
        self._lease.keep()


def model_of(given: Model | SchemaSet | type | Iterable[Any]) -> Model:
    """The model that is meant: a model, its schemas, a class, classes, or schema objects."""
    if isinstance(given, Model):
        return given
    if isinstance(given, SchemaSet):
        return Model.from_schemas(given.validated())
    if isinstance(given, type):
        return Model.of(given)
    if isinstance(given, str):
        return Model.parse(given)
    items = tuple(given)
    if items and all(isinstance(item, type) for item in items):
        return Model.of(*items)
    return Model.from_schemas(SchemaSet(items).validated())

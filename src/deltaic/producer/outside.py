"""A cycle whose blobs are built outside of the producer's process, by an engine (`deltaic.producer.engine`)."""

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from deltaic.consumer.plan import plan_refresh
from deltaic.errors import ChainError, DeltaicError, InputError
from deltaic.producer.attempt import Attempt
from deltaic.producer.diff import model_changed
from deltaic.producer.encode import EncodedBlob
from deltaic.producer.engine import Base, BlobPlan, Engine, Populated, Rules, header_bytes
from deltaic.producer.publish import clear_the_way
from deltaic.producer.report import Cycle, TypeChange
from deltaic.producer.stage import stage
from deltaic.producer.steps import Step, StepTimes
from deltaic.producer.tags import forget_tags, set_tags
from deltaic.producer.vector_step import VectorStep
from deltaic.producer.versions import minted
from deltaic.state.append_write import CollectedAppend
from deltaic.state.read import ReadState
from deltaic.state.write import RESHARDING_TAG
from deltaic.storage.chain import BlobKind, BlobName, Chain
from deltaic.vector.names import part_name
from deltaic.vector.storage import VECTORS_TAG, vectors_tag
from deltaic.wire.tag_order import java_hash_order

if TYPE_CHECKING:
    from deltaic.producer.producer import Producer

_PARTS_OF_A_LEASE = 4


def run_engine(producer: "Producer", engine: Engine, note: str | None) -> Cycle:
    """Run a cycle of a producer with an engine; raises as `Producer.cycle` does."""
    if producer.order != "canonical":
        raise InputError(
            "an engine numbers records in canonical order: make the producer with order='canonical'", "Order"
        )
    if producer.attachments:
        raise InputError(
            "files that go with a version (text_index, attachments) are made from its records, which this process does "
            "not have: publish with engine='embedded'",
            "Attachments",
        )
    with producer._alone():
        return _OutsideCycle(producer, engine, note).run()


class _OutsideCycle:
    def __init__(self, producer: "Producer", engine: Engine, note: str | None) -> None:
        self._producer, self._engine, self._note = producer, engine, note
        self._at = producer._at
        self._times = StepTimes()
        self._attempt: Attempt | None = None
        self._only_checked: dict[BlobKind, BlobName] = {}

    def run(self) -> Cycle:
        producer, times = self._producer, self._times
        started_ms = int(producer._clock() * 1000)
        try:
            producer._take_position(outside=True)
            producer._listeners.tell(lambda listener: listener.cycle_started(self._at.version))
            with producer._step(Step.POPULATE, times), self._lease_kept():
                forget_tags(self._at.write_state)
                rules = Rules(
                    producer.model,
                    producer.target_shard_bytes,
                    producer.allow_resharding,
                    producer._integrity,
                    producer._compression,
                    producer._limits,
                    producer._storages,
                )
                found = self._engine.populate(self._base(), rules)
                self._restore(found.previous)
            with producer._step(Step.DIFF, times):
                previous = found.previous
                needed = (
                    previous is None
                    or found.other_records
                    or model_changed(producer.model, previous)
                    or previous.header_tags.get(VECTORS_TAG, "") != self._vectors_tag()
                )
            if not needed:
                return self._nothing_changed(found)
            with producer._step(Step.ENCODE, times), self._lease_kept():
                append = None if self._at.version is None else self._engine.append(producer.schema_append)
                attempt, plans = self._encoded(found, started_ms, append)
            with producer._step(Step.STAGE, times), self._lease_kept():
                attempt.adopt(self._engine.stage(attempt.cycle_id, plans), only_checked=self._only_checked)
                self._stage_vectors(attempt, plans)
            with producer._step(Step.CHECK, times), producer._fenced(), self._lease_kept():
                changes = self._engine.check(attempt.to_check, self._at.write_state.tag)
            with producer._step(Step.VALIDATE, times), self._lease_kept():
                results = self._engine.validate(attempt.version, attempt.to_check, producer.validators)
            with producer._step(Step.PUBLISH, times):
                self._at.check()
                with producer._fenced():
                    clear_the_way(producer.store, self._at.record, self._at.version)
                    attempt.publish()
            java_sees_it = producer._announced(attempt, times)
            return producer._accepted(attempt, changes, times, java_sees_it, False, results, self._note)
        except BaseException as error:
            producer._failed(self._attempt, error, times)
            raise
        finally:
            self._engine.close()

    def _stage_vectors(self, attempt: Attempt, plans: Mapping[BlobKind, BlobPlan]) -> None:
        if not self._producer.model.vectors:
            return
        published = tuple(kind for kind in plans if kind not in self._only_checked)
        attempt.expect(part_name(plans[kind].name) for kind in published)
        done = self._engine.stage_vectors(attempt.cycle_id, attempt.to_check, published)
        attempt.attached += done.files
        attempt.step = VectorStep({}, {}, done.changes)

    def _vectors_tag(self) -> str:
        return vectors_tag(self._producer.model, self._producer._storages)

    def _base(self) -> Base | None:
        version = self._at.version
        if version is None:
            return None
        plan = plan_refresh(None, version, Chain.read(self._producer.store))
        if plan.version != version:
            raise ChainError(
                f"nothing leads to version {version} of {self._producer.store.url}; the nearest is {plan.version}"
            )
        return Base(version, plan.steps)

    def _restore(self, previous: ReadState | None) -> None:
        """Tell the write state, which has no types, what the version before was."""
        state = self._at.write_state
        if previous is not None and state.previous_tag != previous.tag:
            state.restore(ReadState({}, tag=previous.tag, origin_tag=0, header_tags=previous.header_tags))

    def _nothing_changed(self, found: Populated) -> Cycle:
        self._at.reset()
        records = {name: TypeChange(count) for name, count in found.records.items()}
        cycle = Cycle(None, self._at.version, records, seconds=dict(self._times.seconds))
        self._producer._listeners.tell_only(lambda listener: listener.nothing_changed(cycle))
        return cycle

    def _encoded(
        self, found: Populated, started_ms: int, append: CollectedAppend | None
    ) -> tuple[Attempt, dict[BlobKind, BlobPlan]]:
        producer, state, base = self._producer, self._at.write_state, self._at.version
        newest = self._at.record.versions[0].version if self._at.record.versions else None
        version = minted(producer._versions, newest)
        set_tags(
            state,
            producer.model,
            found.previous,
            version=version,
            started_ms=started_ms,
            extra=producer._header_tags,
            note=self._note,
            vectors=self._vectors_tag(),
        )
        entries = [
            f"{name}:({found.resharded[name][0]},{found.resharded[name][1]})"
            for name in java_hash_order(producer.model.schemas.names)
            if name in found.resharded
        ]
        if entries:
            state.header_tags[RESHARDING_TAG] = " ".join(entries)
        state.prepare()
        schemas = producer.model.schemas
        changed = [schemas[name] for name in found.changed]
        whole = header_bytes(schemas, state.header_tags, state.previous_tag, state.tag)
        plans: dict[BlobKind, BlobPlan] = {}
        if base is not None:
            extra = b"" if append is None or append.section is None else append.section.envelope
            forward = header_bytes(changed, state.header_tags, state.previous_tag, state.tag, extra)
            back = header_bytes(changed, state.previous_header_tags, state.tag, state.previous_tag)
            plans[BlobKind.DELTA] = BlobPlan(BlobName.delta(base, version), forward)
            plans[BlobKind.REVERSE_DELTA] = BlobPlan(BlobName.delta(version, base), back)
        due = base is None or model_changed(producer.model, found.previous) or producer._snapshot_by_turn()
        if append is not None:
            due |= append.too_large and producer.schema_append.on_too_large == "snapshot"
        if due or producer._integrity == "full" or not (append is None or append.complete):
            plans[BlobKind.SNAPSHOT] = BlobPlan(BlobName.snapshot(version), whole)
        if not due and BlobKind.SNAPSHOT in plans:
            self._only_checked[BlobKind.SNAPSHOT] = plans[BlobKind.SNAPSHOT].name
        random = producer._random
        token = secrets.token_hex(8) if random is None else f"{random.getrandbits(64):016x}"
        attempt = Attempt(producer.store, version, f"{version}-{token}", {}, producer._compression, append)
        self._attempt = attempt
        if producer._header_file:
            header = EncodedBlob(BlobName.header(version))
            header.write(memoryview(whole))
            attempt.adopt({BlobKind.HEADER: stage(producer.store, attempt.cycle_id, header)})
        attempt.expect(plan.name for plan in plans.values())
        return attempt, plans

    @contextmanager
    def _lease_kept(self) -> Iterator[None]:
        """Renew the lease while the engine works: a job may take longer than the lease holds."""
        producer, done = self._producer, threading.Event()
        lost: list[DeltaicError] = []

        def keep() -> None:
            while not done.wait(producer.lease_seconds / _PARTS_OF_A_LEASE):
                try:
                    producer._lease.keep()
                except DeltaicError as error:
                    lost.append(error)
                    return

        thread = threading.Thread(target=keep, name="deltaic-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
        if lost:
            raise lost[0]

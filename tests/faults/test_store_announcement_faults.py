"""Announcements on stores that fail: the right error, nothing twice, an own success recognised."""

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deltaic.errors import CommitConflictError, CommitUnknownError, DeltaicError, NotFoundError, StorageError
from deltaic.storage.announced import Artifact
from deltaic.storage.announcement import RECENT_TOKENS, Announcement, Announcements
from deltaic.storage.backoff import Backoff
from deltaic.storage.lease import acquire_lease, release_lease, renew_lease
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.testing.faulty_store import EVERY_FAULT, Fault, FaultKind, FaultyStore, Moment
from deltaic.testing.simulated_store import FaultRates, SimulatedStore
from deltaic.testing.stores import S3Server, s3_server

NO_WAIT = Backoff(sleep=lambda seconds: None)
FILES = (Artifact("snapshot", "snapshot-1", 3, "crc32c:00000000"),)


def prepared(faulty: FaultyStore) -> Announcements:
    """Versions 1 and 2 on main, 3 on canary, a lease of epoch 1, and room for two versions only."""
    announcements = Announcements(faulty, backoff=NO_WAIT, keep_versions=2)
    epoch = acquire_lease(announcements, holder="one").epoch
    for version, channel in ((1, "main"), (2, "main"), (3, "canary")):
        announcements.announce(version, FILES, epoch=epoch, channel=channel)
    return announcements


def released(announcements: Announcements) -> None:
    lease = acquire_lease(announcements, holder="one")
    release_lease(announcements, lease)


OPERATIONS: dict[str, Callable[[Announcements], object]] = {
    "announce": lambda it: it.announce(4, FILES, epoch=1),
    "announce a canary": lambda it: it.announce(4, FILES, epoch=1, channel="canary"),
    "pin": lambda it: it.pin(1),
    "promote": lambda it: it.promote(),
    "withdraw": lambda it: it.withdraw(),
    "add files": lambda it: it.add_artifacts(3, FILES, epoch=1),
    "take the lease": lambda it: acquire_lease(it, holder="one"),
    "take and release the lease": released,
    "renew the lease": lambda it: renew_lease(it, acquire_lease(it, holder="one")),
}


def summary(store: Store) -> tuple[object, ...]:
    """Everything of the record that must not depend on the faults met on the way."""
    record = Announcements(store).read().record
    assert record is not None
    versions = [(entry.version, entry.channels, entry.withdrawn, entry.artifacts) for entry in record.versions]
    lease = None if record.lease is None else (record.lease.holder, record.lease.epoch)
    return record.sequence, record.epoch, record.channels, record.pin, versions, lease


@pytest.mark.parametrize("kind_and_moment", EVERY_FAULT, ids=lambda pair: f"{pair[0]}, {pair[1]}")
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("from_then_on", [False, True], ids=["once", "from then on"])
def test_each_call_failing(name: str, kind_and_moment: tuple[FaultKind, Moment], from_then_on: bool) -> None:
    kind, moment = kind_and_moment
    undisturbed = FaultyStore(SimulatedStore())
    announcements = prepared(undisturbed)
    before = summary(undisturbed)
    undisturbed.fail()
    OPERATIONS[name](announcements)
    calls = len(undisturbed.calls)
    after = summary(undisturbed)
    for call_number in range(1, calls + 1):
        store = SimulatedStore()
        faulty = FaultyStore(store)
        announcements = prepared(faulty)
        faulty.fail(Fault(kind, moment, call_number, from_then_on=from_then_on))
        try:
            result = OPERATIONS[name](announcements)
        except (StorageError, CommitUnknownError, CommitConflictError) as error:
            found = summary(store)
            if isinstance(error, CommitConflictError):
                assert name in ("take the lease", "take and release the lease", "renew the lease") or from_then_on
            # Two steps (take and renew) may stop between them; one step is whole or absent.
            if name not in ("take and release the lease", "renew the lease"):
                assert found in (before, after), f"call {call_number}"
                if isinstance(error, StorageError):
                    assert found == before, f"call {call_number}: done, but a failure was reported"
        else:
            assert summary(store) == after, f"call {call_number}: reported as done"
            if isinstance(result, Announcement) and result.number_written:
                number = store.get("announced.version").data
                assert number == str(Announcements(store).read().version()).encode()
        # When the faults stop, a second look makes everything right.
        faulty.fail()
        announcements.repair_number()
        assert store.get("announced.version").data == str(announcements.read().version()).encode()


def test_a_single_unanswered_put_is_found_by_its_token() -> None:
    faulty = FaultyStore(SimulatedStore())
    announcements = prepared(faulty)
    faulty.fail(Fault(FaultKind.TIMEOUT, Moment.AFTER, 1, operation="put_if_match"))
    announcements.announce(4, FILES, epoch=1)
    puts = [key for operation, key in faulty.calls if operation == "put_if_match" and key == "announced.json"]
    assert len(puts) == 1, "the announcement was put twice"


def test_an_unanswered_put_that_others_wrote_over_is_still_found() -> None:
    store = SimulatedStore()
    announcements = prepared(FaultyStore(store))

    class Interrupted(SimulatedStore):
        others = RECENT_TOKENS - 1

        def put_if_match(self, key: str, data: bytes | bytearray | memoryview, etag: str) -> str:
            super().put_if_match(key, data, etag)
            if key != "announced.json":
                return ""
            for _ in range(self.others):
                announcements.pin(2)
            raise CommitUnknownError("no answer")

    busy = Interrupted()
    busy._world = store._world
    Announcements(busy, backoff=NO_WAIT).announce(4, FILES, epoch=1)
    record = announcements.read().record
    assert record is not None and [entry.version for entry in record.versions].count(4) == 1
    Interrupted.others = RECENT_TOKENS + 24
    with pytest.raises(CommitUnknownError):
        Announcements(busy, backoff=NO_WAIT).announce(5, FILES, epoch=1)


def test_two_producers_under_random_faults_announce_each_version_once() -> None:
    total_acknowledged = total_refused = 0
    for seed in range(60):
        chance = random.Random(seed)
        now = [1000.0]
        store = SimulatedStore(
            random=chance,
            clock=lambda now=now: now[0],  # type: ignore[misc]
            faults=FaultRates(*(chance.choice((0, 0, 0.05, 0.2)) for _ in range(3))),
        )
        acknowledged: list[tuple[int, int]] = []
        refused: list[int] = []
        version = 0
        epochs = {}
        for _ in range(60):
            producer = chance.choice("ab")
            announcements = Announcements(
                store,
                clock=lambda now=now: now[0],
                random=chance,
                backoff=NO_WAIT,
                writer=producer,  # type: ignore[misc]
            )
            now[0] += chance.random() * 20
            try:
                if producer not in epochs or chance.random() < 0.2:
                    epochs[producer] = acquire_lease(announcements, holder=producer, ttl_seconds=15).epoch
            except DeltaicError:
                continue
            version += 1
            try:
                announcements.announce(version, FILES, epoch=epochs[producer])
                acknowledged.append((version, epochs[producer]))
            except CommitConflictError:
                refused.append(version)
            except (CommitUnknownError, StorageError):
                continue
        store.set_faults(FaultRates())
        announcements = Announcements(store)
        try:
            announcements.read()
        except NotFoundError:
            assert not acknowledged, f"seed {seed}"
            continue
        total_acknowledged, total_refused = total_acknowledged + len(acknowledged), total_refused + len(refused)
        known = {number: announcements.entry_of(number) for number in range(1, version + 1)}
        for number, epoch in acknowledged:
            entry = known[number]
            assert entry is not None and entry.epoch == epoch, f"seed {seed}: version {number} is lost"
        assert not [number for number in refused if known[number] is not None], f"seed {seed}: a refused one is there"
        in_order = [entry.epoch for entry in known.values() if entry is not None]
        assert in_order == sorted(in_order), f"seed {seed}: an old producer announced after a new one"
        if acknowledged:
            announcements.repair_number()
            assert store.get("announced.version").data == str(announcements.read().version()).encode()
    assert total_acknowledged > 1000 and total_refused > 100


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    pytest.importorskip("moto", reason="moto is not installed")
    with s3_server() as server:
        yield server


@pytest.mark.parametrize("kind", ["local", "memory", "s3"])
def test_racing_operators_lose_no_change(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "s3":
        store: Store = request.getfixturevalue("s3").store("racing-operators")
    else:
        store = open_store(tmp_path if kind == "local" else "memory:")
    epoch = acquire_lease(Announcements(store), holder="one").epoch
    Announcements(store).announce(1, FILES, epoch=epoch)
    failures: list[DeltaicError] = []

    def add(name: str) -> None:
        announcements = Announcements(store, backoff=Backoff(first_seconds=0.002, maximum_seconds=0.05))
        for number in range(5):
            artifact = Artifact("part", f"part-{name}-{number}", 1, "crc32c:00000000")
            try:
                announcements.add_artifacts(1, [artifact], epoch=epoch)
            except DeltaicError as error:
                failures.append(error)

    threads = [threading.Thread(target=add, args=(str(number),)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    entry = Announcements(store).entry_of(1)
    assert entry is not None and len(entry.artifacts) == 1 + 30
    record = Announcements(store).read().record
    assert record is not None and record.sequence == 2 + 30


def test_a_silent_server_makes_a_conditional_put_unknown_and_a_read_a_storage_error() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        store = open_store(
            "s3://bucket",
            options={
                "endpoint": f"http://127.0.0.1:{port}",
                "allow_http": True,
                "region": "us-east-1",
                "access_key_id": "x",
                "secret_access_key": "y",
            },
            timeout_seconds=0.3,
            read_retries=0,
        )
        with pytest.raises(CommitUnknownError):
            store.put_if_absent("k", b"x")
        with pytest.raises(CommitUnknownError):
            store.put_if_match("k", b"x", "e")
        with pytest.raises(StorageError):
            store.get("k")

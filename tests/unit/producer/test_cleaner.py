"""The cleaner never takes what a version in use needs."""

from contextlib import suppress

import pytest

from deltaic.consumer import verify_chain
from deltaic.errors import DeltaicError, InputError
from deltaic.producer import BlobCleaner, clean_chain
from deltaic.producer.restoring import load_version
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName, Chain
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.testing.stores import Fault, FaultKind, FaultyStore
from tests.unit.producer.catalogue import NO_WAIT, content, content_of, movies, producer_of, read


def chain_of(versions: int, **options: object) -> Store:
    store = open_store("memory:")
    with producer_of(store, **options) as producer:
        for last in range(1, versions + 1):
            producer.publish(movies(*range(last)))
    return store


def test_a_dry_run_lists_exactly_what_a_run_removes() -> None:
    store = chain_of(9)
    before = {info.key for info in store.list()}
    dry = clean_chain(store, keep_snapshots=2, keep_versions=3, older_than_seconds=-1)
    assert not dry.done and {info.key for info in store.list()} == before
    wet = clean_chain(store, keep_snapshots=2, keep_versions=3, older_than_seconds=-1, dry_run=False)
    assert wet.remove == dry.remove and wet.size_bytes == dry.size_bytes > 0
    assert before - {info.key for info in store.list()} == set(wet.remove)
    assert Chain.read(store).snapshots == (7, 8, 9)
    assert read(store) == (9, content_of(movies(*range(9))))
    assert clean_chain(store, keep_snapshots=2, keep_versions=3, older_than_seconds=-1).remove == ()


@pytest.mark.parametrize("snapshot_every", [1, 3])
@pytest.mark.parametrize("pinned", [None, 2, 5])
def test_every_version_in_use_can_still_be_loaded_and_walked_from(pinned: int | None, snapshot_every: int) -> None:
    store = chain_of(10, snapshot_every=snapshot_every)
    announcements = Announcements(store)
    if pinned is not None:
        announcements.pin(pinned)
    clean_chain(store, keep_snapshots=1, keep_versions=4, older_than_seconds=-1, dry_run=False)
    needed = {7, 8, 9, 10} | ({pinned} if pinned is not None else set())
    chain = Chain.read(store)
    for version in sorted(needed):
        assert content(load_version(store, announcements, version)) == content_of(movies(*range(version)))
    for version in range(min(needed), 10):
        assert chain.deltas[version] == version + 1 and chain.reverse_deltas[version + 1] == version
    with producer_of(store) as producer:
        assert producer.publish(movies(99)).from_version == 10


def test_young_blobs_and_those_of_a_producer_at_work_stay() -> None:
    store = chain_of(6)
    assert clean_chain(store, keep_snapshots=1, keep_versions=1).remove == ()
    store.put("snapshot-7", b"on its way")
    store.put("delta-6-7", b"on its way")
    clean_chain(store, keep_snapshots=1, keep_versions=1, older_than_seconds=-1, dry_run=False)
    assert {"snapshot-7", "delta-6-7"} <= {info.key for info in store.list()}


def test_the_lists_of_versions_without_blobs_go_too() -> None:
    store = chain_of(70)
    assert store.get("artifacts-3.json")
    cleaned = clean_chain(store, keep_snapshots=1, keep_versions=2, older_than_seconds=-1, dry_run=False)
    assert "artifacts-3.json" in cleaned.remove
    assert not Announcements(store).was_announced(3)


@pytest.mark.parametrize("versions", [12, 70])
@pytest.mark.parametrize("snapshot_every", [1, 4])
def test_a_cleaned_chain_is_whole_and_lists_what_it_has(versions: int, snapshot_every: int) -> None:
    store = chain_of(versions, snapshot_every=snapshot_every)
    Announcements(store).pin(5)
    cleaned = clean_chain(store, keep_snapshots=2, keep_versions=4, older_than_seconds=-1, dry_run=False)
    assert cleaned.remove
    found = verify_chain(store)
    assert found.findings == ()
    names = {info.key for info in store.list() if BlobName.parse(info.key) is not None}
    lists = [Announcements(store).entry_of(version) for version in range(1, versions + 1)]
    assert {artifact.name for entry in lists if entry is not None for artifact in entry.artifacts} == names
    assert all(entry.artifacts for entry in lists if entry is not None)


def test_look_back_versions_share_the_snapshots_that_lead_to_them() -> None:
    store = chain_of(20)
    cleaned = clean_chain(store, keep_snapshots=2, keep_versions=15, older_than_seconds=-1, dry_run=False)
    assert cleaned.kept_snapshots == Chain.read(store).snapshots == (6, 19, 20)
    for version in range(6, 21):
        assert content(load_version(store, Announcements(store), version)) == content_of(movies(*range(version)))


def test_a_version_behind_a_gap_keeps_a_snapshot_of_its_own() -> None:
    store = chain_of(9)
    store.delete("delta-6-7")
    cleaned = clean_chain(store, keep_snapshots=1, keep_versions=6, older_than_seconds=-1, dry_run=False)
    assert cleaned.kept_snapshots == (4, 7, 9)
    for version in range(4, 10):
        assert content(load_version(store, Announcements(store), version)) == content_of(movies(*range(version)))


def test_whatever_fails_on_the_way_the_chain_stays_whole() -> None:
    """Files are unlisted before they go, so that a cleaning that ends anywhere leaves nobody without a file."""
    whole = chain_of(70, snapshot_every=8)
    for number in range(1, 400):
        inner = open_store("memory:")
        for info in whole.list():
            inner.put(info.key, whole.get(info.key).data)
        store = FaultyStore(inner, [Fault(FaultKind.IO_ERROR, call_number=number, from_then_on=True)])
        with suppress(DeltaicError):
            clean_chain(
                store, keep_snapshots=1, keep_versions=60, older_than_seconds=-1, dry_run=False, backoff=NO_WAIT
            )
            break
        if number % 5 == 0:
            assert verify_chain(inner).findings == ()
    assert 20 < number < 399, "the cleaning came to its end, after some calls"
    assert verify_chain(inner).findings == ()


def test_a_cleaner_that_listens_cleans_after_every_version() -> None:
    store = open_store("memory:")
    cleaner = BlobCleaner(store, keep_snapshots=2, keep_versions=3, older_than_seconds=-1)
    with producer_of(store, listeners=[cleaner]) as producer:
        for last in range(1, 12):
            producer.publish(movies(*range(last)))
    assert Chain.read(store).snapshots == (9, 10, 11)
    assert verify_chain(store).findings == ()
    assert read(store) == (11, content_of(movies(*range(11))))


def test_a_chain_keeps_at_least_one_version() -> None:
    with pytest.raises(InputError):
        clean_chain(chain_of(1), keep_versions=0)

"""Copies of blobs: never stale, never damaged, never someone else's, never too many."""

import os

import pytest

from deltaic.consumer import Consumer
from deltaic.consumer.cache import BlobCache, default_folder
from deltaic.errors import ChecksumError, StorageError
from deltaic.storage import Artifact, LocalStore, checksum, open_store
from deltaic.testing.faulty_store import FaultyStore
from tests.unit.consumer.small_chain import SmallChain, titles


def artifact(name: str, data: bytes) -> Artifact:
    return Artifact("delta", name, len(data), checksum(data))


def fill(cache: BlobCache, name: str, data: bytes, chain: str = "file:///a") -> None:
    os.close(cache.fill(chain, artifact(name, data), lambda path: path.write_bytes(data) and None))


def find(cache: BlobCache, name: str, data: bytes, chain: str = "file:///a") -> bytes | None:
    handle = cache.find(chain, artifact(name, data))
    if handle is None:
        return None
    with os.fdopen(handle, "rb") as file:
        return file.read()


@pytest.fixture
def store(tmp_path):
    return FaultyStore(LocalStore(tmp_path / "chain"))


@pytest.fixture
def chain(store):
    return SmallChain(store)


def fetched(store):
    return [key for operation, key in store.calls if operation == "get_to_file"]


def test_a_copy_is_found_by_what_was_announced_and_by_nothing_else(tmp_path):
    cache = BlobCache(tmp_path)
    fill(cache, "delta-1-2", b"content")
    assert find(cache, "delta-1-2", b"content") == b"content"
    assert find(cache, "delta-1-2", b"CONTENT") is None
    assert find(cache, "delta-1-3", b"content") is None
    assert find(cache, "delta-1-2", b"content", chain="file:///b") is None


def test_a_second_consumer_fetches_nothing(chain, store, tmp_path):
    chain.publish()
    chain.publish()
    assert Consumer(store, cache_dir=tmp_path / "cache").refresh(to=2).verified
    store.calls.clear()
    refresh = Consumer(store, cache_dir=tmp_path / "cache").refresh(to=2)
    assert fetched(store) == [] and all(step.from_cache for step in refresh.steps)


def test_a_stale_copy_of_a_delta_that_was_published_again_is_not_used(store, tmp_path):
    one = SmallChain(store)
    one.publish({1: "one"})
    consumer = Consumer(store, cache_dir=tmp_path / "cache")
    consumer.refresh()
    base = consumer.state
    one.publish({1: "first try"}, announce=False)
    stale = one.blobs["delta-1-2"]
    # What a cache of names would hold: the first try, under the name that is announced later.
    one.go_on_from(1, base)
    one.versions.pop()
    one.publish({1: "second try"})
    fresh = one.blobs["delta-1-2"]
    assert stale != fresh
    cache = BlobCache(tmp_path / "cache")
    fill(cache, "delta-1-2", stale, chain=store.url)
    consumer.refresh()
    assert titles(consumer.state) == {1: "second try"}


def test_a_stale_copy_that_took_the_right_name_is_refused_and_fetched_again(chain, store, tmp_path):
    chain.publish({1: "one"})
    consumer = Consumer(store, cache_dir=tmp_path / "cache")
    consumer.refresh()
    chain.publish({1: "two"})
    right = chain.blobs["delta-1-2"]
    wrong = right[:-1] + bytes([right[-1] ^ 255])
    cache = BlobCache(tmp_path / "cache")
    cache._make()
    cache._path(store.url, artifact("delta-1-2", right)).write_bytes(wrong)
    store.calls.clear()
    refresh = consumer.refresh()
    assert titles(consumer.state) == {1: "two"}
    assert fetched(store) == ["delta-1-2"] and not refresh.steps[0].from_cache
    assert find(cache, "delta-1-2", right, chain=store.url) == right


def test_a_blob_that_is_not_the_announced_one_is_refused_and_not_kept(chain, store, tmp_path):
    chain.publish()
    data = bytearray(chain.blobs["snapshot-1"])
    data[50] ^= 1
    store.put("snapshot-1", bytes(data))
    cache = BlobCache(tmp_path / "cache")
    with pytest.raises(ChecksumError):
        Consumer(store, cache_dir=tmp_path / "cache").refresh()
    assert cache.size_bytes() == 0 and list(cache.folder.iterdir()) == []


def test_a_blob_that_grew_is_refused_before_it_is_fetched_whole(chain, store, tmp_path):
    chain.publish()
    store.put("snapshot-1", chain.blobs["snapshot-1"] + bytes(10_000_000))
    for cache_dir in (tmp_path / "cache", False):
        with pytest.raises(ValueError, match="limit"):
            Consumer(store, cache_dir=cache_dir).refresh()


def test_the_folder_is_for_its_owner_alone(tmp_path):
    cache = BlobCache(tmp_path / "cache")
    fill(cache, "delta-1-2", b"content")
    assert cache.folder.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700
    [copy] = cache.folder.iterdir()
    assert copy.stat().st_mode & 0o777 == 0o600


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(StorageError, match="others may write"):
        fill(BlobCache(tmp_path / "cache"), "delta-1-2", b"content")


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    cache = BlobCache(tmp_path / "cache")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StorageError, match="another user"):
        fill(cache, "delta-1-2", b"content")


@pytest.mark.parametrize("planted", ["cache", "cache/blobs"])
def test_a_link_in_the_place_of_the_folder_is_refused(tmp_path, planted):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / planted).parent.mkdir(exist_ok=True, mode=0o700)
    (tmp_path / planted).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="link"):
        fill(BlobCache(tmp_path / "cache"), "delta-1-2", b"content")
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_in_the_place_of_a_copy_is_neither_read_nor_written_through(tmp_path):
    cache = BlobCache(tmp_path / "cache")
    fill(cache, "delta-1-2", b"content")
    [copy] = cache.folder.iterdir()
    copy.unlink()
    (tmp_path / "secret").write_bytes(b"content")
    copy.symlink_to(tmp_path / "secret")
    assert find(cache, "delta-1-2", b"content") is None
    fill(cache, "delta-1-2", b"content")
    assert (tmp_path / "secret").read_bytes() == b"content" and not copy.is_symlink()


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "/x",
        "..%2f",
        "%2e%2e",
        "a\0b",
        "\\\\host\\c",
        "C:\\x",
        "~",
        "x" * 300,
        "Café",
        "Cafe\u0301",
        "a/b",
        "\ud800",
    ],
)
def test_hostile_names_stay_in_the_folder_and_apart(tmp_path, name):
    cache = BlobCache(tmp_path / "cache")
    fill(cache, name, b"content")
    fill(cache, name.upper() + "x", b"content")
    assert find(cache, name, b"content") == b"content"
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {cache.folder}
    assert len(list(cache.folder.iterdir())) == 2


def test_copies_that_were_not_used_for_longest_go_first(tmp_path):
    cache = BlobCache(tmp_path, limit_bytes=25)
    for number, name in enumerate(["delta-1-2", "delta-2-3"]):
        fill(cache, name, b"0123456789")
        [path] = [path for path in cache.folder.iterdir() if path.stat().st_mtime > 1000]
        os.utime(path, (number + 1, number + 1))
    assert find(cache, "delta-1-2", b"0123456789")
    fill(cache, "delta-3-4", b"0123456789")
    assert cache.size_bytes() == 20
    assert find(cache, "delta-2-3", b"0123456789") is None
    assert find(cache, "delta-1-2", b"0123456789") and find(cache, "delta-3-4", b"0123456789")


def test_a_blob_larger_than_the_limit_is_used_and_not_kept(chain, store, tmp_path):
    chain.publish()
    consumer = Consumer(store, cache_dir=tmp_path / "cache", cache_limit_bytes=10)
    assert consumer.refresh().to_version == 1
    assert list((tmp_path / "cache" / "blobs").iterdir()) == []


def test_what_a_crashed_fill_left_is_swept_when_it_is_old(tmp_path):
    cache = BlobCache(tmp_path)
    fill(cache, "delta-1-2", b"content")
    old, new = cache.folder / "filling-1-aa", cache.folder / "filling-2-bb"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    fill(BlobCache(tmp_path), "delta-2-3", b"content")
    assert not old.exists() and new.exists()


def test_a_full_disk_is_no_reason_to_fail(chain, store, tmp_path, monkeypatch, caplog):
    chain.publish()

    def full(self, chain, artifact, fetch):
        raise StorageError(28, "No space left on device")

    monkeypatch.setattr(BlobCache, "fill", full)
    refresh = Consumer(store, cache_dir=tmp_path / "cache").refresh()
    assert refresh.verified and "without a copy" in caplog.text


def test_a_local_store_is_read_where_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAIC_CACHE", str(tmp_path / "cache"))
    SmallChain(LocalStore(tmp_path / "chain")).publish()
    assert Consumer(tmp_path / "chain").refresh().verified
    assert not (tmp_path / "cache").exists()


def test_another_store_has_copies_in_the_users_folder(chain, store, tmp_path, monkeypatch):
    monkeypatch.setenv("DELTAIC_CACHE", str(tmp_path / "cache"))
    chain.publish()
    Consumer(store).refresh()
    assert len(list((tmp_path / "cache" / "blobs").iterdir())) == 1
    Consumer(store, cache_dir=False).refresh()
    assert default_folder({"XDG_CACHE_HOME": "/x"}).as_posix() == "/x/deltaic"


def test_a_chain_in_memory_is_followed(tmp_path):
    chain = SmallChain(open_store("memory:"))
    chain.publish({1: "one"})
    consumer = Consumer(chain.store)
    consumer.refresh()
    chain.publish({1: "two"})
    assert consumer.refresh().verified and titles(consumer.state) == {1: "two"}


@pytest.mark.parametrize(
    "name", ["snapshot-../../x", "snapshot-1/../../x", "delta-1-2/..", "snapshot_../../etc/passwd-1"]
)
def test_a_hostile_announcement_leads_nowhere(chain, store, name):
    chain.publish()
    record = store.get("announced.json").data
    store.put("announced.json", record.replace(b'"snapshot-1"', b'"' + name.encode() + b'"'))
    with pytest.raises(ValueError, match="name"):
        Consumer(store, cache_dir=False).refresh()


def test_a_name_with_leading_zeros_is_not_taken_for_the_one_without(chain, store):
    chain.publish()
    record = store.get("announced.json").data
    store.put("announced.json", record.replace(b'"snapshot-1"', b'"snapshot-01"'))
    with pytest.raises(Exception, match="no snapshot leads"):
        Consumer(store, cache_dir=False).refresh()

"""The `Store` protocol as tests: every store passes them, ours and a user's.

With pytest, subclass `StoreConformance` and give a store:

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def store(self):
            return MyStore()

Without pytest, `check_store(factory)` runs every test against a fresh store and raises the first failure.
Each test works inside the empty store it gets and leaves objects behind.
"""

import inspect
import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltaic.errors import CommitConflictError, InputError, LimitError, NotFoundError
from deltaic.storage.store import Store

STRANGE_KEYS = (
    "a b",
    "ü/é",
    "a%2Fb",
    "x+y",
    "q?z",
    "h#i",
    "day=1/e=ü%20/f",
    "ab:c",
    "star*",
    "[x]",
    "a'b\"c",
    "a&b=c",
    "日本",
    "🎬",
    "%",
    "a%zz",
)
"""Keys that clients and servers like to mangle."""

UNSAFE_KEYS = (
    "",
    "/x",
    "../x",
    "a/../b",
    "a//b",
    "a/",
    "a\\b",
    "a\0b",
    "..%2fx",
    "%2e%2e",
    "~",
    "C:x",
    "a\n",
    "x" * 300,
)
"""Keys that every store refuses."""


class StoreConformance:
    """Tests of one store; a subclass offers the fixture `store`, empty and usable from threads."""

    racing_threads = 16
    racing_keys = 8

    def test_what_was_put_is_got(self, store: Store) -> None:
        etag = store.put("a/b", b"one")
        blob = store.get("a/b")
        assert (blob.data, blob.etag) == (b"one", etag)
        assert type(blob.data) is bytes

    def test_a_put_replaces(self, store: Store) -> None:
        first = store.put("k", b"one")
        second = store.put("k", b"two")
        assert first != second
        assert store.get("k").data == b"two"

    def test_an_empty_object_is_an_object(self, store: Store) -> None:
        store.put("empty", b"")
        assert store.get("empty").data == b""
        assert store.head("empty").size_bytes == 0

    def test_memoryviews_are_taken(self, store: Store) -> None:
        store.put("k", memoryview(bytearray(b"xabcx"))[1:4])
        assert store.get("k").data == b"abc"

    def test_a_missing_object_is_not_found(self, store: Store) -> None:
        for call in (
            store.get,
            store.head,
            lambda key: store.get_range(key, 0, 1),
            lambda key: store.get_if_changed(key, None),
        ):
            _raises(NotFoundError, lambda call=call: call("nothing"))  # type: ignore[misc]

    def test_an_object_is_no_folder_and_a_folder_no_object(self, store: Store) -> None:
        store.put("a/b", b"")
        _raises(NotFoundError, lambda: store.get("a"))

    def test_head_tells_what_get_tells(self, store: Store) -> None:
        store.put("k", b"12345")
        info = store.head("k")
        assert (info.key, info.size_bytes, info.etag) == ("k", 5, store.get("k").etag)
        assert abs(info.modified - datetime.now(UTC)) < timedelta(minutes=5)

    def test_a_range_is_a_slice(self, store: Store) -> None:
        store.put("k", b"0123456789")
        for start, length in ((0, 10), (0, 1), (3, 4), (8, 100), (9, 1), (10, 1), (50, 5), (2, 0)):
            assert store.get_range("k", start, length) == b"0123456789"[start : start + length], (start, length)
        _raises(InputError, lambda: store.get_range("k", -1, 2))
        _raises(InputError, lambda: store.get_range("k", 0, -2))

    def test_an_unchanged_object_is_not_read_again(self, store: Store) -> None:
        etag = store.put("k", b"one")
        assert store.get_if_changed("k", etag) is None
        new_etag = store.put("k", b"two")
        blob = store.get_if_changed("k", etag)
        assert blob is not None and (blob.data, blob.etag) == (b"two", new_etag)
        first = store.get_if_changed("k", None)
        assert first is not None and first.data == b"two"

    def test_a_limit_is_checked_before_reading(self, store: Store) -> None:
        etag = store.put("k", b"x" * 100)
        assert len(store.get("k", limit_bytes=100).data) == 100
        _raises(LimitError, lambda: store.get("k", limit_bytes=99))
        _raises(LimitError, lambda: store.get_if_changed("k", etag + "old", limit_bytes=99))
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "copy")
            _raises(LimitError, lambda: store.get_to_file("k", target, limit_bytes=99))
            assert not target.exists()

    def test_get_to_file_makes_a_new_file_or_none(self, store: Store) -> None:
        etag = store.put("k", b"abc" * 1000)
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder, "copy")
            info = store.get_to_file("k", target)
            assert (info.size_bytes, info.etag) == (3000, etag)
            assert target.read_bytes() == b"abc" * 1000
            _raises(OSError, lambda: store.get_to_file("k", target))
            missing = Path(folder, "missing")
            _raises(NotFoundError, lambda: store.get_to_file("nothing", missing))
            assert not missing.exists()

    def test_listing_finds_by_text_prefix_at_any_depth(self, store: Store) -> None:
        keys = ["delta-1-2", "delta-1-20", "delta-10-2", "deep/er/x", "deep/y", "deeper/z", "d"]
        for key in keys:
            store.put(key, key.encode())
        for prefix in ("", "d", "delta-1-", "delta-1", "deep/", "deep", "deep/er/", "deep/e", "nothing", "nothing/x"):
            found = {info.key: info.size_bytes for info in store.list(prefix)}
            assert found == {key: len(key) for key in keys if key.startswith(prefix)}, prefix

    def test_a_listing_of_many_objects_is_complete(self, store: Store) -> None:
        for number in range(120):
            store.put(f"many/{number:04}", b"")
        assert len({info.key for info in store.list("many/")}) == 120
        assert len(list(store.list("many/01"))) == 20

    def test_folders_are_those_that_hold_objects(self, store: Store) -> None:
        for key in ("top", "b/x", "a/y", "a/c/z", "gone/x"):
            store.put(key, b"")
        store.delete("gone/x")
        assert store.folders() == ("a", "b")
        assert store.folders("a") == ("c",) == store.folders("a/")
        assert store.folders("nothing") == ()

    def test_put_if_absent_never_replaces(self, store: Store) -> None:
        etag = store.put_if_absent("k", b"first")
        _raises(CommitConflictError, lambda: store.put_if_absent("k", b"second"))
        blob = store.get("k")
        assert (blob.data, blob.etag) == (b"first", etag)
        store.delete("k")
        store.put_if_absent("k", b"third")
        assert store.get("k").data == b"third"

    def test_put_if_match_replaces_only_what_was_read(self, store: Store) -> None:
        first = store.put("k", b"one")
        second = store.put_if_match("k", b"two", first)
        _raises(CommitConflictError, lambda: store.put_if_match("k", b"three", first))
        assert store.get("k").data == b"two"
        store.put_if_match("k", b"three", second)
        assert store.get("k").data == b"three"

    def test_put_if_match_of_a_missing_object_is_a_conflict(self, store: Store) -> None:
        etag = store.put("k", b"one")
        store.delete("k")
        _raises(CommitConflictError, lambda: store.put_if_match("k", b"two", etag))
        _raises(NotFoundError, lambda: store.get("k"))

    def test_fast_successive_writes_of_one_size_have_different_etags(self, store: Store) -> None:
        etags = [store.put("k", b"%06d" % number) for number in range(50)]
        assert len(set(etags)) == 50

    def test_copy_if_absent_gives_a_staged_object_its_name(self, store: Store) -> None:
        store.put("staging/x", b"bytes")
        etag = store.copy_if_absent("staging/x", "chain/final")
        blob = store.get("chain/final")
        assert (blob.data, blob.etag) == (b"bytes", etag)
        _raises(CommitConflictError, lambda: store.copy_if_absent("staging/x", "chain/final"))
        store.delete("staging/x")
        assert store.get("chain/final").data == b"bytes"
        _raises(NotFoundError, lambda: store.copy_if_absent("staging/x", "chain/other"))

    def test_a_large_object_goes_in_pieces(self, store: Store) -> None:
        pieces = [bytes([number]) * 3_000_000 for number in range(12)]
        store.put_chunks("large", iter(pieces))
        whole = b"".join(pieces)
        assert store.head("large").size_bytes == len(whole)
        assert store.get_range("large", 2_999_999, 2) == b"\0\1"
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "source"), Path(folder, "target")
            source.write_bytes(whole)
            store.put_file("from-file", source)
            info = store.get_to_file("from-file", target)
            assert target.read_bytes() == whole
            assert info.etag == store.head("from-file").etag

    def test_few_and_no_pieces_are_an_object_too(self, store: Store) -> None:
        store.put_chunks("none", iter(()))
        store.put_chunks("few", iter((b"a", b"", b"b")))
        assert (store.get("none").data, store.get("few").data) == (b"", b"ab")

    def test_a_failing_source_leaves_the_old_object(self, store: Store) -> None:
        store.put("k", b"old")

        def broken(size_bytes: int) -> Iterator[bytes]:
            for _ in range(4):
                yield b"x" * size_bytes
            raise RuntimeError("the source broke")

        for size_bytes in (10, 9_000_000):
            _raises(RuntimeError, lambda size_bytes=size_bytes: store.put_chunks("k", broken(size_bytes)))  # type: ignore[misc]
        assert store.get("k").data == b"old"
        assert [info.key for info in store.list()] == ["k"]

    def test_a_deleted_object_is_gone_and_may_be_deleted_again(self, store: Store) -> None:
        store.put("k", b"")
        store.delete("k")
        store.delete("k")
        store.delete("never/was")
        _raises(NotFoundError, lambda: store.get("k"))
        assert list(store.list()) == []

    def test_a_child_sees_only_its_folder(self, store: Store) -> None:
        child = store.child("a").child("b/c")
        child.put("k", b"x")
        store.put("a/b/cc", b"")
        assert store.get("a/b/c/k").data == b"x"
        assert [info.key for info in child.list()] == ["k"]
        assert [info.key for info in child.list("k")] == ["k"]
        assert child.head("k").key == "k"
        assert child.url.endswith("/a/b/c")
        for name in UNSAFE_KEYS:
            _raises(InputError, lambda name=name: store.child(name))  # type: ignore[misc]

    def test_strange_keys_come_back_as_they_were(self, store: Store) -> None:
        for key in STRANGE_KEYS:
            store.put_if_absent(key, key.encode())
        assert {info.key for info in store.list()} == set(STRANGE_KEYS)
        for key in STRANGE_KEYS:
            assert store.get(key).data == key.encode()
            assert [info.key for info in store.list(key)] == [other for other in STRANGE_KEYS if other.startswith(key)]

    def test_unsafe_keys_are_refused_by_every_call(self, store: Store) -> None:
        calls: list[Callable[[str], object]] = [
            store.get,
            store.head,
            store.delete,
            lambda key: store.put(key, b""),
            lambda key: store.put_if_absent(key, b""),
            lambda key: store.put_if_match(key, b"", "x"),
            lambda key: store.put_chunks(key, ()),
            lambda key: store.get_range(key, 0, 1),
            lambda key: store.copy_if_absent("a", key),
        ]
        store.put("a", b"")
        for key in UNSAFE_KEYS:
            for call in calls:
                _raises(InputError, lambda call=call, key=key: call(key))  # type: ignore[misc]

    def test_of_racing_creators_one_wins(self, store: Store) -> None:
        for number in range(self.racing_keys):
            key = f"race/{number}"
            won = self._race(lambda name, key=key: store.put_if_absent(key, name))  # type: ignore[misc]
            assert len(won) == 1, f"{len(won)} writers won {key}"
            assert store.get(key).data == won[0]

    def test_of_racing_replacers_one_wins(self, store: Store) -> None:
        for number in range(self.racing_keys):
            key = f"race/{number}"
            etag = store.put(key, b"old")
            won = self._race(lambda name, key=key, etag=etag: store.put_if_match(key, name, etag))  # type: ignore[misc]
            assert len(won) == 1, f"{len(won)} writers won {key}"
            assert store.get(key).data == won[0]

    def test_readers_never_see_half(self, store: Store) -> None:
        values = [bytes([number]) * 200_000 for number in range(8)]
        store.put("k", values[0])
        done = threading.Event()
        seen: list[bytes] = []

        def read() -> None:
            while not done.is_set():
                seen.append(store.get("k").data)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for value in values * 3:
                store.put("k", value)
        finally:
            done.set()
            reader.join()
        assert seen and all(value in values for value in seen)

    def _race(self, write: Callable[[bytes], object]) -> list[bytes]:
        barrier = threading.Barrier(self.racing_threads)
        won: list[bytes] = []
        failures: list[BaseException] = []

        def run(name: bytes) -> None:
            barrier.wait()
            try:
                write(name)
                won.append(name)
            except CommitConflictError:
                pass
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(b"writer %d" % number,)) for number in range(self.racing_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        return won


def check_store(factory: Callable[[], Store]) -> list[str]:
    """Run the whole suite, each test on a fresh store; gives the names of the tests that passed."""
    suite = StoreConformance()
    passed = []
    for name, test in inspect.getmembers(suite, inspect.ismethod):
        if name.startswith("test_"):
            test(factory())
            passed.append(name)
    return passed


def _raises(wanted: type[BaseException], call: Callable[[], object]) -> None:
    try:
        call()
    except wanted:
        return
    raise AssertionError(f"{wanted.__name__} was not raised")

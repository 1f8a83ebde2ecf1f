"""The split cache: one copy, whole or not there, never taken away from who uses it, never larger than allowed."""

import errno
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
import tantivy

from deltaic.errors import DecodeError, StorageError
from deltaic.storage import open_store
from deltaic.storage.local import LocalStore
from deltaic.table import AddFile
from deltaic.table.split import ColumnIndex, DocMapping, SplitCache, open_index, write_split
from deltaic.table.split import entry as entries
from deltaic.table.split.cache import default_folder


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A folder with four splits of two hundred rows."""
    folder = tmp_path / "table"
    folder.mkdir()
    for number in range(4):
        rows = pa.table({"id": range(number * 1000, number * 1000 + 200), "text": [f"word{row}" for row in range(200)]})
        write_split(
            rows, DocMapping.from_schema(rows.schema, {"text": ColumnIndex("text")}), folder / f"{number}.split"
        )
    return folder


def _names(cache: SplitCache) -> list[str]:
    return sorted(path.name for path in cache.folder.iterdir() if path.is_dir())


def _size_of_one(table: Path, tmp_path: Path) -> int:
    measured = SplitCache(tmp_path / "measured")
    measured.get(LocalStore(table), "0.split")
    gc.collect()
    return measured.usage().size_bytes


def test_a_split_is_unpacked_once_and_found_again(table, tmp_path, monkeypatch):
    cache = SplitCache(tmp_path / "cache")
    first = cache.get(LocalStore(table), "0.split")
    assert cache.get(LocalStore(table), "0.split") is first
    unpacked = []
    monkeypatch.setattr("deltaic.table.split.cache.unpack_split", lambda *given: unpacked.append(given))
    other = SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split")
    assert other.index_folder == first.index_folder and not unpacked
    assert other.rows.equals(first.rows)


def test_with_and_without_the_add_action_it_is_one_entry(table, tmp_path):
    cache = SplitCache(tmp_path / "cache")
    size = (table / "0.split").stat().st_size
    one = cache.get(LocalStore(table), "0.split")
    two = SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split", AddFile("0.split", {}, size, 0))
    assert one.index_folder == two.index_folder


def test_rows_are_mapped_not_copied(table, tmp_path):
    cached = SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split")
    pa.default_memory_pool().release_unused()
    before = pa.total_allocated_bytes()
    again = SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split")
    assert again.rows.equals(cached.rows)
    assert pa.total_allocated_bytes() - before < 1000


def test_a_split_from_a_remote_store_is_the_same(table, tmp_path):
    store = open_store(f"memory:split-{time.time_ns()}")
    store.put("0.split", (table / "0.split").read_bytes())
    cached = SplitCache(tmp_path / "cache").get(store, "0.split")
    assert cached.rows.equals(SplitCache(tmp_path / "other").get(LocalStore(table), "0.split").rows)
    assert not [path for path in cached.index_folder.parent.iterdir() if "download" in path.name]


def test_entries_unused_for_longest_go_first(table, tmp_path):
    one = _size_of_one(table, tmp_path)
    cache = SplitCache(tmp_path / "cache", max_bytes=one * 5 // 2)
    places = []
    for number in (0, 1, 0, 2):
        places.append(cache.get(LocalStore(table), f"{number}.split").index_folder.parent.name)
        gc.collect()
        time.sleep(0.02)
    assert _names(cache) == sorted({places[0], places[3]})
    assert cache.usage().size_bytes <= cache.max_bytes


def test_what_is_in_use_is_never_removed_and_a_full_cache_says_so(table, tmp_path):
    one = _size_of_one(table, tmp_path)
    cache = SplitCache(tmp_path / "cache", max_bytes=one * 5 // 2)
    held = [cache.get(LocalStore(table), f"{number}.split") for number in (0, 1)]
    assert cache.usage().used_bytes == cache.usage().size_bytes
    with pytest.raises(StorageError, match="in use.*raise max_bytes") as caught:
        cache.get(LocalStore(table), "2.split")
    assert caught.value.errno == errno.ENOSPC
    assert all(split.index_folder.is_dir() for split in held)
    assert cache.clear() == 0
    del held, caught
    gc.collect()
    assert cache.get(LocalStore(table), "2.split").num_rows == 200
    assert not list(cache.folder.glob(".tmp-*"))


def test_rows_outlive_their_entry(table, tmp_path):
    cache = SplitCache(tmp_path / "cache")
    rows = cache.get(LocalStore(table), "0.split").rows
    gc.collect()
    assert cache.clear() > 0
    assert _names(cache) == []
    assert rows.column("id").to_pylist() == list(range(200))


@pytest.mark.slow
def test_another_process_keeps_what_it_uses(table, tmp_path):
    script = """
        import sys
        from deltaic.storage.local import LocalStore
        from deltaic.table.split import SplitCache
        held = SplitCache(sys.argv[1]).get(LocalStore(sys.argv[2]), "0.split")
        print("held", flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "cache"), str(table)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        cache = SplitCache(tmp_path / "cache")
        assert cache.clear() == 0 and len(_names(cache)) == 1
        assert cache.usage().used_bytes > 0
        other.communicate()
    assert cache.clear() > 0


@pytest.mark.slow
def test_a_process_killed_while_unpacking_leaves_nothing_that_is_taken_for_an_entry(table, tmp_path):
    script = """
        import os, signal, sys
        from deltaic.storage.local import LocalStore
        from deltaic.table.split import SplitCache, entry
        step = int(sys.argv[3])
        calls = 0
        def dying(real):
            def call(*given, **more):
                global calls
                calls += 1
                if calls == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*given, **more)
            return call
        entry.write_ipc = dying(entry.write_ipc)
        entry.write_entry = dying(entry.write_entry)
        entry._unpack_index = dying(entry._unpack_index)
        from pathlib import Path
        Path.rename = dying(Path.rename)
        Path.write_bytes = dying(Path.write_bytes)
        SplitCache(sys.argv[1]).get(LocalStore(sys.argv[2]), "0.split")
        print("done")
    """
    ended = []
    for step in range(1, 20):
        command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "cache"), str(table), str(step)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        ended.append(done.returncode)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        cache = SplitCache(tmp_path / "cache")
        assert _names(cache) == [name for name in _names(cache) if name.startswith(".tmp-")]
    assert len(ended) > 5 and ended[-1] == 0
    cache = SplitCache(tmp_path / "cache")
    cached = cache.get(LocalStore(table), "0.split")
    assert cached.rows.num_rows == 200
    assert _names(cache) == [cached.index_folder.parent.name]


def test_what_a_dead_builder_left_is_swept_by_whoever_builds_another(table, tmp_path):
    cache = SplitCache(tmp_path / "cache")
    left = cache.folder / f".tmp-{'a' * 40}-12345678"
    left.mkdir(parents=True)
    (left / "rows.arrow").write_bytes(b"half")
    cache.get(LocalStore(table), "0.split")
    assert not left.exists()


def _get(folder: Path, table: Path, number: int, answers) -> None:
    cached = SplitCache(folder).get(LocalStore(table), f"{number}.split")
    answers.put((str(cached.index_folder), cached.rows.num_rows))


@pytest.mark.slow
def test_processes_and_threads_that_come_together_make_one_copy(table, tmp_path):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    workers = [context.Process(target=_get, args=(tmp_path / "cache", table, 0, answers)) for _ in range(4)]
    for worker in workers:
        worker.start()
    found = [answers.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join()
    assert len(set(found)) == 1
    cache = SplitCache(tmp_path / "cache")
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(cache.get(LocalStore(table), "1.split"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(result) for result in results}) == 1
    assert len(_names(cache)) == 2


@pytest.mark.parametrize("damage", ["cut", "flip", "gone", "entry", "older boot"])
def test_a_damaged_entry_is_made_anew(table, tmp_path, damage):
    cached = SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split")
    folder = cached.index_folder.parent
    del cached
    gc.collect()
    rows = folder / "rows.arrow"
    data = bytearray(rows.read_bytes())
    stamp = rows.stat().st_mtime_ns
    data[len(data) // 2] ^= 1
    if damage == "cut":
        rows.write_bytes(data[:-10])
    elif damage == "flip":
        rows.write_bytes(data)
    elif damage == "gone":
        next(folder.glob("index/*.term")).unlink()
    elif damage == "entry":
        (folder / "entry.json").write_bytes(b'{"where":')
    else:
        # What the disk changed by itself has the old time: it is looked for after each start of the machine.
        rows.write_bytes(data)
        os.utime(rows, ns=(stamp, stamp))
        text = (folder / "entry.json").read_text()
        (folder / "entry.json").write_text(text.replace('"boot":"', '"boot":"another-'))
    again = SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split")
    assert again.rows.column("id").to_pylist() == list(range(200))
    index = open_index(again.index_folder)
    assert index.searcher().search(tantivy.Query.term_query(index.schema, "text", "word7")).count == 1


def test_a_file_that_was_only_touched_is_kept(table, tmp_path):
    cached = SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split")
    rows = cached.index_folder.parent / "rows.arrow"
    inode = rows.stat().st_ino
    os.utime(rows)
    SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split")
    assert rows.stat().st_ino == inode


def test_another_split_of_the_same_path_and_size_is_not_taken_for_it(table, tmp_path):
    data = (table / "0.split").read_bytes()
    size = len(data)
    one = AddFile("0.split", {}, size, 0, tags=_tags(table, "0.split"))
    first = SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split", one)
    two = AddFile("0.split", {}, size, 0, tags={**one.tags, "deltaic.description": "crc32c:00000000"})
    del first
    with pytest.raises(DecodeError):
        SplitCache(tmp_path / "cache").get(LocalStore(table), "0.split", two)


def _tags(table: Path, name: str) -> dict[str, str]:
    from deltaic.storage.checksum import checksum
    from tests.unit.table.split.plain_reader import members_of

    return {"deltaic.description": checksum(members_of((table / name).read_bytes())["_deltaic.json"])}


def test_a_full_disk_is_said_and_leaves_nothing(table, tmp_path, monkeypatch):
    def full(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    cache = SplitCache(tmp_path / "cache")
    monkeypatch.setattr(entries, "write_ipc", full)
    with pytest.raises(StorageError, match="No space left on device; free some space") as caught:
        cache.get(LocalStore(table), "0.split")
    assert caught.value.errno == errno.ENOSPC
    assert [path.name for path in cache.folder.iterdir() if not path.name.endswith(".lock")] == []


def test_a_full_disk_is_helped_by_what_nobody_uses(table, tmp_path, monkeypatch):
    cache = SplitCache(tmp_path / "cache")
    cache.get(LocalStore(table), "0.split")
    gc.collect()
    real, calls = entries.write_ipc, []

    def full_at_first(*given):
        calls.append(given)
        if len(calls) == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(*given)

    monkeypatch.setattr(entries, "write_ipc", full_at_first)
    assert cache.get(LocalStore(table), "1.split").num_rows == 200
    assert len(_names(cache)) == 1


def test_a_cache_that_cannot_be_written_to_says_what_to_do(table, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    with pytest.raises(StorageError, match="DELTAIC_SPLIT_CACHE"):
        SplitCache(blocked / "cache").get(LocalStore(table), "0.split")


def test_a_damaged_split_gets_no_entry(table, tmp_path):
    data = bytearray((table / "0.split").read_bytes())
    data[100] ^= 1
    (table / "0.split").write_bytes(data)
    cache = SplitCache(tmp_path / "cache")
    with pytest.raises(DecodeError):
        cache.get(LocalStore(table), "0.split")
    assert _names(cache) == []


def test_prewarm_unpacks_all_and_usage_counts_them(table, tmp_path):
    cache = SplitCache(tmp_path / "cache")
    files = [AddFile(f"{number}.split", {}, (table / f"{number}.split").stat().st_size, 0) for number in range(4)]
    usage = cache.prewarm(LocalStore(table), files)
    assert usage.num_splits == 4
    assert usage.size_bytes == sum(path.stat().st_size for path in cache.folder.rglob("*") if path.is_file())
    gc.collect()
    assert cache.usage().used_bytes == 0


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"DELTAIC_SPLIT_CACHE": "/a", "DELTAIC_CACHE": "/b"}, "/a"),
        ({"DELTAIC_CACHE": "/b", "XDG_CACHE_HOME": "/c"}, "/b/splits"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/deltaic/splits"),
    ],
)
def test_where_the_cache_is(monkeypatch, environment, expected):
    for name in ("DELTAIC_SPLIT_CACHE", "DELTAIC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(default_folder()) == expected

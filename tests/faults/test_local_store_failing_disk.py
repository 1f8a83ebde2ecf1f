"""The local store on a disk that fails: the right error, and nothing left behind."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from deltaic.errors import CommitUnknownError, DeltaicError, NotFoundError, StorageError
from deltaic.storage.disk import RealDisk
from deltaic.storage.local import LOCK_NAME, LocalStore
from deltaic.testing.dishonest_disk import DishonestDisk
from deltaic.testing.stepped_disk import SteppedDisk

OLD, NEW = b"old " * 100, b"new " * 150
OPERATIONS: dict[str, Callable[[LocalStore], object]] = {
    "put": lambda store: store.put("a/k", NEW),
    "put_chunks": lambda store: store.put_chunks("a/k", [NEW, NEW]),
    "put_if_absent": lambda store: store.put_if_absent("a/new", NEW),
    "put_if_match": lambda store: store.put_if_match("a/k", NEW, store.head("a/k").etag or ""),
    "copy_if_absent": lambda store: store.copy_if_absent("a/k", "a/new"),
    "delete": lambda store: store.delete("a/k"),
}


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.name != LOCK_NAME}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS])
@pytest.mark.parametrize("name", OPERATIONS)
def test_each_step_failing_once_gives_the_right_error_and_leaves_nothing(
    name: str, number: int, tmp_path: Path
) -> None:
    reached = set()
    for fail_at in range(1, 40):
        folder = tmp_path / str(fail_at)
        LocalStore(folder).put("a/k", OLD)
        steps: list[str] = []
        failed_step = ""

        def on_step(step: str, fail_at: int = fail_at, steps: list[str] = steps) -> None:
            nonlocal failed_step
            if step.startswith("before"):
                steps.append(step.removeprefix("before "))
                if len(steps) == fail_at:
                    failed_step = steps[-1]
                    raise OSError(number, os.strerror(number))

        store = LocalStore(folder, disk=SteppedDisk(RealDisk(folder), on_step))
        try:
            OPERATIONS[name](store)
        except DeltaicError as error:
            after_the_name = failed_step == "sync_folder" and steps[fail_at - 2] in ("link", "rename", "unlink")
            unknown = after_the_name or (failed_step in ("link", "rename") and number == errno.EIO)
            if unknown and name.startswith(("put_if", "copy")):
                assert isinstance(error, CommitUnknownError), failed_step
            else:
                assert isinstance(error, StorageError), failed_step
                assert error.errno == number
            reached.add(failed_step)
            assert "h-" not in str(error)
            leftovers = files(folder) - {"a/k"}
            assert leftovers <= ({"a/new"} if after_the_name else set()), failed_step
        else:
            assert failed_step in ("", "unlink"), f"{failed_step} failed unnoticed"
            if failed_step == "":
                break
    assert reached


def test_a_full_disk_in_the_middle_of_a_write_leaves_the_old_object() -> None:
    disk = DishonestDisk(capacity_bytes=5000)
    store = LocalStore("/simulated", disk=disk)
    store.put("k", b"x" * 1000)
    with pytest.raises(StorageError) as caught:
        store.put_chunks("k", [b"y" * 2000] * 3)
    assert caught.value.errno == errno.ENOSPC
    assert disk.files() == {"k": b"x" * 1000}
    with pytest.raises(StorageError):
        store.put_if_absent("new", b"z" * 4500)
    assert disk.files() == {"k": b"x" * 1000}


def test_a_file_size_limit_of_the_system_is_a_storage_error(tmp_path: Path) -> None:
    script = f"""
import resource, signal
from deltaic.storage.local import LocalStore
from deltaic.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = LocalStore({str(tmp_path)!r})
store.put("k", b"old")
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    store.put("k", b"x" * 200_000)
except StorageError as error:
    print("refused", error.errno)
"""
    answer = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["refused", str(errno.EFBIG)]
    assert files(tmp_path) == {"k"}


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("when", [1, 2])
def test_a_real_fsync_that_fails_is_reported(when: int, tmp_path: Path) -> None:
    script = f"""
from deltaic.storage.local import LocalStore
from deltaic.errors import StorageError, CommitUnknownError
try:
    LocalStore({str(tmp_path)!r}).put_if_absent("k", b"x")
except (StorageError, CommitUnknownError) as error:
    print(type(error).__name__)
"""
    inject = [
        "strace",
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=fsync",
        "-e",
        f"inject=fsync:error=EIO:when={when}",
    ]
    command = [*inject, sys.executable, "-W", "ignore", "-c", script]
    answer = subprocess.run(command, capture_output=True, text=True)
    if "ptrace" in answer.stderr.lower():
        pytest.skip(f"strace may not trace here: {answer.stderr.strip()[:100]}")
    # The first fsync is the file's: nothing happened. The second is the folder's: the name may or may not survive.
    assert answer.stdout.strip() == ("StorageError", "CommitUnknownError")[when - 1], answer.stderr
    assert files(tmp_path) == (set() if when == 1 else {"k"})


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_file_and_folder_are_synced_in_order(tmp_path: Path) -> None:
    script = f"from deltaic.storage.local import LocalStore\nLocalStore({str(tmp_path)!r}).put_if_absent('k', b'x')\n"
    command = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync,linkat,link,renameat,rename,renameat2"]
    answer = subprocess.run([*command, sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True)
    if "ptrace" in answer.stderr.lower():
        pytest.skip("strace may not trace here")
    calls = [line.split("(")[0].split()[-1] for line in answer.stderr.splitlines() if "(" in line]
    assert calls[-3:] == ["fsync", "linkat", "fsync"]


def test_a_reader_of_an_unreadable_object_gets_a_storage_error(tmp_path: Path) -> None:
    class Broken(RealDisk):
        def read(self, handle: int, start: int, length: int) -> bytes:
            raise OSError(errno.EIO, "broken")

    LocalStore(tmp_path).put("k", b"x")
    store = LocalStore(tmp_path, disk=Broken(tmp_path))
    for call in (
        store.get,
        store.head,
        lambda key: store.get_range(key, 0, 1),
        lambda key: store.get_to_file(key, tmp_path / "out"),
    ):
        with pytest.raises(StorageError) as caught:
            call("k")
        assert caught.value.errno == errno.EIO
        assert not isinstance(caught.value, NotFoundError)
    assert not (tmp_path / "out").exists()


def test_no_handle_is_left_open_by_failures(tmp_path: Path) -> None:
    def on_step(step: str) -> None:
        if step == "before sync":
            raise OSError(errno.EIO, "broken")

    store = LocalStore(tmp_path, disk=SteppedDisk(RealDisk(tmp_path), on_step))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with pytest.raises(StorageError):
            store.put("k", b"x")
        with pytest.raises(NotFoundError):
            store.get("k")
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_lock_that_another_process_holds_is_waited_for_and_then_reported(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, lock_timeout_seconds=0.2)
    etag = store.put("k", b"x")
    with RealDisk(tmp_path).lock(LOCK_NAME, 1), pytest.raises(StorageError, match="lock"):
        store.put_if_match("k", b"y", etag)
    assert store.get("k").data == b"x"
    store.put_if_match("k", b"y", etag)


def test_racing_processes_count_without_losing_one(tmp_path: Path) -> None:
    script = f"""
from deltaic.storage.local import LocalStore
from deltaic.errors import CommitConflictError
store = LocalStore({str(tmp_path)!r})
for _ in range(25):
    while True:
        blob = store.get("count")
        try:
            store.put_if_match("count", b"%d" % (int(blob.data) + 1), blob.etag)
            break
        except CommitConflictError:
            pass
"""
    LocalStore(tmp_path).put("count", b"0")
    writers = [subprocess.Popen([sys.executable, "-W", "ignore", "-c", script]) for _ in range(4)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    assert LocalStore(tmp_path).get("count").data == b"100"


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        LocalStore(tmp_path / "root").put("a/k", b"x")
        LocalStore(tmp_path / "private", file_mode=0o600, folder_mode=0o700).put("a/k", b"x")
    finally:
        os.umask(old)
    modes = [(tmp_path / path).stat().st_mode & 0o777 for path in ("root/a/k", "root/a", "private/a/k", "private/a")]
    assert modes == [0o640, 0o750, 0o600, 0o700]


def test_a_sweep_removes_only_old_temporary_files(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    store.put("a/k", b"x")
    old, young = tmp_path / "a" / ".deltaic-tmp-old", tmp_path / ".deltaic-tmp-young"
    old.write_bytes(b"")
    young.write_bytes(b"")
    os.utime(old, (1, 1))
    assert store.sweep(dry_run=True) == ("a/.deltaic-tmp-old",)
    assert old.exists()
    assert store.sweep() == ("a/.deltaic-tmp-old",)
    assert files(tmp_path) == {"a/k", ".deltaic-tmp-young"}
    assert store.sweep() == ()

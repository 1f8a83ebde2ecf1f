"""From URLs to stores, across processes, and the testing stores themselves."""

import importlib.metadata
import os
import pickle
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from deltaic import storage
from deltaic.errors import CommitConflictError, CommitUnknownError, InputError, LimitError, NotFoundError, StorageError
from deltaic.storage.local import LocalStore
from deltaic.storage.remote import RemoteStore
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.testing.faulty_store import EVERY_FAULT, Fault, FaultKind, FaultyStore, Moment
from deltaic.testing.simulated_store import FaultRates, SimulatedStore
from deltaic.testing.stores import S3Server, s3_server


def test_paths_and_file_urls_are_local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "a b%"
    for url in (str(folder), folder, folder.as_uri(), "a b%", "./a b%", f"file://localhost{folder.as_uri()[7:]}"):
        store = open_store(url)
        assert isinstance(store, LocalStore)
        assert store.url == folder.as_uri()
    open_store(folder).put("k", b"x")
    assert (folder / "k").read_bytes() == b"x"


@pytest.mark.parametrize("url", ["file://host/x", "nothing://x/y", "", "a\0b", "s3://", "s3:///x", "s3://bucket/../x"])
def test_what_is_no_store_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        open_store(url)


@pytest.mark.parametrize("url", ["s3://bucket/a", "s3a://bucket", "gs://bucket/a/b", "az://container/a"])
def test_cloud_urls_open_without_asking_anybody(url: str) -> None:
    options = {"az": {"account_name": "fake", "account_key": "ZmFrZQ=="}, "gs": {"skip_signature": "true"}}
    store = open_store(url, options=options.get(url[:2], {"region": "us-east-1"}))
    assert isinstance(store, RemoteStore)
    assert (store.url, isinstance(store, Store)) == (url, True)


def test_a_memory_store_with_a_name_is_shared() -> None:
    open_store("memory:shared-by-name").put("k", b"x")
    assert open_store("memory:shared-by-name").get("k").data == b"x"
    assert list(open_store("memory:another-name").list()) == []
    assert list(open_store("memory:").list()) == []


def test_options_for_a_store_that_takes_none_are_refused(tmp_path: Path) -> None:
    for url in (str(tmp_path), "memory:"):
        with pytest.raises(InputError):
            open_store(url, options={"region": "x"})


def test_another_scheme_comes_from_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints([EntryPoint("sim", f"{__name__}:make_simulated", "deltaic.stores")])
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **chosen: points.select(**chosen))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[test_paths_and_file_urls_are_local.__module__])
    assert isinstance(open_store("sim://x", options={"a": 1}), SimulatedStore)
    with pytest.raises(InputError):
        open_store("other://x")


def make_simulated(url: str, options: dict[str, object]) -> SimulatedStore:
    assert (url, options) == ("sim://x", {"a": 1})
    return SimulatedStore()


def test_a_local_store_is_pickled_as_its_place(tmp_path: Path) -> None:
    store = LocalStore(tmp_path, file_mode=0o600).child("a")
    store.put("k", b"x")
    other = pickle.loads(pickle.dumps(store))
    assert (other.url, other.get("k").data, other._modes) == (store.url, b"x", (0o600, 0o755))


def test_a_bare_import_takes_no_client_library() -> None:
    script = """
import sys, deltaic.storage
deltaic.storage.open_store("somewhere")
heavy = ("obstore", "moto", "cramjam", "asyncio", "pyarrow", "importlib.metadata", "msgspec")
print([name for name in (*heavy, "deltaic.storage.announcement") if name in sys.modules])
"""
    answer = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


@pytest.mark.parametrize("name", storage.__all__)
def test_every_name_of_the_folder_is_loaded_when_it_is_asked_for(name: str) -> None:
    script = f"""
import deltaic.storage as storage, types
from deltaic.storage import {name}
assert storage.{name} is {name} and not isinstance({name}, types.ModuleType)
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_a_name_that_the_folder_does_not_have_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        storage.nothing  # noqa: B018 - the asking is what is tested


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    pytest.importorskip("moto", reason="moto is not installed")
    with s3_server() as server:
        yield server


def in_a_forked_child(work: Callable[[], None]) -> int:
    """The exit code of a child that does the work: 0, 1 if it raised, -9 if it did not end within 20 seconds."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    for _ in range(200):
        finished, status = os.waitpid(child, os.WNOHANG)
        if finished:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("kind", ["local", "memory", "s3"])
def test_a_store_works_in_a_forked_child(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "s3":
        store: Store = request.getfixturevalue("s3").store("forked", prefix="some/where")
    else:
        store = open_store(tmp_path / "store" if kind == "local" else "memory:")
    etag = store.put("k", b"before the fork")

    def work() -> None:
        assert store.get("k").data == b"before the fork"
        assert store.get_if_changed("k", etag) is None
        store.put_chunks("large", [b"x" * 5_000_000] * 5)
        assert (
            store.get_to_file("large", tmp_path / "copy").size_bytes == 25_000_000 == (tmp_path / "copy").stat().st_size
        )
        assert store.get_range("k", 2, 3) == b"for"
        deep = store.child("deep")
        deep.put_file("file", tmp_path / "copy")
        assert [info.key for info in store.list("deep/")] == ["deep/file"]
        assert store.folders() == ("deep",)
        store.delete("deep/file")
        store.put_if_match("k", b"by the child", etag)
        for conflict in (lambda: store.put_if_match("k", b"again", etag), lambda: store.put_if_absent("k", b"again")):
            with pytest.raises(CommitConflictError):
                conflict()
        with pytest.raises(NotFoundError):
            store.head("deep/file")
        with pytest.raises(LimitError):
            store.get("k", limit_bytes=3)
        with pytest.raises(InputError):
            store.get("../k")
        store.copy_if_absent("k", "copy")

    assert in_a_forked_child(work) == 0
    if kind != "memory":
        assert store.get("copy").data == b"by the child"


def test_a_forked_childs_worker_may_die_and_dies_with_the_child(s3: S3Server, tmp_path: Path) -> None:
    store = s3.store("forked")
    store.put("k", b"x")

    def work() -> None:
        from deltaic.storage import relay

        store.get("k")
        assert relay._worker is not None
        os.kill(relay._worker._process.pid, signal.SIGKILL)
        with pytest.raises(CommitUnknownError):
            store.put_if_absent("new", b"x")
        store.get("k")
        (tmp_path / "worker").write_text(str(relay._worker._process.pid))

    assert in_a_forked_child(work) == 0
    worker = Path("/proc", (tmp_path / "worker").read_text())
    for _ in range(100):
        # Whoever inherited it may be slow to collect it: a zombie is gone too.
        if not worker.exists() or ") Z " in (worker / "stat").read_text():
            return
        time.sleep(0.05)
    raise AssertionError("the worker outlives the child")


def test_a_fork_in_the_middle_of_a_request_leaves_the_grandchild_free(s3: S3Server) -> None:
    store = s3.store("forked-twice")
    store.put("k", b"x")

    def work() -> None:
        from deltaic.storage import relay

        store.get("k")
        mine = relay._worker
        assert mine is not None
        # As another thread leaves it at a fork: the lock taken, half a request written.
        with relay._mutex:
            assert mine._process.stdin is not None
            mine._process.stdin.write(b"half")

            def deeper() -> None:
                assert store.get("k").data == b"x"
                assert relay._worker is not None and relay._worker.owner == os.getpid()

            assert in_a_forked_child(deeper) == 0

    assert in_a_forked_child(work) == 0


def test_faults_come_at_the_call_that_was_named() -> None:
    store = SimulatedStore()
    faulty = FaultyStore(store, [Fault(FaultKind.IO_ERROR, call_number=2, operation="put")])
    faulty.put("a", b"1")
    faulty.get("a")
    with pytest.raises(StorageError):
        faulty.child("deep").put("b", b"2")
    faulty.put("c", b"3")
    assert [info.key for info in store.list()] == ["a", "c"]
    assert faulty.calls == [("put", "a"), ("get", "a"), ("put", "b"), ("put", "c")]


@pytest.mark.parametrize(("kind", "moment"), EVERY_FAULT)
def test_a_fault_has_its_effect_or_none_and_its_type(kind: FaultKind, moment: Moment) -> None:
    store = SimulatedStore()
    faulty = FaultyStore(store, [Fault(kind, moment, from_then_on=True)])
    with pytest.raises((StorageError, CommitUnknownError, CommitConflictError)) as caught:
        faulty.put_if_absent("k", b"x")
    assert bool(list(store.list())) is (moment is Moment.AFTER)
    if kind in (FaultKind.TIMEOUT, FaultKind.UNAVAILABLE):
        assert type(caught.value) is CommitUnknownError
    if kind is FaultKind.LOST_ANSWER:
        assert type(caught.value) is CommitConflictError
    with pytest.raises(StorageError):
        faulty.get("k")


def test_the_same_seed_gives_the_same_history() -> None:
    def run(seed: int) -> list[str]:
        store = SimulatedStore(random=random.Random(seed), clock=lambda: 0.0, faults=FaultRates(0.2, 0.2, 0.2))
        for number in range(50):
            try:
                store.put_if_absent(f"k{number % 10}", b"x")
            except (StorageError, CommitUnknownError, CommitConflictError):
                continue
        return [call.outcome for call in store.history]

    assert run(1) == run(1) != run(2)
    assert set(run(1)) == {"done", "CommitConflictError", "CommitUnknownError"}


def test_a_server_without_tls_is_allowed_by_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("moto", reason="no moto: pip install 'moto[server,s3]'")
    from deltaic.testing.stores import s3_server

    with s3_server() as server:
        server.store("bucket").put("name", b"value")
        for name, value in (("ENDPOINT", server.endpoint), ("REGION", "us-east-1"), ("ACCESS_KEY_ID", "a")):
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        with pytest.raises(StorageError):
            open_store("s3://bucket/", read_retries=0).get("name")
        monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
        assert open_store("s3://bucket/").get("name").data == b"value"

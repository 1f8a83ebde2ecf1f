"""Every store passes the suite that users' stores pass."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltaic.storage.local import LocalStore
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.testing.dishonest_disk import DishonestDisk
from deltaic.testing.faulty_store import FaultyStore
from deltaic.testing.simulated_store import SimulatedStore
from deltaic.testing.store_conformance import StoreConformance, check_store
from deltaic.testing.stores import S3Server, s3_server


class TestLocal(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return open_store(tmp_path / "made" / "by first write")


class TestLocalChild(StoreConformance):
    """In memory where the system has such a folder: another file system, and quick."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        memory = Path("/dev/shm")
        with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
            yield open_store(Path(folder).as_uri()).child("deep/er")


class TestMemory(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return open_store("memory:")


class TestMemoryChild(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return open_store("memory:").child("deep/er")


class TestSimulated(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return SimulatedStore()


class TestFaultyWithoutFaults(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return FaultyStore(SimulatedStore())


class TestLocalOnTheDishonestDisk(StoreConformance):
    @pytest.fixture
    def store(self) -> Store:
        return LocalStore("/nowhere", disk=DishonestDisk())


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    pytest.importorskip("moto", reason="moto is not installed")
    with s3_server() as server:
        yield server


class TestS3(StoreConformance):
    racing_keys = 4
    _buckets = itertools.count()

    @pytest.fixture
    def store(self, s3: S3Server) -> Store:
        return s3.store(f"conformance-{next(self._buckets)}")


class TestS3WithPrefix(StoreConformance):
    racing_keys = 1
    _prefixes = itertools.count()

    @pytest.fixture
    def store(self, s3: S3Server) -> Store:
        return s3.store("prefixed", prefix=f"some/where {next(self._prefixes)}")


def test_the_suite_runs_without_pytest() -> None:
    assert len(check_store(SimulatedStore)) > 20


def test_the_suite_notices_a_store_whose_condition_is_none() -> None:
    class Careless(SimulatedStore):
        def put_if_absent(self, key: str, data: bytes | bytearray | memoryview) -> str:
            return self.put(key, data)

    with pytest.raises(AssertionError):
        check_store(Careless)

"""Stores against a dictionary: any sequence of operations gives the same answers."""

import os
import tempfile
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from deltaic.errors import CommitConflictError, NotFoundError
from deltaic.storage.local import LocalStore
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.testing.dishonest_disk import DishonestDisk
from deltaic.testing.simulated_store import SimulatedStore

KEYS = st.sampled_from(["a", "b", "a-1", "deep/a", "deep/er/a", "deep/b%2F", "ü"])
DATA = st.binary(max_size=20)


class StoreMachine(RuleBasedStateMachine):
    """Runs each operation on the store and on a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.store = self.make()
        self.model: dict[str, bytes] = {}
        self.etags: dict[str, set[str]] = {}

    def make(self) -> Store:
        return SimulatedStore()

    @rule(key=KEYS, data=DATA)
    def put(self, key: str, data: bytes) -> None:
        self.store.put(key, data)
        self.model[key] = data

    @rule(key=KEYS, data=DATA)
    def put_if_absent(self, key: str, data: bytes) -> None:
        try:
            self.store.put_if_absent(key, data)
            done = True
        except CommitConflictError:
            done = False
        assert done == (key not in self.model)
        self.model.setdefault(key, data)

    @rule(key=KEYS, data=DATA, stale=st.booleans())
    def put_if_match(self, key: str, data: bytes, stale: bool) -> None:
        if key not in self.model:
            return
        etag = self.store.head(key).etag
        assert etag is not None
        if stale:
            self.model[key] = self.model[key] + b"!"
            self.store.put(key, self.model[key])
        try:
            assert self.store.put_if_match(key, data, etag) == self.store.get(key).etag
            self.model[key] = data
            assert not stale
        except CommitConflictError:
            assert stale

    @rule(source=KEYS, key=KEYS)
    def copy_if_absent(self, source: str, key: str) -> None:
        try:
            self.store.copy_if_absent(source, key)
        except NotFoundError:
            assert source not in self.model
        except CommitConflictError:
            assert key in self.model
        else:
            assert key not in self.model
            self.model[key] = self.model[source]

    @rule(key=KEYS)
    def delete(self, key: str) -> None:
        self.store.delete(key)
        self.model.pop(key, None)

    @rule(prefix=st.sampled_from(["", "a", "deep", "deep/", "deep/e", "x", "deep/er/"]))
    def list(self, prefix: str) -> None:
        found = {info.key: info.size_bytes for info in self.store.list(prefix)}
        assert found == {key: len(data) for key, data in self.model.items() if key.startswith(prefix)}

    @rule(key=KEYS, start=st.integers(0, 25), length=st.integers(0, 25))
    def get_range(self, key: str, start: int, length: int) -> None:
        if key in self.model:
            assert self.store.get_range(key, start, length) == self.model[key][start : start + length]

    @invariant()
    def the_same_objects(self) -> None:
        for key in ("a", "deep/a", "ü"):
            found: Any
            try:
                found = self.store.get(key).data
            except NotFoundError:
                found = None
            assert found == self.model.get(key)


class LocalMachine(StoreMachine):
    def make(self) -> Store:
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        return LocalStore(self.folder.name)

    def teardown(self) -> None:
        self.folder.cleanup()


class DishonestMachine(StoreMachine):
    def make(self) -> Store:
        return LocalStore("/simulated", disk=DishonestDisk())


class MemoryMachine(StoreMachine):
    def make(self) -> Store:
        return open_store("memory:")


_QUICK = settings(max_examples=30, stateful_step_count=30, deadline=None)
for machine in (StoreMachine, LocalMachine, DishonestMachine, MemoryMachine):
    machine.TestCase.settings = _QUICK
TestSimulated = StoreMachine.TestCase
TestLocal = LocalMachine.TestCase
TestDishonest = DishonestMachine.TestCase
TestMemory = MemoryMachine.TestCase

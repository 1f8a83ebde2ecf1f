"""The field registry: a small number for every field path, for ever (docs/registry.md, docs/formats/field-registry.md).

    registry = Registry()
    index = registry.register("items[].name", ValueType.STRING)
    view = registry.view            # one load; then everything is read from it without locks
    view.descriptor(index).path

All writes are serialized by one lock, and where there is a journal (`deltaic.schema.registry_store`) they are durable
before anybody can see them. Reads never wait.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import CommitConflictError, CommitUnknownError, DeltaicError, InputError, RegistryError
from deltaic.schema.registry_counts import UseCounts
from deltaic.schema.registry_journal import Add, Evict, Mark, NewVersion, Record
from deltaic.schema.registry_paths import ELEMENTS, ENTRIES, Step, check_path, escape_name, join_path, parse_path
from deltaic.schema.registry_plan import MIN_GAIN, MIN_SAMPLES, Plan, plan_order
from deltaic.schema.registry_state import RegistryState
from deltaic.schema.registry_table import (
    MAX_INDEX,
    MAX_VERSION,
    Descriptor,
    Table,
    ValueType,
    View,
    check_type,
    type_text,
)
from deltaic.storage.backoff import Backoff

__all__ = [
    "ELEMENTS",
    "ENTRIES",
    "Descriptor",
    "Durability",
    "Journal",
    "Plan",
    "RegisteredField",
    "Registry",
    "Step",
    "Table",
    "ValueType",
    "View",
    "check_path",
    "escape_name",
    "join_path",
    "parse_path",
    "type_text",
]

Durability: TypeAlias = Literal["sync", "batch", "none"]
"""When a registration is durable: each by itself before it returns; those that wait at the same time together, before
they return; or never."""

_BATCH = 200_000
_ATTEMPTS = 1_000
_MAX_MS = 2**64 - 1
_Result = TypeVar("_Result")
_Planned: TypeAlias = tuple[list[Record], _Result]


class Journal(Protocol):
    """Where a registry keeps its records; `deltaic.schema.registry_store` is the one there is."""

    def append(self, state: RegistryState, records: Sequence[Record]) -> bool:
        """Make the records durable behind those of the state; False if another writer was first."""
        ...

    def pull(self, state: RegistryState) -> RegistryState:
        """Bring a state up to date, the same one or a new one."""
        ...

    def written(self, state: RegistryState) -> None:
        """Told after records were applied: the time to write a snapshot, if one is due."""
        ...

    def close(self, state: RegistryState) -> None:
        """The registry is closed: the last time to write a snapshot."""
        ...


@dataclass(frozen=True, slots=True)
class RegisteredField:
    """A field as it stands in a version."""

    index: int
    path: str
    type: int
    created_ms: int
    retired: bool
    """It is not in the next version, or was not."""


class _Request:
    """Fields that one call registers."""

    __slots__ = ("created_ms", "done", "error", "fields", "indices")

    def __init__(self, fields: Sequence[tuple[str, int]], created_ms: int) -> None:
        self.fields, self.created_ms = fields, created_ms
        self.indices: list[int] = []
        self.error: BaseException | None = None
        self.done = False


class Registry:
    """Gives every field path a small number and keeps every number that was ever given readable.

    Safe to share between threads. Alone it lives in memory; `open_registry` gives it a folder.

    Args:
        journal: where records are kept; None keeps them in memory only.
        max_versions: how many versions are kept; None keeps all.
        durability: see `Durability`.
        read_only: refuse to write; `refresh` follows what others write.
        clock: seconds since 1970, for the times in descriptors.
        backoff: how long to wait after another process was first.
    """

    def __init__(
        self,
        *,
        journal: Journal | None = None,
        state: RegistryState | None = None,
        max_versions: int | None = None,
        durability: Durability = "sync",
        read_only: bool = False,
        clock: Callable[[], float] = time.time,
        backoff: Backoff | None = None,
    ) -> None:
        if max_versions is not None and max_versions < 1:
            raise InputError(f"a registry keeps at least one version, not {max_versions}")
        if durability not in ("sync", "batch", "none"):
            raise InputError(f"durability {durability!r}: 'sync', 'batch' or 'none'")
        self.max_versions, self.durability, self.read_only = max_versions, durability, read_only
        self._journal = None if durability == "none" else journal
        self._state = state or RegistryState()
        self._clock = clock
        self._backoff = backoff or Backoff(first_seconds=0.002, maximum_seconds=0.5)
        self._lock = threading.Lock()
        self._waiting: deque[_Request] = deque()
        self._counts = UseCounts()

    @classmethod
    def from_snapshot(cls, data: bytes, name: str = "the snapshot") -> "Registry":
        """A registry in memory from the bytes of a snapshot, as executors get it."""
        return cls(state=RegistryState.from_snapshot(data, name), durability="none")

    def __repr__(self) -> str:
        view = self.view
        return f"Registry(version {view.current}, {len(view.table()):,} fields)"

    @property
    def view(self) -> View:
        """The registry at this moment. Load it once per operation or batch, and use only it."""
        return self._state.view

    @property
    def version(self) -> int:
        """The current version."""
        return self.view.current

    @property
    def oldest(self) -> int:
        """The oldest version that is kept."""
        return self.view.oldest

    @property
    def sequence(self) -> int:
        """How many records made this registry."""
        return self._state.sequence

    def lookup(self, path: str, version: int | None = None) -> int | None:
        """The index of a path in a version, the current one by default; None if it is not there."""
        return self.view.lookup(path, version)

    def descriptor(self, index: int, version: int | None = None) -> Descriptor:
        """The field of an index; RegistryError `UnknownField`, `UnknownVersion` or `VersionEvicted`."""
        return self.view.descriptor(index, version)

    def is_retired(self, path: str) -> bool:
        """True if the path is in the current version and will not be in the next."""
        state = self._state
        index = state.view.lookup(path)
        return index is not None and state.is_retired(index)

    def fields(self, version: int | None = None) -> Iterator[RegisteredField]:
        """The fields of a version by index, the current one by default."""
        state = self._state
        table = state.view.table(version)
        for index, field in enumerate(table):
            if field is not None:
                retired = state.is_retired(index, table.version)
                yield RegisteredField(index, field.path, field.type, field.created_ms, retired)

    def register(self, path: str, value_type: int, created_ms: int | None = None) -> int:
        """The index of a path in the current version; a new path gets the next one.

        Raises:
            RegistryError: `InvalidPath`; `TypeConflict` if the path has another type; `RegistryFull`.
        """
        state = self._state
        table = state.view.table()
        index = table.lookup(path)
        # What is there already costs no lock; all else is decided under it.
        if index is not None and table.descriptor(index).type == value_type and not state.is_retired(index):
            return index
        return self.register_many([(path, value_type)], created_ms)[0]

    def register_many(self, fields: Iterable[tuple[str, int]], created_ms: int | None = None) -> list[int]:
        """The indices of many paths, with one write for all new ones; if one is refused, none is registered.

        A very long list takes several writes: then what came before a refused one stays registered.
        """
        moment = int(self._clock() * 1000) if created_ms is None else created_ms
        if not 0 <= moment <= _MAX_MS:
            raise InputError(f"created_ms {moment} is no time in milliseconds")
        wanted = [(check_path(path), check_type(value_type)) for path, value_type in fields]
        indices: list[int] = []
        for start in range(0, len(wanted), _BATCH):
            request = _Request(wanted[start : start + _BATCH], moment)
            self._register(request, more=start + _BATCH < len(wanted))
            indices += request.indices
        return indices

    def retire(self, *paths: str) -> None:
        """Leave fields out of the next version; in this one they stay valid. `UnknownField` if one is not there."""

        def plan(state: RegistryState) -> _Planned[None]:
            records: list[Record] = []
            for path in paths:
                index = state.view.lookup(path)
                if index is None:
                    raise RegistryError("UnknownField", f"there is no field {path!r}", None, state.view.current)
                records.append(Mark(state.view.current, index, 1))
            return records, None

        with self._lock:
            self._commit(plan)

    def evict(self, version: int) -> None:
        """Drop the oldest version; references of it cannot be read any more. The current one cannot be dropped."""

        def plan(state: RegistryState) -> _Planned[None]:
            state.view.table(version)
            if version == state.view.current or version != state.view.oldest:
                what = "is the current one" if version == state.view.current else "is not the oldest"
                raise RegistryError("UnknownVersion", f"version {version} {what} and cannot be evicted", None, version)
            return [Evict(version)], None

        with self._lock:
            self._commit(plan)

    def touch(self, index: int, times: int = 1, version: int | None = None) -> None:
        """Count the use of a field: it decides which fields get the cheap numbers."""
        self._counts.touch(self.version if version is None else version, index, times)

    def touch_many(self, indices: NDArray[np.integer], version: int | None = None) -> None:
        """Count the use of a column of indices."""
        self._counts.touch_many(self.version if version is None else version, indices)

    def plan(self) -> Plan:
        """What reordering by the counted use would do now."""
        with self._lock:
            return self._plan(self._state)

    def optimize(self, min_gain: float = MIN_GAIN, min_samples: int = MIN_SAMPLES, force: bool = False) -> int:
        """Make a version in which the most used fields have the shortest numbers, if it gains; the current version.

        Args:
            min_gain: the share of the bytes of indices that must be saved.
            min_samples: so many uses must have been counted.
            force: make a version in any case, also to drop retired fields.

        Raises:
            RegistryError: `VersionExhausted`.
        """
        made: list[tuple[View, Plan]] = []

        def plan(state: RegistryState) -> _Planned[int]:
            found = self._plan(state)
            current = state.view.current
            made.clear()
            if not force and not found.gains(min_gain, min_samples):
                return [], current
            if current == MAX_VERSION:
                raise RegistryError("VersionExhausted", "there is no version after the last one", None, current)
            records: list[Record] = [NewVersion(current, current + 1, found.old_index_of.astype(np.uint32))]
            if self.max_versions is not None:
                records += [Evict(old) for old in range(state.view.oldest, current + 2 - self.max_versions)]
            made.append((state.view, found))
            return records, current + 1

        with self._lock:
            version = self._commit(plan)
            for view, found in made:
                self._counts.carry_over(version, self._counts.merged(view)[found.old_index_of] >> 1)
        return version

    def snapshot(self) -> bytes:
        """All of the registry as bytes, to be shipped to other processes; `from_snapshot` reads them."""
        with self._lock:
            return self._state.snapshot()

    def refresh(self) -> bool:
        """Take in what other processes wrote since; True if there was something."""
        if self._journal is None:
            return False
        with self._lock:
            before = self._state.sequence
            self._state = self._journal.pull(self._state)
            return self._state.sequence != before

    def close(self) -> None:
        """Write a snapshot if this registry wrote records since the last one. It stays usable."""
        if self._journal is not None:
            with self._lock:
                self._journal.close(self._state)

    def __enter__(self) -> "Registry":
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _plan(self, state: RegistryState) -> Plan:
        live = state.live()
        return plan_order(live, self._counts.merged(state.view)[live])

    def _register(self, request: _Request, *, more: bool) -> None:
        self._waiting.append(request)
        with self._lock:
            # In "batch" whoever gets the lock first writes for all who wait; they find their answer when it is theirs.
            if not request.done:
                requests = [request]
                if self.durability == "batch":
                    requests = list(_drained(self._waiting))
                else:
                    self._waiting.remove(request)
                try:
                    self._commit(lambda state: (_registrations(state, requests), None), more=more)
                except BaseException as error:
                    for waiting in requests:
                        # An interrupt is for the thread that it came to; the others only know that no answer came.
                        ours = waiting is request or isinstance(error, Exception)
                        unanswered = CommitUnknownError("the thread that wrote for this one was interrupted")
                        waiting.error = waiting.error or (error if ours else unanswered)
                finally:
                    for waiting in requests:
                        waiting.done = True
        if request.error is not None:
            raise request.error

    def _commit(self, plan: Callable[[RegistryState], _Planned[_Result]], *, more: bool = False) -> _Result:
        """Plan records against the state, make them durable, apply them; again from the start if another was first.

        Args:
            plan: gives the records that are needed, none if all is as wanted, and the result.
            more: whether other records follow at once, so that a snapshot now would be for nothing.
        """
        delays = self._backoff.delays()
        for attempt in range(_ATTEMPTS):
            records, result = plan(self._state)
            if not records:
                return result
            if self.read_only:
                raise InputError("this registry is open for reading only", "ReadOnly")
            if self._journal is None or self._journal.append(self._state, records):
                self._state.apply_all(records)
                if self._journal is not None and not more:
                    self._journal.written(self._state)
                return result
            if attempt:
                self._backoff.sleep(next(delays))
            self._state = self._journal.pull(self._state)
        raise CommitConflictError(f"the registry was changed by others {_ATTEMPTS:,} times in a row")


def _drained(waiting: deque[_Request]) -> Iterator[_Request]:
    while waiting:
        yield waiting.popleft()


def _registrations(state: RegistryState, requests: Sequence[_Request]) -> list[Record]:
    """The records that some calls need; a call that is refused gets its error and no record."""
    table, version = state.view.table(), state.view.current
    lookup, following = table.lookup, len(table)
    known: dict[str, Add] = {}
    records: list[Record] = []
    revived: set[int] = set()
    for request in requests:
        before, first, request.error = len(records), following, None
        indices: list[int] = []
        created_ms = request.created_ms
        try:
            for path, value_type in request.fields:
                index = lookup(path)
                if index is not None:
                    found_type = table.descriptor(index).type
                    if found_type == value_type and index not in revived and state.is_retired(index):
                        revived.add(index)
                        records.append(Mark(version, index, 0))
                elif (added := known.get(path)) is not None:
                    index, found_type = added.index, added.type
                else:
                    if following > MAX_INDEX:
                        raise RegistryError("RegistryFull", f"a version has at most {MAX_INDEX + 1:,} fields")
                    index, found_type, following = following, value_type, following + 1
                    known[path] = added = Add(version, index, value_type, created_ms, path)
                    records.append(added)
                if found_type != value_type:
                    raise _conflict(path, found_type, value_type, version, index)
                indices.append(index)
            request.indices = indices
        except DeltaicError as error:
            request.error, request.indices, following = error, [], first
            for record in records[before:]:
                if isinstance(record, Add):
                    del known[record.path]
                elif isinstance(record, Mark):
                    revived.discard(record.index)
            del records[before:]
    return records


def _conflict(path: str, found: int, wanted: int, version: int, index: int) -> RegistryError:
    return RegistryError(
        "TypeConflict",
        f"{path} has the type {type_text(found)}, not {type_text(wanted)}: retire it and make a version first",
        None,
        version,
        index,
    )

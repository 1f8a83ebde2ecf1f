"""Conformance with recorded lives of field registries: plans, operations, journals, snapshots, recovery.

The checks of single cases; `deltaic.testing.field_registry_conformance` runs them over a folder.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from deltaic.errors import DeltaicError, RegistryError
from deltaic.schema.registry import Registry
from deltaic.schema.registry_journal import Record, journal_name, read_journal, write_journal
from deltaic.schema.registry_plan import Plan, plan_order
from deltaic.schema.registry_state import RegistryState
from deltaic.schema.registry_store import RegistryFiles, snapshot_name
from deltaic.testing.references_conformance import Checker, shown_address, shown_reference
from deltaic.testing.simulated_store import SimulatedStore
from deltaic.wire.references import decode_exact, encode, resolve, translate

Json = Any

_HOT_LARGE, _COUNTED_LARGE = 5, 16_384
"""In the large plan every index below the second is counted so often."""


def check_reorder(case: Json, checker: Checker) -> None:
    """Which old index each new one gets."""
    live = range(case["live"]) if isinstance(case["live"], int) else case["live"]
    plan = _plan(live, {int(index): count for index, count in case["counts"].items()})
    checker.equal("order", case["old_index_of"], plan.old_index_of.tolist())
    for name, made in (("bytes_before", plan.bytes_before), ("bytes_after", plan.bytes_after)):
        if name in case:
            checker.equal(name, case[name], made)


def check_reorder_large(case: Json, checker: Checker) -> None:
    """A plan over all three sizes of indices; only what moves is recorded."""
    counts = dict.fromkeys(range(min(_COUNTED_LARGE, case["fields"])), _HOT_LARGE)
    counts |= {int(index): count for index, count in case["hot"].items()}
    order = _plan(range(case["fields"]), counts).old_index_of.tolist()
    moved = {str(new): old for new, old in enumerate(order) if new != old}
    checker.equal("moved", case["moved"], moved)
    checker.equal("fields", list(range(case["fields"])), sorted(order))


def _plan(live: Sequence[int], counts: dict[int, int]) -> Plan:
    indices = np.array(live, np.int64)
    return plan_order(indices, np.array([counts.get(index, 0) for index in indices.tolist()], np.int64))


class MemoryJournal:
    """A journal that keeps its records in a list."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def append(self, state: RegistryState, records: Sequence[Record]) -> bool:
        """Keep the records."""
        if state.sequence != len(self.records):
            return False
        self.records += records
        return True

    def pull(self, state: RegistryState) -> RegistryState:
        """Bring a state up to date."""
        for record in self.records[state.sequence :]:
            state.apply(record)
        return state

    def written(self, state: RegistryState) -> None:
        """Nothing more is to be done."""

    def close(self, state: RegistryState) -> None:
        """Nothing more is to be done."""


def check_life(case: Json, checker: Checker) -> None:
    """Operations in order with their results; then state, journal and snapshot, byte for byte."""
    journal = MemoryJournal()
    registry = Registry(journal=journal, max_versions=case["options"].get("max_versions"))
    for place, step in enumerate(case["steps"]):
        checker.equal(f"step {place} ({step['op']})", step["result"], _step(registry, step["op"], step["args"]))
    checker.equal("journal", case["journal"], write_journal(0, journal.records).hex())
    checker.equal("snapshot", case["snapshot"], registry.snapshot().hex())
    state = RegistryState.from_snapshot(registry.snapshot())
    if "state" in case:
        checker.equal("state", case["state"], _shown_state(state))
    replayed = _recovered(bytes.fromhex(case["journal"]))
    checker.equal("state after its journal", _shown_state(state), _shown_state(replayed))


def _step(registry: Registry, operation: str, args: list[Any]) -> Json:
    try:
        return _done(registry, operation, args)
    except DeltaicError as error:
        return error.code if isinstance(error, RegistryError) else type(error).__name__


def _done(registry: Registry, operation: str, args: list[Any]) -> Json:
    match operation:
        case "register":
            return registry.register(*args)
        case "lookup":
            return registry.lookup(*args)
        case "touch":
            return registry.touch(*args)
        case "optimize":
            return registry.optimize(*args)
        case "retire":
            return registry.retire(*args)
        case "evict":
            return registry.evict(*args)
        case "translate":
            reference = decode_exact(bytes.fromhex(args[0]))
            return {"hex": encode(translate(reference, registry.view, args[1])).hex()}
        case "decode":
            reference = decode_exact(bytes.fromhex(args[0]))
            view = registry.view
            address = resolve(reference, view)
            field = view.descriptor(reference.index, reference.version)
            found = {"path": field.path, "type": field.type, "address": shown_address(address)}
            return shown_reference(reference) | found
    raise ValueError(f"no operation {operation!r} is known")


def check_recovery(case: Json, checker: Checker) -> None:
    """A state from a snapshot and a journal, either of which may be damaged."""
    if "snapshot_only" in case:
        data = bytes.fromhex(case["snapshot_only"])
        state = checker.result("read", case, lambda: RegistryState.from_snapshot(data))
        if state is not None:
            checker.equal("state", case["state"], _shown_state(state))
            checker.equal("bytes", case["snapshot_only"], state.snapshot().hex())
        return
    journal = bytes.fromhex(case["journal"])
    state = checker.result("recover", case, lambda: _recovered(journal, case["snapshot"]))
    if state is not None:
        checker.equal("state", case["state"], _shown_state(state))
        checker.equal("good bytes", case["good_bytes"], read_journal(journal).good_bytes)


def _recovered(journal: bytes, snapshot: str | None = None) -> RegistryState:
    """The state that the files of a folder give."""
    store = SimulatedStore()
    store.put(journal_name(0), journal)
    if snapshot is not None:
        data = bytes.fromhex(snapshot)
        store.put(snapshot_name(RegistryState.from_snapshot(data).sequence), data)
    return RegistryFiles(store).recover()


def _shown_state(state: RegistryState) -> Json:
    view = state.view
    versions = {
        str(version): [None if field is None else {"path": field.path, "type": field.type} for field in table]
        for version, table in view.tables.items()
    }
    return {"current": view.current, "oldest": view.oldest, "seq": state.sequence, "versions": versions}

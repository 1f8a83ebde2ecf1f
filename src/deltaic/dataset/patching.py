"""`dataset.patch`: fields of records changed by key, in the table first where there is one, and published.

With a table, the rows are changed by one commit and a version is published from it; without, the patches become a
version of the chain. References are read with the dataset's registry, whose fields are there before anybody uses them.
Patches with timestamps go through the clocks (`patch_clocks`), under the producer's lease.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltaic.dataset.patch_clocks import read_clocks, write_clocks
from deltaic.errors import RegistryError
from deltaic.producer.patch_records import OnMismatch, OnMissing, PatchRules
from deltaic.producer.patching import PatchReport, patch
from deltaic.wire.patches import Patch, PatchBatch
from deltaic.wire.references import Reference, Unknown

if TYPE_CHECKING:
    from deltaic.dataset.dataset import Dataset
    from deltaic.producer.producer import Producer
    from deltaic.schema.registry import Registry

GivenPatches = PatchBatch | Iterable[Patch] | bytes | bytearray | memoryview
"""A batch, patches, or the bytes of frames."""


def patch_dataset(
    dataset: "Dataset",
    patches: GivenPatches,
    *,
    on_mismatch: OnMismatch = "reject",
    on_missing: OnMissing = "reject",
    publish: bool = True,
    note: str | None = None,
    producer: "Producer",
    producer_options: Mapping[str, Any],
) -> PatchReport:
    """Apply patches to a dataset; see `Dataset.patch`."""
    rules = PatchRules(on_mismatch, on_missing)
    batch = read_batch(dataset, patches)
    given = len(batch)
    stale = 0
    if any(group.timestamps is not None for group in batch.groups):
        # Whoever decides which write is the last must be alone until it is applied.
        producer.restore()
        clocks, etag = read_clocks(dataset.store)
        batch, stale = clocks.winners(batch)
        clocks.forget()
        if len(batch):
            write_clocks(dataset.store, clocks, etag)
    if not dataset.has_table:
        report = patch(producer, batch, rules=rules, note=note)
    else:
        report = _patch_table(dataset, batch, rules, producer_options if publish else None, note)
    return replace(report, patches=given, stale=stale)


def read_batch(dataset: "Dataset", patches: GivenPatches) -> PatchBatch:
    """Patches in any form as a batch whose fields are paths; the fields count as used."""
    if isinstance(patches, bytes | bytearray | memoryview):
        batch = PatchBatch.from_bytes(patches)
    else:
        batch = PatchBatch.of(patches)
    if not batch.has_references:
        return batch
    registry = dataset.registry
    for group in batch.groups:
        if isinstance(group.path, Reference) and registry.version == group.path.version:
            registry.touch(group.path.index, group.count)
    return batch.resolved(lambda reference: path_of(registry, reference))


def path_of(registry: "Registry", reference: Reference) -> str:
    """The whole path of a reference: those of its parents and its own."""
    for parameter in reference.parameters:
        if isinstance(parameter, Unknown) and parameter.critical:
            raise RegistryError(
                "UnknownCriticalParam",
                f"parameter type {parameter.code} is not known: update deltaic",
                version=reference.version,
                index=reference.index,
            )
    try:
        return _joined(registry, reference)
    except RegistryError as error:
        if error.code not in ("UnknownVersion", "UnknownField") or not registry.refresh():
            raise
    return _joined(registry, reference)


def _joined(registry: "Registry", reference: Reference) -> str:
    view = registry.view
    whole = ""
    for index in (*reference.parents, reference.index):
        path = view.descriptor(index, reference.version).path
        whole += path if not whole or path[0] in "[{" else f".{path}"
    return whole


def _patch_table(
    dataset: "Dataset", batch: PatchBatch, rules: PatchRules, publish: Mapping[str, Any] | None, note: str | None
) -> PatchReport:
    from deltaic.dataset.row_patching import RowPatches

    table = dataset.table
    planner = RowPatches(dataset.model, dataset.table_type, batch, rules, table.write_options)
    commit = table.merge(planner, note=note) if len(batch) else None
    report = planner.report or PatchReport(0, 0, 0, 0, 0, 0, (), None)
    version = table.version if commit is None else commit.version
    report = replace(report, version=None, cycle=None, table_version=version)
    if publish is None:
        return report
    published = dataset.publish(note=note, **publish)
    return replace(report, version=published.version, cycle=published.cycle)

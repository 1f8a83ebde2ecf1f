"""The registry of a dataset: the numbers of its fields, in `registry/` beside its chain.

It is derived from the model and keeps up with it by itself: fields that the model has and the registry has not are
registered when the registry is opened, when the model changes and before a version is published, so that a number is
durable before anybody can use it. A field that changed its type is retired and registered anew in a version of its own.
"""

import logging
from typing import TYPE_CHECKING

from deltaic.errors import CommitConflictError, CommitUnknownError, RegistryError, StorageError
from deltaic.schema.registry import Registry, ValueType
from deltaic.schema.registry_model import model_fields
from deltaic.schema.registry_store import open_registry

if TYPE_CHECKING:
    from deltaic.dataset.dataset import Dataset
    from deltaic.schema.model import Model
    from deltaic.storage.store import Store

REGISTRY = "registry"
"""The folder of the registry: inside the dataset's, or inside that of a bare chain."""

_ATTEMPTS = 5

log = logging.getLogger("deltaic.dataset")


def registry_store(dataset: "Dataset") -> "Store":
    """The folder of a dataset's registry."""
    return dataset.store.child(REGISTRY)


def stored_registry(dataset: "Dataset") -> Registry:
    """The registry as it is stored, for reading only: nothing joins it. Empty if there is none yet."""
    return open_registry(registry_store(dataset), read_only=True)


def opened_registry(dataset: "Dataset") -> Registry:
    """The registry of a dataset, opened and joined by the fields of its model; for `Dataset.registry`."""
    registry = open_registry(registry_store(dataset))
    join_model(registry, dataset)
    return registry


def join_model(registry: Registry, dataset: "Dataset", *, before: "Model | None" = None) -> None:
    """Register the fields of a dataset's model.

    Args:
        registry: of the dataset.
        dataset: whose model counts, if it is the one that is stored.
        before: the model that the dataset had; fields that only it has are retired.
    """
    wanted = dict(model_fields(dataset.model))
    for _ in range(_ATTEMPTS):
        conflicts = _conflicts(registry, wanted)
        if not conflicts:
            break
        if not _is_current(dataset):
            # Another process changed the model meanwhile: its types count, not those that this one still has.
            log.warning("the model of %s is not the stored one any more: open it anew", dataset.name)
            wanted = {path: value_type for path, value_type in wanted.items() if path not in conflicts}
            break
        retired = [path for path in conflicts if not registry.is_retired(path)]
        if retired:
            registry.retire(*retired)
        registry.optimize(force=True)
    registry.register_many(wanted.items())
    if before is not None:
        gone = [path for path, _ in model_fields(before) if path not in wanted]
        known = [path for path in gone if registry.lookup(path) is not None and not registry.is_retired(path)]
        if known:
            registry.retire(*known)


def announce_fields(dataset: "Dataset", *, before: "Model | None" = None, optimize: bool = False) -> None:
    """Bring the registry of a dataset up to its model; what goes wrong is logged and tried again the next time.

    A registry that cannot be written must not hold up a version: no blob names a field by its number.
    """
    try:
        registry = dataset.registry
        join_model(registry, dataset, before=before)
        if optimize:
            version = registry.version
            if registry.optimize() != version:
                log.info("the fields of %s are numbered anew: registry version %d", dataset.name, registry.version)
    except (RegistryError, StorageError, CommitUnknownError, CommitConflictError) as error:
        log.warning("the registry of %s is not up to date: %s", dataset.name, error)


def pending_fields(dataset: "Dataset", registry: Registry) -> list[tuple[str, int]]:
    """Fields of the model that the registry does not have yet, with their types."""
    return [(path, int(kind)) for path, kind in model_fields(dataset.model) if registry.lookup(path) is None]


def _conflicts(registry: Registry, wanted: dict[str, ValueType]) -> list[str]:
    view = registry.view
    found = []
    for path, value_type in wanted.items():
        index = view.lookup(path)
        if index is not None and view.descriptor(index).type != value_type:
            found.append(path)
    return found


def _is_current(dataset: "Dataset") -> bool:
    from deltaic.dataset.dataset import Dataset

    if dataset.is_bare:
        return True
    stored = Dataset._read(dataset.store)
    return stored is not None and stored._source.etag == dataset._source.etag

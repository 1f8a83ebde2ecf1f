"""Diff: what is new in the version that is being built, and whether it deserves a number of its own."""

import numpy as np

from deltaic.producer.keys import keyed_types, modified_records
from deltaic.producer.report import TypeChange
from deltaic.producer.vector_given import GivenVectors
from deltaic.schema.mapping import TYPES_TAG
from deltaic.schema.model import Model
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.vector.storage import VECTORS_TAG

SCHEMA_HASH_TAG = "hollow.schema.hash"
"""The header tag that names the model."""

_NO_ORDINALS = OrdinalSet(np.zeros(0, np.uint64))


def model_changed(model: Model, previous: ReadState | None) -> bool:
    """True if the version before was made with another model."""
    if previous is None:
        return False
    known = previous.header_tags.get(SCHEMA_HASH_TAG)
    if known is None:
        return {schema.name: schema for schema in previous.schemas} != {schema.name: schema for schema in model.schemas}
    return known != model.schemas.hash() or previous.header_tags.get(TYPES_TAG, "") != model.types_tag()


def needs_version(state: WriteState, model: Model, previous: ReadState | None) -> bool:
    """True if there is something to publish: a first version, other records, or another model."""
    return previous is None or state.has_changed() or model_changed(model, previous)


def vectors_changed(given: GivenVectors, tag: str, previous: ReadState | None) -> bool:
    """True if vectors are others than in the version before, or are stored in another way."""
    return given.differ or (previous is not None and previous.header_tags.get(VECTORS_TAG, "") != tag)


def type_changes(model: Model, before: ReadState | None, after: ReadState) -> dict[str, TypeChange]:
    """What came and went, by type."""
    keyed = set(keyed_types(model.schemas))
    changes = {}
    for name, data in after.types.items():
        old = before.types[name].populated if before is not None and name in before else _NO_ORDINALS
        added, removed = data.populated.difference(old), old.difference(data.populated)
        modified = 0
        if name in keyed and before is not None and name in before and _key_is_known(model, name, before):
            pairs = modified_records(model, name, before, removed.ordinals(), after, added.ordinals())
            modified = len(pairs[0])
        changes[name] = TypeChange(len(data.populated), len(added) - modified, len(removed) - modified, modified)
    return changes


def _key_is_known(model: Model, name: str, before: ReadState) -> bool:
    """False if the state before lacks a field of the key, which is new in the model."""
    return before.schemas.object_schema(name).primary_key == model.schemas.object_schema(name).primary_key

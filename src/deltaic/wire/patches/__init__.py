"""Patches: batches of field-level changes by key, in columns (docs/formats/patches.md)."""

from deltaic.wire.patches.batch import PatchBatch
from deltaic.wire.patches.bounds import DEFAULT_PATCH_LIMITS, PatchLimits
from deltaic.wire.patches.columns import ColumnKind, PatchColumn
from deltaic.wire.patches.group import PatchGroup, SelectorColumn
from deltaic.wire.patches.patch import ABSENT, MISSING, Operation, Patch, hybrid_timestamp, timestamp_parts
from deltaic.wire.patches.places import field_text, join_place, split_place

__all__ = [
    "ABSENT",
    "DEFAULT_PATCH_LIMITS",
    "MISSING",
    "ColumnKind",
    "Operation",
    "Patch",
    "PatchBatch",
    "PatchColumn",
    "PatchGroup",
    "PatchLimits",
    "SelectorColumn",
    "field_text",
    "hybrid_timestamp",
    "join_place",
    "split_place",
    "timestamp_parts",
]

"""A cycle: populate, diff, encode, stage, check, validate, publish, announce; incremental; restore."""

from deltaic.producer.append import Appended, SchemaAppend
from deltaic.producer.cleaner import BlobCleaner, Cleaning, clean_chain
from deltaic.producer.compaction import CompactionLimits
from deltaic.producer.incremental import ChangeBatch
from deltaic.producer.listeners import CycleListener
from deltaic.producer.patch import Patch, patch_chain
from deltaic.producer.populate import Population
from deltaic.producer.producer import Producer, model_of
from deltaic.producer.report import Cycle, TypeChange
from deltaic.producer.steps import Step
from deltaic.producer.validators import (
    Candidate,
    DuplicateKeys,
    MinimumRecordCount,
    NullKeys,
    ObjectModification,
    RecordCountVariance,
    ReferentialIntegrity,
    ValidationResult,
    Validator,
)
from deltaic.producer.versions import TimeVersions, VersionMinter, count_up

__all__ = [
    "Appended",
    "BlobCleaner",
    "Candidate",
    "ChangeBatch",
    "Cleaning",
    "CompactionLimits",
    "Cycle",
    "CycleListener",
    "DuplicateKeys",
    "MinimumRecordCount",
    "NullKeys",
    "ObjectModification",
    "Patch",
    "Population",
    "Producer",
    "RecordCountVariance",
    "ReferentialIntegrity",
    "SchemaAppend",
    "Step",
    "TimeVersions",
    "TypeChange",
    "ValidationResult",
    "Validator",
    "VersionMinter",
    "clean_chain",
    "count_up",
    "model_of",
    "patch_chain",
]

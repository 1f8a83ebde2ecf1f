"""Datasets built with Spark, kept in the memory of every process that reads them, refreshed by deltas.

    @deltaic.key("id")
    @dataclass
    class Movie:
        id: int
        title: str

    dataset = deltaic.Dataset.create("s3://bucket/movies", Movie)
    with dataset.producer() as producer:
        producer.publish(movies)

    with deltaic.open("s3://bucket/movies").consumer() as consumer:
        consumer["Movie"][7].title

The names below are loaded when they are first used: `import deltaic` alone imports nothing heavy, not even NumPy.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from deltaic import errors, limits, spark
    from deltaic.consumer.consumer import Consumer
    from deltaic.consumer.listener import RefreshListener
    from deltaic.dataset.dataset import Dataset, list_datasets
    from deltaic.dataset.dataset import open_dataset as open
    from deltaic.errors import DeltaicError
    from deltaic.limits import Limits
    from deltaic.producer.append import SchemaAppend
    from deltaic.producer.producer import Producer
    from deltaic.schema.annotations import (
        Boxed,
        Float16,
        Float32,
        HashKey,
        Inline,
        Int8,
        Int16,
        Int32,
        RenamedFrom,
        Shards,
        Transient,
        TypeName,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Vector,
        Wide,
        digits,
        duration,
        key,
        shards,
        timestamp,
        type_name,
    )
    from deltaic.schema.model import Model
    from deltaic.schema.schemas import SchemaSet
    from deltaic.state.filter import Filter
    from deltaic.state.read import ReadState
    from deltaic.state.write import WriteState
    from deltaic.table.rows.table import Table
    from deltaic.vector.storage import VectorStorage
    from deltaic.wire.patches.batch import PatchBatch
    from deltaic.wire.patches.patch import Patch

# Where each public name lives.
_HOMES = {
    "Boxed": "deltaic.schema.annotations",
    "Consumer": "deltaic.consumer.consumer",
    "Dataset": "deltaic.dataset.dataset",
    "DeltaicError": "deltaic.errors",
    "Filter": "deltaic.state.filter",
    "Float16": "deltaic.schema.annotations",
    "Float32": "deltaic.schema.annotations",
    "HashKey": "deltaic.schema.annotations",
    "Inline": "deltaic.schema.annotations",
    "Int8": "deltaic.schema.annotations",
    "Int16": "deltaic.schema.annotations",
    "Int32": "deltaic.schema.annotations",
    "Limits": "deltaic.limits",
    "Model": "deltaic.schema.model",
    "Patch": "deltaic.wire.patches.patch",
    "PatchBatch": "deltaic.wire.patches.batch",
    "Producer": "deltaic.producer.producer",
    "ReadState": "deltaic.state.read",
    "RefreshListener": "deltaic.consumer.listener",
    "RenamedFrom": "deltaic.schema.annotations",
    "SchemaAppend": "deltaic.producer.append",
    "SchemaSet": "deltaic.schema.schemas",
    "Shards": "deltaic.schema.annotations",
    "Table": "deltaic.table.rows.table",
    "Transient": "deltaic.schema.annotations",
    "TypeName": "deltaic.schema.annotations",
    "UInt8": "deltaic.schema.annotations",
    "UInt16": "deltaic.schema.annotations",
    "UInt32": "deltaic.schema.annotations",
    "UInt64": "deltaic.schema.annotations",
    "Vector": "deltaic.schema.annotations",
    "VectorStorage": "deltaic.vector.storage",
    "Wide": "deltaic.schema.annotations",
    "WriteState": "deltaic.state.write",
    "digits": "deltaic.schema.annotations",
    "duration": "deltaic.schema.annotations",
    "key": "deltaic.schema.annotations",
    "list_datasets": "deltaic.dataset.dataset",
    "shards": "deltaic.schema.annotations",
    "timestamp": "deltaic.schema.annotations",
    "type_name": "deltaic.schema.annotations",
}
_MODULES = ("errors", "limits", "spark")

__all__ = [
    "Boxed",
    "Consumer",
    "Dataset",
    "DeltaicError",
    "Filter",
    "Float16",
    "Float32",
    "HashKey",
    "Inline",
    "Int8",
    "Int16",
    "Int32",
    "Limits",
    "Model",
    "Patch",
    "PatchBatch",
    "Producer",
    "ReadState",
    "RefreshListener",
    "RenamedFrom",
    "SchemaAppend",
    "SchemaSet",
    "Shards",
    "Table",
    "Transient",
    "TypeName",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Vector",
    "VectorStorage",
    "Wide",
    "WriteState",
    "__version__",
    "digits",
    "duration",
    "errors",
    "key",
    "limits",
    "list_datasets",
    "open",
    "shards",
    "spark",
    "timestamp",
    "type_name",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"deltaic.{name}")
    if name == "open":
        # Not spelled so where it is defined: there it would hide Python's own.
        home, attribute = "deltaic.dataset.dataset", "open_dataset"
    elif name in _HOMES:
        home, attribute = _HOMES[name], name
    else:
        raise AttributeError(f"module 'deltaic' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

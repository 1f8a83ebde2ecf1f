"""Datasets built with Spark, kept in the memory of every process that reads them, refreshed by deltas.

The names below are loaded when they are first used: `import deltaic` alone imports nothing heavy, not even NumPy.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from deltaic import errors, limits
    from deltaic.errors import DeltaicError
    from deltaic.limits import Limits
    from deltaic.schema.schemas import SchemaSet
    from deltaic.state.read import ReadState

# Where each public name lives; None: it is a module of this package.
_HOMES = {
    "DeltaicError": "deltaic.errors",
    "Limits": "deltaic.limits",
    "ReadState": "deltaic.state.read",
    "SchemaSet": "deltaic.schema.schemas",
    "errors": None,
    "limits": None,
}

__all__ = ["DeltaicError", "Limits", "ReadState", "SchemaSet", "__version__", "errors", "limits"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'deltaic' has no attribute {name!r}")
    home = _HOMES[name]
    if home is None:
        return importlib.import_module(f"deltaic.{name}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)

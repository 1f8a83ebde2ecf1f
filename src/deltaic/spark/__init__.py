"""Spark: a session with lean local settings, tables as a data source, streams that come exactly once, pipelines."""

import importlib
from typing import TYPE_CHECKING, Any

# The function takes the name of its module: `deltaic.spark.session(...)` is the call.
from deltaic.spark.session import session

if TYPE_CHECKING:
    from deltaic.spark.frames import read, write
    from deltaic.spark.progress import StreamProgress, stream_progress

_PLACES = {"StreamProgress": "progress", "read": "frames", "stream_progress": "progress", "write": "frames"}

__all__ = ["StreamProgress", "read", "session", "stream_progress", "write"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"deltaic.spark has no {name!r}")
    found = getattr(importlib.import_module(f"deltaic.spark.{_PLACES[name]}"), name)
    globals()[name] = found
    return found

"""Companions: a search index over Parquet files that stay where they are, in a folder or in a Delta table.

Names are imported when they are used, and pyarrow with them.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltaic.table.companion.companion import Companion
    from deltaic.table.companion.options import CompanionOptions
    from deltaic.table.companion.refresh import Refresh
    from deltaic.table.companion.stale import StaleCompanionError
    from deltaic.table.companion.status import CompanionExplain, Status

_PLACES = {
    "Companion": "companion",
    "CompanionExplain": "status",
    "CompanionOptions": "options",
    "Refresh": "refresh",
    "StaleCompanionError": "stale",
    "Status": "status",
}

__all__ = ["Companion", "CompanionExplain", "CompanionOptions", "Refresh", "StaleCompanionError", "Status"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"deltaic.table.companion has no {name!r}")
    found = getattr(importlib.import_module(f"deltaic.table.companion.{_PLACES[name]}"), name)
    globals()[name] = found
    return found

"""What a consumer takes of fields that deltas append (docs/schema-append.md)."""

from deltaic.errors import InputError
from deltaic.wire.append import AppendMode

__all__ = ["AppendMode", "append_mode"]


def append_mode(given: AppendMode | str) -> AppendMode:
    """The mode that is meant: `off`, `values` or `full`."""
    try:
        return AppendMode(given)
    except ValueError:
        known = ", ".join(repr(mode.value) for mode in AppendMode)
        raise InputError(f"schema_append is one of {known}, not {given!r}") from None

"""What a reader of patch batches accepts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PatchLimits:
    """Bounds that are checked before memory is taken."""

    max_frame_bytes: int = 256 << 20
    """The body of one frame, without compression."""
    max_patches: int = 1 << 22
    """The patches of one frame."""
    max_cells: int = 1 << 25
    """The values of all columns of one frame: rows times columns, and the members of indices and ranges."""
    max_groups: int = 1 << 16
    max_names: int = 1 << 16
    """The types, the sources and the fields of one frame, each."""


DEFAULT_PATCH_LIMITS = PatchLimits()

MAX_KEY_COLUMNS = 32
"""The paths that a primary key may have on the wire."""

MAX_SELECTORS = 128
"""The placeholders of a path and what goes below it."""

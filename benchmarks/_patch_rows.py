"""The patches of `_patch_rivals.py` as deltaic sends them: the rows of `registry.py` beside the rivals."""

from _patch_rivals import PatchData
from _patch_table import PatchRow


def patch_rows(data: PatchData, rounds: int) -> list[PatchRow]:
    """Encode, decode and apply the changes; one row for each way to do it."""
    return []

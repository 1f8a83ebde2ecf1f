"""What changed between two versions of a vector column. Chunks that both share are not looked at."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors, is_shared_zero, present_in

Ordinals = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Differences:
    """Ordinals whose vectors went, came or changed; each rising."""

    removed: Ordinals
    added: Ordinals
    changed: Ordinals

    def __bool__(self) -> bool:
        return bool(len(self.removed) or len(self.added) or len(self.changed))

    @property
    def to_ask(self) -> Ordinals:
        """The ordinals that have a vector afterwards which they did not have before."""
        return np.concatenate([self.added, self.changed])


def differences(before: StoredVectors, after: StoredVectors) -> Differences:
    """What leads from one version of a column to another; vectors are compared by their bits."""
    removed = before.present.difference(after.present).ordinals()
    added = after.present.difference(before.present).ordinals()
    both = before.present.intersection(after.present)
    changed = list[Ordinals]()
    for number, (old, new) in enumerate(zip(before.chunks, after.chunks, strict=False)):
        if old is new or is_shared_zero(old) or is_shared_zero(new):
            continue
        flags = present_in(both, number)
        if flags.any():
            flags &= (old.view(np.uint32) != new.view(np.uint32)).any(axis=1)
            changed.append(np.flatnonzero(flags) + number * CHUNK_ROWS)
    return Differences(removed, added, np.concatenate([*changed, np.zeros(0, np.int64)]))

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Ends = NDArray[np.int64]
Ordinals = NDArray[np.int32]

def renumber_objects(
    arena: Bytes, starts: Ends, rows: Ordinals, kinds: Bytes, maps: Sequence[Ordinals | None]
) -> tuple[Bytes, Ends]: ...
def entries(arena: Bytes, starts: Ends, rows: Ordinals, form: int) -> tuple[Ends, Ordinals, Ordinals]: ...

import numpy as np
from numpy.typing import NDArray

def candidates(
    scores: NDArray[np.float32],
    scale: NDArray[np.float32],
    shift: NDArray[np.float32],
    limits: NDArray[np.float32],
    places: NDArray[np.int64],
    queries: NDArray[np.int64],
    found: NDArray[np.float32],
) -> int: ...
def products(rows: NDArray[np.float32], query: NDArray[np.float32], out: NDArray[np.float32]) -> None: ...

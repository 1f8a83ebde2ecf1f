import numpy as np
from numpy.typing import NDArray

def sum_rows(rows: NDArray[np.uint32], places: NDArray[np.int64], first: int, keys: NDArray[np.uint64]) -> int: ...

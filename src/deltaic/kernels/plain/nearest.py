"""Products of rows with a query, and candidates among scores, plain."""

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
) -> int:
    """Scores that reach the limit of their column, by rows, then columns; gives how many there are.

    A score counts as `score * scale[row]` or as `score - shift[row]`, where one of the two has an entry for each row;
    what is no number reaches nothing. Rows go to `places`, columns to `queries`, scores to `found`, as far as there is
    room.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        if len(scale):
            scores = scores * scale[:, None]
        if len(shift):
            scores = scores - shift[:, None]
        rows, columns = np.nonzero(scores >= limits)
    room = min(len(places), len(rows))
    places[:room], queries[:room] = rows[:room], columns[:room]
    found[:room] = scores[rows[:room], columns[:room]]
    return len(rows)


def products(rows: NDArray[np.float32], query: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    """The dot product of each row with a query, summed in float32 in any order."""
    np.dot(rows, query, out=out)

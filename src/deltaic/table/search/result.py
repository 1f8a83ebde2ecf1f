"""What a search gives back: rows with their scores, and how they were found."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SCORE_COLUMN = "_score"
SNIPPET_PREFIX = "_snippet_"


@dataclass(frozen=True, slots=True)
class SearchExplain:
    """How a query was answered."""

    query: str
    """The query as it was understood."""
    lowered: str
    """The clauses as they were asked of the index."""
    splits_given: int
    splits_searched: int
    """Those left by the clauses on partition columns; a ranked search reads the statistics of all."""
    reindexed: tuple[str, ...]
    """Splits that this host indexed anew, because another writer made them or their columns changed."""
    from_rows: tuple[str, ...]
    """Clauses that no index answers; they were asked of the rows."""
    way: str
    """`index`, `rows`, `index, then rows`, `index and rows, combined`, or `nothing`."""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    def __str__(self) -> str:
        lines = [
            f"query       {self.query}",
            f"lowered     {self.lowered}",
            f"splits      {self.splits_given} given, {self.splits_searched} searched",
            f"answered by {self.way}",
        ]
        lines += [f"from rows   {clause}" for clause in self.from_rows]
        lines += [f"re-indexed  {split}" for split in self.reindexed]
        lines += [f"note        {note}" for note in self.notes]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The rows of a search, best first, with `_score`; `_snippet_<column>` where snippets were asked for."""

    table: pa.Table
    limited: bool
    """Whether there are more rows than `k` asked for."""
    hits: int | None
    """How many rows match in all: known if they are all here, or if `total=True` asked for it."""
    explaining: Callable[[], SearchExplain] = field(repr=False)
    split_ids: tuple[str, ...]
    splits: NDArray[np.int64]
    """For each row the place of its split in `split_ids`."""
    row_numbers: NDArray[np.int64]
    """For each row its number in its split."""

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    @property
    def explain(self) -> SearchExplain:
        """How the rows were found."""
        return self.explaining()

    @property
    def scores(self) -> list[float]:
        """The scores alone."""
        return list(self.table.column(SCORE_COLUMN).to_pylist())

    def to_pylist(self) -> list[Mapping[str, Any]]:
        """The rows as dictionaries."""
        return list(self.table.to_pylist())

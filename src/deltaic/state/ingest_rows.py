"""A chunk of input by place: what every source of records (Arrow, objects, dicts) is turned into before numbering.

`Rows` holds the records of one place in one chunk: columns of scalars in Hollow's form, and links to the rows of the
places below. It knows its parents, so that an error can name the row of the input.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.state.ingest_plan import Place

if TYPE_CHECKING:
    from deltaic.state.ingest_vectors import GivenVectors

Mask = NDArray[np.bool_]
Offsets = NDArray[np.int64]
Ordinals = NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """Scalars of a fixed width: int32, int64, bool, float32 or float64 for INT, LONG, BOOLEAN, FLOAT, DOUBLE."""

    values: NDArray[Any]
    valid: Mask | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Variable:
    """Values of STRING (already VInt per UTF-16 unit) or BYTES: value i is `data[starts[i]:ends[i]]`."""

    starts: NDArray[Any]
    ends: NDArray[Any]
    data: NDArray[np.uint8]
    valid: Mask | None = None


@dataclass(slots=True, eq=False)
class Link:
    """From the records of a place to those of a place below: which have one (None: all), and their rows."""

    valid: Mask | None
    rows: "Rows"

    @property
    def present(self) -> Mask | None:
        """Which parents have a record among the rows (None: all)."""
        return self.valid

    def own_ordinals(self) -> Ordinals:
        """The ordinals of what is referred to, one for each parent that refers to something."""
        return self.rows.ordinals

    def ordinals(self) -> Ordinals:
        """The ordinal that each parent refers to; 0 where it refers to none."""
        if self.valid is None:
            return self.own_ordinals()
        spread = np.zeros(len(self.valid), np.int32)
        spread[self.valid] = self.own_ordinals()
        return spread


@dataclass(slots=True, eq=False)
class Rows:
    """The records of one place in a chunk, in depth-first order."""

    place: Place
    count: int
    parent: "Rows | None" = None
    parent_valid: Mask | None = None
    parent_offsets: Offsets | None = None
    source: object = None
    """What owns the memory that columns are views of; the root's rows hold it."""
    first_row: int = 0
    """Of the root's rows: the number of the first one in the input."""
    columns: list[Fixed | Variable | None] = field(default_factory=list)
    """Per field of an OBJECT; None for references and for fields without a column."""
    links: list[Link | None] = field(default_factory=list)
    """Per field of an OBJECT, or per part of a collection."""
    offsets: Offsets = field(default_factory=lambda: np.zeros(1, np.int64))
    """Of a collection: record i has the elements from offset i to offset i + 1."""
    ordinals: Ordinals = field(default_factory=lambda: np.zeros(0, np.int32))
    """The ordinals of the records once they are numbered."""
    vectors: "list[GivenVectors]" = field(default_factory=list)
    """What goes beside the records."""

    def row(self, index: int) -> int:
        """The row of the input in which a record stands."""
        if self.parent is None:
            return self.first_row + index
        if self.parent_offsets is not None:
            index = int(np.searchsorted(self.parent_offsets, index, "right")) - 1
        elif self.parent_valid is not None:
            index = int(np.flatnonzero(self.parent_valid)[index])
        return self.parent.row(index)

    def refused(self, index: int, path: str, why: str, code: str) -> InputError:
        """The error for one value: column, row, and why."""
        column = f"column {path!r}, " if path else ""
        return InputError(f"{column}row {self.row(index)}: {why}", code)

    def walk(self) -> "list[Rows]":
        """These rows and all below."""
        found = [self]
        for link in self.links:
            if link is not None:
                found += link.rows.walk()
        return found

"""Range indexes: the records whose number or text lies between two others."""

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.index.following import Arrays, Definition, Following, live_roots, rising
from deltaic.index.layers import Layer
from deltaic.index.texts import SortedTexts, encoded, utf8
from deltaic.index.traversal import Traversal
from deltaic.kernels.content import BOOLEAN, BYTES, DOUBLE, FLOAT, INT, LONG, REFERENCE, STRING
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState

Ordinals = NDArray[np.int64]
Inclusive = Literal["both", "neither", "low", "high"]
_DTYPES: dict[int, type[np.generic]] = {INT: np.int32, LONG: np.int64, FLOAT: np.float32, DOUBLE: np.float64}


@dataclass(frozen=True, slots=True, eq=False)
class SortedNumbers:
    """Numbers in rising order, without NaN, and the record that each belongs to."""

    values: NDArray[Any]
    roots: NDArray[np.int32]

    def between(self, low: Any, high: Any, with_low: bool, with_high: bool) -> slice:
        """The places of the numbers from one to another; None is without bound."""
        first = 0 if low is None else self._place(low, behind=not with_low)
        last = len(self.roots) if high is None else self._place(high, behind=with_high)
        return slice(first, max(first, last))

    def at(self, place: int) -> float:
        """One number."""
        value: float = self.values[place].item()
        return value

    def _place(self, bound: float, *, behind: bool) -> int:
        if self.values.dtype.kind == "i":
            # A bound between two whole numbers lies behind the lower one, whatever is asked; far ones are at an end.
            if math.isinf(bound):
                return len(self.values) if bound > 0 else 0
            whole = math.floor(bound)
            behind = behind or whole != bound
            info = np.iinfo(self.values.dtype)
            if whole > info.max:
                return len(self.values)
            if whole < info.min:
                return 0
            return int(np.searchsorted(self.values, self.values.dtype.type(whole), "right" if behind else "left"))
        if self.values.dtype == np.float32:
            # The nearest FLOAT of a bound may lie on its other side.
            with np.errstate(over="ignore"):
                near = np.float32(bound)
            if float(near) != bound:
                behind = float(near) < bound
            return int(np.searchsorted(self.values, near, "right" if behind else "left"))
        return int(np.searchsorted(self.values, np.float64(bound), "right" if behind else "left"))


Sorted = SortedNumbers | SortedTexts


class RangeIndex(Following[Sorted]):
    """Records by a number or a text in order: `RangeIndex.build(state, "Movie", "year").between(1990, 1999)`.

    NaN lies in no range. Texts are in the order of their characters' numbers.
    """

    KIND = "range"

    @classmethod
    def build(cls, state: ReadState, type_name: str, path: str) -> Self:
        """Read the values of all records of a type.

        Args:
            state: the state to index.
            type_name: the type of the root records.
            path: leads to a number or a STRING, through references and collections.
        """
        return cls._build(state, Definition(cls.KIND, type_name, (path,)))

    @classmethod
    def over(cls, state: ReadState, type_name: str, path: str, roots: OrdinalSet | None) -> Self:
        """An index of some records only, for one question."""
        return cls._over(state, Definition(cls.KIND, type_name, (path,)), roots)

    @classmethod
    def _traverse(cls, state: ReadState, definition: Definition) -> Traversal:
        traversal = Traversal(state, definition.type_name, definition.match)
        if traversal.codes[0] in (BOOLEAN, BYTES, REFERENCE):
            raise InputError(f"path {definition.match[0]!r} of {definition.type_name} leads to no number and no text")
        return traversal

    def _make(self, state: ReadState, roots: OrdinalSet | None) -> Sorted:
        rows = self._traversal.rows(state, roots)
        numbers, units = rows.columns[0]
        code = rows.codes[0]
        if units is not None:
            return SortedTexts.of(*utf8(numbers, units), rows.roots)
        values: NDArray[Any] = numbers.astype(np.int32) if code == INT else numbers
        owners = rows.roots
        if code in (FLOAT, DOUBLE):
            values = numbers.astype(np.uint32).view(np.float32) if code == FLOAT else numbers.view(np.float64)
            real = ~np.isnan(values)
            values, owners = values[real], owners[real]
        order = np.argsort(values, kind="stable")
        return SortedNumbers(values[order], owners[order])

    def _entry_arrays(self, entries: Sorted) -> dict[str, NDArray[Any]]:
        if isinstance(entries, SortedTexts):
            return {"offsets": entries.offsets, "data": entries.data, "owners": entries.roots}
        return {"values": entries.values, "owners": entries.roots}

    def _from_entry_arrays(self, arrays: Arrays) -> Sorted:
        if self._traversal.codes == (STRING,):
            return SortedTexts(arrays["offsets"], arrays["data"], arrays["owners"])
        return SortedNumbers(arrays["values"], arrays["owners"])

    def between(
        self, low: float | str | None = None, high: float | str | None = None, *, inclusive: Inclusive = "both"
    ) -> Ordinals:
        """The ordinals of the records with a value from `low` to `high`, rising.

        Args:
            low: the lower bound; None is without one.
            high: the upper bound; None is without one.
            inclusive: which of the bounds belong to the range.
        """
        if inclusive not in ("both", "neither", "low", "high"):
            raise InputError(f"inclusive is 'both', 'neither', 'low' or 'high', not {inclusive!r}")
        first, last = self._bound(low), self._bound(high)
        if _is_nan(first) or _is_nan(last):
            return np.zeros(0, np.int64)
        parts = []
        for layer in self.layers:
            places = layer.entries.between(first, last, inclusive in ("both", "low"), inclusive in ("both", "high"))
            parts.append(live_roots(layer, layer.entries.roots, places))
        return rising(np.concatenate(parts))

    def count(
        self, low: float | str | None = None, high: float | str | None = None, *, inclusive: Inclusive = "both"
    ) -> int:
        """How many records have a value from `low` to `high`."""
        return len(self.between(low, high, inclusive=inclusive))

    def records(
        self, low: float | str | None = None, high: float | str | None = None, *, inclusive: Inclusive = "both"
    ) -> list[Any]:
        """The records with a value from `low` to `high`, in rising order of their ordinals."""
        view = self.state[self.selects]
        return [view[ordinal] for ordinal in self.between(low, high, inclusive=inclusive).tolist()]

    def min(self) -> Any:
        """The smallest value; None if there is none."""
        return min((value for value in self._ends(0)), default=None)

    def max(self) -> Any:
        """The largest value; None if there is none."""
        return max((value for value in self._ends(-1)), default=None)

    def _ends(self, place: int) -> list[Any]:
        """The first or last value of each layer that still counts."""
        found = []
        for layer in self.layers:
            live = np.flatnonzero(_live(layer, layer.entries.roots))
            if len(live):
                found.append(layer.entries.at(int(live[place])))
        return found

    def _bound(self, value: Any) -> Any:
        if value is None:
            return None
        is_text = self._traversal.codes == (STRING,)
        if isinstance(value, np.generic):
            value = value.item()
        if is_text and isinstance(value, str):
            return encoded(value)
        if not is_text and isinstance(value, int | float) and not isinstance(value, bool):
            return value
        kind = "text" if is_text else "number"
        raise InputError(f"{self.definition}: {value!r} is no {kind}", "KeyType")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _live(layer: Layer[Sorted], roots: NDArray[np.int32]) -> NDArray[np.bool_]:
    if not layer.stale:
        return np.ones(len(roots), np.bool_)
    live: NDArray[np.bool_] = ~layer.stale.flags(layer.roots.max() + 1)[roots]
    return live

"""Prefix indexes: the records whose text, or a word of it, starts with what was typed so far."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.index.following import Arrays, Definition, Following, live_roots, rising
from deltaic.index.texts import SortedTexts, encoded, lowered, utf8, words
from deltaic.index.traversal import Traversal
from deltaic.kernels.content import STRING
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState

Ordinals = NDArray[np.int64]


class PrefixIndex(Following[SortedTexts]):
    """Records by the start of a text: `PrefixIndex.build(state, "Movie", "title")`."""

    KIND = "prefix"

    @classmethod
    def build(
        cls, state: ReadState, type_name: str, path: str, *, tokens: bool = False, fold_case: bool = True
    ) -> Self:
        """Read the texts of all records of a type.

        Args:
            state: the state to index.
            type_name: the type of the root records.
            path: leads to a STRING, through references and collections.
            tokens: index every word of a text, not only the text as a whole.
            fold_case: compare in lower case, as Hollow's prefix index does.
        """
        options = (("fold_case", fold_case), ("tokens", tokens))
        return cls._build(state, Definition(cls.KIND, type_name, (path,), "", options))

    @classmethod
    def over(
        cls, state: ReadState, type_name: str, path: str, roots: OrdinalSet | None, *, fold_case: bool = True
    ) -> Self:
        """An index of some records only, for one question."""
        options = (("fold_case", fold_case), ("tokens", False))
        return cls._over(state, Definition(cls.KIND, type_name, (path,), "", options), roots)

    @classmethod
    def _traverse(cls, state: ReadState, definition: Definition) -> Traversal:
        traversal = Traversal(state, definition.type_name, definition.match)
        if traversal.codes != (STRING,):
            raise InputError(f"path {definition.match[0]!r} of {definition.type_name} does not lead to a text")
        return traversal

    def _make(self, state: ReadState, roots: OrdinalSet | None) -> SortedTexts:
        rows = self._traversal.rows(state, roots)
        units = rows.columns[0][1]
        assert units is not None
        offsets, data = utf8(rows.columns[0][0], units)
        if self.definition.option("fold_case"):
            offsets, data = lowered(offsets, data)
        owners = rows.roots
        if self.definition.option("tokens"):
            offsets, data, owners = words(offsets, data, owners)
        return SortedTexts.of(offsets, data, owners)

    def _entry_arrays(self, entries: SortedTexts) -> dict[str, NDArray[Any]]:
        return {"offsets": entries.offsets, "data": entries.data, "owners": entries.roots}

    def _from_entry_arrays(self, arrays: Arrays) -> SortedTexts:
        return SortedTexts(arrays["offsets"], arrays["data"], arrays["owners"])

    def find(self, prefix: str) -> Ordinals:
        """The ordinals of the records whose text starts with a prefix, rising.

        In an index of words each word of `prefix` has to start a word of the text.
        """
        wanted = prefix.lower() if self.definition.option("fold_case") else prefix
        if not self.definition.option("tokens"):
            return self._starting(wanted)
        found: Ordinals | None = None
        for word in wanted.split():
            part = self._starting(word)
            found = part if found is None else np.intersect1d(found, part, assume_unique=True)
        return self._starting("") if found is None else found

    def records(self, prefix: str) -> list[Any]:
        """The records whose text starts with a prefix, in rising order of their ordinals."""
        view = self.state[self.selects]
        return [view[ordinal] for ordinal in self.find(prefix).tolist()]

    def count(self, prefix: str) -> int:
        """How many records have a text that starts with a prefix."""
        return len(self.find(prefix))

    def _starting(self, prefix: str) -> Ordinals:
        wanted = encoded(prefix)
        parts = [live_roots(layer, layer.entries.roots, layer.entries.starting(wanted)) for layer in self.layers]
        return rising(np.concatenate(parts))

"""What all indexes share: they belong to one state, and go on to the next one without reading it all.

An index never changes. `update` gives another one for another state; the old one stays right for the old state, for
readers that still hold it. What both have in common they share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.index.layers import Layer, advanced
from deltaic.index.touched import Step, points_elsewhere, removed_between, touched_between
from deltaic.index.traversal import Traversal
from deltaic.kernels import keys
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState

Entries = TypeVar("Entries")
Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Counts:
    """How often an index was made anew, and how often it went on."""

    builds: int = 0
    """From all records: at first, after a snapshot, and where a changed model left references without a target."""
    updates: int = 0
    """From the records that came and went."""
    compactions: int = 0
    """Updates that also made the lowest layer anew, because much had changed since it was made."""
    attached: int = 0
    """How often another process of the host had made it."""


@dataclass(frozen=True, slots=True)
class Definition:
    """What an index is about, apart from any state."""

    kind: str
    type_name: str
    match: tuple[str, ...]
    select: str = ""
    options: tuple[tuple[str, bool], ...] = ()

    def __str__(self) -> str:
        chosen = "".join(f", {name}" for name, value in self.options if value)
        select = f" selecting {self.select}" if self.select else ""
        return f"{self.kind} index of {self.type_name} by {', '.join(self.match)}{select}{chosen}"

    def option(self, name: str) -> bool:
        """The value of an option."""
        return dict(self.options)[name]


class Following(Generic[Entries]):
    """An index of one state that can go on to the next."""

    KIND: ClassVar[str]

    state: ReadState
    """The state that the index is right for."""
    definition: Definition
    """What the index is about."""
    layers: tuple[Layer[Entries], ...]
    """The entries, most of them in the first layer."""
    counts: Counts
    """How often the index was built and updated so far."""
    _traversal: Traversal
    _wary: bool

    def _open(self) -> None:
        """Make ready what look-ups need; called once, when everything else is set."""

    @classmethod
    def _traverse(cls, state: ReadState, definition: Definition) -> Traversal:
        return Traversal(state, definition.type_name, definition.match, definition.select)

    def _make(self, state: ReadState, roots: OrdinalSet | None) -> Entries:
        """The entries of some roots, or of all."""
        raise NotImplementedError

    def _entry_arrays(self, entries: Entries) -> dict[str, NDArray[Any]]:
        """The arrays of a layer by name."""
        raise NotImplementedError

    def _from_entry_arrays(self, arrays: Arrays) -> Entries:
        """The layer that arrays came from."""
        raise NotImplementedError

    @classmethod
    def _build(cls, state: ReadState, definition: Definition) -> Self:
        traversal = cls._traverse(state, definition)
        return cls._made(state, definition, traversal, None, Counts(builds=1), wary=False)

    @classmethod
    def _over(cls, state: ReadState, definition: Definition, roots: OrdinalSet | None) -> Self:
        """An index of some records only, for one question."""
        traversal = cls._traverse(state, definition)
        if roots is None:
            return cls._build(state, definition)
        bare = cls.__new__(cls)
        bare.definition, bare._traversal = definition, traversal
        layers = (Layer(bare._make(state, roots), roots),)
        return cls._made(state, definition, traversal, layers, Counts(builds=1), wary=False)

    @classmethod
    def _made(
        cls,
        state: ReadState,
        definition: Definition,
        traversal: Traversal,
        layers: tuple[Layer[Entries], ...] | None,
        counts: Counts,
        *,
        wary: bool,
    ) -> Self:
        index = cls.__new__(cls)
        index.state, index.definition, index.counts = state, definition, counts
        index._traversal, index._wary = traversal, wary
        if layers is None:
            # A copy: the bits of a state are memory of that state, which goes on to be another one's.
            every = OrdinalSet.from_words(state.types[definition.type_name].populated.words.copy())
            layers = (Layer(index._make(state, None), every),)
        index.layers = layers
        index._open()
        return index

    @property
    def builds(self) -> int:
        """How often all records were read: at first, and where the index could not go on."""
        return self.counts.builds

    @property
    def updates(self) -> int:
        """How often the index went on to a next state."""
        return self.counts.updates

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the index takes beside the state."""
        return sum(array.nbytes for array in self.arrays().values())

    @property
    def selects(self) -> str:
        """The type of the records that are found."""
        return self._traversal.selects

    def update(self, state: ReadState, steps: Sequence[Step] | None = None) -> Self:
        """The same index for a later state. This one stays as it is.

        Args:
            state: the state after one delta, or after those that `steps` tell of. After anything else (a snapshot, a
                delta that was missed) the index is built anew.
            steps: what each delta on the way touched: by type, the ordinals populated before and after it.
        """
        if state is self.state:
            return self
        names = self._traversal.type_names
        if self.definition.type_name not in state:
            raise InputError(
                f"there is no type {self.definition.type_name} in the state that {self.definition} goes to"
            )
        touched = touched_between(self.state, state, names, steps)
        if touched is None:
            traversal = self._traverse(state, self.definition)
            counts = replace(self.counts, builds=self.counts.builds + 1)
            return self._made(state, self.definition, traversal, None, counts, wary=False)
        edges = self._traversal.edges
        if self._wary or points_elsewhere(state, edges, touched):
            # What references to removed records lead to may change without a trace: no update is trusted from then on.
            wary = self._wary or points_elsewhere(state, edges, removed_between(self.state, state, names, steps))
            counts = replace(self.counts, builds=self.counts.builds + 1)
            return self._made(state, self.definition, self._traversal, None, counts, wary=wary)
        populated = state.types[self.definition.type_name].populated

        def make(roots: OrdinalSet) -> Entries:
            return self._make(state, None if len(roots) == len(populated) else roots)

        layers, anew = advanced(self.layers, touched[self.definition.type_name], populated, make)
        before = self.counts
        counts = replace(before, updates=before.updates + 1, compactions=before.compactions + anew)
        return self._made(state, self.definition, self._traversal, layers, counts, wary=False)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Every array of the index by name: with `describe` all that another process needs to have it too."""
        found: dict[str, NDArray[Any]] = {}
        for number, layer in enumerate(self.layers):
            found[f"{number}.roots"] = layer.roots.words
            found[f"{number}.stale"] = layer.stale.words
            for name, array in self._entry_arrays(layer.entries).items():
                found[f"{number}.{name}"] = array
        return found

    def describe(self) -> dict[str, Any]:
        """What the index is about, as plain values for JSON."""
        return {
            "kind": self.definition.kind,
            "type": self.definition.type_name,
            "match": list(self.definition.match),
            "select": self.definition.select,
            "options": dict(self.definition.options),
            "layers": len(self.layers),
            "wary": self._wary,
            "tag": f"{self.state.tag:016x}",
        }

    @classmethod
    def rebuild(
        cls, state: ReadState, description: Mapping[str, Any], arrays: Arrays, counts: Counts | None = None
    ) -> Self:
        """The index that `describe` and `arrays` came from, on the same state; the arrays are used as they are."""
        if description["kind"] != cls.KIND or description["tag"] != f"{state.tag:016x}":
            raise InputError(f"these are arrays of a {description['kind']} index of state {description['tag']}")
        options = tuple(sorted((str(name), bool(value)) for name, value in description["options"].items()))
        match = tuple(str(path) for path in description["match"])
        definition = Definition(cls.KIND, str(description["type"]), match, str(description["select"]), options)
        bare = cls.__new__(cls)
        bare.definition, bare._traversal = definition, cls._traverse(state, definition)
        layers = []
        for number in range(int(description["layers"])):
            own = {name.partition(".")[2]: array for name, array in arrays.items() if name.startswith(f"{number}.")}
            roots, stale = OrdinalSet.from_words(own["roots"]), OrdinalSet.from_words(own["stale"])
            layers.append(Layer(bare._from_entry_arrays(own), roots, stale))
        wary = bool(description["wary"])
        return cls._made(state, definition, bare._traversal, tuple(layers), counts or Counts(), wary=wary)

    def __repr__(self) -> str:
        return f"<{self.definition}, {len(self.layers)} layers, {self.nbytes:,} bytes>"


def live_roots(layer: Layer[Any], roots: NDArray[np.int32], places: slice) -> NDArray[np.int64]:
    """The roots at some places of a layer that still count."""
    if layer.stale_words is None:
        return roots[places].astype(np.int64)
    bounds = np.array([places.start, places.stop], np.int64)
    return keys.collect(np.zeros(1, np.int64), bounds, roots, None, layer.stale_words)[1]


def rising(ordinals: NDArray[Any]) -> NDArray[np.int64]:
    """Ordinals in rising order, each once."""
    return np.unique(ordinals).astype(np.int64, copy=False)

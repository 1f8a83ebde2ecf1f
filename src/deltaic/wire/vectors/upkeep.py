"""Keeping a dictionary: which changes recur, when they get a number, which have to go (vector-delta.md, 8).

What writers use is only what `publish` made; the file of each published version goes to the readers first.
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.wire.vectors.delta import VectorDelta
from deltaic.wire.vectors.dictionary import Dictionary, Pattern
from deltaic.wire.vectors.faults import misuse

Words = NDArray[np.uint32]
_Key = tuple[bytes, bytes]
_CANDIDATES_PER_PATTERN = 4


@dataclass(frozen=True, slots=True)
class Publication:
    """What a publish did."""

    dictionary: Dictionary
    added: tuple[int, ...]
    evicted: tuple[int, ...]


class DictionaryKeeper:
    """Watches deltas and keeps the patterns that recur; the least recently used go first."""

    def __init__(
        self,
        dims: int,
        *,
        dict_id: int | None = None,
        capacity: int = 4096,
        admit_after: int = 2,
        random_bits: Callable[[int], int] = secrets.randbits,
    ) -> None:
        if dims < 1 or capacity < 1 or admit_after < 1:
            raise InputError("dims, capacity and admit_after are at least 1")
        self.capacity, self.admit_after = capacity, admit_after
        self._published = Dictionary(random_bits(64) if dict_id is None else dict_id, 0, dims, 0, {})
        self._patterns: dict[int, Pattern] = {}
        self._ids: dict[_Key, int] = {}
        self._candidates: dict[_Key, int] = {}
        self._staged: dict[_Key, Pattern] = {}
        self._tick = 0

    @classmethod
    def resume(cls, dictionary: Dictionary, *, capacity: int = 4096, admit_after: int = 2) -> "DictionaryKeeper":
        """Go on with a published version; what was seen since it, and not published, is forgotten."""
        keeper = cls(dictionary.dims, dict_id=dictionary.dict_id, capacity=capacity, admit_after=admit_after)
        keeper._published = dictionary
        keeper._patterns = dict(dictionary.patterns)
        keeper._ids = {pattern.key: pattern_id for pattern_id, pattern in dictionary.patterns.items()}
        keeper._tick = max((pattern.last_used for pattern in dictionary.patterns.values()), default=0)
        return keeper

    @property
    def published(self) -> Dictionary:
        """The version that writers use."""
        return self._published

    def current(self) -> Dictionary:
        """The published version with the counts of today."""
        return replace_patterns(self._published, dict(self._patterns))

    def observe(self, delta: VectorDelta) -> int | None:
        """Take note of a delta; returns the number of its pattern if it is a published one."""
        if delta.dims != self._published.dims:
            raise misuse("DimensionMismatch", f"a delta of {delta.dims} dimensions, {self._published.dims} are kept")
        self._tick += 1
        # Relative deltas depend on their base, and the identity needs no pattern.
        if delta.relative or delta.is_identity:
            return None
        key = delta.indices.tobytes(), delta.words.tobytes()
        pattern_id = self._ids.get(key)
        if pattern_id is not None:
            known = self._patterns[pattern_id]
            self._patterns[pattern_id] = replace(known, hit_count=known.hit_count + 1, last_used=self._tick)
            return pattern_id
        if key not in self._staged:
            self._count(key, delta)
        return None

    def publish(self) -> Publication:
        """Give staged patterns their numbers and drop what there is no room for."""
        version, next_id = self._published.version, self._published.next_pattern_id
        added = tuple(range(next_id, next_id + len(self._staged)))
        for pattern_id, (key, pattern) in zip(added, self._staged.items(), strict=True):
            self._patterns[pattern_id] = replace(pattern, last_used=self._tick)
            self._ids[key] = pattern_id
        self._staged.clear()
        evicted = self._evict(frozenset(added))
        self._published = Dictionary(
            self._published.dict_id,
            version + bool(added),
            self._published.dims,
            next_id + len(added),
            dict(self._patterns),
        )
        return Publication(self._published, added, evicted)

    def _count(self, key: _Key, delta: VectorDelta) -> None:
        seen = self._candidates.get(key, 0) + 1
        if seen >= self.admit_after:
            self._candidates.pop(key, None)
            self._staged[key] = Pattern(delta.indices.copy(), delta.words.copy())
            return
        self._candidates[key] = seen
        if len(self._candidates) > _CANDIDATES_PER_PATTERN * self.capacity:
            del self._candidates[next(iter(self._candidates))]

    def _evict(self, added: frozenset[int]) -> tuple[int, ...]:
        too_many = len(self._patterns) - self.capacity
        if too_many <= 0:
            return ()

        def order(pattern_id: int) -> tuple[bool, int, int, int]:
            pattern = self._patterns[pattern_id]
            return pattern_id in added, pattern.last_used, pattern.hit_count, pattern_id

        evicted = tuple(sorted(self._patterns, key=order)[:too_many])
        for pattern_id in evicted:
            del self._ids[self._patterns.pop(pattern_id).key]
        return evicted


def replace_patterns(dictionary: Dictionary, patterns: dict[int, Pattern]) -> Dictionary:
    """The same version with other counts."""
    return Dictionary(dictionary.dict_id, dictionary.version, dictionary.dims, dictionary.next_pattern_id, patterns)

"""Object longevity: what becomes of states that were replaced while someone still holds them.

By default a state lives as long as someone holds it, a view of it, or a record of it: always right, and memory that a
forgotten reference keeps is kept. With `Longevity` settings, as in Hollow, a replaced state passes through a *grace*
period in which its use is fine, then a *detection* period in which each use is counted and logged, and is then
*dropped* if no use was seen, or in any case with `force_drop`: its memory goes, and using it or its views raises
NotFoundError.

Tables and look-ups of a state go with it. What cannot be taken away is a record, a vector or an index that was handed
out: it holds the arrays it reads, and they go with it.
"""

import logging
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from deltaic.binary.arrow import ArrowTable
from deltaic.errors import InputError, NotFoundError
from deltaic.index.catalog import Lookup
from deltaic.index.index_set import IndexSet
from deltaic.state.arrow import BATCH_ROWS
from deltaic.state.columns import CollectionColumn, Column, InvalidText
from deltaic.state.read import ReadState
from deltaic.state.vector_column import StoredVectors
from deltaic.state.view import TypeView

log = logging.getLogger("deltaic.consumer")


@dataclass(frozen=True, slots=True)
class Longevity:
    """How long replaced states may be used. Give one to a consumer, or another one while it runs."""

    grace_seconds: float = 3600.0
    """How long a replaced state is used without a word."""
    detection_seconds: float = 3600.0
    """How long after that its use is counted and logged."""
    drop: bool = True
    """Drop a state after that if no use was seen."""
    force_drop: bool = False
    """Drop it even if it is still used."""
    stack_traces: bool = False
    """Log from where a state was used in the detection period."""

    def __post_init__(self) -> None:
        if self.grace_seconds < 0 or self.detection_seconds < 0:
            raise InputError("periods of longevity must not be negative")


@dataclass(frozen=True, slots=True)
class HeldState:
    """A replaced state that someone still holds."""

    version: int
    replaced_seconds: float
    """How long ago it was replaced."""
    phase: str
    """`held` without settings; else `grace`, `detection`, `expired`, `dropped`."""
    uses: int
    """Uses in the detection period and after it."""


class Guard:
    """What is known of the use of one state."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.watching = False
        self.dropped = False
        self.uses = 0
        self.stack_traces = False
        self.views: weakref.WeakSet[GuardedView] = weakref.WeakSet()

    def use(self) -> None:
        """Somebody reads."""
        if self.dropped:
            self.refuse()
        if self.watching:
            self.uses += 1
            if self.uses == 1:
                where = "".join(traceback.format_stack(limit=12)) if self.stack_traces else ""
                log.warning(
                    "version %d is still used long after it was replaced%s", self.version, f":\n{where}" * bool(where)
                )

    def refuse(self) -> NoReturn:
        """Raise what a reader of a dropped state gets."""
        raise NotFoundError(
            f"version {self.version} was dropped, long after it was replaced: take consumer.state again"
        )


class GuardedState(ReadState):
    """A state that can be dropped while someone holds it."""

    def __init__(self, indexes: IndexSet, guard: Guard) -> None:
        inner = indexes.state
        super().__init__(
            inner.types,
            tag=inner.tag,
            origin_tag=inner.origin_tag,
            header_tags=inner.header_tags,
            filter=inner.filter,
            appended=inner.appended,
            vectors=inner.vectors,
        )
        # Views are made over the inner state: what the kernels know of it goes with it.
        self._inner = inner
        self._indexes = indexes
        self._guard = guard

    def indexes(self) -> IndexSet:
        """The indexes of the state, for somebody who reads now."""
        self._guard.use()
        return self._indexes

    def __getitem__(self, name: str) -> TypeView:
        self._guard.use()
        view = self._views.get(name)
        if view is None:
            view = self._views[name] = GuardedView(self._inner, self._inner[name].data, self._guard)
        return view

    def __getattr__(self, name: str) -> Any:
        # Reached only for what a drop took away.
        if name in ("types", "vectors", "_inner", "_indexes"):
            self.__dict__["_guard"].refuse()
        raise AttributeError(name)

    def let_go(self) -> None:
        """Give the memory back."""
        self._guard.dropped = True
        for view in list(self._guard.views):
            view.let_go()
        self._views.clear()
        self.__dict__.pop("types", None)
        self.__dict__.pop("vectors", None)
        self.__dict__.pop("_inner", None)
        self.__dict__.pop("_indexes", None)


class GuardedView(TypeView):
    """A view that tells its guard of each use."""

    __slots__ = ("__weakref__", "_guard")

    def __init__(self, state: ReadState, data: Any, guard: Guard) -> None:
        super().__init__(state, data)
        self._guard = guard
        guard.views.add(self)

    def __getattr__(self, name: str) -> Any:
        # Reached only for what a drop took away.
        if name in ("data", "_records", "_access"):
            self._guard.refuse()
        raise AttributeError(name)

    def __getitem__(self, ordinal: int) -> Any:
        self._guard.use()
        return super().__getitem__(ordinal)

    def __iter__(self) -> Iterator[Any]:
        self._guard.use()
        return super().__iter__()

    def column(self, name: str, ordinals: Any = None, *, null: float | bool | None = None) -> Column:
        """One field as arrays; see `TypeView.column`."""
        self._guard.use()
        return super().column(name, ordinals, null=null)

    def members(self, ordinals: Any = None) -> CollectionColumn:
        """The members of collections; see `TypeView.members`."""
        self._guard.use()
        return super().members(ordinals)

    def vectors(self, name: str) -> StoredVectors:
        """A vector column; see `TypeView.vectors`."""
        self._guard.use()
        return super().vectors(name)

    def to_arrow(
        self,
        *,
        depth: int | None = None,
        fields: Sequence[str] | None = None,
        ordinals: Any = None,
        ordinal_column: str | None = None,
        batch_rows: int = BATCH_ROWS,
        on_invalid_text: InvalidText = "error",
        logical: bool = True,
    ) -> ArrowTable:
        """The records as Arrow rows; see `TypeView.to_arrow`."""
        self._guard.use()
        return super().to_arrow(
            depth=depth,
            fields=fields,
            ordinals=ordinals,
            ordinal_column=ordinal_column,
            batch_rows=batch_rows,
            on_invalid_text=on_invalid_text,
            logical=logical,
        )

    def let_go(self) -> None:
        """Give the memory back."""
        del self.data, self._records, self._access


@dataclass(slots=True)
class _Replaced:
    version: int
    at: float
    state: "weakref.ref[ReadState]"
    guard: Guard | None


class StateKeeper:
    """Watches over the states that a consumer replaced."""

    def __init__(self, settings: Longevity | None, clock: Callable[[], float]) -> None:
        self.settings = settings
        self._clock = clock
        self._replaced: list[_Replaced] = []

    def shown(self, version: int, indexes: IndexSet) -> Lookup:
        """What readers are given: the state itself with its indexes, or one that can be dropped."""
        if self.settings is None:
            return Lookup(indexes.state, indexes)
        from deltaic.consumer.guarded import GuardedLookup

        return GuardedLookup(GuardedState(indexes, Guard(version)))

    def replaced(self, version: int, shown: ReadState) -> None:
        """A state is not the current one any more."""
        guard = shown._guard if isinstance(shown, GuardedState) else None
        self._replaced.append(_Replaced(version, self._clock(), weakref.ref(shown), guard))

    def check(self) -> None:
        """Move replaced states from period to period, and drop those whose time is over."""
        self._replaced = [one for one in self._replaced if one.state() is not None]
        settings, now = self.settings, self._clock()
        if settings is None:
            return
        for one in self._replaced:
            if one.guard is None or one.guard.dropped:
                continue
            phase = _phase(settings, now - one.at)
            one.guard.watching = phase != "grace"
            one.guard.stack_traces = settings.stack_traces
            if phase == "expired" and (settings.force_drop or (settings.drop and one.guard.uses == 0)):
                state = one.state()
                if isinstance(state, GuardedState):
                    log.info("version %d is dropped, %.0f s after it was replaced", one.version, now - one.at)
                    state.let_go()

    def held(self) -> tuple[HeldState, ...]:
        """Replaced states that someone still holds, oldest first."""
        now = self._clock()
        return tuple(
            HeldState(one.version, now - one.at, self._phase_of(one, now), 0 if one.guard is None else one.guard.uses)
            for one in self._replaced
            if one.state() is not None
        )

    def _phase_of(self, one: _Replaced, now: float) -> str:
        if one.guard is None or self.settings is None:
            return "held"
        return "dropped" if one.guard.dropped else _phase(self.settings, now - one.at)


def _phase(settings: Longevity, age_seconds: float) -> str:
    if age_seconds < settings.grace_seconds:
        return "grace"
    return "detection" if age_seconds < settings.grace_seconds + settings.detection_seconds else "expired"

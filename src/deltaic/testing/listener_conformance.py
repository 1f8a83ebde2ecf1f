"""What a listener must be like, as tests: for those of a consumer and for those of a producer.

    class TestMyListener(RefreshListenerConformance):
        @pytest.fixture
        def listener(self):
            return MyListener()

A small chain in memory is followed through loads, deltas, a way back, a failure and getting stuck; the listener must
bear all of it and hold nothing afterwards. It passes whatever it does with what it is told.
"""

import gc
import inspect
import weakref
from contextlib import suppress

from deltaic.consumer.consumer import Consumer
from deltaic.consumer.listener import RefreshListener
from deltaic.errors import DeltaicError, ValidationError
from deltaic.producer.listeners import CycleListener
from deltaic.producer.populate import Population
from deltaic.producer.producer import Producer
from deltaic.producer.versions import count_up
from deltaic.schema.model import Model
from deltaic.state.read import ReadState
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store

_MODEL = "Movie @PrimaryKey(id) { long id; string title; } Genre { string name; }"
_VERSIONS = (
    {"Movie": [{"id": 1, "title": "Solaris"}], "Genre": [{"name": "drama"}]},
    {"Movie": [{"id": 1, "title": "Solyaris"}, {"id": 2, "title": "Stalker"}], "Genre": [{"name": "drama"}]},
    {"Movie": [{"id": 2, "title": "Stalker"}], "Genre": []},
)


class RefreshListenerConformance:
    """Tests of one listener of a consumer; a subclass offers the fixture `listener`, new for each test."""

    def test_its_hooks_take_what_they_are_given(self, listener: RefreshListener) -> None:
        _check_hooks(listener, RefreshListener)

    def test_it_bears_every_outcome_of_a_refresh(self, listener: RefreshListener) -> None:
        consumer = Consumer(_published(), listeners=[listener])
        for version in (1, 2, 3, 2, 1, 3):
            consumer.refresh(to=version)
        assert consumer.listener_errors == 0, "a hook raised; the log says what"

    def test_it_bears_failures_and_getting_stuck(self, listener: RefreshListener) -> None:
        store = _published()
        consumer = Consumer(store, listeners=[listener], double_snapshot=False)
        consumer.refresh(to=1)
        store.put("delta-1-2", b"damaged")
        with suppress(DeltaicError):
            consumer.refresh()
        assert consumer.version == 1 and consumer.status().stuck is not None
        assert consumer.listener_errors == 0, "a hook raised; the log says what"

    def test_it_holds_no_state_that_was_replaced(self, listener: RefreshListener) -> None:
        consumer = Consumer(_published(), listeners=[listener])
        consumer.refresh(to=1)
        replaced: weakref.ref[ReadState] = weakref.ref(consumer.state)
        consumer.refresh(to=2)
        consumer.refresh(to=3)
        gc.collect()
        assert replaced() is None, "a `Refresh` and its `changes` hold both states: keep them no longer than needed"


class CycleListenerConformance:
    """Tests of one listener of a producer; a subclass offers the fixture `listener`, new for each test."""

    def test_its_hooks_take_what_they_are_given(self, listener: CycleListener) -> None:
        _check_hooks(listener, CycleListener)

    def test_it_lets_good_versions_pass(self, listener: CycleListener) -> None:
        store = _published(_Strict(listener))
        assert Consumer(store).refresh().to_version == len(_VERSIONS)

    def test_it_bears_a_cycle_that_fails(self, listener: CycleListener) -> None:
        store = _published()
        told = _Strict(listener)

        def fail(population: Population) -> None:
            raise ValidationError("a cycle that fails")

        with Producer(store, Model.parse(_MODEL), versions=count_up, listeners=[told]) as producer:
            with suppress(ValidationError):
                producer.cycle(fail)
            assert told.errors == []
            assert producer.publish(tables=_VERSIONS[0]).version == len(_VERSIONS) + 1
        assert told.errors == []


class _Strict(CycleListener):
    """Passes everything on and remembers what was raised, also where a producer would only log it."""

    vetoes = True

    def __init__(self, listener: CycleListener) -> None:
        self.errors: list[Exception] = []
        for name in _hooks(CycleListener):
            setattr(self, name, self._passing(getattr(listener, name, None)))

    def _passing(self, hook: object) -> object:
        def told(*values: object) -> None:
            try:
                if callable(hook):
                    hook(*values)
            except Exception as error:
                self.errors.append(error)
                raise

        return told


def _published(listener: CycleListener | None = None) -> Store:
    store = open_store("memory:")
    listeners = () if listener is None else (listener,)
    with Producer(store, Model.parse(_MODEL), versions=count_up, listeners=listeners) as producer:
        for tables in _VERSIONS:
            producer.publish(tables=tables)
        assert producer.publish(tables=_VERSIONS[-1]).version is None
    return store


def _hooks(protocol: type) -> list[str]:
    return [name for name, value in vars(protocol).items() if inspect.isfunction(value) and not name.startswith("_")]


def _check_hooks(listener: object, protocol: type) -> None:
    for name in _hooks(protocol):
        hook = getattr(listener, name, None)
        assert callable(hook), f"{name} is missing: derive from {protocol.__name__}"
        wanted = len(inspect.signature(getattr(protocol, name)).parameters) - 1
        inspect.signature(hook).bind(*range(wanted))

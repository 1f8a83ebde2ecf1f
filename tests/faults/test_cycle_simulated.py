"""A simulated world from a seed: producers that fail, sleep through their lease and meet each other in mid-cycle."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deltaic.errors import DeltaicError
from deltaic.producer import CycleListener, Producer, Step
from deltaic.storage.announcement import Announcements
from deltaic.testing.simulated_store import FaultRates, SimulatedStore
from tests.unit.producer.catalogue import NO_WAIT, check_chain, content_of, movie, producer_of, read

_NO_FAULTS = FaultRates()


class World:
    """Producers, a reader, one store, one clock, one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 1_000_000.0
        self.faults = FaultRates(
            before=self.random.choice([0.0, 0.01, 0.05]),
            after=self.random.choice([0.0, 0.01, 0.05]),
            lost_answer=self.random.choice([0.0, 0.02]),
        )
        self.store = SimulatedStore(random=random.Random(seed), clock=lambda: self.now, faults=self.faults)
        self.producers = [self.producer() for _ in range(3)]
        self.attempts: dict[int, list[Any]] = {}
        self.acknowledged: set[int] = set()
        self.seen = 0
        self.depth = 0
        self.successes = 0

    def producer(self) -> Producer:
        world = self

        class Meddler(CycleListener):
            def step_started(self, step: Step) -> None:
                world.meddle()

        return producer_of(
            self.store, clock=lambda: self.now, listeners=[Meddler()], snapshot_every=self.random.choice([1, 3])
        )

    @contextmanager
    def quiet(self) -> Iterator[None]:
        self.store.set_faults(_NO_FAULTS)
        try:
            yield
        finally:
            self.store.set_faults(self.faults)

    def meddle(self) -> None:
        """What happens to fall into the middle of a cycle."""
        self.observe()
        self.now += self.random.choice([0.1, 0.1, 5, 70])
        if self.depth < 2 and self.random.random() < 0.15:
            self.depth += 1
            self.publish(self.random.choice(self.producers))
            self.depth -= 1

    def publish(self, producer: Producer) -> None:
        given = [
            movie(number, f"{self.random.random()}", [self.random.randrange(4)])
            for number in self.random.sample(range(9), self.random.randint(0, 5))
        ]
        content = content_of(given)

        def populate(cycle: Any) -> None:
            cycle.add(given)

        before = len(self.store.history)
        try:
            version = producer.cycle(populate).version
        except DeltaicError:
            version = None
        for call in self.store.history[before:]:
            name = call.key.rpartition("/")[2]
            if name.startswith("header-"):
                self.attempts.setdefault(int(name.removeprefix("header-")), []).append(content)
        if version is not None:
            self.acknowledged.add(version)
            self.successes += 1

    def observe(self) -> None:
        """A reader never goes back, and sees nothing that was not published whole."""
        with self.quiet():
            version, seen = read(self.store)
            if version is None:
                return
            assert version >= self.seen, "an announced version was lost"
            if version in self.attempts:
                assert seen in self.attempts[version]
            self.seen = version


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_readers_see_whole_versions_in_order(seed: int) -> None:
    world = World(seed)
    for _ in range(8):
        if world.random.random() < 0.1:
            world.producers[world.random.randrange(3)] = world.producer()
        world.publish(world.random.choice(world.producers))
        world.observe()
        world.now += world.random.choice([1, 30, 100])
    world.store.set_faults(_NO_FAULTS)
    world.faults = _NO_FAULTS
    world.now += 1000
    with producer_of(world.store, clock=lambda: world.now) as last:
        version = last.publish([movie(1, "the end")]).version
    assert read(world.store) == (version, content_of([movie(1, "the end")]))
    record = Announcements(world.store, backoff=NO_WAIT).read().record
    assert record is not None
    listed = {entry.version for entry in record.versions}
    assert world.acknowledged <= listed, "an acknowledged version is not in the list"
    check_chain(world.store)


def test_the_world_is_not_too_hostile_to_test_anything() -> None:
    worlds = [World(seed) for seed in range(10)]
    for world in worlds:
        for _ in range(5):
            world.publish(world.random.choice(world.producers))
            world.now += 100
    assert sum(world.successes for world in worlds) > 20

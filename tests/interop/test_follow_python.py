"""A Java service follows what a Python producer publishes, and notices nothing of what goes wrong there."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from films import Catalogue, GrownMovie, LaterMovie, Movie, expected, found
from java_services import JavaConsumer, same_records

from deltaic.consumer.consumer import Consumer
from deltaic.errors import DeltaicError, StorageError, ValidationError
from deltaic.producer.cleaner import clean_chain
from deltaic.producer.compaction import CompactionLimits
from deltaic.producer.listeners import CycleListener
from deltaic.producer.producer import Producer
from deltaic.producer.steps import Step
from deltaic.producer.validators import Candidate, ValidationResult
from deltaic.storage.announcement import Announcements
from deltaic.storage.urls import open_store
from deltaic.testing.faulty_store import Fault, FaultKind, FaultyStore
from tools.java import Program

pytestmark = pytest.mark.interop

VERSIONS = 50
BROKEN = Fault(FaultKind.IO_ERROR, from_then_on=True)


class Refusal:
    """A validator that refuses while it is on, and looks round from inside the cycle."""

    name = "refusal"
    on = False

    def __init__(self, look: Callable[[], None] = lambda: None) -> None:
        self._look = look

    def validate(self, candidate: Candidate) -> ValidationResult:
        if self.on:
            self._look()
        return ValidationResult(self.name, not self.on, "refused")


class Hook(CycleListener):
    """Does something when a step begins; what that raises fails the cycle."""

    vetoes = True
    step: Step | None = None

    def __init__(self, action: Callable[[], None]) -> None:
        self._action = action

    def step_started(self, step: Step) -> None:
        if step is self.step:
            self._action()


class Scene:
    """A folder, a Python producer that can be made to fail, and two followers: Java's and ours, side by side."""

    def __init__(self, program: Program, folder: Path, seed: int, **options: Any) -> None:
        folder.mkdir()
        self.folder = folder
        self.catalogue = Catalogue(seed)
        self.store = FaultyStore(open_store(str(folder)))
        self.refusal = Refusal(self.nothing_new)
        self.hook = Hook(self._raise)
        self.model: type = Movie
        self._options = {"validators": [self.refusal], "listeners": [self.hook], **options}
        self.producer = self._new_producer()
        self.versions: list[int] = []
        self.checksums: dict[int, int] = {}
        self.publish()
        self.java = JavaConsumer(program, folder)
        self.ours = Consumer(str(folder), share=False, schema_append="off")
        self.java.refresh()
        self.ours.refresh()

    def close(self) -> None:
        self.producer.close()
        self.java.close()

    def publish(self) -> int:
        cycle = self.producer.publish(self.catalogue.objects(self.model))
        assert cycle.version is not None and cycle.java_sees_it
        self.versions.append(cycle.version)
        assert self.producer.state is not None
        self.checksums[cycle.version] = self.producer.state.checksum()
        return cycle.version

    def restart(self, model: type) -> None:
        self.producer.close()
        self.model = model
        self.producer = self._new_producer()

    def follow(self, step: str, version: int) -> dict[str, Any]:
        """Lead both followers over one blob to a version, and compare them."""
        answer = self.java.refresh(None if step == "delta" else version)
        assert answer["events"] == [[step, version]]
        assert (answer["version"], answer["failedTransitions"]) == (version, 0)
        assert self.ours.refresh(None if step == "delta" else version).to_version == version
        state = self.ours.state
        assert (answer["checksum"], answer["randomizedTag"]) == (state.checksum(), f"{state.tag:016x}")
        assert answer["counts"] == {name: len(data.populated) for name, data in state.types.items()}
        return answer

    def nothing_new(self) -> None:
        """Fail if the Java service sees anything but the last announced version."""
        answer = self.java.refresh()
        assert (answer["version"], answer["events"]) == (self.versions[-1], [])

    def fail(self, number: int) -> None:
        """Run a cycle that fails in the n-th way; the catalogue is as before afterwards."""
        rows = dict(self.catalogue.rows)
        self.catalogue.change()
        error: type[DeltaicError] = ValidationError
        match number:
            case 0:
                self.refusal.on = True
            case 1:
                self.hook.step = Step.PUBLISH
            case 2:
                self.hook.step = Step.ANNOUNCE  # the blobs have their final names by now
            case 3:
                error = StorageError
                # The third blob does not get its name.
                self.store.fail(Fault(FaultKind.NO_SPACE, call_number=3, operation="copy_if_absent"))
            case _:
                error = StorageError
                self.store.fail(Fault(FaultKind.IO_ERROR, operation="put_if_match", from_then_on=True))
        with pytest.raises(error):
            self.producer.publish(self.catalogue.objects(self.model))
        self.refusal.on, self.hook.step = False, None
        self.store.fail()
        self.catalogue.rows = rows
        self.nothing_new()

    def _raise(self) -> None:
        self.nothing_new()
        raise ValidationError("a listener does not want it")

    def _new_producer(self) -> Producer:
        return Producer(self.store, self.model, **self._options)


@pytest.fixture
def scene(java_program: Program, tmp_path: Path) -> Any:
    scenes: list[Scene] = []

    def make(seed: int, **options: Any) -> Scene:
        scenes.append(Scene(java_program, tmp_path / "chain", seed, **options))
        return scenes[-1]

    yield make
    for each in scenes:
        each.close()


def follow_fifty(scene: Scene) -> None:
    """Fifty versions forward, through five failed cycles and two restarts, the first of which changes the model."""
    failures = {8: 0, 16: 1, 24: 2, 32: 3, 40: 4}
    shard_counts = set()
    for number in range(2, VERSIONS + 1):
        if number in failures:
            scene.fail(failures[number])
        if number in (20, 36):
            scene.restart(GrownMovie)
        # It grows, and shrinks again towards the end: types are split and joined.
        if number < 35:
            scene.catalogue.change(4)
            scene.catalogue.rows |= more_rows(number, 6)
        else:
            for row in sorted(scene.catalogue.rows)[-12:]:
                del scene.catalogue.rows[row]
        version = scene.publish()
        scene.follow("delta", version)
        shard_counts.add(len(scene.ours.state.types["Movie"].shards))
        if number % 10 == 0:
            same_records(scene.java.state(), scene.ours.state)
    assert len(shard_counts) >= 3
    # Versions 1, 6, 11, 16; that of the new model; and every fifth after it.
    assert len(list(scene.folder.glob("snapshot-*"))) == 4 + 1 + 6


def more_rows(seed: int, count: int) -> dict[int, dict[str, Any]]:
    made = Catalogue(seed + 10_000, size=count).rows
    return {1000 * seed + number: {**row, "id": 1000 * seed + number} for number, row in made.items()}


def test_a_java_consumer_follows_fifty_versions_and_back_and_never_notices_five_failed_cycles(scene: Any) -> None:
    scene = scene(1, snapshot_every=5, allow_resharding=True, target_shard_bytes=1000)
    follow_fifty(scene)
    for version in reversed(scene.versions[:-1]):
        scene.follow("reversedelta", version)
        if scene.versions.index(version) % 10 == 0:
            same_records(scene.java.state(), scene.ours.state)
    # Forward again, all at once: over 32 deltas a snapshot is nearer, for both.
    answer = scene.java.refresh()
    assert answer["events"][0][0] == "snapshot" and answer["version"] == scene.versions[-1]
    scene.ours.refresh()
    same_records(scene.java.state(), scene.ours.state)
    assert found(scene.ours["Movie"]) == expected(scene.catalogue, GrownMovie)
    assert answer["checksum"] == scene.checksums[scene.versions[-1]]


def test_each_version_has_the_checksum_that_the_producer_has(scene: Any) -> None:
    scene = scene(2, snapshot_every=3)
    for _ in range(6):
        scene.catalogue.change()
        answer = scene.follow("delta", scene.publish())
        assert answer["checksum"] == scene.checksums[answer["version"]]
        assert found(scene.ours["Movie"]) == expected(scene.catalogue)
    for version in reversed(scene.versions[:-1]):
        assert scene.follow("reversedelta", version)["checksum"] == scene.checksums[version]


def test_a_java_consumer_follows_to_a_model_that_drops_a_field_and_back(scene: Any) -> None:
    scene = scene(6)
    scene.catalogue.change()
    scene.follow("delta", scene.publish())
    scene.restart(LaterMovie)
    for _ in range(2):
        scene.catalogue.change()
        scene.follow("delta", scene.publish())
        same_records(scene.java.state(), scene.ours.state)
    for version in reversed(scene.versions[:-1]):
        scene.follow("reversedelta", version)
        same_records(scene.java.state(), scene.ours.state)


def test_a_java_consumer_is_not_led_astray_by_what_a_killed_producer_left(scene: Any, java_program: Program) -> None:
    scene = scene(3)
    scene.catalogue.change()
    scene.hook._action = lambda: scene.store.fail(BROKEN)
    scene.hook.step = Step.ANNOUNCE
    with pytest.raises(DeltaicError):
        scene.producer.publish(scene.catalogue.objects())
    scene.hook.step = None
    left = [path.name for path in scene.folder.glob(f"delta-{scene.versions[-1]}-*")]
    assert len(left) == 1
    scene.nothing_new()
    scene.store.fail()
    # Another producer, when the lease of the dead one is over.
    scene._options["clock"] = lambda: time.time() + 120
    scene.producer = scene._new_producer()
    scene.catalogue.change()
    scene.follow("delta", scene.publish())
    assert not (scene.folder / left[0]).exists()
    same_records(scene.java.state(), scene.ours.state)


def test_java_consumers_old_and_new_find_their_way_after_the_cleaner(scene: Any, java_program: Program) -> None:
    scene = scene(4, snapshot_every=5)
    for number in range(26):
        scene.catalogue.change()
        version = scene.publish()
        if number < 4:
            scene.follow("delta", version)
    cleaning = clean_chain(
        scene.store,
        keep_snapshots=1,
        keep_versions=8,
        older_than_seconds=0,
        dry_run=False,
        clock=lambda: time.time() + 5,
    )
    assert f"delta-{scene.versions[4]}-{scene.versions[5]}" in cleaning.remove
    behind = scene.java.refresh()
    assert behind["version"] == scene.versions[-1] and behind["events"][0][0] == "snapshot"
    assert behind["checksum"] == scene.checksums[scene.versions[-1]]
    with JavaConsumer(java_program, scene.folder) as fresh:
        assert fresh.refresh()["checksum"] == scene.checksums[scene.versions[-1]]
        back = fresh.refresh(scene.versions[-8])
        assert (back["checksum"], back["failedTransitions"]) == (scene.checksums[scene.versions[-8]], 0)
        assert {kind for kind, _ in back["events"]} == {"reversedelta"}


def test_a_watching_java_service_follows_live_and_goes_where_pins_and_withdrawals_say(
    scene: Any, java_program: Program
) -> None:
    scene = scene(5)
    announcements = Announcements(scene.store)
    with JavaConsumer(java_program, scene.folder, watching=True) as watching:

        def arrives(version: int | None, step: str) -> None:
            assert version is not None
            answer = watching.wait_for(version)
            assert (answer["version"], answer["checksum"]) == (version, scene.checksums[version])
            assert answer["events"][-1] == [step, version] and answer["failedTransitions"] == 0

        first = scene.versions[0]
        scene.catalogue.change()
        second = scene.publish()
        arrives(second, "delta")
        title = watching.ask("title", 7)["title"]
        assert title == (scene.catalogue.rows[7]["title"] if 7 in scene.catalogue.rows else None)

        touched, removed = scene.catalogue.change()
        with scene.producer.incremental() as changes:
            for movie in scene.catalogue.objects():
                if movie.id in touched:
                    changes.add_or_modify(movie)
            for number in removed:
                changes.delete(Movie, number)
        assert changes.cycle is not None and changes.cycle.version is not None
        third = changes.cycle.version
        scene.checksums[third] = scene.producer.state.checksum()
        arrives(third, "delta")

        announcements.pin(first)
        arrives(first, "reversedelta")
        announcements.unpin()
        arrives(third, "delta")
        announcements.withdraw("main")
        arrives(second, "reversedelta")
        scene.versions.append(second)
        scene.catalogue.change()
        arrives(scene.publish(), "delta")

        for number in sorted(scene.catalogue.rows)[:30]:
            del scene.catalogue.rows[number]
        scene.publish()
        cycle = scene.producer.compact(CompactionLimits(hole_percent=1, hole_bytes=1))
        scene.checksums[cycle.version] = scene.producer.state.checksum()
        arrives(cycle.version, "delta")
        scene.ours.refresh()
        same_records(watching.state(), scene.ours.state)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 110))
def test_more_java_consumers_follow_fifty_versions(scene: Any, seed: int) -> None:
    scene = scene(seed, snapshot_every=5, allow_resharding=True, target_shard_bytes=500 + 100 * (seed % 7))
    follow_fifty(scene)
    for version in reversed(scene.versions[:-1]):
        scene.follow("reversedelta", version)

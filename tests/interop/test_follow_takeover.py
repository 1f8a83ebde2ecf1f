"""A chain changes hands between Java and Python producers; consumers of both follow without a gap."""

from pathlib import Path

import pytest
from films import Catalogue, GrownMovie, Movie, expected, found
from java_services import JavaConsumer, JavaProducer, same_records

from deltaic.consumer.consumer import Consumer
from deltaic.producer.producer import Producer
from deltaic.storage.announced import RECORD_NAME
from tools.java import Program

pytestmark = pytest.mark.interop


class Followers:
    """A Java and a Python consumer, led side by side over every version."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.java = JavaConsumer(program, folder)
        self.ours = Consumer(str(folder), share=False)
        self.loaded = False

    def follow(self, version: int | None, catalogue: Catalogue, *, verified: bool) -> None:
        assert version is not None
        answer, refresh = self.java.refresh(), self.ours.refresh()
        step = "delta" if self.loaded else "snapshot"
        assert answer["events"] == [[step, version]] and answer["failedTransitions"] == 0
        assert refresh.to_version == version and len(refresh.steps) == 1 and refresh.stuck is None
        assert refresh.by_snapshot is not self.loaded
        assert refresh.verified is verified
        same_records(self.java.state(), self.ours.state)
        assert found(self.ours["Movie"]) == expected(catalogue)
        self.loaded = True


def test_a_chain_goes_from_java_to_python_and_back_and_again(java_program: Program, tmp_path: Path) -> None:
    folder = tmp_path / "chain"
    folder.mkdir()
    catalogue = Catalogue(21)
    with JavaProducer(java_program, folder) as java:
        followers = Followers(java_program, folder)
        for _ in range(3):
            followers.follow(java.publish(catalogue.table()), catalogue, verified=False)
            catalogue.change()
        java.refuse(catalogue.table())
        catalogue.change()
    with Producer(str(folder), Movie) as producer:
        for _ in range(3):
            followers.follow(producer.publish(catalogue.objects()).version, catalogue, verified=True)
            catalogue.change()
    hand_back(folder)
    with JavaProducer(java_program, folder) as java:
        for _ in range(2):
            followers.follow(java.publish(catalogue.table()), catalogue, verified=False)
            catalogue.change()
    with Producer(str(folder), Movie) as producer:
        cycle = producer.publish(catalogue.objects())
        followers.follow(cycle.version, catalogue, verified=True)
    assert producer.state is not None
    # Eight versions before it: the counter of the chain went on through all hands.
    assert producer.state.header_tags["hollow.delta.chain.version.counter"] == "9"
    with Consumer(str(folder), share=False) as fresh, JavaConsumer(java_program, folder) as java_fresh:
        assert fresh.version == cycle.version
        assert java_fresh.refresh()["checksum"] == fresh.state.checksum()
    followers.java.close()


def hand_back(folder: Path) -> None:
    """What docs/java.md says: without a record the bare number counts again."""
    (folder / RECORD_NAME).unlink()


def test_a_python_producer_takes_over_with_another_model_and_java_restores_it(
    java_program: Program, tmp_path: Path
) -> None:
    folder = tmp_path / "chain"
    folder.mkdir()
    catalogue = Catalogue(22)
    with JavaProducer(java_program, folder) as java:
        java.publish(catalogue.table())
    with Producer(str(folder), GrownMovie, allow_resharding=True, target_shard_bytes=700) as producer:
        for _ in range(3):
            catalogue.change()
            producer.publish(catalogue.objects(GrownMovie))
        with Consumer(str(folder), share=False) as ours, JavaConsumer(java_program, folder) as java_consumer:
            java_consumer.refresh()
            same_records(java_consumer.state(), ours.state)
    hand_back(folder)
    with JavaProducer(java_program, folder, "GrownMovie", incremental=True) as java:
        touched, removed = catalogue.change()
        version = java.change([row for row in catalogue.table(GrownMovie) if row["id"] in touched], removed)
        with Consumer(str(folder), share=False) as ours:
            assert ours.version == version
            assert found(ours["Movie"]) == expected(catalogue, GrownMovie)


def test_a_python_consumer_stays_where_the_record_says_while_java_publishes_beside_it(
    java_program: Program, tmp_path: Path
) -> None:
    """Two producers that do not know of each other: announced.json wins, for deltaic."""
    folder = tmp_path / "chain"
    folder.mkdir()
    catalogue = Catalogue(23)
    with Producer(str(folder), Movie) as producer:
        ours = producer.publish(catalogue.objects()).version
    catalogue.change()
    with JavaProducer(java_program, folder) as java:
        java.publish(catalogue.table())
    consumer = Consumer(str(folder), share=False)
    assert consumer.refresh().to_version == ours

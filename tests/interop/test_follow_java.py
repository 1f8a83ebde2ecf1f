"""Python follows what a Java service publishes; and both publish the same blobs."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from films import Catalogue, LaterMovie, Movie, expected, found
from java_services import WAIT_SECONDS, JavaConsumer, JavaProducer, same_records

from deltaic.binary.cursor import Cursor
from deltaic.consumer.consumer import Consumer
from deltaic.dataset.dataset import Dataset
from deltaic.producer.producer import Producer
from deltaic.wire.header import read_header
from tools.java import Program

pytestmark = pytest.mark.interop

# Hollow writes the last one only where the maps are partitioned; we always say it.
OF_ONE_RUN = {"hollow.blob.to.version", "hollow.metric.cycle.start", "hollow.partitioned.ordinal.map"}


@pytest.fixture
def chain(tmp_path: Path) -> Path:
    (tmp_path / "chain").mkdir()
    return tmp_path / "chain"


@pytest.fixture
def follower(chain: Path) -> Iterator[Consumer]:
    with Consumer(str(chain), share=False, poll_seconds=0.05, max_deltas=64).start(load=False) as consumer:
        yield consumer


def arrives(consumer: Consumer, version: int, catalogue: Catalogue, model: type = Movie) -> None:
    """Wait for the background to reach a version, and compare every movie."""
    assert consumer.wait_for(version, WAIT_SECONDS, exact=True), consumer.status()
    assert found(consumer["Movie"]) == expected(catalogue, model)
    status = consumer.status()
    assert status.healthy and status.verified is False and status.announced == version


def test_python_follows_a_java_producer_live_and_says_that_nothing_was_verified(
    java_program: Program, chain: Path, follower: Consumer
) -> None:
    catalogue = Catalogue(11)
    with JavaProducer(java_program, chain) as producer:
        for _ in range(8):
            arrives(follower, producer.publish(catalogue.table()), catalogue)
            catalogue.change()
    assert not (chain / "announced.json").exists()
    assert [step.blob for step in follower.refresh().steps] == []


def test_python_follows_over_refused_cycles_restarts_and_another_model_and_back(
    java_program: Program, chain: Path, follower: Consumer
) -> None:
    catalogue, versions = Catalogue(12), []
    with JavaProducer(java_program, chain) as producer:
        versions.append(producer.publish(catalogue.table()))
        arrives(follower, versions[-1], catalogue)
        before = dict(catalogue.rows)
        catalogue.change()
        assert "ValidationStatusException" in producer.refuse(catalogue.table())
        # Java leaves the blobs of a refused cycle under their names.
        assert len(list(chain.glob("snapshot-*"))) == 2
        assert follower.refresh().to_version == versions[-1]
        catalogue.rows = before
        catalogue.change()
        versions.append(producer.publish(catalogue.table()))
        arrives(follower, versions[-1], catalogue)
    with JavaProducer(java_program, chain, incremental=True) as producer:
        touched, removed = catalogue.change()
        rows = [row for row in catalogue.table() if row["id"] in touched]
        versions.append(producer.change(rows, removed))
        arrives(follower, versions[-1], catalogue)
    with JavaProducer(java_program, chain, "LaterMovie") as producer, JavaConsumer(java_program, chain) as java:
        java.refresh()
        catalogue.change()
        versions.append(producer.publish(catalogue.table(LaterMovie)))
        assert follower.wait_for(versions[-1], WAIT_SECONDS, exact=True)
        with Consumer(str(chain), share=False) as fresh:
            assert found(fresh["Movie"]) == expected(catalogue, LaterMovie)
        java.refresh()
        # An operator announces older versions: back by reverse deltas. They are of the later model, which has no
        # ratings any more; Java and we lose the same ones.
        for version in [versions[2], versions[3], versions[1], versions[0]]:
            producer.announce(version)
            java.refresh()
            assert follower.wait_for(version, WAIT_SECONDS, exact=True)
            same_records(java.state(), follower.state)
            with Consumer(str(chain), share=False) as fresh:
                assert fresh.version == version
            assert follower.status().verified is False and follower.status().stuck is None
        # From the first version two deltas lead on, one of them to the refused version. Hollow's retriever takes the
        # one that the folder lists first; we take the way that arrives.
        producer.announce(versions[3])
        assert follower.wait_for(versions[3], WAIT_SECONDS, exact=True)
        assert [row["id"] for row in found(follower["Movie"])] == sorted(catalogue.rows)
    assert follower.listener_errors == 0


def test_python_and_java_consumers_of_a_java_chain_hold_the_same_at_every_version(
    java_program: Program, chain: Path
) -> None:
    catalogue = Catalogue(13)
    consumer = Consumer(str(chain), share=False)
    versions = []
    with JavaProducer(java_program, chain) as producer, JavaConsumer(java_program, chain) as java:
        for _ in range(5):
            versions.append(producer.publish(catalogue.table()))
            catalogue.change()
            java.refresh()
            consumer.refresh()
            same_records(java.state(), consumer.state)
        for version in reversed(versions):
            java.refresh(version)
            consumer.refresh(version)
            same_records(java.state(), consumer.state)
        consumer.pin_locally(versions[2])
        assert consumer.refresh().to_version == versions[2]
        assert consumer.status().pinned_by == "consumer"
        consumer.unpin_locally()
        assert consumer.refresh().to_version == versions[-1]
    listed = Dataset.open(str(chain)).versions()
    assert [each.version for each in listed] == versions[::-1]


def test_the_two_producers_write_the_same_blobs(java_program: Program, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "java", tmp_path / "python"
    theirs.mkdir()
    ours.mkdir()
    catalogue = Catalogue(14)
    versions: list[tuple[int, int]] = []
    with JavaProducer(java_program, theirs) as java, Producer(str(ours), Movie) as python:
        for _ in range(4):
            cycle = python.publish(catalogue.objects())
            assert cycle.version is not None
            versions.append((java.publish(catalogue.table()), cycle.version))
            catalogue.change()
    for place, (java_version, python_version) in enumerate(versions):
        kinds = [(f"snapshot-{java_version}", f"snapshot-{python_version}")]
        if place:
            java_before, python_before = versions[place - 1]
            kinds.append((f"delta-{java_before}-{java_version}", f"delta-{python_before}-{python_version}"))
            kinds.append(
                (f"reversedelta-{java_version}-{java_before}", f"reversedelta-{python_version}-{python_before}")
            )
        for java_name, python_name in kinds:
            java_blob, python_blob = split(theirs / java_name), split(ours / python_name)
            assert python_blob == java_blob, python_name


def split(path: Path) -> tuple[object, ...]:
    """A blob without its state tags, versions and clock, and without the tags that only deltaic writes."""
    data = path.read_bytes()
    header = read_header(cursor := Cursor(data, path.name))
    tags = {
        name: value for name, value in header.tags.items() if name not in OF_ONE_RUN and not name.startswith("deltaic.")
    }
    return header.schemas, header.extra, header.sections, tags, data[cursor.position :]

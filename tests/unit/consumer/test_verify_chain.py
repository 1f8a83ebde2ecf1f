"""`verify_chain` finds what is missing, damaged or does not fit, and nothing else."""

import shutil

import pytest

from deltaic.consumer import verify_chain
from deltaic.errors import NotFoundError
from deltaic.storage import LocalStore, open_store
from tests.unit.consumer.small_chain import SmallChain


@pytest.fixture
def chain():
    chain = SmallChain(open_store("memory:"))
    for number in range(5):
        chain.publish({1: f"title {number}", number: "x"}, snapshot=number % 2 == 0)
    return chain


def problems(chain, **options):
    return [str(finding) for finding in verify_chain(chain.store, **options).findings]


def test_a_whole_chain_has_no_problems(chain):
    found = verify_chain(chain.store)
    assert found.ok and found.verified and found.versions == 5
    assert found.files == len(chain.blobs) and found.size_bytes == sum(map(len, chain.blobs.values()))
    assert found.walked == len(chain.blobs)


def test_a_java_chain_is_walked_although_nothing_can_be_compared(hollow_fixtures, tmp_path):
    shutil.copytree(hollow_fixtures / "blob-store" / "store", tmp_path / "store")
    found = verify_chain(LocalStore(tmp_path / "store"))
    assert found.ok and not found.verified and found.versions == 6


def test_versions_that_left_the_list_are_looked_at_too():
    chain = SmallChain(open_store("memory:"))
    for number in range(70):
        chain.publish(snapshot=number == 0)
    assert verify_chain(chain.store).versions == 70
    chain.store.delete("delta-2-3")
    assert "delta-2-3: announced, but not there" in problems(chain)


@pytest.mark.parametrize("name", ["snapshot-3", "delta-2-3", "reversedelta-4-3"])
@pytest.mark.parametrize("quick", [False, True])
def test_a_missing_file_is_found(chain, name, quick):
    chain.store.delete(name)
    assert f"{name}: announced, but not there" in problems(chain, walk=not quick)


@pytest.mark.parametrize("name", ["snapshot-3", "delta-2-3", "reversedelta-4-3"])
def test_every_flipped_bit_is_found(chain, name):
    data = chain.blobs[name]
    for place in range(0, len(data), max(1, len(data) // 40)):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        chain.store.put(name, bytes(damaged))
        [problem] = problems(chain, walk=False)
        assert problem.startswith("checksum") or name in problem


def test_a_chain_that_is_not_closed_is_found():
    chain = SmallChain(open_store("memory:"))
    chain.publish()
    chain.publish(reverse=False)
    chain._base = None
    chain.writer = type(chain.writer)(chain.writer.schemas)
    chain.publish()
    assert problems(chain) == [
        "version 2: no reverse delta leads back to version 1",
        "version 3: no delta leads to it from version 2 or before",
    ]


def test_a_snapshot_of_other_records_is_found_although_its_checksum_is_right():
    chain = SmallChain(open_store("memory:"), record=False)
    chain.publish({1: "one"})
    chain.publish({1: "two"})
    other = SmallChain(open_store("memory:"), record=False)
    other.publish({1: "one"})
    other.publish({1: "TWO"})
    chain.store.put("snapshot-2", other.blobs["snapshot-2"])
    [problem] = problems(chain)
    assert "version 2" in problem and "its snapshot is state" in problem


def test_a_blob_whose_header_names_another_version_is_found():
    chain = SmallChain(open_store("memory:"), record=False)
    chain.publish()
    chain.store.put("snapshot-2", chain.blobs["snapshot-1"])
    chain.store.put("announced.version", b"2")
    assert "snapshot-2: its header says that it leads to version 1" in problems(chain)


def test_a_withdrawn_version_breaks_no_chain():
    from deltaic.consumer import Consumer

    chain = SmallChain(open_store("memory:"))
    chain.publish({1: "good"})
    consumer = Consumer(chain.store)
    consumer.refresh()
    chain.publish({1: "bad"})
    chain.announcements.withdraw("main")
    chain.go_on_from(1, consumer.state)
    chain.publish({1: "better"}, version=3)
    assert problems(chain) == []


def test_what_a_producer_leaves_of_a_withdrawn_version_is_in_order():
    from tests.unit.producer.catalogue import movies, producer_of

    store = open_store("memory:")
    with producer_of(store) as producer:
        producer.publish(movies(1))
        producer.publish(movies(2))
        producer.announcements.withdraw("main")
        producer.publish(movies(3))
    names = {info.key for info in store.list()}
    assert "reversedelta-2-1" in names and not {"delta-1-2", "snapshot-2"} & names
    assert verify_chain(store).findings == ()
    store.delete("reversedelta-2-1")
    assert [finding.subject for finding in verify_chain(store).findings] == ["reversedelta-2-1"]


def test_nothing_announced_is_an_error():
    with pytest.raises(NotFoundError):
        verify_chain(open_store("memory:"))

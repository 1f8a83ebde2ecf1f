"""Indexes of shared states are made once for all consumers of a host, carried on once, and go with their state."""

import logging
import os

import pytest

from deltaic.consumer import Consumer, arena_indexes
from deltaic.consumer import arena as arena_module
from deltaic.errors import SchemaError, StorageError
from deltaic.storage import LocalStore
from tests.unit.consumer.small_chain import SmallChain

MANY = {number: f"Movie {number % 50}" for number in range(400)}


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Arenas of a test are its own."""
    opened = arena_module.Arena.open.__func__

    def here(cls, identity, *, base=None, need_bytes=0):
        return opened(cls, identity, base=tmp_path / "arenas", need_bytes=need_bytes)

    monkeypatch.setattr(arena_module.Arena, "open", classmethod(here))
    return tmp_path / "arenas"


@pytest.fixture
def chain(tmp_path):
    return SmallChain(LocalStore(tmp_path / "chain"))


@pytest.fixture
def two(chain):
    chain.publish(MANY)
    consumers = [Consumer(chain.store, share=True) for _ in range(2)]
    for consumer in consumers:
        consumer.refresh()
    return consumers


def ask(consumer):
    """Every kind of index, and what it finds."""
    lookup = consumer.lookup
    return (
        consumer["Movie"].get(7) and consumer["Movie"][7].title,
        consumer["Country"]["fr"].size,
        lookup.unique("Movie", ["id", "title"]).find([(7, "Movie 7"), (7, "no")]).tolist(),
        lookup.hash("Movie", ["country.code", "title"]).find("fr", "Movie 7").tolist(),
        lookup.hash("Movie", "title", select="country").find("Movie 7").tolist(),
        lookup.prefix("Movie", "title", tokens=True).find("mov 7").tolist(),
        lookup.prefix("Movie", "title", fold_case=False).find("Movie 49").tolist(),
        lookup.range("Movie", "id").between(7, 9).tolist(),
        lookup.range("Movie", "title").between("Movie 48").tolist(),
        lookup.range("Movie", "title").max(),
    )


def counts(consumer):
    return [
        (index.counts.builds, index.counts.updates, index.counts.attached)
        for index in sorted(consumer.lookup.indexes(), key=lambda index: str(index.definition))
    ]


def files(place):
    [folder] = place.iterdir()
    return sorted(name for name in os.listdir(folder) if name.startswith(("i-", "index-")))


def test_the_second_consumer_builds_nothing_and_finds_the_same(two):
    first, second = two
    assert ask(first) == ask(second)
    assert len(counts(first)) == 9
    assert set(counts(first)) == {(1, 0, 0)} and set(counts(second)) == {(0, 0, 1)}
    for mine, other in zip(first.lookup.indexes(), second.lookup.indexes(), strict=True):
        assert mine.definition == other.definition and mine.nbytes == other.nbytes
        for name, array in other.arrays().items():
            assert (array == mine.arrays()[name]).all() and array.dtype == mine.arrays()[name].dtype
            assert not len(array) or not array.flags.writeable


def test_an_update_is_made_once_and_equals_a_build(chain, two):
    first, second = two
    ask(first), ask(second)
    alone = Consumer(chain.store, share=False)
    for round_ in range(6):
        chain.publish(MANY | {7: f"Movie 7 {round_}", 500 + round_: "Movie 49"}, announce=True)
        for consumer in (first, second) if round_ % 2 else (second, first):
            consumer.refresh()
        alone.refresh()
        assert ask(first) == ask(second)
        fresh = Consumer(chain.store, share=False)
        fresh.refresh(to=chain.versions[-1])
        assert len(ask(first)[5]) == len(ask(fresh)[5]) and ask(first)[0] == f"Movie 7 {round_}"
    # Whoever comes first updates for both, here each of them three times.
    assert set(counts(first)) == {(1, 3, 3)}
    assert set(counts(second)) == {(0, 3, 4)}


def test_what_an_update_takes_over_stays_where_it_is(chain, two, place):
    first, _ = two
    chain.publish(MANY, countries={"de": 83})
    first.refresh()
    first["Country"]["de"]
    before = set(files(place))
    chain.publish(MANY, countries={"de": 83})
    first.refresh()
    fresh = set(files(place)) - before
    # The countries did not change: a manifest for the new version, and no file beside it.
    assert len(fresh) == 1 and fresh.pop().startswith("index-3-")


def test_the_indexes_of_a_state_go_with_it(chain, two, place):
    first, second = two
    ask(first), ask(second)
    for _ in range(8):
        chain.publish(MANY)
        for consumer in (first, second):
            consumer.refresh()
    found = files(place)
    versions = {name.split("-")[1] for name in found if name.startswith("index-")}
    assert versions <= {"8", "9"}
    [folder] = place.iterdir()
    assert len([name for name in os.listdir(folder) if name.startswith("state-")]) <= 3
    needed = set()
    indexes = arena_indexes.SharedIndexes(first._refresher._maker._arena._folder)
    for name in found:
        if name.startswith("index-"):
            needed |= indexes._read(name).files()
    assert {name for name in found if name.startswith("i-")} == needed


def test_what_a_maker_that_died_left_is_swept(chain, two, place):
    [folder] = place.iterdir()
    for name in ("i-0123456789abcdef", "tmp-index-1-00.json", "index-77-00.json"):
        (folder / name).write_bytes(b"left")
    chain.publish(MANY)
    two[0].refresh()
    assert files(place) == [] and not (folder / "tmp-index-1-00.json").exists()


@pytest.mark.parametrize("damage", ["digest", "file", "short", "empty", "format", "name", "bounds", "dtype", "kind"])
def test_a_damaged_index_is_made_again(two, place, damage):
    first, second = two
    first["Movie"][7]
    [folder] = place.iterdir()
    [data, manifest] = [folder / name for name in files(place)]
    text = manifest.read_bytes()
    if damage == "digest":
        manifest.write_bytes(text[:-5] + b"00000")
    elif damage == "file":
        data.unlink()
    elif damage in ("short", "empty"):
        os.truncate(data, 64 if damage == "short" else 0)
    else:
        body = text[64:]
        old, new = {
            "format": (b'"format":1', b'"format":9'),
            "name": (data.name.encode(), b"../../etc/passwd"),
            "bounds": (b'"<u8","' + data.name.encode() + b'",0', b'"<u8","' + data.name.encode() + b'",99999992'),
            "dtype": (b'"<u8"', b'"|O8"'),
            "kind": (b'"kind":"key"', b'"kind":"nonsense"'),
        }[damage]
        assert old in body
        manifest.write_bytes(arena_indexes.sealed(body.replace(old, new)))
    assert second["Movie"][7].title == "Movie 7"
    assert counts(second) == [(1, 0, 0)]


def test_without_room_an_index_is_private(two, place, monkeypatch, caplog):
    def full(self, name, size_bytes):
        raise StorageError(28, "no room")

    monkeypatch.setattr(arena_indexes.PrivateFolder, "create", full)
    with caplog.at_level(logging.WARNING):
        assert ask(two[0]) == ask(two[1])
    assert "not shared" in caplog.text and files(place) == []
    assert set(counts(two[0])) == set(counts(two[1])) == {(1, 0, 0)}


def test_who_waits_too_long_makes_its_own(two, monkeypatch, caplog):
    monkeypatch.setattr(arena_indexes, "WAIT_SECONDS", 0.05)
    folder = two[0]._refresher._maker._arena._folder
    with folder.try_lock("lock-indexes") as held:
        assert held
        assert two[1]["Movie"][7].title == "Movie 7"
    assert "another process has been making an index" in caplog.text
    assert two[0]["Movie"][7].title == "Movie 7" and counts(two[0]) == counts(two[1]) == [(1, 0, 0)]


def test_an_index_that_cannot_be_is_refused_and_holds_nobody_up(two):
    for consumer in two:
        with pytest.raises(SchemaError):
            consumer.lookup.range("Movie", "country.nonsense")
    assert ask(two[0]) == ask(two[1])


def test_a_version_of_another_chain_has_indexes_of_its_own(chain, two, tmp_path):
    first, second = two
    first["Movie"][7]
    for name in os.listdir(tmp_path / "chain"):
        path = tmp_path / "chain" / name
        if path.is_file():
            path.unlink()
    again = SmallChain(LocalStore(tmp_path / "chain"))
    again.publish({7: "another"})
    later = Consumer(again.store, share=True)
    later.refresh()
    assert later.version == first.version and later["Movie"][7].title == "another" and 8 not in later["Movie"]
    assert counts(later) == [(1, 0, 0)]
    assert first["Movie"][7].title == "Movie 7" and second["Movie"][8].title == "Movie 8"


def test_a_consumer_that_missed_versions_attaches_to_the_index_of_the_newest(chain, two):
    first, second = two
    first["Movie"][7], second["Movie"][7]
    for _ in range(4):
        chain.publish(MANY)
        first.refresh()
    second.refresh()
    assert second["Movie"][7].watermark == 5
    assert counts(first) == [(1, 4, 0)] and counts(second) == [(0, 0, 2)]

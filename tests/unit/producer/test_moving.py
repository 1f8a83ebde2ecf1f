"""Compaction and the chain patcher: the same content at other ordinals, and ways between any two states."""

import io
import random
from typing import Any

import numpy as np
import pytest

from deltaic.errors import ChainError, CommitConflictError, InputError
from deltaic.producer import CompactionLimits, Producer, count_up, patch_chain
from deltaic.producer.patch import bridge
from deltaic.producer.restoring import load_version, read_blob
from deltaic.schema.model import Model
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobName, Chain
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from tests.unit.producer.catalogue import check_chain, content, content_of, movie, movies, producer_of, read

ALWAYS = CompactionLimits(hole_percent=0.1, hole_bytes=1)


def by_tens(previous: int | None) -> int:
    return 10 if previous is None else previous + 10


def holes(state: ReadState | None) -> int:
    assert state is not None
    return sum(data.holes for data in state.types.values())


def test_compaction_fills_holes_and_keeps_the_content() -> None:
    store = open_store("memory:")
    producer = producer_of(store)
    producer.publish(movies(*range(300)))
    producer.publish(movies(*range(200, 300)))
    assert holes(producer.state) > 500
    cycle = producer.compact(ALWAYS)
    assert cycle.version == 3 and cycle.types["String"].added == cycle.types["String"].removed > 0
    assert read(store) == (3, content_of(movies(*range(200, 300))))
    producer.publish(movies(*range(200, 301)))
    assert holes(producer.state) < 10
    assert not producer.compact(ALWAYS).published, "nothing is left to move"
    assert not producer.publish(movies(*range(200, 301))).published, "records are found at their new ordinals"
    check_chain(store)


def test_compaction_after_a_restart_and_after_a_failure() -> None:
    store = open_store("memory:")
    with producer_of(store) as producer:
        producer.publish(movies(*range(60)))
        producer.publish(movies(*range(40, 60)))
    with producer_of(store) as producer:

        class Refuses:
            name = "refuses"

            def validate(self, candidate: Any) -> Any:
                return None

        producer.validators = (Refuses(),)
        with pytest.raises(Exception, match="refuses"):
            producer.compact(ALWAYS)
        producer.validators = ()
        assert producer.compact(ALWAYS).version == 3
        producer.publish(movies(*range(39, 60)))
    assert read(store) == (4, content_of(movies(*range(39, 60))))
    check_chain(store)


def test_types_with_few_holes_are_left_alone() -> None:
    producer = producer_of(open_store("memory:"))
    producer.publish(movies(*range(100)))
    producer.publish(movies(*range(1, 100)))
    assert not producer.compact().published


def test_compaction_follows_sets_and_maps() -> None:
    model = Model.parse(
        "String { string value; } SetOfString Set<String> @HashKey(value);"
        "MapOfStringToString Map<String, String> @HashKey(value);"
        "Thing @PrimaryKey(id) { int id; SetOfString tags; MapOfStringToString names; }"
    )

    def rows(*numbers: int) -> list[dict[str, Any]]:
        return [{"id": n, "tags": [f"t{n}", "x"], "names": {f"k{n}": f"v{n}", "x": "y"}} for n in numbers]

    producer = Producer(open_store("memory:"), model, versions=count_up)
    producer.publish(rows(*range(50)))
    producer.publish(rows(*range(40, 50)))
    producer.compact(ALWAYS)
    state = producer.state
    assert state is not None
    for record in state["Thing"]:
        assert f"t{record.id}" in record.tags and record.names[f"k{record.id}"] == f"v{record.id}"
    assert not producer.publish(rows(*range(40, 50))).published


def broken_chain(*versions: list[Any]) -> Store:
    """Versions 10, 20, … without any delta between them."""
    store = open_store("memory:")
    with producer_of(store, versions=by_tens) as producer:
        for given in versions:
            producer.publish(given)
    for info in list(store.list()):
        if "delta-" in info.key:
            store.delete(info.key)
    return store


def test_a_broken_chain_is_bridged_both_ways() -> None:
    first, last = movies(*range(50)), [movie(3), movie(4, "other"), movie(100), movie(101, actors=(1, 2, 3))]
    store = broken_chain(first, [movie(n, f"x{n % 7}", [n % 5]) for n in range(20, 90)], last)
    patch = patch_chain(store, 10, 30)
    assert patch.through_version is not None and len(patch.blobs) == 4
    announcements = Announcements(store)
    state = load_version(store, announcements, 10)
    chain = Chain.read(store)
    assert (chain.deltas, chain.reverse_deltas) == ({10: 29, 29: 30}, {30: 29, 29: 10})
    for step in ((10, 29), (29, 30)):
        state = read_blob(store, announcements, BlobName.delta(*step), state)
        assert content(state) == content_of(last)
    assert state.checksum() == load_version(store, announcements, 30).checksum()
    for step in ((30, 29), (29, 10)):
        state = read_blob(store, announcements, BlobName.delta(*step), state)
    assert content(state) == content_of(first)
    with producer_of(store, versions=by_tens) as producer:
        assert producer.publish(movies(7)).from_version == 30, "the patch is no leftover"
    assert Chain.read(store).deltas == {10: 29, 29: 30, 30: 40}


@pytest.mark.parametrize("seed", range(25))
def test_a_bridge_leads_between_any_two_states(seed: int) -> None:
    draw = random.Random(seed)

    def state() -> ReadState:
        producer = producer_of(open_store("memory:"))
        for _ in range(draw.randint(1, 3)):
            numbers = draw.sample(range(12), draw.randint(0, 8))
            producer.publish(
                [movie(n, draw.choice("abc"), draw.choices(range(4), k=draw.randint(0, 3))) for n in numbers]
            )
        assert producer.state is not None
        return producer.state

    before, after = state(), state()
    blobs, _ = bridge(before, after, 1, 2, 3)
    reached = before
    for blob in blobs[::2]:
        reached = reached.apply(blob.read())
    assert reached.checksum() == after.checksum() and content(reached) == content(after)
    for blob in blobs[::-2]:
        reached = reached.apply(blob.read())
    assert reached.checksum() == before.checksum() and content(reached) == content(before)


def test_a_chain_is_patched_only_where_it_is_broken_and_nobody_is_at_work() -> None:
    store = open_store("memory:")
    producer = producer_of(store, versions=by_tens)
    producer.publish(movies(1))
    producer.publish(movies(2))
    with pytest.raises(CommitConflictError):
        patch_chain(store, 10, 20)
    producer.close()
    with pytest.raises(ChainError, match="already"):
        patch_chain(store, 10, 20)
    with pytest.raises(InputError):
        patch_chain(store, 20, 10)


def test_an_ordinal_that_is_taken_cannot_be_chosen() -> None:
    schemas = Model.parse("Word { string value; }").schemas
    state = WriteState(schemas)
    word = state.add_object("Word", {"value": "a"})
    state.prepare()
    state.next_cycle()
    data, ends = np.frombuffer(b"\x01b\x01c", np.uint8), np.array([2, 4])
    for chosen in ([word, 5], [5, 5]):
        with pytest.raises(InputError, match="must be free"):
            state.place("Word", data, ends, np.array(chosen, np.int64))
    state.place("Word", data, ends, np.array([7, 3], np.int64))
    state.keep_all_from_previous()
    assert state.populated("Word").ordinals().tolist() == [word, 3, 7]
    # What is added next goes past the chosen ones or into holes, never onto them.
    added = [state.add_object("Word", {"value": str(number)}) for number in range(20)]
    assert not {word, 3, 7} & set(added) and len(set(added)) == 20
    snapshot = io.BytesIO()
    state.prepare()
    state.write_snapshot(snapshot)
    words = ReadState.load(snapshot.getvalue())["Word"]
    assert (words[7].value, words[3].value, words[word].value) == ("b", "c", "a")

"""A consumer goes where it is told, and says so when it cannot."""

import json
import shutil

import pytest

from deltaic.consumer import Consumer, RefreshListener
from deltaic.errors import ChainError, ChecksumError, DecodeError, InputError, NotFoundError
from deltaic.limits import Limits
from deltaic.state.dump import dump_state
from deltaic.state.filter import Filter
from deltaic.storage import LocalStore, open_store
from tests.unit.consumer.small_chain import SmallChain, titles, watermarks


class Recorder(RefreshListener):
    def __init__(self):
        self.events = []

    def before(self, from_version, to_version):
        self.events.append(("before", from_version, to_version))

    def after(self, refresh, changes):
        self.events.append(("after", refresh.from_version, refresh.to_version))

    def failed(self, failure):
        self.events.append(("failed", type(failure.error).__name__))

    def stuck(self, version, wanted, reason):
        self.events.append(("stuck", version, wanted, reason))


@pytest.fixture
def store(tmp_path):
    return LocalStore(tmp_path / "chain")


@pytest.fixture
def memory():
    """For long chains: a disk waits for each of its writes."""
    return open_store("memory:")


@pytest.fixture
def chain(store):
    return SmallChain(store)


class Clock:
    def __init__(self):
        self.now = 1_000_000.0

    def __call__(self):
        return self.now


def content(types):
    # Going back leaves ordinals at the end that hold nothing, in Java as well.
    return {name: {key: value for key, value in one.items() if key != "maxOrdinal"} for name, one in types.items()}


def blobs(refresh):
    return [step.blob for step in refresh.steps]


def test_a_java_store_is_followed_forward_and_back(hollow_fixtures, tmp_path):
    case = hollow_fixtures / "blob-store"
    shutil.copytree(case / "store", tmp_path / "store")
    listing = json.loads((case / "store.json").read_text())
    expected = {one["version"]: json.loads((case / one["state"]).read_text()) for one in listing["versions"]}
    consumer = Consumer(tmp_path / "store")
    assert consumer.refresh().to_version == listing["announced"]
    assert consumer.status().verified is False
    walk = [*sorted(expected, reverse=True), *sorted(expected)]
    for version in walk:
        consumer.refresh(to=version)
        dumped = dump_state(consumer.state, version)
        assert content(dumped["types"]) == content(expected[version]["types"])
        assert dumped["checksum"] == expected[version]["checksum"]


@pytest.mark.parametrize("case", ["scalars", "collections", "hash-keys", "shards"])
def test_a_recorded_chain_is_followed_forward_and_back(case, project_root, tmp_path):
    recorded = project_root / "tests/golden/hollow" / case
    for path in recorded.iterdir():
        if path.name.startswith(("snapshot-", "delta-", "reversedelta-")):
            shutil.copy(path, tmp_path)
    last = max(int(path.name.split("-")[1]) for path in recorded.glob("snapshot-*"))
    (tmp_path / "announced.version").write_text(str(last))
    consumer = Consumer(tmp_path, double_snapshot=False)
    for version in [1, *range(1, last + 1), *range(last, 0, -1)]:
        refresh = consumer.refresh(to=version)
        assert refresh.stuck is None
        expected = json.loads((recorded / f"state-{version}.json").read_text())
        assert content(dump_state(consumer.state)["types"]) == content(expected["types"])


def test_before_the_first_refresh_there_is_nothing_to_read(chain):
    consumer = Consumer(chain.store)
    assert consumer.version is None and consumer.status().version is None
    with pytest.raises(NotFoundError, match="refresh"):
        _ = consumer.state
    with pytest.raises(NotFoundError):
        consumer["Movie"]


def test_an_unannounced_chain_is_an_error_and_loads_nothing(store):
    with pytest.raises(NotFoundError, match="nothing is announced"):
        Consumer(store).refresh()


def test_deltas_are_followed_and_everything_is_verified(chain):
    chain.publish()
    consumer = Consumer(chain.store)
    assert blobs(consumer.refresh()) == ["snapshot-1"]
    chain.publish({7: "Solaris"})
    chain.publish({7: "Stalker"})
    refresh = consumer.refresh()
    assert blobs(refresh) == ["delta-1-2", "delta-2-3"]
    assert refresh.verified and consumer.status().verified
    assert titles(consumer.state) == {7: "Stalker"}
    assert set(refresh.seconds) == {"plan", "fetch", "verify", "apply", "index", "swap", "notify"}
    assert refresh.size_bytes == len(chain.blobs["delta-1-2"]) + len(chain.blobs["delta-2-3"])


def test_a_refresh_to_where_it_is_does_nothing(chain):
    chain.publish()
    recorder = Recorder()
    consumer = Consumer(chain.store, listeners=[recorder])
    consumer.refresh()
    state = consumer.state
    recorder.events.clear()
    refresh = consumer.refresh()
    assert not refresh.changed and refresh.steps == () and consumer.state is state
    assert recorder.events == []


def test_a_state_that_was_taken_stays_as_it_is(chain):
    chain.publish({1: "old"})
    consumer = Consumer(chain.store)
    consumer.refresh()
    state, movie = consumer.state, consumer["Movie"][1]
    for number in range(4):
        chain.publish({1: f"new {number}", 2: "more"})
        consumer.refresh()
    assert titles(state) == {1: "old"} and movie.title == "old"
    assert titles(consumer.state) == {1: "new 3", 2: "more"}


def test_a_pin_of_the_announcement_is_obeyed_and_taken_back(chain):
    for _ in range(12):
        chain.publish()
    consumer = Consumer(chain.store)
    consumer.refresh()
    for version in (11, 1, 7):
        chain.announcements.pin(version)
        assert consumer.refresh().to_version == version
        assert watermarks(consumer.state) == {version}
        status = consumer.status()
        assert (status.pinned, status.pinned_by, status.announced) == (version, "announcement", 12)
    chain.announcements.unpin()
    assert consumer.refresh().to_version == 12
    assert consumer.status().pinned is None


def test_its_own_pin_goes_before_that_of_the_announcement(chain):
    for _ in range(4):
        chain.publish()
    consumer = Consumer(chain.store)
    chain.announcements.pin(3)
    consumer.pin_locally(2)
    assert consumer.refresh().to_version == 2
    assert consumer.status().pinned_by == "consumer"
    consumer.unpin_locally()
    assert consumer.refresh().to_version == 3


@pytest.mark.parametrize("back", [1, 10, 100])
def test_a_roll_back_over_many_versions_arrives(memory, back):
    chain = SmallChain(memory)
    for number in range(back + 1):
        chain.publish(snapshot=number % 40 == 0)
    consumer = Consumer(memory)
    consumer.refresh()
    chain.announcements.pin(1)
    refresh = consumer.refresh()
    assert refresh.to_version == 1 and refresh.stuck is None and watermarks(consumer.state) == {1}
    chain.announcements.unpin()
    assert consumer.refresh().to_version == back + 1


def test_a_roll_back_without_any_snapshot_near_goes_by_reverse_deltas_however_many(memory):
    chain = SmallChain(memory)
    for number in range(50):
        chain.publish(snapshot=number == 49)
    memory.delete("snapshot-1")
    consumer = Consumer(memory)
    consumer.refresh()
    refresh = consumer.refresh(to=2)
    assert refresh.to_version == 2 and len(refresh.steps) == 48


def test_a_withdrawn_version_is_left_and_never_loaded_again(chain):
    chain.publish({1: "good"})
    consumer, fresh = Consumer(chain.store), Consumer(chain.store)
    consumer.refresh()
    good = consumer.state
    chain.publish({1: "bad"})
    consumer.refresh()
    chain.announcements.withdraw("main")
    assert consumer.refresh().to_version == 1
    for other in (consumer, fresh):
        refresh = other.refresh(to=2)
        assert other.version == 1 and titles(other.state) == {1: "good"}
        assert refresh.stuck == "version 2 was withdrawn"
    chain.go_on_from(1, good)
    chain.publish({1: "better"}, version=3, snapshot=False)
    for other in (consumer, fresh):
        assert blobs(other.refresh())[-1] == "delta-1-3"
        assert titles(other.state) == {1: "better"}


def test_a_consumer_that_missed_the_withdrawal_goes_back_and_on(chain):
    chain.publish({1: "good"})
    consumer = Consumer(chain.store, double_snapshot=False)
    consumer.refresh()
    good = consumer.state
    chain.publish({1: "bad"})
    consumer.refresh()
    chain.announcements.withdraw("main")
    chain.go_on_from(1, good)
    chain.publish({1: "better"}, version=3)
    assert blobs(consumer.refresh()) == ["reversedelta-2-1", "delta-1-3"]


def test_a_canary_is_seen_by_its_channel_only_until_it_is_promoted(chain):
    chain.publish()
    main, canary = Consumer(chain.store), Consumer(chain.store, channel="canary")
    chain.publish(channel="canary")
    assert (main.refresh().to_version, canary.refresh().to_version) == (1, 2)
    chain.announcements.promote()
    assert (main.refresh().to_version, canary.refresh().to_version) == (2, 2)
    chain.publish(channel="canary")
    assert (main.refresh().to_version, canary.refresh().to_version) == (2, 3)
    chain.announcements.withdraw()
    assert (main.refresh().to_version, canary.refresh().to_version) == (2, 2)


def test_a_file_that_was_never_announced_is_not_looked_at(chain):
    chain.publish({1: "announced"})
    consumer = Consumer(chain.store)
    consumer.refresh()
    chain.publish({1: "left by a producer that failed"}, announce=False)
    chain.store.put("snapshot-0", chain.blobs["snapshot-2"])
    assert not consumer.refresh().changed
    refresh = consumer.refresh(to=2)
    assert refresh.to_version == 1 and "never announced" in refresh.stuck
    assert Consumer(chain.store).refresh(to=2).to_version == 1
    with pytest.raises(ChainError):
        Consumer(chain.store).refresh(to=0)


def test_versions_that_left_the_list_are_still_verified(memory):
    chain = SmallChain(memory)
    for number in range(80):
        chain.publish(snapshot=number == 0)
    consumer = Consumer(memory)
    refresh = consumer.refresh()
    assert len(refresh.steps) == 80 and refresh.verified
    damaged = bytearray(chain.blobs["delta-3-4"])
    damaged[-1] ^= 1
    memory.put("delta-3-4", bytes(damaged))
    refresh = Consumer(memory).refresh(to=4)
    assert refresh.to_version == 3 and "delta-3-4" in refresh.stuck and "checksum" in refresh.stuck


def test_a_chain_that_was_a_java_producers_is_followed_before_and_after_the_takeover(store):
    java = SmallChain(store, record=False)
    for _ in range(3):
        java.publish(snapshot=not java.versions)
    consumer = Consumer(store)
    assert consumer.refresh().to_version == 3 and not consumer.status().verified
    java.record = True
    java.publish(snapshot=False)
    refresh = consumer.refresh()
    assert blobs(refresh) == ["delta-3-4"] and refresh.verified
    assert not consumer.status().verified
    late = Consumer(store)
    assert blobs(late.refresh()) == ["snapshot-1", "delta-1-2", "delta-2-3", "delta-3-4"]
    assert [step.verified for step in late.refresh(to=2).steps] == [True, False]
    assert [step.verified for step in late.refresh(to=4).steps] == [False, True]


def test_without_a_second_snapshot_a_consumer_is_stuck_and_says_why(chain):
    chain.publish()
    recorder = Recorder()
    consumer = Consumer(chain.store, double_snapshot=False, listeners=[recorder])
    consumer.refresh()
    chain.publish()
    chain.announcements.announce(9, [], epoch=chain._epoch)
    chain.store.delete("delta-1-2")
    with pytest.raises(NotFoundError):
        consumer.refresh()
    assert consumer.version == 1
    assert "delta-1-2" in consumer.status().stuck and not consumer.status().healthy
    stuck = [event for event in recorder.events if event[0] == "stuck"]
    assert len(stuck) == 1 and stuck[0][1:3] == (1, 9)


def test_a_broken_chain_is_bridged_by_a_snapshot_if_that_is_allowed(chain):
    chain.publish()
    asked = []
    yes, no = Consumer(chain.store), Consumer(chain.store, double_snapshot=False)
    maybe = Consumer(chain.store, double_snapshot=lambda start, end: asked.append((start, end)) or len(asked) > 1)
    for consumer in (yes, no, maybe):
        consumer.refresh()
    chain._base = None
    chain.writer = type(chain.writer)(chain.writer.schemas)
    chain.publish({3: "another chain"})
    assert yes.refresh().by_snapshot and titles(yes.state) == {3: "another chain"}
    refresh = no.refresh()
    assert no.version == 1 and "second snapshot is not allowed" in refresh.stuck
    assert no.status().stuck == refresh.stuck
    assert maybe.refresh().to_version == 1 and asked[0] == (1, 2)
    assert maybe.refresh().to_version == 2


def test_many_deltas_are_replaced_by_a_snapshot(store):
    chain = SmallChain(store)
    consumer = Consumer(store, max_deltas=3)
    chain.publish()
    consumer.refresh()
    for _ in range(3):
        chain.publish()
    assert not consumer.refresh().by_snapshot
    for _ in range(4):
        chain.publish()
    assert consumer.refresh().by_snapshot


def test_a_damaged_delta_is_passed_by_and_not_tried_at_every_look(store):
    chain = SmallChain(store)
    clock = Clock()
    consumer = Consumer(store, clock=clock)
    chain.publish({1: "one"})
    consumer.refresh()
    chain.publish({1: "two"}, snapshot=False)
    good = chain.blobs["delta-1-2"]
    store.put("delta-1-2", good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(ChecksumError):
        consumer.refresh()
    assert consumer.version == 1 and titles(consumer.state) == {1: "one"}
    [failed] = consumer.status().failed_transitions
    assert str(failed.blob) == "delta-1-2" and failed.attempts == 1
    refresh = consumer.refresh()
    assert not refresh.changed and "delta-1-2 failed" in refresh.stuck
    store.put("delta-1-2", good)
    assert not consumer.refresh().changed
    clock.now += 31
    assert consumer.refresh().to_version == 2
    assert consumer.status().failed_transitions == () and consumer.status().stuck is None


def test_failures_can_be_forgotten_by_hand(store):
    chain = SmallChain(store)
    consumer = Consumer(store, clock=Clock())
    chain.publish()
    consumer.refresh()
    chain.publish(snapshot=False)
    store.delete("delta-1-2")
    with pytest.raises(NotFoundError):
        consumer.refresh()
    store.put("delta-1-2", chain.blobs["delta-1-2"])
    consumer.forget_failures()
    assert consumer.refresh().to_version == 2


def test_each_failure_of_a_blob_doubles_the_wait_up_to_an_hour(store):
    chain = SmallChain(store)
    clock = Clock()
    consumer = Consumer(store, clock=clock)
    chain.publish()
    consumer.refresh()
    chain.publish(snapshot=False)
    store.delete("delta-1-2")
    waits = []
    for _ in range(10):
        with pytest.raises(NotFoundError):
            consumer.refresh()
        [failed] = consumer.status().failed_transitions
        waits.append(failed.retry_at - clock.now)
        clock.now = failed.retry_at + 0.001
    assert waits == pytest.approx([30, 60, 120, 240, 480, 960, 1920, 3600, 3600, 3600])


def test_a_damaged_delta_is_bridged_by_a_snapshot_in_the_same_refresh(chain):
    chain.publish({1: "one"})
    consumer = Consumer(chain.store)
    consumer.refresh()
    chain.publish({1: "two"})
    chain.store.put("delta-1-2", b"rubbish")
    refresh = consumer.refresh()
    assert blobs(refresh) == ["snapshot-2"] and refresh.stuck is None
    assert [str(failed.blob) for failed in refresh.failures] == ["delta-1-2"]


def test_a_delta_of_another_state_is_refused_in_a_chain_that_cannot_be_verified(store):
    chain = SmallChain(store, record=False)
    chain.publish({1: "one"})
    consumer = Consumer(store, double_snapshot=False)
    consumer.refresh()
    other = SmallChain(LocalStore(store.root.parent / "other"), record=False)
    other.publish({1: "x"})
    other.publish({1: "y"})
    store.put("delta-1-2", other.blobs["delta-1-2"])
    store.put("announced.version", b"2")
    with pytest.raises(ChainError, match="delta-1-2"):
        consumer.refresh()
    assert titles(consumer.state) == {1: "one"}


def test_a_filter_leaves_out_types_along_the_chain(chain):
    chain.publish()
    consumer = Consumer(chain.store, filter=Filter.only("Movie.id", "Country"))
    consumer.refresh()
    chain.publish({4: "four"})
    consumer.refresh()
    assert set(consumer.state) == {"Movie", "Country"}
    assert [field.name for field in consumer["Movie"].view.schema.fields] == ["id"]
    assert consumer["Movie"].view.column("id").to_pylist() == [4]


@pytest.mark.parametrize("parts", [(), ("details",), ("details", "images")])
def test_optional_parts_are_loaded_by_name(hollow_fixtures, tmp_path, parts):
    case = hollow_fixtures / "optional-parts"
    for path in case.iterdir():
        if path.name.startswith(("snapshot", "delta", "reversedelta")):
            shutil.copy(path, tmp_path)
    (tmp_path / "announced.version").write_text("3")
    consumer = Consumer(tmp_path, parts=parts, double_snapshot=False)
    everything = json.loads((case / "state-3.json").read_text())["types"]
    without = json.loads((case / "without-parts-3.json").read_text())["types"]
    consumer.refresh(to=1)
    consumer.refresh()
    assert len(consumer.status().to_dict()["failed_transitions"]) == 0
    dumped = dump_state(consumer.state)["types"]
    if len(parts) == 2:
        assert dumped == everything
    elif not parts:
        assert dumped == without
    else:
        assert set(without) < set(dumped) < set(everything)
        assert all(dumped[name] == everything[name] for name in dumped)


def test_limits_hold_for_every_blob(chain):
    chain.publish()
    with pytest.raises(DecodeError, match="limit"):
        Consumer(chain.store, limits=Limits(max_blob_bytes=100)).refresh()


def test_a_listener_that_fails_changes_nothing(chain, caplog):
    class Broken(RefreshListener):
        def before(self, from_version, to_version):
            raise RuntimeError("before")

        def after(self, refresh, changes):
            raise RuntimeError("after")

        def failed(self, failure):
            raise RuntimeError("failed")

    recorder = Recorder()
    consumer = Consumer(chain.store, listeners=[Broken(), recorder])
    with pytest.raises(NotFoundError):
        consumer.refresh()
    chain.publish()
    consumer.refresh()
    assert consumer.version == 1
    assert [event[0] for event in recorder.events] == ["failed", "before", "after"]
    assert consumer.listener_errors == 3
    assert "Broken" in caplog.text


def test_a_listener_cannot_refresh_the_consumer_that_calls_it(chain):
    class Greedy(RefreshListener):
        def after(self, refresh, changes):
            with pytest.raises(InputError, match="listener"):
                consumer.refresh()
            self.seen = consumer.version

    greedy = Greedy()
    consumer = Consumer(chain.store, listeners=[greedy])
    chain.publish()
    consumer.refresh()
    assert greedy.seen == 1 and consumer.listener_errors == 0


def test_listeners_come_and_go(chain):
    recorder = Recorder()
    consumer = Consumer(chain.store)
    consumer.add_listener(recorder)
    chain.publish()
    consumer.refresh()
    consumer.remove_listener(recorder)
    chain.publish()
    consumer.refresh()
    assert [event for event in recorder.events if event[0] == "after"] == [("after", None, 1)]


@pytest.mark.parametrize(
    "options", [{"poll_seconds": 0}, {"max_deltas": 0}, {"share": "sometimes"}, {"poll_seconds": -1}]
)
def test_settings_that_cannot_be_are_refused(chain, options):
    with pytest.raises(InputError):
        Consumer(chain.store, **options)


def test_freshness_grows_while_it_is_behind(chain):
    clock = Clock()
    consumer = Consumer(chain.store, clock=clock)
    assert consumer.status().freshness_seconds is None
    chain.publish()
    consumer.refresh()
    clock.now += 5
    assert consumer.status().freshness_seconds == 5
    consumer.refresh()
    assert consumer.status().freshness_seconds == 0


def test_a_status_is_plain_values(chain):
    chain.publish()
    consumer = Consumer(chain.store)
    consumer.refresh()
    values = json.loads(json.dumps(consumer.status().to_dict()))
    assert values["version"] == 1 and values["healthy"] is True and values["verified"] is True

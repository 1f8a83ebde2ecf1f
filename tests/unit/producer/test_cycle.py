"""A cycle, step by step: what it leaves, who is told, who can stop it."""

from typing import Any

import numpy as np
import pytest

from deltaic.errors import ChecksumError, CommitConflictError, InputError, SchemaError, StorageError, ValidationError
from deltaic.producer import (
    Candidate,
    Cycle,
    CycleListener,
    MinimumRecordCount,
    Producer,
    Step,
    TimeVersions,
    ValidationResult,
    count_up,
)
from deltaic.schema.model import Model
from deltaic.state.write import WriteState
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import Chain
from deltaic.storage.store import Store
from deltaic.storage.urls import open_store
from deltaic.testing.faulty_store import Fault, FaultKind, FaultyStore, Moment
from tests.unit.producer.catalogue import MODEL, check_chain, content, content_of, movie, movies, producer_of, read

FIRST, SECOND = movies(1, 2, 3), [movie(1), movie(2, "changed"), movie(4)]


@pytest.fixture
def store() -> Store:
    return open_store("memory:")


def test_a_cycle_makes_the_difference_visible_by_content(store: Store) -> None:
    producer = producer_of(store)
    assert producer.publish(FIRST).types["Movie"].added == 3
    cycle = producer.publish(SECOND)
    change = cycle.types["Movie"]
    assert (change.records, change.added, change.removed, change.modified) == (3, 1, 1, 1)
    assert read(store) == (2, content_of(SECOND))
    assert list(cycle.seconds) == list(Step)
    assert {artifact.kind for artifact in cycle.artifacts} == {"header", "snapshot", "delta", "reverse_delta"}
    check_chain(store)


def test_nothing_changed_makes_no_version_and_leaves_no_trace(store: Store) -> None:
    producer = producer_of(store)
    producer.publish(FIRST)
    before = {info.key: info.etag for info in store.list()}
    cycle = producer.publish(list(reversed(FIRST)))
    assert not cycle.published and cycle.from_version == 1
    assert {info.key: info.etag for info in store.list()} == before
    assert producer.publish(SECOND).version == 2


def test_an_empty_first_version_is_a_version(store: Store) -> None:
    assert producer_of(store).publish([]).version == 1
    assert read(store) == (1, {})


@pytest.mark.parametrize("step", list(Step))
@pytest.mark.parametrize("hook", ["step_started", "step_finished"])
@pytest.mark.parametrize("veto", [ValidationError, RuntimeError])
def test_a_listener_can_stop_a_cycle_at_every_step(step: Step, hook: str, veto: type[Exception], store: Store) -> None:
    class Stops(CycleListener):
        vetoes = veto is RuntimeError
        armed = False

        def step_started(self, at: Step) -> None:
            self.stop(at, "step_started")

        def step_finished(self, at: Step, seconds: float) -> None:
            self.stop(at, "step_finished")

        def stop(self, at: Step, name: str) -> None:
            if self.armed and (at, name) == (step, hook):
                raise veto("no")

    listener = Stops()
    producer = producer_of(store, listeners=[listener])
    producer.publish(FIRST)
    listener.armed = True
    if (step, hook) == (Step.ANNOUNCE, "step_finished"):
        assert producer.publish(SECOND).version == 2, "what is announced cannot be stopped"
    else:
        with pytest.raises(veto):
            producer.publish(SECOND)
        assert read(store) == (1, content_of(FIRST))
        check_chain(store)
    listener.armed = False
    producer.publish(movies(7))
    assert read(store)[1] == content_of(movies(7))
    check_chain(store)


def test_an_error_of_a_listener_that_may_not_veto_is_only_logged(store: Store, caplog: Any) -> None:
    class Clumsy(CycleListener):
        def step_started(self, step: Step) -> None:
            raise RuntimeError("oops")

    assert producer_of(store, listeners=[Clumsy()]).publish(FIRST).version == 1
    assert "Clumsy failed: oops" in caplog.text


def test_listeners_hear_the_whole_story(store: Store) -> None:
    class Notes(CycleListener):
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def cycle_started(self, from_version: int | None) -> None:
            self.heard.append(("started", from_version))

        def progress(self, type_name: str, rows: int) -> None:
            self.heard.append((type_name, rows))

        def nothing_changed(self, cycle: Cycle) -> None:
            self.heard.append("nothing")

        def cycle_announced(self, cycle: Cycle) -> None:
            self.heard.append(("announced", cycle.version))

        def cycle_failed(self, step: Step | None, error: BaseException) -> None:
            self.heard.append(("failed", step))

        def restored(self, version: int) -> None:
            self.heard.append(("restored", version))

    notes = Notes()
    with producer_of(store, listeners=[notes]) as producer:
        producer.publish(FIRST)
        producer.publish(FIRST)
        with pytest.raises(ZeroDivisionError):
            producer.cycle(lambda cycle: print(1 // 0))
    with producer_of(store, listeners=[notes]) as producer:
        producer.restore()
    assert notes.heard == [
        ("started", None), ("Movie", 3), ("announced", 1),
        ("started", 1), ("Movie", 3), "nothing",
        ("started", 1), ("failed", Step.POPULATE),
        ("restored", 1),
    ]  # fmt: skip


class Throws:
    name = "throws"

    def validate(self, candidate: Candidate) -> ValidationResult:
        raise KeyError("broken validator")


@pytest.mark.parametrize("validator", [MinimumRecordCount("Movie", 3), Throws()])
def test_a_version_that_a_validator_refuses_is_never_seen(validator: Any, store: Store) -> None:
    producer = producer_of(store)
    producer.publish(FIRST)
    producer.validators = (validator,)
    with pytest.raises(ValidationError, match=f"version 2 is refused:\n  {validator.name}"):
        producer.publish(movies(1, 2))
    assert read(store) == (1, content_of(FIRST))
    check_chain(store)
    producer.validators = ()
    cycle = producer.publish(SECOND)
    assert (cycle.from_version, read(store)) == (1, (cycle.version, content_of(SECOND)))


def test_five_failed_cycles_are_not_noticed_by_a_reader(store: Store) -> None:
    producer = producer_of(store)
    producer.publish(FIRST)
    chain, announced = Chain.read(store), Announcements(store).read()

    def failing(cycle: Any) -> None:
        cycle.add(SECOND)
        raise RuntimeError("the source went away")

    class Refuses:
        name = "refuses"

        def validate(self, candidate: Candidate) -> ValidationResult:
            return ValidationResult(self.name, False, "never")

    for round_number in range(5):
        producer.validators = (Refuses(),) if round_number % 2 else ()
        with pytest.raises((RuntimeError, ValidationError)):
            producer.cycle(failing if round_number % 2 == 0 else lambda cycle: cycle.add(SECOND))
        assert Chain.read(store) == chain
        assert Announcements(store).read().version() == announced.version()
        assert read(store) == (1, content_of(FIRST))
    producer.validators = ()
    assert producer.publish(SECOND).from_version == 1
    check_chain(store)


def test_an_announcement_that_fails_after_publishing_takes_the_blobs_back() -> None:
    store = FaultyStore(open_store("memory:"))
    producer = producer_of(store)
    producer.publish(FIRST)
    store.fail(Fault(FaultKind.NO_SPACE, Moment.BEFORE, 1, "put_if_match", from_then_on=True))
    with pytest.raises(StorageError):
        producer.publish(SECOND)
    store.fail()
    assert read(store) == (1, content_of(FIRST))
    check_chain(store)
    assert producer.publish(SECOND).from_version == 1
    check_chain(store)


def test_blobs_that_a_crash_left_between_publish_and_announce_are_removed_by_the_next_producer(store: Store) -> None:
    with producer_of(store) as producer:
        producer.publish(FIRST)
    for name in ("snapshot-2", "delta-1-2", "reversedelta-2-1", "header-2", "staging/2-dead/snapshot-2"):
        store.put(name, b"of a producer that died")
    with producer_of(store) as producer:
        assert producer.publish(SECOND).version == 2
    assert read(store) == (2, content_of(SECOND))
    check_chain(store)


def test_a_fenced_producer_that_publishes_late_is_cleared_away(store: Store) -> None:
    producer = producer_of(store)
    producer.publish(FIRST)
    store.put("delta-1-2", b"published by a producer that lost its lease and did not know it yet")
    assert producer.publish(SECOND).version == 2
    check_chain(store)


def test_blobs_of_a_stranger_are_not_touched(store: Store) -> None:
    store.put("snapshot-7", b"somebody else's")
    with pytest.raises(InputError, match="announce one"):
        producer_of(store).publish(FIRST)
    assert store.get("snapshot-7").data == b"somebody else's"


def test_damage_to_staged_bytes_is_found_before_anything_is_published() -> None:
    class Damaging(FaultyStore):
        target = ""

        def put_chunks(self, key: str, chunks: Any) -> str:
            data = bytearray(b"".join(chunks))
            if self.target and self.target in key:
                data[len(data) // 2] ^= 1
            return super().put_chunks(key, [bytes(data)])

    for target in ("/snapshot", "/delta", "/reversedelta", "/header"):
        store = Damaging(open_store("memory:"))
        producer = producer_of(store)
        producer.publish(FIRST)
        store.target = target
        with pytest.raises(ChecksumError):
            producer.publish(SECOND)
        store.target = ""
        assert read(store) == (1, content_of(FIRST))
        check_chain(store)


def test_blobs_that_do_not_lead_to_one_state_are_found(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    producer, other = producer_of(store), producer_of(open_store("memory:"))
    producer.publish(FIRST)
    other.publish(FIRST)
    other.publish([movie(1), movie(2, "chanGed"), movie(4)])
    wrong = other.state
    assert wrong is not None
    whole = WriteState.write_snapshot

    def other_snapshot(self: WriteState, stream: Any, **options: Any) -> None:
        # The right tag, the right ordinals, and one wrong title.
        writer = WriteState(self.schemas, tag=self.tag)
        writer.restore(wrong, tag=self.tag)
        writer.keep_all_from_previous()
        whole(writer, stream)

    monkeypatch.setattr(WriteState, "write_snapshot", other_snapshot)
    with pytest.raises(ChecksumError, match="type String differs"):
        producer.publish(SECOND)
    monkeypatch.undo()
    assert read(store) == (1, content_of(FIRST))


def test_two_producers_at_once_are_kept_apart_by_the_lease(store: Store) -> None:
    now = [1000.0]
    one = producer_of(store, clock=lambda: now[0])
    two = producer_of(store, clock=lambda: now[0])
    one.publish(FIRST)
    with pytest.raises(CommitConflictError, match="holds the lease"):
        two.publish(SECOND)
    assert read(store) == (1, content_of(FIRST))
    now[0] += 61
    assert two.publish(SECOND).from_version == 1
    with pytest.raises(CommitConflictError, match="holds the lease"):
        one.publish(movies(9))
    two.close()
    cycle = one.publish(movies(9))
    assert cycle.from_version == 2, "it goes on from what the other one announced"
    assert read(store) == (3, content_of(movies(9)))
    check_chain(store)


@pytest.mark.parametrize("step", [Step.POPULATE, Step.CHECK, Step.VALIDATE, Step.PUBLISH])
def test_a_producer_that_loses_its_lease_in_a_cycle_publishes_nothing(step: Step, store: Store) -> None:
    now = [1000.0]

    class Sleeps(CycleListener):
        def step_started(self, at: Step) -> None:
            if at is step and armed:
                armed.clear()
                now[0] += 100
                producer_of(store, clock=lambda: now[0]).publish(movies(8))

    armed: list[bool] = []
    one = producer_of(store, clock=lambda: now[0], listeners=[Sleeps()])
    one.publish(FIRST)
    armed.append(True)
    with pytest.raises(CommitConflictError):
        one.publish(SECOND)
    assert read(store) == (2, content_of(movies(8)))
    check_chain(store)


def test_versions_are_the_time_and_a_counter_and_always_rise() -> None:
    now = [1_793_880_000.0]
    mint = TimeVersions(lambda: now[0])
    assert [mint(None), mint(None)] == [20261105120000001, 20261105120000002]
    now[0] -= 3600
    assert mint(20261105120000002) == 20261105120000003
    with pytest.raises(InputError, match="does not follow"):
        producer = producer_of(open_store("memory:"), versions=lambda previous: 5)
        producer.publish(FIRST)
        producer.publish(SECOND)


def test_a_restarted_producer_keeps_ordinals_and_the_counter_of_the_chain(store: Store) -> None:
    with producer_of(store, header_tags={"team": "films"}) as producer:
        producer.publish(FIRST, note="first")
        assert producer.state is not None
        ordinals = {record.id: record.ordinal for record in producer.state["Movie"]}
    with producer_of(store) as producer:
        cycle = producer.publish([*FIRST, movie(9)])
        state = producer.state
    assert state is not None and cycle.types["Movie"].removed == 0
    assert {record.id: record.ordinal for record in state["Movie"] if record.id != 9} == ordinals
    tags = state.header_tags
    assert tags["hollow.delta.chain.version.counter"] == "2"
    assert tags["hollow.blob.to.version"] == "2"
    assert tags["hollow.schema.hash"] == MODEL.schemas.hash()
    assert "deltaic.note" not in tags and "team" not in tags


def test_a_restarted_producer_keeps_nan_apart_from_null(store: Store) -> None:
    model = Model.parse("Sample @PrimaryKey(id) { long id; double value; float small; }")
    rows = [{"id": 1, "value": float("nan"), "small": None}, {"id": 2, "value": None, "small": float("nan")}]

    def values(producer: Producer) -> dict[int, str]:
        assert producer.state is not None
        return {record.id: f"{record.value} {record.small}" for record in producer.state["Sample"]}

    with Producer(store, model, versions=count_up) as producer:
        producer.publish(rows)
        expected = values(producer)
    assert expected == {1: "nan None", 2: "None nan"}
    with Producer(store, model, versions=count_up) as producer:
        with producer.incremental() as changes:
            changes.add_or_modify({"id": 3, "value": 1.5, "small": 2.5})
        assert values(producer) == {**expected, 3: "1.5 2.5"}
        assert producer.publish(rows).types["Sample"].removed == 1
    with Producer(store, model, versions=count_up) as producer:
        assert not producer.publish(rows).published


def test_a_changed_model_makes_a_version_with_a_snapshot_and_keeps_the_chain(store: Store) -> None:
    with producer_of(store, snapshot_every=100) as producer:
        producer.publish(FIRST)
    text = str(MODEL.schemas).replace("String title;", "String title;\n\tint year;")
    assert text != str(MODEL.schemas)
    rows = [
        {"id": each.id, "title": each.title, "year": 2000, "cast": [vars(actor) for actor in each.cast]}
        for each in FIRST
    ]
    with producer_of(store, model=Model.parse(text), snapshot_every=100) as producer:
        cycle = producer.publish(rows, type_name="Movie")
        assert cycle.version == 2, "no ordinal changed, the model did"
        assert any(artifact.kind == "snapshot" for artifact in cycle.artifacts)
        assert producer.state is not None
        assert [record.year for record in producer.state["Movie"]] == [2000] * 3
        assert not producer.publish(rows, type_name="Movie").published
    assert read(store)[1] == content_of(FIRST)
    check_chain(store)


def test_a_model_with_another_type_under_an_old_name_is_refused(store: Store) -> None:
    with producer_of(store) as producer:
        producer.publish(FIRST)
    text = str(MODEL.schemas).replace("long id;", "string id;")
    with pytest.raises(SchemaError, match="another type under the same name"):
        producer_of(store, model=Model.parse(text)).publish([])
    assert read(store) == (1, content_of(FIRST))


def test_snapshots_every_third_version_and_deltas_always(store: Store) -> None:
    with producer_of(store, snapshot_every=3) as producer:
        for last in range(1, 5):
            producer.publish(movies(*range(last)))
    with producer_of(store, snapshot_every=3) as producer:
        for last in range(5, 9):
            producer.publish(movies(*range(last)))
    assert Chain.read(store).snapshots == (1, 4, 7)
    assert read(store) == (8, content_of(movies(*range(8))))
    check_chain(store)


def test_snapshots_in_the_background_join_their_version_later(store: Store) -> None:
    published: list[int] = []

    class Notes(CycleListener):
        def snapshot_published(self, version: int) -> None:
            published.append(version)

    with producer_of(store, snapshots_in_background=True, listeners=[Notes()]) as producer:
        assert not producer.publish(FIRST).snapshot_pending, "the first version needs its snapshot at once"
        assert producer.publish(SECOND).snapshot_pending
        assert producer.publish(movies(9)).snapshot_pending
        producer.wait_for_snapshots()
    assert published == [2, 3]
    assert Chain.read(store).snapshots == (1, 2, 3)
    check_chain(store)


def test_a_snapshot_that_fails_in_the_background_does_not_fail_the_version() -> None:
    store = FaultyStore(open_store("memory:"))
    failed: list[int] = []

    class Notes(CycleListener):
        def snapshot_failed(self, version: int, error: BaseException) -> None:
            failed.append(version)

    with producer_of(store, snapshots_in_background=True, listeners=[Notes()]) as producer:
        producer.publish(FIRST)
        # The header and the two deltas are staged first; the fourth is the snapshot.
        store.fail(Fault(FaultKind.NO_SPACE, Moment.BEFORE, 4, "put_chunks"))
        assert producer.publish(SECOND).version == 2
        producer.wait_for_snapshots()
    assert failed == [2]
    assert read(store) == (2, content_of(SECOND))
    check_chain(store)


def test_after_a_withdrawal_the_chain_goes_on_from_the_good_version(store: Store) -> None:
    producer = producer_of(store)
    producer.publish(FIRST)
    producer.publish(movies(66))
    Announcements(store).withdraw("main")
    assert read(store) == (1, content_of(FIRST))
    cycle = producer.publish(SECOND)
    assert (cycle.from_version, cycle.version) == (1, 3)
    assert read(store) == (3, content_of(SECOND))
    chain = Chain.read(store)
    assert chain.deltas == {1: 3}, "nobody is led over the withdrawn version"
    assert chain.snapshots == (1, 3)
    assert chain.reverse_deltas == {2: 1, 3: 1}, "who is at the withdrawn version can come back"


def test_a_canary_is_announced_for_itself(store: Store) -> None:
    producer = producer_of(store)
    producer.publish(FIRST)
    producer.channel = "canary"
    producer.publish(SECOND)
    announcements = Announcements(store)
    assert (announcements.read().version("main"), announcements.read().version("canary")) == (1, 2)
    announcements.promote()
    assert read(store) == (2, content_of(SECOND))


def test_canonical_order_gives_equal_bytes_whatever_the_order_of_the_rows() -> None:
    import random

    snapshots = []
    for given in (FIRST, list(reversed(FIRST))):
        store = open_store("memory:")
        producer = producer_of(store, order="canonical", random=random.Random(7), clock=lambda: 1000.0)
        producer.publish(given)
        snapshots.append(store.get("snapshot-1").data)
        assert read(store) == (1, content_of(FIRST))
    assert snapshots[0] == snapshots[1]


def test_resharding_follows_the_size(store: Store) -> None:
    with producer_of(store, target_shard_bytes=1000, allow_resharding=True) as producer:
        producer.publish(movies(1))
        for _ in range(4):
            producer.publish(movies(*range(200 + _)))
        assert producer.state is not None
        assert len(producer.state.types["String"].shards) == 8
        assert content(producer.state) == content_of(movies(*range(203)))
    check_chain(store)


def test_ordinals_chosen_by_hand_are_part_of_the_version(store: Store) -> None:
    def populate(cycle: Any) -> None:
        title = cycle.write_state.add_object("String", {"value": "by hand"})
        cast = cycle.write_state.add_lists("ListOfActor", np.array([0, 0]), np.zeros(0, np.int32))
        cycle.write_state.add_object("Movie", {"id": 1, "title": title, "cast": int(cast[0])})

    assert producer_of(store).cycle(populate).version == 1
    assert read(store)[1] == {1: ("by hand", [])}


def test_a_cycle_inside_a_cycle_is_refused_and_the_outer_one_goes_on(store: Store) -> None:
    refused: list[str] = []

    class Nests(CycleListener):
        def step_started(self, step: Step) -> None:
            try:
                producer.publish(movies(9))
            except InputError as error:
                refused.append(str(error))

    producer = producer_of(store, listeners=[Nests()])
    assert producer.publish(FIRST).version == 1
    assert len(refused) == len(Step) and "at work" in refused[0]
    assert read(store) == (1, content_of(FIRST))


def test_threads_take_turns(store: Store) -> None:
    from concurrent.futures import ThreadPoolExecutor

    producer = producer_of(store)
    with ThreadPoolExecutor(4) as threads:
        cycles = list(threads.map(lambda number: producer.publish(movies(number)), range(12)))
    assert sorted(cycle.version or 0 for cycle in cycles) == list(range(1, 13))
    assert read(store) == (12, content_of(movies(next(n for n, c in enumerate(cycles) if c.version == 12))))
    check_chain(store)

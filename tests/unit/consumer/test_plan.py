"""Plans lead to the wanted version and never past it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.consumer.plan import plan_refresh
from deltaic.storage.chain import BlobKind, BlobName, Chain


def chain(*names: str) -> Chain:
    return Chain.of_names(names)


FULL = chain(
    "snapshot-1",
    "snapshot-4",
    *(f"delta-{version}-{version + 1}" for version in range(1, 8)),
    *(f"reversedelta-{version + 1}-{version}" for version in range(1, 8)),
)


def names(plan) -> list[str]:
    return [str(step) for step in plan.steps]


@pytest.mark.parametrize(
    "name",
    [
        "snapshot-7",
        "snapshot_images-7",
        "delta-1-2",
        "delta_a-b-1-2",
        "reversedelta-2-1",
        "reversedelta_p-2-1",
        "header-9",
    ],
)
def test_names_are_read_and_written_alike(name):
    assert str(BlobName.parse(name)) == name


@pytest.mark.parametrize(
    "name",
    [
        *(
            "snapshot-",
            "snapshot-x",
            "snapshot-1-2",
            "delta-1",
            "delta-2-1",
            "delta-1-1",
            "reversedelta-1-2",
            "header-1-2",
        ),
        *("snapshot-1.3f", "announced.version", "snapshot-99999999999999999999", "xsnapshot-1", "delta--1-2"),
    ],
)
def test_other_names_are_passed_over(name):
    assert BlobName.parse(name) is None


def test_a_snapshot_is_taken_at_first_and_deltas_after_it():
    assert names(plan_refresh(None, 6, FULL)) == ["snapshot-4", "delta-4-5", "delta-5-6"]
    assert names(plan_refresh(None, 3, FULL)) == ["snapshot-1", "delta-1-2", "delta-2-3"]


def test_deltas_lead_on_and_reverse_deltas_back():
    assert names(plan_refresh(2, 4, FULL)) == ["delta-2-3", "delta-3-4"]
    assert names(plan_refresh(4, 2, FULL)) == ["reversedelta-4-3", "reversedelta-3-2"]
    assert plan_refresh(4, 4, FULL).steps == ()


def test_the_wanted_version_is_never_passed():
    gap = chain("snapshot-10", "delta-10-20", "delta-20-30", "reversedelta-30-20", "reversedelta-20-10")
    assert plan_refresh(10, 25, gap).version == 20
    assert plan_refresh(30, 25, gap).version == 20
    assert plan_refresh(None, 5, gap).version is None


def test_a_second_snapshot_is_taken_only_where_it_leads_nearer():
    broken = chain("snapshot-1", "delta-1-2", "snapshot-4", "delta-4-5")
    assert names(plan_refresh(2, 5, broken)) == ["snapshot-4", "delta-4-5"]
    assert plan_refresh(2, 5, broken, double_snapshot=False).version == 2
    assert names(plan_refresh(2, 3, broken)) == []


def test_too_many_deltas_make_a_snapshot():
    assert names(plan_refresh(1, 8, FULL, max_deltas=3))[0] == "snapshot-4"
    assert names(plan_refresh(1, 4, FULL, max_deltas=3)) == ["delta-1-2", "delta-2-3", "delta-3-4"]


def test_many_deltas_are_taken_where_no_snapshot_leads_as_far():
    assert len(plan_refresh(8, 2, chain(*(f"reversedelta-{v + 1}-{v}" for v in range(1, 8))), max_deltas=3).steps) == 6
    assert len(plan_refresh(1, 8, FULL, max_deltas=3, double_snapshot=False).steps) == 7


def test_from_a_version_that_was_not_gone_on_from_the_way_goes_back_and_on():
    fork = chain("delta-4-6", "delta-6-7", "reversedelta-5-4", "reversedelta-4-3", "delta-3-4")
    assert names(plan_refresh(5, 7, fork)) == ["reversedelta-5-4", "delta-4-6", "delta-6-7"]
    assert names(plan_refresh(5, 7, fork, failed={BlobName.delta(4, 6)})) == []


def test_a_plan_over_a_long_chain_without_an_end_takes_no_time():
    long = chain(*(f"delta-{v}-{v + 1}" for v in range(5000)), *(f"reversedelta-{v + 1}-{v}" for v in range(5000)))
    assert plan_refresh(4000, 9000, long).version == 5000


def test_what_failed_is_not_tried_again():
    failed = {BlobName.delta(5, 6)}
    assert plan_refresh(4, 7, FULL, failed=failed).version == 5
    failed = {BlobName.snapshot(4)}
    assert names(plan_refresh(None, 4, FULL, failed=failed))[0] == "snapshot-1"
    assert plan_refresh(None, 4, FULL, failed={BlobName.snapshot(1), BlobName.snapshot(4)}).version is None


versions = st.integers(1, 12)


@given(
    st.sets(versions, max_size=4),
    st.sets(st.tuples(versions, versions), max_size=12),
    st.none() | versions,
    versions,
    st.integers(1, 5),
)
def test_every_plan_is_a_walk_that_stays_before_the_wanted_version(snapshots, steps, current, wanted, max_deltas):
    graph = chain(
        *(f"snapshot-{version}" for version in snapshots),
        *(str(BlobName.delta(start, end)) for start, end in steps if start != end),
    )
    plan = plan_refresh(current, wanted, graph, max_deltas=max_deltas)
    at = current
    for number, step in enumerate(plan.steps):
        if step.kind is BlobKind.SNAPSHOT:
            assert number == 0 and step.to_version in snapshots
        else:
            assert step.from_version == at
        at = step.to_version
        if step.kind is not BlobKind.REVERSE_DELTA:
            assert at <= wanted
    assert at == plan.version

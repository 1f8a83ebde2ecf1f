"""Chains that Java wrote: the feed of each step, replayed on the older version, gives the newer one."""

from itertools import pairwise

import pytest

from deltaic.dataset.dataset import Dataset
from deltaic.state.read import ReadState
from deltaic.storage.chain import Chain
from deltaic.storage.urls import open_store
from tests.properties.feed_model import Tables

LARGEST_BYTES = 40_000
"""The model of patches in plain Python takes its time."""

LOOSE = {"ordinal-reuse"}
"""Cases in which lists stay and their elements go, which no producer does: what a list refers to stays with it."""


def chains(folder):
    """Every recorded case that is a chain of snapshots and deltas without parts."""
    for case in sorted(each for each in folder.iterdir() if each.name not in LOOSE):
        snapshot = case / "snapshot-1"
        if not snapshot.is_file() or snapshot.stat().st_size > LARGEST_BYTES or any(case.glob("snapshot_*")):
            continue
        if any(case.glob("delta-1-*")):
            yield case


def states_of(case, versions):
    """The states of versions, each by its delta from the one before."""
    chain = Chain.read(open_store(case))
    found = [ReadState.load(case / "snapshot-1")]
    for version, following in pairwise(versions):
        assert chain.deltas[version] == following
        found.append(found[-1].apply(case / f"delta-{version}-{following}", schema_append="full"))
    return found


def told(tables):
    """Types in which a key is one record's alone, and bags."""
    return {name: each for name, each in tables.content().items() if name in tables.alone}


def test_the_feed_of_every_recorded_chain_can_be_replayed(hollow_fixtures):
    seen = 0
    for case in chains(hollow_fixtures):
        chain = Chain.read(open_store(case))
        versions = [1]
        while versions[-1] in chain.deltas:
            versions.append(chain.deltas[versions[-1]])
        states = states_of(case, versions)
        steps = list(Dataset.open(case).changes(versions[0], versions[-1], before=True))
        assert [step.to_version for step in steps] == versions[1:], case.name
        for (old, new), step in zip(pairwise(states), steps, strict=True):
            tables, wanted = Tables(old), Tables(new)
            tables.become(new)
            for patch in step:
                tables.patch(patch)
            assert told(tables) == told(wanted), (case.name, step.to_version)
            seen += len(step)
    if not seen:
        pytest.fail("no chain was found")
    assert seen > 50

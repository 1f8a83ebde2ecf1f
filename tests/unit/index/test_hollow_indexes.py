"""Look-ups give what Java Hollow's indexes gave on the recorded catalogue, at every version of its chain."""

import gzip
import json

import numpy as np
import pytest

from deltaic.index import HashIndex, PrefixIndex, PrimaryKeyIndex
from deltaic.state.read import ReadState

VERSIONS = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def catalog(hollow_fixtures):
    return hollow_fixtures / "movie-catalog"


@pytest.fixture(scope="module")
def states(catalog):
    state = ReadState.load(catalog / "snapshot-1")
    chain = [state]
    for version in VERSIONS[1:]:
        chain.append(chain[-1].apply(catalog / f"delta-{version - 1}-{version}"))
    return dict(zip(VERSIONS, chain, strict=True))


@pytest.fixture(scope="module")
def recorded(catalog):
    return {
        version: json.loads(gzip.decompress((catalog / f"indexes-{version}.json.gz").read_bytes()))
        for version in VERSIONS
    }


@pytest.mark.parametrize("updated", [False, True])
def test_a_primary_key_index_finds_what_hollow_found(states, recorded, updated):
    index = PrimaryKeyIndex.build(states[1], "Movie")
    for version in VERSIONS:
        index = index.update(states[version]) if updated else PrimaryKeyIndex.build(states[version], "Movie")
        queries = recorded[version]["primaryKey"]["queries"]
        keys, ordinals = zip(*queries, strict=True)
        assert index.find(np.array(keys)).tolist() == list(ordinals)
        assert [index.ordinal(key) for key in keys] == list(ordinals)
    assert index.builds == 1


@pytest.mark.parametrize("updated", [False, True])
@pytest.mark.parametrize("number", range(5))
def test_a_hash_index_finds_what_hollow_found(states, recorded, updated, number):
    index = None
    for version in VERSIONS:
        case = recorded[version]["hash"][number]
        if index is None or not updated:
            index = HashIndex.build(states[version], case["type"], case["match"], case["select"])
        index = index.update(states[version])
        for values, ordinals in case["queries"]:
            assert index.find(*values).tolist() == sorted(ordinals), values
        columns = [list(column) for column in zip(*(values for values, _ in case["queries"]), strict=True)]
        offsets, found = index.find_many(*columns)
        assert found.tolist() == [ordinal for _, ordinals in case["queries"] for ordinal in sorted(ordinals)]
        assert np.diff(offsets).tolist() == [len(ordinals) for _, ordinals in case["queries"]]
    assert index.builds == 1


@pytest.mark.parametrize("updated", [False, True])
def test_a_prefix_index_finds_what_hollow_found(states, recorded, updated):
    case = recorded[1]["prefix"]
    index = PrefixIndex.build(states[1], case["type"], case["field"])
    for version in VERSIONS:
        if updated:
            index = index.update(states[version])
        else:
            index = PrefixIndex.build(states[version], case["type"], case["field"])
        for prefix, ordinals in recorded[version]["prefix"]["queries"]:
            assert index.find(prefix).tolist() == sorted(ordinals), prefix
    assert index.builds == 1


def test_three_deltas_are_three_updates_and_no_build(states):
    indexes = [
        PrimaryKeyIndex.build(states[1], "Movie"),
        HashIndex.build(states[1], "Movie", "cast.element.actorId"),
        PrefixIndex.build(states[1], "Movie", "title"),
    ]
    for version in VERSIONS[1:]:
        indexes = [index.update(states[version]) for index in indexes]
    assert [(index.builds, index.updates, index.counts.compactions) for index in indexes] == [(1, 3, 0)] * 3

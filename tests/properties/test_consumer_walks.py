"""A consumer that wanders over a random chain has exactly the version it says, and tells exactly what changed."""

from hypothesis import given
from hypothesis import strategies as st

from deltaic.consumer import Consumer
from deltaic.storage import open_store
from tests.unit.consumer.small_chain import SmallChain, titles, watermarks

movies = st.dictionaries(st.integers(0, 12), st.text("ab\ud800é", max_size=3), max_size=8)
countries = st.dictionaries(st.text("xyz", min_size=1, max_size=2), st.integers(0, 3), min_size=1, max_size=4)


@st.composite
def chains(draw):
    """A published chain, its content by version, and a walk over it."""
    chain = SmallChain(open_store("memory:"))
    contents = {}
    for _ in range(draw(st.integers(1, 7))):
        rows, places = draw(movies), draw(countries)
        version = chain.publish(rows, countries=places, snapshot=draw(st.booleans()), reverse=draw(st.booleans()))
        contents[version] = (rows, places)
    walk = draw(st.lists(st.sampled_from(sorted(contents)), min_size=1, max_size=8))
    return chain, contents, walk


def of(state):
    return titles(state), {one.code: one.size for one in state["Country"]}


@given(chains(), st.integers(1, 4), st.booleans())
def test_every_step_of_a_walk_ends_in_the_version_and_tells_the_difference(case, max_deltas, double_snapshot):
    chain, contents, walk = case
    consumer = Consumer(
        chain.store, max_deltas=max_deltas, double_snapshot=double_snapshot, cached_types=["Country"], cache_dir=False
    )
    at = None
    for wanted in walk:
        refresh = consumer.refresh(to=wanted)
        if refresh.stuck is None:
            assert refresh.to_version == wanted
        else:
            assert not double_snapshot and refresh.to_version == consumer.version != wanted
        version = consumer.version
        rows, places = contents[version]
        assert of(consumer.state) == (rows, places)
        assert watermarks(consumer.state) <= {version}
        assert {one["code"]: one["size"] for one in consumer.cached("Country").values()} == places
        check_changes(refresh, contents.get(at, ({}, {})), (rows, places))
        at = version


def check_changes(refresh, before, after):
    """By key, what is told is the difference of two dictionaries; `modified` may hold some that came back the same."""
    for name, old, new in (("Movie", before[0], after[0]), ("Country", before[1], after[1])):
        if not refresh.changed:
            assert name not in refresh.changes
            continue
        if name not in refresh.changes:
            assert set(old) == set(new)
            continue
        changes = refresh.changes[name]
        assert sorted(key for (key,) in changes.added_keys()) == sorted(set(new) - set(old))
        assert sorted(key for (key,) in changes.removed_keys()) == sorted(set(old) - set(new))
        modified = {key for (key,) in changes.modified_keys()}
        assert modified <= set(old) & set(new)
        if name == "Country":
            assert {key for key in set(old) & set(new) if old[key] != new[key]} <= modified

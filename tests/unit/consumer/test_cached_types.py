"""Cached types: ready Python values that go with the version, and are made again only where it changed."""

import pytest

from deltaic.consumer import Consumer, RefreshListener
from deltaic.consumer import cached as cached_module
from deltaic.errors import NotFoundError
from deltaic.storage import open_store
from tests.unit.consumer.small_chain import SmallChain


@pytest.fixture
def chain():
    return SmallChain(open_store("memory:"))


def test_values_are_looked_up_by_ordinal_and_by_key(chain):
    chain.publish(countries={"de": 83, "fr": 68})
    consumer = Consumer(chain.store, cached_types=["Country", "String"])
    consumer.refresh()
    countries = consumer.cached("Country")
    assert countries.find("de") == {"code": "de", "size": 83} and countries.find("xx") is None
    assert len(countries) == 2 and {one["code"] for one in countries.values()} == {"de", "fr"}
    ordinal = next(iter(countries))
    assert countries[ordinal] == consumer["Country"].view[ordinal].to_python()
    with pytest.raises(NotFoundError, match="primary key"):
        consumer.cached("String").find("x")


def test_only_what_changed_is_made_again(chain):
    chain.publish(countries={"de": 83, "fr": 68, "it": 59})
    consumer = Consumer(chain.store, cached_types=["Country"])
    consumer.refresh()
    before = consumer.cached("Country")
    chain.publish(countries={"de": 83, "fr": 69, "it": 59, "es": 47})
    consumer.refresh()
    after = consumer.cached("Country")
    assert after.find("fr") == {"code": "fr", "size": 69} and after.find("es")
    assert after.find("de") is before.find("de") and before.find("fr")["size"] == 68
    chain.publish({9: "countries stay"}, countries={"de": 83, "fr": 69, "it": 59, "es": 47})
    consumer.refresh()
    assert consumer.cached("Country") is after


def test_values_always_belong_to_the_state_they_came_with(chain):
    consumer = Consumer(chain.store, cached_types=["Country"])
    for version in range(1, 30):
        chain.publish(countries={"de": version, **({"fr": 1} if version % 2 else {})})
    for version in [*range(1, 30), *range(29, 0, -3), 29]:
        consumer.refresh(to=version)
        loaded = consumer.loaded
        expected = {row: loaded.state["Country"][row].to_python() for row in loaded.state["Country"].populated}
        assert dict(loaded.cached["Country"]) == expected
        assert loaded.cached["Country"].find("de")["size"] == version


def test_a_type_can_be_cached_later_and_stays_so(chain):
    chain.publish()
    consumer = Consumer(chain.store)
    with pytest.raises(NotFoundError):
        consumer.cached("Country")
    consumer.refresh()
    assert consumer.cached("Country") is consumer.cached("Country")
    with pytest.raises(NotFoundError, match="Nonsense"):
        consumer.cached("Nonsense")
    chain.publish(countries={"se": 10})
    consumer.refresh()
    assert consumer.loaded.cached["Country"].find("se")


def test_a_listener_may_ask_for_one(chain):
    class Asking(RefreshListener):
        def after(self, refresh, changes):
            self.seen = consumer.cached("Country").find("de")

    asking = Asking()
    consumer = Consumer(chain.store, listeners=[asking])
    chain.publish()
    consumer.refresh()
    assert asking.seen["size"] == 83


def test_a_type_that_is_not_there_is_empty_until_it_is(chain):
    chain.publish()
    consumer = Consumer(chain.store, cached_types=["Later"])
    consumer.refresh()
    assert len(consumer.cached("Later")) == 0 and cached_module.CachedType is not None

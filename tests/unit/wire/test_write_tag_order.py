"""Header tags come out in the order of Java's hash maps."""

import json

import pytest

from deltaic.wire.tag_order import TagMap, java_hash_order


def filled(names):
    tags = TagMap()
    for name in names:
        tags[name] = name.upper()
    return tags


def test_recorded_orders_are_met(hollow_fixtures):
    samples = json.loads((hollow_fixtures / "vectors" / "vectors.json").read_text())["javaTagOrder"]
    assert len(samples) >= 8
    for sample in samples:
        tags = filled(sample["inserted"])
        assert list(tags) == sample["headerTagOrder"]
        previous = TagMap()
        previous.replace_all(tags)
        assert list(previous) == sample["previousHeaderTagOrder_afterCopy"]


def test_a_tag_map_is_a_mapping_like_any_other():
    tags = filled(f"key.{number}" for number in range(100))
    assert len(tags) == 100
    assert dict(tags) == {f"key.{number}": f"KEY.{number}" for number in range(100)}
    del tags["key.7"]
    assert "key.7" not in tags
    assert tags.pop("key.8", None) == "KEY.8"
    assert tags.pop("key.8", None) is None
    assert sorted(tags) == sorted(f"key.{number}" for number in range(100) if number not in (7, 8))


def test_setting_a_tag_again_keeps_its_place():
    names = [f"tag{number}" for number in range(30)]
    tags = filled(names)
    before = list(tags)
    for name in names:
        tags[name] = "other"
    assert list(tags) == before
    assert set(tags.values()) == {"other"}


def test_taking_over_no_tags_leaves_none():
    tags = filled(["a", "b"])
    tags.replace_all({})
    assert list(tags) == []
    tags["a"] = "again"
    assert dict(tags) == {"a": "again"}


@pytest.mark.parametrize("count", [0, 1, 12, 13, 40])
def test_hash_order_is_a_permutation_that_does_not_depend_on_the_past(count):
    names = [f"Type{number}" for number in range(count)]
    assert sorted(java_hash_order(names)) == sorted(names)
    assert java_hash_order(names) == java_hash_order(iter(names))

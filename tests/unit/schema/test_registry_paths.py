"""Field paths: what is one, its steps, its limits."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.errors import RegistryError
from deltaic.schema.registry import Step, check_path, escape_name, join_path, parse_path


def cases(fixtures_dir, name):
    return json.loads((fixtures_dir / "field-registry" / f"{name}.json").read_text())["cases"]


@pytest.mark.parametrize("name", ["paths", "paths_random"])
def test_recorded_paths_have_their_steps_or_their_error(fixtures_dir, name):
    for case in cases(fixtures_dir, name):
        if "error" in case:
            with pytest.raises(RegistryError) as caught:
                parse_path(case["path"])
            assert caught.value.code == case["error"], case["name"]
            continue
        steps = [[step.kind, step.name] if step.kind == "key" else [step.kind] for step in parse_path(case["path"])]
        assert steps == case["steps"], case["name"]


@pytest.mark.parametrize(
    "path",
    ["a" * 1025, "é" * 513, "a" + "[]" * 33, ".".join(["a"] * 129), "a\ud800", "a\x1f", "a[] .b", "[]a", "a[]..b"],
)
def test_a_path_past_a_limit_or_outside_the_grammar_is_refused(path):
    with pytest.raises(RegistryError) as caught:
        check_path(path)
    assert caught.value.code == "InvalidPath"


@pytest.mark.parametrize("path", ["a" * 1024, "é" * 512, "a" + "[]" * 32, ".".join(["a"] * 128), "a\x7f", "\u2028"])
def test_a_path_at_a_limit_is_one(path):
    assert check_path(path) == path


def test_a_path_of_128_steps_with_placeholders_among_them_is_one():
    path = ".".join(["a[]"] * 32 + ["b"] * 64)
    assert len(parse_path(path)) == 128
    with pytest.raises(RegistryError):
        parse_path(path + ".c")


def test_an_error_says_where_the_path_ends_to_be_one():
    with pytest.raises(RegistryError, match=r"items\[0\]") as caught:
        check_path("items[0]")
    assert caught.value.offset == 5


def test_no_text_makes_the_check_slow():
    started = time.perf_counter()
    for text in ("a" * 200_000 + "[", "\\." * 100_000 + "\\", "[]" * 100_000 + "a", "a." * 100_000):
        with pytest.raises(RegistryError):
            check_path(text)
    assert time.perf_counter() - started < 5


names = st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs"]), min_size=1, max_size=6)
keys = st.builds(lambda name: Step("key", name), names)
segments = st.tuples(keys, st.lists(st.sampled_from([Step("[]"), Step("{}")]), max_size=2))


@given(st.lists(segments, min_size=1, max_size=6))
def test_steps_become_a_path_and_come_back(parts):
    steps = tuple(step for key, places in parts for step in (key, *places))
    assert parse_path(join_path(steps)) == steps


@given(st.text(max_size=12))
def test_any_name_that_can_be_written_is_read_back(name):
    try:
        text = check_path(escape_name(name))
    except RegistryError as error:
        assert error.code == "InvalidPath"
        assert not name or any(c < " " or 0xD800 <= ord(c) < 0xE000 for c in name)
    else:
        assert parse_path(text) == (Step("key", name),)

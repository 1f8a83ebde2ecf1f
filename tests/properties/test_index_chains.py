"""Indexes along random chains, with changed models: they find what a plain model finds, updated or built anew."""

import random
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

INTEROP = str(Path(__file__).resolve().parents[1] / "interop")
if INTEROP not in sys.path:
    sys.path.insert(0, INTEROP)

from histories import History  # noqa: E402 - needs the path above
from replay import Replay  # noqa: E402

from deltaic.index import HashIndex, PrefixIndex, PrimaryKeyIndex, RangeIndex  # noqa: E402
from deltaic.index import layers as layers_module  # noqa: E402
from deltaic.schema.paths import resolve_path  # noqa: E402
from deltaic.schema.types import FieldType, ObjectSchema  # noqa: E402
from deltaic.state.read import ReadState  # noqa: E402
from tests.properties.index_model import choose, normal, paths_of, query, records_by_value  # noqa: E402

TEXTS = ["", "a", "te", "TEXT", "text 1", "日", "ω", "Ω", "\ud800", "\U0001f600", "wide", "x", "zz"]


def chain(seed, folder, versions=4, records=14):
    """The states of a random history, as a reader that follows deltas has them."""
    Replay(folder).run(History(seed, versions=versions, records=records).ops())
    state = ReadState.load(folder / "snapshot-1")
    yield state
    for version in range(1, versions):
        delta = folder / f"delta-{version}-{version + 1}"
        if not delta.exists():
            return
        state = state.apply(delta)
        yield state


def field_type(state, type_name, path):
    schemas = {name: data.schema for name, data in state.types.items()}
    return resolve_path(schemas, type_name, path, through_collections=True).field_type


def make_indexes(state, pick):
    """Some indexes of each kind over random types and paths."""
    made = []
    for name, data in state.types.items():
        plain = paths_of(state, name, collections=False) if isinstance(data.schema, ObjectSchema) else []
        for _ in range(2 if plain else 0):
            made.append(PrimaryKeyIndex.build(state, name, choose(pick, plain, pick.randint(1, 3))))
        every = paths_of(state, name)
        selects = ["", *(path.removesuffix("!") for path in every if path.endswith("!"))]
        for _ in range(2 if every else 0):
            match = choose(pick, every, pick.randint(1, 3))
            made.append(HashIndex.build(state, name, match, pick.choice(selects)))
        for path in choose(pick, every, 3):
            kind = field_type(state, name, path)
            if kind is FieldType.STRING:
                options = {"tokens": pick.random() < 0.5, "fold_case": pick.random() < 0.7}
                made.append(PrefixIndex.build(state, name, path, **options))
            if kind not in (FieldType.BOOLEAN, FieldType.BYTES, FieldType.REFERENCE):
                made.append(RangeIndex.build(state, name, path))
    return made


def check(index):
    """One index against the model."""
    name, match, select = index.definition.type_name, index.definition.match, index.definition.select
    found = records_by_value(index.state, name, match, select)
    match index:
        case PrimaryKeyIndex():
            check_keys(index, found)
        case HashIndex():
            check_groups(index, found)
        case PrefixIndex():
            for text in TEXTS:
                wanted = sorted(
                    {one for (value,), all_of in found.items() if has(index, value, text) for one in all_of}
                )
                assert index.find(text).tolist() == wanted, (index, text)
        case RangeIndex():
            # A list: 0.0 and -0.0 are two values of a hash index, and one place of a range.
            check_range(index, [(query(value), all_of) for (value,), all_of in found.items()])


def check_keys(index, found):
    populated = index.state.types[index.definition.type_name].populated
    for values, ordinals in found.items():
        key = tuple(query(value) for value in values)
        assert index.ordinal(key if len(key) > 1 else key[0]) == min(ordinals), (index, key)
    columns = tuple([query(values[place]) for values in found] for place in range(len(index.definition.match)))
    given = columns if len(columns) > 1 else columns[0]
    assert index.find(given).tolist() == [min(ordinals) for ordinals in found.values()], index
    duplicates = index.duplicates()
    wanted = {(min(ordinals), one) for ordinals in found.values() for one in ordinals if one != min(ordinals)}
    assert set(zip(duplicates.firsts.tolist(), duplicates.ordinals.tolist(), strict=True)) == wanted
    there = {one for ordinals in found.values() for one in ordinals}
    assert index.nulls().tolist() == sorted(set(populated) - there)
    assert len(index) == len(there)


def check_groups(index, found):
    for values, ordinals in found.items():
        assert index.find(*(query(value) for value in values)).tolist() == sorted(ordinals), (index, values)
    columns = [[query(values[place]) for values in found] for place in range(len(index.definition.match))]
    offsets, all_found = index.find_many(*columns)
    assert all_found.tolist() == [one for ordinals in found.values() for one in sorted(ordinals)]
    assert np.diff(offsets).tolist() == [len(ordinals) for ordinals in found.values()]
    # Nothing is found but what there is.
    total = sum(len(layer.entries.offsets) - 1 for layer in index.layers)
    assert total >= len(found)


def has(index, value, text):
    if index.definition.option("fold_case"):
        value, text = value.lower(), text.lower()
    if index.definition.option("tokens"):
        words = text.split()
        if not words:
            return bool(value.split())
        return all(any(own.startswith(word) for own in value.split()) for word in words)
    return value.startswith(text)


def check_range(index, found):
    real = [(value, ordinals) for value, ordinals in found if value == value]
    values = sorted(value for value, _ in real)
    assert index.min() == (values[0] if values else None)
    assert index.max() == (values[-1] if values else None)
    bounds = [None, *values[:3], *values[-2:], *([] if not values or isinstance(values[0], str) else [0.5, -1e300])]
    for low in bounds:
        for high in bounds:
            for inclusive in ("both", "neither", "low", "high"):
                inside = {
                    one
                    for value, ordinals in real
                    if (low is None or value > low or (value == low and inclusive in ("both", "low")))
                    and (high is None or value < high or (value == high and inclusive in ("both", "high")))
                    for one in ordinals
                }
                got = index.between(low, high, inclusive=inclusive).tolist()
                assert got == sorted(inside), (index, low, high, inclusive)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_indexes_find_what_the_model_finds_and_an_update_is_a_rebuild(seed):
    pick = random.Random(seed)
    # A low ratio keeps layers apart that small states would have as one.
    ratio = mock.patch.object(layers_module, "RATIO", pick.choice([layers_module.RATIO, 1, 0]))
    with tempfile.TemporaryDirectory() as folder, ratio:
        states = chain(seed, Path(folder))
        indexes = make_indexes(next(states), pick)
        for index in indexes:
            check(index)
        for state in states:
            before = [(index, index.layers) for index in indexes]
            indexes = [index.update(state) for index in indexes]
            for index in indexes:
                check(index)
            for index, layers in before:
                assert index.layers is layers
                check(index)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
@example(648)  # a FLOAT that a later model dropped was null in a record and NaN in a column
def test_an_index_made_of_its_arrays_is_the_same_index(seed):
    pick = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        states = list(chain(seed, Path(folder), versions=3))
        indexes = make_indexes(states[0], pick)
        for state in states[1:]:
            indexes = [index.update(state) for index in indexes]
        for index in indexes:
            again = type(index).rebuild(index.state, index.describe(), index.arrays())
            check(again)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_an_index_that_missed_a_delta_is_built_anew(seed):
    pick = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        states = list(chain(seed, Path(folder), versions=4))
        indexes = make_indexes(states[0], pick)
        for index in indexes:
            later = index.update(states[-1])
            check(later)


def test_the_model_tells_floats_apart_as_java_does():
    assert normal(0x80000000, FieldType.FLOAT) != normal(0, FieldType.FLOAT)

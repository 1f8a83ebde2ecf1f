"""Diffs and histories against a plain model: any two catalogues, written in any layout, on one chain or on two."""

from hypothesis import given
from hypothesis import strategies as st

from deltaic.compare import MISSING, diff, history
from deltaic.compare.content import ContentDigests
from deltaic.compare.unchanged import neighbours, unchanged
from tests.unit.compare.films import (
    FIELDS,
    catalogues,
    chain,
    contents,
    counted,
    expected_counts,
    frozen,
    layouts,
    written,
)


@given(catalogues, catalogues, layouts, layouts)
def test_a_diff_of_unrelated_states_counts_what_the_model_counts(before, after, one, other):
    found = diff(written(before, **one), written(after, **other))
    assert counted(found) == expected_counts(before, after)
    assert bool(found) == (contents(before) != contents(after))


def reverse_cast(movie):
    return movie | {"cast": movie["cast"] and movie["cast"][::-1]}


def swap_texts(movie):
    return movie | {"title": movie["note"], "note": movie["title"]}


def swap_scores(movie):
    scores = movie["scores"] or {}
    return movie | {"scores": dict(zip(scores, [*scores.values()][::-1], strict=True)) or movie["scores"]}


def swap_in_actors(movie):
    names = [actor["name"] for actor in movie["cast"] or ()][::-1]
    cast = [actor | {"name": name} for actor, name in zip(movie["cast"] or (), names, strict=True)]
    return movie | {"cast": cast or movie["cast"]}


twists = st.sampled_from([reverse_cast, swap_texts, swap_scores, swap_in_actors, dict])


@given(catalogues, st.lists(twists, min_size=5, max_size=5))
def test_the_same_values_in_other_places_are_a_difference(catalogue, chosen):
    # Near misses, which two random catalogues hardly ever are.
    twisted = [twist(movie) for twist, movie in zip(chosen, catalogue, strict=False)]
    assert counted(diff(written(catalogue), written(twisted))) == expected_counts(catalogue, twisted)


@given(st.lists(catalogues, min_size=2, max_size=4), layouts)
def test_a_diff_along_a_chain_counts_what_the_model_counts(versions, layout):
    states, backs = chain(versions, **layout)
    for start in range(len(states)):
        for end in range(len(states)):
            assert counted(diff(states[start], states[end])) == expected_counts(versions[start], versions[end])
    back = states[-1].apply(backs[-1])
    assert neighbours(states[-1], back)
    assert counted(diff(states[-1], back)) == expected_counts(versions[-1], versions[-2])


@given(catalogues, st.randoms(), layouts)
def test_order_shards_and_ordinals_make_no_difference(catalogue, randomness, layout):
    def shuffled(values):
        return None if values is None else randomness.sample(values, len(values))

    mixed = [movie | {"tags": shuffled(movie["tags"])} for movie in shuffled(catalogue)]
    assert not diff(written(catalogue), written(mixed, **layout))


@given(catalogues, catalogues)
def test_fields_that_changed_are_those_of_the_model(before, after):
    # Without sequels every key is there once, so that which record became which is certain.
    old, new = ([movie | {"sequel": None} for movie in side] for side in (before, after))
    found = diff(written(old), written(new))["Movie"]
    pairs = [(one, other) for one in old for other in new if one["id"] == other["id"]]
    for place, name in enumerate(FIELDS["Movie"]):
        differs = [
            (one[name] is None, other[name] is None)
            for one, other in pairs
            if frozen("Movie", one)[place] != frozen("Movie", other)[place]
        ]
        field = found.fields[name]
        assert (field.changed, field.set, field.cleared) == (
            len(differs),
            sum(was for was, _ in differs),
            sum(now for _, now in differs),
        )
    for change in found.records("modified"):
        places = {one.path.split(".")[0].split("[")[0].split("{")[0] for one in change.differences()}
        assert places == {
            name
            for place, name in enumerate(FIELDS["Movie"])
            for one, other in pairs
            if one["id"] == change.key[0] and frozen("Movie", one)[place] != frozen("Movie", other)[place]
        }


@given(catalogues, catalogues, layouts, layouts)
def test_what_counts_as_unchanged_at_its_place_has_equal_content(before, after, one, other):
    old, new = written(before, **one), written(after, **other)
    for name, records in unchanged(old, new).items():
        ordinals = records.ordinals()
        assert (ContentDigests(old).of(name, ordinals) == ContentDigests(new).of(name, ordinals)).all()


@given(catalogues)
def test_records_of_one_state_share_a_digest_only_if_they_are_equal(catalogue):
    state = written(catalogue)
    for name, expected in contents(catalogue).items():
        ordinals = state[name].populated.ordinals()
        digests = ContentDigests(state).of(name, ordinals)
        assert len({tuple(each) for each in digests.T.tolist()}) == len(expected) == len(ordinals)


@given(st.lists(catalogues, min_size=1, max_size=5), st.integers(0, 6), st.booleans())
def test_the_history_of_a_key_is_that_of_the_model(versions, key, on_a_chain):
    versions = [[movie | {"sequel": None} for movie in catalogue] for catalogue in versions]
    states = chain(versions)[0] if on_a_chain else [written(catalogue) for catalogue in versions]
    expected, last = [], None
    for number, catalogue in enumerate(versions):
        value = next((frozen("Movie", movie) for movie in catalogue if movie["id"] == key), None)
        if value != last:
            change = "removed" if value is None else "modified" if last is not None else "added"
            expected.append((number, "first" if number == 0 else change))
        last = value
    found = history(enumerate(states), "Movie", key)
    assert [(entry.version, entry.change) for entry in found] == expected
    assert list(found.touched) == [number for number, change in expected if change != "first"]
    for number, catalogue in enumerate(versions):
        movie = next((movie for movie in catalogue if movie["id"] == key), None)
        seen = found.at(number)
        assert (seen is MISSING) == (movie is None)
        if movie is not None:
            assert seen["note"] == movie["note"] and seen["seen"] == movie["seen"]

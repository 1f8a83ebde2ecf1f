"""Every kind of index over every kind of path: what each finds is what plain Python finds, also after a delta."""

import numpy as np
import pytest

from deltaic.errors import DeltaicError
from deltaic.index import HashIndex, PrefixIndex, PrimaryKeyIndex, RangeIndex, UniqueKeyIndex
from deltaic.kernels.content import BOOLEAN, BYTES, REFERENCE, STRING
from tests.unit.index.films import FILMS, Film, FilmWriter

# By path: the values of a film, as a list, because a collection has many.
PATHS = {
    "id": lambda film: [film.id],
    "year": lambda film: [film.year],
    "rating": lambda film: [None if film.rating is None else float(np.float32(film.rating))],
    "weight": lambda film: [film.weight],
    "seen": lambda film: [film.seen],
    "poster": lambda film: [film.poster],
    "note": lambda film: [film.note],
    "title": lambda film: [film.title],
    "title.value": lambda film: [film.title],
    "cast.element.id": lambda film: [number for number, _ in film.cast],
    "cast.element.name": lambda film: [name for _, name in film.cast],
    "tags.element": lambda film: list(film.tags),
    "tags.element.value": lambda film: list(film.tags),
    "releases.key": lambda film: list(film.releases),
    "releases.value.year": lambda film: [year for year, _ in film.releases.values()],
    "releases.value.cinema": lambda film: [cinema for _, cinema in film.releases.values()],
}
ENDS_ON_A_REFERENCE = ("title!", "cast!", "cast.element!", "tags.element!", "releases.key!", "releases.value!")
THROUGH_COLLECTIONS = tuple(path for path in PATHS if "element" in path or "releases" in path)
LATER = (*FILMS[1:], Film(20, "Solaris", 1972, ((9, "Cruz"),), ("space",), {"US": (1972, False)}, 8.5, 3.0, True, b"x"))


@pytest.fixture(scope="module")
def states():
    writer = FilmWriter()
    filler = [Film(1000 + number, f"filler {number}", 3000 + number) for number in range(60)]
    return writer.version([*FILMS, *filler]), writer.version([*LATER, *filler]), filler


def both(states, build):
    """An index of the second state, built and updated, with the films by ordinal."""
    first, second, filler = states
    ordinals = {film.id: film.ordinal for film in second["Film"]}
    films = {ordinals[film.id]: film for film in (*LATER, *filler)}
    updated = build(first).update(second)
    assert (updated.builds, updated.updates) == (1, 1)
    return (build(second), updated), films


def values_of(films, path):
    return {ordinal: [value for value in PATHS[path](film) if value is not None] for ordinal, film in films.items()}


def same(one, other):
    """Equal as Hollow's indexes see it: by bits."""
    if isinstance(one, float):
        return repr(np.float64(one)) == repr(np.float64(other))
    return one == other


@pytest.mark.parametrize("path", PATHS)
def test_a_hash_index(states, path):
    indexes, films = both(states, lambda state: HashIndex.build(state, "Film", path))
    found = values_of(films, path)
    wanted = [value for values in found.values() for value in values]
    assert wanted
    for index in indexes:
        for value in wanted:
            expected = sorted(o for o, values in found.items() if any(same(value, one) for one in values))
            assert index.find(value).tolist() == expected, value


@pytest.mark.parametrize("path", ENDS_ON_A_REFERENCE)
def test_a_hash_index_by_a_reference_itself(states, path):
    indexes, _ = both(states, lambda state: HashIndex.build(state, "Film", path))
    state = indexes[0].state
    by_list = HashIndex.build(state, "Film", path)
    for index in indexes:
        for ordinal in range(3):
            assert index.find(ordinal).tolist() == by_list.find(ordinal).tolist()
    assert any(len(indexes[0].find(ordinal)) for ordinal in range(100))


@pytest.mark.parametrize("kind", [PrimaryKeyIndex, UniqueKeyIndex])
@pytest.mark.parametrize("path", PATHS)
def test_an_index_by_key(states, kind, path):
    if path in THROUGH_COLLECTIONS:
        with pytest.raises(DeltaicError):
            kind.build(states[0], "Film", path)
        return
    indexes, films = both(states, lambda state: kind.build(state, "Film", path))
    found = values_of(films, path)
    for index in indexes:
        for values in found.values():
            for value in values:
                expected = [o for o, others in found.items() if any(same(value, one) for one in others)]
                assert index.ordinals(value) == sorted(expected), value
                assert index.ordinal(value) == min(expected) and index.find([value]).tolist() == [min(expected)]
        assert index.nulls().tolist() == sorted(ordinal for ordinal, values in found.items() if not values)


@pytest.mark.parametrize("options", [{}, {"tokens": True}, {"fold_case": False}, {"tokens": True, "fold_case": False}])
@pytest.mark.parametrize("path", PATHS)
def test_a_prefix_index(states, path, options):
    texts = [value for values in values_of(dict(enumerate(FILMS)), path).values() for value in values]
    if not all(isinstance(text, str) for text in texts):
        with pytest.raises(DeltaicError):
            PrefixIndex.build(states[0], "Film", path, **options)
        return
    indexes, films = both(states, lambda state: PrefixIndex.build(state, "Film", path, **options))
    found = values_of(films, path)

    def fits(text, prefix):
        if options.get("fold_case", True):
            text, prefix = text.lower(), prefix.lower()
        return any(one.startswith(prefix) for one in (text.split() if options.get("tokens") else [text]))

    for index in indexes:
        for prefix in ("", "s", "S", "so", "Sol", "SOLARIS", "sac", "З", "b", "B", "filler", "7", "sp", "D", "zzz"):
            expected = sorted(o for o, texts in found.items() if any(fits(text, prefix) for text in texts))
            assert index.find(prefix).tolist() == expected, prefix


@pytest.mark.parametrize("path", PATHS)
def test_a_range_index(states, path):
    code = HashIndex.build(states[0], "Film", path)._traversal.codes[0]
    if code in (BOOLEAN, BYTES, REFERENCE):
        with pytest.raises(DeltaicError):
            RangeIndex.build(states[0], "Film", path)
        return
    indexes, films = both(states, lambda state: RangeIndex.build(state, "Film", path))
    found = {o: [one for one in values if one == one] for o, values in values_of(films, path).items()}
    if code == STRING:
        found = {o: [text.encode() for text in texts] for o, texts in found.items()}
    bounds = sorted({one for values in found.values() for one in values})
    assert bounds
    for index in indexes:
        for low in (bounds[0], bounds[len(bounds) // 2], bounds[-1]):
            for high in (bounds[-1], bounds[len(bounds) // 2]):
                expected = sorted(o for o, values in found.items() if any(low <= one <= high for one in values))
                given = [one.decode() if isinstance(one, bytes) else one for one in (low, high)]
                assert index.between(*given).tolist() == expected, given
        ends = [bounds[0], bounds[-1]]
        assert [index.min(), index.max()] == [one.decode() if isinstance(one, bytes) else one for one in ends]


@pytest.mark.parametrize("name", ["ListOfActor", "SetOfString", "MapOfStringToRelease"])
def test_a_root_that_is_a_collection_has_hash_prefix_and_range_indexes(states, name):
    state = states[0]
    path = {"ListOfActor": "element.name", "SetOfString": "element", "MapOfStringToRelease": "key"}[name]
    view = state[name]

    def texts(record):
        if name == "ListOfActor":
            return [actor.name for actor in record]
        return list(record)

    found = {ordinal: texts(view[ordinal]) for ordinal in view.populated}
    value = next(text for values in found.values() for text in values)
    expected = sorted(ordinal for ordinal, values in found.items() if value in values)
    assert HashIndex.build(state, name, path).find(value).tolist() == expected
    assert PrefixIndex.build(state, name, path, fold_case=False).find(value).tolist() == sorted(
        ordinal for ordinal, values in found.items() if any(one.startswith(value) for one in values)
    )
    assert RangeIndex.build(state, name, path).between(value, value).tolist() == expected
    with pytest.raises(DeltaicError):
        PrimaryKeyIndex.build(state, name, path)


@pytest.mark.parametrize("select", ["", "title", "cast", "cast.element", "cast.element.name", "tags", "tags.element",
                                    "releases", "releases.key", "releases.value"])  # fmt: skip
@pytest.mark.parametrize("path", ["year", "title", "cast.element.id", "tags.element", "releases.key"])
def test_a_select_field_of_any_type_on_the_path(states, path, select):
    """What is selected are records of the type that the select path leads to, of the films that match."""
    indexes, films = both(states, lambda state: HashIndex.build(state, "Film", path, select))
    state = indexes[0].state
    value = PATHS[path](FILMS[4])[0]
    # Where both go through one collection, the member that matches is the one that is selected.
    together = select and path.split(".")[0] == select.split(".")[0] and select not in ("cast", "tags", "releases")
    for index in indexes:
        found = index.find(value)
        assert len(found) and index.selects == type_of(state, select)
        assert set(found.tolist()) <= set(state[index.selects].populated)
        if not together:
            expected = set()
            for ordinal, film in films.items():
                if value in PATHS[path](film):
                    expected |= selected(state, state["Film"][ordinal], select)
            assert set(found.tolist()) == expected


def type_of(state, select):
    name = "Film"
    for segment in filter(None, select.split(".")):
        schema = state[name].schema
        if segment in ("element", "key", "value"):
            name = getattr(schema, segment)
        else:
            name = schema.fields[schema.position(segment)].referenced
    return name


def selected(state, record, select):
    if not select:
        return {record.ordinal}
    head, *rest = select.split(".")
    target = record.reference(head)
    if target is None:
        return set()
    if not rest:
        return {target}
    members = state[type_of(state, head)].members([target])
    ordinals = set((members.values if rest[0] == "value" else members.elements).tolist())
    if len(rest) == 1:
        return ordinals
    inner = state[type_of(state, f"{head}.{rest[0]}")]
    return {inner[ordinal].reference(rest[1]) for ordinal in ordinals}


def test_keyed_sets_and_maps_of_java_are_found_by_the_keys_of_their_members(hollow_fixtures):
    """The recorded look-ups inside of sets and maps with hash keys, asked of an index over all of them."""
    import json

    from deltaic.state.read import ReadState

    folder = hollow_fixtures / "hash-keys"
    states = {number: ReadState.load(folder / f"snapshot-{number}") for number in (1, 2, 3)}
    indexes, checked = {}, 0
    for asked in json.loads((folder / "lookups.json").read_text()):
        state, name = states[asked["version"]], asked["type"]
        schema = state[name].schema
        member = "element" if "element" in asked else "key"
        place = asked["version"], name
        if place not in indexes:
            indexes[place] = HashIndex.build(state, name, [f"{member}.{path}" for path in schema.hash_key])
        found = asked.get("element", asked.get("foundKey"))
        owners = indexes[place].find(*asked["key"]).tolist()
        if asked["record"] in state[name].populated:
            assert (asked["record"] in owners) == (found >= 0), asked
            checked += found >= 0
    assert checked > 20

"""A small model with every kind of type, random values for it, and plain Python that says what tools should find."""

import io
import struct
from collections import Counter

from hypothesis import strategies as st

from deltaic.schema.text import parse_schemas
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState

MODEL = """
Movie @PrimaryKey(id) {
    long id; String title; float rating; double gross; Cast cast; Tags tags; Scores scores; Movie sequel;
    bytes raw; string note; boolean seen;
}
Actor { String name; int born; }
String { string value; }
Cast List<Actor>;
Tags Set<String>;
Scores Map<String,Actor>;
"""
SCHEMAS = parse_schemas(MODEL)
TYPES = SCHEMAS.names
FIELDS = {"Movie": tuple(field.name for field in SCHEMAS["Movie"].fields), "Actor": ("name", "born")}
LINKS = {
    "Movie": {"title": "String", "cast": "Cast", "tags": "Tags", "scores": "Scores", "sequel": "Movie"},
    "Actor": {"name": "String"},
}

texts = st.sampled_from(["", "a", "b", "Solaris", "ö", "\ud800", "x" * 9, "x" * 8 + "y", "\U0001f600", "%s"])
actors = st.fixed_dictionaries({"name": st.none() | texts, "born": st.none() | st.integers(1900, 1903)})
plain_movies = st.fixed_dictionaries(
    {
        "id": st.integers(0, 6),
        "title": st.none() | texts,
        "rating": st.none() | st.floats(width=32),
        "gross": st.none() | st.sampled_from([0.0, -0.0, float("nan"), float("inf"), 1e300]),
        "cast": st.none() | st.lists(actors, max_size=3),
        "tags": st.none() | st.lists(texts, max_size=3, unique=True),
        "scores": st.none() | st.dictionaries(texts, actors, max_size=2),
        "raw": st.none() | st.binary(max_size=2),
        "note": st.none() | texts,
        "seen": st.none() | st.booleans(),
        "sequel": st.none(),
    }
)
movies = st.tuples(plain_movies, st.none() | plain_movies).map(lambda pair: pair[0] | {"sequel": pair[1]})
catalogues = st.lists(movies, max_size=5, unique_by=lambda movie: movie["id"])
flat_catalogues = st.lists(plain_movies, max_size=5, unique_by=lambda movie: movie["id"])
layouts = st.fixed_dictionaries({}, optional={"pinned_shards": st.dictionaries(st.sampled_from(TYPES), st.just(4))})


def add(state, type_name, value):
    """Add a value and all it refers to; gives its ordinal."""
    if type_name == "String":
        return state.add_object("String", {"value": value})
    if type_name in LINKS:
        links = LINKS[type_name]
        fields = {
            name: add(state, links[name], value[name]) if name in links and value[name] is not None else value[name]
            for name in FIELDS[type_name]
        }
        return state.add_object(type_name, fields)
    if type_name == "Cast":
        return state.add_list("Cast", [add(state, "Actor", each) for each in value])
    if type_name == "Tags":
        return state.add_set("Tags", [add(state, "String", each) for each in value])
    return state.add_map(
        "Scores", [(add(state, "String", key), add(state, "Actor", each)) for key, each in value.items()]
    )


def snapshot(write_state):
    """The read state of what a write state holds."""
    stream = io.BytesIO()
    write_state.write_snapshot(stream)
    return ReadState.load(stream.getvalue())


def written(catalogue, **layout):
    """A read state of movies."""
    state = WriteState(SCHEMAS, **layout)
    for movie in catalogue:
        add(state, "Movie", movie)
    return snapshot(state)


def chain(versions, **layout):
    """The read states of versions, each made from the one before by its delta, and the deltas that lead back."""
    state = WriteState(SCHEMAS, **layout)
    states, backs = [], []
    for number, catalogue in enumerate(versions):
        if number:
            state.next_cycle()
        for movie in catalogue:
            add(state, "Movie", movie)
        if not number:
            states.append(snapshot(state))
            continue
        forward, back = io.BytesIO(), io.BytesIO()
        state.write_delta(forward)
        state.write_reverse_delta(back)
        states.append(states[-1].apply(forward.getvalue()))
        backs.append(back.getvalue())
    return states, backs


def frozen(type_name, value):
    """A value that equal records share, whatever their order of elements."""
    if value is None:
        return None
    if type_name in LINKS:
        links = LINKS[type_name]
        return tuple(frozen(links.get(name), value[name]) for name in FIELDS[type_name])
    match type_name, value:
        case "Cast", _:
            return ("list", *(frozen("Actor", each) for each in value))
        case "Tags", _:
            return ("set", frozenset(value))
        case "Scores", _:
            return ("map", frozenset((key, frozen("Actor", each)) for key, each in value.items()))
        case _, float():
            return "nan" if value != value else struct.pack("<d", value)
    return value


def contents(catalogue):
    """Every record of every type that a catalogue makes, each once."""
    found = {name: set() for name in TYPES}

    def walk(type_name, value):
        if value is None:
            return
        found[type_name].add(
            (value["id"], frozen("Movie", value)) if type_name == "Movie" else frozen(type_name, value)
        )
        if type_name in LINKS:
            for name, target in LINKS[type_name].items():
                walk(target, value[name])
        elif type_name == "Cast":
            for each in value:
                walk("Actor", each)
        elif type_name == "Tags":
            for each in value:
                walk("String", each)
        elif type_name == "Scores":
            for key, each in value.items():
                walk("String", key)
                walk("Actor", each)

    for movie in catalogue:
        walk("Movie", movie)
    return found


def expected_counts(before, after):
    """What a diff of two catalogues should count: by type (added, removed, modified, unchanged)."""
    old, new = contents(before), contents(after)
    found = {}
    for name in TYPES:
        gone, came = old[name] - new[name], new[name] - old[name]
        modified = 0
        if name == "Movie":
            modified = (Counter(key for key, _ in gone) & Counter(key for key, _ in came)).total()
        found[name] = (len(came) - modified, len(gone) - modified, modified, len(old[name] & new[name]))
    return found


def counted(found):
    """The counts of a diff in the same form."""
    return {
        name: (one.counts.added, one.counts.removed, one.counts.modified, one.counts.unchanged)
        for name, one in found.items()
    }

"""Chains that are written and read back: every way to a version gives the same version."""

import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.schema.text import parse_schemas
from deltaic.state.dump import dump_state
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.state.write_columns import Column, VariableColumn
from deltaic.testing.replay import same_blob

MODEL = """
Leaf @PrimaryKey(n) { int n; string s; bytes b; }
Rec { long id; boolean flag; float f; double d; string text; Leaf leaf; Rec self; }
Leaves List<Leaf>;
Bag Set<Leaf>;
Keyed Set<Leaf> @HashKey(n);
Index Map<Leaf,Leaf>;
KeyedIndex Map<Leaf,Rec> @HashKey(n);
"""
SCHEMAS = parse_schemas(MODEL)

texts = st.text(st.characters(), max_size=5) | st.sampled_from(["", "\ud800", "\U0001f600", "\x00", "x" * 200])
longs = st.none() | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
leaves = st.fixed_dictionaries(
    {"n": st.integers(-3, 6)}, optional={"s": st.none() | texts, "b": st.none() | st.binary(max_size=3)}
)
recs = st.fixed_dictionaries(
    {"id": longs},
    optional={
        "flag": st.none() | st.booleans(),
        "f": st.none() | st.floats(width=32),
        "d": st.none() | st.floats(),
        "text": st.none() | texts,
    },
)
picks = st.lists(st.integers(0, 1000), max_size=14)
versions = st.fixed_dictionaries(
    {
        "leaves": st.lists(leaves, min_size=1, max_size=9),
        "recs": st.lists(st.tuples(recs, st.integers(0, 1000)), max_size=6),
        **{name: st.lists(picks, max_size=4) for name in ("Leaves", "Bag", "Keyed", "Index", "KeyedIndex")},
        "keep": st.booleans(),
        "remove": st.lists(st.integers(0, 5), max_size=3),
    }
)
options = st.fixed_dictionaries(
    {},
    optional={
        "pinned_shards": st.dictionaries(st.sampled_from(SCHEMAS.names), st.sampled_from([1, 2, 8]), max_size=4),
        "target_shard_bytes": st.sampled_from([16, 64, 1000]),
        "allow_resharding": st.booleans(),
        "focus_holes": st.booleans(),
        "partitioned": st.booleans(),
    },
)


def resolved(version):
    """The version with every pick resolved to the position of a leaf or rec."""
    count, recs = len(version["leaves"]), len(version["recs"])
    targets = {"Index": count, "KeyedIndex": recs}
    return version | {
        "recs": [(values, pick % count) for values, pick in version["recs"]],
        "Leaves": [[pick % count for pick in each] for each in version["Leaves"]],
        **{name: [sorted({pick % count for pick in each}) for each in version[name]] for name in ("Bag", "Keyed")},
        **{
            name: [list({pick % count: pick // 7 % width for pick in each}.items()) for each in version[name]]
            if width
            else []
            for name, width in targets.items()
        },
    }


def populate(state, version):
    """Add the records of a version one by one; some recs refer to the one before them."""
    if version["keep"]:
        state.keep_all_from_previous()
        for name in ("Leaves", "Bag", "Index"):
            state.remove(name, np.array(version["remove"], np.int64))
    add_one_by_one(state, resolved(version), chained=True)


def add_one_by_one(state, version, *, chained=False):
    leaf = [state.add_object("Leaf", values) for values in version["leaves"]]
    rec = []
    for values, at in version["recs"]:
        back = {"self": rec[-1]} if chained and rec and at % 2 else {}
        rec.append(state.add_object("Rec", {**values, "leaf": leaf[at], **back}))
    for each in version["Leaves"]:
        state.add_list("Leaves", [leaf[at] for at in each])
    for name in ("Bag", "Keyed"):
        for each in version[name]:
            state.add_set(name, [leaf[at] for at in each])
    for name, values in (("Index", leaf), ("KeyedIndex", rec)):
        for each in version[name]:
            state.add_map(name, [(leaf[key], values[value]) for key, value in each])


def add_by_columns(state, version):
    """The same records, a type at a time."""
    leaves, recs = version["leaves"], [values for values, _ in version["recs"]]
    leaf = state.add_objects(
        "Leaf",
        {
            "n": np.array([values["n"] for values in leaves], np.int64),
            "s": variable([encoded(values.get("s")) for values in leaves]),
            "b": variable([values.get("b") for values in leaves]),
        },
    )
    rec = state.add_objects(
        "Rec",
        {
            "id": fixed([values["id"] for values in recs], np.int64),
            "flag": fixed([values.get("flag") for values in recs], np.bool_),
            "f": fixed([values.get("f") for values in recs], np.float32),
            "d": fixed([values.get("d") for values in recs], np.float64),
            "text": variable([encoded(values.get("text")) for values in recs]),
            "leaf": leaf[np.array([at for _, at in version["recs"]], np.int64)],
        },
    )
    state.add_lists("Leaves", *flat(version["Leaves"], leaf))
    for name in ("Bag", "Keyed"):
        state.add_sets(name, *flat(version[name], leaf))
    for name, values in (("Index", leaf), ("KeyedIndex", rec)):
        offsets, keys = flat([[key for key, _ in each] for each in version[name]], leaf)
        state.add_maps(name, offsets, keys, flat([[value for _, value in each] for each in version[name]], values)[1])


def encoded(text):
    return None if text is None else text.encode("utf-8", "surrogatepass")


def variable(values):
    pieces = [value or b"" for value in values]
    offsets = np.cumsum([0, *map(len, pieces)])
    return VariableColumn(
        offsets, np.frombuffer(b"".join(pieces), np.uint8), np.array([value is not None for value in values], np.bool_)
    )


def fixed(values, dtype):
    return Column(
        np.array([0 if value is None else value for value in values], dtype),
        np.array([value is not None for value in values], np.bool_),
    )


def flat(collections, ordinals):
    offsets = np.cumsum([0, *map(len, collections)])
    return offsets, ordinals[np.array([at for each in collections for at in each], np.int64)]


def shuffled(version, data):
    """The same records, given in another order."""
    leaves, leaf_at = permuted(version["leaves"], data)
    recs, rec_at = permuted(version["recs"], data)
    values_at = {"Index": leaf_at, "KeyedIndex": rec_at}
    return version | {
        "leaves": leaves,
        "recs": [(values, leaf_at[at]) for values, at in recs],
        "Leaves": [[leaf_at[at] for at in each] for each in permuted(version["Leaves"], data)[0]],
        **{name: [[leaf_at[at] for at in each] for each in reversed(version[name])] for name in ("Bag", "Keyed")},
        **{
            name: [[(leaf_at[key], at[value]) for key, value in reversed(each)] for each in version[name]]
            for name, at in values_at.items()
        },
    }


def permuted(values, data):
    order = data.draw(st.permutations(range(len(values))))
    return [values[old] for old in order], {old: new for new, old in enumerate(order)}


def blob(write):
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


def content(state):
    """Populated records by type and ordinal, whatever the shards and widths are."""
    dumped = dump_state(state)["types"]
    return {
        name: {key: value for key, value in type_dump.items() if key in ("populated", "records")}
        for name, type_dump in dumped.items()
    }


@settings(max_examples=120)
@given(st.lists(versions, min_size=2, max_size=4), options)
def test_deltas_lead_to_the_next_snapshot_and_back(history, chosen):
    state = WriteState(SCHEMAS, **chosen)
    read = None
    for number, version in enumerate(history):
        if number:
            state.next_cycle()
        state.header_tags["version"] = str(number)
        populate(state, version)
        snapshot = ReadState.load(blob(state.write_snapshot))
        assert snapshot.header_tags["version"] == str(number)
        if read is not None:
            forward = read.apply(blob(state.write_delta))
            assert forward.tag == snapshot.tag == state.tag
            assert content(forward) == content(snapshot)
            assert forward.checksum() == snapshot.checksum()
            back = forward.apply(blob(state.write_reverse_delta))
            assert back.header_tags["version"] == str(number - 1)
            assert content(back) == content(read)
            assert back.tag == read.tag
            snapshot = forward
        read = snapshot


@settings(max_examples=60)
@given(st.lists(versions, min_size=3, max_size=3), st.booleans(), st.booleans())
def test_a_producer_that_restarts_goes_on_with_the_same_ordinals(history, fails_once, partitioned):
    first = WriteState(SCHEMAS, partitioned=partitioned)
    populate(first, history[0] | {"keep": False})
    read = ReadState.load(blob(first.write_snapshot))
    restarted = WriteState(SCHEMAS, partitioned=partitioned)
    restarted.restore(read, exact=True)
    assert restarted.previous_tag == first.tag
    # Nothing changed: nothing to send.
    populate(restarted, history[0] | {"keep": False})
    assert not restarted.has_changed()
    restarted.reset_to_last()
    populate(restarted, history[1])
    if fails_once:
        restarted.reset_to_last()
        populate(restarted, history[1])
    snapshot = ReadState.load(blob(restarted.write_snapshot))
    assert content(read.apply(blob(restarted.write_delta))) == content(snapshot)
    assert content(snapshot.apply(blob(restarted.write_reverse_delta))) == content(read)
    restarted.next_cycle()
    populate(restarted, history[2])
    following = ReadState.load(blob(restarted.write_snapshot))
    assert content(snapshot.apply(blob(restarted.write_delta))) == content(following)


@settings(max_examples=60)
@given(versions, versions, versions)
def test_a_reset_leaves_no_trace(first, failed, second):
    blobs = []
    for fails in (False, True):
        state = WriteState(SCHEMAS, tag=1 << 40)
        populate(state, first | {"keep": False})
        state.prepare()
        state.next_cycle(2 << 40)
        if fails:
            populate(state, failed)
            state.write_snapshot(io.BytesIO())
            state.reset_to_last(2 << 40)
        populate(state, second)
        blobs.append([blob(write) for write in (state.write_snapshot, state.write_delta, state.write_reverse_delta)])
    assert blobs[0] == blobs[1]


@settings(max_examples=80)
@given(st.lists(versions, min_size=1, max_size=3), options)
def test_columns_and_single_records_give_the_same_blobs(history, chosen):
    states = [WriteState(SCHEMAS, tag=7 << 40, **chosen) for _ in range(2)]
    for number, version in enumerate(history):
        add_by_columns(states[0], resolved(version))
        add_one_by_one(states[1], resolved(version))
        for name in ("write_snapshot", "write_delta", "write_reverse_delta"):
            assert blob(getattr(states[0], name)) == blob(getattr(states[1], name)), name
        for state in states:
            state.next_cycle(number + 8 << 40)


@settings(max_examples=60)
@given(st.lists(versions, min_size=2, max_size=4), st.data())
def test_canonical_order_does_not_depend_on_the_order_given_nor_on_restarts(history, data):
    going = WriteState(SCHEMAS, order="canonical", tag=1 << 40)
    read = None
    for number, version in enumerate(history):
        tag = number + 1 << 40
        if number:
            going.next_cycle(tag)
        version = resolved(version)
        add_by_columns(going, version)
        other = WriteState(SCHEMAS, order="canonical", tag=tag)
        if read is not None:
            other.restore(read, tag)
        add_by_columns(other, shuffled(version, data))
        snapshot = blob(going.write_snapshot)
        assert same_blob(snapshot, blob(other.write_snapshot)) is None
        if read is not None:
            assert same_blob(blob(going.write_delta), blob(other.write_delta)) is None
            assert same_blob(blob(going.write_reverse_delta), blob(other.write_reverse_delta)) is None
        read = ReadState.load(snapshot)

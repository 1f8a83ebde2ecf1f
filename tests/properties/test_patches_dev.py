"""Patching a chain is patching plain dicts, whatever the records, keys, paths and values, and by whichever way."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.compare.diff import record_value
from deltaic.compare.keys import key_values
from deltaic.errors import PatchConflictError
from deltaic.producer import Producer, count_up, patching
from deltaic.producer.patch_records import PatchRules
from deltaic.producer.references import ReferenceCounts
from deltaic.schema.model import Model
from deltaic.wire.patches import ABSENT, Operation, Patch, PatchBatch
from tests.properties.patch_model import Plain, Refused, canonical, found, taken_apart

SCHEMAS = """
String { string value; }
Integer { int value; }
Award { String name; int year; }
SetOfAward Set<Award> @HashKey(name.value);
SetOfString Set<String> @HashKey(value);
Rating { double score; String by; }
MapOfStringToRating Map<String, Rating> @HashKey(value);
MapOfIntegerToString Map<Integer, String> @HashKey(value);
Actor { String name; int age; }
ListOfActor List<Actor>;
ListOfString List<String>;
Studio { String name; Actor head; }
Movie @PrimaryKey(id, part) {
  int id; String part; String title; string code; int year; long views; float rate; double mass; boolean seen;
  bytes raw;
  Studio studio; ListOfActor cast; ListOfString tags; SetOfString genres; SetOfAward awards;
  MapOfStringToRating ratings; MapOfIntegerToString counts;
}
"""
MODEL = Model.parse(SCHEMAS)

texts = st.sampled_from(["", "a", "b", "ä", "🎬", "longer text"])
numbers = st.integers(-3, 3)
scores = st.sampled_from([0.5, -0.0, 1e300])
actors = st.fixed_dictionaries({}, optional={"name": texts, "age": numbers})
studios = st.fixed_dictionaries({}, optional={"name": texts, "head": actors})
ratings = st.fixed_dictionaries({}, optional={"score": scores, "by": texts})
awards = st.fixed_dictionaries({"name": texts}, optional={"year": numbers})
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "title": texts,
    "code": texts,
    "year": numbers,
    "views": st.integers(-(2**40), 2**40),
    "rate": st.sampled_from([0.5, -0.0, 2.0]),
    "mass": scores,
    "seen": st.booleans(),
    "raw": st.binary(max_size=3),
    "studio": studios,
    "cast": st.lists(actors, max_size=3),
    "tags": st.lists(texts, max_size=3),
    "genres": st.lists(texts, max_size=3, unique=True),
    "awards": st.lists(awards, max_size=2, unique_by=lambda award: award["name"]),
    "ratings": st.dictionaries(texts, ratings, max_size=2),
    "counts": st.dictionaries(numbers, texts, max_size=2),
}
keys = st.tuples(st.integers(0, 2), st.sampled_from(["x", "y"]))
indices = st.integers(0, 3)


@st.composite
def records(draw: Any, key: Any = None) -> dict[str, Any]:
    key = draw(keys) if key is None else key
    found = draw(st.fixed_dictionaries({}, optional={name: st.none() | values for name, values in FIELDS.items()}))
    return {"id": key[0], "part": key[1], **found}


@st.composite
def places(draw: Any) -> tuple[str, st.SearchStrategy[Any], bool]:
    """A path with elements bound, what it can be set to, and whether it can be null."""
    text = draw(texts)
    quoted = '{"' + text + '"}'
    index, number = draw(indices), draw(numbers)
    options: list[tuple[str, st.SearchStrategy[Any], bool]] = [
        *((name, values, True) for name, values in FIELDS.items()),
        ("studio.name", texts, True),
        ("studio.head", actors, True),
        ("studio.head.name", texts, True),
        ("studio.head.age", numbers, True),
        (f"cast[{index}]", actors, False),
        (f"cast[{index}].name", texts, True),
        (f"cast[{index}].age", numbers, True),
        ("cast[0:2].age", numbers, True),
        ("cast[0,1].name", texts, True),
        (f"tags[{index}]", texts, False),
        (f"tags[{index}:{index + 2}]", st.lists(texts, max_size=3), False),
        (f"genres{quoted}", st.just(text), False),
        (f"awards{quoted}", st.fixed_dictionaries({"name": st.just(text)}, optional={"year": numbers}), False),
        (f"awards{quoted}.year", numbers, True),
        (f"ratings{quoted}", ratings, False),
        (f"ratings{quoted}.score", scores, True),
        (f"ratings{quoted}.by", texts, True),
        (f'counts{{"{number}"}}', texts, False),
    ]
    return draw(st.sampled_from(options))


@st.composite
def patches(draw: Any) -> Patch:
    key = draw(keys)
    kind = draw(st.sampled_from(["set"] * 8 + ["delete", "delete", "put", "remove"]))
    if kind == "put":
        return Patch("Movie", key, value=draw(records(key)), operation=Operation.PUT)
    if kind == "remove":
        return Patch("Movie", key, operation=Operation.REMOVE)
    path, values, nullable = draw(places())
    if path.startswith("awards{") and path.endswith(".year") and kind == "set":
        return Patch(
            "Movie", key, path.removesuffix(".year"), draw(st.fixed_dictionaries({"name": st.just(path[8:-7])}))
        )
    if kind == "delete":
        return Patch("Movie", key, path, operation=Operation.DELETE)
    value = draw(st.none() | values) if nullable else draw(values)
    return Patch("Movie", key, path, value)


def produced(folder: Any, name: str, rows: list[dict[str, Any]]) -> Producer:
    producer = Producer(str(folder / name), MODEL, versions=count_up)
    producer.publish(rows, type_name="Movie")
    return producer


def content(producer: Producer) -> dict[Any, Any]:
    state = producer.state
    assert state is not None
    ordinals = state["Movie"].populated.ordinals()
    values = [record_value(state, "Movie", ordinal) for ordinal in ordinals.tolist()]
    found_keys = key_values(state, "Movie", ordinals) if values else []
    assert len(set(found_keys)) == len(found_keys), "one record for each key"
    return {key: canonical(value) for key, value in zip(found_keys, values, strict=True)}


def no_orphans(producer: Producer) -> None:
    """Every record that is no root is referred to."""
    state = producer.state
    assert state is not None
    counting = ReferenceCounts()
    counting.advance(state)
    counts = counting.copy()
    for name, data in state.types.items():
        if name != "Movie":
            for ordinal in data.populated.ordinals().tolist():
                assert counts[name][ordinal] > 0, (name, ordinal)


@given(
    st.lists(records(), max_size=5, unique_by=lambda record: (record["id"], record["part"])),
    st.lists(st.lists(patches(), min_size=1, max_size=8), min_size=1, max_size=3),
    st.booleans(),
)
@settings(max_examples=80, phases=[__import__("hypothesis").Phase.generate], report_multiple_bugs=False, deadline=None)
def test_patching_a_chain_is_patching_plain_dicts(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], batches: list[list[Patch]], by_record: bool
) -> None:
    rows = [*rows, {"id": 9, "part": "z", "title": "stays", "cast": [{"name": "a"}], "tags": ["a"]}]
    folder = tmp_path_factory.mktemp("patches")
    plain = Plain({(row["id"], row["part"]): row for row in rows})
    with pytest.MonkeyPatch.context() as monkey, produced(folder, "chain", rows) as producer:
        if by_record:
            monkey.setattr(patching, "takes", lambda *_: False)
        for batch in batches:
            fitting = []
            for patch in batch:
                try:
                    plain.patch(patch)
                    fitting.append(patch)
                except Refused:
                    with pytest.raises(PatchConflictError):
                        patching.patch(producer, [*fitting, patch])
            read = PatchBatch.from_bytes(PatchBatch.of(fitting).to_bytes()) if fitting else PatchBatch()
            report = patching.patch(producer, read)
            assert report.applied == len(fitting)
            wanted = {key: canonical(record) for key, record in plain.records.items()}
            assert content(producer) == wanted
            no_orphans(producer)


@given(
    st.lists(records(), min_size=1, max_size=5, unique_by=lambda record: (record["id"], record["part"])),
    st.lists(patches(), min_size=1, max_size=12),
    st.data(),
)
@settings(max_examples=80, phases=[__import__("hypothesis").Phase.generate], report_multiple_bugs=False, deadline=None)
def test_patches_that_expect_something_else_are_passed_over_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], batch: list[Patch], data: Any
) -> None:
    folder = tmp_path_factory.mktemp("skipped")
    plain = Plain({(row["id"], row["part"]): row for row in rows})
    given_patches, passed = [], 0
    for patch in batch:
        if patch.operation is Operation.SET and not any(mark in str(patch.path) for mark in ":,"):
            record = plain.records.get(patch.key)
            there = None if record is None else found(record, taken_apart(str(patch.path)))
            expected = data.draw(st.sampled_from([there, ABSENT, None]))
            if isinstance(expected, str | int | float | bytes | type(ABSENT) | None):
                patch = Patch("Movie", patch.key, patch.path, patch.value, previous=expected)
        given_patches.append(patch)
        try:
            plain.patch(patch)
        except Refused:
            passed += 1
    with produced(folder, "chain", rows) as producer:
        report = patching.patch(producer, given_patches, rules=PatchRules("skip", "skip"))
        assert report.skipped == passed
        assert report.applied == len(given_patches) - passed
        assert content(producer) == {key: canonical(record) for key, record in plain.records.items()}

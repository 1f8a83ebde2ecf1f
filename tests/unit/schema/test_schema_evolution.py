"""Changes between models, and what they do to readers (hollow-blob.md, section 15)."""

import pytest

from deltaic.errors import SchemaError
from deltaic.schema.evolve import ChangeKind, Effect, common_schema, common_schemas, compare
from deltaic.schema.text import parse_schemas

OLD = """
A @PrimaryKey(a) { int a; long b; R r; } R { string value; } Q { string value; }
L List<R>; S Set<R> @HashKey(value); M Map<R,Q>;
"""


def changed(old_text, new_text, text=OLD):
    assert old_text in text
    return compare(parse_schemas(text), parse_schemas(text.replace(old_text, new_text)))


@pytest.mark.parametrize(
    ("old_text", "new_text", "expected"),
    [
        ("long b;", "long b; int c;", [(ChangeKind.FIELD_ADDED, "A.c", None, "int", Effect.NONE)]),
        ("long b; ", "", [(ChangeKind.FIELD_REMOVED, "A.b", "long", None, Effect.STALE)]),
        ("int a; long b;", "long b; int a;", [(ChangeKind.FIELD_MOVED, "A.b", "1", "0", Effect.NONE)]),
        ("long b;", "int b;", [(ChangeKind.FIELD_RETYPED, "A.b", "long", "int", Effect.BREAKS)]),
        ("R r;", "string r;", [(ChangeKind.FIELD_RETYPED, "A.r", "R", "string", Effect.BREAKS)]),
        ("R r;", "Q r;", [(ChangeKind.FIELD_REREFERENCED, "A.r", "R", "Q", Effect.BREAKS)]),
        ("L List<R>;", "", [(ChangeKind.TYPE_REMOVED, "L", None, None, Effect.STALE)]),
        ("L List<R>;", "L List<R>; N { int n; }", [(ChangeKind.TYPE_ADDED, "N", None, None, Effect.NONE)]),
        ("L List<R>", "L List<Q>", [(ChangeKind.ELEMENT_CHANGED, "L", "R", "Q", Effect.BREAKS)]),
        ("L List<R>", "L Set<R>", [(ChangeKind.KIND_CHANGED, "L", "LIST", "SET", Effect.BREAKS)]),
        ("Map<R,Q>", "Map<Q,Q>", [(ChangeKind.MAP_KEY_CHANGED, "M", "R", "Q", Effect.BREAKS)]),
        ("Map<R,Q>", "Map<R,R>", [(ChangeKind.MAP_VALUE_CHANGED, "M", "Q", "R", Effect.BREAKS)]),
        (" @HashKey(value)", "", [(ChangeKind.HASH_KEY_CHANGED, "S", "value", None, Effect.BREAKS)]),
        ("Map<R,Q>", "Map<R,Q> @HashKey(value)", [(ChangeKind.HASH_KEY_CHANGED, "M", None, "value", Effect.BREAKS)]),
        ("PrimaryKey(a)", "PrimaryKey(a, b)", [(ChangeKind.PRIMARY_KEY_CHANGED, "A", "a", "a, b", Effect.STALE)]),
    ],
)
def test_each_change_is_named_with_its_effect(old_text, new_text, expected):
    changes = changed(old_text, new_text)
    assert [(c.kind, c.where, c.old, c.new, c.effect) for c in changes] == expected
    assert bool(changes.breaks_readers) == (expected[0][4] is Effect.BREAKS)
    assert all(change.reason for change in changes)


def test_an_inserted_field_moves_nobody():
    changes = changed("int a;", "int first; int a;")
    assert [change.kind for change in changes] == [ChangeKind.FIELD_ADDED]


def test_the_fewest_fields_are_called_moved():
    old = parse_schemas("A { int a; int b; int c; int d; int e; }")
    new = parse_schemas("A { int e; int a; int b; int c; int d; }")
    assert [change.where for change in compare(old, new).of(ChangeKind.FIELD_MOVED)] == ["A.e"]


def test_the_order_of_types_is_no_change():
    assert len(compare(parse_schemas("A { int a; } B { int b; }"), parse_schemas("B { int b; } A { int a; }"))) == 0


def test_added_removed_and_changed_types_are_listed():
    changes = compare(parse_schemas("A { int a; } B { int b; }"), parse_schemas("C { int c; } B { long b; int d; }"))
    assert (changes.types_added, changes.types_removed, changes.types_changed) == (("C",), ("A",), ("B",))


def test_the_recorded_evolution_breaks_no_reader(hollow_fixtures):
    texts = [(hollow_fixtures / f"schema-evolution/schema-{version}.txt").read_text() for version in (1, 3, 5)]
    first, second, third = (parse_schemas(text) for text in texts)
    for old, new in ((first, second), (second, third)):
        assert len(compare(old, new)) > 0
        assert compare(old, new).breaks_readers == ()
        common_schemas(old, new)


def test_the_common_schema_has_the_shared_fields_in_the_new_order():
    (old,) = parse_schemas("A @PrimaryKey(b) { int a; long b; R gone; string c; }")
    (new,) = parse_schemas("A @PrimaryKey(b) { string c; int added; int a; long b; }")
    (expected,) = parse_schemas("A @PrimaryKey(b) { string c; int a; long b; }")
    assert common_schema(old, new) == expected


def test_the_common_schema_has_a_key_only_if_both_have_it():
    (old,) = parse_schemas("A @PrimaryKey(b) { int a; long b; }")
    (new,) = parse_schemas("A @PrimaryKey(a) { int a; long b; }")
    common = common_schema(old, new)
    assert common.primary_key is None and len(common.fields) == 2


def test_a_new_hash_key_is_compatible_with_the_chain():
    (old,) = parse_schemas("S Set<A>;")
    (new,) = parse_schemas("S Set<A> @HashKey(x);")
    assert common_schema(old, new) == new


def test_common_types_keep_the_new_order_and_leave_new_types_out():
    old = parse_schemas("A { int a; } B { int b; }")
    new = parse_schemas("B { int b; } New { int n; } A { int a; }")
    assert common_schemas(old, new).names == ("B", "A")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("A { int a; }", "A { long a; }", r"A.a: field retyped \(int → long\)"),
        ("A { R a; }", "A { Q a; }", r"A.a: field refers to another type \(R → Q\)"),
        ("A { int a; }", "A List<B>;", r"A: kind changed \(OBJECT → LIST\)"),
        ("A List<B>;", "A List<C>;", r"A: element type changed"),
        ("A { int a; long b; }", "A { long a; int b; }", r"A.a: .*; A.b: "),
        ("A { int a; }", "B { int a; }", r"types A and B have nothing in common"),
    ],
)
def test_incompatible_types_are_refused_with_every_reason(old, new, message):
    (before,), (after,) = parse_schemas(old), parse_schemas(new)
    with pytest.raises(SchemaError, match=message):
        common_schema(before, after)


def test_a_swap_of_thousands_of_fields_is_compared_at_once():
    names = [f"f{number}" for number in range(20_000)]
    old, new = (
        parse_schemas("A {" + "".join(f"int {name};" for name in order) + "}") for order in (names, names[::-1])
    )
    assert len(compare(old, new)) == 19_999

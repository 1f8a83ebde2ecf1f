"""Addresses: what a reference means in a registry, and how people write it."""

import pytest

from deltaic.errors import InputError, RegistryError
from deltaic.schema.registry import Registry, ValueType
from deltaic.wire.references import (
    LARGEST,
    Address,
    All,
    Index,
    Indices,
    Key,
    MapKey,
    Parent,
    Range,
    Ranges,
    Reference,
    Unknown,
    name_field,
    resolve,
    translate,
)

FIELDS = {
    "Movie.title": ValueType.STRING,
    "Movie.cast[].name": ValueType.STRING,
    "Movie.ratings{}": ValueType.FLOAT64,
    "Movie.tags": ValueType.LIST,
    "Movie.extra": ValueType.MAP,
    "data{}": ValueType.ANY,
    "name.first": ValueType.STRING,
    "items[]": ValueType.MAP,
    "matrix[][]": ValueType.FLOAT64,
    "[].price": ValueType.FLOAT64,
}


@pytest.fixture
def registry():
    registry = Registry()
    registry.register_many(FIELDS.items())
    return registry


def refused(work, *args):
    with pytest.raises(RegistryError) as caught:
        work(*args)
    return caught.value


TEXTS = {
    "Movie.title": (Key("Movie"), Key("title")),
    "Movie.cast[3].name": (Key("Movie"), Key("cast"), Index(3), Key("name")),
    "Movie.cast[].name": (Key("Movie"), Key("cast"), All("[]"), Key("name")),
    'Movie.ratings{"imdb"}': (Key("Movie"), Key("ratings"), MapKey("imdb")),
    "items[2:5].x": (Key("items"), Range(2, 5), Key("x")),
    "items[:].x": (Key("items"), Range(0, LARGEST), Key("x")),
    "items[7:]": (Key("items"), Range(7, LARGEST)),
    "items[1,4,2]": (Key("items"), Indices((1, 4, 2))),
    "items[3,]": (Key("items"), Indices((3,))),
    "items[8:9,0:2]": (Key("items"), Ranges(((8, 9), (0, 2)))),
    "items[2:5,]": (Key("items"), Ranges(((2, 5),))),
    'data{"a \\"quoted\\" }.[ key\\\\"}[3]{""}': (Key("data"), MapKey('a "quoted" }.[ key\\'), Index(3), MapKey("")),
    "a\\.b.c\\[d": (Key("a.b"), Key("c[d")),
    "été.名前": (Key("été"), Key("名前")),
    "[1].price": (Index(1), Key("price")),
}


@pytest.mark.parametrize(("text", "steps"), TEXTS.items())
def test_an_address_is_written_as_it_is_read(text, steps):
    assert Address.parse(text).steps == steps
    assert str(Address(steps)) == text


def test_a_side_of_a_range_that_is_left_out_is_the_end_of_what_can_be_named():
    assert Address.parse("items[:7]").steps[1] == Range(0, 7)
    assert Address.parse("items[:7,9:]").steps[1] == Ranges(((0, 7), (9, LARGEST)))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "InvalidPath"),
        ("a..b", "InvalidPath"),
        ("a[", "InvalidPath"),
        ("a[x]", "InvalidPath"),
        ("a[01]", "InvalidPath"),
        ("a[-1]", "InvalidPath"),
        ("a[1,2:3]", "InvalidPath"),
        ("a[,]", "InvalidPath"),
        ("a[1]b", "InvalidPath"),
        ("a{k}", "InvalidPath"),
        ("a{'k'}", "InvalidPath"),
        ('a{"k}', "InvalidPath"),
        ('a{"\\x"}', "InvalidPath"),
        ("a\tb", "InvalidPath"),
        ("a[5:5]", "InvalidParam"),
        ("a[5:2]", "InvalidParam"),
        ("a[1,1]", "InvalidParam"),
        ("a[0:5,4:9]", "InvalidParam"),
        ("a[4194304]", "VarintOverflow"),
        ('a{"\\ud800"}', "InvalidUtf8"),
        ('a{"' + "k" * 65_536 + '"}', "InvalidParam"),
        ("a" + "[1]" * 33, "InvalidPath"),
    ],
)
def test_what_is_no_address_is_refused(text, code):
    assert refused(Address.parse, text).code == code


def test_a_path_and_selectors_come_from_a_text():
    address = Address.parse('Movie.cast[3].roles[].names{"en"}[2:4]')
    assert address.path == "Movie.cast[].roles[].names{}[]"
    # An earlier placeholder that stays open takes the range of everything.
    assert address.selectors == (Index(3), Range(0, LARGEST), MapKey("en"), Range(2, 4))
    assert Address.parse("matrix[3][]").selectors == (Index(3),)
    assert Address.parse("a.b").selectors == ()


def test_all_entries_of_a_map_before_a_selector_cannot_be_said():
    assert refused(lambda: Address.parse("data{}[3]").selectors).code == "UnboundParam"


def test_one_place_or_several():
    assert Address.parse('a[1].b{"k"}').single
    for several in ("a[]", "a{}", "a[1:2]", "a[1,]", "a[1:2,]"):
        assert not Address.parse(several).single


def test_the_address_inside_a_record_is_without_its_type():
    assert str(Address.parse("Movie.cast[3].name").below("Movie")) == "cast[3].name"
    with pytest.raises(InputError):
        Address.parse("Movie.title").below("Actor")
    with pytest.raises(InputError):
        Address(()).below("Movie")


@pytest.mark.parametrize(
    "text",
    ["Movie.title", "Movie.cast[3].name", "Movie.cast[].name", 'Movie.ratings{"imdb"}', "Movie.cast[0:5].name",
     "Movie.tags[2]", 'Movie.tags[2]{"deeper"}', 'Movie.extra{"k"}[1]', 'data{"k"}[3]{"d"}', "matrix[4][1,2]"],
)  # fmt: skip
def test_a_field_is_named_by_its_text_and_resolves_to_it(registry, text):
    reference = name_field(text, registry.view)
    assert str(resolve(reference, registry.view)) == text


def test_a_text_that_names_no_field_is_refused(registry):
    view = registry.view
    assert refused(name_field, "Movie.nothing", view).code == "UnknownField"
    assert refused(name_field, "Movie.cast[3]", view).code == "UnknownField"
    assert refused(name_field, "Movie.title[0]", view).code == "UnboundParam"
    assert refused(name_field, 'Movie.tags{"k"}', view).code == "ParamKindMismatch"
    assert refused(name_field, "Movie.extra[1]", view).code == "ParamKindMismatch"
    assert refused(name_field, "Movie.title", view, 5).code == "UnknownVersion"


def test_the_type_of_what_is_at_an_address_is_known(registry):
    view = registry.view
    assert resolve(name_field("Movie.title", view), view).type == ValueType.STRING
    assert resolve(name_field("Movie.tags[2]", view), view).type == ValueType.ANY


def test_parents_come_before_the_path_and_their_placeholders_are_bound_first(registry):
    index = registry.lookup
    reference = Reference(
        0, index("name.first"), (Parent(index("Movie.cast[].name")), Parent(index("items[]")), Index(2))
    )
    assert str(resolve(reference, registry.view)) == "Movie.cast[2].name.items[].name.first"
    below = Reference(0, index("[].price"), (Parent(index("Movie.tags")), Index(1)))
    assert str(resolve(below, registry.view)) == "Movie.tags[1].price"


def test_the_three_ways_not_to_know_a_reference_are_told_apart(registry):
    view = registry.view
    assert refused(resolve, Reference(1, 0), view).code == "UnknownVersion"
    assert refused(resolve, Reference(0, 99), view).code == "UnknownField"
    registry.optimize(force=True)
    registry.evict(0)
    assert refused(resolve, Reference(0, 0), registry.view).code == "VersionEvicted"
    # Who holds the older view goes on with it.
    assert str(resolve(Reference(0, 0), view)) == "Movie.title"


def test_errors_of_resolving_come_in_the_order_of_the_page(registry):
    view, critical = registry.view, Unknown(7, b"")
    cast, title = registry.lookup("Movie.cast[].name"), registry.lookup("Movie.title")
    everything_wrong = (Parent(98), critical, MapKey("k"))
    assert refused(resolve, Reference(1, 99, everything_wrong), view).code == "UnknownVersion"
    assert refused(resolve, Reference(0, 99, everything_wrong), view).code == "UnknownField"
    error = refused(resolve, Reference(0, cast, everything_wrong), view)
    assert (error.code, error.version, error.index) == ("UnknownCriticalParam", 0, cast)
    assert refused(resolve, Reference(0, cast, (Parent(98), MapKey("k"))), view).code == "UnknownField"
    assert refused(resolve, Reference(0, cast, (MapKey("k"),)), view).code == "ParamKindMismatch"
    ratings = registry.lookup("Movie.ratings{}")
    assert refused(resolve, Reference(0, ratings, (Index(0),)), view).code == "ParamKindMismatch"
    assert refused(resolve, Reference(0, title, (Index(0),)), view).code == "UnboundParam"
    assert refused(resolve, Reference(0, title, (Unknown(127, b"x"),)), view).code == "UnknownCriticalParam"
    assert resolve(Reference(0, title, (Unknown(128, b"x"),)), view).path == "Movie.title"


def test_a_reference_is_translated_with_its_parents_and_back():
    registry = Registry()
    registry.register_many((f"field {number}", ValueType.ANY) for number in range(140))
    registry.touch(135, 20_000)
    assert registry.optimize() == 1
    reference = Reference(0, 135, (Parent(135), Unknown(200, b"x"), Index(4)))
    moved = translate(reference, registry.view, 1)
    assert moved.index < 128 and moved.parents == (moved.index,) and moved.parameters[1:] == reference.parameters[1:]
    assert resolve(moved, registry.view) == resolve(reference, registry.view)
    assert translate(moved, registry.view, 0) == reference


def test_a_field_that_another_version_has_not_or_with_another_type_is_not_translated():
    registry = Registry()
    registry.register("a", ValueType.INT64)
    registry.register("b", ValueType.INT64)
    registry.retire("b")
    registry.optimize(force=True)
    assert refused(translate, Reference(0, 1), registry.view, 1).code == "UnknownField"
    registry.register("b", ValueType.STRING)
    assert refused(translate, Reference(0, 1), registry.view, 1).code == "UnknownField"
    assert refused(translate, Reference(0, 0, (Parent(1),)), registry.view, 1).code == "UnknownField"
    assert refused(translate, Reference(0, 0), registry.view, 2).code == "UnknownVersion"

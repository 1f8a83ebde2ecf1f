"""Bound paths: taken apart and put together again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.errors import RegistryError
from deltaic.wire.patches import field_text, join_place, split_place
from deltaic.wire.patches.places import ALL
from deltaic.wire.references import Index, Indices, MapKey, Range, Ranges

names = st.text(st.characters(min_codepoint=0x20, exclude_categories=["Cs"]), min_size=1, max_size=5).map(field_text)
numbers = st.integers(0, 4_194_302)
selectors = st.one_of(
    numbers.map(Index),
    st.tuples(numbers, st.integers(1, 5)).map(lambda pair: Range(pair[0], min(pair[0] + pair[1], 4_194_303))),
    st.lists(numbers, min_size=1, max_size=4, unique=True).map(lambda found: Indices(tuple(found))),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5).map(MapKey),
    st.just(Ranges(((0, 2), (5, 9)))),
    st.just(Ranges(((3, 4),))),
)


@given(st.lists(st.tuples(names, st.lists(selectors, max_size=2)), min_size=1, max_size=4))
def test_a_path_with_selectors_comes_back_as_it_was(parts: list[tuple[str, list[object]]]) -> None:
    path = ".".join(name + "".join("{}" if isinstance(one, MapKey) else "[]" for one in bound) for name, bound in parts)
    bound = tuple(one for _, each in parts for one in each)
    place = join_place(path, bound)
    assert split_place(place) == (path, bound)


@pytest.mark.parametrize(
    ("place", "path", "bound"),
    [
        ("title", "title", ()),
        ("cast[2].name", "cast[].name", (Index(2),)),
        ('ratings{"imdb"}', "ratings{}", (MapKey("imdb"),)),
        ("a[1:3]", "a[]", (Range(1, 3),)),
        ("a[1,4]", "a[]", (Indices((1, 4)),)),
        ("a[0:2,5:7]", "a[]", (Ranges(((0, 2), (5, 7))),)),
        ("a[].b", "a[].b", ()),
        ("a[].b[1]", "a[].b[]", (ALL, Index(1))),
        ('a{"}\\"."}[0]', "a{}[]", (MapKey('}".'), Index(0))),
        (r"a\.b\[\]", r"a\.b\[\]", ()),
    ],
)
def test_places_are_read_as_the_page_says(place: str, path: str, bound: tuple[object, ...]) -> None:
    assert split_place(place) == (path, bound)


@pytest.mark.parametrize(
    "place",
    ["", ".", "a.", "a..b", "a[", "a[x]", "a[1", "a[-1]", "a[1:]", "a[3:1]", "a[1,1]", "a[0:2,1:3]", "a[1,2:3]", "a{x}",
     'a{"x}', "a]b", "[0]", "a\x01", 'a{}.b{"k"}', "a[,]", "a[4194304]", "a[99999999]"],
)  # fmt: skip
def test_what_is_no_place_is_refused(place: str) -> None:
    with pytest.raises(RegistryError):
        split_place(place)


def test_a_selector_of_the_wrong_kind_cannot_be_put_into_a_path() -> None:
    with pytest.raises(RegistryError, match="does not fit"):
        join_place("a[]", (MapKey("x"),))
    assert join_place("a", (Index(1), MapKey("k"))) == 'a[1]{"k"}'

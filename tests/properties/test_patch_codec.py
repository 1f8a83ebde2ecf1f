"""Batches of random patches come back from bytes as they were; integers of any kind take the fewest bits."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaic.wire.patches import ABSENT, MISSING, Operation, Patch, PatchBatch, PatchColumn
from deltaic.wire.patches.bounds import DEFAULT_PATCH_LIMITS
from deltaic.wire.patches.column_read import BodyReader
from deltaic.wire.patches.column_write import integers
from deltaic.wire.vectors import VectorDelta

longs = st.integers(-(2**63), 2**63 - 1)
texts = st.text(max_size=6)
plain_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
scalars = st.one_of(st.none(), st.booleans(), longs, st.floats(), texts, st.binary(max_size=6))
nested = st.recursive(
    st.one_of(st.none(), st.booleans(), longs, st.floats(allow_nan=False), plain_texts, st.binary(max_size=4)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(plain_texts, inner, max_size=3),
    max_leaves=6,
)
places = st.sampled_from(
    ["title", "a.b", "cast[2].name", "cast[0].name", 'ratings{"x"}', "tags[1:4]", "tags[0,3]", "tags[0:1,4:6]", "c[].d"]
)
keys = st.one_of(longs, texts, st.tuples(st.integers(0, 9), texts), st.booleans(), st.binary(max_size=3))


@st.composite
def deltas(draw: Any) -> VectorDelta:
    indices = draw(st.lists(st.integers(0, 7), unique=True).map(sorted))
    words = draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(indices), max_size=len(indices)))
    found = np.array(indices, np.uint32), np.array(words, np.uint32)
    form = draw(st.sampled_from(["absolute", "relative", "prev"]))
    prev = found[1][::-1].copy() if form == "prev" else None
    return VectorDelta(8, *found, relative=form == "relative", prev=prev)


@st.composite
def patches(draw: Any) -> Patch:
    stamps = {
        "timestamp": draw(st.none() | st.integers(0, 2**64 - 1)),
        "source": draw(st.none() | st.just("eu") | texts),
    }
    if stamps["source"] == "":
        stamps["source"] = None
    previous = draw(st.one_of(st.just(MISSING), st.just(ABSENT), scalars))
    operation = draw(st.sampled_from(list(Operation)))
    if operation is Operation.VECTOR:
        return Patch("Movie", draw(keys), draw(places), draw(deltas()), operation=operation, **stamps)
    if operation.of_record:
        value = draw(st.dictionaries(plain_texts, nested, max_size=3)) if operation is Operation.PUT else None
        return Patch(
            draw(st.sampled_from(["Movie", "Film"])), draw(keys), "", value, previous, operation=operation, **stamps
        )
    value = draw(scalars | nested) if operation is Operation.SET else None
    return Patch("Movie", draw(keys), draw(places), value, previous, operation=operation, **stamps)


def told(patch: Patch) -> str:
    """A text that equal patches share: VectorDelta and NaN have no equality of their own."""
    value: Any = patch.value
    if isinstance(value, VectorDelta):
        empty = not len(value.indices)
        parts = [
            value.indices.tolist(),
            value.words.tolist(),
            None if value.prev is None or empty else value.prev.tolist(),
        ]
        value = [value.dims, *parts, value.relative and not empty]
    return repr((patch.type_name, patch.key, patch.path, value, patch.previous, patch.timestamp, patch.source))


@given(st.lists(patches(), max_size=20), st.booleans())
@settings(max_examples=300)
def test_what_comes_out_of_the_bytes_is_what_went_in(given_patches: list[Patch], compress: bool) -> None:
    batch = PatchBatch.of(given_patches)
    read = PatchBatch.from_bytes(batch.to_bytes(compress=compress)) if given_patches else PatchBatch()
    assert [told(patch) for patch in read] == [told(patch) for patch in batch]
    assert sorted(map(told, batch)) == sorted(map(told, given_patches))
    again = PatchBatch.from_bytes(read.to_bytes(compress=compress)) if given_patches else read
    assert [told(patch) for patch in again] == [told(patch) for patch in read]


@given(st.lists(patches(), max_size=20))
def test_patches_of_one_place_of_one_record_keep_their_order(given_patches: list[Patch]) -> None:
    def at(found: Any) -> dict[str, list[str]]:
        by_place: dict[str, list[str]] = {}
        for patch in found:
            head = str(patch.path).split(".")[0].split("[")[0].split("{")[0]
            by_place.setdefault(repr((patch.type_name, patch.key_parts, head)), []).append(told(patch))
        return by_place

    assert at(PatchBatch.of(given_patches)) == at(given_patches)


@given(st.lists(longs, min_size=1, max_size=50) | st.lists(st.integers(0, 9), min_size=1, max_size=50))
def test_integers_come_back_whatever_form_was_smallest(values: list[int]) -> None:
    out: list[bytes] = []
    integers(np.array(values, np.int64), out)
    reader = BodyReader(b"".join(out), "integers", DEFAULT_PATCH_LIMITS)
    assert reader.integers(len(values)).tolist() == values
    assert not reader.remaining
    width = (max(values) - min(values)).bit_length()
    assert len(b"".join(out)) <= 23 + (len(values) * width + 7) // 8


@given(st.lists(scalars, min_size=1, max_size=20), st.data())
def test_picked_rows_of_a_column_are_those_rows(values: list[Any], data: Any) -> None:
    column = PatchColumn.of(values)
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=20))
    assert repr(column.picked(np.array(rows, np.int64)).to_list()) == repr([values[row] for row in rows])

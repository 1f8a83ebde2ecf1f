"""Clauses answered from rows: Arrow's functions over the mapped columns of a split, exact for every type.

A clause on a path or a list is asked of each value inside, and a row matches if one of its values does.
"""

import decimal
import ipaddress
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from deltaic.table.query.bound import Between, BoundLeaf, Equal, InText, Near, Pattern, Present, Spaced
from deltaic.table.query.columns import Target
from deltaic.table.query.resolve import tokens_of
from deltaic.table.search.arrays import arrow_array
from deltaic.table.search.edits import within_distance
from deltaic.table.search.patterns import glob, pattern_regex
from deltaic.table.split.mapping import element_type, is_list

Mask = NDArray[np.bool_]


def leaf_mask(leaf: BoundLeaf, target: Target, column: pa.ChunkedArray | pa.Array) -> Mask:
    """Which rows of a column match a clause on it."""
    if isinstance(leaf, Present) and not target.path:
        return _as_mask(pc.is_valid(column))
    values, parents = values_of(column, target)
    found = _values_mask(leaf, target, values)
    if parents is None:
        return found
    mask = np.zeros(len(column), np.bool_)
    mask[parents[found]] = True
    return mask


def values_of(column: pa.ChunkedArray | pa.Array, target: Target) -> tuple[pa.Array, NDArray[np.int64] | None]:
    """The values that a target has in a column, and for each the row it is in; None if that is its own place."""
    array = _one_array(column)
    if target.kind == "json" and target.path:
        return _json_leaves(array, target.path)
    if not target.path and not target.many:
        return array, None
    parents, path, here = np.arange(len(array), dtype=np.int64), target.path, 0
    while True:
        array = _plain(array)
        if is_list(array.type):
            array, inner = _flattened(array)
            parents = parents[inner]
        elif here == len(path):
            return array, parents
        elif pa.types.is_struct(array.type):
            array, here = pc.struct_field(array, [path[here]]), here + 1
        else:
            array, inner = _map_values(array, path[here])
            parents, here = parents[inner], here + 1


def comparable(target: Target, array: pa.Array) -> pa.Array:
    """An array in the form in which `literals` writes values of its kind."""
    array = _plain(array)
    kind, arrow = target.kind, array.type
    if kind == "float":
        # The sign of zero does not count.
        return pc.add(array.cast(pa.float64()), 0.0)
    if kind == "integer":
        return array.cast(pa.uint64() if pa.types.is_unsigned_integer(arrow) else pa.int64())
    if kind == "date":
        return array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    if kind in ("timestamp", "time", "duration"):
        return array.view(pa.int32() if arrow.bit_width == 32 else pa.int64()).cast(pa.int64())
    if kind in ("string", "text") and not pa.types.is_string(arrow):
        return array.cast(pa.large_string())
    if kind == "binary":
        return array.cast(pa.large_binary())
    return array


def _values_mask(leaf: BoundLeaf, target: Target, values: pa.Array) -> Mask:
    if isinstance(leaf, Present):
        return _as_mask(pc.is_valid(values))
    if target.kind == "json":
        return _tested(values, _json_test(leaf, target))
    if target.kind == "ip":
        return _tested(values, _address_test(leaf))
    if isinstance(leaf, InText | Spaced) or target.tokenizer is not None:
        return _tested(values, _words_test(leaf, target))
    array = comparable(target, values)
    if isinstance(leaf, Equal):
        found = _equal(target, array, leaf.values)
    elif isinstance(leaf, Between):
        found = _between(target, array, leaf)
    elif isinstance(leaf, Pattern):
        try:
            found = pc.match_substring_regex(array, rf"\A(?s:{pattern_regex(leaf.pieces)})\z")
        except pa.ArrowInvalid:
            # Too large for RE2.
            return _tested(array, glob(leaf.pieces))
    elif isinstance(leaf, Near):
        return _tested(array, lambda text: within_distance(text, leaf.text, leaf.distance))
    else:
        raise AssertionError(leaf)
    return _as_mask(found)


def _equal(target: Target, array: pa.Array, values: tuple[Any, ...]) -> pa.Array:
    wanted = pa.array([_scalar(target, value) for value in values], array.type)
    if len(wanted) == 1:
        return pc.equal(array, wanted[0])
    return pc.is_in(array, value_set=wanted)


def _between(target: Target, array: pa.Array, leaf: Between) -> pa.Array:
    found = None
    if leaf.low is not None:
        compare = pc.greater_equal if leaf.include_low else pc.greater
        found = compare(array, pa.scalar(_scalar(target, leaf.low), array.type))
    if leaf.high is not None:
        compare = pc.less_equal if leaf.include_high else pc.less
        below = compare(array, pa.scalar(_scalar(target, leaf.high), array.type))
        found = below if found is None else pc.and_(found, below)
    return pc.is_valid(array) if found is None else found


def _scalar(target: Target, value: Any) -> Any:
    if target.kind == "decimal":
        with decimal.localcontext(prec=100):
            return decimal.Decimal(value).scaleb(-target.type.scale)
    return value


def _as_mask(found: pa.ChunkedArray | pa.Array) -> Mask:
    filled = pc.fill_null(found, False)
    if isinstance(filled, pa.ChunkedArray):
        return np.asarray(filled.to_numpy(), np.bool_)
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)


def _tested(values: pa.Array, test: Callable[[Any], bool]) -> Mask:
    """A test in Python, once for each distinct value."""
    if not isinstance(values, pa.DictionaryArray):
        try:
            values = values.dictionary_encode()
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
            answered = (value is not None and test(value) for value in values.to_pylist())
            return np.fromiter(answered, np.bool_, len(values))
    answers = np.fromiter(
        (value is not None and test(value) for value in values.dictionary.to_pylist()), np.bool_, len(values.dictionary)
    )
    places = values.indices
    known = np.asarray(pc.is_valid(places).to_numpy(zero_copy_only=False), np.bool_)
    filled = pc.fill_null(places, 0).to_numpy(zero_copy_only=False)
    return known & answers[filled] if len(answers) else np.zeros(len(values), np.bool_)


def _address_test(leaf: BoundLeaf) -> Callable[[Any], bool]:
    def number(text: str) -> int | None:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            return None
        return int(address) + (0xFFFF << 32 if address.version == 4 else 0)

    def test(text: str) -> bool:
        found = number(text)
        if found is None:
            return False
        if isinstance(leaf, Equal):
            return found in leaf.values
        assert isinstance(leaf, Between)
        return (leaf.low is None or found >= leaf.low) and (leaf.high is None or found <= leaf.high)

    return test


def _words_test(leaf: BoundLeaf, target: Target) -> Callable[[Any], bool]:
    """The clause asked of the words of a text."""
    formed = glob(leaf.pieces) if isinstance(leaf, Pattern) else None

    def test(text: str) -> bool:
        tokens = tokens_of(target, text)
        if isinstance(leaf, Equal):
            return False
        if formed is not None:
            return any(formed(word) for _, word in tokens)
        if isinstance(leaf, Near):
            return any(within_distance(word, leaf.text, leaf.distance) for _, word in tokens)
        assert isinstance(leaf, InText | Spaced)
        places = {(at, word) for at, word in tokens}
        ways = leaf.spacings if isinstance(leaf, Spaced) else (leaf,)
        return any(
            word == way.tokens[0][1] and all((at + offset, one) in places for offset, one in way.tokens)
            for way in ways
            for at, word in tokens
        )

    return test


def _json_test(leaf: BoundLeaf, target: Target) -> Callable[[Any], bool]:
    """The clause asked of a leaf of JSON, which comes as JSON text."""
    words = _words_test(leaf, target) if target.tokenizer is not None else None
    formed = glob(leaf.pieces) if isinstance(leaf, Pattern) else None

    def test(encoded: str) -> bool:
        value = json.loads(encoded)
        if isinstance(leaf, Equal):
            return any(_same_json(value, wanted) for wanted in leaf.values)
        if isinstance(leaf, Between):
            if not _ordered_alike(value, leaf.low if leaf.low is not None else leaf.high):
                return False
            above = leaf.low is None or (value >= leaf.low if leaf.include_low else value > leaf.low)
            return above and (leaf.high is None or (value <= leaf.high if leaf.include_high else value < leaf.high))
        if not isinstance(value, str):
            return False
        if words is not None:
            return words(value)
        if formed is not None:
            return formed(value)
        assert isinstance(leaf, Near)
        return within_distance(value, leaf.text, leaf.distance)

    return test


def _same_json(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    return (
        type(value) is type(wanted) and value == wanted
        if isinstance(wanted, str)
        else (isinstance(value, int | float) and value == wanted)
    )


def _ordered_alike(value: Any, bound: Any) -> bool:
    if isinstance(bound, str):
        return isinstance(value, str)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _plain(array: pa.Array) -> pa.Array:
    while True:
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            return array


def _flattened(array: pa.Array) -> tuple[pa.Array, NDArray[np.int64]]:
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        array = array.cast(pa.large_list(array.type.value_type))
    return pc.list_flatten(array), pc.list_parent_indices(array).to_numpy(zero_copy_only=False).astype(np.int64)


def _map_values(array: pa.Array, key: str) -> tuple[pa.Array, NDArray[np.int64]]:
    """The values under one key of maps, and the row of each; keys that are no text are compared by their text."""
    keyed = element_type(array.type.key_type)
    entries = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
    flat, parents = _flattened(entries)
    keys = _plain(pc.struct_field(flat, [0]))
    texts = keys if pa.types.is_string(keyed) else keys.cast(pa.string())
    chosen = _as_mask(pc.equal(texts, key))
    return pc.struct_field(flat, [1]).filter(arrow_array(chosen)), parents[chosen]


def _json_leaves(array: pa.Array, path: tuple[str, ...]) -> tuple[pa.Array, NDArray[np.int64]]:
    """The leaves at a path in JSON texts, each as JSON again; lists on the way are looked into."""
    parents = np.arange(len(array), dtype=np.int64)
    array = _plain(array)
    if is_list(array.type):
        array, parents = _flattened(array)
    texts = array.dictionary_encode()
    leaves = [_leaves_at(text, path) for text in texts.dictionary.to_pylist()]
    found, rows = list[str](), list[int]()
    for place, code in enumerate(texts.indices.to_pylist()):
        if code is not None:
            found += leaves[code]
            rows += [int(parents[place])] * len(leaves[code])
    return pa.array(found, pa.large_string()), np.array(rows, np.int64)


def _leaves_at(text: str, path: tuple[str, ...]) -> list[str]:
    try:
        level = [json.loads(text)]
    except (ValueError, RecursionError):
        return []
    for step in (*path, None):
        level = [inner for value in level for inner in _unlisted(value)]
        if step is not None:
            level = [value[step] for value in level if isinstance(value, dict) and step in value]
    kept = [value for value in level if value is not None and not isinstance(value, dict)]
    return [json.dumps(value) for value in kept if not (isinstance(value, float) and not math.isfinite(value))]


def _unlisted(value: Any) -> list[Any]:
    if not isinstance(value, list):
        return [value]
    return [inner for one in value for inner in _unlisted(one)]

"""Partition values: their texts, the folders named after them, and the bounds of a manifest.

`partitionValues` of an action is what counts; the folder's name is for people and never read back. A null is written as
`__HIVE_DEFAULT_PARTITION__`. Characters that file systems or URLs take for something else are percent-escaped; a value
that cannot be a folder's name at all (too long, `..`, not in normal form) gets a folder named by its hash.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deltaic.errors import InputError
from deltaic.storage.names import check_segment
from deltaic.table.actions import NULL_PARTITION
from deltaic.table.values import parse, to_text

_ESCAPED = re.compile(r"[/\\:*?\"<>|% \x00-\x1f\x7f-\x9f\u2028\u2029]|^\.|\.$")
_NUMBER = re.compile(r"[+-]?[0-9]+")


def partition_texts(
    values: Mapping[str, Any], columns: Sequence[str], types: Mapping[str, str]
) -> dict[str, str | None]:
    """The texts of partition values, one for each partition column."""
    if set(values) != set(columns):
        raise InputError(
            f"partition values are needed for {', '.join(columns) or 'no column'}, given were {sorted(values)}"
        )
    found: dict[str, str | None] = {}
    for name in columns:
        value = values[name]
        text = None if value is None else to_text(value, types.get(name), instants=True)
        if text == NULL_PARTITION:
            raise InputError(f"{NULL_PARTITION} cannot be a value of {name}: it stands for null")
        found[name] = text
    return found


def partition_folder(values: Mapping[str, str | None], columns: Sequence[str]) -> str:
    """The folder for files of these partition values, without a slash at its end; empty without partition columns."""
    return "/".join(_segment(name, values[name]) for name in columns)


def _segment(column: str, value: str | None) -> str:
    shown = NULL_PARTITION if value is None or value == "" else _ESCAPED.sub(_escape, value)
    segment = f"{_ESCAPED.sub(_escape, column)}={shown}"
    try:
        return check_segment(segment)
    except InputError:
        text = f"{column}={value}".encode("utf-8", "surrogatepass")
        return f"partition-{hashlib.sha256(text).hexdigest()[:24]}"


def _escape(found: "re.Match[str]") -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "surrogatepass"))


def bounds_of(values: Iterable[str | None], kind: str | None) -> tuple[str | None, str | None]:
    """The smallest and largest of partition texts by their column's type; nulls aside, (None, None) if all are."""
    texts = [text for text in values if text is not None and text != NULL_PARTITION]
    if not texts:
        return None, None
    key = ordering(texts, kind)
    return min(texts, key=key), max(texts, key=key)


def ordering(texts: Sequence[str], kind: str | None) -> Any:
    """By what partition texts are compared: their type; without one as numbers if all are, else as texts."""
    if kind is not None and all(parse(text, kind) is not None for text in texts):
        return lambda text: parse(text, kind)
    if kind is None:
        if all(_NUMBER.fullmatch(text) for text in texts):
            return int
        if all(parse(text, "double") is not None for text in texts):
            return float
    return lambda text: text

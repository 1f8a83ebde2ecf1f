"""Patches as JSON lines, for people, shells and programs in other languages.

    {"op": "set", "type": "Movie", "key": 7, "path": "title", "value": "Solaris"}
    {"op": "set", "type": "Movie", "key": 7, "path": "year", "value": 1972, "previous": 1971}
    {"op": "delete", "type": "Movie", "key": 7, "path": "cast[3]"}
    {"op": "put", "type": "Movie", "key": 8, "value": {"id": 8}, "absent": true}
    {"op": "remove", "type": "Movie", "key": 9, "time": "1700000000000.1", "source": "eu"}
    {"op": "vector", "type": "Movie", "key": 7, "path": "embedding",
     "value": {"dims": 3, "indices": [1], "values": [0.5]}}                     (in one line)

Bytes are base64, dates, times and decimals texts, as everywhere in JSON; the model says what they stand for. `absent`
says that nothing may be there before. A reference is `"reference": "00022a00"` in place of `path`.
"""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from deltaic.errors import DecodeError, DeltaicError, InputError
from deltaic.wire.patches.patch import ABSENT, MISSING, Operation, Patch, hybrid_timestamp, timestamp_parts
from deltaic.wire.references import Reference
from deltaic.wire.references.encoding import decode_exact, encode
from deltaic.wire.vectors import VectorDelta

_OPERATIONS = {operation.name.lower(): operation for operation in Operation}
_KNOWN = {"op", "type", "key", "path", "reference", "value", "previous", "absent", "time", "source"}


def patch_to_line(patch: Patch) -> str:
    """A patch as one line of JSON."""
    return json_value(patch_to_json(patch))


def patch_to_json(patch: Patch) -> dict[str, Any]:
    """A patch as an object of JSON; values that JSON has not are left to `json_value`."""
    found: dict[str, Any] = {"op": patch.operation.name.lower(), "type": patch.type_name}
    if patch.key is not None:
        found["key"] = patch.key
    if isinstance(patch.path, Reference):
        found["reference"] = encode(patch.path).hex()
    elif patch.path:
        found["path"] = patch.path
    if patch.operation not in (Operation.DELETE, Operation.REMOVE) or patch.value is not None:
        found["value"] = patch.value
    if patch.previous is ABSENT:
        found["absent"] = True
    elif patch.previous is not MISSING:
        found["previous"] = patch.previous
    if patch.timestamp is not None:
        milliseconds, counter = timestamp_parts(patch.timestamp)
        found["time"] = f"{milliseconds}.{counter}"
    if patch.source is not None:
        found["source"] = patch.source
    return found


def json_value(value: Any) -> str:
    """A value as JSON text."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"a value of a patch cannot be written as JSON: {error}", "WrongType") from error


def read_lines(lines: Iterable[str | bytes], name: str) -> Iterator[Patch]:
    """The patches of JSON lines; empty lines are passed over."""
    for number, line in enumerate(lines, 1):
        at = f"{name}: line {number}"
        try:
            text = line.decode() if isinstance(line, bytes) else line
            if not text.strip():
                continue
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DecodeError("BadJson", f"no JSON: {error}", at) from error
        yield patch_of_json(found, at)


def patch_of_json(found: Any, at: str) -> Patch:
    """The patch of an object of JSON."""
    if not isinstance(found, dict) or not isinstance(found.get("type"), str):
        raise DecodeError("BadField", "no object with a text `type`", at)
    if unknown := sorted(set(found) - _KNOWN):
        raise DecodeError("BadField", f"{unknown[0]!r} is no part of a patch", at)
    operation = _OPERATIONS.get(found.get("op", "set")) if isinstance(found.get("op", "set"), str) else None
    if operation is None:
        raise DecodeError("BadField", f"op {found.get('op')!r}: {', '.join(_OPERATIONS)}", at)
    value, previous = found.get("value"), found.get("previous", MISSING)
    for part in ("path", "source", "reference"):
        if not isinstance(found.get(part, ""), str):
            raise DecodeError("BadField", f"{part} is a text", at)
    try:
        if operation is Operation.VECTOR:
            value = _delta(value, at)
        key = found.get("key")
        return Patch(
            found["type"],
            tuple(key) if isinstance(key, list) else key,
            decode_exact(bytes.fromhex(found["reference"])) if "reference" in found else found.get("path", ""),
            value,
            ABSENT if found.get("absent") is True else previous,
            _timestamp(found.get("time"), at),
            found.get("source"),
            operation,
        )
    except DecodeError:
        raise
    except (DeltaicError, ValueError) as error:
        raise DecodeError("BadField", str(error), at) from error


def _timestamp(given: Any, at: str) -> int | None:
    if given is None:
        return None
    parts = str(given).split(".")
    if not 1 <= len(parts) <= 2 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        raise DecodeError("BadField", f"time {given!r}: milliseconds since 1970, a point and a counter", at)
    return hybrid_timestamp(*map(int, parts))


def _delta(value: Any, at: str) -> VectorDelta:
    try:
        indices = np.array(value["indices"], np.uint32)
        values = np.array(value["values"], np.float32)
        dims = int(value["dims"])
        fits = (
            indices.ndim == 1 and indices.shape == values.shape and bool((np.diff(indices.astype(np.int64)) > 0).all())
        )
        if not fits or dims < 1 or (len(indices) and int(indices[-1]) >= dims):
            raise ValueError("indices rise below `dims`, each with a value")
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise DecodeError("BadField", f"no dims, indices and values of a vector: {error}", at) from error
    return VectorDelta(dims, indices, values.view(np.uint32))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, VectorDelta):
        return {"dims": value.dims, "indices": value.indices.tolist(), "values": value.values.tolist()}
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if hasattr(value, "isoformat"):
        return value.isoformat()
    return str(value)

"""The tokens of a column as the engine's index has them: keys, documents, positions.

Key bytes: text as UTF-8; i64 and f64 in their order-preserving form, u64, booleans and dates (seconds kept, in
nanoseconds) as 8 bytes big-endian; IP addresses 16 bytes; of JSON the path, its parts joined by 01, then 00, a letter
for the type and the value.
"""

import dataclasses
import datetime
import ipaddress
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.table.split.postings import Tokens
from deltaic.table.split.tokenizers import analyzer

_SIGN = 1 << 63
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_POSITION_GAP = 1
MAX_TOKEN_BYTES = 65_530
"""The engine drops longer tokens."""
Token = tuple[bytes, int, int]


def text_tokens(rows: Sequence[Sequence[str]], tokenizer: str) -> tuple[Tokens, NDArray[np.int64]]:
    """The tokens of texts, and how many each row has."""
    cut = analyzer(tokenizer)
    found: list[Token] = []
    counts = np.zeros(len(rows), np.int64)
    for row, values in enumerate(rows):
        end = 0
        for value in values:
            end = _cut_text(found, b"", value, row, end, cut if tokenizer != "raw" else None)
        counts[row] = -len(found)
    ends = -counts
    counts = np.diff(ends, prepend=0)
    return _gathered(found), counts


def value_tokens(rows: Sequence[Sequence[Any]], field_type: str) -> Tokens:
    """The tokens of values that are not text."""
    keys = _KEYS[field_type]
    found = [(keys(value), row, 0) for row, values in enumerate(rows) for value in values]
    return _gathered(found)


def json_tokens(rows: Sequence[Sequence[dict[str, Any]]], tokenizer: str) -> Tokens:
    """The tokens of JSON objects; positions count on along each path of a row."""
    cut = None if tokenizer == "raw" else analyzer(tokenizer)
    found: list[Token] = []
    numbers: set[bytes] = set()
    for row, objects in enumerate(rows):
        ends: dict[bytes, int] = {}
        some: list[Token] = []
        for one in objects:
            for path, value in _leaves(one, b""):
                if isinstance(value, str) and not _DATE_TIME.fullmatch(value):
                    prefix = path + b"\0s"
                    ends[prefix] = _cut_text(some, prefix, value, row, ends.get(prefix, 0), cut)
                    continue
                key = path + b"\0" + _json_key(value)
                numbers.add(key)
                some.append((key, row, 0))
        found += some
    made = _gathered(found)
    return dataclasses.replace(made, plain=np.array([key in numbers for key in made.keys], np.bool_))


def _cut_text(found: list[Token], prefix: bytes, value: str, row: int, start: int, cut: Any) -> int:
    if cut is None:
        found.append((prefix + value.encode(), row, start))
        return start + 1 + _POSITION_GAP
    end = start
    for token in cut.pre_tokenize(value).tokens:
        if len(token.text) * 4 > MAX_TOKEN_BYTES and len(token.text.encode()) > MAX_TOKEN_BYTES:
            continue
        found.append((prefix + token.text.encode(), row, start + token.position))
        end = start + token.position + 1
    return end + _POSITION_GAP


def _gathered(found: list[Token]) -> Tokens:
    ids: dict[bytes, int] = {}
    terms = np.array([ids.setdefault(key, len(ids)) for key, _, _ in found], np.int64)
    keys = sorted(ids)
    place = np.empty(len(keys), np.int64)
    for number, key in enumerate(keys):
        place[ids[key]] = number
    documents = np.array([document for _, document, _ in found], np.int64)
    positions = np.array([position for _, _, position in found], np.int64)
    return Tokens(keys, place[terms] if len(keys) else terms, documents, positions, len(found))


def _ordered(number: int) -> bytes:
    return (number + _SIGN).to_bytes(8, "big")


def _float_key(number: float) -> bytes:
    bits = struct.unpack("<Q", struct.pack("<d", number))[0]
    return int(bits ^ _SIGN if not bits >> 63 else bits ^ (2**64 - 1)).to_bytes(8, "big")


def _unsigned(number: int) -> bytes:
    return int(number).to_bytes(8, "big")


def _address_key(text: str) -> bytes:
    address = ipaddress.ip_address(text)
    return (ipaddress.IPv6Address(f"::ffff:{address}") if address.version == 4 else address).packed


def _date_key(nanoseconds: int) -> bytes:
    # Terms of dates know whole seconds only, cut towards zero.
    seconds = abs(nanoseconds) // 10**9 * (1 if nanoseconds >= 0 else -1)
    return _ordered(seconds * 10**9)


_KEYS: dict[str, Any] = {
    "i64": _ordered,
    "u64": _unsigned,
    "f64": _float_key,
    "bool": _unsigned,
    "bytes": bytes,
    "ip_addr": _address_key,
    "date": _date_key,
}


def _leaves(value: Any, path: bytes) -> Iterator[tuple[bytes, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            raw = key.encode()
            if b"\0" in raw:
                raise InputError("a native split cannot index a JSON key with a zero character")
            yield from _leaves(inner, path + b"\x01" + raw if path else raw)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, path)
    elif value is not None:
        yield path, value


def _json_key(value: Any) -> bytes:
    if isinstance(value, str):
        # The engine takes text that is an RFC 3339 date and time for one.
        try:
            moment = datetime.datetime.fromisoformat(value)
            return b"d" + _date_key((moment - _EPOCH) // datetime.timedelta(microseconds=1) * 1000)
        except (ValueError, OverflowError) as error:
            raise InputError(f"a native split cannot index {value!r} in JSON: dates are from 1677 to 2262") from error
    if isinstance(value, bool):
        return b"o" + _unsigned(value)
    if isinstance(value, int):
        return b"i" + _ordered(value) if value < _SIGN else b"u" + _unsigned(value)
    if isinstance(value, float):
        if value.is_integer() and -(2.0**63) <= value < 2.0**63:
            return b"i" + _ordered(int(value))
        return b"f" + _float_key(value)
    raise InputError(f"a native split cannot index {type(value).__name__} in JSON")

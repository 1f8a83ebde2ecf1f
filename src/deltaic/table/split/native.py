"""Native splits: what IndexTables and Quickwit search, written from rows.

`.term`, `.idx`, `.pos` and `.fieldnorm` are made here, byte for byte as those programs make them; `.store` and `.fast`
come from the package, whose own dictionary goes into the split as `_dictionary.term`. What is made here must be the
package's own `.idx`, `.pos` and `.fieldnorm` to the byte: a difference means that a term was cut otherwise, and the
split is not written.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltaic.errors import InputError
from deltaic.table.split.postings import FieldPostings, Tokens, encode_postings, norm_id, vint
from deltaic.table.split.sstable import MAX_TERMS, pack_dictionary
from deltaic.table.split.tokens import json_tokens, text_tokens, value_tokens


@dataclass(frozen=True, slots=True)
class SegmentParts:
    """The bodies of the four files that are made here."""

    term: bytes
    idx: bytes
    pos: bytes
    fieldnorm: bytes


def segment_parts(
    fields: Sequence[Mapping[str, Any]], values: Mapping[str, Sequence[Sequence[Any]]], num_documents: int
) -> SegmentParts:
    """The files of a segment, from the schema in `meta.json` and each field's values in each document."""
    terms: list[tuple[int, bytes]] = []
    postings: list[tuple[int, bytes]] = []
    positions: list[tuple[int, bytes]] = []
    norms: list[tuple[int, bytes]] = []
    for number, field in enumerate(fields):
        options = field["options"]
        indexing = options.get("indexing")
        kind = field["type"]
        if indexing is None and not (options.get("indexed") and kind not in ("text", "json_object")):
            continue
        made, norm_ids, tokens = _field(field, values.get(field["name"], [()] * num_documents), num_documents)
        if len(tokens.keys) > MAX_TERMS:
            raise InputError(
                f"field {field['name']!r} has {len(tokens.keys):,} terms: a native split takes {MAX_TERMS:,}; "
                "write smaller splits"
            )
        if tokens.keys:
            terms.append((number, pack_dictionary(tokens.keys, made)))
            postings.append((number, struct.pack("<Q", tokens.total) + made.postings))
            positions.append((number, made.positions))
        if norm_ids is not None:
            norms.append((number, norm_ids))
    return SegmentParts(*(_composite(some) for some in (terms, postings, positions, norms)))


def _field(
    field: Mapping[str, Any], rows: Sequence[Sequence[Any]], num_documents: int
) -> tuple[FieldPostings, bytes | None, Tokens]:
    kind, options = field["type"], field["options"]
    indexing = options.get("indexing") or {}
    if kind == "text":
        tokens, counts = text_tokens(rows, indexing["tokenizer"])
        ids = norm_id(counts) if indexing.get("fieldnorms", True) else None
        made = encode_postings(tokens, indexing["record"], ids, num_documents)
        return made, None if ids is None else ids.tobytes(), tokens
    if kind == "json_object":
        tokens = json_tokens(rows, indexing["tokenizer"])
        return encode_postings(tokens, indexing["record"], None, num_documents), None, tokens
    tokens = value_tokens(rows, kind)
    return encode_postings(tokens, "basic", None, num_documents), None, tokens


def _composite(parts: list[tuple[int, bytes]]) -> bytes:
    """A composite file: the fields' blocks, then where each starts."""
    listed = vint(len(parts))
    before = at = 0
    for number, data in parts:
        listed += vint(at - before) + struct.pack("<I", number) + vint(0)
        before, at = at, at + len(data)
    return b"".join((*(data for _, data in parts), listed, struct.pack("<I", len(listed))))


def documents_of(columns: Mapping[str, Sequence[Any]]) -> dict[str, list[Sequence[Any]]]:
    """Values by field and document, from columns that have a value, a list or None for each row."""
    return {name: [_listed(value) for value in column] for name, column in columns.items()}


def _listed(value: Any) -> Sequence[Any]:
    if isinstance(value, list):
        return [one for one in value if one is not None]
    return () if value is None else (value,)

"""A batch in bytes: names first, then group after group, in one checksummed frame (docs/formats/patches.md)."""

from typing import TYPE_CHECKING

import numpy as np

from deltaic.errors import InputError
from deltaic.kernels import crc
from deltaic.storage.decompress import Codec, compress
from deltaic.wire.patches.bounds import DEFAULT_PATCH_LIMITS, MAX_KEY_COLUMNS, MAX_SELECTORS
from deltaic.wire.patches.column_write import column, integers, number, text
from deltaic.wire.patches.group import PatchGroup, SelectorColumn
from deltaic.wire.patches.layout import (
    BY_PATH,
    BY_REFERENCE,
    FORMAT,
    HAS_PREVIOUS,
    HAS_SOURCES,
    HAS_TIMESTAMPS,
    HAS_VALUES,
    HEADER,
    MAGIC,
    PACKED,
)
from deltaic.wire.patches.places import field_text
from deltaic.wire.references import Reference
from deltaic.wire.references.encoding import encode

if TYPE_CHECKING:
    from deltaic.wire.patches.batch import PatchBatch, Refer


def write_frame(batch: "PatchBatch", refer: "Refer | None" = None, *, compress: bool = True) -> bytes:
    """The frame of a batch; `compress` packs the body if that makes it smaller.

    Raises:
        InputError: the batch is larger than a frame may be.
    """
    body = _body(batch, refer)
    if len(body) > DEFAULT_PATCH_LIMITS.max_frame_bytes or len(batch) > DEFAULT_PATCH_LIMITS.max_patches:
        raise InputError(
            f"{len(batch):,} patches of {len(body):,} bytes are more than one frame holds: make several batches",
            "TooLarge",
        )
    stored, flags = body, 0
    if compress:
        packed = _packed(body)
        if len(packed) < len(body):
            stored, flags = packed, PACKED
    header = HEADER.pack(MAGIC, FORMAT, flags, 0, len(stored), len(body))
    return b"".join((header, crc.crc32c(stored, crc.crc32c(header, 0)).to_bytes(4, "little"), stored))


def _packed(body: bytes) -> bytes:
    return compress(body, Codec.ZSTD)


def _body(batch: "PatchBatch", refer: "Refer | None") -> bytes:
    types: dict[str, int] = {}
    fields: dict[bytes, int] = {}
    heads: list[tuple[int, int]] = []
    for group in batch.groups:
        kind = types.setdefault(group.type_name, len(types))
        field = 0 if group.path == "" else fields.setdefault(_field(group, kind, refer), len(fields)) + 1
        heads.append((kind, field))
    out = [number(len(types)), *map(text, types)]
    out += [number(len(batch.sources)), *map(text, batch.sources)]
    out += [number(len(fields)), *fields, number(len(batch.groups))]
    for group, (kind, field) in zip(batch.groups, heads, strict=True):
        _group(group, kind, field, out)
    return b"".join(out)


def _field(group: PatchGroup, kind: int, refer: "Refer | None") -> bytes:
    path: str | Reference | None = group.path
    if isinstance(path, str) and refer is not None:
        path = refer(f"{field_text(group.type_name)}.{path}") or path
    if isinstance(path, Reference):
        data = encode(path)
        return number(kind) + bytes((BY_REFERENCE,)) + number(len(data)) + data
    assert path is not None
    return number(kind) + bytes((BY_PATH,)) + text(path)


def _group(group: PatchGroup, kind: int, field: int, out: list[bytes]) -> None:
    if len(group.keys) > MAX_KEY_COLUMNS or len(group.selectors) > MAX_SELECTORS:
        raise InputError(f"type {group.type_name}: too many key paths or selectors for the wire", "TooLarge")
    parts = (
        (HAS_VALUES if group.values is not None else 0)
        | (HAS_PREVIOUS if group.previous is not None else 0)
        | (HAS_TIMESTAMPS if group.timestamps is not None else 0)
        | (HAS_SOURCES if group.sources is not None else 0)
    )
    out += (bytes((group.operation, parts)), number(kind), number(field), number(group.count))
    out.append(bytes((len(group.keys),)))
    for key in group.keys:
        column(key, out)
    out.append(bytes((len(group.selectors),)))
    for selector in group.selectors:
        _selector(selector, out)
    if group.values is not None:
        column(group.values, out)
    if group.previous is not None:
        column(group.previous, out)
    if group.timestamps is not None:
        integers(group.timestamps.view(np.int64), out)
    if group.sources is not None:
        integers(group.sources, out)


def _selector(selector: SelectorColumn, out: list[bytes]) -> None:
    out.append(bytes((selector.code,)))
    if selector.keys is not None:
        column(selector.keys, out)
        return
    if selector.offsets is not None:
        integers(np.diff(selector.offsets), out)
    for numbers in selector.numbers:
        integers(numbers, out)

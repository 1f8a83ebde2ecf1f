"""What a blob holds, without making a state of it: header, and per type its records, shards, widths and bytes."""

from dataclasses import dataclass

import numpy as np

from deltaic.binary.cursor import Cursor
from deltaic.errors import DecodeError
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.schema.types import ObjectSchema, Schema
from deltaic.wire.append import AppendedSection, AppendMode, append_flags, read_append
from deltaic.wire.header import PART_VERSION, Header, read_header, read_part_header
from deltaic.wire.section import TypeSection, read_section
from deltaic.wire.shards import ListShard, MapShard, ObjectShard, SetShard


@dataclass(frozen=True, slots=True)
class TypeOutline:
    """One type of a blob."""

    schema: Schema
    shards: int
    max_ordinal: int
    populated: int | None
    """Records of a snapshot; None in a delta."""
    added: int
    removed: int
    bits: tuple[tuple[str, int], ...]
    """Bits per field (or per pointer, size, element) in the first shard."""
    size_bytes: int

    @property
    def holes(self) -> int | None:
        """Ordinals without a populated record; None in a delta."""
        return None if self.populated is None else self.max_ordinal + 1 - self.populated


@dataclass(frozen=True, slots=True)
class Outline:
    """One blob or part."""

    name: str
    kind: str
    """`snapshot`, `delta` or `header`, as far as the bytes tell: a reverse delta looks like a delta."""
    header: Header
    types: tuple[TypeOutline, ...]
    size_bytes: int
    trailing_bytes: int
    """Bytes that should not be there: after the last type, and after the appended section if there is one."""
    appended: AppendedSection | None = None
    """New fields, and their values for records that did not change."""


def read_outline(cursor: Cursor, limits: Limits = DEFAULT_LIMITS) -> Outline:
    """Look through a whole blob. Whether it is a snapshot or a delta is found out by reading it."""
    size = cursor.remaining
    magic = cursor.int32()
    cursor.position = 0
    header = read_part_header(cursor, limits) if magic == PART_VERSION else read_header(cursor, limits)
    start = cursor.position
    if not cursor.remaining:
        return Outline(cursor.name, "header" if header.sections else "delta", header, (), size, 0)
    if not header.sections and header.extra:
        # Nothing but an appended section: no type changed.
        return _with_append(cursor, header, (), size, limits)
    delta = _says_delta(cursor.name)
    if delta is None:
        delta = not _reads_as_snapshot(cursor, header, limits)
        cursor.position = start
    types = tuple(_outline(read_section(cursor, delta=delta, limits=limits)) for _ in range(header.sections))
    if delta and header.part is None:
        return _with_append(cursor, header, types, size, limits)
    return Outline(cursor.name, "delta" if delta else "snapshot", header, types, size, cursor.remaining)


def _with_append(cursor: Cursor, header: Header, types: tuple[TypeOutline, ...], size: int, limits: Limits) -> Outline:
    flags = append_flags(header.extra, cursor.name)
    appended = None if flags is None else read_append(cursor, flags, AppendMode.FULL, limits)
    return Outline(cursor.name, "delta", header, types, size, cursor.remaining, appended)


def _says_delta(name: str) -> bool | None:
    """What a file's name says of its kind."""
    if name.startswith("snapshot"):
        return False
    return True if name.startswith(("delta", "reversedelta")) else None


def _reads_as_snapshot(cursor: Cursor, header: Header, limits: Limits) -> bool:
    try:
        for _ in range(header.sections):
            read_section(cursor, delta=False, limits=limits)
    except DecodeError:
        return False
    return cursor.remaining == 0


def _outline(section: TypeSection) -> TypeOutline:
    body = section.shards[0].body
    match body:
        case ObjectShard():
            assert isinstance(section.schema, ObjectSchema)
            names = [field.name for field in section.schema.fields]
            widths = tuple(zip(names, body.widths, strict=True))
        case ListShard():
            widths = (("pointer", body.bits_per_pointer), ("element", body.bits_per_element))
        case SetShard():
            widths = (
                ("pointer", body.bits_per_pointer),
                ("size", body.bits_per_size),
                ("element", body.bits_per_element),
            )
        case MapShard():
            widths = (
                ("pointer", body.bits_per_pointer),
                ("size", body.bits_per_size),
                ("key", body.bits_per_key),
                ("value", body.bits_per_value),
            )
    populated = None
    if section.populated is not None:
        populated = int(np.bitwise_count(section.populated).sum())
    return TypeOutline(
        schema=section.schema,
        shards=len(section.shards),
        max_ordinal=section.max_ordinal,
        populated=populated,
        added=sum(len(shard.added) for shard in section.shards),
        removed=sum(len(shard.removed) for shard in section.shards),
        bits=widths,
        size_bytes=section.size_bytes,
    )

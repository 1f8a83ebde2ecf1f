"""Blobs put together by hand, so that a test can say any number at any place."""

from collections.abc import Iterable

HUGE_ORDINAL = 2**31 - 1


def varint(value: int) -> bytes:
    """A VInt or VLong; -1 is the VInt of an empty type's max ordinal."""
    if value < 0:
        value %= 1 << 32
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))


def utf(text: str) -> bytes:
    """A name in ASCII."""
    return len(text).to_bytes(2, "big") + text.encode("ascii")


def object_schema(name: str, fields: Iterable[tuple[str, ...]]) -> bytes:
    """An OBJECT; a field is (name, type) or (name, "REFERENCE", type)."""
    written = [b"".join(utf(word) for word in field) for field in fields]
    return b"\x00" + utf(name) + len(written).to_bytes(2, "big") + b"".join(written)


def list_schema(name: str, element: str) -> bytes:
    """A LIST."""
    return b"\x02" + utf(name) + utf(element)


def set_schema(name: str, element: str) -> bytes:
    """A SET without a hash key."""
    return b"\x01" + utf(name) + utf(element)


def map_schema(name: str, key: str, value: str) -> bytes:
    """A MAP without a hash key."""
    return b"\x03" + utf(name) + utf(key) + utf(value)


def blob(schemas: list[bytes], sections: list[bytes], *, origin: int = 1, destination: int = 2) -> bytes:
    """A whole blob; each section has its schema in front already."""
    listed = varint(len(schemas)) + b"".join(schemas)
    return b"".join(
        [
            (1030).to_bytes(4, "big"),
            origin.to_bytes(8, "big"),
            destination.to_bytes(8, "big"),
            varint(len(listed) + 1),
            listed,
            b"\x00",
            b"\x00\x00",
            varint(len(sections)),
            *sections,
        ]
    )


def section(schema: bytes, shards: list[bytes], *, populated: bytes | None, max_ordinal: int | None = None) -> bytes:
    """A type section; `populated` is None in deltas, and holds whole words otherwise."""
    envelope = varint(2) + b"\x00" + varint(len(shards))
    overall = b"" if max_ordinal is None else varint(max_ordinal)
    tail = b"" if populated is None else (len(populated) // 8).to_bytes(4, "big") + populated
    return schema + envelope + overall + b"".join(shards) + tail


def words(*values: int) -> bytes:
    """64-bit words."""
    return b"".join(value.to_bytes(8, "big") for value in values)


def bit_array(*values: int) -> bytes:
    """A count and that many words."""
    return varint(len(values)) + words(*values)


def ordinals(*values: int) -> bytes:
    """A list of rising ordinals, as deltas hold it."""
    last = 0
    written = b""
    for value in values:
        written += varint(value - last)
        last = value
    return varint(len(written)) + written

"""Widths and totals of a type's shard bodies, as the writer chooses them from the records of two versions.

All shards of a type and all blobs of one cycle share them; only pointers and totals depend on the number of shards
(hollow-blob.md, sections 6 to 9 and 13).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ObjectLayout:
    """Bits per field, and the bytes of each variable field over all shards (0 for the others)."""

    widths: tuple[int, ...]
    variable_bytes: tuple[int, ...]

    @property
    def bits_per_record(self) -> int:
        """The fixed-length part of one record."""
        return sum(self.widths)

    def projected_bytes(self, max_ordinal: int) -> int:
        """The size of the whole type, for choosing the number of shards."""
        return self.bits_per_record * (max_ordinal + 1) // 8 + sum(self.variable_bytes)


@dataclass(frozen=True, slots=True)
class ListLayout:
    """Bits per pointer and element, and elements per shard."""

    bits_per_pointer: int
    bits_per_element: int
    totals: tuple[int, ...]

    def projected_bytes(self, max_ordinal: int) -> int:
        """The size of the whole type, of one shard, for choosing the number of shards."""
        elements = sum(self.totals)
        # The + 1 stands outside the product in Java too.
        pointers = max(elements.bit_length(), 1) * max_ordinal + 1
        return self.bits_per_element * elements // 8 + _towards_zero(pointers, 8)


@dataclass(frozen=True, slots=True)
class SetLayout:
    """Bits per pointer, size and bucket, and buckets per shard."""

    bits_per_pointer: int
    bits_per_size: int
    bits_per_element: int
    totals: tuple[int, ...]

    def projected_bytes(self, max_ordinal: int) -> int:
        """The size of the whole type, of one shard, for choosing the number of shards."""
        buckets = sum(self.totals)
        return _table_bytes(self.bits_per_size, self.bits_per_element, buckets, max_ordinal)


@dataclass(frozen=True, slots=True)
class MapLayout:
    """Bits per pointer, size, key and value, and buckets per shard."""

    bits_per_pointer: int
    bits_per_size: int
    bits_per_key: int
    bits_per_value: int
    totals: tuple[int, ...]

    def projected_bytes(self, max_ordinal: int) -> int:
        """The size of the whole type, of one shard, for choosing the number of shards."""
        buckets = sum(self.totals)
        return _table_bytes(self.bits_per_size, self.bits_per_key + self.bits_per_value, buckets, max_ordinal)


Layout = ObjectLayout | ListLayout | SetLayout | MapLayout


def shard_max_ordinals(max_ordinal: int, shards: int) -> list[int]:
    """The highest ordinal inside each shard, -1 if it has no slot (hollow-blob.md, section 5)."""
    whole, extra = divmod(max_ordinal + 1, shards)
    return [whole if number < extra else whole - 1 for number in range(shards)]


def _table_bytes(bits_per_size: int, bits_per_bucket: int, buckets: int, max_ordinal: int) -> int:
    return (bits_per_size + buckets.bit_length()) * (max_ordinal + 1) // 8 + bits_per_bucket * buckets // 8


def _towards_zero(value: int, by: int) -> int:
    return value // by if value >= 0 else -(-value // by)

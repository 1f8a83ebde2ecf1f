"""The records of one shard, bit-packed: what a blob's shard body decodes to and what a read state is made of.

Packed arrays are uint8 arrays holding one little-endian bit stream (hollow-blob.md, "bit arrays", with the bytes
inside each word reversed). Each has at least `SLACK` zero bytes after its last used bit, so that an 8-byte load at
any element stays inside. Arrays are read-only by convention and shared between states.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SLACK = 16
"""Zero bytes after the last used byte of a packed array."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class ObjectShard:
    """Fixed-length records of `bits_per_record` bits, and the byte data of STRING and BYTES fields.

    `variable[i]` is None for fields of other types. A record's end offset in `variable[i]` is the low
    `widths[i] - 1` bits of its field, the top bit means null; its start is the end of the record before it.
    """

    max_ordinal: int
    records: Bytes
    widths: tuple[int, ...]
    offsets: tuple[int, ...]
    bits_per_record: int
    variable: tuple[Bytes | None, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of memory held by the packed records and the byte data."""
        return self.records.nbytes + sum(data.nbytes for data in self.variable if data is not None)


@dataclass(frozen=True, slots=True, eq=False)
class ListShard:
    """End indexes per record in `pointers`, element ordinals back to back in `elements`."""

    max_ordinal: int
    pointers: Bytes
    bits_per_pointer: int
    elements: Bytes
    bits_per_element: int
    total_elements: int

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self.pointers.nbytes + self.elements.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class SetShard:
    """Per record: end bucket (low `bits_per_pointer` bits), then size; buckets hold element ordinals, all ones is
    empty.
    """

    max_ordinal: int
    pointers: Bytes
    bits_per_pointer: int
    bits_per_size: int
    buckets: Bytes
    bits_per_element: int
    total_buckets: int

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self.pointers.nbytes + self.buckets.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class MapShard:
    """As `SetShard`; a bucket holds a key ordinal (low bits, all ones is empty) and a value ordinal."""

    max_ordinal: int
    pointers: Bytes
    bits_per_pointer: int
    bits_per_size: int
    buckets: Bytes
    bits_per_key: int
    bits_per_value: int
    total_buckets: int

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return self.pointers.nbytes + self.buckets.nbytes


Shard = ObjectShard | ListShard | SetShard | MapShard

"""One type of a read state: its schema, its packed shards, and which ordinals are populated."""

from dataclasses import dataclass

from deltaic.schema.types import Schema
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.wire.shards import Shard


@dataclass(frozen=True, slots=True, eq=False)
class TypeData:
    """The records of one type at one version. Immutable; states of neighbouring versions share it when nothing changed.

    Record o is in shard `o & (n - 1)` of n at shard ordinal `o >> log2(n)`. Shards may differ in their widths, and may
    have fewer slots than `max_ordinal` asks for: what lies behind is a hole.
    """

    schema: Schema
    shards: tuple[Shard, ...]
    max_ordinal: int
    populated: OrdinalSet
    previous: OrdinalSet = EMPTY
    """What was populated before the last delta."""
    pending: OrdinalSet = EMPTY
    """Ghosts: removed by the last delta that held this type, readable until the next one that does."""
    appended: OrdinalSet = EMPTY
    """Records that stayed and to which the last delta appended values of new fields, or other values."""

    @property
    def shard_shift(self) -> int:
        """log2 of the number of shards."""
        return len(self.shards).bit_length() - 1

    @property
    def holes(self) -> int:
        """Ordinals up to the largest one that hold no populated record."""
        return self.max_ordinal + 1 - len(self.populated)

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        bits = (self.populated, self.previous, self.pending, self.appended)
        return sum(shard.nbytes for shard in self.shards) + sum(part.words.nbytes for part in bits)

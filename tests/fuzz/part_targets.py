"""Sound vector parts of every form, to be damaged, and what it takes to make their checksums right again."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

import numpy as np

from deltaic.state.bitset import OrdinalSet
from deltaic.state.vector_column import StoredVectors
from deltaic.vector import Moves, apply_part, encode_delta_part, encode_snapshot_part
from deltaic.wire.vectors import EncodeOptions
from tests.fuzz.vector_targets import Target as FrameTarget

DIMS = 6
ONE, TWO = ("Movie", "embedding"), ("Movie", "poster")
Columns = dict[tuple[str, str], StoredVectors]


def _columns() -> tuple[Columns, Columns, OrdinalSet, OrdinalSet, Moves]:
    random = np.random.default_rng(12)
    ordinals = np.concatenate([np.arange(40), [4096, 4100, 5000]])
    old = {key: StoredVectors.of(DIMS, ordinals, _rows(random, len(ordinals))) for key in (ONE, TWO)}
    records = OrdinalSet.from_ordinals(np.concatenate([np.arange(10, 60), [4096, 4100, 6000]]))
    moves = Moves(np.array([3, 1, 5000]), np.array([41, 45, 6000]))
    stays = OrdinalSet.from_ordinals(ordinals).intersection(records)
    new = {}
    for key, column in old.items():
        fresh = np.array([50, 51, 59])
        changed = column.changed(moves.targets, column.rows(moves.origins), column.present)
        touched = np.concatenate([stays.ordinals()[::2], [41]])
        rows = changed.rows(touched)
        rows[:, 1::3] += 1
        present = stays.difference(OrdinalSet.from_ordinals(np.array([12, 13, 17])))
        present = present.union(OrdinalSet.from_ordinals(np.concatenate([moves.targets, fresh])))
        changed = changed.changed(touched, rows, present)
        new[key] = changed.changed(fresh, _rows(random, 3), present)
    return old, new, OrdinalSet.from_ordinals(ordinals), records, moves


def _rows(random: np.random.Generator, count: int) -> np.ndarray:
    return random.standard_normal((count, DIMS)).astype(np.float32)


OLD, NEW, OLD_RECORDS, RECORDS, MOVES = _columns()


@dataclass(frozen=True)
class Target:
    """The bytes of one part, and the state that it leads from."""

    data: bytes
    before: Columns | None
    records: OrdinalSet
    tags: dict[str, int] = field(default_factory=dict)

    def sealed(self, data: bytes) -> bytes:
        """The bytes with the checksums of header, heads and frames made right, as far as they can be found."""
        made = bytearray(data)
        if len(made) < 32:
            return bytes(made)
        struct.pack_into("<I", made, 24, zlib.crc32(made[:24]))
        position = 32
        for _ in range(2):
            if position + 16 > len(made):
                break
            stored = struct.unpack_from("<I", made, position + 4)[0]
            end = position + 16 + stored
            if end > len(made):
                break
            struct.pack_into("<I", made, position, zlib.crc32(made[position + 4 : end]))
            position = (end + 7) // 8 * 8
            for _ in range(2):
                while made[position : position + 8] != bytes(8) and position + 32 <= len(made):
                    length = struct.unpack_from("<Q", made, position + 16)[0]
                    if not 32 <= length <= len(made) - position:
                        return bytes(made)
                    frame = FrameTarget("frame", b"").sealed(bytes(made[position : position + length]))
                    made[position : position + length] = frame
                    position += length
                position += 8
        return bytes(made)

    def read(self, data: bytes) -> None:
        """Apply damaged bytes; the base must stay what it was, whatever happens."""
        sums = {} if self.before is None else {key: column.checksum() for key, column in self.before.items()}
        try:
            check = Random(len(data)).random() < 0.3
            made = apply_part(data, self.before, {"Movie": self.records}, **self.tags, check=check, name="damaged")
            for column in made.values():
                assert not column.present.difference(self.records)
                column.rows(column.present.ordinals())
        finally:
            assert self.before is None or sums == {key: column.checksum() for key, column in self.before.items()}


def all_targets() -> list[Target]:
    """Snapshots, deltas and reverse deltas, packed in every way."""
    return list(_targets())


def _targets() -> Iterator[Target]:
    for compression in ("none", "zstd", "zlib"):
        for quantization in ("none", "f16", "int8", "int4"):
            one = EncodeOptions(compression=compression, compress_min=0, quantization=quantization)
            options = {ONE: one, TWO: one}
            yield Target(encode_snapshot_part(NEW, 7, options=options), None, RECORDS, {"tag": 7})
        forward = encode_delta_part(OLD, NEW, {"Movie": MOVES}, 5, 7, {"Movie": RECORDS}, options=options)
        yield Target(forward, OLD, RECORDS, {"tag": 7, "origin_tag": 5})
        back = encode_delta_part(NEW, OLD, {"Movie": MOVES.reversed()}, 7, 5, {"Movie": OLD_RECORDS}, options=options)
        yield Target(back, NEW, OLD_RECORDS, {"tag": 5, "origin_tag": 7})

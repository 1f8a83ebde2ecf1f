"""Serialized records under other ordinals: what is numbered in one place is referred to in another. Slow and obvious.

Records of an arena are well formed, and every reference is inside the map that is given for it.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels.plain import record_bytes as raw

Bytes = NDArray[np.uint8]
Ends = NDArray[np.int64]
Ordinals = NDArray[np.int32]

_LIST, _MAP = 0, 2


def renumber_objects(
    arena: Bytes, starts: Ends, rows: Ordinals, kinds: Bytes, maps: Sequence[Ordinals | None]
) -> tuple[Bytes, Ends]:
    """The records of an OBJECT type at these rows of `starts`, back to back, and where each one ends.

    A reference r of a field with a map becomes `map[r]`; without a map, or with an empty one, fields stay as they are.
    """
    whole, out, ends = memoryview(arena.tobytes()), bytearray(), []
    for row in rows.tolist():
        position = int(starts[row])
        for kind, mapped in zip(kinds.tolist(), maps, strict=True):
            begin = position
            position = raw.skip(whole, position, kind)
            if mapped is None or not len(mapped) or whole[begin] == raw.NULL:
                out += whole[begin:position]
            else:
                out += raw.varint(int(mapped[raw.read(whole, begin)[0]]))
        ends.append(len(out))
    return raw.array(out), np.array(ends, np.int64)


def entries(arena: Bytes, starts: Ends, rows: Ordinals, form: int) -> tuple[Ends, Ordinals, Ordinals]:
    """What collections at these rows hold: offsets, elements or keys, values (of maps).

    `form` is 0 for lists, 1 for sets, 2 for maps; sets and maps are those with buckets.
    """
    whole = memoryview(arena.tobytes())
    offsets, keys, values = [0], [], []
    for row in rows.tolist():
        size, position = raw.read(whole, int(starts[row]))
        key = 0
        for _ in range(size):
            number, position = raw.read(whole, position)
            key = number if form == _LIST else key + number
            keys.append(key)
            if form == _MAP:
                number, position = raw.read(whole, position)
                values.append(number)
            if form != _LIST:
                _, position = raw.read(whole, position)
        offsets.append(len(keys))
    return np.array(offsets, np.int64), np.array(keys, np.int32), np.array(values, np.int32)

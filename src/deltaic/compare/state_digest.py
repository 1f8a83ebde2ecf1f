"""One digest for a whole state by content: the same for equal records wherever they stand, in every process.

Hollow's checksum (`ReadState.checksum`) compares versions of one chain and knows nothing of vectors; this one compares
any two states, of two chains, of split and combined ones.
"""

import hashlib

import numpy as np

from deltaic.compare.content import ContentDigests
from deltaic.compare.digest import FIXED
from deltaic.state.read import ReadState

_PAGE = 1 << 16


def state_digest(state: ReadState, *, vectors: bool = True) -> str:
    """32 hexadecimal digits that stand for all records of all types, references followed.

    Args:
        state: the state.
        vectors: False leaves vectors out, so that states with and without their vector parts can be compared.
    """
    counted = state if vectors else state.with_vectors({})
    digests = ContentDigests(counted, FIXED)
    whole = hashlib.blake2b(digest_size=16)
    for name in sorted(counted.types):
        total = np.zeros(2, np.uint64)
        ordinals = counted.types[name].populated.ordinals()
        for start in range(0, len(ordinals), _PAGE):
            total += digests.of(name, ordinals[start : start + _PAGE]).sum(axis=1)
        encoded = name.encode("utf-8", "surrogatepass")
        whole.update(len(encoded).to_bytes(4, "little") + encoded + len(ordinals).to_bytes(8, "little"))
        whole.update(total.astype("<u8").tobytes())
    return whole.hexdigest()

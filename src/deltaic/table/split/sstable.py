"""The native term dictionary: an SSTable of one block (index-table.md, 9.2.1).

    block     u32 length, u8 compressed (1 = zstd), payload; u32 0 ends the blocks
    payload   vint n, vint postings start, vint positions start, n times (vint documents, vint postings bytes, vint
              positions bytes), then the keys, each coded against the one before
    index     u64 0: one block, no index
    tail      u64 offset of the index, u64 number of terms, u32 version 3, u32 type 2

A reader unpacks the whole block for each lookup, so a field may have 100,000 terms and no more.
"""

import struct

import numpy as np

from deltaic.storage.decompress import Codec, compress
from deltaic.table.split.hotcache import leb128
from deltaic.table.split.postings import FieldPostings, vint, vints

MAX_TERMS = 100_000
"""The most terms of a field; a split with more is to be cut in two."""

_VERSION = 3
_TYPE = 2
_COMPRESS_FROM_BYTES = 2048
_TAIL = struct.Struct("<QQQII")


def pack_dictionary(keys: list[bytes], found: FieldPostings) -> bytes:
    """The dictionary of a field that has terms, with its type at the end."""
    values = np.stack((found.document_counts, found.postings_lengths, found.positions_lengths), axis=1).ravel()
    payload = vint(len(keys)) + vint(0) + vint(0) + vints(values)[0] + _front_coded(keys)
    flag = 0
    if len(payload) > _COMPRESS_FROM_BYTES:
        packed = compress(payload, Codec.ZSTD, level=3)
        if len(packed) < len(payload):
            payload, flag = packed, 1
    body = struct.pack("<IB", len(payload) + 1, flag) + payload + bytes(4)
    return body + _TAIL.pack(0, len(body), len(keys), _VERSION, _TYPE)


def _front_coded(keys: list[bytes]) -> bytes:
    out: list[bytes] = []
    before = b""
    for key in keys:
        keep = _shared(before, key)
        add = len(key) - keep
        if keep < 16 and add < 16:
            out.append(bytes([add << 4 | keep]))
        else:
            out.append(b"\x01" + leb128(keep) + leb128(add))
        out.append(key[keep:])
        before = key
    return b"".join(out)


def _shared(first: bytes, second: bytes) -> int:
    most = min(len(first), len(second))
    if first[:most] == second[:most]:
        return most
    low, high = 0, most
    while low + 1 < high:
        middle = (low + high) // 2
        if first[:middle] == second[:middle]:
            low = middle
        else:
            high = middle
    return low

"""Serialized records: made from columns, measured, and packed into the bodies of shards. Slow and obvious.

A serialized record is the byte string of hollow-blob.md, section 11; many of them are `(data, ends)`: one array of
bytes and the end of every record. Inside a writer they lie in an arena, and `starts` gives where the record of an
ordinal begins. Packing takes `slots`: the ordinals to write in order, -1 for a hole. Packed words come out
big-endian, as blobs have them. A bit array that is written in pieces keeps its last, unfinished word in `carry`: bits
and their number.

Field kinds are numbered as in hollow-blob.md, section 3: REFERENCE 0, INT 1, LONG 2, BOOLEAN 3, FLOAT 4, DOUBLE 5,
STRING 6, BYTES 7.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import hashing
from deltaic.kernels.plain import record_bytes as raw
from deltaic.kernels.plain.record_bytes import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    Bytes,
    Ends,
    Ordinals,
)

Column = tuple[NDArray[np.uint64], Bytes, Ends, Bytes]
"""Values (fixed kinds), validity (empty: all), offsets and data (variable kinds)."""


def serialize_objects(kinds: Bytes, columns: Sequence[Column], count: int) -> tuple[Bytes, Ends]:
    """Records of an OBJECT type. INT and LONG arrive as two's complement, FLOAT and DOUBLE as raw bits."""
    out = bytearray()
    ends = np.empty(count, np.int64)
    for row in range(count):
        for kind, (values, valid, offsets, data) in zip(kinds.tolist(), columns, strict=True):
            if len(valid) and not valid[row]:
                out += raw.null(kind)
            elif kind in (STRING, BYTES):
                value = data[int(offsets[row]) : int(offsets[row + 1])]
                out += raw.varint(len(value)) + value.tobytes()
            else:
                out += raw.fixed(kind, int(values[row]))
        ends[row] = len(out)
    return raw.array(out), ends


def serialize_lists(offsets: Ends, elements: Ordinals) -> tuple[Bytes, Ends]:
    """Records of a LIST type: list i holds the elements from offset i to offset i + 1."""
    return raw.joined(
        raw.varint(end - start) + b"".join(map(raw.varint, elements[start:end].tolist()))
        for start, end in raw.ranges(offsets)
    )


def serialize_sets(offsets: Ends, elements: Ordinals, hashes: Ordinals, buckets: int) -> tuple[Bytes, Ends]:
    """Records of a SET type. Without `hashes` (empty) an element's hash code is its ordinal."""
    codes = hashes if len(hashes) else elements

    def one(start: int, end: int) -> bytes:
        pairs = sorted(zip(elements[start:end].tolist(), (codes[start:end].astype(np.uint32)).tolist(), strict=True))
        out, previous, mask = raw.varint(end - start), 0, hashing.hash_table_size(end - start) - 1
        for element, code in pairs:
            out += raw.varint(element - previous) + raw.bucket(code, mask, buckets)
            previous = element
        return out

    return raw.joined(one(start, end) for start, end in raw.ranges(offsets))


def serialize_maps(
    offsets: Ends, keys: Ordinals, values: Ordinals, hashes: Ordinals, buckets: int
) -> tuple[Bytes, Ends]:
    """Records of a MAP type. Without `hashes` (empty) an entry's hash code is its key."""
    codes = hashes if len(hashes) else keys

    def one(start: int, end: int) -> bytes:
        entries = list(
            zip(
                keys[start:end].tolist(),
                values[start:end].tolist(),
                codes[start:end].astype(np.uint32).tolist(),
                strict=True,
            )
        )
        entries.sort(key=lambda entry: entry[:2])
        out, previous, mask = raw.varint(end - start), 0, hashing.hash_table_size(end - start) - 1
        for key, value, code in entries:
            out += raw.varint(key - previous) + raw.varint(value) + raw.bucket(code, mask, buckets)
            previous = key
        return out

    return raw.joined(one(start, end) for start, end in raw.ranges(offsets))


def project_objects(data: Bytes, ends: Ends, kinds: Bytes, fields: NDArray[np.int64]) -> tuple[Bytes, Ends]:
    """The same records with these fields only, in this order."""

    def one(record: bytes) -> bytes:
        pieces, position = [], 0
        for kind in kinds.tolist():
            after = raw.skip(record, position, kind)
            pieces.append(record[position:after])
            position = after
        return b"".join(pieces[field] for field in fields.tolist())

    return raw.joined(one(record) for record in raw.split(data, ends))


def strip_buckets(data: Bytes, ends: Ends, per_entry: int) -> tuple[Bytes, Ends]:
    """Sets (`per_entry` 1) or maps (2) without their buckets."""

    def one(record: bytes) -> bytes:
        size, position = raw.read(record, 0)
        out = raw.varint(size)
        for _ in range(size):
            for _ in range(per_entry):
                value, position = raw.read(record, position)
                out += raw.varint(value)
            _, position = raw.read(record, position)
        return out

    return raw.joined(one(record) for record in raw.split(data, ends))


def first_bad_object(data: Bytes, ends: Ends, kinds: Bytes) -> int:
    """The first record that is not what `serialize_objects` would write, or -1."""
    for row, record in enumerate(raw.split(data, ends)):
        try:
            position = 0
            for kind in kinds.tolist():
                position = raw.checked_field(record, position, kind)
            if position != len(record):
                return row
        except (IndexError, ValueError):
            return row
    return -1


def first_bad_collection(data: Bytes, ends: Ends, per_entry: int, buckets: int) -> int:
    """The first record that is no list (1, 0), set (1, 1) or map (2, 1), or -1."""
    for row, record in enumerate(raw.split(data, ends)):
        try:
            size, position = raw.checked_varint(record, 0, 5)
            key = 0
            table = hashing.hash_table_size(size) if buckets else 0
            if size > len(record):
                return row
            for _ in range(size):
                for number in range(per_entry):
                    value, position = raw.checked_varint(record, position, 5)
                    key = key + value if buckets and number == 0 else key
                    if max(value, key) > 0x7FFF_FFFF:
                        return row
                if buckets:
                    value, position = raw.checked_varint(record, position, 5)
                    if value >= table:
                        return row
            if position != len(record):
                return row
        except (IndexError, ValueError):
            return row
    return -1


def sort_records(data: Bytes, ends: Ends, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """These rows in the order of their bytes; equal records in the order given."""
    records = raw.split(data, ends)
    return np.array(sorted(rows.tolist(), key=records.__getitem__), np.int64)


def object_statistics(
    arena: Bytes,
    starts: Ends,
    ordinals: Ordinals,
    kinds: Bytes,
    sign: int,
    widths: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Count, per field, the records that need each width, and the bytes of variable fields; `sign` -1 takes away."""
    for record in raw.each(arena, starts, ordinals):
        position = 0
        for field, kind in enumerate(kinds.tolist()):
            after = raw.skip(record, position, kind)
            if kind in (STRING, BYTES):
                totals[field] += sign * (0 if record[position] == raw.NULL else raw.read(record, position)[0])
            else:
                widths[field, raw.width_of(record, position, kind)] += sign
            position = after


def list_statistics(
    arena: Bytes,
    starts: Ends,
    ordinals: Ordinals,
    sign: int,
    element_widths: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Count lists by the bits of their largest element, and elements by shard (as many shards as `totals` has)."""
    for ordinal, record in zip(ordinals.tolist(), raw.each(arena, starts, ordinals), strict=True):
        members = raw.list_of(record)
        element_widths[max(members, default=0).bit_length()] += sign
        totals[ordinal & len(totals) - 1] += sign * len(members)


def set_statistics(
    arena: Bytes,
    starts: Ends,
    ordinals: Ordinals,
    sign: int,
    element_widths: NDArray[np.int64],
    size_widths: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Count sets by the bits of their largest element + 1 and of their size, and buckets by shard."""
    for ordinal, record in zip(ordinals.tolist(), raw.each(arena, starts, ordinals), strict=True):
        members = raw.set_of(record)
        element_widths[(max((member for member, _ in members), default=0) + 1).bit_length()] += sign
        size_widths[len(members).bit_length()] += sign
        totals[ordinal & len(totals) - 1] += sign * hashing.hash_table_size(len(members))


def map_statistics(
    arena: Bytes,
    starts: Ends,
    ordinals: Ordinals,
    sign: int,
    key_widths: NDArray[np.int64],
    value_widths: NDArray[np.int64],
    size_widths: NDArray[np.int64],
    totals: NDArray[np.int64],
) -> None:
    """Count maps by the bits of their largest key + 1, largest value and size, and buckets by shard."""
    for ordinal, record in zip(ordinals.tolist(), raw.each(arena, starts, ordinals), strict=True):
        entries = raw.map_of(record)
        key_widths[(max((key for key, _, _ in entries), default=0) + 1).bit_length()] += sign
        value_widths[max((value for _, value, _ in entries), default=0).bit_length()] += sign
        size_widths[len(entries).bit_length()] += sign
        totals[ordinal & len(totals) - 1] += sign * hashing.hash_table_size(len(entries))


def pack_objects(
    arena: Bytes,
    starts: Ends,
    slots: Ordinals,
    kinds: Bytes,
    widths: NDArray[np.int32],
    words: Bytes,
    variable: Sequence[Bytes],
    used: NDArray[np.int64],
) -> None:
    """Pack the fixed-length part of each slot into `words`; append byte data to `variable`, whose use `used` counts.

    Byte data of a field whose array in `variable` is empty are counted and not kept.
    """
    bits = raw.Bits()
    for ordinal in slots.tolist():
        record = b"" if ordinal < 0 else raw.at(arena, starts, ordinal)
        position = 0
        for field, (kind, width) in enumerate(zip(kinds.tolist(), widths.tolist(), strict=True)):
            null = False
            if ordinal >= 0:
                after = raw.skip(record, position, kind)
                piece = record[position:after]
                position = after
                null = kind in (STRING, BYTES) and piece[0] == raw.NULL
            if kind not in (STRING, BYTES):
                bits.add(raw.stored(piece, kind, width) if ordinal >= 0 else 0, width)
                continue
            if ordinal >= 0 and not null:
                length, begin = raw.read(piece, 0)
                place = int(used[field])
                if len(variable[field]):
                    variable[field][place : place + length] = np.frombuffer(piece[begin:], np.uint8)
                used[field] += length
            bits.add(int(used[field]) | (null << width - 1), width)
    bits.finish(words)


def pack_list_pointers(arena: Bytes, starts: Ends, slots: Ordinals, width: int, end: int, words: Bytes) -> int:
    """Pack the end index of each list; gives the last one."""
    bits = raw.Bits()
    for ordinal in slots.tolist():
        if ordinal >= 0:
            end += raw.read(raw.at(arena, starts, ordinal), 0)[0]
        bits.add(end, width)
    bits.finish(words)
    return end


def pack_list_elements(
    arena: Bytes, starts: Ends, slots: Ordinals, width: int, carry: NDArray[np.uint64], words: Bytes
) -> int:
    """Pack the elements of each list behind what `carry` holds; gives the bytes of the whole words written."""
    bits = raw.Bits(carry)
    for record in raw.each(arena, starts, slots[slots >= 0]):
        for element in raw.list_of(record):
            bits.add(element, width)
    return bits.flush(words, carry)


def pack_table_pointers(
    arena: Bytes, starts: Ends, slots: Ordinals, width: int, size_width: int, end: int, words: Bytes
) -> int:
    """Pack end bucket and size of each set or map; gives the last end."""
    bits = raw.Bits()
    for ordinal in slots.tolist():
        size = 0
        if ordinal >= 0:
            size = raw.read(raw.at(arena, starts, ordinal), 0)[0]
            end += hashing.hash_table_size(size)
        bits.add(end, width)
        bits.add(size, size_width)
    bits.finish(words)
    return end


def pack_set_buckets(
    arena: Bytes,
    starts: Ends,
    slots: Ordinals,
    width: int,
    hashes: Ordinals,
    carry: NDArray[np.uint64],
    words: Bytes,
) -> int:
    """Pack the hash table of each set. `hashes` holds the key hash of each element ordinal; empty: no hash key."""
    bits = raw.Bits(carry)
    for record in raw.each(arena, starts, slots[slots >= 0]):
        members = [(element, element, bucket) for element, bucket in raw.set_of(record)]
        for element in raw.placed(members, hashes):
            bits.add((1 << width) - 1 if element is None else element, width)
    return bits.flush(words, carry)


def pack_map_buckets(
    arena: Bytes,
    starts: Ends,
    slots: Ordinals,
    key_width: int,
    value_width: int,
    hashes: Ordinals,
    carry: NDArray[np.uint64],
    words: Bytes,
) -> int:
    """Pack the hash table of each map. `hashes` holds the key hash of each key ordinal; empty: no hash key."""
    bits = raw.Bits(carry)
    for record in raw.each(arena, starts, slots[slots >= 0]):
        entries = [(key, key | value << key_width, bucket) for key, value, bucket in raw.map_of(record)]
        for entry in raw.placed(entries, hashes):
            bits.add((1 << key_width) - 1 if entry is None else entry, key_width + value_width)
    return bits.flush(words, carry)


def encode_varints(values: NDArray[np.int64]) -> Bytes:
    """Numbers, not negative, as VLongs back to back."""
    return raw.array(b"".join(map(raw.varint, values.tolist())))


def members(arena: Bytes, starts: Ends, ordinals: Ordinals, per_entry: int) -> Ordinals:
    """The elements of sets (`per_entry` 1) or the keys of maps (2), one after the other."""
    found: list[int] = []
    for record in raw.each(arena, starts, ordinals):
        found += [entry[0] for entry in (raw.set_of(record) if per_entry == 1 else raw.map_of(record))]
    return np.array(found, np.int32)


def follow(arena: Bytes, starts: Ends, ordinals: Ordinals, kinds: Bytes, field: int) -> Ordinals:
    """What the reference `field` of each record leads to; -1 for null."""

    def one(record: raw.Record) -> int:
        position = raw.field_start(record, kinds, field)
        return -1 if record[position] == raw.NULL else raw.read(record, position)[0]

    return np.array([one(record) for record in raw.each(arena, starts, ordinals)], np.int32)


def field_ranges(arena: Bytes, starts: Ends, slots: Ordinals, kinds: Bytes, field: int) -> tuple[Ends, Ends]:
    """Where the bytes of a STRING or BYTES field begin and end in the arena; two zeros for null and for holes (-1)."""
    begins, ends = np.zeros(len(slots), np.int64), np.zeros(len(slots), np.int64)
    for row, ordinal in enumerate(slots.tolist()):
        if ordinal < 0:
            continue
        record = raw.at(arena, starts, ordinal)
        position = raw.field_start(record, kinds, field)
        if record[position] != raw.NULL:
            length, begin = raw.read(record, position)
            begins[row] = int(starts[ordinal]) + begin
            ends[row] = begins[row] + length
    return begins, ends


def key_field_hashes(arena: Bytes, starts: Ends, ordinals: Ordinals, kinds: Bytes, field: int) -> tuple[Ordinals, int]:
    """The hash of one field of each record for hash keys (2.2), and the first row with null text or bytes, or -1."""
    kind = int(kinds[field])
    hashes = np.zeros(len(ordinals), np.uint32)
    bad = -1
    for row, record in enumerate(raw.each(arena, starts, ordinals)):
        position = raw.field_start(record, kinds, field)
        if kind == FLOAT:
            hashes[row] = int.from_bytes(record[position : position + 4], "big")
        elif kind == DOUBLE:
            hashes[row] = raw.fold(int.from_bytes(record[position : position + 8], "big"))
        elif record[position] == raw.NULL:
            bad = row if bad < 0 and kind in (STRING, BYTES) else bad
        elif kind == BOOLEAN:
            hashes[row] = 1231 if record[position] == 1 else 1237
        elif kind in (STRING, BYTES):
            length, begin = raw.read(record, position)
            value = record[begin : begin + length]
            hashes[row] = (hashing.bytes_hash_one(bytes(value)) if kind == BYTES else raw.java_hash(value)) & raw.MASK32
        else:
            number = raw.read(record, position)[0]
            if kind == LONG:
                number = raw.fold((number >> 1 ^ -(number & 1)) & raw.MASK64)
            elif kind == INT:
                number = (number >> 1 ^ -(number & 1)) & raw.MASK32
            hashes[row] = number
    return hashes.view(np.int32), bad


def gather_ranges(data: Bytes, starts: Ends, ends: Ends) -> tuple[Ends, Bytes]:
    """The bytes from each start to each end, one after the other, behind their offsets."""
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(ends - starts)))
    pieces = [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
    return offsets, np.concatenate(pieces) if pieces else np.zeros(0, np.uint8)


def scatter_ranges(data: Bytes, offsets: Ends, target: Bytes, places: Ends) -> None:
    """Put range i of `data` at `places[i]` of `target`."""
    for (start, end), place in zip(raw.ranges(offsets), places.tolist(), strict=True):
        target[place : place + end - start] = data[start:end]


def populated_slots(words: NDArray[np.uint64], first: int, stride: int, count: int) -> Ordinals:
    """The ordinals first, first + stride, ...; -1 for those whose bit is not set or lies behind the words."""
    ordinals = first + stride * np.arange(count, dtype=np.int64)
    inside = ordinals >> 6 < len(words)
    flags = np.zeros(count, np.bool_)
    kept = ordinals[inside]
    flags[inside] = (words[kept >> 6] >> (kept & 63).astype(np.uint64) & np.uint64(1)).astype(np.bool_)
    return np.where(flags, ordinals, -1).astype(np.int32)

"""A reader of vector parts written from the format pages alone: slow, obvious, and without any code of the package.

A column is a dict from ordinals to tuples of 32-bit patterns.
"""

import struct
import zlib

import pyarrow

_WIDTHS = {1: 1, 2: 2, 3: 4, 4: 8, 5: 1, 6: 4, 7: 8, 8: 2, 9: 4, 10: 1}
_FORMATS = {1: "B", 2: "H", 3: "I", 4: "Q", 5: "b", 6: "i", 7: "q", 8: "H", 9: "I", 10: "B"}
_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15


def plain_apply(part: bytes, before: dict, populated: dict, tag: int, origin: int | None = None) -> dict:
    """The columns after a part: {(type, field): {ordinal: patterns}}."""
    magic, version, flags, columns, from_tag, to_tag = struct.unpack_from("<2sBBIQQ", part)
    assert (magic, version) == (b"\xde\x7c", 1)
    assert zlib.crc32(part[:24]) == int.from_bytes(part[24:28], "little") and part[28:32] == bytes(4)
    assert flags == (origin is not None) and from_tag == (origin or 0) and to_tag == tag
    position, result = 32, {}
    for _ in range(columns):
        head, position = _read_head(part, position)
        key = head["type"], head["field"]
        assert not result or key > max(result)
        records = populated[head["type"]]
        old = {} if head["empty"] else before[key]
        after = {ordinal: vector for ordinal, vector in old.items() if ordinal in records}
        for ordinal in head["removed"]:
            del after[ordinal]
        moved = {target: old[origin] for target, origin in head["moves"]}
        assert not moved.keys() & after.keys() and moved.keys() <= records
        after |= moved
        seen = set()
        for group in ("new", "changed"):
            while part[position : position + 8] != bytes(8):
                size = _apply_frame(part[position:], head["dims"], after, group == "new", seen)
                position += size
            position += 8
        assert after.keys() <= records and len(after) == head["rows"]
        assert plain_checksum(after) == head["checksum"]
        result[key] = after
    assert position == len(part)
    return result


def plain_checksum(column: dict) -> int:
    """The checksum of a column by the words of the page."""
    total = 0
    for ordinal, patterns in column.items():
        row = sum(pattern * (_mix((place + 1) * _STEP & _MASK) | 1) for place, pattern in enumerate(patterns))
        total += _mix((row + (ordinal + 1) * _STEP) & _MASK)
    return total & _MASK


def _mix(number: int) -> int:
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _MASK
    return number ^ number >> 31


def _read_head(part: bytes, start: int) -> tuple[dict, int]:
    checksum, stored, raw, codec = struct.unpack_from("<IIII", part, start)
    head = part[start + 16 : start + 16 + stored]
    assert zlib.crc32(part[start + 4 : start + 16 + stored]) == checksum
    end = start + 16 + stored
    after = (end + 7) // 8 * 8
    assert part[end:after] == bytes(after - end)
    if codec:
        head = pyarrow.Codec("zstd").decompress(head, raw, asbytes=True)
    assert len(head) == raw
    at = 1

    def uleb() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = head[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text() -> str:
        nonlocal at
        length = uleb()
        at += length
        return head[at - length : at].decode()

    found = {"empty": head[0] == 1, "type": text(), "field": text(), "dims": uleb(), "rows": uleb()}
    found["checksum"] = int.from_bytes(head[at : at + 8], "little")
    at += 8
    removed, ordinal = [], 0
    for _ in range(uleb()):
        ordinal += uleb()
        length = uleb()
        removed += range(ordinal, ordinal + length)
        ordinal += length
    count, target, origin = uleb(), 0, 0
    targets = [target := target + uleb() for _ in range(count)]
    origins = [origin := origin + ((word := uleb()) >> 1 ^ -(word & 1)) for _ in range(count)]
    assert at == len(head)
    return {**found, "removed": removed, "moves": list(zip(targets, origins, strict=True))}, after


def _apply_frame(data: bytes, dims: int, column: dict, new: bool, seen: set) -> int:
    magic, version, flags, frame_dims, rows, length, entries = struct.unpack_from("<2sBBIQQI", data)
    assert (magic, version, frame_dims) == (b"\xde\x7b", 1, dims)
    assert zlib.crc32(data[32 : 32 + 32 * entries], zlib.crc32(data[:28])) == int.from_bytes(data[28:32], "little")
    sections: dict = {}
    for place in range(entries):
        section, number, kind, codec, crc, offset, stored, raw = struct.unpack_from("<BBBBIQQQ", data, 32 + 32 * place)
        buffer = data[offset : offset + stored]
        assert zlib.crc32(buffer) == crc
        if codec & 15:
            assert codec & 15 == 1
            buffer = pyarrow.Codec("zstd").decompress(buffer, raw, asbytes=True)
            width = _WIDTHS[kind]
            if codec & 16 and width > 1:
                count = raw // width
                buffer = bytes(buffer[plane * count + at] for at in range(count) for plane in range(width))
        assert len(buffer) == raw
        values = struct.unpack(f"<{raw // _WIDTHS[kind]}{_FORMATS[kind]}", buffer)
        sections.setdefault(section, {})[number] = values
    total = 0
    for section, columns in sections.items():
        total += len(columns[1])
        words = _words(columns, flags >> 4, _counts(section, columns, dims))
        start = 0
        for place, row in enumerate(columns[1]):
            assert row not in seen and (row in column) != new
            seen.add(row)
            assert not new or (section == 1 and not flags & 8)
            vector = list(column.get(row, (0,) * dims))
            for index in _indices(section, columns, place, dims):
                word = words[start]
                start += 1
                if flags & 8:
                    vector[index] = vector[index] + ((word >> 1) ^ -(word & 1)) & 0xFFFF_FFFF
                else:
                    vector[index] = word
            column[row] = tuple(vector)
    assert total == rows
    return length


def _counts(section: int, columns: dict, dims: int) -> list[int]:
    return [len(_indices(section, columns, place, dims)) for place in range(len(columns[1]))]


def _indices(section: int, columns: dict, place: int, dims: int) -> list[int]:
    if section == 1:
        return list(range(dims))
    found, index = [], 0
    if section == 0:
        for gap in columns[3][columns[2][place] : columns[2][place + 1]]:
            index += gap
            found.append(index)
        return found
    for at in range(columns[8][place], columns[8][place + 1]):
        index += columns[9][at]
        found += range(index, index + columns[10][at])
        index += columns[10][at]
    return found


def _words(columns: dict, mode: int, counts: list[int]) -> list[int]:
    stored = columns[4]
    if mode == 0:
        return list(stored)
    if mode == 1:
        return [_widened(half) for half in stored]
    words, at = [], 0
    for place, count in enumerate(counts):
        scale, zero = struct.unpack("<f", struct.pack("<I", columns[6][place]))[0], columns[7][place]
        if mode == 2:
            numbers = stored[at : at + count]
            at += count
        else:
            taken = stored[at : at + (count + 1) // 2]
            at += (count + 1) // 2
            nibbles = [nibble for byte in taken for nibble in (byte & 15, byte >> 4)][:count]
            numbers = [nibble - 16 if nibble > 7 else nibble for nibble in nibbles]
        words += [struct.unpack("<I", struct.pack("<f", float(number - zero) * scale))[0] for number in numbers]
    return words


def _widened(half: int) -> int:
    if half & 0x7C00 == 0x7C00 and half & 0x3FF:
        return (half & 0x8000) << 16 | 0x7FC0_0000
    return struct.unpack("<I", struct.pack("<f", struct.unpack("<e", struct.pack("<H", half))[0]))[0]

"""Reads frames of patches by docs/formats/patches.md and the registry's page alone: no code of the package.

Integers of any width bit by bit, MessagePack by its own specification; vectors are left as the bytes of their frames.
"""

import struct
from typing import Any

from backports import zstd

OPERATIONS = {1: "set", 2: "delete", 3: "put", 4: "remove", 5: "vector"}


def crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


class Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        assert count <= len(self.data) - self.at, "the bytes end"
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self) -> int:
        return self.take(1)[0]

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        value = self.number()
        return value >> 1 if not value & 1 else -(value >> 1) - 1

    def text(self) -> str:
        return self.take(self.number()).decode("utf-8", "surrogatepass")

    def bits(self, count: int, width: int) -> list[int]:
        whole = int.from_bytes(self.take((count * width + 7) // 8), "little")
        return [whole >> place * width & (1 << width) - 1 for place in range(count)]

    def integers(self, count: int) -> list[int]:
        form, first = self.byte(), self.signed()
        if form == 0:
            return [first] * count
        if form == 1:
            return [wrapped(first + each) for each in self.bits(count, self.byte())]
        assert form == 2
        step = self.signed()
        found = [first]
        for each in self.bits(count - 1, self.byte()):
            found.append(wrapped(found[-1] + step + each))
        return found

    def column(self, count: int) -> list[Any]:
        kind = self.byte()
        if kind == 0:
            return [None] * count
        there = [True] * count
        if self.byte():
            there = [bool(bit) for bit in self.bits(count, 1)]
        present = sum(there)
        values: list[Any]
        if kind == 1:
            values = [bool(bit) for bit in self.bits(present, 1)]
        elif kind == 2:
            values = self.integers(present)
        elif kind in (3, 6):
            width, form = (8, "<d") if kind == 3 else (4, "<f")
            planes = [self.take(present) for _ in range(width)]
            values = [struct.unpack(form, bytes(plane[row] for plane in planes))[0] for row in range(present)]
        elif kind in (4, 5):
            pieces = [self.take(length) for length in self.integers(present)]
            values = [piece.decode("utf-8", "surrogatepass") if kind == 4 else piece for piece in pieces]
        elif kind == 7:
            values = message(Reader(self.take(self.number())))
        else:
            assert kind == 8
            return [self.take(self.number())] * count
        left = iter(values)
        return [next(left) if each else None for each in there]


def wrapped(value: int) -> int:
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def message(data: Reader) -> Any:
    """One value of MessagePack."""
    code = data.byte()
    if code < 0x80:
        return code
    if code >= 0xE0:
        return code - 256
    if code < 0x90:
        return {_key(message(data)): message(data) for _ in range(code & 15)}
    if code < 0xA0:
        return [message(data) for _ in range(code & 15)]
    if code < 0xC0:
        return data.take(code & 31).decode()
    big = {0xCC: "B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: "b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
    big |= {0xCA: ">f", 0xCB: ">d"}
    if code in big:
        return struct.unpack(big[code], data.take(struct.calcsize(big[code])))[0]
    if code in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[code]
    sizes = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
    if code in sizes:
        count = int.from_bytes(data.take(sizes[code]), "big")
        if code <= 0xC6:
            return data.take(count)
        if code <= 0xDB:
            return data.take(count).decode()
        if code <= 0xDD:
            return [message(data) for _ in range(count)]
        return {_key(message(data)): message(data) for _ in range(count)}
    fixed = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
    length = fixed[code] if code in fixed else int.from_bytes(data.take({0xC7: 1, 0xC8: 2, 0xC9: 4}[code]), "big")
    return ("extension", data.byte(), data.take(length))


def _key(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def read_frame(data: bytes) -> list[dict[str, Any]]:
    """The patches of one frame."""
    assert data[:4] == b"DPAT" and data[4] == 1 and data[6:8] == b"\0\0"
    stored, plain = struct.unpack("<II", data[8:16])
    assert len(data) == 20 + stored
    assert crc32c(data[:16] + data[20:]) == int.from_bytes(data[16:20], "little")
    body = zstd.decompress(data[20:]) if data[5] & 1 else data[20:]
    assert len(body) == plain
    reader = Reader(body)
    types = [reader.text() for _ in range(reader.number())]
    sources = [reader.text() for _ in range(reader.number())]
    fields = []
    for _ in range(reader.number()):
        kind, form = reader.number(), reader.byte()
        fields.append((kind, reader.text() if form else reader.take(reader.number())))
    found: list[dict[str, Any]] = []
    for _ in range(reader.number()):
        found += group(reader, types, sources, fields)
    assert reader.at == len(body)
    return found


def group(reader: Reader, types: list[str], sources: list[str], fields: list[Any]) -> list[dict[str, Any]]:
    operation, parts = reader.byte(), reader.byte()
    kind, field, count = reader.number(), reader.number(), reader.number()
    keys = [reader.column(count) for _ in range(reader.byte())]
    selectors = [selector(reader, count) for _ in range(reader.byte())]
    values = reader.column(count) if parts & 1 else None
    previous = reader.column(count) if parts & 2 else None
    stamps = reader.integers(count) if parts & 4 else None
    numbers = reader.integers(count) if parts & 8 else None
    rows = []
    for row in range(count):
        found: dict[str, Any] = {"operation": OPERATIONS[operation], "type": types[kind]}
        found["key"] = tuple(column[row] for column in keys)
        found["selectors"] = [column[row] for column in selectors]
        if field:
            assert fields[field - 1][0] == kind
            found["field"] = fields[field - 1][1]
            if isinstance(found["field"], bytes):
                found["reference"] = reference(found["field"], found["selectors"])
        if values is not None:
            found["value"] = values[row]
        if previous is not None:
            found["previous"] = previous[row]
        if stamps is not None:
            found["timestamp"] = stamps[row] % (1 << 64)
        if numbers is not None and numbers[row]:
            found["source"] = sources[numbers[row] - 1]
        rows.append(found)
    return rows


def selector(reader: Reader, count: int) -> list[Any]:
    code = reader.byte()
    if code == 6:
        return [(6, key) for key in reader.column(count)]
    if code in (2, 3):
        columns = [reader.integers(count) for _ in range(code - 1)]
        return [(code, *numbers) for numbers in zip(*columns, strict=True)]
    lengths = reader.integers(count)
    columns = [reader.integers(sum(lengths)) for _ in range(code - 3)]
    found, at = [], 0
    for length in lengths:
        found.append((code, *zip(*(column[at : at + length] for column in columns), strict=True)))
        at += length
    return found


def prefix(value: int) -> bytes:
    """A number of field-registry.md, 1."""
    if value < 128:
        return bytes((value,))
    if value < 16_384:
        return (0x8000 | value).to_bytes(2, "big")
    return (0xC00000 | value).to_bytes(3, "big")


def reference(field: bytes, selectors: list[Any]) -> bytes:
    """The whole reference of a row: that of the field with the row's selectors behind its parents."""
    at = 6 if field[:2] == b"\xff\xff" else 2
    at += 1 if field[at] < 0x80 else 2 if field[at] < 0xC0 else 3
    out = field[:at] + bytes((field[at] + len(selectors),)) + field[at + 1 :]
    for code, *values in selectors:
        if code == 6:
            value = values[0].encode()
        elif code in (2, 3):
            value = b"".join(map(prefix, values))
        else:
            value = prefix(len(values)) + b"".join(prefix(number) for pair in values for number in pair)
        out += bytes((code,)) + prefix(len(value)) + value
    return out

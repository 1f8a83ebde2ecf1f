"""A reader of splits that shares no code with the package: written from the page `formats/split.md` alone."""

import json
import struct
import zlib


def members_of(split: bytes) -> dict[str, bytes]:
    """Every member by its name."""
    end = len(split)
    if split[-4:] == b"QWFT":
        version = struct.unpack("<QI", split[-16:-4])[1]
        assert version == 1
        end -= 16
    hot = struct.unpack("<I", split[end - 4 : end])[0]
    end -= 4 + hot
    length = struct.unpack("<I", split[end - 4 : end])[0]
    metadata = split[end - 4 - length : end - 4]
    assert struct.unpack("<II", metadata[:8]) == (403881646, 1)
    files = json.loads(metadata[8:])["files"]
    return {name: split[place["start"] : place["end"]] for name, place in files.items()}


def hot_cache_of(split: bytes) -> bytes:
    """The bytes of the hot cache of a split without a trailer."""
    hot = struct.unpack("<I", split[-4:])[0]
    return split[len(split) - 4 - hot : len(split) - 4]


def slices_of(hot: bytes) -> dict[str, list[tuple[int, bytes]]]:
    """The slices of each file in a hot cache: where they start, and their bytes."""
    magic, version, length = struct.unpack("<III", hot[:12])
    assert (magic, version) == (2557869106, 1)
    middle, area = hot[12 : 12 + length], hot[12 + length :]
    at = 0

    def number(data: bytes) -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text() -> str:
        nonlocal at
        size = number(middle)
        at += size
        return middle[at - size : at].decode()

    lengths = {text(): number(middle) for _ in range(number(middle))}
    offsets = [(text(), number(middle)) for _ in range(number(middle))]
    assert at == len(middle)
    found = {}
    stops = [*(start for _, start in offsets[1:]), len(area)]
    for (name, start), stop in zip(offsets, stops, strict=False):
        block = area[start:stop]
        cached = struct.unpack("<Q", block[-8:])[0]
        index, at = block[cached:-8], 0
        assert number(index) == lengths[name]
        found[name] = []
        for _ in range(number(index)):
            first, last, address = number(index), number(index), number(index)
            found[name].append((first, block[address : address + last - first]))
        assert at == len(index)
    return found


def segment_body(data: bytes) -> bytes:
    """A segment file without its footer, after its checksum was compared."""
    length, magic = struct.unpack("<II", data[-8:])
    assert magic == 1337
    body, footer = data[: -8 - length], json.loads(data[-8 - length : -8])
    assert footer["crc"] == zlib.crc32(body)
    return body


def crc32c(data: bytes) -> str:
    """CRC-32C, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return f"crc32c:{value ^ 0xFFFFFFFF:08x}"

"""One fuzzing process for splits: opens damaged ones one after the other, and says what went wrong.

    python -m tests.fuzz.splits mutations 0 2000     any byte of a split, by the seeds 0 to 1999
    python -m tests.fuzz.splits repaired 0 2000      inside one member, with every checksum made right again
    python -m tests.fuzz.splits cached 0 200         the same damage as mutations, through the cache and the engine

Each failure is a line of JSON. Of a split of ours, rows that are read must be those that were written. Memory is
bounded for the whole process (not for `cached`: the engine's threads reserve more than they use), time for each split.
"""

import base64
import datetime
import functools
import json
import os
import resource
import shutil
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from pathlib import Path
from random import Random

import pyarrow as pa
import tantivy

from deltaic.errors import DecodeError
from deltaic.storage.checksum import checksum
from deltaic.storage.local import LocalStore
from deltaic.table.split import (
    ColumnIndex,
    DocMapping,
    SplitCache,
    SplitOptions,
    open_index,
    open_split,
    with_deletes,
    write_split,
)
from deltaic.table.split.container import pack
from deltaic.table.split.engine import guarded

MOST_SECONDS = 2.0
MOST_BYTES = 96 << 20
MOST_BYTES_PER_INPUT_BYTE = 16
HOSTILE = (0, 1, 127, 128, 255, 2**16 - 1, 2**28, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1)


def rows() -> pa.Table:
    """Thirty rows of the types that a document store can hold."""
    day = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    return pa.table(
        {
            "id": pa.array(range(30), pa.int32()),
            "count": pa.array([None if number % 7 == 0 else number for number in range(30)], pa.uint64()),
            "name": [f"name {number}" * (number % 4) for number in range(30)],
            "plot": ["the ocean thinks of the zone"] * 30,
            "price": [number / 3 for number in range(30)],
            "at": pa.array([day + datetime.timedelta(hours=number) for number in range(30)], pa.timestamp("us", "UTC")),
            "seen": [number % 2 == 0 for number in range(30)],
            "raw": [bytes([number] * number) for number in range(30)],
            "crew": [{"director": f"d{number}", "age": number} for number in range(30)],
            "tags": [["a"] * (number % 3) for number in range(30)],
        }
    )


@functools.cache
def targets() -> dict[str, bytes]:
    """Splits of every kind, with and without a delete file."""
    made: dict[str, bytes] = {}
    table = rows()
    mapping = DocMapping.from_schema(table.schema, {"plot": ColumnIndex("text")})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, options in (("deltaic", SplitOptions(row_group_rows=10)), ("native", SplitOptions(native=True))):
            write_split(table, mapping, folder / kind, options=options)
            with_deletes(open_split(LocalStore(folder), kind), [3, 4], folder / f"{kind}-deletes")
            made[kind], made[f"{kind}-deletes"] = (
                (folder / kind).read_bytes(),
                (folder / f"{kind}-deletes").read_bytes(),
            )
    for kind in ("native", "native-deletes"):
        public = [(name, data) for name, data in members(made[kind]).items() if not name.startswith("_")]
        made[kind.replace("native", "foreign")] = pack(public, hot_cache(made[kind]))
    return made


def members(split: bytes) -> dict[str, bytes]:
    """The members of a sound split."""
    hot = struct.unpack("<I", split[-4:])[0]
    end = len(split) - 8 - hot
    length = struct.unpack("<I", split[end : end + 4])[0]
    files = json.loads(split[end - length + 8 : end])["files"]
    return {name: split[place["start"] : place["end"]] for name, place in files.items()}


def hot_cache(split: bytes) -> bytes:
    """The hot cache of a sound split."""
    return split[-4 - struct.unpack("<I", split[-4:])[0] : -4]


def damage(data: bytes, random: Random) -> bytes:
    """One to three kinds of damage."""
    blob = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 3))):
        if not blob:
            break
        at = random.randrange(len(blob))
        match random.randrange(8):
            case 0:
                blob[at] ^= 1 << random.randrange(8)
            case 1:
                blob[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                size = random.choice((1, 2, 4, 8))
                blob[at : at + size] = (random.choice(HOSTILE) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            case 3:
                del blob[at : at + random.randint(1, 32)]
            case 4:
                blob[at:at] = random.randbytes(random.randint(1, 16))
            case 5:
                del blob[at:]
            case 6:
                blob[at : at + 16] = blob[at // 2 : at // 2 + 16]
            case _:
                blob[at:at] = blob[at : at + random.randint(1, 64)]
    return bytes(blob)


def mutated(random: Random) -> tuple[str, bytes]:
    """A split with damage anywhere; half of it in the footer, which is a small part."""
    kind = random.choice(sorted(targets()))
    split = targets()[kind]
    if random.random() < 0.5:
        return kind, damage(split, random)
    cut = len(split) - 8 - len(hot_cache(split)) - random.randint(0, 1500)
    return kind, split[:cut] + damage(split[cut:], random)


def repaired(random: Random) -> tuple[str, bytes]:
    """A split with damage inside one member, and checksums that fit."""
    kind = random.choice(sorted(targets()))
    parts = members(targets()[kind])
    choices = [name for name in parts if name.endswith((".store", ".del")) or name in ("meta.json", "_deltaic.json")]
    name = random.choice([*choices, *(one for one in choices if one.endswith(".store"))])
    parts[name] = _damaged_member(name, parts[name], random)
    if "_deltaic.json" in parts and name != "_deltaic.json" and not name.endswith(".store"):
        described = json.loads(parts["_deltaic.json"].split(b"\n")[0])
        described["members"][name] = checksum(parts[name])
        parts["_deltaic.json"] = _sealed(json.dumps(described).encode())
    return kind, pack(list(parts.items()), hot_cache(targets()[kind]))


def _damaged_member(name: str, data: bytes, random: Random) -> bytes:
    if name == "_deltaic.json":
        line = data.split(b"\n")[0]
        if random.random() < 0.3:
            described = json.loads(line)
            schema = damage(base64.b64decode(described["rows"]["schema"]), random)
            described["rows"]["schema"] = base64.b64encode(schema).decode()
            return _sealed(json.dumps(described).encode())
        return _sealed(damage(line, random))
    if name == "meta.json":
        return damage(data, random)
    length = struct.unpack("<I", data[-8:-4])[0]
    body = damage(data[: -8 - length], random)
    if name.endswith(".store") and random.random() < 0.7:
        body = _damaged_store(data[: -8 - length], random)
    footer = json.loads(data[-8 - length : -8])
    footer["crc"] = zlib.crc32(body)
    text = json.dumps(footer, separators=(",", ":")).encode()
    return body + text + struct.pack("<II", len(text), 1337)


def _damaged_store(body: bytes, random: Random) -> bytes:
    """Damage behind the compression: the one block is unpacked, damaged, and packed again."""
    import cramjam

    offset, compressor = struct.unpack("<QB", body[-24:-15])
    if compressor != 1:
        return damage(body, random)
    size = struct.unpack("<I", body[:4])[0]
    block = damage(bytes(cramjam.lz4.decompress_block(body[4:offset], output_len=size)), random)
    packed = struct.pack("<I", len(block)) + bytes(cramjam.lz4.compress_block(block, store_size=False))
    index = bytes([0x81, 0]) + b"\x81\x80\x80" + _vint(30) + _vint(len(packed))
    index = bytes([0x81]) + _vint(len(index) - 2) + index[2:]
    return packed + index + struct.pack("<IQB15x", 2, len(packed), 1)


def _vint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127)
        number >>= 7
    return bytes([*out, number | 128])


def _sealed(line: bytes) -> bytes:
    line = line.replace(b"\n", b" ")
    return line + b"\n" + checksum(line).encode() + b"\n"


def use(folder: Path, kind: str, data: bytes, plan: str) -> str:
    """Open a damaged split and read all that it has; says how it ended."""
    (folder / "split").write_bytes(data)
    store = LocalStore(folder)
    try:
        split = open_split(store, "split")
        found = split.rows()
        split.mapping.to_json()
        if found.num_rows:
            split.rows(found.column_names[:2], split.row_numbers()[-1:])
        if split.kind != "foreign" and plan != "repaired":
            expected = rows() if not kind.endswith("-deletes") else rows().filter([n not in (3, 4) for n in range(30)])
            assert found.equals(expected), "other rows than those that were written"
        if plan == "cached":
            cached = SplitCache(folder / "cache").get(store, "split")
            with guarded("search", "cache"):
                count = open_index(cached.index_folder).searcher().search(tantivy.Query.all_query()).count
            assert count == cached.num_rows == found.num_rows
    except DecodeError as error:
        return error.code
    finally:
        (folder / "split").unlink()
        shutil.rmtree(folder / "cache", ignore_errors=True)
    return "read"


def main(plan: str, start: int, stop: int, note: str = os.devnull) -> int:
    """Run one plan over a range of seeds."""
    largest = max(len(data) for data in targets().values())
    failures = 0
    endings: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for kind, data in targets().items():
            assert use(folder, kind, data, plan) == "read"
        if plan != "cached":
            in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            most = in_use + MOST_BYTES + MOST_BYTES_PER_INPUT_BYTE * largest
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        progress = os.open(note, os.O_WRONLY)
        for seed in range(start, stop):
            os.pwrite(progress, b"%-20d" % seed, 0)
            random = Random(seed)
            kind, data = repaired(random) if plan == "repaired" else mutated(random)
            started = time.process_time()
            try:
                ending = use(folder, kind, data, plan)
                if time.process_time() - started > MOST_SECONDS:
                    raise AssertionError(f"took {time.process_time() - started:.1f} s")
            except BaseException as error:
                failures += 1
                tail = "".join(traceback.format_exception(error)[-3:])
                print(json.dumps({"seed": seed, "kind": kind, "error": repr(error), "tail": tail}), flush=True)
                if failures == 20:
                    break
                continue
            endings[ending] += 1
    print(json.dumps({"endings": endings, "failures": failures}), flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))

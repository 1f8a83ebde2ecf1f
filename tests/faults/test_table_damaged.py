"""Mutated logs and manifests: a value or a DecodeError, in bounded time and memory."""

import gzip
import io
import json
import random
import time
import tracemalloc

import fastavro
import pytest

from deltaic.errors import DecodeError, InputError, NotFoundError, SchemaError
from deltaic.table import Settings, Table
from deltaic.table.avro import encode_long, read_container, write_container
from deltaic.table.checkpoint import HINT_NAME, checkpoint_name, decode_hint, read_checkpoint
from deltaic.table.columns import FileColumns
from deltaic.table.manifest import ManifestCache
from deltaic.table.state import AVRO_NAME, JSON_NAME, read_state, state_folder
from deltaic.table.versionfile import VersionFile, pack_text
from deltaic.testing.stores import SimulatedStore
from tests.unit.table import foreign
from tests.unit.table.making import make_file, make_table

MAPPING = '[{"name":"id","type":"i64"}]'


def golden():
    """Bytes of every kind of file of a log, by the decoder that reads them."""
    found = {}
    for codec in ("zstd", "none", "snappy", "deflate"):
        store = SimulatedStore()
        table = make_table(
            store, partition_by=("day",), settings=Settings(state_compression=codec, tombstone_threshold=0.9)
        )
        files = [
            make_file(
                f"f{n}",
                day="2024-01-01",
                min_values={"id": "1"},
                max_values={"id": "9"},
                num_records=n,
                doc_mapping_json=MAPPING,
            )
            for n in range(4)
        ]
        table.append(files, note="note")
        table.remove(["f1"])
        log = store.child("_transaction_log")
        found[f"version {codec}"] = ("version", log.get(f"{1:020}.json").data)
        found[f"state {codec}"] = ("state", log.get(f"{state_folder(2)}/{AVRO_NAME}").data)
        manifest = table.log.state(2).manifests[0].path
        found[f"manifest {codec}"] = ("manifest", log.get(manifest).data)
    text = json.dumps(
        {"formatVersion": 1, "stateVersion": 2, "manifests": [{"path": "manifests/x.avro", "numEntries": 1}]}
    )
    found["state json"] = ("state json", text.encode())
    found["hint"] = ("hint", log.get(HINT_NAME).data)
    found["version plain"] = (
        "version",
        foreign.lines([foreign.protocol(), foreign.metadata(), foreign.add("a"), foreign.remove("b")]),
    )
    found["checkpoint"] = ("checkpoint", foreign.packed([foreign.protocol(), foreign.metadata(), foreign.add("a")]))
    parts = {"version": 1, "checkpointId": "a1b2c3d4e5f6", "parts": ["x.json"], "createdTime": 1}
    found["checkpoint parts"] = ("checkpoint", json.dumps(parts).encode())
    return found


GOLDEN = golden()


def decode(kind, data):
    """Read bytes as what they claim to be, all of them."""
    if kind == "version":
        return VersionFile.read(1, data, "test").actions
    if kind == "manifest":
        columns = FileColumns.read(data, "test")
        return list(columns.entries())
    if kind == "hint":
        return decode_hint(data, "test")
    store = SimulatedStore()
    if kind == "checkpoint":
        store.put(checkpoint_name(1), data)
        return read_checkpoint(store, 1)
    store.put(f"{state_folder(2)}/{AVRO_NAME if kind == 'state' else JSON_NAME}", data)
    return read_state(store, 2)


def outcome(kind, data):
    started = time.perf_counter()
    try:
        decode(kind, data)
        result = "value"
    except (DecodeError, InputError) as error:
        result = type(error).__name__
    assert time.perf_counter() - started < 5.0
    return result


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_the_golden_bytes_are_read(name):
    # The checkpoint in parts names a part that nobody wrote.
    assert outcome(*GOLDEN[name]) == ("DecodeError" if name == "checkpoint parts" else "value")


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_every_prefix_is_refused_or_read(name):
    kind, data = GOLDEN[name]
    for size in range(len(data)):
        result = outcome(kind, data[:size])
        if kind in ("manifest", "state") and size < len(data) and not _ends_at_a_block(name, size):
            assert result != "value", size


def _ends_at_a_block(name, size):
    # A container may hold no blocks at all; a manifest that ends after its header is an empty one.
    _, data = GOLDEN[name]
    try:
        return read_container(data[:size], "test").count >= 0
    except DecodeError:
        return False


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_flipped_bits_end_in_a_value_or_a_decode_error(name):
    kind, data = GOLDEN[name]
    chance = random.Random(name)
    for _ in range(600):
        broken = bytearray(data)
        for _ in range(chance.choice([1, 1, 1, 4])):
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
        outcome(kind, bytes(broken))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_many_mutations_end_in_a_value_or_a_decode_error(name):
    kind, data = GOLDEN[name]
    chance = random.Random(f"long {name}")
    for _ in range(20_000):
        broken = bytearray(data)
        for _ in range(chance.randrange(1, 6)):
            place = chance.randrange(len(broken) + 1)
            action = chance.randrange(4)
            if action == 0 and broken:
                del broken[place : place + chance.randrange(1, 9)]
            elif action == 1:
                broken[place:place] = chance.randbytes(chance.randrange(1, 9))
            elif broken:
                broken[min(place, len(broken) - 1)] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        outcome(kind, bytes(broken))


HUGE = [0, -1, 1, 2**31, 2**62, 2**63 - 1, -(2**63)]


@pytest.mark.parametrize("number", HUGE)
def test_hostile_counts_take_no_memory(number):
    schema = json.loads(json.dumps({"type": "record", "name": "FileEntry", "fields": foreign.FILE_ENTRY["fields"]}))
    header = write_container(schema, [], codec="none", sync=b"s" * 16)
    files = [
        header + encode_long(number) + encode_long(4) + b"abcd" + b"s" * 16,
        header + encode_long(1) + encode_long(number) + b"abcd" + b"s" * 16,
    ]
    # Inside of a record: the length of the path, the size of the map, the items of a list.
    for body in (encode_long(number) + b"x" * 40, b"\x02a" + encode_long(number) + b"\0" * 40):
        files.append(header + encode_long(1) + encode_long(len(body)) + body + b"s" * 16)
    tracemalloc.start()
    for data in files:
        with pytest.raises(DecodeError):
            list(FileColumns.read(data, "test").entries())
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_bombs_are_refused_before_they_unpack():
    for bomb in (gzip.compress(b"\n" * (600 << 20), 1), b"\x01\x01" + gzip.compress(b"\n" * (600 << 20), 1)):
        with pytest.raises(DecodeError):
            VersionFile.read(1, bomb, "test")
    from deltaic.storage import compress

    packed = compress(b"\0" * (64 << 20), "zstd")
    header = write_container(foreign.FILE_ENTRY, [], codec="zstd", sync=b"s" * 16)
    data = header + encode_long(1) + encode_long(len(packed)) + packed + b"s" * 16
    with pytest.raises(DecodeError):
        FileColumns.read(data, "test")


def test_a_schema_that_nests_or_refers_to_itself_ends():
    deep = "string"
    for _ in range(500):
        deep = {"type": "array", "items": deep}
    itself = {"type": "record", "name": "R", "fields": [{"name": "path", "type": "R"}]}
    empty = {"type": "record", "name": "FileEntry", "fields": []}
    nulls = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "manifests", "type": {"type": "array", "items": "null"}}],
    }
    for schema in (deep, itself, empty, nulls, 7, [], None, {"type": "record"}, {"type": "record", "fields": 3}):
        data = write_container(schema, [(5, b"\x02" * 64)], codec="none")
        for kind in ("state", "manifest"):
            assert outcome(kind, data) != "value"


def test_a_table_with_any_damaged_log_file_opens_or_says_why():
    store = SimulatedStore()
    table = make_table(store, settings=Settings(max_manifests=2))
    for number in range(5):
        table.append([make_file(f"f{number}")])
    good = dict(store._world.objects)
    names = [key for key in good if key.startswith("_transaction_log/")]
    chance = random.Random(5)
    for key in names:
        for damage in ("cut", "flip", "empty", "garbage", "gone"):
            store._world.objects.clear()
            store._world.objects.update(good)
            data = good[key].data
            if damage == "gone":
                store.delete(key)
            else:
                place = chance.randrange(len(data))
                flipped = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
                made = {"cut": data[: len(data) // 2], "flip": flipped, "empty": b"", "garbage": b"\xff" * 50}
                store.put(key, made[damage])
            try:
                found = Table.open(store, cache=ManifestCache()).snapshot()
                files = set(found.paths())
            except (DecodeError, NotFoundError, InputError, SchemaError):
                continue
            assert found.version == 5 or damage in ("gone", "flip")
            if damage != "flip":
                assert files == {f"f{number}" for number in range(found.version)}, (key, damage)


def test_unusual_shapes_that_lie_end_in_a_decode_error():
    schema = {
        **foreign.FILE_ENTRY,
        "fields": [*foreign.FILE_ENTRY["fields"], {"name": "odd", "type": ["null", "int", "string"]}],
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [{**foreign.entry("a"), "odd": 3}], codec="null")
    data = out.getvalue()
    assert outcome("manifest", data) == "value"
    chance = random.Random(1)
    for _ in range(400):
        broken = bytearray(data)
        broken[chance.randrange(len(data))] = chance.randrange(256)
        outcome("manifest", bytes(broken))


def test_every_version_of_the_text_form_is_checked():
    for line in (
        b'{"add": 3}',
        b'{"add": {}}',
        b"[]",
        b'{"add": {"path": 3}}',
        b'{"metaData": {"id": "x"}}',
        b'{"protocol": {}}',
        b"\xff",
    ):
        for text in (line, b"{}\n" + line):
            with pytest.raises(DecodeError):
                VersionFile.read(1, pack_text(text, compressed=True), "test")

"""Damaged journals and snapshots of a registry give a state or one of the error codes of the format, nothing else.

Seeds are fixed: a failure names its seed.
"""

import random
import struct
import tracemalloc
import zlib
from collections import Counter
from functools import lru_cache
from itertools import pairwise

import pytest

from deltaic.errors import RegistryError
from deltaic.schema.registry import Registry
from deltaic.schema.registry_journal import journal_name, read_journal, write_journal
from deltaic.schema.registry_state import RegistryState
from deltaic.schema.registry_store import open_registry, snapshot_name
from deltaic.testing.stores import SimulatedStore

CODES = {"Truncated", "BadMagic", "UnsupportedVersion", "ChecksumMismatch", "JournalCorrupt"}
HEADER = 16


class Kept:
    def __init__(self):
        self.records = []

    def append(self, _state, records):
        self.records += records
        return True

    def written(self, _state):
        pass


@lru_cache
def life(seed):
    """A random life: its records and its snapshot."""
    chance = random.Random(seed)
    registry = Registry(journal=(journal := Kept()), max_versions=chance.choice([None, 2]))
    for number in range(chance.randrange(1, 30)):
        choice = chance.random()
        if choice < 0.75:
            registry.register(f"t{number}.f[]" if number % 3 else f"é{number}{{}}", chance.choice([2, 4, 200]), number)
        elif choice < 0.85 and len(registry.view.table()):
            registry.retire(next(registry.fields()).path)
        else:
            registry.optimize(force=True)
    return journal.records, registry.snapshot()


def mutated(data, chance):
    data = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        place = chance.randrange(len(data) or 1)
        match chance.randrange(8):
            case 0 if data:
                data[place] ^= 1 << chance.randrange(8)
            case 1 if data:
                data[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                del data[place:]
            case 3:
                data[place:place] = chance.randbytes(chance.randrange(1, 9))
            case 4:
                del data[place : place + chance.randrange(1, 9)]
            case 5 if len(data) >= place + 4:
                struct.pack_into("<I", data, place, chance.choice([0, 1, 2**31, 2**32 - 1, len(data), place]))
            case 6:
                data += data[place : place + 40]
            case _:
                piece = data[place : place + 20]
                other = chance.randrange(len(data) or 1)
                data[other : other + len(piece)] = piece
    return bytes(data)


def resealed_journal(data):
    """Checksums as they should be, as far as lengths make sense: damage that gets past them."""
    data, at = bytearray(data), HEADER
    while at + 8 <= len(data):
        length = struct.unpack_from("<I", data, at)[0]
        if at + 8 + length > len(data):
            break
        struct.pack_into("<I", data, at + 4, zlib.crc32(data[at + 8 : at + 8 + length]))
        at += 8 + length
    return bytes(data)


def resealed_snapshot(data):
    return data[:-4] + struct.pack("<I", zlib.crc32(data[:-4]))


def ending(call, seed):
    try:
        call()
    except RegistryError as error:
        assert error.code in CODES, (seed, error)
        return error.code
    except Exception as error:
        pytest.fail(f"seed {seed}: {error!r}")
    return "read"


def journal_case(seed):
    records, _ = life(seed % 50)
    chance = random.Random(seed)
    data = mutated(write_journal(0, records), chance)
    if chance.random() < 0.6:
        data = resealed_journal(data)

    def read():
        found = read_journal(data)
        RegistryState().apply_all(found.records)

    return ending(read, seed)


def snapshot_case(seed):
    _, snapshot = life(seed % 50)
    chance = random.Random(seed)
    data = mutated(snapshot, chance)
    if chance.random() < 0.8:
        data = resealed_snapshot(data)

    def read():
        state = RegistryState.from_snapshot(data)
        assert RegistryState.from_snapshot(state.snapshot()).snapshot() == state.snapshot()
        list(state.view.table())

    return ending(read, seed)


def folder_case(seed):
    chance = random.Random(seed)
    records, _ = life(seed % 50)
    cuts = sorted({0, *(chance.randrange(len(records)) for _ in range(3)), len(records)})
    store, state = SimulatedStore(), RegistryState()
    files = []
    for start, stop in pairwise(cuts):
        files.append((journal_name(start), write_journal(start, records[start:stop])))
        state.apply_all(records[start:stop])
        if chance.random() < 0.4:
            files.append((snapshot_name(stop), state.snapshot()))
    hit = chance.randrange(len(files))
    for place, (name, data) in enumerate(files):
        if place == hit:
            data = mutated(data, chance)
            if chance.random() < 0.5:
                data = resealed_journal(data) if name.startswith("j") else resealed_snapshot(data)
        store.put(name, data)

    def read():
        registry = open_registry(store)
        before = [field.path for field in registry.fields()]
        # Whatever was recovered goes on, and says the same the next time.
        index = registry.register("one.more", 2)
        assert index == len(registry.view.table()) - 1 or "one.more" in before
        again = open_registry(store)
        assert again.lookup("one.more") == index and again.snapshot() == registry.snapshot()

    return ending(read, seed)


@pytest.mark.parametrize("case", [journal_case, snapshot_case, folder_case], ids=["journals", "snapshots", "folders"])
def test_mutated_files_are_read_or_refused_by_a_code(case):
    endings = Counter(case(seed) for seed in range(3_000))
    # Damage that never gets past the first check would test nothing.
    assert endings["read"] > 100 and endings["JournalCorrupt"] > 100, endings
    if case is snapshot_case:
        assert set(endings) == CODES | {"read"}


@pytest.mark.long
@pytest.mark.parametrize("case", [journal_case, snapshot_case, folder_case], ids=["journals", "snapshots", "folders"])
def test_many_more_mutated_files_are_read_or_refused_by_a_code(case):
    assert Counter(case(seed) for seed in range(1_000_000, 1_100_000)).total() == 100_000


def test_a_cut_anywhere_gives_the_records_before_it():
    records, _ = life(7)
    data = write_journal(0, records)
    ends = [HEADER]
    for record in range(len(records)):
        ends.append(len(write_journal(0, records[: record + 1])))
    for size in range(HEADER, len(data)):
        found = read_journal(data[:size])
        whole = sum(end <= size for end in ends) - 1
        assert (len(found.records), found.good_bytes) == (whole, ends[whole])
        assert found.torn == (size not in ends)


def test_no_damage_makes_a_reader_take_much_memory():
    tracemalloc.start()
    try:
        for seed in range(2_000_000, 2_000_200):
            tracemalloc.reset_peak()
            journal_case(seed)
            snapshot_case(seed)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20, seed
    finally:
        tracemalloc.stop()

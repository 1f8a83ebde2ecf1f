"""A second reader of journals and snapshots, written from the page of the format alone; it shares no code with deltaic.

It is slow and obvious: bytes in, lists and dictionaries out, `ValueError` for anything that is not right.
"""

import binascii


class Bytes:
    def __init__(self, data):
        self.data, self.at = bytes(data), 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError(f"ends at {len(self.data)}, {count} bytes wanted at {self.at}")
        piece = self.data[self.at : self.at + count]
        self.at += count
        return piece

    def number(self, count):
        return int.from_bytes(self.take(count), "little")


def read_journal(data):
    """The base sequence and the records: (sequence, operation, values)."""
    source = Bytes(data)
    if source.take(4) != b"DFRJ" or source.take(4) != bytes([1, 0, 0, 0]):
        raise ValueError("no journal")
    base = source.number(8)
    records = []
    while source.at < len(data):
        length, checksum = source.number(4), source.number(4)
        payload = source.take(length)
        if binascii.crc32(payload) != checksum:
            raise ValueError("checksum")
        records.append(_record(Bytes(payload)))
    return base, records


def _record(body):
    sequence, operation = body.number(8), body.number(1)
    if operation == 1:
        values = [body.number(4), body.number(4), body.number(1), body.number(8)]
        values.append(body.take(body.number(2)).decode())
    elif operation == 2:
        values = [body.number(4), body.number(4), [body.number(4) for _ in range(body.number(4))]]
    elif operation == 3:
        values = [body.number(4), body.number(4), body.number(1)]
    elif operation == 4:
        values = [body.number(4)]
    else:
        raise ValueError(f"operation {operation}")
    if body.at != len(body.data):
        raise ValueError("bytes left over")
    return sequence, operation, values


def read_snapshot(data):
    """The whole of a snapshot as one dictionary."""
    if binascii.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise ValueError("checksum")
    source = Bytes(data[:-4])
    if source.take(4) != b"DFRS" or source.take(4) != bytes([1, 0, 0, 0]):
        raise ValueError("no snapshot")
    sequence, current, oldest = source.number(8), source.number(4), source.number(4)
    counts = source.number(4), source.number(4)
    descriptors = []
    for _ in range(counts[0]):
        kind, retired, length, created = source.number(1), source.number(1), source.number(2), source.number(8)
        descriptors.append((source.take(length).decode(), kind, created, bool(retired)))
    versions = {}
    for _ in range(counts[1]):
        version = source.number(4)
        versions[version] = [source.number(4) for _ in range(source.number(4))]
    if source.at != len(source.data):
        raise ValueError("bytes left over")
    return {
        "sequence": sequence,
        "current": current,
        "oldest": oldest,
        "descriptors": descriptors,
        "versions": versions,
    }


class PlainRegistry:
    """What the records of journals make of an empty registry."""

    def __init__(self):
        self.sequence, self.current, self.oldest = 0, 0, 0
        self.descriptors, self.retired, self.versions = [], set(), {0: []}

    def apply(self, record):
        sequence, operation, values = record
        assert sequence == self.sequence + 1, (sequence, self.sequence)
        self.sequence = sequence
        table = self.versions[self.current]
        if operation == 1:
            version, index, kind, created, path = values
            assert (version, index) == (self.current, len(table))
            assert path not in [self.descriptors[number][0] for number in table]
            self.descriptors.append((path, kind, created))
            table.append(len(self.descriptors) - 1)
        elif operation == 2:
            old, new, order = values
            assert old == self.current and new == old + 1
            live = [index for index, number in enumerate(table) if number not in self.retired]
            assert sorted(order) == live
            self.versions[new] = [table[index] for index in order]
            self.current = new
        elif operation == 3:
            version, index, retired = values
            assert version == self.current
            (self.retired.add if retired else self.retired.discard)(table[index])
        else:
            assert values[0] == self.oldest < self.current
            del self.versions[self.oldest]
            self.oldest += 1

    def shown(self):
        return {
            "sequence": self.sequence,
            "current": self.current,
            "oldest": self.oldest,
            "descriptors": [(*field, number in self.retired) for number, field in enumerate(self.descriptors)],
            "versions": self.versions,
        }


def read_folder(folder):
    """The registry of a folder whose files all end whole: newest snapshot, then the journals behind it."""
    registry = PlainRegistry()
    snapshots = sorted(folder.glob("snapshot-*.dfrs"))
    if snapshots:
        found = read_snapshot(snapshots[-1].read_bytes())
        assert snapshots[-1].name == f"snapshot-{found['sequence']:020d}.dfrs"
        registry.sequence, registry.current, registry.oldest = found["sequence"], found["current"], found["oldest"]
        registry.descriptors = [tuple(field[:3]) for field in found["descriptors"]]
        registry.retired = {number for number, field in enumerate(found["descriptors"]) if field[3]}
        registry.versions = found["versions"]
    for path in sorted(folder.glob("journal-*.dfrj")):
        base, records = read_journal(path.read_bytes())
        assert path.name == f"journal-{base:020d}.dfrj"
        for record in records:
            if record[0] > registry.sequence:
                registry.apply(record)
    return registry

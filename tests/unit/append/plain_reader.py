"""A reader of appended sections made from docs/formats/schema-append.md alone, without code of the package."""

import zlib


class Bytes:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, count: int) -> bytes:
        piece = self.data[self.at : self.at + count]
        assert len(piece) == count
        self.at += count
        return piece

    def number(self) -> int:
        value = 0
        while True:
            byte = self.take(1)[0]
            value = value * 128 + byte % 128
            if byte < 128:
                return value

    def text(self) -> str:
        return self.take(self.number()).decode()

    def short_text(self) -> str:
        return self.take(int.from_bytes(self.take(2), "big")).decode()

    @property
    def left(self) -> int:
        return len(self.data) - self.at


def unzigzag(value: int) -> int:
    return value // 2 if value % 2 == 0 else -(value + 1) // 2


def read_field(source: Bytes) -> tuple:
    name, kind = source.text(), source.take(1)[0]
    return (name, kind, source.text()) if kind == 0 else (name, kind)


def read_value(source: Bytes, kind: int):
    match kind:
        case 0:
            return source.number()
        case 1 | 2:
            return unzigzag(source.number())
        case 3:
            return {0: False, 1: True}[source.take(1)[0]]
        case 4:
            return source.take(4).hex()
        case 5:
            return source.take(8).hex()
        case 6:
            return source.take(source.number()).decode("utf-8", "surrogatepass")
        case 7:
            return source.take(source.number())
    raise AssertionError(kind)


def read_section(envelope: bytes, data: bytes) -> dict:
    """Definitions, values and entries of the extension block, as plain values."""
    flags = envelope[1] - 0xA0 if len(envelope) > 1 else 0
    source = Bytes(data)
    if flags & 1:
        assert envelope[0] == 0
        assert source.number() == source.left
        codec, size = source.take(1)[0], source.number()
        packed = source.take(source.left)
        if codec == 2:
            plain = zlib.decompress(packed)
        else:
            from backports import zstd

            plain = zstd.decompress(packed)
        assert len(plain) == size
        source = Bytes(plain)
    else:
        assert envelope[0] == 1
    definitions, values, entries = {}, {}, []
    total = source.number()
    end = source.at + total
    if total:
        size = source.number()
        stop = source.at + size
        for _ in range(source.number()):
            name = source.text()
            definitions[name] = [read_field(source) for _ in range(source.number())]
        assert source.at == stop
        for _ in range(source.number()):
            name, fields = source.text(), {}
            for _ in range(source.number()):
                field = read_field(source)
                fields[field] = {source.number(): read_value(source, field[1]) for _ in range(source.number())}
            values[name] = fields
    assert source.at == end
    if flags & 2:
        assert source.number() == source.left
        for _ in range(source.number()):
            kind = source.take(1)[0]
            entry = Bytes(source.take(source.number()))
            if kind == 1:
                shards, schema = entry.number(), entry.take(entry.left)
                entries.append((1, shards, schema))
            elif kind == 5:
                entries.append((5, entry.text(), [entry.text() for _ in range(entry.number())]))
            else:
                entries.append((kind, *(entry.text() for _ in range({2: 1, 3: 2, 4: 3}[kind]))))
            assert entry.left == 0
    assert source.left == 0
    return {"definitions": definitions, "values": values, "entries": entries}

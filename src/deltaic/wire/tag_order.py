"""The order in which Java writes header tags (hollow-blob.md, 17.4): that of a hash map which is never rebuilt.

`TagMap` is a mapping that iterates as Java's `ConcurrentHashMap` does after the same calls. Readers do not care;
blobs that are equal to Java's byte for byte need it.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping

from deltaic.kernels import hashing

_FIRST_TABLE = 16


class TagMap(MutableMapping[str, str]):
    """Texts by name, in Java's order."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._buckets: list[list[str]] = []

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __setitem__(self, name: str, value: str) -> None:
        if name not in self._values:
            if not self._buckets:
                self._buckets = [[] for _ in range(_FIRST_TABLE)]
            self._buckets[_spread(name) & len(self._buckets) - 1].append(name)
        self._values[name] = value
        self._grow_if_full()

    def __delitem__(self, name: str) -> None:
        del self._values[name]
        self._buckets[_spread(name) & len(self._buckets) - 1].remove(name)

    def __iter__(self) -> Iterator[str]:
        return (name for bucket in self._buckets for name in bucket)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"TagMap({dict(self.items())!r})"

    def replace_all(self, tags: Mapping[str, str]) -> None:
        """Take over all tags of another map, as Java does when a cycle starts: cleared, sized for them, then filled."""
        self._values = {}
        self._buckets = [[] for _ in self._buckets]
        wanted = 1 << (len(tags) + len(tags) // 2).bit_length()
        if not self._buckets:
            self._buckets = [[] for _ in range(wanted)]
        while _threshold(len(self._buckets)) < wanted:
            self._double()
        for name, value in tags.items():
            self[name] = value

    def _grow_if_full(self) -> None:
        while len(self._values) >= _threshold(len(self._buckets)):
            self._double()

    def _double(self) -> None:
        table = len(self._buckets)
        grown: list[list[str]] = [[] for _ in range(2 * table)]
        for place, names in enumerate(self._buckets):
            halves = [_spread(name) & table for name in names]
            tail = len(names)
            while tail and halves[tail - 1] == halves[-1]:
                tail -= 1
            # The longest tail that stays together keeps its order; what stands before it is put in front, one by one.
            for half, name in zip(halves[tail:], names[tail:], strict=True):
                grown[place + half].append(name)
            for half, name in zip(halves[:tail], names[:tail], strict=True):
                grown[place + half].insert(0, name)
        self._buckets = grown


def _threshold(table: int) -> int:
    return table - (table >> 2)


def _spread(name: str) -> int:
    code = hashing.java_hash_one(name) & 0xFFFF_FFFF
    return (code ^ code >> 16) & 0x7FFF_FFFF


def java_hash_order(names: Iterable[str]) -> list[str]:
    """Names in the order of Java's `HashMap` after they were put in one by one (hollow-blob.md, 23.3)."""
    given = list(names)
    table = _FIRST_TABLE
    while len(given) > table - (table >> 2):
        table *= 2
    return sorted(given, key=lambda name: _spread(name) & table - 1)

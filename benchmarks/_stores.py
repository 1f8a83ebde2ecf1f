"""The same catalogue and the same change in a key-value store: what `refresh.py` stands beside.

A movie is one value, JSON, under its id, as services keep such things; the store's own process (Redis) or file (LMDB)
is what all readers share. A change is written as one transaction.
"""

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks.harness import Stopwatch
from benchmarks.movies import Catalogue, Ids

READS = 20_000
_CHUNK = 50_000


class KeyValueStore(Protocol):
    """What both stores can do."""

    name: str

    def write(self, changed: Iterable[tuple[bytes, bytes]], removed: Iterable[bytes]) -> None:
        """Write one change, all or nothing, so that it is there for all readers."""
        ...

    def read(self, key: bytes) -> bytes:
        """One value."""
        ...

    def size_bytes(self) -> int:
        """Memory or disk that the store takes."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class LmdbStore:
    """LMDB: a file that all processes map."""

    name = "LMDB"

    def __init__(self) -> None:
        import lmdb

        self._folder = tempfile.mkdtemp(dir="/dev/shm")
        self._environment: Any = lmdb.open(self._folder, map_size=8 << 30)

    def write(self, changed: Iterable[tuple[bytes, bytes]], removed: Iterable[bytes]) -> None:
        with self._environment.begin(write=True) as transaction:
            with transaction.cursor() as cursor:
                cursor.putmulti(changed)
            for key in removed:
                transaction.delete(key)

    def read(self, key: bytes) -> bytes:
        with self._environment.begin(buffers=False) as transaction:
            return bytes(transaction.get(key))

    def size_bytes(self) -> int:
        return sum(path.stat().st_blocks * 512 for path in Path(self._folder).iterdir())

    def close(self) -> None:
        self._environment.close()
        shutil.rmtree(self._folder)


class RedisStore:
    """Redis: a server of its own on this machine; spoken to directly, without a client library."""

    name = "Redis"

    def __init__(self, program: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self._server = subprocess.Popen(
            [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"],
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while True:
            try:
                self._socket = socket.create_connection(("127.0.0.1", port))
                break
            except ConnectionRefusedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        self._answers = self._socket.makefile("rb")

    def write(self, changed: Iterable[tuple[bytes, bytes]], removed: Iterable[bytes]) -> None:
        commands: list[tuple[bytes, ...]] = [(b"SET", key, value) for key, value in changed]
        commands += [(b"DEL", key) for key in removed]
        for start in range(0, len(commands), _CHUNK):
            self._transaction(commands[start : start + _CHUNK])

    def _transaction(self, commands: list[tuple[bytes, ...]]) -> None:
        self._socket.sendall(b"".join(map(_command, [(b"MULTI",), *commands, (b"EXEC",)])))
        for _ in range(len(commands) + 1):
            self._answers.readline()
        for _ in range(int(self._answers.readline()[1:])):
            self._answers.readline()

    def read(self, key: bytes) -> bytes:
        self._socket.sendall(_command((b"GET", key)))
        length = int(self._answers.readline()[1:])
        return self._answers.read(length + 2)[:-2]

    def size_bytes(self) -> int:
        for line in Path(f"/proc/{self._server.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def close(self) -> None:
        self._socket.close()
        self._server.terminate()
        self._server.wait()


def _command(words: tuple[bytes, ...]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


def open_stores() -> tuple[list[KeyValueStore], list[str]]:
    """The stores that are to be had here, and why others are not."""
    stores: list[KeyValueStore] = []
    missing = []
    try:
        stores.append(LmdbStore())
    except ImportError:
        missing.append("LMDB: pip install lmdb")
    program = shutil.which("redis-server")
    if program is None:
        missing.append("Redis: there is no redis-server on this machine")
    else:
        stores.append(RedisStore(program))
    return stores, missing


def values_of(catalogue: Catalogue) -> Iterator[tuple[bytes, bytes]]:
    """Every movie of a catalogue as a key and a value."""
    movies = catalogue.columns()
    years, ratings, offsets = movies.year.tolist(), movies.rating.tolist(), movies.cast_offsets.tolist()
    cast = movies.cast.tolist()
    for row, number in enumerate(movies.id.tolist()):
        movie = {
            "id": number,
            "year": years[row],
            "rating": ratings[row],
            "title": movies.title[row],
            "cast": cast[offsets[row] : offsets[row + 1]],
        }
        yield _key(number), json.dumps(movie, separators=(",", ":")).encode()


def _key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def measure_stores(size: int, steps: int, watch: Stopwatch) -> list[str]:
    """The first load, each change, and reads, in each store; gives why some are missing."""
    stores, missing = open_stores()
    catalogue = Catalogue.first(size)
    whole = list(values_of(catalogue))
    for store in stores:
        _timed_by_wall(watch, f"{store.name}: load everything", 1, partial(store.write, whole, ()))
    for _ in range(steps):
        following, step = catalogue.advance()
        touched: Ids = np.sort(np.concatenate([step.changed, step.added]))
        # Making the values is the publisher's work and not measured; a reader of deltaic has none of it.
        changed = list(values_of(following.only(np.intersect1d(touched, following.ids))))
        removed = [_key(number) for number in step.removed.tolist()]
        for store in stores:
            _timed_by_wall(watch, f"{store.name}: the same change", 1, partial(store.write, changed, removed))
        catalogue = following
    keys = [_key(number) for number in np.random.default_rng(1).choice(catalogue.ids, READS).tolist()]
    for store in stores:
        _timed_by_wall(watch, f"{store.name}: read one title", READS, partial(_read_titles, store, keys))
        watch.bytes(f"{store.name}: memory", store.size_bytes())
        store.close()
    return missing


def _timed_by_wall(watch: Stopwatch, what: str, operations: int, work: Callable[[], object]) -> None:
    """A store works in a process of its own, or waits for a disk: what counts is the wall."""
    started = time.perf_counter_ns()
    work()
    nanoseconds = (time.perf_counter_ns() - started) / operations
    watch.book(what, nanoseconds, nanoseconds)


def _read_titles(store: KeyValueStore, keys: list[bytes]) -> None:
    for key in keys:
        json.loads(store.read(key))["title"]

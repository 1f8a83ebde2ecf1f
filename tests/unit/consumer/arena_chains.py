"""Chains of any size for tests of sharing: all four kinds of types, one large, one that seldom changes."""

import io
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from deltaic.consumer.arena_manifest import arrays_of
from deltaic.schema.text import parse_schemas
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState
from deltaic.state.write_columns import Column, VariableColumn

SCHEMAS = """
Movie @PrimaryKey(id) { long id; int year; double score; string title; bytes poster; ListOfMovie sequels; }
ListOfMovie List<Movie>;
SetOfMovie Set<Movie>;
MapOfMovieToMovie Map<Movie, Movie>;
Studio { int number; string name; }
"""


@dataclass(frozen=True)
class ChainOfBlobs:
    """Version 0 as a snapshot, and the deltas to the versions after it, with the content of each as a number."""

    snapshot: bytes
    deltas: tuple[bytes, ...]
    contents: tuple[int, ...]

    def load(self) -> ReadState:
        return ReadState.load(self.snapshot)

    def at(self, version: int) -> ReadState:
        """The state of a version in memory of this process."""
        state = self.load()
        for delta in self.deltas[:version]:
            state = state.apply(delta)
        return state

    def make(self, version: int) -> Callable[[ReadState | None, int | None], ReadState]:
        """What an arena calls: from the offered state on if it is an earlier one, else from the snapshot."""

        def from_base(base: ReadState | None, base_version: int | None) -> ReadState:
            if base is None or base_version is None or base_version > version:
                base, base_version = self.load(), 0
            for delta in self.deltas[base_version:version]:
                base = base.apply(delta)
            return base

        return from_base


def content_of(state: ReadState) -> int:
    """A number that differs if any byte of any array of a state does; faster than its checksum."""
    number = state.tag
    for array in arrays_of(state):
        number = crc32(array.data, number & 0xFFFF_FFFF)
    return number


def texts(numbers: NDArray[np.int64], width: int) -> VariableColumn:
    """A text of `width` characters for each number."""
    data = np.frombuffer("".join(f"{number:0{width}d}" for number in numbers.tolist()).encode(), np.uint8)
    return VariableColumn(np.arange(len(numbers) + 1, dtype=np.int64) * width, data)


def noise(numbers: NDArray[np.int64], width: int) -> VariableColumn:
    """Bytes for each number, `width` of them, a whole number of words."""
    words = numbers.astype(np.uint64)[:, None] * np.uint64(0x9E3779B97F4A7C15) + np.arange(width // 8, dtype=np.uint64)
    return VariableColumn(np.arange(len(numbers) + 1, dtype=np.int64) * width, words.view(np.uint8).reshape(-1))


def add_movies(state: WriteState, numbers: NDArray[np.int64], poster_bytes: int) -> NDArray[np.int32]:
    """Movies whose every field follows from a number."""
    return state.add_objects(
        "Movie",
        {
            "id": Column(numbers),
            "year": Column((1900 + numbers % 120).astype(np.int32)),
            "score": Column(numbers / 7),
            "title": texts(numbers, 12),
            "poster": noise(numbers, poster_bytes),
        },
    )


@cache
def chain_of(movies: int, versions: int, *, poster_bytes: int = 64, shards: int = 2) -> ChainOfBlobs:
    """A chain in which each version replaces one movie in fifty and adds some; studios change in version 2 alone."""
    state = WriteState(parse_schemas(SCHEMAS), pinned_shards={"Movie": shards}, tag=1 << 40)
    add_movies(state, np.arange(movies, dtype=np.int64), poster_bytes)
    third = np.arange(0, movies - movies % 3, dtype=np.int32)
    state.add_lists("ListOfMovie", np.arange(0, len(third) + 1, 3), third)
    state.add_sets("SetOfMovie", np.arange(0, len(third) + 1, 3), third)
    state.add_maps("MapOfMovieToMovie", np.arange(0, len(third) + 1, 3), third, third[::-1].copy())
    numbers = np.arange(movies, dtype=np.int64)
    state.add_objects("Studio", {"number": Column(numbers.astype(np.int32)), "name": texts(numbers, 20)})
    snapshot = io.BytesIO()
    state.write_snapshot(snapshot)
    read = ReadState.load(snapshot.getvalue())
    deltas, contents = [], [content_of(read)]
    for version in range(1, versions + 1):
        state.next_cycle((1 << 40) + version)
        state.keep_all_from_previous()
        populated = state.previous("Movie").ordinals()
        changed = populated[version % 50 :: 50]
        state.remove("Movie", changed)
        first = version * 10 * movies
        add_movies(state, np.arange(first, first + len(changed) + movies // 500, dtype=np.int64), poster_bytes)
        if version == 2:
            state.remove("Studio", np.arange(3))
        delta = io.BytesIO()
        state.write_delta(delta)
        deltas.append(delta.getvalue())
        read = read.apply(deltas[-1])
        contents.append(content_of(read))
    return ChainOfBlobs(snapshot.getvalue(), tuple(deltas), tuple(contents))


def in_child(work: Callable[[], object]) -> int:
    """Run work in a forked child; gives its process id. It ends with 0, or with 1 and a traceback."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def ended(child: int) -> int:
    """Wait for a child; gives its exit code, or minus the signal that killed it."""
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def files_in(folder: Path) -> set[str]:
    """What an arena's folder holds beside its lock."""
    return {path.name for path in folder.iterdir()} - {"lock"} if folder.is_dir() else set()

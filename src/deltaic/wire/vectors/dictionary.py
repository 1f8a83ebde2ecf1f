"""Dictionaries: changes that recur exactly, as patterns that both sides know (vector-delta.md, "dictionaries").

A pattern never changes and its number is never used again. A reader needs the version that a message names or a later
one; `KnownDictionaries` also keeps patterns that later versions dropped.
"""

import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.cursor import ReadableBuffer
from deltaic.wire.vectors.bounds import DEFAULT_VECTOR_LIMITS, VectorLimits
from deltaic.wire.vectors.faults import fault, misuse
from deltaic.wire.vectors.payload import PayloadReader, uleb, ulebs

Words = NDArray[np.uint32]

MAGIC = b"\xde\x7d"
_HEADER = struct.Struct("<2sBBQIIII")


@dataclass(frozen=True, slots=True)
class DictionaryReference:
    """What a message says about the pattern it uses."""

    dict_id: int
    dict_version: int
    pattern_id: int


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Dimensions and their new patterns, with how often and when they were seen."""

    indices: Words
    words: Words
    hit_count: int = 0
    last_used: int = 0

    @property
    def key(self) -> tuple[bytes, bytes]:
        """What makes two patterns the same."""
        return self.indices.tobytes(), self.words.tobytes()


@dataclass(frozen=True, slots=True, eq=False)
class Dictionary:
    """One published version of a dictionary."""

    dict_id: int
    version: int
    dims: int
    next_pattern_id: int
    patterns: Mapping[int, Pattern]
    _by_indices: dict[bytes, list[int]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_indices: dict[bytes, list[int]] = {}
        for pattern_id in sorted(self.patterns):
            by_indices.setdefault(self.patterns[pattern_id].indices.tobytes(), []).append(pattern_id)
        object.__setattr__(self, "_by_indices", by_indices)

    def closest(self, indices: Words, words: Words) -> tuple[int, NDArray[np.intp]] | None:
        """The pattern with these indices and the fewest other values, and where those are; None if there is none."""
        best: tuple[int, NDArray[np.intp]] | None = None
        for pattern_id in self._by_indices.get(indices.tobytes(), ()):
            other = np.flatnonzero(self.patterns[pattern_id].words != words)
            if best is None or len(other) < len(best[1]):
                best = pattern_id, other
        return best

    def arrays(self) -> tuple[NDArray[np.int64], Words, Words, Words]:
        """All patterns as arrays: offsets, indices, words, numbers."""
        ids = sorted(self.patterns)
        empty = np.zeros(0, np.uint32)
        counts = [len(self.patterns[pattern_id].indices) for pattern_id in ids]
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        indices = np.concatenate([empty, *(self.patterns[pattern_id].indices for pattern_id in ids)])
        words = np.concatenate([empty, *(self.patterns[pattern_id].words for pattern_id in ids)])
        return offsets, indices, words, np.array(ids, np.uint32)

    def to_bytes(self) -> bytes:
        """The file of this version."""
        parts = [
            _HEADER.pack(MAGIC, 1, 0, self.dict_id, self.version, self.dims, len(self.patterns), self.next_pattern_id)
        ]
        for pattern_id in sorted(self.patterns):
            pattern = self.patterns[pattern_id]
            parts += [uleb(pattern_id), uleb(pattern.hit_count), uleb(pattern.last_used)]
            parts += [
                uleb(len(pattern.indices)),
                uleb(self.dims),
                ulebs(np.diff(pattern.indices, prepend=np.uint32(0))),
            ]
            parts.append(pattern.words.tobytes())
        body = b"".join(parts)
        return body + zlib.crc32(body).to_bytes(4, "little")

    @classmethod
    def read(
        cls, data: ReadableBuffer, *, limits: VectorLimits = DEFAULT_VECTOR_LIMITS, name: str = "dictionary"
    ) -> Self:
        """Read the file of a version.

        Raises:
            DecodeError: the bytes are no dictionary; `code` says what is wrong.
        """
        view = memoryview(data).cast("B")
        for place, byte in enumerate(MAGIC):
            if len(view) > place and view[place] != byte:
                raise fault("BadMagic", "a dictionary starts with DE 7D", f"{name}: byte {place}")
        if len(view) > 2 and view[2] != 1:
            raise fault("UnsupportedVersion", f"dictionary file version {view[2]}, not 1", f"{name}: byte 2")
        if len(view) < _HEADER.size + 4:
            raise fault("Truncated", f"{len(view)} bytes of a dictionary", f"{name}: byte {len(view)}")
        return cls(*_read_file(view, limits, name))


def _read_file(view: memoryview, limits: VectorLimits, name: str) -> tuple[int, int, int, int, dict[int, Pattern]]:
    _, _, flags, dict_id, version, dims, entries, next_id = _HEADER.unpack(view[: _HEADER.size])
    reader = PayloadReader(view[: len(view) - 4], name)
    reader.position = _HEADER.size
    if zlib.crc32(view[:-4]) != int.from_bytes(view[-4:], "little"):
        raise fault("ChecksumMismatch", "the CRC-32 is that of other bytes", f"{name}: byte {len(view) - 4}")
    if flags:
        raise fault("InvalidFlags", f"flags 0x{flags:02x} of a dictionary are not known", f"{name}: byte 3")
    reader.check_dims(dims, limits)
    patterns: dict[int, Pattern] = {}
    last = -1
    for _ in range(entries):
        last = _read_pattern(reader, dims, last, next_id, patterns, limits)
    reader.end()
    return dict_id, version, dims, next_id, patterns


def _read_pattern(
    reader: PayloadReader, dims: int, last: int, next_id: int, patterns: dict[int, Pattern], limits: VectorLimits
) -> int:
    pattern_id = reader.uleb32()
    if pattern_id <= last or pattern_id >= next_id:
        reader.fail("IndexOrder", f"pattern {pattern_id} after {last}, the next free number being {next_id}")
    hit_count, last_used, count = reader.uleb64(), reader.uleb64(), reader.uleb32()
    own_dims = reader.dims(limits)
    if own_dims != dims:
        reader.fail("DimensionMismatch", f"a pattern of {own_dims} dimensions in a dictionary of {dims}")
    if count > dims:
        reader.fail("IndexOutOfRange", f"{count} changes in {dims} dimensions")
    indices = reader.gaps(count, dims)
    patterns[pattern_id] = Pattern(indices, reader.words(count), hit_count, last_used)
    return pattern_id


class KnownDictionaries:
    """The dictionaries of a reader: the newest version of each, and every pattern that older ones had."""

    def __init__(self, dictionaries: Iterable[Dictionary] = ()) -> None:
        self._newest: dict[int, Dictionary] = {}
        self._patterns: dict[int, dict[int, Pattern]] = {}
        for dictionary in dictionaries:
            self.add(dictionary)

    def add(self, dictionary: Dictionary) -> None:
        """Take a version; patterns that it dropped stay readable."""
        before = self._newest.get(dictionary.dict_id)
        if before is not None and before.dims != dictionary.dims:
            raise misuse("DimensionMismatch", f"dictionary {dictionary.dict_id} has {before.dims} dimensions")
        if before is None or dictionary.version > before.version:
            self._newest[dictionary.dict_id] = dictionary
        self._patterns.setdefault(dictionary.dict_id, {}).update(dictionary.patterns)

    def forget_dropped(self, dict_id: int) -> None:
        """Keep only the newest version's patterns: for when no message before it is needed any more."""
        if dict_id in self._newest:
            self._patterns[dict_id] = dict(self._newest[dict_id].patterns)

    def get(self, dict_id: int) -> tuple[Dictionary, Mapping[int, Pattern]] | None:
        """The newest version of a dictionary, and all patterns that can be read."""
        newest = self._newest.get(dict_id)
        return None if newest is None else (newest, self._patterns[dict_id])


Dictionaries = Dictionary | KnownDictionaries | None
"""What a reader may be given to look patterns up."""


def find_dictionary(
    dictionaries: Dictionaries, dict_id: int, dict_version: int, at: str
) -> tuple[Dictionary, Mapping[int, Pattern]]:
    """The dictionary that bytes name, with its patterns.

    Raises:
        DecodeError: `UnknownDictionary`, or `StaleDictionary` if only an older version is there.
    """
    if isinstance(dictionaries, Dictionary):
        found = (dictionaries, dictionaries.patterns) if dictionaries.dict_id == dict_id else None
    else:
        found = None if dictionaries is None else dictionaries.get(dict_id)
    if found is None:
        raise fault("UnknownDictionary", f"dictionary {dict_id} is not here", at)
    if found[0].version < dict_version:
        reason = f"dictionary {dict_id} is here in version {found[0].version}, version {dict_version} is needed"
        raise fault("StaleDictionary", reason, at)
    return found


def look_up(dictionaries: Dictionaries, reference: DictionaryReference, dims: int, at: str) -> Pattern:
    """The pattern that a message names."""
    dictionary, patterns = find_dictionary(dictionaries, reference.dict_id, reference.dict_version, at)
    if reference.pattern_id not in patterns:
        raise fault("UnknownPattern", f"dictionary {dictionary.dict_id} has no pattern {reference.pattern_id}", at)
    if dictionary.dims != dims:
        raise fault("DimensionMismatch", f"a delta of {dims} dimensions, a dictionary of {dictionary.dims}", at)
    return patterns[reference.pattern_id]

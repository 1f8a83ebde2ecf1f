"""Sound vector deltas of every form, to be damaged, and what it takes to make their checksums right again."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np

from deltaic.errors import InputError
from deltaic.wire.vectors import (
    Dictionary,
    DictionaryKeeper,
    EncodeOptions,
    Frame,
    Message,
    apply_batch,
    encode_batch,
    encode_delta,
    encode_frames,
    encode_message,
    read_frames,
    read_message,
    read_stream,
)

DIMS = 70
ROWS = 12


def _vectors() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(11)
    old = random.standard_normal((ROWS, DIMS)).astype(np.float32)
    new = old.copy()
    for row in range(0, ROWS - 1, 4):
        new[row, ::9] += 1
        new[row + 1, 10:40] += 1
        new[row + 2] *= np.float32(1.001)
        new[row + 3, [2, 30, 31]] = [1, 2, np.nan]
    return old, new


OLD, NEW = _vectors()


def _dictionary() -> Dictionary:
    keeper = DictionaryKeeper(DIMS, dict_id=300, admit_after=1)
    for row in (0, 3):
        keeper.observe(read_message(encode_message(OLD[row], NEW[row])).delta)
    return keeper.publish().dictionary


DICTIONARY = _dictionary()

OPTIONS = [
    EncodeOptions(**given, compression=compression, compress_min=0)
    for compression in ("none", "zstd", "zlib", *(["lz4"] if find_spec("cramjam") else []))
    for given in (
        {},
        {"include_prev": True},
        {"relative": True},
        {"quantization": "f16"},
        {"quantization": "int8", "include_prev": True},
        {"quantization": "int4"},
    )
]


@dataclass(frozen=True)
class Target:
    """Bytes of one kind."""

    kind: str
    data: bytes

    def sealed(self, data: bytes) -> bytes:
        """The bytes with every checksum and length made right, as far as there are any."""
        made = bytearray(data)
        if self.kind == "message" and len(made) >= 13:
            struct.pack_into("<I", made, 5, len(made) - 13)
            struct.pack_into("<I", made, len(made) - 4, zlib.crc32(made[:-4]))
        elif self.kind == "dictionary" and len(made) >= 4:
            struct.pack_into("<I", made, len(made) - 4, zlib.crc32(made[:-4]))
        elif self.kind == "frame" and len(made) >= 32:
            (entries,) = struct.unpack_from("<I", made, 24)
            entries = min(entries, (len(made) - 32) // 32)
            for at in range(32, 32 + 32 * entries, 32):
                offset, stored = struct.unpack_from("<QQ", made, at + 8)
                if offset + stored <= len(made):
                    struct.pack_into("<I", made, at + 4, zlib.crc32(made[offset : offset + stored]))
            struct.pack_into("<I", made, 28, zlib.crc32(made[32 : 32 + 32 * entries], zlib.crc32(made[:28])))
        return bytes(made)

    def read(self, data: bytes) -> None:
        """Read damaged bytes and use what comes out in every way there is."""
        if self.kind == "message":
            for _, message in read_stream(data, dictionaries=DICTIONARY):
                use_message(message)
        elif self.kind == "frame":
            use_frames(list(read_frames(data, dictionaries=DICTIONARY)))
        else:
            use_dictionary(Dictionary.read(data))


def use_message(message: Message) -> None:
    """Apply, compose, undo and write again."""
    delta = message.delta
    base = np.zeros(delta.dims, np.float32)
    after = delta.apply(base)
    assert len(after) == delta.dims
    assert read_message(encode_delta(delta)).delta == delta
    delta.then(delta).apply(base)
    if delta.relative or delta.prev is not None:
        back = delta.inverse()
        assert not delta.relative or back.apply(after).tobytes() == base.tobytes()


def use_frames(frames: list[Frame]) -> None:
    """Look at every row and apply."""
    for frame in frames:
        rows = {row_id: delta for row_id, _, delta in frame.rows()}
        assert sorted(rows) == frame.row_ids.tolist()
        base = np.zeros((len(rows), frame.dims), np.float32)
        after = apply_batch(frame, base, row_ids=frame.row_ids)
        for place, row_id in enumerate(frame.row_ids.tolist()):
            assert rows[row_id].apply(base[place]).tobytes() == after[place].tobytes()
    matrix = OLD.copy()
    try:
        apply_batch(frames, matrix, in_place=True, check_prev=True)
    except InputError as error:
        assert error.code in ("BaseMismatch", "DimensionMismatch", "DuplicateRow"), error.code
        assert matrix.tobytes() == OLD.tobytes()


def use_dictionary(dictionary: Dictionary) -> None:
    """Write it again and match with it."""
    assert Dictionary.read(dictionary.to_bytes()).to_bytes() == dictionary.to_bytes()
    dictionary.arrays()
    if dictionary.dims == DIMS:
        encode_message(OLD[0], NEW[0], dictionary=dictionary)


def all_targets() -> list[Target]:
    """Every kind, format, mode and codec."""
    return list(_targets())


def _targets() -> Iterator[Target]:
    yield Target("dictionary", DICTIONARY.to_bytes())
    yield Target("frame", encode_batch(OLD, NEW, options=EncodeOptions(), dictionary=DICTIONARY))
    yield Target("message", encode_message(OLD[0], NEW[0], dictionary=DICTIONARY))
    patched = NEW[0].copy()
    patched[0] = 9
    previous = EncodeOptions(include_prev=True)
    yield Target("message", encode_message(OLD[0], patched, previous, dictionary=DICTIONARY))
    for options in OPTIONS:
        for frame in encode_frames(OLD, NEW, options=options):
            yield Target("frame", frame)
        for row in range(4):
            yield Target("message", encode_message(OLD[row], NEW[row], options))

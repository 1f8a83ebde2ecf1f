"""Vector parts by themselves: the bytes of the format page, every fault by its name, and the memory of a refresh."""

import json
import re
import struct
import tracemalloc
import zlib
from dataclasses import replace

import numpy as np
import pytest

from deltaic.binary import buffers
from deltaic.errors import ChecksumError, DecodeError, InputError, LimitError, SchemaError
from deltaic.limits import Limits
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.vector_column import CHUNK_ROWS, StoredVectors
from deltaic.storage.chain import BlobName
from deltaic.vector import Moves, apply_part, encode_delta_part, encode_snapshot_part, part_name, read_part
from deltaic.vector.frames import dense_frames
from deltaic.vector.layout import ColumnHead, PartHeader
from deltaic.vector.names import blob_of_part
from deltaic.vector.numbers import Runs
from deltaic.vector.part_write import ColumnStep, part_pieces
from deltaic.vector.storage import VECTORS_TAG, read_vectors_tag
from deltaic.wire.vectors import EncodeOptions, encode_batch
from tests.unit.vector.plain_part import plain_apply

KEY = ("Movie", "embedding")
PLAIN = EncodeOptions()


def ordinals(*given: int) -> OrdinalSet:
    return OrdinalSet.from_ordinals(np.array(given, np.int64))


def column(**rows: list[float]) -> StoredVectors:
    """A column from `o<ordinal>=[…]`."""
    places = np.array([int(name[1:]) for name in rows], np.int64)
    return StoredVectors.of(2, places, np.array(list(rows.values()), np.float32).reshape(-1, 2))


BEFORE = column(o0=[1, 2], o1=[3, 4])
AFTER = column(o1=[3, 4], o2=[1, 5])


def page_examples(project_root) -> list[bytes]:
    page = (project_root / "docs/formats/vector-part.md").read_text()
    found = []
    for block in re.findall(r"```\n(.*?)```", page, re.S):
        # What stands behind two spaces in a line is what people read.
        words = [line.strip().split("  ")[0].replace("|", "") for line in block.splitlines()]
        text = "".join(words).replace(" ", "")
        if re.fullmatch("[0-9a-f]+", text):
            found.append(bytes.fromhex(text))
    return found


def test_the_examples_of_the_page_are_what_is_written(project_root):
    snapshot, delta = page_examples(project_root)
    assert encode_snapshot_part({KEY: BEFORE}, 0x11, options={KEY: PLAIN}) == snapshot
    moves = {"Movie": Moves(np.array([0]), np.array([2]))}
    records = {"Movie": ordinals(1, 2)}
    assert encode_delta_part({KEY: BEFORE}, {KEY: AFTER}, moves, 0x11, 0x22, records) == delta
    assert apply_part(delta, {KEY: BEFORE}, records, tag=0x22, origin_tag=0x11)[KEY].same_as(AFTER)
    plain = plain_apply(snapshot, {}, {"Movie": {0, 1}}, 0x11)
    assert plain_apply(delta, plain, {"Movie": {1, 2}}, 0x22, 0x11)[KEY][2] == (0x3F800000, 0x40A00000)


def test_a_part_has_the_name_of_its_blob_and_the_name_leads_back():
    blobs = BlobName.snapshot(7), BlobName.delta(5, 7), BlobName.delta(7, 5)
    assert [part_name(blob) for blob in blobs] == ["vector-7-snapshot", "vector-7-delta.5", "vector-7-reverse.5"]
    assert tuple(blob_of_part(part_name(blob)) for blob in blobs) == blobs
    for other in ("vector-7-delta.9", "vector-7-", "vector-x-snapshot", "text-7-snapshot", "vector-7-reverse.7"):
        assert blob_of_part(other) is None


def made(
    head: ColumnHead | None = None,
    fresh: list[bytes] = [],  # noqa: B006
    changed: list[bytes] = [],  # noqa: B006
    *,
    delta: bool = True,
    count: int = 1,
) -> bytes:
    """A part with one column, from 0x11 to 0x22."""
    head = head or ColumnHead(*KEY, 2, 2, BEFORE.checksum())
    header = PartHeader(delta, count, 0x11 if delta else 0, 0x22)
    return b"".join(part_pieces(header, [ColumnStep(head, fresh, changed)] * count))


def dense(*rows: int) -> bytes:
    matrix = np.ones((len(rows), 2), np.float32)
    return b"".join(dense_frames(matrix, np.array(rows, np.int64), PLAIN))


def sparse(*rows: int, **options: bool) -> bytes:
    old = np.zeros((len(rows), 2), np.float32)
    new = old.copy()
    new[:, 1] = 1
    return encode_batch(old, new, np.array(rows, np.int64), options=EncodeOptions(**options))


HEAD = ColumnHead(*KEY, 2, 2, BEFORE.checksum())
RECORDS = ordinals(0, 1, 2, 70)
SOUND = made()
FAULTS = {
    "BadMagic": b"\xde\x7b" + SOUND[2:],
    "UnsupportedVersion": SOUND[:2] + b"\x02" + SOUND[3:],
    "Truncated": SOUND[:-1],
    "TrailingData": SOUND + bytes(8),
    "ChecksumMismatch of the header": SOUND[:5] + b"\x01" + SOUND[6:],
    "ChecksumMismatch of the head": SOUND[:60] + b"x" + SOUND[61:],
    "ChecksumMismatch of the column": made(replace(HEAD, checksum=1)),
    "InvalidFlags": (lambda plain: plain + struct.pack("<II", zlib.crc32(plain), 0) + SOUND[32:])(
        SOUND[:3] + b"\x03" + SOUND[4:24]
    ),
    "BadPart of another way": made(replace(HEAD, from_nothing=True), delta=False),
    "MalformedPart twice": made(count=2),
    "MalformedPart with too many rows": made(replace(HEAD, rows=5)),
    "MalformedPart with another number of rows": made(replace(HEAD, rows=3)),
    "MalformedPart where nothing can move": made(
        replace(HEAD, from_nothing=True, origins=np.array([0]), targets=np.array([2]))
    ),
    "MalformedPart where a new vector has a base": made(fresh=[dense(1)]),
    "MalformedPart where a new vector is sparse": made(fresh=[sparse(2)]),
    "MalformedPart where a new vector is relative": made(fresh=[sparse(2, relative=True)]),
    "IndexOutOfRange of a removed one": made(replace(HEAD, removed=Runs.of(ordinals(71)))),
    "IndexOutOfRange of a target": made(replace(HEAD, origins=np.array([0]), targets=np.array([3]))),
    "IndexOutOfRange of a row": made(fresh=[dense(3)]),
    "IndexOutOfRange of a far row": made(fresh=[dense(1 << 40)]),
    "IndexOrder": made(replace(HEAD, origins=np.array([0, 1]), targets=np.array([2, 2]))),
    "DuplicateRow where one stays": made(replace(HEAD, origins=np.array([0]), targets=np.array([1]))),
    "DuplicateRow in two frames": made(fresh=[dense(2), dense(2)]),
    "DuplicateRow of two changes": made(changed=[sparse(1), sparse(0, 1)]),
    "BaseMismatch of a removed one": made(replace(HEAD, removed=Runs.of(ordinals(2)))),
    "BaseMismatch of a move": made(replace(HEAD, origins=np.array([2]), targets=np.array([70]))),
    "BaseMismatch of a far move": made(replace(HEAD, origins=np.array([1 << 30]), targets=np.array([70]))),
    "BaseMismatch of a change": made(changed=[sparse(2)]),
    "DimensionMismatch of the column": made(replace(HEAD, dimensions=3)),
    "DimensionMismatch of a frame": made(
        fresh=[b"".join(dense_frames(np.ones((1, 3), np.float32), np.array([2]), PLAIN))]
    ),
    "InvalidDims": made(replace(HEAD, dimensions=0)),
    "LimitExceeded": made(replace(HEAD, dimensions=1 << 21)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_has_one_name(fault):
    sums = BEFORE.checksum()
    with pytest.raises(DecodeError) as refused:
        apply_part(FAULTS[fault], {KEY: BEFORE}, {"Movie": RECORDS}, tag=0x22, origin_tag=0x11, name="vector-2-delta.1")
    assert refused.value.code == fault.split()[0] and "vector-2-delta.1" in str(refused.value)
    assert BEFORE.checksum() == sums
    assert isinstance(refused.value, ChecksumError) == (refused.value.code == "ChecksumMismatch")


def test_the_sound_part_of_the_faults_is_sound():
    found = apply_part(SOUND, {KEY: BEFORE}, {"Movie": RECORDS}, tag=0x22, origin_tag=0x11)
    assert found[KEY].same_as(BEFORE) and found[KEY].chunks[0] is BEFORE.chunks[0]


@pytest.mark.parametrize("tags", [(0x23, 0x11), (0x22, 0x12), (0x22, None)])
def test_a_part_of_another_blob_is_refused(tags):
    with pytest.raises(DecodeError, match="belongs to another blob"):
        apply_part(SOUND, {KEY: BEFORE}, {"Movie": RECORDS}, tag=tags[0], origin_tag=tags[1])


def test_columns_that_nobody_wants_or_that_have_no_base_are_left_out():
    other = ("Movie", "poster")
    both = {KEY: AFTER, other: AFTER}
    part = encode_delta_part({KEY: BEFORE}, both, {}, 1, 2, {"Movie": ordinals(1, 2)})
    step = {"tag": 2, "origin_tag": 1}
    records = {"Movie": ordinals(1, 2)}
    assert set(apply_part(part, {KEY: BEFORE}, records, **step)) == {KEY, other}
    assert set(apply_part(part, {}, records, **step)) == {other}  # the other one starts empty
    assert set(apply_part(part, {KEY: BEFORE}, records, **step, columns=[KEY])) == {KEY}
    assert apply_part(part, {KEY: BEFORE}, {}, **step) == {}
    # What is passed over must be whole all the same.
    with pytest.raises(DecodeError):
        apply_part(part[:-9], {KEY: BEFORE}, records, **step, columns=[KEY])


def test_a_column_that_would_not_fit_is_refused_before_it_is_made():
    part = encode_snapshot_part({KEY: AFTER}, 2)
    with pytest.raises(LimitError, match="limit is 1,000"):
        apply_part(part, None, {"Movie": AFTER.present}, tag=2, limits=Limits(max_state_bytes=1_000))
    with pytest.raises(LimitError):
        apply_part(part, None, {"Movie": AFTER.present}, tag=2, limits=Limits(max_blob_bytes=100))


def test_a_hostile_run_takes_no_memory():
    far = Runs(np.array([0]), np.array([2**31]))
    part = made(replace(HEAD, removed=far))
    tracemalloc.start()
    with pytest.raises(DecodeError, match="has no record"):
        apply_part(part, {KEY: BEFORE}, {"Movie": RECORDS}, tag=0x22, origin_tag=0x11)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_far_ordinal_takes_one_chunk():
    far = StoredVectors.of(4, np.array([5_000_000]), np.ones((1, 4), np.float32))
    assert far.nbytes < CHUNK_ROWS * 16 + (1 << 20)
    assert [first for first, _ in far.blocks()] == [5_000_000 // CHUNK_ROWS * CHUNK_ROWS]
    assert far.rows(np.array([0, 5_000_000, 9_000_000])).sum(axis=1).tolist() == [0, 4, 0]


def test_vectors_are_read_only_and_views_of_their_chunk():
    row = BEFORE[1]
    assert row is not None and row.tolist() == [3, 4] and np.shares_memory(row, BEFORE.chunks[0])
    with pytest.raises(ValueError, match="read-only"):
        row[0] = 1
    assert BEFORE[2] is None and BEFORE[5000] is None
    gone = BEFORE.with_present(ordinals(0))
    assert gone[1] is None and gone.ghost(1).tolist() == [3, 4] and gone.ghost(9_999) is None


def test_columns_differ_by_bits_and_by_presence_and_by_nothing_else():
    zero, minus = column(o0=[0.0, 1]), column(o0=[-0.0, 1])
    assert not zero.same_as(minus) and zero.checksum() != minus.checksum()
    assert not column(o0=[0, 0]).same_as(StoredVectors.empty(2))
    assert column(o0=[0, 0]).checksum() != StoredVectors.empty(2).checksum()
    swapped = column(o0=[3, 4], o1=[1, 2])
    assert BEFORE.checksum() != swapped.checksum()
    ghost = BEFORE.changed(np.array([3]), np.ones((1, 2), np.float32), BEFORE.present)
    assert ghost.same_as(BEFORE) and ghost.checksum() == BEFORE.checksum()


def test_what_no_column_can_hold_is_refused():
    with pytest.raises(InputError):
        StoredVectors.empty(0)
    with pytest.raises(InputError):
        StoredVectors.of(2, np.array([-1]), np.ones((1, 2), np.float32))
    for wrong in (np.ones((1, 3), np.float32), np.ones((2, 2), np.float32), np.ones((1, 2))):
        with pytest.raises(InputError):
            BEFORE.changed(np.array([0]), wrong, BEFORE.present)
    with pytest.raises(InputError, match="no record"):
        encode_delta_part({KEY: BEFORE}, {KEY: AFTER}, {}, 1, 2, {"Movie": EMPTY})
    two = {"Movie": Moves(np.array([0, 1]), np.array([2, 2]))}
    with pytest.raises(InputError, match="two vectors move"):
        encode_delta_part({KEY: BEFORE}, {KEY: AFTER.with_present(ordinals(2))}, two, 1, 2, {"Movie": ordinals(2)})


def test_the_tag_names_the_columns_and_what_is_no_tag_is_refused():
    assert read_vectors_tag({}) == ()
    note = read_vectors_tag({VECTORS_TAG: '[["Movie","embedding",384,"part"]]'})[0]
    assert (note.key, note.column.dimensions, note.form) == (KEY, 384, "part")
    for wrong in ("x", "{}", "[1]", '[["a","b",0,"part"]]', '[["a","b",1,"file"]]', '[["a",1,1,"part"]]', "[" * 9999):
        with pytest.raises(SchemaError, match=VECTORS_TAG.replace(".", r"\.")):
            read_vectors_tag({VECTORS_TAG: wrong})


def refreshed(share: float, count: int, dims: int) -> tuple[bytes, StoredVectors, OrdinalSet]:
    random = np.random.default_rng(2)
    matrix = random.standard_normal((count, dims)).astype(np.float32)
    records = OrdinalSet.all_below(count)
    before = StoredVectors.of(dims, np.arange(count), matrix)
    hit = random.random((count, dims)) < share
    matrix[hit] = random.standard_normal(int(hit.sum())).astype(np.float32)
    after = StoredVectors.of(dims, np.arange(count), matrix)
    return encode_delta_part({KEY: before}, {KEY: after}, {}, 1, 2, {"Movie": records}), before, records


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_the_peak_of_a_refresh_is_at_most_2_1_times_the_column(share, tmp_path):
    import mmap

    part, before, records = refreshed(share, 12 * CHUNK_ROWS, 384)
    (tmp_path / "part").write_bytes(part)
    size = len(part)
    del part
    buffers.RECYCLER.clear()
    with open(tmp_path / "part", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        tracemalloc.start()
        made = apply_part(data, {KEY: before}, {"Movie": records}, tag=2, origin_tag=1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(made[KEY]) == len(records)
        del made
    ratio = (before.nbytes + peak) / before.nbytes
    print(f"{share:.0%} of the dimensions: peak {ratio:.3f} times the column, part {size / before.nbytes:.3f}")
    assert ratio <= 2.1


def test_reading_the_header_alone_tells_where_a_part_leads():
    part = read_part(made())
    assert (part.header.delta, part.header.origin_tag, part.header.destination_tag) == (True, 0x11, 0x22)
    assert [reader.head.key for reader in part.columns()] == [KEY]


def test_show_prints_what_a_part_holds(tmp_path, capsys, project_root):
    pytest.importorskip("typer")
    from deltaic.cli import main

    (tmp_path / "part").write_bytes(page_examples(project_root)[1])
    assert main(["vector", "show", str(tmp_path / "part")]) == 0
    assert "from state 0000000000000011 to 0000000000000022" in capsys.readouterr().out
    assert main(["vector", "show", "--json", str(tmp_path / "part")]) == 0
    shown = json.loads(capsys.readouterr().out)["columns"][0]
    assert (shown["column"], shown["vectors"], shown["moved"], shown["changed"]) == ("Movie.embedding", 2, 1, 1)
    (tmp_path / "part").write_bytes(page_examples(project_root)[1][:-8])
    assert main(["vector", "show", str(tmp_path / "part")]) == 1

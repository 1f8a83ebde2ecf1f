"""Frames of patches: the page's bytes, read by others; what is refused, and by which name."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltaic.errors import DecodeError, InputError, LimitError, RegistryError
from deltaic.kernels import crc
from deltaic.wire.patches import (
    ABSENT,
    MISSING,
    ColumnKind,
    Operation,
    Patch,
    PatchBatch,
    PatchColumn,
    PatchGroup,
    PatchLimits,
    SelectorColumn,
    hybrid_timestamp,
)
from deltaic.wire.references import Index, MapKey, Parent, Reference
from deltaic.wire.references.encoding import decode_exact, encode
from deltaic.wire.vectors import VectorDelta, read_frames
from tests.unit.wire.patches.plain_reader import read_frame

PAGE = Path(__file__).resolve().parents[4] / "docs" / "formats" / "patches.md"
FIELDS = {"Movie.year": Reference(2, 42), "Movie.cast[].name": Reference(2, 43), "Movie.far": Reference(70_000, 300)}

EXAMPLE = [
    Patch("Movie", 7, "year", 1972),
    Patch("Movie", 9, "year", 1975),
    Patch("Movie", 7, "cast[3].name", "Banionis", previous="B."),
    Patch("Movie", 12, operation=Operation.REMOVE),
]


def delta(dims: int, changes: dict[int, float], prev: list[float] | None = None) -> VectorDelta:
    words = np.array(list(changes.values()), np.float32).view(np.uint32)
    before = None if prev is None else np.array(prev, np.float32).view(np.uint32)
    return VectorDelta(dims, np.array(list(changes), np.uint32), words, prev=before)


def page_bytes() -> bytes:
    text = PAGE.read_text()
    block = text[text.index("```\n44 50") + 4 :].split("```")[0]
    lines = (re.split(r"\s{4,}(?=\S)", line.strip())[0] for line in block.splitlines())
    return bytes.fromhex("".join(line for line in lines if re.match(r"[0-9a-f]{2}", line)))


def framed(body: bytes, *, flags: int = 0, plain: int | None = None) -> bytes:
    head = b"DPAT" + bytes((1, flags, 0, 0)) + len(body).to_bytes(4, "little")
    head += (len(body) if plain is None else plain).to_bytes(4, "little")
    return head + crc.crc32c(body, crc.crc32c(head, 0)).to_bytes(4, "little") + body


def code_of(data: bytes, **options: Any) -> str:
    with pytest.raises((DecodeError, RegistryError)) as caught:
        PatchBatch.from_bytes(data, **options)
    found: str = caught.value.code
    return found


def test_the_bytes_of_the_page_are_what_is_written_and_read() -> None:
    batch = PatchBatch.of(EXAMPLE)
    assert batch.to_bytes(FIELDS.get, compress=False) == page_bytes()
    read = PatchBatch.from_bytes(page_bytes()).resolved(lambda reference: {v: k for k, v in FIELDS.items()}[reference])
    assert list(read) == EXAMPLE


def test_a_reader_that_knows_only_the_page_reads_keys_references_and_values() -> None:
    found = read_frame(page_bytes())
    assert [patch["key"] for patch in found] == [(7,), (9,), (7,), (12,)]
    assert [patch.get("value") for patch in found] == [1972, 1975, "Banionis", None]
    assert found[2]["previous"] == "B." and found[3]["operation"] == "remove"
    assert found[0]["reference"] == encode(Reference(2, 42))
    assert found[2]["reference"] == encode(Reference(2, 43, (Index(3),)))
    assert decode_exact(found[2]["reference"]) == Reference(2, 43, (Index(3),))


@pytest.mark.parametrize("compress", [True, False])
def test_a_reader_of_the_page_reads_every_kind_of_column_and_selector(compress: bool) -> None:
    patches = [
        *(Patch("Movie", key, "views", value) for key, value in enumerate([0, -1, 2**63 - 1, -(2**63), 5])),
        *(Patch("Movie", ("a" * key, key), "far", value) for key, value in enumerate([0.5, float("inf"), -0.0])),
        Patch("Movie", 1, "seen", True),
        Patch("Movie", 1, "raw", b"\x00\xff"),
        Patch("Movie", 1, "rate", np.float32(0.1)),
        Patch("Movie", 1, "title", "ä\ud800🎬", timestamp=hybrid_timestamp(2**48 - 1, 65_535), source="eu"),
        Patch("Movie", 2, "title", "", timestamp=hybrid_timestamp(5), source="us"),
        Patch("Movie", 1, "tags[1:3]", ["a", None, 7]),
        Patch("Movie", 1, "tags[4,2]", {"x": [1.5, b"z", {"y": -3}]}),
        Patch("Movie", 1, "tags[1:2,5:9]", 70_000),
        Patch("Movie", 1, 'links{"a.}b"}', None, previous=ABSENT),
        Patch("Movie", 1, Reference(3, 7, (Parent(5), Index(300), MapKey("k"))), 1),
        Patch("Movie", 1, "old", operation=Operation.DELETE),
        Patch("Note", None, value={"text": "x" * 300}, operation=Operation.PUT),
        Patch("Note", None, value={"text": "x"}, operation=Operation.REMOVE),
    ]
    batch = PatchBatch.of(patches)
    found = read_frame(batch.to_bytes(FIELDS.get, compress=compress))
    assert len(found) == len(patches)
    for plain, patch in zip(found, batch, strict=True):
        assert plain["type"] == patch.type_name and plain["key"] == patch.key_parts
        assert plain["operation"] == patch.operation.name.lower()
        if "value" in plain:
            assert repr(plain["value"]) == repr(
                patch.value if not isinstance(patch.value, np.float32) else float(patch.value)
            )
        if patch.previous is ABSENT:
            assert plain["previous"] == ("extension", 1, b"")
        assert plain.get("timestamp") == patch.timestamp and plain.get("source") == patch.source
        if isinstance(patch.path, Reference):
            assert plain["reference"] == encode(patch.path)
    far = [plain for plain in found if plain.get("field") == encode(FIELDS["Movie.far"])]
    assert len(far) == 3
    assert {patch["selectors"][0] for patch in found if patch.get("field") == "tags[]"} == {
        (3, 1, 3), (4, (4,), (2,)), (5, (1, 2), (5, 9))
    }  # fmt: skip


def test_texts_with_lone_surrogates_travel_inside_of_records_too() -> None:
    value = {
        "name": "a\ud800",
        "plain": "ä🎬",
        "words": ["\udfff", "b", None],
        "aliases": {"\ud800x": {"y": 1.5}, "k": 2},
    }
    patches = [
        Patch("Movie", 1, value=value, operation=Operation.PUT, previous=ABSENT),
        Patch("Movie", 2, value={"name": "b", "vector": np.array([0.5], np.float32)}, operation=Operation.PUT),
    ]
    data = PatchBatch.of(patches).to_bytes()
    first, second = PatchBatch.from_bytes(data)
    # A map with such a key comes back as pairs: MessagePack has no such keys.
    pairs = [["\ud800x", {"y": 1.5}], ["k", 2]]
    assert first.value == {**value, "aliases": pairs} and first.previous is ABSENT
    assert second.value["name"] == "b" and second.value["vector"].tolist() == [0.5]
    found = read_frame(data)[0]["value"]
    assert found["name"] == ("extension", 3, b"a\xed\xa0\x80") and found["plain"] == "ä🎬"


def test_a_text_extension_that_is_no_text_is_refused() -> None:
    data = PatchBatch.of([Patch("Movie", 1, "any", ["\ud800"])]).to_bytes(compress=False)
    at = data.index(b"\xed\xa0\x80")
    body = data[20:at] + b"\xff\xff\xff" + data[at + 3 :]
    assert framed(data[20:]) == data and code_of(framed(body)) == "MalformedValue"


def test_deltas_of_vectors_travel_as_batch_frames() -> None:
    patches = [
        Patch("Movie", key, "embedding", delta(4, {1: key, 3: 0.5}, [0.0, 1.0]), operation=Operation.VECTOR)
        for key in range(5)
    ]
    batch = PatchBatch.of(patches)
    plain = read_frame(batch.to_bytes())
    (frame,) = read_frames(plain[0]["value"])
    assert frame.dims == 4 and frame.row_ids.tolist() == list(range(5)) and frame.has_prev
    assert list(PatchBatch.from_bytes(batch.to_bytes())) == patches


def test_what_is_read_is_what_was_written_in_every_form() -> None:
    patches = [*EXAMPLE, Patch("Movie", (1, "x"), 'a{"k"}[2:4].b', [1, "x", None, 2.5], previous=None, timestamp=9)]
    batch = PatchBatch.of(patches)
    assert list(PatchBatch.from_bytes(batch.to_bytes())) == patches
    assert list(PatchBatch.from_json_lines(batch.to_json_lines())) == patches
    assert list(PatchBatch.from_arrow(batch.to_arrow())) == patches
    assert len(batch) == 5


def test_frames_one_after_another_are_one_batch() -> None:
    first = PatchBatch.of([Patch("Movie", 1, "year", 1, source="a", timestamp=1)])
    second = PatchBatch.of([Patch("Film", 2, "year", 2, source="b", timestamp=2), Patch("Film", 3, "year", 3)])
    read = PatchBatch.from_bytes(first.to_bytes() + second.to_bytes())
    assert [(patch.key, patch.source) for patch in read] == [(1, "a"), (2, "b"), (3, None)]


@pytest.mark.parametrize(
    ("at", "byte", "code"),
    [(0, 0x45, "BadMagic"), (4, 2, "UnsupportedVersion"), (5, 2, "InvalidFlags"), (6, 1, "InvalidFlags"),
     (11, 0xFF, "LimitExceeded"), (12, 0x58, "WrongSize"), (16, 0, "ChecksumMismatch"), (30, 0x7F, "ChecksumMismatch")],
)  # fmt: skip
def test_a_damaged_envelope_is_named(at: int, byte: int, code: str) -> None:
    data = bytearray(page_bytes())
    data[at] = byte
    assert code_of(bytes(data)) == code


def test_bytes_that_end_early_are_truncated_wherever_they_end() -> None:
    data = page_bytes()
    assert {code_of(data[:end]) for end in range(1, len(data))} == {"Truncated"}
    assert code_of(b"") == "Truncated"
    assert code_of(data + b"D") == "Truncated"
    assert code_of(data + b"x") == "BadMagic"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("0105", "Truncated"),
        ("8000", "InvalidVarint"),
        ("ffffffffffffffffffff01", "InvalidVarint"),
        ("010180", "InvalidUtf8"),
        ("02014101410000", "TwiceListed"),
        ("0100", "TwiceListed"),
        ("01014100010100", "UnknownType"),
        ("01014100010005", "UnknownForm"),
        ("01014100010001015b00", "InvalidPath"),
        ("010141000100010461 5b325d00", "InvalidPath"),
        ("0101410001 00 00 05 00022a0002", "TrailingData"),
        ("0101410001 00 00 07 00022a01020105", "InvalidParam"),
        ("0101410001 00 00 03 00022a", "Truncated"),
        ("010141000001 06", "Truncated"),
        ("010141000001 0600", "UnknownOperation"),
        ("010141000001 0410", "InvalidFlags"),
        ("010141000001 0400 01", "Truncated"),
        ("010141000001 0400 0100", "UnknownType"),
        ("010141000001 0101 0000", "UnknownField"),
        ("010141000001 0400 0001", "UnknownField"),
        ("010141000001 0400 0000 00", "MalformedGroup"),
        ("010141000001 0400 0000 ffffffff0f", "LimitExceeded"),
        ("010141000001 0400 0000 01 00 00", "MalformedGroup"),
        ("010141000001 0401 0000 01 00 00", "Truncated"),
        ("010141000001 0400 0000 01 21", "MalformedGroup"),
        ("010141000001 0400 0000 01 01 09", "UnknownKind"),
        ("010141000001 0400 0000 01 01 00", "MalformedGroup"),
        ("010141000001 0400 0000 01 01 02 02", "UnknownForm"),
        ("010141000001 0400 0000 01 01 02 00 03", "UnknownForm"),
        ("010141000001 0400 0000 01 01 02 00 01 00 41", "MalformedColumn"),
        ("010141000001 0400 0000 01 01 02 00 00 00 01", "MalformedGroup"),
        ("010141000001 0400 0000 01 01 04 00 00 7f", "Truncated"),
        ("010141000001 0400 0000 01 01 04 00 00 02 80 00", "InvalidUtf8"),
        ("010141000001 0400 0000 01 01 07 00 01 c1 00", "MalformedValue"),
        ("010141000001 0400 0000 01 01 07 00 01 c0 00", "MalformedColumn"),
        ("010141000001 0400 0000 01 01 07 01 01", "MalformedColumn"),
        ("010141000001 0400 0000 01 01 02 00 00 00 00 ff", "TrailingData"),
        ("010141000001 0408 0000 01 01 02 00 00 00 00 00 02", "UnknownSource"),
    ],
)
def test_a_body_that_cannot_be_is_refused_by_name(body: str, code: str) -> None:
    assert code_of(framed(bytes.fromhex(body.replace(" ", "")))) == code


@pytest.mark.parametrize(
    ("selector", "code"),
    [
        ("01", "UnknownSelector"),
        ("07", "UnknownSelector"),
        ("02 00 01", "VarintOverflow"),
        ("02 00 8080808002", "VarintOverflow"),
        ("03 00 04 00 04", "InvalidParam"),
        ("04 00 00", "InvalidParam"),
        ("04 00 04 00 04", "InvalidParam"),
        ("05 00 04 00 02 00 06", "InvalidParam"),
        ("06 02 00 00 02", "MalformedGroup"),
    ],
)
def test_selectors_that_break_a_rule_are_refused(selector: str, code: str) -> None:
    # Type A, field tags[]{} by path; one row, key 0, one selector.
    body = "010141 00 01 00 01 06 746167735b5d 01 0101 00 01 01 01 02 00 00 00 01" + selector
    assert code_of(framed(bytes.fromhex(body.replace(" ", "")))) == code


def test_a_packed_body_that_does_not_unpack_is_refused() -> None:
    for body in (b"", b"garbage", bytes.fromhex("28b52ffd2000010000")):
        with pytest.raises(DecodeError):
            PatchBatch.from_bytes(framed(body, flags=1, plain=100))


def test_a_selector_that_does_not_fit_its_placeholder_is_refused() -> None:
    group = PatchGroup(
        Operation.SET,
        "Movie",
        1,
        (PatchColumn.of([1]),),
        "tags[]",
        (SelectorColumn.of([MapKey("x")]),),
        PatchColumn.of([1]),
    )
    assert code_of(PatchBatch((group,)).to_bytes()) == "ParamKindMismatch"


def test_a_few_bytes_cannot_ask_for_much_memory() -> None:
    rows = (1 << 22).to_bytes(4, "little")
    number = bytes((rows[0] | 0x80, 0x80, 0x80, 0x02))
    many = "20" + "02000000" * 32
    body = bytes.fromhex("0101410000010400") + b"\0\0" + number + bytes.fromhex(many) + b"\0"
    with pytest.raises(LimitError, match="values in its columns"):
        PatchBatch.from_bytes(framed(body))
    small = PatchLimits(max_patches=3)
    assert code_of(PatchBatch.of(EXAMPLE).to_bytes(), limits=small) == "LimitExceeded"
    assert code_of(PatchBatch.of(EXAMPLE).to_bytes(), limits=PatchLimits(max_frame_bytes=20)) == "LimitExceeded"
    assert code_of(PatchBatch.of(EXAMPLE).to_bytes(), limits=PatchLimits(max_groups=2)) == "LimitExceeded"


def test_values_that_the_wire_cannot_hold_are_refused_when_written() -> None:
    for value in (object(), 2**70, [2**70], {"a": {1, object()}}):
        with pytest.raises(InputError):
            PatchBatch.of([Patch("Movie", 1, "x", value)]).to_bytes()
    with pytest.raises(InputError, match="VectorDelta"):
        PatchBatch.of([Patch("Movie", 1, "x", [1.0], operation=Operation.VECTOR)])
    with pytest.raises(InputError, match="about a record"):
        Patch("Movie", 1, "x", operation=Operation.REMOVE)
    with pytest.raises(InputError):
        hybrid_timestamp(2**48)


def test_patches_of_different_fields_share_groups_and_those_of_one_place_keep_their_order() -> None:
    mixed = [Patch("Movie", key, field, number) for number in range(100) for key in range(3) for field in ("a", "b")]
    assert len(PatchBatch.of(mixed).groups) == 2
    record = Patch("Movie", 1, value={"id": 1}, operation=Operation.PUT)
    ordered = [Patch("Movie", 1, "a", 1), record, Patch("Movie", 1, "a", 2), Patch("Movie", 2, "a", 3)]
    found = [patch for patch in PatchBatch.of(ordered) if patch.key == 1]
    assert found == ordered[:3]
    nested = [Patch("Movie", 1, "a.b", 1), Patch("Movie", 1, "a", None), Patch("Movie", 1, "a.b", 2)]
    assert list(PatchBatch.of(nested)) == nested


def test_columns_pick_rows_and_keep_nulls() -> None:
    for values in ([1, None, 3], ["a", None, "ä"], [b"", None, b"x"], [0.5, None, 2.0], [True, None, False]):
        column = PatchColumn.of(values)
        assert column.kind is not ColumnKind.ANY
        assert column.to_list() == values
        assert column.picked(np.array([2, 1])).to_list() == [values[2], None]
        group = PatchGroup(Operation.SET, "T", 3, (PatchColumn.of([1, 2, 3]),), "f", (), column)
        (read,) = PatchBatch.from_bytes(PatchBatch((group,)).to_bytes()).groups
        assert read.values is not None and read.values.to_list() == values


def test_json_lines_that_are_no_patches_are_named_by_their_line() -> None:
    for line in ("{", "[]", '{"type": 1}', '{"type": "M", "op": "no"}', '{"type": "M", "key": 1, "what": 1}',
                 '{"type": "M", "key": 1, "path": "a", "time": "x"}', '{"type": "M", "key": 1, "path": 5}',
                 '{"type": "M", "key": 1, "reference": "zz"}', '{"type": "M", "key": 1, "op": "vector", "value": [1]}',
                 '{"type": "M", "key": 1, "path": "a[", "value": 1}'):  # fmt: skip
        with pytest.raises((DecodeError, RegistryError)) as caught:
            PatchBatch.from_json_lines(["", '{"type": "M", "key": 1, "path": "a", "value": 1}', line], name="x.jsonl")
        assert "line 3" in str(caught.value) or isinstance(caught.value, RegistryError)


def test_nothing_expected_is_not_null_expected() -> None:
    for previous in (MISSING, None, ABSENT, 0):
        (read,) = PatchBatch.from_bytes(PatchBatch.of([Patch("M", 1, "a", 1, previous=previous)]).to_bytes())
        assert read.previous is previous or read.previous == previous
    assert not MISSING and not ABSENT

"""The format page, its examples, a reader written from it alone, and every way in which a section can be wrong."""

import re

import numpy as np
import pytest

from deltaic.binary.cursor import Cursor
from deltaic.errors import DecodeError, LimitError, SchemaError
from deltaic.limits import Limits
from deltaic.schema.types import Field, FieldType, ListSchema
from deltaic.state.append_write import SchemaAppend
from deltaic.testing.hollow_append import read_section_of
from deltaic.wire.append import AppendMode, Extension, append_flags, read_append
from deltaic.wire.append_write import encode_append
from deltaic.wire.header import read_header
from tests.unit.append.histories import History
from tests.unit.append.plain_reader import read_section
from tests.unit.append.test_append_states import evolved

RATING = {0: 85, 2: 92, 7: 78}


@pytest.fixture
def examples(project_root):
    page = (project_root / "docs/formats/schema-append.md").read_text()
    found = {}
    for name, block in re.findall(r"```hex (\w+)\n(.*?)```", page, re.S):
        digits = [re.match(r"[0-9a-f]{2}( [0-9a-f]{2})*(?=\s|$)", line)[0] for line in block.splitlines() if line]
        found[name] = bytes.fromhex("".join(digits))
    return found


def read(envelope, data, mode="full", limits=Limits()):  # noqa: B008
    flags = append_flags(envelope, "test")
    return read_append(Cursor(data, "test"), flags, AppendMode(mode), limits)


def test_the_examples_of_the_page_are_what_is_written_and_read(examples):
    assert read_section(b"\x01", examples["base"])["values"] == {"Movie": {("rating", 2): RATING}}
    section = read(b"\x01", examples["base"])
    assert section.values[0].fields[0].ordinals.tolist() == [0, 2, 7] and section.definitions == ()
    plain = read_section(b"\x01", examples["definitions"])
    assert plain["definitions"] == {"Movie": [("rating", 2)]}
    section = read(b"\x01", examples["definitions"])
    assert section.definitions[0].fields == (Field("rating", FieldType.LONG),)
    assert read_section(b"\x00\xa1", examples["compressed"]) == plain
    assert len(read(b"\x00\xa1", examples["compressed"]).values) == 1
    entries = read_section(b"\x01\xa2", examples["extension"])["entries"]
    assert [entry[0] for entry in entries] == [2, 3, 4, 1, 5]
    extension = read(b"\x01\xa2", examples["extension"]).extension
    assert extension.removed_types == ("Old",) and extension.removed_fields == (("Movie", "gone"),)
    assert extension.renamed_fields == (("Movie", "name", "title"),) and extension.keys == (("Movie", ("id",)),)
    assert extension.added_types[0].schema == ListSchema("Tags", "Tag")
    encoded = encode_append([], [], extension)
    assert (encoded.envelope, b"".join(map(bytes, encoded.pieces))) == (b"\x01\xa2", examples["extension"])


@pytest.mark.parametrize("compression", [None, "zstd", "zlib"])
def test_a_reader_written_from_the_page_alone_reads_what_is_written(compression):
    history = evolved(SchemaAppend(compression=compression))
    delta, fresh = history.versions[1].delta, history.fresh(1)
    header = read_header(Cursor(delta))
    size = read_section_of(delta).size_bytes
    plain = read_section(header.extra, delta[len(delta) - size :])
    kept = fresh.types["Movie"].populated.intersection(history.fresh(0).types["Movie"].populated)
    assert [field[0] for field in plain["definitions"]["Movie"]] == ["i", "l", "b", "f", "d", "s", "y", "r"]
    for (name, *_), values in plain["values"]["Movie"].items():
        column = {o: fresh["Movie"][o] for o in kept.ordinals().tolist()}
        for ordinal, record in column.items():
            shown = values.get(ordinal)
            expected = record.reference(name) if name == "r" and hasattr(record, "reference") else record[name]
            if name in ("i", "l", "b", "s", "y"):
                assert shown == expected
            elif name != "r":
                assert (shown is None) == (expected is None)
    assert plain["entries"][0][:2] == (1, 1)


def varint(value):
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(0x80 | value & 0x7F)
    return bytes(reversed(groups))


def text(name):
    return varint(len(name)) + name.encode()


def section(values, definitions=b"\x00"):
    body = varint(len(definitions)) + definitions + values
    return varint(len(body)) + body


INT = text("T") + b"\x01" + text("x") + b"\x01"
WRONG = {
    "the section is cut": (b"\x05\x01", "Truncated"),
    "definitions past the end": (b"\x02\x09\x00", "Truncated"),
    "bytes after the values": (section(b"\x00\x00"), "TrailingBytes"),
    "bytes after the definitions": (section(b"\x00", b"\x00\x00"), "TrailingBytes"),
    "bytes after the section": (section(b"\x00") + b"\x00", "TrailingBytes"),
    "more types than bytes": (section(b"\x7f"), "BadCount"),
    "a type twice": (section(b"\x02" + (text("T") + b"\x00") * 2), "BadSchema"),
    "a type without fields": (section(b"\x01" + text("T") + b"\x00"), None),
    "a field twice": (section(b"\x01" + text("T") + b"\x02" + (text("x") + b"\x01\x00") * 2), "BadSchema"),
    "an unknown kind": (section(b"\x01" + text("T") + b"\x01" + text("x") + b"\x08\x00"), "BadFieldType"),
    "a name that is no UTF-8": (section(b"\x01\x01\xff\x00"), "BadText"),
    "ordinals that fall": (section(b"\x01" + INT + b"\x02\x05\x02\x04\x02"), "OrdinalOrder"),
    "an ordinal twice": (section(b"\x01" + INT + b"\x02\x05\x02\x05\x02"), "OrdinalOrder"),
    "an ordinal past 2^31": (section(b"\x01" + INT + b"\x01" + varint(1 << 31) + b"\x02"), "OrdinalOrder"),
    "a number that starts with null": (section(b"\x01" + INT + b"\x01\x00\x80\x01"), "InvalidVarint"),
    "a number without an end": (section(b"\x01" + INT + b"\x01\x00" + b"\xff" * 6), "InvalidVarint"),
    "values that end early": (section(b"\x01" + INT + b"\x02\x00\x02"), "Truncated"),
    "a truth value of 2": (section(b"\x01" + text("T") + b"\x01" + text("x") + b"\x03\x01\x00\x02"), "BadValue"),
    "a text past the end": (section(b"\x01" + text("T") + b"\x01" + text("x") + b"\x06\x01\x00\x09a"), "Truncated"),
    "definitions twice": (section(b"\x00", b"\x02" + (text("T") + b"\x01" + text("x") + b"\x01") * 2), "BadSchema"),
    "a field defined twice": (section(b"\x00", b"\x01" + text("T") + b"\x02" + (text("x") + b"\x01") * 2), "BadSchema"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_section_that_is_wrong_is_refused_with_its_code(what):
    data, code = WRONG[what]
    if code is None:
        read(b"\x01", data)
        return
    with pytest.raises(DecodeError) as caught:
        read(b"\x01", data)
    assert caught.value.code == code, caught.value


EXTENSIONS = {
    "an unknown entry": (b"\x01\x06\x00", "UnknownExtension"),
    "an entry that may be passed over": (b"\x01\x80\x01\xff", None),
    "an entry with more than it needs": (b"\x01\x02\x03\x01T\x00", "TrailingBytes"),
    "an entry past the end": (b"\x01\x02\x09\x01T", "Truncated"),
    "three shards": (b"\x01\x01\x09\x03\x02\x00\x01L\x00\x01E\x00", "BadShards"),
    "no schema": (b"\x01\x01\x02\x01\x09", "BadSchema"),
    "a type twice": (b"\x02" + b"\x01\x08\x01\x02\x00\x01L\x00\x01E" * 2, "BadSchema"),
}


@pytest.mark.parametrize("what", EXTENSIONS)
def test_an_extension_block_that_is_wrong_is_refused_with_its_code(what):
    block, code = EXTENSIONS[what]
    data = b"\x00" + varint(len(block)) + block
    if code is None:
        assert not read(b"\x01\xa2", data).extension
    else:
        with pytest.raises(DecodeError) as caught:
            read(b"\x01\xa2", data)
        assert caught.value.code == code, caught.value
    assert read(b"\x01\xa2", data, "values").values == (), "values do not need the block"


def test_compressed_sections_are_bounded_and_checked(examples):
    good = examples["compressed"]
    with pytest.raises(LimitError):
        read(b"\x00\xa1", good, limits=Limits(max_append_bytes=43))
    with pytest.raises(LimitError):
        read(b"\x01", examples["definitions"], limits=Limits(max_append_bytes=42))
    for damaged, code in (
        (good[:1] + b"\x09" + good[2:], "UnknownCodec"),
        (good[:2] + b"\x2b" + good[3:], "WrongSize"),
        (good[:10] + b"\x00" + good[11:], "BadCompression"),
        (good[:-1], "Truncated"),
    ):
        with pytest.raises(DecodeError) as caught:
            read(b"\x00\xa1", damaged)
        assert caught.value.code == code


@pytest.mark.parametrize("extra", [b"", b"\x00", b"\x00\x09\x08\xff\x07", b"\x02", b"\x00\xa0", b"\x05\xa1"])
def test_other_bytes_in_the_envelope_announce_nothing(extra):
    assert append_flags(extra, "test") is None


def test_flags_of_a_later_release():
    with pytest.raises(DecodeError) as caught:
        append_flags(b"\x00\xa5", "test")
    assert caught.value.code == "UnknownExtension"
    flags = append_flags(b"\x01\xa6", "test")
    assert flags is not None and not flags.extended
    read_append(Cursor(section(b"\x00") + b"what follows"), flags, AppendMode.FULL)


def test_a_field_that_would_take_memory_without_bytes_is_refused():
    history = History()
    history.publish("T { int a; }", {"T": [{"a": n} for n in range(64)]})
    names = [f"f{n}" for n in range(5000)]
    new = "T { int a; " + " ".join(f"double {name};" for name in names) + " }"
    history.publish(new, {"T": [{"a": n, **dict.fromkeys(names[:1], 0.5)} for n in range(64)]})
    delta, before = history.versions[1].delta, history.fresh(0)
    with pytest.raises(LimitError, match="new fields take"):
        before.apply(delta, schema_append="full", limits=Limits(max_state_bytes=1 << 20))
    assert len(before.apply(delta, schema_append="full").types["T"].schema.fields) == 5001


def test_names_that_cannot_stand_in_a_section_are_refused_when_written():
    from deltaic.wire.append import TypeDefinition

    for name in ("\ud800", "x" * 70_000):
        with pytest.raises(SchemaError):
            encode_append([TypeDefinition(name, ())], [])


def test_an_empty_extension_is_no_extension():
    assert not Extension() and encode_append([], [], Extension()).envelope == b"\x01"
    assert np.array_equal(encode_append([], []).pieces[0], b"\x00")

"""The compiled decoder of manifests, its plain twin, and fastavro: three that agree."""

import io
import math

import fastavro
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltaic.kernels import manifest as chosen
from deltaic.kernels.plain import manifest as plain
from deltaic.table.actions import AddFile
from deltaic.table.avro import write_container
from deltaic.table.columns import FileColumns
from deltaic.table.entries import BASE, FULL, LITERAL_FULL, encode_entries, program_of

texts = st.text(max_size=12)
longs = st.integers(-(2**63), 2**63 - 1)
maps = st.dictionaries(texts, texts, max_size=4)
adds = st.builds(
    AddFile,
    path=texts,
    partition_values=st.dictionaries(texts, st.one_of(st.none(), texts), max_size=3),
    size_bytes=longs,
    modified_ms=longs,
    data_change=st.booleans(),
    stats=st.none() | texts,
    min_values=st.none() | maps,
    max_values=st.none() | maps,
    num_records=st.none() | longs,
    footer_start=st.none() | longs,
    has_footer_offsets=st.booleans(),
    split_tags=st.none() | st.lists(texts, max_size=3).map(tuple),
    num_merge_ops=st.none() | st.integers(-(2**31), 2**31 - 1),
    doc_mapping_ref=st.none() | texts,
    companion_source_files=st.none() | st.lists(texts, max_size=2).map(tuple),
    tags=st.none() | maps,
    unknown=st.dictionaries(texts.filter(lambda name: name), st.integers(0, 9), max_size=2),
    added_at_version=st.integers(0, 2**62),
    added_at_ms=longs,
)


def equal(ours, theirs):
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, list):
            assert one == other
        else:
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)


@given(st.lists(adds, max_size=8))
def test_what_is_encoded_is_decoded_and_the_twins_agree(listed):
    data, starts = encode_entries(listed, FULL)
    _, program = program_of({"type": "record", "fields": FULL.avro_fields})
    ours, theirs = chosen.decode_entries(data, len(listed), program), plain.decode_entries(data, len(listed), program)
    equal([ours[0]], [theirs[0]])
    assert ours[0].tolist() == starts
    for one, other in zip(ours[1], theirs[1], strict=True):
        equal(one, other)
    columns = FileColumns.of_records(data, len(listed), FULL, "test")
    from deltaic.table.actions import NULL_PARTITION

    if not any(NULL_PARTITION in add.partition_values.values() for add in listed):
        assert list(columns.entries()) == listed


@given(
    st.lists(adds, max_size=5),
    st.sampled_from([BASE, FULL, LITERAL_FULL]),
    st.sampled_from(["zstd", "snappy", "deflate", "none"]),
)
def test_fastavro_reads_what_we_write(listed, schema, codec):
    data, _ = encode_entries(listed, schema)
    packed = write_container(schema.text, [(len(listed), data)] if listed else [], codec=codec)
    records = list(fastavro.reader(io.BytesIO(packed)))
    assert [record["path"] for record in records] == [add.path for add in listed]
    assert [record["minValues"] for record in records] == [add.min_values for add in listed]
    assert [record["size"] for record in records] == [add.size_bytes for add in listed]
    assert [add.path for add in FileColumns.read(packed, "test").entries()] == [add.path for add in listed]


@given(st.lists(adds, max_size=4), st.data())
def test_the_twins_refuse_the_same_bytes_for_the_same_reason(listed, data):
    encoded, _ = encode_entries(listed, BASE)
    _, program = program_of({"type": "record", "fields": BASE.avro_fields})
    broken = bytearray(encoded)
    for _ in range(data.draw(st.integers(0, 3))):
        if broken:
            broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(broken[: data.draw(st.integers(0, len(broken)))])
    count = data.draw(st.sampled_from([len(listed), 0, 1, len(listed) + 1, 2**40]))

    def outcome(kernel):
        try:
            starts, columns = kernel.decode_entries(cut, count, program)
        except ValueError as error:
            return error.args
        return [
            starts.tolist(),
            [[part if isinstance(part, list) else part.tolist() for part in one] for one in columns],
        ]

    assert outcome(chosen) == outcome(plain)


def column_of(values):
    encoded = [b"" if value is None else value.encode("utf-8", "surrogatepass") for value in values]
    lengths = np.array(
        [-1 if value is None else len(part) for value, part in zip(values, encoded, strict=True)], np.int64
    )
    sizes = np.array([len(part) for part in encoded], np.int64)
    return b"".join(encoded), (np.cumsum(sizes) - sizes).astype(np.int64), lengths


@given(st.lists(st.none() | st.text(max_size=6), max_size=8), st.text(max_size=6))
def test_texts_are_compared_in_both_orders(values, needle):
    column = column_of(values)
    found = chosen.compare_texts(*column, needle.encode("utf-8", "surrogatepass"))
    np.testing.assert_array_equal(found, plain.compare_texts(*column, needle.encode("utf-8", "surrogatepass")))
    for value, answer in zip(values, found.tolist(), strict=True):
        if value is None:
            assert answer == chosen.MISSING
            continue
        by_point = (value > needle) - (value < needle)
        ours, other = value.encode("utf-16-be", "surrogatepass"), needle.encode("utf-16-be", "surrogatepass")
        by_unit = (ours > other) - (ours < other)
        if answer == chosen.PREFIX:
            assert needle.startswith(value) and value != needle
        elif answer != chosen.UNSURE:
            assert answer == by_point == by_unit
        if by_point != by_unit:
            assert answer == chosen.UNSURE


numbers = st.one_of(
    longs.map(str),
    st.text("0123456789+-.eE_ naifty", max_size=24),
    st.floats().map(repr),
    st.sampled_from(["9" * 19, "9" * 20, "-0"]),
)


@given(st.lists(st.none() | numbers, max_size=8))
def test_numbers_in_texts_are_read_alike(values):
    column = column_of(values)
    equal(chosen.parse_longs(*column), plain.parse_longs(*column))
    equal(chosen.parse_doubles(*column), plain.parse_doubles(*column))
    equal([chosen.hash_texts(*column)], [plain.hash_texts(*column)])
    equal(chosen.number_texts(*column), plain.number_texts(*column))
    codes, firsts = chosen.number_texts(*column)
    assert [values[firsts[code]] for code in codes.tolist()] == values
    read, fine = chosen.parse_longs(*column)
    for value, number, known in zip(values, read.tolist(), fine.tolist(), strict=True):
        if known:
            assert int(value) == number
        elif value is not None and value.lstrip("-").isdigit() and value.isascii():
            assert not -(2**63) <= int(value) < 2**63 or len(value.lstrip("-")) > 19
    doubles, fine = chosen.parse_doubles(*column)
    for value, number, known in zip(values, doubles.tolist(), fine.tolist(), strict=True):
        assert not known or (float(value) == number and not math.isnan(number))


def test_an_unusual_shape_is_read_record_by_record():
    schema = {
        "type": "record",
        "name": "FileEntry",
        "fields": [
            {"name": "path", "type": "string"},
            {"name": "size", "type": ["null", "int", "long"]},
            {"name": "modificationTime", "type": "long"},
            {"name": "weight", "type": "double"},
        ],
    }
    out = io.BytesIO()
    fastavro.writer(out, schema, [{"path": "a", "size": 5, "modificationTime": 1, "weight": 0.5}])
    assert [(add.path, add.size_bytes) for add in FileColumns.read(out.getvalue(), "test").entries()] == [("a", 5)]


def test_java_strings_and_nulls_at_the_end_of_unions_are_the_kernels_own_shape():
    schema = {
        "type": "record",
        "name": "FileEntry",
        "fields": [
            {"name": "path", "type": {"type": "string", "avro.java.string": "String"}},
            {"name": "size", "type": "long"},
            {"name": "modificationTime", "type": "long"},
            {"name": "numRecords", "type": ["long", "null"]},
        ],
    }
    assert program_of(schema) is not None
    out = io.BytesIO()
    records = [{"path": "a", "size": 5, "modificationTime": 1, "numRecords": count} for count in (None, 7)]
    fastavro.writer(out, schema, records)
    assert [add.num_records for add in FileColumns.read(out.getvalue(), "test").entries()] == [None, 7]


@pytest.mark.parametrize("missing", ["path", "size", "modificationTime"])
def test_entries_without_what_every_file_has_are_refused(missing):
    from deltaic.errors import DecodeError

    fields = [
        {"name": "path", "type": "string"},
        {"name": "size", "type": "long"},
        {"name": "modificationTime", "type": "long"},
    ]
    schema = {"type": "record", "name": "FileEntry", "fields": [field for field in fields if field["name"] != missing]}
    out = io.BytesIO()
    values = {"path": "a", "size": 5, "modificationTime": 1}
    fastavro.writer(out, schema, [{key: value for key, value in values.items() if key != missing}])
    with pytest.raises(DecodeError):
        list(FileColumns.read(out.getvalue(), "test").entries())

"""What a header says is what was written into it."""

import io

import pytest

from deltaic.binary.cursor import Cursor
from deltaic.errors import InputError
from deltaic.schema.types import Field, FieldType, ListSchema, ObjectSchema
from deltaic.wire.header import read_header, read_part_header
from deltaic.wire.write_header import Envelope, write_header, write_part_header
from deltaic.wire.write_stream import Output

SCHEMAS = [ObjectSchema("T", (Field("x", FieldType.INT),)), ListSchema("L", "T")]


def written(write, *arguments, **options):
    stream = io.BytesIO()
    output = Output(stream)
    write(output, *arguments, **options)
    output.flush()
    return stream.getvalue()


@pytest.mark.parametrize("extra", [b"", b"\x01", bytes(200)])
def test_a_header_is_read_as_it_was_written(extra):
    tags = {"a": "", "ü": "\U0001f600 \x00"}
    data = written(
        write_header, SCHEMAS, tags, origin_tag=2**64 - 1, destination_tag=7, envelope=Envelope(header_extra=extra)
    )
    header = read_header(Cursor(data))
    assert (header.origin_tag, header.destination_tag) == (2**64 - 1, 7)
    assert header.schemas == tuple(SCHEMAS)
    assert dict(header.tags) == tags
    assert header.extra == extra
    assert header.sections == 2


def test_an_old_envelope_has_no_schemas():
    envelope = Envelope(schemas=False)
    data = written(write_header, SCHEMAS, {}, origin_tag=1, destination_tag=2, envelope=envelope)
    header = read_header(Cursor(data))
    assert header.schemas == ()
    assert header.sections == 2


def test_a_part_header_is_read_as_it_was_written():
    data = written(write_part_header, "images", SCHEMAS[:1], origin_tag=3, destination_tag=4)
    header = read_part_header(Cursor(data))
    assert (header.part, header.origin_tag, header.destination_tag) == ("images", 3, 4)
    assert header.schemas == tuple(SCHEMAS[:1])


def test_more_tags_than_java_can_count_are_refused():
    tags = {str(number): "" for number in range(32_768)}
    with pytest.raises(InputError, match="32,768 header tags"):
        written(write_header, [], tags, origin_tag=1, destination_tag=2)


def test_a_tag_that_is_too_long_is_refused():
    with pytest.raises(InputError, match="65536 bytes"):
        written(write_header, [], {"a": "x" * 65_536}, origin_tag=1, destination_tag=2)

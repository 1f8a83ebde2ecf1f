"""Sizes and shards follow from widths as in Java."""

import io

import numpy as np
import pytest

from deltaic.errors import InputError
from deltaic.schema.types import ListSchema, MapSchema, SetSchema
from deltaic.wire.write_header import Envelope
from deltaic.wire.write_layout import ListLayout, MapLayout, ObjectLayout, SetLayout, shard_max_ordinals
from deltaic.wire.write_sections import SectionContent, write_delta_section
from deltaic.wire.write_shards import RecordSource
from deltaic.wire.write_stream import Output


@pytest.mark.parametrize(
    ("last", "shards", "expected"),
    [(-1, 4, [-1, -1, -1, -1]), (0, 4, [0, -1, -1, -1]), (9, 4, [2, 2, 1, 1]), (7, 1, [7]), (7, 8, [0] * 8)],
)
def test_shards_share_the_slots_of_a_type(last, shards, expected):
    assert shard_max_ordinals(last, shards) == expected
    assert sum(each + 1 for each in expected) == last + 1


def test_the_projected_size_of_objects_counts_holes_and_byte_data():
    assert ObjectLayout((3, 10), (0, 100)).projected_bytes(15) == 13 * 16 // 8 + 100


def test_the_projected_size_of_lists_has_its_one_outside_the_product():
    # 5 elements of 4 bits, 3 bits per pointer: 20 // 8 + (3 * 6 + 1) // 8
    assert ListLayout(3, 4, (5,)).projected_bytes(6) == 2 + 2
    assert ListLayout(1, 1, (0,)).projected_bytes(-1) == 0


def test_the_projected_size_of_tables_is_that_of_one_shard():
    # 8 buckets in two shards: pointers of the whole type take 4 bits.
    assert SetLayout(3, 2, 5, (4, 4)).projected_bytes(9) == (2 + 4) * 10 // 8 + 5 * 8 // 8
    assert MapLayout(3, 2, 5, 6, (4, 4)).projected_bytes(9) == (2 + 4) * 10 // 8 + 11 * 8 // 8


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (MapLayout(1, 1, 30, 29, (4,)), "buckets of 59 bits"),
        (SetLayout(1, 1, 2, (2**31,)), "2,147,483,648 elements of 2 bits"),
        (ListLayout(1, 32, (2**32,)), "4,294,967,296 elements of 32 bits"),
    ],
)
def test_what_java_readers_cannot_hold_is_refused(layout, message):
    nothing = RecordSource(np.zeros(16, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.uint8), np.zeros(0, np.int32))
    schema = {MapLayout: MapSchema("T", "K", "V"), SetLayout: SetSchema("T", "E"), ListLayout: ListSchema("T", "E")}
    content = SectionContent(schema[type(layout)], nothing, layout, 1, -1)
    with pytest.raises(InputError, match=message):
        write_delta_section(Output(io.BytesIO()), content, np.zeros(0, np.int64), np.zeros(0, np.int64), Envelope())

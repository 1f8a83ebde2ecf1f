"""Frames and messages as Arrow tables: the columns of the format page, and the values that were encoded."""

import numpy as np
import pyarrow as pa
import pytest

from deltaic.errors import InputError
from deltaic.wire.vectors import EncodeOptions, Format, encode_batch, encode_message, read_frame, read_message
from deltaic.wire.vectors.arrow import EXTENSION_NAME, frame_tables, message_table, messages_of

DIMS = 20


def matrices() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(4)
    old = random.standard_normal((30, DIMS)).astype(np.float32)
    new = old.copy()
    new[0:10, [3, 11]] += 1  # sparse
    new[10:20, 4:9] += 1  # runs
    new[10:15, 12:18] += 1
    new[20:25] += 1  # dense; the rest stays
    return old, new


def rebuilt(tables: dict[Format, pa.Table], old: np.ndarray) -> np.ndarray:
    """What the tables say, row by row in Python."""
    made = old.copy()
    for form, table in tables.items():
        for row in table.to_pylist():
            if form is Format.DENSE:
                indices = range(DIMS)
            elif form is Format.SPARSE:
                indices = row["index"]
            else:
                runs = zip(row["start"], row["length"], strict=True)
                indices = [place for start, length in runs for place in range(start, start + length)]
            if "difference" in row:
                patterns = made[row["row_id"]].view(np.uint32)
                for index, value in zip(indices, row["difference"], strict=True):
                    patterns[index] = (int(patterns[index]) + value) % 2**32
            else:
                for index, value in zip(indices, row["value"], strict=True):
                    made[row["row_id"], index] = value
    return made


@pytest.mark.parametrize("options", [{}, {"relative": True}, {"include_prev": True}, {"compression": "zstd"}])
def test_the_tables_of_a_frame_hold_its_deltas(options):
    old, new = matrices()
    frame = read_frame(encode_batch(old, new, options=EncodeOptions(**options)))
    tables = {form: table.to_pyarrow() for form, table in frame_tables(frame).items()}
    assert set(tables) == {Format.SPARSE, Format.RUNS, Format.DENSE}
    assert rebuilt(tables, old).tobytes() == new.tobytes()
    if options.get("include_prev"):
        prev = tables[Format.DENSE]["prev"].combine_chunks().flatten().to_numpy()
        assert prev.tobytes() == old[20:25].tobytes()


def test_the_columns_are_those_of_the_page():
    old, new = matrices()
    frame = read_frame(encode_batch(old, new, options=EncodeOptions(include_prev=True)))
    tables = frame_tables(frame)
    lists = {"value": pa.list_(pa.float32()), "prev": pa.list_(pa.float32())}
    fixed = pa.list_(pa.float32(), DIMS)
    wanted = {
        Format.SPARSE: {"row_id": pa.int64(), "index": pa.list_(pa.uint32()), **lists},
        Format.RUNS: {"row_id": pa.int64(), "start": pa.list_(pa.uint32()), "length": pa.list_(pa.uint32()), **lists},
        Format.DENSE: {"row_id": pa.int64(), "value": fixed, "prev": fixed},
    }
    for form, columns in wanted.items():
        schema = tables[form].to_pyarrow().schema
        assert schema.names == list(columns)
        for name, kind in columns.items():
            found = schema.field(name).type
            assert str(found).replace(" not null", "") == str(kind)


def test_values_of_uncompressed_frames_are_not_copied():
    old, new = matrices()
    data = bytearray(encode_batch(old, new, options=EncodeOptions()))
    frame = read_frame(data)
    table = frame_tables(frame)[Format.DENSE].to_pyarrow()
    address = table["value"].chunk(0).flatten().buffers()[1].address
    start = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    assert start <= address < start + len(data)


def test_messages_travel_as_an_extension_column():
    old, new = matrices()
    messages = [encode_message(old[row], new[row]) for row in range(30)]
    table = message_table(messages, DIMS, range(100, 130))
    shown = table.to_pyarrow()
    metadata = shown.schema.field("delta").metadata
    assert metadata == {b"ARROW:extension:name": EXTENSION_NAME.encode(), b"ARROW:extension:metadata": b'{"dims": 20}'}
    found = messages_of(shown)
    assert found == [(100 + row, message) for row, message in enumerate(messages)] == messages_of(table)
    assert read_message(found[3][1]).delta.apply(old[3]).tobytes() == new[3].tobytes()
    with pytest.raises(InputError, match="a table of messages"):
        messages_of(pa.table({"row_id": [1], "delta": ["text"]}))
    with pytest.raises(InputError, match="row ids"):
        message_table(messages, DIMS, [1])

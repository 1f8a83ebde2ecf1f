"""Frames and messages as Arrow tables (vector-delta.md, "Arrow"), without pyarrow and mostly without copying.

| section | columns |
| --- | --- |
| sparse, dictionary | `row_id: int64, index: list<uint32>, value: list<float32>` |
| dense | `row_id: int64, value: fixed_size_list<float32>[D]` |
| runs | `row_id: int64, start: list<uint32>, length: list<uint32>, value: list<float32>` |

`prev` follows like `value` where a frame has previous values. A relative frame has `difference` of int32 instead of
`value`: what is added to the bits of a float32. Messages are `row_id: int64, delta: binary` with the extension name
`deltaic.vector_delta`.
"""

import json
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import (
    LARGEST_INT32,
    ArrowColumn,
    ArrowField,
    ArrowTable,
    read_stream,
    struct_column,
    text_format,
)
from deltaic.errors import InputError
from deltaic.wire.vectors.frame import Frame, Section
from deltaic.wire.vectors.message import unzigzag
from deltaic.wire.vectors.options import Format

EXTENSION_NAME = "deltaic.vector_delta"
"""Arrow's extension name of a column of messages."""

Offsets = NDArray[np.int64]

_NAME_KEY, _METADATA_KEY = b"ARROW:extension:name", b"ARROW:extension:metadata"


def frame_tables(frame: Frame) -> dict[Format, ArrowTable]:
    """The sections of a frame as tables, one row for each row of the section."""
    return {section.format: section_table(frame, section) for section in frame.sections}


def section_table(frame: Frame, section: Section) -> ArrowTable:
    """One section of a frame as a table."""
    columns = [_numbers("row_id", "l", section.row_ids)]
    if section.format is Format.RUNS:
        assert section.run_offsets is not None and section.run_lengths is not None
        lengths = section.run_lengths.astype(np.uint32, copy=False)
        columns.append(_lists("start", section.run_offsets, "I", _run_starts(section)))
        columns.append(_lists("length", section.run_offsets, "I", lengths))
    elif section.format is not Format.DENSE:
        columns.append(_lists("index", section.offsets, "I", section.indices(frame.dims)))
    if frame.relative:
        columns.append(_values(frame, section, "difference", "i", unzigzag(section.words).view(np.int32)))
    else:
        columns.append(_values(frame, section, "value", "f", section.words.view(np.float32)))
    if section.prev is not None:
        columns.append(_values(frame, section, "prev", "f", section.prev.view(np.float32)))
    return _table(columns, len(section))


def message_table(messages: Sequence[bytes], dims: int, row_ids: Iterable[int] | None = None) -> ArrowTable:
    """Messages as a table, one a row; the ids are their places if left out."""
    ids = np.arange(len(messages), dtype=np.int64) if row_ids is None else np.fromiter(row_ids, np.int64)
    if len(ids) != len(messages):
        raise InputError(f"{len(ids)} row ids of {len(messages)} messages")
    offsets = np.zeros(len(messages) + 1, np.int64)
    np.cumsum([len(message) for message in messages], out=offsets[1:])
    metadata = (
        (_NAME_KEY, EXTENSION_NAME.encode()),
        (_METADATA_KEY, json.dumps({"dims": dims}).encode()),
    )
    kind = ArrowField("delta", text_format(offsets, binary=True), False, metadata=metadata)
    data = np.frombuffer(b"".join(messages), np.uint8)
    return _table([_numbers("row_id", "l", ids), ArrowColumn(kind, len(messages), None, data, offsets)], len(messages))


def messages_of(table: object) -> list[tuple[int, bytes]]:
    """The row ids and messages of a table that `message_table` made, whoever carried it.

    Raises:
        InputError: it has other columns.
    """
    kind, batches = read_stream(table)
    names = tuple(child.name for child in kind.children)
    if names != ("row_id", "delta") or [child.plain.format for child in kind.children] not in (["l", "z"], ["l", "Z"]):
        raise InputError(f"columns {', '.join(names)}: a table of messages has row_id: int64 and delta: binary")
    found = []
    for batch in batches:
        ids, deltas = batch.children
        assert ids.data is not None and deltas.data is not None and deltas.offsets is not None
        whole, bounds = deltas.data.tobytes(), deltas.offsets.tolist()
        for place, row_id in enumerate(ids.data.tolist()):
            found.append((row_id, whole[bounds[place] : bounds[place + 1]]))
    return found


def _run_starts(section: Section) -> NDArray[np.uint32]:
    """Where each run starts; gaps count from the end of the run before, anew in each row."""
    assert section.run_offsets is not None and section.run_gaps is not None and section.run_lengths is not None
    lengths = section.run_lengths.astype(np.int64)
    ends = np.cumsum(section.run_gaps.astype(np.int64) + lengths)
    counts = np.diff(section.run_offsets)
    before = np.concatenate([np.zeros(1, np.int64), ends])[section.run_offsets[:-1]]
    starts: NDArray[np.int64] = ends - lengths - np.repeat(before, counts)
    return starts.astype(np.uint32)


def _numbers(name: str, form: str, data: NDArray[np.generic]) -> ArrowColumn:
    return ArrowColumn(ArrowField(name, form, False), len(data), None, data)


def _lists(name: str, offsets: Offsets, form: str, data: NDArray[np.generic]) -> ArrowColumn:
    inner = _numbers("item", form, data)
    kind = ArrowField(name, "+L" if int(offsets[-1]) > LARGEST_INT32 else "+l", False, (inner.field,))
    return ArrowColumn(kind, len(offsets) - 1, None, None, offsets, (inner,))


def _values(frame: Frame, section: Section, name: str, form: str, data: NDArray[np.generic]) -> ArrowColumn:
    if section.format is not Format.DENSE:
        return _lists(name, section.offsets, form, data)
    inner = _numbers("item", form, data)
    return ArrowColumn(ArrowField(name, f"+w:{frame.dims}", False, (inner.field,)), len(section), children=(inner,))


def _table(columns: list[ArrowColumn], length: int) -> ArrowTable:
    batch = struct_column("", tuple(columns), length)
    return ArrowTable(batch.field, length, lambda: iter((batch,)))

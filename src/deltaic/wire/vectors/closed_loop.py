"""Lossy columns without drift: a writer that compares with what its readers have (vector-delta.md, "drift").

Rows are accounted for one by one: a row gets its whole vector again, without loss, when one of the bounds of
`RefreshOptions` is passed and it changes.
"""

import numpy as np
from numpy.typing import NDArray

from deltaic.wire.vectors.batch import Matrix, RowIds, apply_batch, as_patterns, checked_row_ids, encode_batch
from deltaic.wire.vectors.dictionary import Dictionary
from deltaic.wire.vectors.drift import DEFAULT_REFRESH, RefreshOptions, refresh_bytes
from deltaic.wire.vectors.frame import Frame, Section
from deltaic.wire.vectors.frame_read import read_frames
from deltaic.wire.vectors.frame_write import write_frame
from deltaic.wire.vectors.layout import VALUE_TYPES, WIDTHS, Array, Column, Type
from deltaic.wire.vectors.options import FRAME_OPTIONS, EncodeOptions, Format, Mode

_ROW_BYTES = 12
"""Of a row's id and of its offset."""


class BatchWriter:
    """Writes the frames of one vector column, so that readers are never off by more than a row's last delta."""

    def __init__(
        self,
        start: Matrix,
        rows: RowIds | None = None,
        *,
        options: EncodeOptions = FRAME_OPTIONS,
        refresh: RefreshOptions = DEFAULT_REFRESH,
        dictionary: Dictionary | None = None,
    ) -> None:
        count, self._dims = as_patterns(start, "the first matrix").shape
        self._rows = checked_row_ids(rows, count)
        self._shadow = np.array(start, order="C")
        self.options, self.refresh, self.dictionary = options, refresh, dictionary
        self.lengths: NDArray[np.int64] = np.zeros(count, np.int64)
        """Deltas of each row since its last full refresh."""
        self.sizes: NDArray[np.int64] = np.zeros(count, np.int64)
        """Their bytes, before compression."""

    @property
    def shadow(self) -> Matrix:
        """What readers have now; not to be changed."""
        view = self._shadow.view()
        view.flags.writeable = False
        return view

    def write(self, new: Matrix) -> bytes:
        """The frames for the next version of all rows; rows that are due come whole."""
        wanted = as_patterns(new, "the new matrix")
        due = self._due(np.asarray(new)) if wanted.shape == self._shadow.shape else np.zeros(0, np.bool_)
        if not due.any():
            frames = encode_batch(self._shadow, new, self._rows, options=self.options, dictionary=self.dictionary)
            self._take(frames)
            return frames
        other = ~due
        frames = encode_batch(
            self._shadow[other], new[other], self._rows[other], options=self.options, dictionary=self.dictionary
        )
        whole = self._refresh(wanted, due)
        self._take(frames)
        apply_batch(whole, self._shadow, row_ids=self._rows, in_place=True)
        self.lengths[due] = 0
        self.sizes[due] = 0
        return frames + whole

    def _due(self, new: Matrix) -> NDArray[np.bool_]:
        """The rows that get their whole vector now."""
        options = self.refresh
        due = np.zeros(len(self._rows), np.bool_)
        if options.refresh_interval:
            due |= self.lengths >= options.refresh_interval
        if options.refresh_bytes_ratio:
            due |= self.sizes > options.refresh_bytes_ratio * refresh_bytes(self._dims)
        if options.max_drift:
            due |= self._off(new) > options.max_drift
        places = np.flatnonzero(due)
        due[places] = (self._shadow[places].view(np.uint32) != new[places].view(np.uint32)).any(axis=1)
        return due

    def _off(self, new: Matrix) -> NDArray[np.float64]:
        """By how much each row would be off after a lossy delta, at most: epsilon, or what the values lose."""
        after = apply_batch(encode_batch(self._shadow, new, options=self.options.uncompressed()), self._shadow)
        with np.errstate(invalid="ignore"):
            distance = np.abs(after.astype(np.float64) - new.astype(np.float64))
        same = (after.view(np.uint32) == new.view(np.uint32)) | (np.isnan(after) & np.isnan(new))
        distance[same] = 0
        distance[np.isnan(distance)] = np.inf
        largest: NDArray[np.float64] = distance.max(axis=1, initial=0.0)
        return largest

    def _refresh(self, wanted: NDArray[np.uint32], due: NDArray[np.bool_]) -> bytes:
        columns: dict[tuple[int, int], Array] = {
            (Format.DENSE, Column.ROW_IDS): self._rows[due],
            (Format.DENSE, Column.VALUES): np.ascontiguousarray(wanted[due]).reshape(-1),
        }
        return write_frame(self._dims, 0, int(due.sum()), columns, Type.F32, self.options)

    def _take(self, data: bytes) -> None:
        """Apply what was written to the shadow, and account for it."""
        frames = list(read_frames(data, dictionaries=self.dictionary))
        apply_batch(frames, self._shadow, row_ids=self._rows, in_place=True)
        for frame in frames:
            for section in frame.sections:
                places = np.searchsorted(self._rows, section.row_ids)
                self.lengths[places] += 1
                self.sizes[places] += row_bytes(frame, section)


def row_bytes(frame: Frame, section: Section) -> NDArray[np.int64]:
    """What each row of a section takes, before compression."""
    counts = np.diff(section.offsets)
    if section.format is Format.DICTIONARY:
        return np.full(len(counts), _ROW_BYTES, np.int64)
    if frame.mode is Mode.INT4:
        values = (counts + 1) // 2
    else:
        values = counts * (4 if frame.relative else WIDTHS[VALUE_TYPES[frame.mode]])
    total = values + _ROW_BYTES + (8 if frame.mode in (Mode.INT8, Mode.INT4) else 0)
    if frame.has_prev:
        total = total + 4 * counts
    if section.gaps is not None:
        total = total + counts * section.gaps.itemsize
    elif section.run_offsets is not None and section.run_gaps is not None and section.run_lengths is not None:
        heads = section.run_gaps.itemsize + section.run_lengths.itemsize
        total = total + np.diff(section.run_offsets) * heads
    return total.astype(np.int64)

"""Which columns a vector part has, read from pieces of it: so that one of which a filter leaves nothing stays unread.

Only heads are read, and the lengths of frames between them. Nothing of it is trusted with more than the decision not to
read a file; what looks odd is left to the reader of the whole part, which says what is wrong with it.
"""

from collections.abc import Callable

from deltaic.errors import DecodeError
from deltaic.limits import Limits
from deltaic.vector.layout import COLUMN, COLUMN_BYTES, END_OF_FRAMES, HEADER_BYTES, ColumnHead, PartHeader
from deltaic.wire.vectors.layout import HEADER, padded

GetRange = Callable[[int, int], bytes]
"""Bytes of a file: where they start, and how many."""

_WINDOW_BYTES = 4096
_MOST_READS = 256
_GROUPS = 2


def columns_by_range(get_range: GetRange, size_bytes: int, limits: Limits) -> list[tuple[str, str]] | None:
    """Type and field of each column; None if that cannot be found out by a few reads."""
    try:
        return _Pieces(get_range, size_bytes).columns(limits)
    except DecodeError:
        return None


class _Pieces:
    """A file of which pieces are read as they are needed."""

    def __init__(self, get_range: GetRange, size_bytes: int) -> None:
        self._get_range, self._size_bytes = get_range, size_bytes
        self._start, self._window = 0, b""
        self._reads = 0

    def columns(self, limits: Limits) -> list[tuple[str, str]]:
        header = PartHeader.read(memoryview(self._bytes(0, HEADER_BYTES)), "")
        found: list[tuple[str, str]] = []
        position = HEADER_BYTES
        for number in range(header.columns):
            stored, _, _ = COLUMN.unpack(self._bytes(position, COLUMN_BYTES)[8:])
            head_bytes = padded(COLUMN_BYTES + stored)
            head, _ = ColumnHead.read(memoryview(self._bytes(position, head_bytes)), 0, "", limits)
            found.append(head.key)
            if number + 1 < header.columns:
                position = self._behind(position + head_bytes)
        return found

    def _behind(self, position: int) -> int:
        """Where the frames of a column end."""
        groups = 0
        while groups < _GROUPS:
            if self._bytes(position, len(END_OF_FRAMES)) == END_OF_FRAMES:
                position += len(END_OF_FRAMES)
                groups += 1
                continue
            length = HEADER.unpack(self._bytes(position, HEADER.size))[5]
            position += max(length, HEADER.size)
        return position

    def _bytes(self, start: int, count: int) -> bytes:
        if not (self._start <= start and start + count <= self._start + len(self._window)):
            self._reads += 1
            if self._reads > _MOST_READS or start + count > self._size_bytes:
                raise DecodeError("Truncated", "there is more to read than is worth it", "")
            wanted = min(max(count, _WINDOW_BYTES), self._size_bytes - start)
            self._start, self._window = start, self._get_range(start, wanted)
        found = self._window[start - self._start : start - self._start + count]
        if len(found) < count:
            raise DecodeError("Truncated", "the file ends before it was announced to", "")
        return found

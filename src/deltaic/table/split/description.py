"""`_deltaic.json`: what a split of ours is, and the checksum of each of its members.

One line of JSON, a line feed, the CRC-32C of that line as `crc32c:` and eight digits, a line feed. It is read and
checked before anything else of the split is believed.
"""

from collections.abc import Mapping

import msgspec

from deltaic.errors import DecodeError
from deltaic.storage.checksum import checksum, verify
from deltaic.table.split.mapping import IndexedColumn
from deltaic.table.split.rows import RowsIndex

DESCRIPTION_NAME = "_deltaic.json"
ROWS_NAME = "_rows.parquet"
DICTIONARY_NAME = "_dictionary.term"
"""The package's own term dictionary in a native split; the cache puts it in the place of `.term`."""
ALIVE_NAME = "_alive.bits"
"""Which rows are alive, in a split without an index; where there is one, its delete file says it."""

FORMAT = 1
MAX_DESCRIPTION_BYTES = 64 << 20


class Description(msgspec.Struct, frozen=True):
    """What a split of ours says of itself."""

    split_id: str
    kind: str
    num_rows: int
    engine: str
    columns: tuple[IndexedColumn, ...]
    members: Mapping[str, str]
    """The checksum of every member but this one and `split_fields`."""
    rows: RowsIndex
    """How to read the rows in parts."""
    format: int = FORMAT
    num_dead: int = 0
    """How many of the rows a delete file hides."""

    def pack(self) -> bytes:
        """The bytes of the member."""
        line = msgspec.json.encode(self)
        return b"%s\n%s\n" % (line, checksum(line).encode())

    @classmethod
    def read(cls, data: bytes, where: str) -> "Description":
        """The description from the bytes of the member."""
        where = f"{where}, {DESCRIPTION_NAME}"
        lines = data.split(b"\n")
        if len(lines) != 3 or lines[2]:
            raise DecodeError("BadDescription", "two lines must stand here", where)
        verify(lines[0], lines[1].decode("latin-1"), where)
        try:
            found = msgspec.json.decode(lines[0])
            if not isinstance(found, dict) or not isinstance(found.get("format"), int):
                raise DecodeError("BadDescription", "the description has no format", where)
            if found["format"] > FORMAT:
                raise DecodeError("UnknownVersion", f"a split of format {found['format']}: update deltaic", where)
            return msgspec.convert(found, cls)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError("BadDescription", f"no description: {error}", where) from error

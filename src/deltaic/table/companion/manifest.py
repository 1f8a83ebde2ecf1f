"""`_parquet_manifest.json`: where the rows of a companion split are.

    {"format": 1, "rows": 1200, "files": [
      {"path": "year=2020/a.parquet", "size": 84211, "etag": "h-…", "modified": 1794792496105000,
       "row_groups": [1000, 500], "first_row": 0, "num_rows": 1000}, …]}

Paths are relative to the source, whose place the table's configuration says. Document and row numbers of the split go
through the entries in their order: the first entry has rows 0 to `num_rows` - 1, which are those of the file from
`first_row` on. A large file is cut between row groups and then has an entry in several splits. The JSON is packed with
zstd where that is smaller (index-table.md, 9).
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from deltaic.errors import DecodeError, InputError
from deltaic.storage.decompress import Codec, compress, decompress
from deltaic.storage.names import check_key

FORMAT = 1
MAX_MANIFEST_BYTES = 256 << 20
MAX_FILES = 1_000_000
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

_Count = Annotated[int, Meta(ge=0, le=2**62)]


class ManifestFile(msgspec.Struct, frozen=True):
    """A source file, or a part of one, whose rows a split has indexed."""

    path: str
    size: _Count
    etag: Annotated[str, Meta(max_length=1024)]
    modified: int
    """Microseconds since the epoch, by the source's clock."""
    row_groups: tuple[_Count, ...]
    """The rows of each row group of the file."""
    first_row: _Count
    num_rows: _Count


class Manifest(msgspec.Struct, frozen=True):
    """The source files of a split."""

    files: tuple[ManifestFile, ...]
    rows: _Count
    format: int = FORMAT

    @classmethod
    def of(cls, files: Sequence[ManifestFile]) -> "Manifest":
        """The manifest of these files, in this order."""
        return cls(tuple(files), sum(file.num_rows for file in files))

    def pack(self) -> bytes:
        """The bytes of the member."""
        text = msgspec.json.encode(self)
        packed = compress(text, Codec.ZSTD)
        return packed if len(packed) < len(text) else text

    @classmethod
    def read(cls, data: bytes, num_rows: int, where: str) -> "Manifest":
        """The manifest of a split of so many rows from the bytes of the member, every number of it checked."""
        where = f"{where}, manifest"
        if data[:4] == _ZSTD_MAGIC:
            data = decompress(data, Codec.ZSTD, MAX_MANIFEST_BYTES, name=where)
        try:
            found = msgspec.json.decode(data)
            if not isinstance(found, dict) or not isinstance(found.get("format"), int):
                raise DecodeError("BadManifest", "the manifest has no format", where)
            if found["format"] != FORMAT:
                raise DecodeError("UnknownVersion", f"a manifest of format {found['format']}: update deltaic", where)
            made = msgspec.convert(found, cls)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
            raise DecodeError("BadManifest", f"no manifest: {error}", where) from error
        made._check(num_rows, where)
        return made

    def _check(self, num_rows: int, where: str) -> None:
        if len(self.files) > MAX_FILES:
            raise DecodeError("BadManifest", f"{len(self.files):,} files, the limit is {MAX_FILES:,}", where)
        for file in self.files:
            try:
                check_key(file.path)
            except InputError as error:
                raise DecodeError("UnsafeName", error.reason, where) from error
            if file.first_row + file.num_rows > sum(file.row_groups):
                reason = f"{file.num_rows:,} rows from row {file.first_row:,} of {sum(file.row_groups):,}"
                raise DecodeError("BadManifest", f"{file.path[:200]}: {reason}", where)
        if len({(file.path, file.first_row) for file in self.files}) != len(self.files):
            raise DecodeError("BadManifest", "a file is named twice", where)
        counted = sum(file.num_rows for file in self.files)
        if not counted == self.rows == num_rows:
            reason = f"its files have {counted:,} rows, it says {self.rows:,}, the split has {num_rows:,}"
            raise DecodeError("BadManifest", reason, where)

    def ends(self) -> NDArray[np.int64]:
        """For each file the first row number of the split that is behind its rows."""
        return np.cumsum([file.num_rows for file in self.files], dtype=np.int64)

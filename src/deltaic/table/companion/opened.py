"""A companion split where it lies: its manifest, and its index without rows."""

import pyarrow as pa

from deltaic.errors import DecodeError
from deltaic.storage import Store
from deltaic.table.actions import AddFile
from deltaic.table.companion.manifest import MAX_MANIFEST_BYTES, Manifest
from deltaic.table.companion.write import KIND
from deltaic.table.split.open import COMPANION_NAME, SplitFile, open_split


class CompanionSplit(SplitFile):
    """A split whose rows are elsewhere: for the cache it has an index and no rows."""

    def all_rows(self) -> pa.Table:
        """None: they are not in the split."""
        return pa.table({})

    def manifest(self) -> Manifest:
        """Where the rows are, checked."""
        place = self.footer.members.get(COMPANION_NAME)
        if self.description is None or self.description.kind != KIND or place is None:
            raise DecodeError("NotCompanion", "the split has no manifest of source files", self.where)
        if place.length > MAX_MANIFEST_BYTES:
            raise DecodeError("TooLarge", f"a manifest of {place.length:,} bytes", self.where)
        if self.description.num_dead:
            raise DecodeError("NotCompanion", "the split hides rows, which one of these never does", self.where)
        return Manifest.read(self.member(COMPANION_NAME), self.description.num_rows, self.where)


def open_companion_split(store: Store, path: str, add: AddFile | None = None) -> CompanionSplit:
    """Open a companion split by reading its end."""
    found = open_split(store, path, add)
    return CompanionSplit(store, path, found.footer, add)

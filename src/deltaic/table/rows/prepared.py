"""Splits that were written elsewhere, before the commit that makes them rows of the table.

Tasks on other machines write splits (`Table.write_splits`), one process commits them all: `Table.append` and
`Table.overwrite` take what they wrote in the place of rows.
"""

import hashlib
from dataclasses import dataclass

from deltaic.errors import CommitConflictError
from deltaic.table.actions import AddFile, Metadata
from deltaic.table.rows.schema import COLUMNS_KEY, CONSTRAINTS_KEY, INDEX_KEY, KEY_KEY


@dataclass(frozen=True, slots=True)
class SplitsWritten:
    """Splits that are durable and that no version has yet."""

    adds: tuple[AddFile, ...]
    token: str
    """Stands for the columns and constraints that the rows were checked by."""

    @property
    def replayable(self) -> bool:
        """They can be committed again and again until no other commit is in the way."""
        return True

    def checked(self, metadata: Metadata) -> list[AddFile]:
        """The splits, if the table still has the columns that they were written for."""
        if self.adds and self.token != schema_token(metadata):
            raise CommitConflictError("the table's columns or constraints changed since its splits were written")
        return list(self.adds)


def schema_token(metadata: Metadata) -> str:
    """A text that stands for the columns and constraints of a version."""
    digest = hashlib.sha256(metadata.schema_string.encode())
    for key in (COLUMNS_KEY, CONSTRAINTS_KEY, KEY_KEY, INDEX_KEY):
        digest.update(b"\0" + metadata.configuration.get(key, "").encode())
    digest.update("\0".join(metadata.partition_columns).encode())
    return digest.hexdigest()[:32]

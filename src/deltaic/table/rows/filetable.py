"""The file-level table with what row-level operations need of it: its clock, its pauses, its remove actions."""

from collections.abc import Iterable

from deltaic.table.actions import AddFile, RemoveFile
from deltaic.table.snapshot import Snapshot
from deltaic.table.table import Table as FileTable


class RowFiles(FileTable):
    """The files of a table whose rows are edited here."""

    def now_ms(self) -> int:
        """The time by this table's clock."""
        return self._now_ms()

    def pause(self, attempt: int) -> None:
        """Wait after an attempt that met another writer, longer each time."""
        self._sleep(self.committer()._delay_seconds(attempt))

    def removal(self, add: AddFile) -> RemoveFile:
        """The action that takes a file and its rows away."""
        return self._removal(add, True)

    def removals(self, snapshot: Snapshot, paths: Iterable[str]) -> tuple[RemoveFile, ...]:
        """The actions that take files away that a snapshot has; CommitConflictError if it has one no more."""
        return self._removed(snapshot, tuple(paths), True)

    def check_there(self, adds: Iterable[AddFile]) -> None:
        """Raise NotFoundError if one of these files is gone from the store."""
        self._check_there(list(adds))

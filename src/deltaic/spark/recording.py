"""A table whose every commit carries some texts of its own, in the same commit: how far its writer is."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from deltaic.table.changes import Changes
from deltaic.table.rows.filetable import RowFiles
from deltaic.table.rows.table import Table
from deltaic.table.snapshot import Snapshot

if TYPE_CHECKING:
    from deltaic.table.commit import Commit


class RecordingFiles(RowFiles):
    """The files of a table; what `carried` holds goes into its configuration with every commit."""

    carried: Mapping[str, str] = {}

    def commit(self, changes: Callable[[Snapshot], Changes] | Changes, **terms: Any) -> "Commit":
        """Commit changes together with what is carried."""
        plan = changes if callable(changes) else (lambda _: changes)

        def planned(snapshot: Snapshot) -> Changes:
            made = plan(snapshot)
            return replace(made, configuration={**made.configuration, **self.carried})

        return super().commit(planned, **terms)


def recording(url: str, carried: Mapping[str, str]) -> Table:
    """The table at a URL, whose commits by this object carry these texts."""
    files = RecordingFiles.open(url)
    assert isinstance(files, RecordingFiles)
    files.carried = dict(carried)
    return Table(files)

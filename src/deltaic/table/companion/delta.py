"""A Delta table as a source: its files and partition values, as the package `deltalake` reads them from its log.

What changes which rows a Parquet file stands for, or what its columns are called, is refused: deletion vectors and
column mapping. Names in Delta's log are URL-encoded; absolute ones (shallow clones) lie outside of the table.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from deltaic.errors import InputError, MissingExtraError, NotFoundError, StorageError
from deltaic.storage import Store
from deltaic.storage.names import check_key
from deltaic.table.companion.source import Listing, SourceDescription, SourceFile, plain_url

_MAPPING_KEY = "delta.columnMapping.mode"
_KNOWN_FEATURES = frozenset(("timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors", "columnMapping"))


class DeltaSource:
    """The files of a Delta table at a version."""

    def __init__(
        self, store: Store, description: SourceDescription, options: Mapping[str, object] | None = None
    ) -> None:
        self.store, self.description = store, description
        self._options = {name: str(value) for name, value in (options or {}).items()} or None

    def listing(self, version: int | None = None) -> Listing:
        """The files of a version; of the newest without one."""
        table = self._open(version)
        self._refuse_what_rows_depend_on(table)
        actions = pa.table(table.get_add_actions(flatten=False)).to_pylist()
        names = tuple(table.metadata().partition_columns)
        found = {}
        for action in actions:
            path = unquote(action["path"])
            if "://" in path or path.startswith("/"):
                raise InputError(f"{path[:200]} lies outside of the Delta table: its companion cannot follow it")
            check_key(path)
            values = action.get("partition") or {}
            partition = {name: _text(values.get(name)) for name in names}
            found[path] = SourceFile(path, int(action["size_bytes"]), None, None, partition)
        schema = pa.schema(table.schema().to_arrow())
        return Listing(dict(sorted(found.items())), table.version(), schema)

    def partition_columns(self) -> tuple[str, ...]:
        """The columns by which the table is partitioned."""
        return tuple(self._open(None).metadata().partition_columns)

    def _open(self, version: int | None) -> Any:
        try:
            import deltalake
        except ImportError:
            raise MissingExtraError("a companion of a Delta table (pip install deltalake)", "table") from None
        from deltalake.exceptions import DeltaError, TableNotFoundError

        url = plain_url(self.store)
        try:
            return deltalake.DeltaTable(url, version=version, storage_options=self._options)
        except TableNotFoundError as error:
            raise NotFoundError(f"there is no Delta table at {url}: {error}") from error
        except (DeltaError, OSError, ValueError) as error:
            at = "" if version is None else f" at version {version}"
            raise StorageError(f"cannot read the Delta table {url}{at}: {error}") from error

    def _refuse_what_rows_depend_on(self, table: Any) -> None:
        url = self.description.url
        protocol = table.protocol()
        features = set(protocol.reader_features or ())
        mode = table.metadata().configuration.get(_MAPPING_KEY, "none")
        if mode != "none":
            raise InputError(f"{url} maps its columns (by {mode}): the names in its files are others; not supported")
        if unknown := sorted(features - _KNOWN_FEATURES):
            raise InputError(f"{url} has the feature {unknown[0]!r}, which a companion does not know")
        if "deletionVectors" in features and _has_vectors(table, url):
            raise InputError(f"{url} has deletion vectors: rows of its files do not count; purge them first (REORG)")


def _has_vectors(table: Any, url: str) -> bool:
    from deltalake.exceptions import DeltaError

    try:
        return bool(pa.table(table.deletion_vectors()).num_rows)
    except (DeltaError, OSError, ValueError) as error:
        raise InputError(f"{url} may have deletion vectors, which cannot be read: {error}") from error


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    isoformat = getattr(value, "isoformat", None)
    return str(isoformat() if isoformat is not None else value)

"""Source rows become companion splits: read by row group, indexed in parallel, durable before anything refers to them.

A crash leaves files that no version has; a purge finds them by that.
"""

import tempfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltaic.table.actions import AddFile
from deltaic.table.companion.manifest import Manifest, ManifestFile
from deltaic.table.companion.parquet import SourceReader
from deltaic.table.companion.write import write_companion_split
from deltaic.table.rows.bounds import statistics
from deltaic.table.rows.filetable import RowFiles
from deltaic.table.rows.partitioning import parse_value
from deltaic.table.rows.schema import TableSchema
from deltaic.table.rows.writing import document_mapping

FAST_FIELD_MODE = "DISABLED"
"""No fast field is left to the Parquet files: the index has its own."""

Part = tuple[tuple[str | None, ...], tuple[ManifestFile, ...]]
"""The texts of partition values, and the files of one split."""


def write_companion_splits(
    files: RowFiles,
    schema: TableSchema,
    source: SourceReader,
    parts: Iterable[Part],
    *,
    version: int | None,
    threads: int,
) -> list[AddFile]:
    """Index source files, each part as one split; gives the add actions, all files durable.

    Raises:
        StaleCompanionError: a file was replaced while it was indexed.
    """
    mapping = document_mapping(schema, by_type=True)
    with tempfile.TemporaryDirectory(prefix="deltaic-companion-") as made:

        def one(part: Part) -> AddFile:
            texts, entries = part
            manifest = Manifest.of(entries)
            rows = source_rows(source, manifest, schema.stored_arrow)
            values = _values(schema, texts, entries[0].path)
            key, shown = files.new_path(values)
            target = Path(made, key.rpartition("/")[2])
            low, high = statistics(rows, schema, files.settings)
            written = write_companion_split(rows, mapping, manifest, target)
            files.store.put_file(key, target)
            target.unlink()
            return AddFile(
                path=key,
                partition_values=shown,
                size_bytes=written.size,
                modified_ms=files.now_ms(),
                min_values=low or None,
                max_values=high or None,
                num_records=written.num_records,
                footer_start=written.footer_start,
                footer_end=written.footer_end,
                has_footer_offsets=True,
                num_merge_ops=0,
                doc_mapping_json=written.doc_mapping_json,
                uncompressed_bytes=written.uncompressed_bytes,
                tags=dict(written.tags),
                companion_source_files=tuple(dict.fromkeys(entry.path for entry in entries)),
                companion_delta_version=version,
                companion_fast_field_mode=FAST_FIELD_MODE,
            )

        with ThreadPoolExecutor(threads, "deltaic-companion") as pool:
            waiting = [pool.submit(one, part) for part in parts]
            try:
                return [future.result() for future in waiting]
            except BaseException:
                for future in waiting:
                    future.cancel()
                raise


def source_rows(source: SourceReader, manifest: Manifest, schema: pa.Schema) -> pa.Table:
    """All rows of a manifest."""
    return pa.concat_tables([schema.empty_table(), *(source.rows(file, schema) for file in manifest.files)])


def _values(schema: TableSchema, texts: tuple[str | None, ...], path: str) -> Mapping[str, Any]:
    found = {}
    for name, text in zip(schema.partition_by, texts, strict=True):
        found[name] = parse_value(text, schema.by_name[name].type, name, path)
    return found

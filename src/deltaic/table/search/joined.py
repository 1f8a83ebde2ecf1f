"""Several indexes as one: the segments of all splits linked into one folder, so that scores have global statistics.

    <folder>/<key>/<segment>.<suffix>   hard links to the files of the splits' indexes
    <folder>/<key>/meta.json            one list of segments, in the order of the splits

The key names the splits, their order, their delete files and the fields; a folder is made beside its place and moved
there, so it is whole or absent. A split with a column less or more has its fields renumbered in a copy; one whose
columns are indexed otherwise is indexed anew from its rows. The folders used last are kept; the files of an index that
is open stay readable when its folder goes.
"""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from deltaic.errors import DecodeError, StorageError
from deltaic.table.search.renumber import NUMBERED_SUFFIXES, copy_renumbered, new_numbers
from deltaic.table.split.cache import CachedSplit
from deltaic.table.split.engine import engine, guarded, open_index
from deltaic.table.split.mapping import ROW_FIELD, DocMapping
from deltaic.table.split.write import build_index

_META = "meta.json"
_KEPT_FOLDERS = 32
_KEPT_OPEN = 8
_STALE_SECONDS = 3600
_SAMPLES = 64


@dataclass(frozen=True)
class JoinedIndex:
    """An open index over splits. Segment `s` belongs to split `split_of[s]`, and its document `d` is a row there."""

    index: Any
    schema: Any
    searcher: Any
    split_of: NDArray[np.int64]
    in_order: bool
    """Whether the number of a document is the number of its row, in every segment."""
    first_document: NDArray[np.int64]
    """For each segment, how many documents the earlier segments of its split have."""
    reindexed: tuple[str, ...]
    """The splits that were indexed anew, because their fields differ."""
    num_documents: int


@dataclass(frozen=True, slots=True)
class _Source:
    """The index of one split: its folder and what its meta.json says."""

    folder: Path
    segments: tuple[dict[str, Any], ...]
    schema: list[Any]
    opstamp: int
    numbers: Mapping[int, int] | None = None
    """The numbers that its fields get in the joined index; None if they stay."""


class JoinedIndexes:
    """The folders of joined indexes, and those that are open in this process."""

    def __init__(self, folder: Path, *, kept_folders: int = _KEPT_FOLDERS) -> None:
        self.folder, self._kept = folder, kept_folders
        self._open: OrderedDict[str, JoinedIndex] = OrderedDict()
        self._lock = threading.Lock()

    def open(
        self,
        splits: Sequence[CachedSplit],
        mapping: DocMapping,
        rows: Callable[[int], pa.Table],
    ) -> JoinedIndex:
        """The index over these splits; `rows` gives the rows of one under the physical names of the mapping."""
        sources, reindexed = self._prepared(splits, mapping, rows)
        key = _key(splits, sources, mapping)
        with self._lock:
            found = self._open.get(key)
            if found is not None:
                self._open.move_to_end(key)
                return found
        made = self._opened(sources, mapping.fields, key, reindexed)
        with self._lock:
            self._open[key] = made
            while len(self._open) > _KEPT_OPEN:
                self._open.popitem(last=False)
        return made

    def _opened(
        self, sources: Sequence[_Source], fields: list[dict[str, Any]], key: str, reindexed: tuple[str, ...]
    ) -> JoinedIndex:
        if len(sources) == 1 and sources[0].numbers is None:
            return _opened(sources[0].folder, sources, reindexed)
        for _ in range(3):
            folder = self._folder(key, lambda work: _join(work, sources, fields))
            try:
                return _opened(folder, sources, reindexed)
            except DecodeError:
                # Another process may have cleaned it away between the two; a damaged one is made anew.
                shutil.rmtree(folder, ignore_errors=True)
        raise StorageError(f"cannot keep a joined index in {self.folder}")

    def _prepared(
        self, splits: Sequence[CachedSplit], mapping: DocMapping, rows: Callable[[int], pa.Table]
    ) -> tuple[list[_Source], tuple[str, ...]]:
        """The index of each split in a form that can be joined, and the splits that were indexed anew for it."""
        sources, reindexed = list[_Source](), list[str]()
        named = {column.name: column.field for column in mapping.indexed_columns}
        for place, split in enumerate(splits):
            if not has_index(split):
                sources.append(self._indexed_anew(split, mapping, rows, place))
                reindexed.append(split.split_id)
                continue
            source = _source(split.index_folder)
            sources.append(source)
            if source.schema == mapping.fields:
                continue
            filled = frozenset(named[name] for name in splits[place].rows.column_names if name in named)
            numbers = new_numbers(source.schema, mapping.fields, filled)
            if numbers is not None:
                sources[place] = replace(source, numbers=numbers)
                continue
            sources[place] = self._indexed_anew(splits[place], mapping, rows, place)
            reindexed.append(splits[place].split_id)
        return sources, tuple(reindexed)

    def _indexed_anew(
        self, split: CachedSplit, mapping: DocMapping, rows: Callable[[int], pa.Table], place: int
    ) -> _Source:
        key = _digest(split.split_id, mapping.to_json(), str(_deletes_of(split)), _given(split))
        # A delete file of the split hides rows by number: the new index has them all and hides the same.
        hidden = _hidden_rows(split)

        def build(work: Path) -> None:
            with guarded("index the rows of a split anew", str(split.index_folder)):
                build_index(rows(place), mapping, work, split.split_id)
                if hidden is not None:
                    _hide(work, hidden)

        return _source(self._folder(key, build))

    def _folder(self, key: str, build: Callable[[Path], None]) -> Path:
        """The folder of that key, built first if it is not there."""
        place = self.folder / key
        if (place / _META).exists():
            with contextlib.suppress(OSError):
                os.utime(place)
            return place
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            work = Path(tempfile.mkdtemp(prefix=".tmp-", dir=self.folder))
        except OSError as error:
            raise StorageError(f"cannot write to {self.folder}: {error.strerror}") from error
        try:
            build(work)
            try:
                work.rename(place)
            except OSError:
                # Another process was first, with the same content.
                if not (place / _META).exists():
                    raise
        except OSError as error:
            raise StorageError(f"cannot join indexes in {self.folder}: {error}") from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
        self._clean(place)
        return place

    def _clean(self, kept: Path) -> None:
        """Drop the folders that were not used for longest, and what a crash left behind."""
        finished, now = list[tuple[float, Path]](), time.time()
        for path in self.folder.iterdir():
            with contextlib.suppress(OSError):
                age = path.stat().st_mtime
                if not path.name.startswith(".tmp-"):
                    finished.append((age, path))
                elif now - age > _STALE_SECONDS:
                    shutil.rmtree(path, ignore_errors=True)
        for _, path in sorted(finished)[: max(0, len(finished) - self._kept)]:
            if path != kept:
                shutil.rmtree(path, ignore_errors=True)


_shared: dict[Path, JoinedIndexes] = {}
_shared_lock = threading.Lock()


def joined_indexes(folder: Path) -> JoinedIndexes:
    """The joined indexes of a folder; one value per folder and process, so that open indexes are shared."""
    with _shared_lock:
        found = _shared.get(folder)
        if found is None:
            found = _shared[folder] = JoinedIndexes(folder)
        return found


def alive_rows(split: CachedSplit) -> NDArray[np.bool_] | None:
    """Which rows of a split a delete file leaves; None if there is none."""
    if split.dead is not None:
        known = np.ones(split.rows.num_rows, np.bool_)
        known[split.dead] = False
        return known
    if not _deletes_of(split):
        return None
    alive = np.zeros(split.rows.num_rows, np.bool_)
    with guarded("read which rows are deleted", str(split.index_folder)):
        searcher = open_index(split.index_folder).searcher()
        if searcher.num_docs:
            hits = searcher.search(engine().Query.all_query(), searcher.num_docs, count=False).hits
            rows = np.array(searcher.fast_field_values(ROW_FIELD, [address for _, address in hits]), np.int64)
            alive[rows] = True
    return alive


def has_index(split: CachedSplit) -> bool:
    """Whether a split brought an index: one in which no column is indexed has none."""
    return bool(split.mapping.indexed_columns) or (split.index_folder / _META).exists()


def _source(folder: Path) -> _Source:
    where = str(folder / _META)
    try:
        meta = json.loads((folder / _META).read_bytes())
        segments = tuple(meta["segments"])
        for segment in segments:
            segment["segment_id"].replace("-", "")
            int(segment["max_doc"])
        return _Source(folder, segments, meta["schema"], int(meta.get("opstamp") or 0))
    except OSError as error:
        raise StorageError(f"cannot read {where}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DecodeError("BadIndex", f"no description of an index: {error!r}", where) from error


def _deletes_of(split: CachedSplit) -> list[Any]:
    segments = _source(split.index_folder).segments if has_index(split) else ()
    return [(one["segment_id"], one["deletes"]) for one in segments if one.get("deletes")]


def _key(splits: Sequence[CachedSplit], sources: Sequence[_Source], mapping: DocMapping) -> str:
    parts = [mapping.to_json()]
    for split, source in zip(splits, sources, strict=True):
        parts += [split.split_id, json.dumps([(one["segment_id"], one.get("deletes")) for one in source.segments])]
    return _digest(*parts)


def _given(split: CachedSplit) -> str:
    """What the rows of a split have beyond its file: columns that the table fills with one value."""
    known = split.mapping.by_name
    names = [name for name in split.rows.column_names if name not in known] if split.rows.num_rows else []
    return repr([(name, str(split.rows.schema.field(name).type), split.rows[name][0].as_py()) for name in names])


def _digest(*parts: str) -> str:
    total = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        total.update(len(data).to_bytes(8, "big") + data)
    return total.hexdigest()[:40]


def _join(work: Path, sources: Sequence[_Source], fields: list[dict[str, Any]]) -> None:
    managed, segments = [_META], list[dict[str, Any]]()
    for source in sources:
        names = {one["segment_id"].replace("-", "") for one in source.segments}
        for path in source.folder.iterdir():
            if path.name.partition(".")[0] not in names:
                continue
            if source.numbers is not None and path.suffix in NUMBERED_SUFFIXES:
                copy_renumbered(path, work / path.name, source.numbers)
            else:
                _link(path, work / path.name)
            managed.append(path.name)
        segments += source.segments
    settings = {"docstore_compression": "none", "docstore_blocksize": 16384}
    opstamp = max((source.opstamp for source in sources), default=0)
    meta = {"index_settings": settings, "segments": segments, "schema": fields, "opstamp": opstamp}
    (work / ".managed.json").write_text(json.dumps(managed))
    (work / _META).write_text(json.dumps(meta))


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        pass
    except OSError:
        # Another file system, or one without hard links.
        try:
            target.symlink_to(source.resolve())
        except OSError:
            shutil.copyfile(source, target)


def _opened(folder: Path, sources: Sequence[_Source], reindexed: tuple[str, ...]) -> JoinedIndex:
    index = open_index(folder)
    with guarded("open the joined index", str(folder)):
        index.config_reader("manual")
        searcher = index.searcher()
        split_of, before = list[int](), list[int]()
        for place, source in enumerate(sources):
            documents = 0
            for segment in source.segments:
                split_of.append(place)
                before.append(documents)
                documents += segment["max_doc"]
        if searcher.num_segments != len(split_of):
            raise DecodeError("BadIndex", "segments are missing", str(folder))
        maximums = [segment["max_doc"] for source in sources for segment in source.segments]
        in_order = _in_order(searcher, maximums, before)
    return JoinedIndex(
        index=index,
        schema=index.schema,
        searcher=searcher,
        split_of=np.array(split_of, np.int64),
        in_order=in_order,
        first_document=np.array(before, np.int64),
        reindexed=reindexed,
        num_documents=sum(maximums),
    )


def _in_order(searcher: Any, maximums: Sequence[int], before: Sequence[int]) -> bool:
    """Whether documents have the numbers of their rows. One thread writes a segment, so some of them tell for all."""
    address = engine().DocAddress
    for segment, (most, first) in enumerate(zip(maximums, before, strict=True)):
        places = sorted({most * step // _SAMPLES for step in range(_SAMPLES)} | {most - 1}) if most else []
        found = searcher.fast_field_values(ROW_FIELD, [address(segment, place) for place in places])
        if found != [first + place for place in places]:
            return False
    return True


def _hidden_rows(split: CachedSplit) -> list[int] | None:
    alive = alive_rows(split)
    return None if alive is None else [int(row) for row in np.flatnonzero(~alive)]


def _hide(folder: Path, rows: list[int]) -> None:
    """Delete rows of an index that was just built."""
    index = open_index(folder)
    query, schema = engine().Query, index.schema
    writer = index.writer(50_000_000, 1)
    kind = engine().FieldType.Unsigned
    for row in rows:
        writer.delete_documents_by_query(query.range_query(schema, ROW_FIELD, kind, row, row))
    writer.commit()
    writer.wait_merging_threads()

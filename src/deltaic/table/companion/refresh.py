"""What a refresh does: which source files are new, replaced or gone, and which splits have to go with them.

A split is never changed. One with a file that was replaced or is gone goes as a whole, and its other files are indexed
again together with the new ones. Small files share a split; a file that is cut over several splits shares none, so
nothing else is indexed again with it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deltaic.table.companion.manifest import Manifest, ManifestFile
from deltaic.table.companion.options import CompanionOptions
from deltaic.table.companion.parquet import FileFacts
from deltaic.table.companion.source import Listing, SourceFile


@dataclass(frozen=True, slots=True)
class Refresh:
    """What a refresh did."""

    version: int
    """Of the companion afterwards."""
    source_version: int | None
    added: int
    """Source files that are indexed now and were not."""
    changed: int
    removed: int
    reindexed: int
    """Unchanged files that shared a split with one that went."""
    splits_added: int
    splits_removed: int
    rows: int
    """Rows that were indexed."""

    @property
    def committed(self) -> bool:
        """Whether anything had changed."""
        return bool(self.splits_added or self.splits_removed)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "committed": self.committed}


@dataclass(frozen=True, slots=True)
class Difference:
    """Source files by what became of them since they were indexed."""

    new: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone)


def compare(manifests: Mapping[str, Manifest], listing: Listing, same: Callable[[ManifestFile], bool]) -> Difference:
    """What differs between the indexed files and a list; `same` looks closer where the list leaves it open."""
    known: dict[str, ManifestFile] = {}
    for manifest in manifests.values():
        for file in manifest.files:
            known.setdefault(file.path, file)
    new = tuple(path for path in listing.files if path not in known)
    gone = tuple(sorted(path for path in known if path not in listing.files))
    changed = [path for path, file in listing.files.items() if path in known and _changed(known[path], file, same)]
    return Difference(new, tuple(changed), gone)


def _changed(known: ManifestFile, listed: SourceFile, same: Callable[[ManifestFile], bool]) -> bool:
    if known.size != listed.size_bytes:
        return True
    if listed.etag is not None:
        return known.etag != listed.etag
    if listed.modified_us is None or listed.modified_us == known.modified:
        return False
    return not same(known)


def splits_to_remove(manifests: Mapping[str, Manifest], difference: Difference) -> tuple[set[str], set[str]]:
    """The splits that go, and the unchanged source files that have to be indexed again because of it."""
    bad = {*difference.changed, *difference.gone}
    touched, splits = set(bad), set[str]()
    while True:
        more = {
            path
            for path, manifest in manifests.items()
            if path not in splits and any(file.path in touched for file in manifest.files)
        }
        if not more:
            return splits, touched - bad
        splits |= more
        touched |= {file.path for path in more for file in manifests[path].files}


def packed(facts: Iterable[FileFacts], options: CompanionOptions) -> Iterator[tuple[ManifestFile, ...]]:
    """Files of one partition as the splits that they become."""
    waiting: list[ManifestFile] = []
    rows = size = 0
    for fact in facts:
        total = sum(fact.group_bytes)
        if total > options.split_bytes or fact.num_rows > options.split_rows:
            for part in _cut(fact, options):
                yield (part,)
            continue
        full = size + total > options.split_bytes or rows + fact.num_rows > options.split_rows
        if waiting and full:
            yield tuple(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(_entry(fact, 0, fact.num_rows))
        rows, size = rows + fact.num_rows, size + total
    if waiting:
        yield tuple(waiting)


def _cut(fact: FileFacts, options: CompanionOptions) -> Iterator[ManifestFile]:
    first = rows = size = 0
    for count, group in zip(fact.row_groups, fact.group_bytes, strict=True):
        if rows and (rows + count > options.split_rows or size + group > options.split_bytes):
            yield _entry(fact, first, rows)
            first, rows, size = first + rows, 0, 0
        rows, size = rows + count, size + group
    yield _entry(fact, first, rows)


def _entry(fact: FileFacts, first: int, rows: int) -> ManifestFile:
    return ManifestFile(fact.path, fact.size_bytes, fact.etag, fact.modified_us, fact.row_groups, first, rows)


def by_partition(
    paths: Iterable[str], listing: Listing, facts: Mapping[str, FileFacts], names: Sequence[str]
) -> dict[tuple[str | None, ...], list[FileFacts]]:
    """Files by the texts of their partition values, in the order of their paths."""
    found: dict[tuple[str | None, ...], list[FileFacts]] = {}
    for path in sorted(paths):
        values = tuple(listing.files[path].partition.get(name) for name in names)
        found.setdefault(values, []).append(facts[path])
    return found

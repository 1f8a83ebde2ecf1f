"""Deletes without a rewrite: the container copied, with the engine's own delete file in it (index-table.md, 9.4).

The rows, the index and a foreign dictionary stay as they are; `meta.json` says which delete file counts, and the engine
hides the rows. Rows keep their numbers. For large splits of which few rows go: whoever wants the data gone, or has
a tenth of the rows dead, writes the split anew.
"""

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError, StorageError
from deltaic.storage.checksum import checksum
from deltaic.table.split.container import FIELDS_NAME, Range, new_split, pack_footer
from deltaic.table.split.description import ALIVE_NAME, DESCRIPTION_NAME
from deltaic.table.split.foreign import ReadMember
from deltaic.table.split.hotcache import CachedFile, Slice, pack_slices, read_hotcache
from deltaic.table.split.open import COMPANION_NAME, SplitFile, read_exactly
from deltaic.table.split.segment import (
    IndexMeta,
    Segment,
    footer_version,
    pack_alive,
    read_managed,
    read_meta,
    segment_footer,
)
from deltaic.table.split.write import WrittenSplit, split_tags

_PIECE_BYTES = 8 << 20


def with_deletes(
    split: SplitFile, dead_rows: Sequence[int] | NDArray[np.int64], target: str | os.PathLike[str]
) -> WrittenSplit:
    """Write the split once more with some rows hidden, beside those that are hidden already.

    Raises:
        InputError: there is no row of a number, or the split is one that points to rows elsewhere.
    """
    alive = _alive_after(split, dead_rows)
    if split.has_index:
        changed, dropped = _changed_members(split.meta, split.member, alive, split.where)
    else:
        changed, dropped = {ALIVE_NAME: pack_alive(alive)}, set()
    described: bytes | None = None
    if split.description is not None:
        sums = {name: text for name, text in split.description.members.items() if name not in dropped}
        sums.update({name: checksum(data) for name, data in changed.items()})
        now = msgspec.structs.replace(split.description, members=sums, num_dead=int((~alive).sum()))
        described = changed[DESCRIPTION_NAME] = now.pack()
    target = Path(target)
    places: dict[str, Range] = {}
    position = 0
    try:
        with new_split(target) as out:
            for name, pieces in _members(split, changed, dropped):
                start = position
                for piece in pieces:
                    out.write(piece)
                    position += len(piece)
                places[name] = Range(start, position)
            places[FIELDS_NAME] = Range(position, position)
            footer = pack_footer(places, _hotcache(split, places, changed))
            out.write(footer)
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(error.errno, f"cannot write {target}: {error.strerror or error}") from error
    size = position + len(footer)
    text = (split.add.doc_mapping_json if split.add is not None else None) or split.mapping.to_json(
        native=split.kind != "deltaic"
    )
    tags = split_tags(now, described) if described is not None else {}
    split_id = now.split_id if described is not None else ""
    return WrittenSplit(size, position, size, int(alive.sum()), position, text, split_id, tags)


def hide_rows(folder: Path, alive: NDArray[np.bool_]) -> None:
    """Give an index in a folder, whose documents are the rows in their order, a delete file."""

    def member(name: str) -> bytes:
        return (folder / name).read_bytes()

    meta = read_meta(member("meta.json"), str(folder))
    changed, _ = _changed_members(meta, member, alive, str(folder))
    for name, data in changed.items():
        (folder / name).write_bytes(data)


def _alive_after(split: SplitFile, dead_rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.bool_]:
    if COMPANION_NAME in split.footer.members:
        raise InputError(f"{split.where} points to rows elsewhere by their number: it cannot have a delete file")
    count = split.num_numbers
    segments = split.meta.segments if split.has_index else ()
    if split.has_index and sum(segment.max_doc for segment in segments) != count:
        raise InputError(f"{split.where} has an index of other rows than its own")
    if split.description is not None and len(segments) > 1:
        raise InputError(f"{split.where} has several segments: which document is which row is not known")
    dead = np.asarray(dead_rows, np.int64)
    if len(dead) and not 0 <= dead.min() <= dead.max() < count:
        raise InputError(f"row numbers from {dead.min()} to {dead.max()}; there are {count:,} rows")
    alive = np.ones(count, np.bool_) if split.alive is None else split.alive.copy()
    alive[dead] = False
    return alive


def _changed_members(
    meta: IndexMeta, member: ReadMember, alive: NDArray[np.bool_], where: str
) -> tuple[dict[str, bytes], set[str]]:
    """The members that are new or other than before, and those that are no more."""
    opstamp = max([meta.opstamp, *(one.deletes.opstamp for one in meta.segments if one.deletes is not None)]) + 1
    changed: dict[str, bytes] = {}
    dropped: set[str] = set()
    document: dict[str, Any] = {**meta.document, "opstamp": opstamp}
    listed = []
    first = 0
    for segment, entry in zip(meta.segments, meta.document["segments"], strict=True):
        some = alive[first : first + segment.max_doc]
        first += segment.max_doc
        if segment.delete_file is not None:
            dropped.add(segment.delete_file)
        dead = int((~some).sum())
        deletes = {"num_deleted_docs": dead, "opstamp": opstamp} if dead else None
        listed.append({**entry, "deletes": deletes})
        if dead:
            changed[f"{segment.id}.{opstamp}.del"] = _delete_file(member, segment, some)
    document["segments"] = listed
    changed["meta.json"] = json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"
    managed = read_managed(member(".managed.json"), where)
    kept = [name for name in managed if name not in dropped]
    added = [name for name in changed if name.endswith(".del")]
    changed[".managed.json"] = json.dumps([*kept, *added], separators=(",", ":")).encode() + b"\n"
    return changed, dropped


def _delete_file(member: ReadMember, segment: Segment, alive: NDArray[np.bool_]) -> bytes:
    body = pack_alive(alive)
    name = segment.file(".fieldnorm")
    return body + segment_footer(body, footer_version(member(name), name))


def _members(split: SplitFile, changed: dict[str, bytes], dropped: set[str]) -> Iterator[tuple[str, Iterator[bytes]]]:
    ordered = sorted(split.footer.members.items(), key=lambda item: (item[1].start, item[1].end))
    names = [name for name, _ in ordered if name not in dropped and name not in (FIELDS_NAME, DESCRIPTION_NAME)]
    names += [name for name in changed if name not in names and name != DESCRIPTION_NAME]
    names += [DESCRIPTION_NAME] if DESCRIPTION_NAME in changed else []
    for name in names:
        if name in changed:
            yield name, iter((changed[name],))
        else:
            yield name, _pieces(split, split.footer.members[name])


def _pieces(split: SplitFile, place: Range) -> Iterator[bytes]:
    for start in range(place.start, place.end, _PIECE_BYTES):
        part = Range(start, min(place.end, start + _PIECE_BYTES))
        yield read_exactly(split.store, split.path, part, split.where)


def _hotcache(split: SplitFile, places: dict[str, Range], changed: dict[str, bytes]) -> bytes:
    """The slices of before, and what changed as a whole: opening a segment reads its delete file."""
    before = read_hotcache(split.footer.hotcache, split.where)
    files: dict[str, CachedFile] = {}
    for name, place in places.items():
        if name == FIELDS_NAME:
            continue
        if name in changed and name != DESCRIPTION_NAME:
            files[name] = CachedFile(place.length, (Slice(0, changed[name]),))
        else:
            known = before.get(name)
            files[name] = CachedFile(place.length, known.slices if known is not None and name not in changed else ())
    return pack_slices(files)

"""The search engine behind splits: tantivy, its version, its panics, its folders.

An index is made from a `meta.json` of our own, because that can say more than the package's schema builder: fast fields
with another tokenizer than the index, fields without norms, no compression of the empty document store. A panic of the
engine is a BaseException in Python; `guarded` turns it into the DecodeError that damaged bytes deserve.
"""

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaic.errors import DecodeError, DeltaicError, MissingExtraError, StorageError
from deltaic.table.split.tokenizers import analyzer, tokenizer_names

if TYPE_CHECKING:
    import tantivy

SEGMENT_SUFFIXES = (".term", ".idx", ".pos", ".fast", ".fieldnorm", ".store")

_VERSION = re.compile(r"tantivy v(\d{1,6})\.(\d{1,6})\.(\d{1,6})\S*, index_format v(\d{1,6})")
# One thread writes one segment; the arena grows as it is used, so a large bound costs nothing.
_HEAP_BYTES = 4_000_000_000
_LOCK_NAMES = (".tantivy-meta.lock", ".tantivy-writer.lock")


def engine() -> Any:
    """The package, or an error that says what to install."""
    try:
        import tantivy
    except ImportError as error:
        raise MissingExtraError("an index of a split", "table") from error
    return tantivy


@cache
def _own_version() -> tuple[tuple[int, ...], int]:
    found = _VERSION.fullmatch(engine().__version__)
    if found is None:
        raise MissingExtraError(f"an index of a split (tantivy says {engine().__version__!r})", "table")
    return _numbers(found)


def engine_version() -> str:
    """What makes an index here: `tantivy v<version>, index_format v<number>`."""
    version, index_format = _own_version()
    return f"tantivy v{'.'.join(map(str, version))}, index_format v{index_format}"


def check_engine_version(text: str, where: str) -> None:
    """Refuse an index of a newer engine, whose bytes may mean something else."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise DecodeError("UnknownEngine", f"made by {text[:80]!r}, which this version does not know", where)
    version, index_format = _numbers(found)
    own_version, own_format = _own_version()
    if index_format > own_format or version > own_version:
        raise DecodeError("NewerEngine", f"made by {text}, newer than {engine_version()}: update deltaic", where)


def _numbers(found: re.Match[str]) -> tuple[tuple[int, ...], int]:
    return tuple(int(part) for part in found.groups()[:3]), int(found[4])


@contextmanager
def guarded(what: str, where: str) -> Iterator[None]:
    """Turn whatever the engine raises into a DecodeError that says where."""
    try:
        yield
    except DeltaicError:
        raise
    except (ValueError, OSError, TypeError, KeyError, OverflowError, RuntimeError, SystemError) as error:
        if number := _system_error(error):
            raise StorageError(number, f"cannot {what}: {os.strerror(number)} (at {where})") from error
        raise DecodeError("BadIndex", f"cannot {what}: {error}", where) from error
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            raise DecodeError("BadIndex", f"cannot {what}: the engine gave up: {error}", where) from error
        raise


def _system_error(error: Exception) -> int | None:
    """The number of the system's error behind one of the engine: a full disk is no damage."""
    if isinstance(error, OSError) and error.errno:
        return error.errno
    found = re.search(r"os error (\d{1,3})\)|code: (\d{1,3})\b", str(error))
    return int(found[1] or found[2]) if found else None


def new_index(folder: Path, fields: list[dict[str, Any]], settings: Mapping[str, Any] | None = None) -> "tantivy.Index":
    """An empty index in a folder."""
    meta = {
        "index_settings": settings or {"docstore_compression": "none", "docstore_blocksize": 16384},
        "segments": [],
        "schema": fields,
        "opstamp": 0,
    }
    (folder / "meta.json").write_text(json.dumps(meta))
    (folder / ".managed.json").write_text('["meta.json"]')
    return open_index(folder)


def open_index(folder: Path) -> "tantivy.Index":
    """Open an index with our tokenizers; the folder must be writable, because the engine makes a lock file there."""
    with guarded("open the index", str(folder)):
        index: tantivy.Index = engine().Index.open(str(folder))
        register_tokenizers(index)
    return index


def register_tokenizers(index: "tantivy.Index") -> None:
    """Make every tokenizer known to an index, for search and for fast fields."""
    for name in tokenizer_names():
        index.register_tokenizer(name, analyzer(name))
    index.register_fast_field_tokenizer("raw", analyzer("raw"))


@contextmanager
def guarded_writer(index: "tantivy.Index", where: str) -> Iterator["tantivy.IndexWriter"]:
    """A writer that makes one segment: what the body adds is committed at its end, unless it raises."""
    with guarded("write the index", where):
        writer = index.writer(_HEAP_BYTES, 1)
        try:
            yield writer
            writer.commit()
        finally:
            writer.wait_merging_threads()


def schema_object(fields: list[dict[str, Any]]) -> "tantivy.Schema":
    """The engine's object for a schema in the form of `meta.json`."""
    with tempfile.TemporaryDirectory(prefix="deltaic-schema-") as folder:
        return new_index(Path(folder), fields).schema


def index_files(folder: Path) -> list[str]:
    """The files of an index that belong into a split, segment files first."""
    names = [path.name for path in folder.iterdir() if path.name not in _LOCK_NAMES]
    segments = sorted(name for name in names if name.endswith((*SEGMENT_SUFFIXES, ".del")))
    return [*segments, "meta.json", ".managed.json"]

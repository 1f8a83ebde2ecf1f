"""Where the rows of a build come from: DataFrames, or splits that the tasks read themselves.

A split is a value that travels to a task and there gives Arrow data: a file, the live rows of a table's data file,
anything with `size_bytes` and `read`. Rows then never cross from Java to Python.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from deltaic.errors import InputError, MissingExtraError, NotFoundError
from deltaic.schema.model import Model
from deltaic.storage.local import LocalStore
from deltaic.storage.urls import open_store


@runtime_checkable
class Split(Protocol):
    """A part of the rows of a type, which a task reads. It travels between processes, so it holds no open thing."""

    @property
    def size_bytes(self) -> int:
        """About how much there is to read, to spread splits evenly."""
        ...

    def read(self) -> Any:
        """The rows: anything with `__arrow_c_stream__`."""
        ...


@dataclass(frozen=True, slots=True)
class FileSplit:
    """The rows of a Parquet or Arrow file, by the URL of its store and its key there."""

    store_url: str
    key: str
    size_bytes: int
    columns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, path: str | os.PathLike[str], columns: Iterable[str] | None = None) -> "FileSplit":
        """The split of a file that is there, by its path or URL."""
        text = os.fspath(path)
        if "://" not in text:
            text = str(Path(text).absolute())
        folder, _, key = text.rpartition("/")
        store = open_store(folder or "/")
        wanted = None if columns is None else tuple(columns)
        return cls(folder or "/", key, store.head(key).size_bytes, wanted)

    def read(self) -> Any:
        """The rows."""
        try:
            import pyarrow
            import pyarrow.feather
            import pyarrow.parquet
        except ImportError as error:
            raise MissingExtraError("reading files of rows", "arrow") from error
        store = open_store(self.store_url)
        source: Any
        if isinstance(store, LocalStore):
            path = store.path_of(self.key)
            if not path.exists():
                raise NotFoundError(f"there is no file {path}")
            source = str(path)
        else:
            source = pyarrow.BufferReader(store.get(self.key).data)
        wanted = None if self.columns is None else list(self.columns)
        try:
            if self.key.endswith((".arrow", ".feather")):
                return pyarrow.feather.read_table(source, columns=wanted)
            return pyarrow.parquet.read_table(source, columns=wanted)
        except (pyarrow.ArrowException, OSError) as error:
            raise InputError(f"{self.store_url}/{self.key} cannot be read: {error}", "BadFile") from error


Sources = Mapping[str, Any]
"""By type name: a DataFrame, a split, a path, or a sequence of splits and paths."""


@dataclass(frozen=True)
class Input:
    """What a build reads, sorted out: DataFrames and splits, by root type."""

    frames: tuple[tuple[str, Any], ...]
    splits: tuple[tuple[str, tuple[Split, ...]], ...]

    @classmethod
    def of(cls, sources: Sources, model: Model) -> "Input":
        """Look at what was given.

        Raises:
            InputError: something that a task cannot read.
        """
        frames: list[tuple[str, Any]] = []
        splits: list[tuple[str, tuple[Split, ...]]] = []
        for type_name, given in sources.items():
            if type_name not in model.schemas:
                raise NotFoundError(f"there is no type {type_name!r}; types: {', '.join(model.schemas.names)}")
            found: list[Split] = []
            for each in given if isinstance(given, list | tuple) else (given,):
                if is_frame(each):
                    frames.append((type_name, each))
                elif isinstance(each, str | os.PathLike):
                    found.append(FileSplit.of(each))
                elif isinstance(each, Split):
                    found.append(each)
                else:
                    raise InputError(
                        f"type {type_name}: {type(each).__name__} cannot be read by tasks; "
                        "give DataFrames, paths or splits",
                        "WrongType",
                    )
            if found or (isinstance(given, list | tuple) and not given):
                splits.append((type_name, tuple(found)))
        return cls(tuple(frames), tuple(splits))

    def named(self) -> frozenset[str]:
        """The types that have rows, or could have."""
        return frozenset(name for name, _ in (*self.frames, *self.splits))

    @property
    def split_bytes(self) -> int:
        """Bytes of all splits."""
        return sum(split.size_bytes for _, splits in self.splits for split in splits)


def is_frame(given: object) -> bool:
    """True for a DataFrame of Spark, classic or Connect."""
    return type(given).__module__.startswith("pyspark.") and hasattr(given, "mapInArrow")


def grouped(splits: Sequence[Split], count: int) -> list[tuple[Split, ...]]:
    """Splits in at most `count` groups of about the same size."""
    groups: list[list[Split]] = [[] for _ in range(max(1, min(count, len(splits))))]
    loads = [0] * len(groups)
    for split in sorted(splits, key=lambda each: -each.size_bytes):
        least = loads.index(min(loads))
        groups[least].append(split)
        loads[least] += split.size_bytes + 1
    return [tuple(group) for group in groups if group]

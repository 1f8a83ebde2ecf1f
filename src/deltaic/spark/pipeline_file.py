"""A pipeline in one TOML file: sources, transforms, expectations, a table, and whether it is published.

    name = "films"

    [[source]]
    name = "raw"
    format = "json"
    path = "in"
    schema = "id bigint, title string"
    stream = true

    [[transform]]
    name = "films"
    sql = "SELECT id, trim(title) AS title FROM raw"

    [[expect]]
    name = "has a title"
    that = "title <> ''"
    otherwise = "drop"

    [table]
    dataset = "store/films"
    type = "Film"
    key = ["id"]
    mode = "merge"

    [publish]

Paths are relative to the folder of the file. A key that nobody knows is an error: a misspelt one would be a setting
that never was.
"""

import hashlib
import os
import re
import tomllib
from pathlib import Path
from typing import Any, Literal

import msgspec

from deltaic.errors import InputError, NotFoundError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PIPELINE = re.compile(r"[A-Za-z0-9._-]{1,100}")
_SECRET = re.compile(r"(?i)(secret|token|password|credential|access.?key|account.?key|sas)")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where rows come from."""

    name: str
    format: str
    """Any format of Spark: parquet, json, csv, orc, delta, iceberg, deltaic, rate, kafka, …"""
    path: str | None = None
    table: str | None = None
    """Of a catalog, instead of a path."""
    schema: str | None = None
    """Columns as Spark's DDL says them; a stream of files needs it."""
    options: dict[str, str] = {}
    stream: bool = False
    """Only what is new since the last run; else all of it, whenever it has changed."""


class Transform(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One step, by SQL over the names before it, or by a Python function."""

    name: str
    sql: str | None = None
    python: str | None = None
    """`file.py:function` or `module:function`; it is called with the session and the frames by name."""


class Expectation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is to be true of every row."""

    name: str
    that: str
    """A condition in SQL; null counts as not true."""
    otherwise: Literal["fail", "drop", "warn"] = "fail"


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The table that the rows go to, which is that of a dataset."""

    dataset: str
    type: str
    """The type that a row is in the dataset."""
    key: tuple[str, ...] = ()
    mode: Literal["append", "overwrite", "merge", "patch"] = "overwrite"
    """`patch`: the rows are patches (`deltaic.spark.patch_stream`), and the dataset is there."""
    partition_by: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    """Columns that are searched by words."""
    vectors: dict[str, int] = {}
    """Columns of arrays of floats that are vectors, and how many dimensions they have."""
    rows: str | None = None
    """The name of what is written; the last transform by default, or the only source."""


class Publishing(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How versions of the table become versions of the dataset."""

    engine: Literal["auto", "embedded", "spark"] = "auto"
    channel: str = "main"
    lease_seconds: float = 60.0
    snapshot_every: int = 1


class Pipeline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The whole of it."""

    name: str
    source: tuple[Source, ...]
    table: Target
    transform: tuple[Transform, ...] = ()
    expect: tuple[Expectation, ...] = ()
    publish: Publishing | None = None
    checkpoint: str | None = None
    """Where Spark keeps its place in streams; beside the dataset by default, if that is a local folder."""
    folder: str = ""
    """Of the file; set when it is read."""

    @property
    def streams(self) -> tuple[Source, ...]:
        """The sources of which only what is new is read."""
        return tuple(source for source in self.source if source.stream)

    @property
    def written(self) -> str:
        """The name of what is written to the table."""
        if self.table.rows is not None:
            return self.table.rows
        return self.transform[-1].name if self.transform else self.source[-1].name

    @property
    def digest(self) -> str:
        """Stands for what is done to the sources: with another one, all is done again."""
        told = [
            msgspec.to_builtins(self.source),
            msgspec.to_builtins(self.transform),
            msgspec.to_builtins(self.expect),
            msgspec.to_builtins(self.table),
        ]
        digest = hashlib.sha256(msgspec.json.encode(told))
        for transform in self.transform:
            if transform.python is not None:
                file = Path(self.folder, transform.python.rpartition(":")[0])
                digest.update(file.read_bytes() if file.is_file() else b"")
        return digest.hexdigest()[:16]

    def place(self, url: str) -> str:
        """A path of the file as others can use it: URLs and absolute paths as they are."""
        return url if ":" in url.partition("/")[0] or os.path.isabs(url) else os.path.join(self.folder, url)

    @property
    def dataset_url(self) -> str:
        """Where the dataset is."""
        return self.place(self.table.dataset)

    @property
    def checkpoint_url(self) -> str:
        """Where Spark keeps its place in streams."""
        if self.checkpoint is not None:
            return self.place(self.checkpoint)
        url = self.dataset_url.removeprefix("file://")
        if ":" in url.partition("/")[0]:
            raise InputError(f"{self.dataset_url} is no local folder: say where Spark may keep its checkpoint")
        return os.path.join(url, "checkpoints", self.name)


def read_pipeline(path: str | os.PathLike[str]) -> Pipeline:
    """Read the file of a pipeline.

    Raises:
        InputError: it is no TOML, or something in it cannot be.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {file}") from error
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: {error}") from error
    return make_pipeline(found, str(file.resolve().parent), str(file))


def make_pipeline(values: dict[str, Any], folder: str, where: str = "the pipeline") -> Pipeline:
    """A pipeline of what a TOML file holds."""
    try:
        made = msgspec.convert({**values, "folder": folder}, Pipeline)
    except msgspec.ValidationError as error:
        raise InputError(f"{where}: {error}") from error
    for problem in _problems(made):
        raise InputError(f"{where}: {problem}")
    return made


def _problems(pipeline: Pipeline) -> "list[str]":
    found = []
    if not _PIPELINE.fullmatch(pipeline.name):
        found.append(f"name {pipeline.name!r}: letters, digits, dots and dashes, by it the table knows what it has")
    if not pipeline.source:
        found.append("there is no [[source]]")
    names = [*(each.name for each in pipeline.source), *(each.name for each in pipeline.transform)]
    for name in names:
        if not _NAME.fullmatch(name):
            found.append(f"{name!r} cannot be a name in SQL")
    if len(set(names)) != len(names):
        found.append(f"sources and transforms need names of their own: {', '.join(names)}")
    if pipeline.source and pipeline.written not in names:
        found.append(f"table.rows is {pipeline.written!r}; there are {', '.join(names)}")
    for source in pipeline.source:
        if source.path is not None and source.table is not None:
            found.append(f"source {source.name}: a path or a table of a catalog, not both")
        for option in source.options:
            if _SECRET.search(option):
                found.append(
                    f"source {source.name}: option {option}: no secrets here, Spark shows options in its plans"
                )
    for transform in pipeline.transform:
        if (transform.sql is None) == (transform.python is None):
            found.append(f"transform {transform.name}: sql or python, one of them")
        if transform.python is not None and not transform.python.rpartition(":")[0]:
            found.append(f"transform {transform.name}: python is 'file.py:function'")
    if pipeline.table.mode == "merge" and not pipeline.table.key:
        found.append("table.mode merge needs table.key, by which rows are matched")
    if pipeline.table.vectors and not pipeline.table.key:
        found.append("table.vectors needs table.key, by which vectors are told apart from version to version")
    if pipeline.table.mode == "append" and not pipeline.streams:
        found.append("table.mode append needs a source with stream = true: else all rows come again with every change")
    if pipeline.table.mode == "patch" and not pipeline.streams:
        found.append(
            "table.mode patch needs a source with stream = true: else all patches come again with every change"
        )
    if pipeline.table.mode == "overwrite" and pipeline.streams:
        found.append("table.mode overwrite is for sources that are read whole: a stream has only what is new")
    return found

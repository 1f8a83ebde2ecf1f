"""The options of the data source, read once: what is asked of a table, and of which version.

Spark lower-cases the names of options, so they are told apart without regard to case. A URL is all that tasks get of
a store; what opens it (keys, regions) is looked up where the task runs and is never an option, because options are
shown in plans and event logs.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from deltaic.errors import InputError

_BOTH = {"path"}
_READ = {
    "version",
    "versionasof",
    "timestamp",
    "timestampasof",
    "tag",
    "columns",
    "where",
    "query",
    "limit",
    "bytespertask",
    "changes",
    "startingversion",
    "startingoffset",
    "maxversionspertrigger",
    "maxrowspertrigger",
}
_WRITE = {
    "replacewhere",
    "partitionoverwritemode",
    "txnappid",
    "txnversion",
    "txnresumeafter",
    "txnprogress",
    "note",
    "user",
    "createtable",
    "partitionby",
    "key",
    "vectors",
    "splitbytes",
    "splitrows",
}
# Spark's own, which are for others; of the checkpoint a sink reads where its sources are.
_IGNORED = {"checkpointlocation", "queryname", "mergeschema"}
_SECRETS = ("secret", "token", "password", "access_key", "accesskey", "account_key", "sas", "credential")

BYTES_PER_TASK = 128 << 20
"""Rows of so many bytes of splits are read by one task: a task costs Spark some 40 ms, whatever it does."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What is asked of a table."""

    path: str
    version: int | None = None
    timestamp: str | None = None
    tag: str | None = None
    columns: tuple[str, ...] | None = None
    where: str | None = None
    query: str | None = None
    limit: int | None = None
    bytes_per_task: int = BYTES_PER_TASK
    changes: bool = False
    """The change feed: rows before and after, instead of the rows."""
    starting_version: int | None = None
    """Of a stream: the first version whose changes it gives; without it the rows come first, then the changes."""
    starting_offset: str | None = None
    """Of a stream: the offset after which it goes on, as `StreamProgress.source_options` gives it."""
    max_versions: int | None = None
    max_rows: int | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "ReadRequest":
        """Read the options."""
        given = _known(options, _BOTH | _READ, "reading")
        version = given.get("version", given.get("versionasof"))
        timestamp = given.get("timestamp", given.get("timestampasof"))
        if sum(each is not None for each in (version, timestamp, given.get("tag"))) > 1:
            raise InputError("version, timestamp and tag: one of them says when")
        if "startingversion" in given and "startingoffset" in given:
            raise InputError("startingVersion or startingOffset: one of them says where a stream starts")
        return cls(
            _path(given),
            _number(version, "version"),
            timestamp,
            given.get("tag"),
            None if "columns" not in given else _names(given["columns"], "columns"),
            given.get("where"),
            given.get("query"),
            _number(given.get("limit"), "limit"),
            _number(given.get("bytespertask"), "bytesPerTask", least=1) or BYTES_PER_TASK,
            _flag(given.get("changes"), "changes"),
            _number(given.get("startingversion"), "startingVersion"),
            given.get("startingoffset"),
            _number(given.get("maxversionspertrigger"), "maxVersionsPerTrigger", least=1),
            _number(given.get("maxrowspertrigger"), "maxRowsPerTrigger", least=1),
        )


@dataclass(frozen=True, slots=True)
class WriteRequest:
    """How rows are put into a table."""

    path: str
    replace_where: str | None = None
    dynamic: bool = False
    application: str | None = None
    number: int | None = None
    resume_after: int | None = None
    """Of a stream with a new checkpoint: the application's last number, after which its rows follow."""
    progress: str | None = None
    """Of a batch: what the table keeps of the application, as `progress.configuration_of` says it."""
    note: str | None = None
    user: Mapping[str, str] = field(default_factory=dict)
    """Texts for the history."""
    create: bool = False
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    split_bytes: int | None = None
    split_rows: int | None = None
    checkpoint: str | None = None
    """Of a stream: where Spark keeps its progress."""
    vectors: Mapping[str, int] = field(default_factory=dict)
    """Of a table that is made: the columns that are vectors, and how many dimensions they have."""

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "WriteRequest":
        """Read the options."""
        given = _known(options, _BOTH | _WRITE, "writing")
        mode = given.get("partitionoverwritemode", "static").lower()
        if mode not in ("static", "dynamic"):
            raise InputError(f"partitionOverwriteMode {mode!r}: 'static' or 'dynamic'")
        number = _number(given.get("txnversion"), "txnVersion")
        if number is not None and "txnappid" not in given:
            raise InputError("txnVersion needs txnAppId: the number is counted per application")
        return cls(
            _path(given),
            given.get("replacewhere"),
            mode == "dynamic",
            given.get("txnappid"),
            number,
            _number(given.get("txnresumeafter"), "txnResumeAfter"),
            given.get("txnprogress"),
            given.get("note"),
            _texts(given.get("user"), "user"),
            _flag(given.get("createtable"), "createTable"),
            () if "partitionby" not in given else _names(given["partitionby"], "partitionBy"),
            () if "key" not in given else _names(given["key"], "key"),
            _number(given.get("splitbytes"), "splitBytes", least=1),
            _number(given.get("splitrows"), "splitRows", least=1),
            given.get("checkpointlocation"),
            _dimensions(given.get("vectors"), "vectors"),
        )

    @property
    def kind(self) -> Literal["where", "dynamic", "all"]:
        """What an overwrite replaces."""
        return "where" if self.replace_where is not None else "dynamic" if self.dynamic else "all"


def _known(options: Mapping[str, str], known: set[str], doing: str) -> dict[str, str]:
    given = {name.lower(): str(value) for name, value in dict(options).items()}
    for name in given:
        if any(part in name for part in _SECRETS):
            raise InputError(
                f"option {name}: secrets are no options, plans and logs show them; tasks take them from the "
                "environment of their machine, or by its role"
            )
    unknown = sorted(set(given) - known - _IGNORED - (_READ | _WRITE))
    if unknown:
        raise InputError(f"options {', '.join(unknown)} are unknown; for {doing} there are {', '.join(sorted(known))}")
    return given


def _path(given: Mapping[str, str]) -> str:
    path = given.get("path")
    if not path:
        raise InputError(
            "no path: spark.read.format('deltaic').load(URL); a catalog table loses its options in Spark 4"
        )
    # DDL makes `file:/x` of a plain path; `file:///x` is what stores call it.
    if path.startswith("file:/") and not path.startswith("file://"):
        return f"file://{path[5:]}"
    # Said in the driver, where it means something; a task may run in another folder.
    return path if ":" in path.partition("/")[0] else os.path.abspath(path)


def _number(text: Any, name: str, least: int = 0) -> int | None:
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError:
        raise InputError(f"option {name}: {text!r} is no number") from None
    if number < least:
        raise InputError(f"option {name}: {number}, the smallest is {least}")
    return number


def _flag(text: str | None, name: str) -> bool:
    if text is None or text.lower() in ("false", "true"):
        return text is not None and text.lower() == "true"
    raise InputError(f"option {name}: {text!r}, 'true' or 'false'")


def _names(text: str, name: str) -> tuple[str, ...]:
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text.encode(), type=tuple[str, ...])
        except msgspec.DecodeError as error:
            raise InputError(f"option {name}: {error}") from None
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _texts(text: str | None, name: str) -> dict[str, str]:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, str])
    except msgspec.DecodeError as error:
        raise InputError(f"option {name}: a JSON object of texts is wanted: {error}") from None


def _dimensions(text: str | None, name: str) -> dict[str, int]:
    if text is None:
        return {}
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, int])
    except msgspec.DecodeError as error:
        raise InputError(f"option {name}: a JSON object of columns and dimensions is wanted: {error}") from None

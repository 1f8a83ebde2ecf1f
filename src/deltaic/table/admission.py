"""What a commit may put into a table, looked at before anything is written.

A version file is for ever: one that our own reader refuses would shut the table for everybody. So the text of a commit
is read back before it is put, and what a caller gives (paths, partition values, notes, keys) is refused by name while
nothing has happened yet.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from deltaic.errors import DecodeError, InputError
from deltaic.storage.names import check_key
from deltaic.table.actions import Action, AddFile, Metadata, read_actions, write_actions
from deltaic.table.protocol import FAMILY_KEY, TAG_PREFIX, TRANSACTION_PREFIX, of_one_commit
from deltaic.table.registry import PREFIX as SCHEMA_PREFIX
from deltaic.table.settings import FORM_KEY, Settings
from deltaic.table.snapshot import Snapshot, is_absolute
from deltaic.table.values import columns_of, parse

_LOG_FOLDER = "_transaction_log"


def check_files(adds: Iterable[AddFile], snapshot: Snapshot, settings: Settings) -> None:
    """Refuse files that no reader could open or that are in no partition of the table."""
    seen: set[str] = set()
    partitions: set[tuple[tuple[str, str | None], ...]] = set()
    for add in adds:
        if add.path in seen:
            raise InputError(f"{_shown(add.path)} is added twice by one commit", "BadFile")
        seen.add(add.path)
        _check_path(add.path, settings)
        if add.size_bytes < 0 or (add.num_records or 0) < 0:
            raise InputError(f"{_shown(add.path)} has a negative size or number of records", "BadFile")
        values = tuple(add.partition_values.items())
        if values not in partitions:
            _check_partition(add, snapshot)
            partitions.add(values)


def _check_path(path: str, settings: Settings) -> None:
    if is_absolute(path):
        if not settings.allow_absolute_paths:
            reason = f"{_shown(path)} lies outside of the table; allow_absolute_paths lets it in"
            raise InputError(reason, "UnsafeName")
        return
    check_key(path)
    if path.split("/", 1)[0] == _LOG_FOLDER:
        raise InputError(f"{_shown(path)} lies in the log's own folder", "UnsafeName")


def _check_partition(add: AddFile, snapshot: Snapshot) -> None:
    wanted = snapshot.metadata.partition_columns
    if set(add.partition_values) != set(wanted):
        given = ", ".join(add.partition_values) or "none"
        columns = ", ".join(wanted) or "none"
        raise InputError(f"{_shown(add.path)} has values of {given}; the partition columns are {columns}", "BadFile")
    values: Mapping[str, Any] = add.partition_values
    for name, text in values.items():
        kind = snapshot.types.get(name)
        if text is not None and (not isinstance(text, str) or (kind is not None and parse(text, kind) is None)):
            raise InputError(f"{_shown(add.path)}: {_shown(text)} is no {kind} for {name}", "BadFile")


def check_terms(note: Any, user: Mapping[Any, Any], transaction: Any) -> None:
    """Refuse what cannot be kept beside a commit."""
    if note is not None and not isinstance(note, str):
        raise InputError(f"a note is a text, not {_shown(note)}")
    for key, value in user.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InputError(f"user metadata is text by text, not {_shown(key)}: {_shown(value)}")
    if transaction is not None:
        fits = isinstance(transaction, tuple) and len(transaction) == 2
        if not fits or not isinstance(transaction[0], str) or not transaction[0] or type(transaction[1]) is not int:
            raise InputError(f"a transaction is an application's name and a number, not {_shown(transaction)}")


def check_keys(changes: Mapping[Any, Any], configuration: Mapping[str, str]) -> None:
    """Refuse to set keys that commits keep for themselves, and settings that would be none."""
    for key, value in changes.items():
        if not isinstance(key, str) or not key or not (value is None or isinstance(value, str)):
            raise InputError(f"the configuration is text by text, not {_shown(key)}: {_shown(value)}")
        kept = key in (FAMILY_KEY, FORM_KEY) or key.startswith((TAG_PREFIX, TRANSACTION_PREFIX, SCHEMA_PREFIX))
        if kept or of_one_commit(key):
            raise InputError(f"{key} is kept by commits; it cannot be set by hand", "ReservedKey")
    Settings().over(
        {**configuration, **{key: value for key, value in changes.items() if value is not None}}, strict=True
    )


def check_metadata(metadata: Metadata) -> None:
    """Refuse a schema that lacks a partition column, or that nobody can read."""
    names = [column.name for column in columns_of(metadata.schema_string)]
    if len(set(names)) != len(names):
        raise InputError("the schema has two columns of one name", "BadSchema")
    missing = [name for name in metadata.partition_columns if name not in names]
    if missing or len(set(metadata.partition_columns)) != len(metadata.partition_columns):
        shown = ", ".join(metadata.partition_columns)
        raise InputError(f"partition columns {shown} are not all columns of the table", "BadSchema")


def admitted_text(actions: list[Action], what: str) -> bytes:
    """The text of a version file that our own reader takes."""
    try:
        text = write_actions(actions)
        read = [_path(action) for action in read_actions(text, what)]
    except (DecodeError, UnicodeError, TypeError, ValueError, AttributeError, msgspec.MsgspecError) as error:
        raise InputError(f"{what} cannot be written: {error}; nothing was written", "BadAction") from error
    if read != [_path(action) for action in actions]:
        raise InputError(f"{what} would not be read back as it is; nothing was written", "BadAction")
    return text


def _path(action: Action) -> str | None:
    return getattr(action, "path", None)


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 120 else f"{text[:100]}…"

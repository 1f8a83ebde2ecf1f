"""Which tables this code may read and write, and the `deltaic.*` keys of a table's configuration."""

from collections.abc import Mapping
from typing import Final

from deltaic.errors import InputError
from deltaic.table.actions import Metadata, Protocol
from deltaic.table.settings import Settings

SUPPORTED_VERSION: Final = 4
READER_FEATURES: Final = frozenset(
    ("skippedFiles", "extendedMetadata", "footerOffsets", "multiPartCheckpoint", "schemaDeduplication", "avroState")
)
WRITER_FEATURES: Final = READER_FEATURES | {"checkpoint", "optimizeWrite"}

FAMILY_KEY: Final = "deltaic.commit"
"""Who commits to the table, and how."""
FAMILY: Final = "version-file"
"""Our way: the version file is the commit, the state follows."""

TAG_PREFIX: Final = "deltaic.tag."
TRANSACTION_PREFIX: Final = "deltaic.transaction."
USER_PREFIX: Final = "deltaic.user."
COMPANION_KEY: Final = "deltaic.companion"
"""The key of the configuration that makes a table a companion: its source, as JSON."""
NOTE_KEY: Final = "deltaic.note"
OPERATION_KEY: Final = "deltaic.operation"
TOKEN_KEY: Final = "deltaic.token"
TIME_KEY: Final = "deltaic.committed_ms"

_OF_ONE_COMMIT: Final = (NOTE_KEY, OPERATION_KEY, TOKEN_KEY, TIME_KEY)


def check_readable(protocol: Protocol, where: str) -> None:
    """Refuse a table that asks for a newer reader."""
    _check(protocol.min_reader_version, protocol.reader_features, READER_FEATURES, "read", where)


def check_writable(protocol: Protocol, where: str) -> None:
    """Refuse to write a table that asks for a newer writer."""
    check_readable(protocol, where)
    _check(protocol.min_writer_version, protocol.writer_features, WRITER_FEATURES, "written", where)


def _check(number: int, features: tuple[str, ...] | None, known: frozenset[str], done: str, where: str) -> None:
    if number > SUPPORTED_VERSION:
        reason = f"{where} can be {done} from protocol {number} on; this is protocol {SUPPORTED_VERSION}"
        raise InputError(f"{reason}: install a newer deltaic", "NewerProtocol")
    unknown = sorted(set(features or ()) - known)
    if unknown:
        shown = ", ".join(ascii(name)[:60] for name in unknown)
        raise InputError(
            f"{where} can be {done} only with {shown}, unknown here: install a newer deltaic", "NewerProtocol"
        )


def is_ours(metadata: Metadata | None) -> bool:
    """Whether the table's writers commit by version files, as we do."""
    return metadata is not None and metadata.configuration.get(FAMILY_KEY) == FAMILY


def of_one_commit(key: str) -> bool:
    """Whether a key speaks of the commit whose version file holds it, and of no later one."""
    return key in _OF_ONE_COMMIT or key.startswith(USER_PREFIX)


def lasting(configuration: Mapping[str, str]) -> dict[str, str]:
    """A configuration without what only its own commit is about."""
    return {key: value for key, value in configuration.items() if not of_one_commit(key)}


def tags_of(metadata: Metadata) -> dict[str, int]:
    """The tags of versions."""
    found = {}
    for key, value in metadata.configuration.items():
        if key.startswith(TAG_PREFIX) and value.isascii() and value.isdigit():
            found[key.removeprefix(TAG_PREFIX)] = int(value)
    return found


def transactions_of(metadata: Metadata) -> dict[str, int]:
    """The last transaction number of each application."""
    found = {}
    for key, value in metadata.configuration.items():
        if key.startswith(TRANSACTION_PREFIX) and value.isascii() and value.lstrip("-").isdigit():
            found[key.removeprefix(TRANSACTION_PREFIX)] = int(value)
    return found


def first_protocol(settings: Settings, version: int | None) -> Protocol:
    """The protocol of a new table."""
    number = version if version is not None else (3 if settings.state_format == "json" else 4)
    if not 1 <= number <= 4:
        raise InputError(f"there is no protocol {number}")
    if settings.literal and number == 4:
        features = ("avroState", "schemaDeduplication")
        return Protocol(4, 4, features, features)
    return Protocol(number, number)

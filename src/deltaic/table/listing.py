"""What lies in a log's folder: version files, states, JSON checkpoints, manifests, by one listing."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from deltaic.storage import ObjectInfo, Store
from deltaic.table.checkpoint import checkpoint_number, part_number
from deltaic.table.manifest import FOLDER
from deltaic.table.state import AVRO_NAME, JSON_NAME, state_number
from deltaic.table.versionfile import version_number


class LogListing(msgspec.Struct, frozen=True):
    """The files of a log by what they are, each with its size and time."""

    versions: Mapping[int, ObjectInfo]
    states: Mapping[int, ObjectInfo]
    checkpoints: Mapping[int, ObjectInfo]
    manifests: Mapping[str, ObjectInfo]
    others: tuple[ObjectInfo, ...]
    """Parts of checkpoints, manifests inside of state folders, side files of other systems."""

    @property
    def latest(self) -> int | None:
        """The newest version that the listing knows of."""
        return max((*self.versions, *self.states, *self.checkpoints), default=None)


def list_log(log: Store, *, with_manifests: bool = False) -> LogListing:
    """List a log. Manifests take a listing of their own, which most callers do without."""
    versions: dict[int, ObjectInfo] = {}
    states: dict[int, ObjectInfo] = {}
    checkpoints: dict[int, ObjectInfo] = {}
    manifests: dict[str, ObjectInfo] = {}
    others: list[ObjectInfo] = []
    infos: list[ObjectInfo] = []
    for prefix in ("",) if with_manifests else ("0", "state-v"):
        infos += log.list(prefix)
    for info in infos:
        folder, _, name = info.key.rpartition("/")
        if not folder:
            number, checkpoint = version_number(name), checkpoint_number(name)
            if number is not None:
                versions[number] = info
            elif checkpoint is not None:
                checkpoints[checkpoint] = info
            else:
                others.append(info)
        elif (number := state_number(folder)) is not None and name in (AVRO_NAME, JSON_NAME):
            if number not in states or name == AVRO_NAME:
                states[number] = info
        elif folder == FOLDER and name.endswith(".avro"):
            manifests[info.key] = info
        else:
            others.append(info)
    return LogListing(versions, states, checkpoints, manifests, tuple(others))


def number_of(key: str) -> int | None:
    """The version that a file of the log belongs to, whatever kind it is."""
    folder, _, name = key.rpartition("/")
    if folder:
        return state_number(folder)
    found = version_number(name)
    if found is None:
        found = checkpoint_number(name)
    return part_number(name) if found is None else found


def milliseconds(time: datetime) -> int:
    """A store's time in milliseconds since 1970."""
    return int(time.timestamp() * 1000)

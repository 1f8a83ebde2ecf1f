"""Object stores, put-if-absent, announcements: everything that deltaic keeps goes through here.

Names are imported when they are used: a process that opens a table does not load announcements and watchers. Two are
here from the start, because their modules have the same names and would hide them.
"""

import importlib
from typing import TYPE_CHECKING, Any

from deltaic.storage.checksum import checksum
from deltaic.storage.decompress import decompress

if TYPE_CHECKING:
    from deltaic.storage.announced import CANARY, MAIN, AnnouncedVersion, Artifact
    from deltaic.storage.announcement import Announcement, Announcements
    from deltaic.storage.checksum import Checksum, checksum_file, verify, verify_file
    from deltaic.storage.credentials import Secret, redact
    from deltaic.storage.decompress import Codec, DecompressingReader, compress, iter_decompressed
    from deltaic.storage.lease import Lease, acquire_lease, release_lease, renew_lease
    from deltaic.storage.local import LocalStore
    from deltaic.storage.names import check_key, refuse_twins, safe_join, safe_relative
    from deltaic.storage.store import Blob, ObjectInfo, Store
    from deltaic.storage.urls import open_store
    from deltaic.storage.watch import Watcher

# Where each name lives.
_PLACES = {
    "CANARY": "announced",
    "MAIN": "announced",
    "AnnouncedVersion": "announced",
    "Announcement": "announcement",
    "Announcements": "announcement",
    "Artifact": "announced",
    "Blob": "store",
    "Checksum": "checksum",
    "Codec": "decompress",
    "DecompressingReader": "decompress",
    "Lease": "lease",
    "LocalStore": "local",
    "ObjectInfo": "store",
    "Secret": "credentials",
    "Store": "store",
    "Watcher": "watch",
    "acquire_lease": "lease",
    "check_key": "names",
    "checksum_file": "checksum",
    "compress": "decompress",
    "iter_decompressed": "decompress",
    "open_store": "urls",
    "redact": "credentials",
    "refuse_twins": "names",
    "release_lease": "lease",
    "renew_lease": "lease",
    "safe_join": "names",
    "safe_relative": "names",
    "verify": "checksum",
    "verify_file": "checksum",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"deltaic.storage has no {name!r}")
    found = getattr(importlib.import_module(f"deltaic.storage.{_PLACES[name]}"), name)
    globals()[name] = found
    return found


__all__ = [
    "CANARY",
    "MAIN",
    "AnnouncedVersion",
    "Announcement",
    "Announcements",
    "Artifact",
    "Blob",
    "Checksum",
    "Codec",
    "DecompressingReader",
    "Lease",
    "LocalStore",
    "ObjectInfo",
    "Secret",
    "Store",
    "Watcher",
    "acquire_lease",
    "check_key",
    "checksum",
    "checksum_file",
    "compress",
    "decompress",
    "iter_decompressed",
    "open_store",
    "redact",
    "refuse_twins",
    "release_lease",
    "renew_lease",
    "safe_join",
    "safe_relative",
    "verify",
    "verify_file",
]

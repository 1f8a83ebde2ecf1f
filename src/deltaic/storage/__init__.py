"""Object stores, put-if-absent, announcements: everything that deltaic keeps goes through here."""

from deltaic.storage.announced import CANARY, MAIN, AnnouncedVersion, Artifact
from deltaic.storage.announcement import Announcement, Announcements
from deltaic.storage.checksum import Checksum, checksum, checksum_file, verify, verify_file
from deltaic.storage.credentials import Secret, redact
from deltaic.storage.decompress import Codec, DecompressingReader, compress, decompress, iter_decompressed
from deltaic.storage.lease import Lease, acquire_lease, release_lease, renew_lease
from deltaic.storage.local import LocalStore
from deltaic.storage.names import check_key, refuse_twins, safe_join, safe_relative
from deltaic.storage.store import Blob, ObjectInfo, Store
from deltaic.storage.urls import open_store
from deltaic.storage.watch import Watcher

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

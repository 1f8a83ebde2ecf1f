"""Where shared states may lie, and the removal of those that everybody has left.

Shared memory (`/dev/shm`) first: it is memory, and no disk is ever written. A container's mount may be as small as
64 MB, so the user's cache folder comes second; there the system writes pages to disk when it finds the time.
"""

import logging
import os
import time
from pathlib import Path

from deltaic.consumer.arena_folder import PrivateFolder, is_unused
from deltaic.errors import StorageError

log = logging.getLogger("deltaic.consumer")

IDLE_SECONDS = 3600.0
"""How long an arena that no process reads from stays before another arena's process removes it."""

_SHARED_MEMORY = Path("/dev/shm")


def arena_roots() -> list[Path]:
    """Folders for arenas of this user, best first."""
    roots = []
    if os.access(_SHARED_MEMORY, os.W_OK):
        roots.append(_SHARED_MEMORY / f"deltaic-{os.geteuid()}")
    cache = os.environ.get("DELTAIC_CACHE") or os.environ.get("XDG_CACHE_HOME")
    roots.append((Path(cache) if cache else Path.home() / ".cache") / "deltaic" / "arena")
    return roots


def sweep_idle(root: Path, *, idle_seconds: float = IDLE_SECONDS) -> list[str]:
    """Remove arenas below a root that no process has attached and none has changed for a while; gives their names."""
    removed = []
    try:
        names = sorted(PrivateFolder(root).names())
    except StorageError as error:
        log.debug("%s is not swept: %s", root, error)
        return []
    for name in names:
        try:
            # Making and retiring states change the folder, so this is when it was last used to make one.
            if (root / name).is_symlink() or time.time() - (root / name).stat().st_mtime < idle_seconds:
                continue
            folder = PrivateFolder(root / name)
            with folder.try_lock() as held:
                if held and all(_is_left(folder, one) for one in folder.names() if one.endswith(".json")):
                    folder.remove()
                    removed.append(name)
        except OSError as error:
            log.debug("%s/%s is not swept: %s", root, name, error)
    return removed


def _is_left(folder: PrivateFolder, manifest: str) -> bool:
    descriptor = folder.open(manifest)
    try:
        return is_unused(descriptor)
    finally:
        os.close(descriptor)

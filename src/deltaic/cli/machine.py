"""What a machine offers: Java, Spark, memory, a folder for copies, a store that answers.

Every question here has an answer on every machine; what is not there is None or a sentence that says why.
"""

import importlib
import os
import re
import shutil
import subprocess
import uuid
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deltaic.cli.extras import installed_version
from deltaic.errors import DeltaicError


@dataclass(frozen=True, slots=True)
class Java:
    """The Java that Spark would start."""

    path: str
    version: str


def find_java(environment: Mapping[str, str] = os.environ) -> Java | None:
    """The Java of JAVA_HOME, or else the one on the path."""
    home = environment.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    path = path or shutil.which("java", path=environment.get("PATH"))
    if path is None:
        return None
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return Java(path, match[1]) if match else None


def find_spark() -> str | None:
    """The version of the Spark that Python would use."""
    return installed_version("pyspark")


def kernel_choices() -> dict[str, str]:
    """For each kernel: `compiled`, `plain`, or why it cannot be used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the choice is printed; a warning would say it twice
        kernels = importlib.import_module("deltaic.kernels")
    choices = {}
    for name in kernels.NAMES:
        try:
            module = getattr(kernels, name)
        except ImportError as error:
            choices[name] = f"does not load: {error}"
        else:
            choices[name] = "plain" if ".plain." in module.__name__ else "compiled"
    return choices


def usable_cpus() -> int:
    """The processors that this process may use, which in a container are fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """The memory of this machine, or of this container where that is less; None where it is not told."""
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return whole
    return min(whole, int(limit)) if limit.isdigit() else whole


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where copies of fetched files belong: DELTAIC_CACHE, or the user's cache folder."""
    named = environment.get("DELTAIC_CACHE")
    if named:
        return Path(named).expanduser()
    return Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deltaic"


def folder_state(folder: Path) -> str:
    """Whether a folder can be written to, and how much room it has."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        return "cannot be written to"
    free = shutil.disk_usage(existing).free
    return f"{'writable' if existing == folder else 'will be made'}, {free / 2**30:.1f} GiB free"


@dataclass(frozen=True, slots=True)
class StoreAccess:
    """What a store allowed: None is yes, a text is the reason why not."""

    url: str
    reading: str | None
    writing: str | None

    @property
    def works(self) -> bool:
        """True if the store could be both read and written."""
        return self.reading is None and self.writing is None


def check_store(url: str) -> StoreAccess:
    """List a store, then write, read and delete a small object of an unused name in it."""
    try:
        from deltaic.storage import open_store

        store = open_store(url)
        next(store.list(), None)
    except (DeltaicError, OSError, ImportError) as error:
        return StoreAccess(url, str(error), "not tried")
    key, text = f"deltaic-doctor-{uuid.uuid4().hex}", b"written by deltaic doctor; may be deleted"
    try:
        store.put(key, text)
        written = store.get(key).data == text
        store.delete(key)
    except (DeltaicError, OSError) as error:
        return StoreAccess(url, None, str(error))
    return StoreAccess(url, None, None if written else "what was written is not what was read")

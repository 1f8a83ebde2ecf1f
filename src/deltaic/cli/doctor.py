"""`deltaic doctor`: what this installation has, what it lacks, and what to install.

It needs no extra, so that it can be asked first. It exits with 1 if something that was asked for does not work: a
library that deltaic cannot do without, a kernel that does not load, a store that does not answer.
"""

import json
import platform
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deltaic import __version__
from deltaic.cli.extras import Library, libraries
from deltaic.cli.machine import (
    Java,
    StoreAccess,
    cache_folder,
    check_store,
    find_java,
    find_spark,
    folder_state,
    kernel_choices,
    memory_bytes,
    usable_cpus,
)

NO_JAVA = "missing: Spark needs Java 17+, which pip install 'deltaic[java]' brings"
"""What to say where there is no Java."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Everything that the doctor found out."""

    libraries: tuple[Library, ...]
    kernels: dict[str, str]
    java: Java | None
    spark: str | None
    cpus: int
    memory_bytes: int | None
    cache: Path
    cache_state: str
    store: StoreAccess | None

    @property
    def healthy(self) -> bool:
        """True if all that deltaic cannot do without is there, and the store, if one was named, works."""
        complete = all(library.version or library.extras for library in self.libraries)
        kernels_load = all(choice in ("compiled", "plain") for choice in self.kernels.values())
        return complete and kernels_load and (self.store is None or self.store.works)

    @property
    def kernels_in_use(self) -> str:
        """`compiled` or `plain` if all kernels are the same, else `mixed`."""
        choices = set(self.kernels.values())
        return choices.pop() if len(choices) == 1 and choices <= {"compiled", "plain"} else "mixed"


def examine(url: str | None = None) -> Diagnosis:
    """Look at this installation and, if one is named, at a store."""
    cache = cache_folder()
    return Diagnosis(
        libraries=libraries(),
        kernels=kernel_choices(),
        java=find_java(),
        spark=find_spark(),
        cpus=usable_cpus(),
        memory_bytes=memory_bytes(),
        cache=cache,
        cache_state=folder_state(cache),
        store=check_store(url) if url is not None else None,
    )


def to_json(found: Diagnosis) -> dict[str, Any]:
    """The diagnosis as JSON values."""
    store = found.store
    return {
        "deltaic": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "healthy": found.healthy,
        "libraries": [
            {
                "name": library.name,
                "wanted": library.wanted,
                "extras": list(library.extras),
                "version": library.version,
                "advice": library.advice,
            }
            for library in found.libraries
        ],
        "kernels": {"in_use": found.kernels_in_use, "modules": found.kernels},
        "java": {"path": found.java.path, "version": found.java.version} if found.java else None,
        "spark": found.spark,
        "cpus": found.cpus,
        "memory_bytes": found.memory_bytes,
        "cache": {"folder": str(found.cache), "state": found.cache_state},
        "store": {"url": store.url, "reading": store.reading or "ok", "writing": store.writing or "ok"}
        if store
        else None,
    }


def to_text(found: Diagnosis) -> str:
    """The diagnosis for people: one fact per line."""
    memory = "not known" if found.memory_bytes is None else f"{found.memory_bytes / 2**30:.1f} GiB"
    lines = [
        ("deltaic", __version__),
        ("Python", f"{platform.python_version()} ({sys.executable})"),
        ("platform", platform.platform()),
        ("processors", str(found.cpus)),
        ("memory", memory),
        ("cache folder", f"{found.cache} ({found.cache_state})"),
        (
            "Java",
            f"{found.java.version} ({found.java.path})"
            if found.java
            else "missing: Spark needs Java 17+, which pip install 'deltaic[java]' brings",
        ),
        ("Spark", found.spark or "missing: pip install 'deltaic[spark]'"),
    ]
    lines.append(("kernels", found.kernels_in_use))
    lines += [(f"  {name}", choice) for name, choice in found.kernels.items()]
    lines.append(("libraries", ""))
    for library in found.libraries:
        note = f"  (extra {', '.join(library.extras)})" if library.extras else ""
        lines.append((f"  {library.name}", f"{library.version or f'missing: {library.advice}'}{note}"))
    if found.store:
        lines.append(("store", found.store.url))
        lines.append(("  reading", found.store.reading or "ok"))
        lines.append(("  writing", found.store.writing or "ok"))
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in lines)


def diagnose(url: str | None, *, as_json: bool) -> int:
    """Print the diagnosis and return the exit code: 0 if healthy, else 1."""
    found = examine(url)
    print(json.dumps(to_json(found), indent=2) if as_json else to_text(found))
    return 0 if found.healthy else 1

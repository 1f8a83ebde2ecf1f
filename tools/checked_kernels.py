"""Runs tests on kernels that watch themselves: `checked_kernels.py bounds|address -- PYTEST ARGUMENTS`.

`bounds` compiles Cython's bounds checks in; `address` builds for AddressSanitizer. Both work on a copy of the sources
under `build/`, so that the kernels in use stay as they are. Tests can tell by DELTAIC_CHECKED_KERNELS, which holds
`bounds` or `address`, that speed and memory are not those of a normal run.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from build_kernels import build, built, compiler

# What a kernel must hold if its checks were really compiled in.
MARKS = {"bounds": b"Out of bounds on buffer access", "address": b"__asan_"}
SETTINGS = {"bounds": {"DELTAIC_BOUNDSCHECK": "1"}, "address": {"DELTAIC_ASAN": "1"}}


def copy_sources(root: Path, target: Path) -> None:
    """Put a fresh copy of what `setup.py` needs into a folder, without anything that was compiled."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(root / name, target / name)
    unwanted = shutil.ignore_patterns("*.so", "*.pyd", "_*.c", "__pycache__", "*.egg-info")
    shutil.copytree(root / "src", target / "src", ignore=unwanted)


def sanitizer_libraries(gcc: str) -> list[str]:
    """The libraries to load before Python; empty where the compiler has no AddressSanitizer.

    libstdc++ is among them because the sanitizer looks for C++'s `throw` when it starts, and Python has none.
    """
    found = []
    for name in ("libasan.so", "libstdc++.so"):
        answer = subprocess.run([gcc, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
        if not Path(answer).is_absolute():
            return []
        found.append(answer)
    return found


def main() -> int:
    """Build a checked copy and run pytest on it."""
    check, arguments = sys.argv[1], sys.argv[3:]
    if check not in MARKS:
        raise SystemExit(f"{check}: one of {', '.join(MARKS)}")
    gcc = compiler()
    if gcc is None:
        print(f"skipped: no C compiler, so no kernels with {check} checks")
        return 0
    environment = os.environ | {"DELTAIC_CHECKED_KERNELS": check, "DELTAIC_PLAIN": "0"}
    if check == "address":
        libraries = sanitizer_libraries(gcc)
        if not libraries:
            print(f"skipped: {gcc} has no AddressSanitizer")
            return 0
        # Python's own allocator hands out pieces of large blocks, in which the sanitizer would see no edges.
        environment |= {
            "LD_PRELOAD": ":".join(libraries),
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1:hard_rss_limit_mb=4096",
            "PYTHONMALLOC": "malloc",
        }
    root = Path.cwd()
    target = root / "build" / f"checked-{check}"
    copy_sources(root, target)
    missing = build(target, SETTINGS[check])
    if missing:
        raise SystemExit(f"not compiled: {', '.join(source.stem for source in missing)}")
    sources = sorted((target / "src/deltaic/kernels").glob("_*.pyx"))
    marked = [source.stem for source in sources if MARKS[check] in built(target, source).read_bytes()]
    print(f"{check} checks are compiled into {len(marked)} of {len(sources)} kernels: {', '.join(marked)}")
    if not marked:
        raise SystemExit(f"no kernel has {check} checks")
    environment["PYTHONPATH"] = str(target / "src")
    where = "import deltaic; print(deltaic.__file__)"
    used = subprocess.run([sys.executable, "-c", where], env=environment, capture_output=True, text=True, check=True)
    if not Path(used.stdout.strip()).is_relative_to(target):
        raise SystemExit(f"tests would run on {used.stdout.strip()}, not on the checked copy")
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())

"""Compiles the kernels in place, and says what came of it.

An install without a compiler is quiet and works on plain kernels; so would be one whose kernel no longer compiles.
For people who work on deltaic the second must not pass unseen: here it fails, and the first only says so.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

KERNELS = Path("src/deltaic/kernels")


def compiler() -> str | None:
    """The C compiler that builds extensions, if there is one that can: it must work and find Python's headers."""
    words = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()
    found = shutil.which(words[0]) if words else None
    if found is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "trial.c"
        source.write_text("#include <Python.h>\nint trial(void) { return PY_VERSION_HEX; }\n")
        command = [found, *words[1:], f"-I{sysconfig.get_path('include')}", "-c", str(source), "-o", f"{source}.o"]
        works = subprocess.run(command, capture_output=True).returncode == 0 and Path(f"{source}.o").exists()
    return found if works else None


def built(root: Path, source: Path) -> Path:
    """Where the extension of a `.pyx` file goes."""
    return root / KERNELS / f"{source.stem}{sysconfig.get_config_var('EXT_SUFFIX')}"


def build(root: Path, extra_environment: dict[str, str]) -> list[Path]:
    """Compile every kernel under a source tree; return those that did not become an extension.

    Args:
        root: the folder with `setup.py`.
        extra_environment: settings of `setup.py`.
    """
    sources = sorted((root / KERNELS).glob("_*.pyx"))
    for source in sources:
        # An extension older than its source would be used for ever if the compiler fails today.
        extension = built(root, source)
        if extension.exists() and extension.stat().st_mtime < source.stat().st_mtime:
            extension.unlink()
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--parallel", "2"]
    finished = subprocess.run(command, cwd=root, env=os.environ | extra_environment, capture_output=True, text=True)
    missing = [source for source in sources if not built(root, source).exists()]
    if finished.returncode or (missing and compiler()):
        print(finished.stdout + finished.stderr, file=sys.stderr)
    if finished.returncode:
        raise SystemExit("the kernels did not build")
    return missing


def main() -> None:
    """Compile in place."""
    found = compiler()
    missing = build(Path.cwd(), {})
    names = ", ".join(source.stem.removeprefix("_") for source in missing)
    if missing and found:
        raise SystemExit(f"{found} could not compile: {names}")
    if missing:
        print(f"no working C compiler: plain kernels in place of {names}; slower, with the same results")
    else:
        print("kernels compiled")


if __name__ == "__main__":
    main()

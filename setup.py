"""Builds the compiled kernels. A missing compiler never fails an install: every extension is optional.

DELTAIC_KERNELS=bits,text builds only the named ones (`none` builds none); DELTAIC_BOUNDSCHECK=1 compiles Cython's
bounds checks in; DELTAIC_ASAN=1 builds for AddressSanitizer.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup

ROOT = Path(__file__).resolve().parent
KERNELS = ROOT / "src" / "deltaic" / "kernels"


def extensions() -> list[Extension]:
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    wanted = {name for name in os.environ.get("DELTAIC_KERNELS", "").split(",") if name}
    checked = os.environ.get("DELTAIC_BOUNDSCHECK") == "1"
    flags = ["-O3", "-fno-strict-aliasing"]
    link: list[str] = []
    if os.environ.get("DELTAIC_ASAN") == "1":
        flags += ["-fsanitize=address", "-fno-omit-frame-pointer", "-g"]
        link = ["-fsanitize=address"]
    modules = [
        Extension(
            f"deltaic.kernels.{source.stem}",
            [str(source.relative_to(ROOT))],
            extra_compile_args=flags,
            extra_link_args=link,
        )
        for source in sorted(KERNELS.glob("_*.pyx"))
        if not wanted or source.stem.removeprefix("_") in wanted
    ]
    directives = {
        "language_level": 3,
        "boundscheck": checked,
        "wraparound": False,
        "cdivision": True,
        "initializedcheck": checked,
        "freethreading_compatible": True,
    }
    if not modules:
        return []
    # Where processes are forked; elsewhere each would start by building again.
    workers = min(4, os.cpu_count() or 1) if sys.platform == "linux" and len(modules) > 1 else 0
    built = cythonize(modules, compiler_directives=directives, force=checked, quiet=True, nthreads=workers)
    for extension in built:
        extension.optional = True  # here, because cythonize makes new extensions and forgets it
    return built


setup(ext_modules=extensions())

"""The inner loops: compiled with Cython where a compiler was, plain NumPy where not.

`from deltaic.kernels import bits` gives the compiled module or its twin of `deltaic.kernels.plain`; both have the
same functions and the same results. Kernels do not check what they are given: callers check lengths first.
DELTAIC_PLAIN=1 in the environment takes the plain ones. Modules are imported on first use.
"""

import importlib
import importlib.util
import os
import warnings
from types import ModuleType
from typing import TYPE_CHECKING

NAMES = (
    "access",
    "append",
    "apply",
    "bits",
    "checksum",
    "crc",
    "hashing",
    "ingest",
    "keys",
    "manifest",
    "nearest",
    "ordinals",
    "records",
    "references",
    "renumber",
    "stream",
    "text",
    "vectors",
    "vectorsum",
)
"""The kernel modules."""

PLAIN_ASKED = os.environ.get("DELTAIC_PLAIN", "") not in ("", "0")
"""True if the environment asks for the plain kernels."""

_missing = [name for name in NAMES if importlib.util.find_spec(f"deltaic.kernels._{name}") is None]

COMPILED = not PLAIN_ASKED and not _missing
"""True if every kernel is the compiled one."""

if _missing and not PLAIN_ASKED:
    warnings.warn(
        f"deltaic runs on plain kernels ({', '.join(_missing)}): slower, with the same results. "
        "A C compiler at install time makes the compiled ones.",
        RuntimeWarning,
        stacklevel=2,
    )

if TYPE_CHECKING:
    from deltaic.kernels import _access as access
    from deltaic.kernels import _append as append
    from deltaic.kernels import _apply as apply
    from deltaic.kernels import _bits as bits
    from deltaic.kernels import _checksum as checksum
    from deltaic.kernels import _crc as crc
    from deltaic.kernels import _hashing as hashing
    from deltaic.kernels import _ingest as ingest
    from deltaic.kernels import _keys as keys
    from deltaic.kernels import _manifest as manifest
    from deltaic.kernels import _nearest as nearest
    from deltaic.kernels import _ordinals as ordinals
    from deltaic.kernels import _records as records
    from deltaic.kernels import _references as references
    from deltaic.kernels import _renumber as renumber
    from deltaic.kernels import _stream as stream
    from deltaic.kernels import _text as text
    from deltaic.kernels import _vectors as vectors
    from deltaic.kernels import _vectorsum as vectorsum


def __getattr__(name: str) -> ModuleType:
    if name not in NAMES:
        raise AttributeError(name)
    plain = PLAIN_ASKED or name in _missing
    module = importlib.import_module(f"deltaic.kernels.{'plain.' if plain else '_'}{name}")
    globals()[name] = module
    return module


__all__ = [
    "COMPILED",
    "NAMES",
    "PLAIN_ASKED",
    "access",
    "append",
    "apply",
    "bits",
    "checksum",
    "crc",
    "hashing",
    "ingest",
    "keys",
    "manifest",
    "nearest",
    "ordinals",
    "records",
    "references",
    "renumber",
    "stream",
    "text",
    "vectors",
    "vectorsum",
]

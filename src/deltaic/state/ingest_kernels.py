"""The ingest kernel, compiled or plain."""

import importlib
import importlib.util
from typing import TYPE_CHECKING

from deltaic.kernels import PLAIN_ASKED

if TYPE_CHECKING:
    from deltaic.kernels import _ingest as ingest
else:
    _plain = PLAIN_ASKED or importlib.util.find_spec("deltaic.kernels._ingest") is None
    ingest = importlib.import_module(f"deltaic.kernels.{'plain.' if _plain else '_'}ingest")

__all__ = ["ingest"]

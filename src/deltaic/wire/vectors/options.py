"""How a vector delta is made: what counts as a change, which format, which loss (vector-delta.md, "choosing")."""

import math
from dataclasses import dataclass, replace
from enum import IntEnum, IntFlag, StrEnum
from typing import Self

from deltaic.errors import InputError
from deltaic.wire.vectors.codecs import Packing


class Format(IntEnum):
    """The form of a message's payload, and of a frame's section."""

    SPARSE = 0
    DENSE = 1
    RUNS = 2
    DICTIONARY = 3


class Mode(IntEnum):
    """How values are stored: the number in bits 4 to 7 of the flags."""

    F32 = 0
    F16 = 1
    INT8 = 2
    INT4 = 3


class Flag(IntFlag):
    """The low bits of the flags byte."""

    HAS_PREV = 1
    QUANTIZED = 2
    COMPRESSED = 4
    RELATIVE = 8


class Selection(StrEnum):
    """How the format is chosen: the smallest, or by the thresholds."""

    SIZE = "size"
    RULES = "rules"


class Quantization(StrEnum):
    """What may be lost of the values that are sent."""

    NONE = "none"
    F16 = "f16"
    INT8 = "int8"
    INT4 = "int4"
    AUTO = "auto"


QUANTIZATION_NUMBERS = {name: number for number, name in enumerate(Quantization)}
"""The number of a quantization in kernels; the first four are those of `Mode`."""


class NonFinite(StrEnum):
    """What becomes of NaN and infinities in a new vector."""

    ALLOW = "allow"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class EncodeOptions:
    """Everything that an encoder may be told; the default is bit-exact and takes the smallest format."""

    epsilon: float = 0.0
    selection: Selection = Selection.SIZE
    sparse_threshold: float = 0.25
    dense_threshold: float = 0.75
    rle_threshold: float = 0.6
    min_run_length: int = 4
    quantization: Quantization = Quantization.NONE
    max_quant_error: float | None = None
    include_prev: bool = False
    relative: bool = False
    compression: Packing = Packing.NONE
    compress_min: int = 512
    level: int = 3
    """Of zstd and zlib."""
    non_finite: NonFinite = NonFinite.ALLOW

    def __post_init__(self) -> None:
        for name, kind in (
            ("selection", Selection),
            ("quantization", Quantization),
            ("compression", Packing),
            ("non_finite", NonFinite),
        ):
            try:
                object.__setattr__(self, name, kind(getattr(self, name)))
            except ValueError:
                known = ", ".join(kind)
                raise InputError(f"{name} {getattr(self, name)!r}: it is one of {known}") from None
        if not (math.isfinite(self.epsilon) and self.epsilon >= 0):
            raise InputError(f"epsilon {self.epsilon}: it is a finite number from 0")
        if self.quantization is Quantization.AUTO and not (
            self.max_quant_error is not None and self.max_quant_error >= 0
        ):
            raise InputError("quantization 'auto' needs max_quant_error, a number from 0")
        if self.min_run_length < 1:
            raise InputError(f"min_run_length {self.min_run_length}: it is at least 1")

    @classmethod
    def adr(cls) -> Self:
        """The numbers of ADR-DB-002: changes up to 1e-7 are dropped, and the thresholds decide."""
        return cls(epsilon=1e-7, selection=Selection.RULES)

    @property
    def lossy(self) -> bool:
        """True if a reader may end with other values than the writer has."""
        return self.epsilon > 0 or (not self.relative and self.quantization is not Quantization.NONE)

    @property
    def thresholds(self) -> tuple[float, float, float, int] | None:
        """The numbers of the rules; None if the size decides."""
        if self.selection is Selection.SIZE:
            return None
        return self.sparse_threshold, self.dense_threshold, self.rle_threshold, self.min_run_length

    @property
    def value_mode(self) -> int:
        """The kernels' number of the quantization that is in force."""
        return 0 if self.relative else QUANTIZATION_NUMBERS[self.quantization]

    @property
    def has_prev(self) -> bool:
        """True if previous values are written."""
        return self.include_prev and not self.relative

    def uncompressed(self) -> Self:
        """The same without compression."""
        return replace(self, compression=Packing.NONE)


DEFAULT_OPTIONS = EncodeOptions()
FRAME_OPTIONS = EncodeOptions(compression=Packing.ZSTD)
"""What batch frames are made with unless told otherwise."""

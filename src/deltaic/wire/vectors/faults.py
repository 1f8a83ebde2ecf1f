"""The errors of vector deltas: one name for each thing that can be wrong (vector-delta.md, "errors").

What is wrong with bytes is a `DecodeError`; what is wrong with a call (the base does not fit, there is no way back) is
an `InputError`. Both are `ValueError`s and carry the name as `code`.
"""

from deltaic.errors import ChecksumError, DecodeError, InputError, LimitError

CODES = frozenset(
    [
        "BadMagic",
        "UnsupportedVersion",
        "UnsupportedFormat",
        "UnsupportedCodec",
        "Truncated",
        "TrailingData",
        "LimitExceeded",
        "InvalidDims",
        "ChecksumMismatch",
        "InvalidFlags",
        "InvalidVarint",
        "IndexOrder",
        "IndexOutOfRange",
        "InvalidQuantization",
        "DecompressionFailed",
        "MalformedPayload",
        "MalformedFrame",
        "DuplicateRow",
        "UnknownDictionary",
        "StaleDictionary",
        "UnknownPattern",
        "DimensionMismatch",
        "BaseMismatch",
        "NotInvertible",
        "NotComposable",
        "NonFinite",
    ]
)
"""Every code that reading, making or applying a vector delta can end in."""

_CLASSES: dict[str, type[DecodeError]] = {"ChecksumMismatch": ChecksumError, "LimitExceeded": LimitError}


def fault(code: str, reason: str, at: str) -> DecodeError:
    """The error for bytes that cannot be."""
    return _CLASSES.get(code, DecodeError)(code, reason, at)


def misuse(code: str, reason: str) -> InputError:
    """The error for a call that cannot be."""
    return InputError(reason, code)

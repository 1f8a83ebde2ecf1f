"""What a reader of vector deltas accepts; checked before memory is taken."""

from dataclasses import dataclass

MAX_ENTRIES = 64
"""Buffers of one batch frame."""


@dataclass(frozen=True, slots=True)
class VectorLimits:
    """Bounds for messages, frames and dictionaries. Pass one to a reader to be stricter or laxer than the defaults."""

    max_message_bytes: int = 64 << 20
    """A message's payload, as stored and unpacked."""
    max_dims: int = 1 << 20
    max_frame_bytes: int = 1 << 30
    """A batch frame, as stored and with all of its buffers unpacked. Writers split long before."""


DEFAULT_VECTOR_LIMITS = VectorLimits()

"""Vector deltas: what changed between two versions of vectors, in bytes (vector-delta.md)."""

from deltaic.wire.vectors.algebra import compose_batch, inverse_batch
from deltaic.wire.vectors.batch import apply_batch, encode_batch, encode_frames, smaller_form
from deltaic.wire.vectors.bounds import DEFAULT_VECTOR_LIMITS, VectorLimits
from deltaic.wire.vectors.closed_loop import BatchWriter
from deltaic.wire.vectors.codecs import Packing
from deltaic.wire.vectors.delta import VectorDelta
from deltaic.wire.vectors.dictionary import Dictionary, KnownDictionaries, Pattern
from deltaic.wire.vectors.drift import Chain, RefreshOptions, VectorWriter
from deltaic.wire.vectors.encode import encode_delta, encode_message, refresh_message
from deltaic.wire.vectors.faults import CODES
from deltaic.wire.vectors.frame import Frame, Section
from deltaic.wire.vectors.frame_read import read_frame, read_frames
from deltaic.wire.vectors.message import Message, read_message, read_stream
from deltaic.wire.vectors.options import (
    DEFAULT_OPTIONS,
    FRAME_OPTIONS,
    EncodeOptions,
    Format,
    Mode,
    NonFinite,
    Quantization,
    Selection,
)
from deltaic.wire.vectors.upkeep import DictionaryKeeper, Publication

__all__ = [
    "CODES",
    "DEFAULT_OPTIONS",
    "DEFAULT_VECTOR_LIMITS",
    "FRAME_OPTIONS",
    "BatchWriter",
    "Chain",
    "Dictionary",
    "DictionaryKeeper",
    "EncodeOptions",
    "Format",
    "Frame",
    "KnownDictionaries",
    "Message",
    "Mode",
    "NonFinite",
    "Packing",
    "Pattern",
    "Publication",
    "Quantization",
    "RefreshOptions",
    "Section",
    "Selection",
    "VectorDelta",
    "VectorLimits",
    "VectorWriter",
    "apply_batch",
    "compose_batch",
    "encode_batch",
    "encode_delta",
    "encode_frames",
    "encode_message",
    "inverse_batch",
    "read_frame",
    "read_frames",
    "read_message",
    "read_stream",
    "refresh_message",
    "smaller_form",
]

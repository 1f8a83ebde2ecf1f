"""The indices of a delta as they are written: as gaps, or as heads of runs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.kernels import vectors
from deltaic.wire.vectors.options import Mode
from deltaic.wire.vectors.payload import uleb, ulebs

Words = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Heads:
    """What stands in front of the values, by format."""

    sparse: bytes
    runs: bytes
    dense: bytes


def runs_of(indices: Words) -> tuple[Words, Words]:
    """Where the runs of rising indices start, and how long they are."""
    if not len(indices):
        return indices, indices
    firsts = np.flatnonzero(np.diff(indices, prepend=indices[0]) != 1)
    lengths = np.diff(firsts, append=len(indices)).astype(np.uint32)
    return indices[firsts], lengths


def members(starts: Words, lengths: Words) -> Words:
    """The indices of runs, in order."""
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    places: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    return places.astype(np.uint32)


def write_heads(dims: int, starts: Words, lengths: Words) -> Heads:
    """The heads of all self-contained formats; their lengths decide which is the smallest."""
    indices = members(starts, lengths)
    dims_bytes = uleb(dims)
    gaps = starts.copy()
    gaps[1:] -= starts[:-1] + lengths[:-1]
    pairs = np.stack([gaps, lengths], axis=1).reshape(-1)
    return Heads(
        sparse=uleb(len(indices)) + dims_bytes + ulebs(np.diff(indices, prepend=np.uint32(0))),
        runs=uleb(len(starts)) + dims_bytes + ulebs(pairs),
        dense=dims_bytes,
    )


@dataclass(frozen=True, slots=True)
class PayloadSizes:
    """Bytes of a payload in each self-contained format."""

    sparse: int
    runs: int
    dense: int


def payload_sizes(dims: int, indices: Words, mode: Mode = Mode.F32, *, has_prev: bool = False) -> PayloadSizes:
    """How large the payload of a change would be, from the dimensions that changed alone."""
    heads = write_heads(dims, *runs_of(indices))
    prev = 4 if has_prev else 0
    # The identity has no block: it is written without a mode, whatever was asked for.
    few = vectors.block_size(len(indices), mode) + prev * len(indices) if len(indices) else 0
    whole = vectors.block_size(dims, mode) + prev * dims
    return PayloadSizes(len(heads.sparse) + few, len(heads.runs) + few, len(heads.dense) + whole)

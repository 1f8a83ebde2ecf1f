"""Records without a key, found by what they hold."""

import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.compare.content import ContentDigests
from deltaic.schema.model import Model
from deltaic.state.ingest import ingest_dicts
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState


def equal_records(model: Model, type_name: str, values: list[Any], state: ReadState | None) -> NDArray[np.int64]:
    """For each value the populated record of a type that reads the same, -1 where there is none."""
    if state is None or type_name not in state:
        return np.full(len(values), -1, np.int64)
    scratch = WriteState(model.schemas)
    ordinals = ingest_dicts(scratch, type_name, values, model=model)
    written = io.BytesIO()
    scratch.write_snapshot(written)
    wanted = ContentDigests(ReadState.load(written.getvalue())).of(type_name, ordinals.astype(np.int64))
    there = state.types[type_name].populated.ordinals()
    found = {
        tuple(digest): ordinal for digest, ordinal in zip(_rows(state, type_name, there), there.tolist(), strict=True)
    }
    return np.array([found.get(tuple(digest), -1) for digest in wanted.T.tolist()], np.int64)


def _rows(state: ReadState, type_name: str, ordinals: NDArray[np.int64]) -> list[Any]:
    digests: list[Any] = ContentDigests(state).of(type_name, ordinals).T.tolist()
    return digests

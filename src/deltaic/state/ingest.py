"""Records in: whole tables, by column, flattened into types, deduplicated and numbered at every level.

    ingest_arrow(state, "Movie", table, model=model)      anything with __arrow_c_stream__
    ingest_objects(state, "Movie", movies, model=model)   objects of the model's classes
    ingest_dicts(state, "Movie", rows, model=model)       dicts, as JSON has them

All give the ordinals of the rows, and all give the same ordinals as adding record by record, depth first, as Java's object
mapper does: for each row, for each field in schema order, first what it refers to, then the record itself.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.schema.model import Model
from deltaic.state.ingest_arrow import ArrowPlan, ArrowRows
from deltaic.state.ingest_columns import Column, read_batches
from deltaic.state.ingest_number import number_canonical, number_chunk
from deltaic.state.ingest_plan import Place, Plan, Planner
from deltaic.state.ingest_rows import Rows
from deltaic.state.write import WriteState

Ordinals = NDArray[np.int32]
Progress = Callable[[int], None]
"""Called after every chunk with the number of rows done."""

CHUNK_RECORDS = 1 << 17
"""Records of all types that a chunk has, about: their columns stay in the processor's caches."""

_FIRST_CHUNK_ROWS = 1 << 12


def ingest_arrow(
    state: WriteState,
    root_type: str,
    data: Any,
    *,
    model: Model | None = None,
    ignore_unknown: bool = False,
    progress: Progress | None = None,
    chunk_records: int = CHUNK_RECORDS,
) -> Ordinals:
    """Add the rows of an Arrow table, or of anything with `__arrow_c_stream__`; gives their ordinals.

    Args:
        state: where the records go.
        root_type: the OBJECT type that a row is.
        data: the rows.
        model: what the fields stand for beyond Hollow's types; None: what Hollow's types say.
        ignore_unknown: leave columns out that the type has no field for, instead of refusing them.
        progress: told the number of rows done, after every chunk.
        chunk_records: how many records are held in columns at a time, about.

    Raises:
        InputError: a value that cannot be kept, with column, row and value. Records before it were added.
    """
    planner = _planner(state, model)
    schema, batches = read_batches(data)
    builder = ArrowPlan(planner, ignore_unknown)
    root = builder.root(root_type, schema)
    plan = Plan.of(root)
    maker = ArrowRows(builder.children)
    return _run(state, plan, _arrow_chunks(root, maker, batches, chunk_records), progress)


def _arrow_chunks(root: Place, maker: ArrowRows, batches: Iterator[Column], chunk_records: int) -> Iterator[Rows]:
    first_row = 0
    size = min(_FIRST_CHUNK_ROWS, chunk_records)
    for batch in batches:
        start = 0
        while start < batch.length:
            part = slice(start, min(start + size, batch.length))
            rows = maker.root(root, batch, part, first_row)
            held = sum(each.count for each in rows.walk())
            yield rows
            first_row += rows.count
            start = part.stop
            size = max(1, chunk_records * rows.count // max(held, 1))


def _run(state: WriteState, plan: Plan, chunks: Iterator[Rows], progress: Progress | None) -> Ordinals:
    found: list[Ordinals] = []
    done = 0
    if state.order == "canonical":
        roots = list(chunks)
        number_canonical(state, roots)
        found = [rows.ordinals for rows in roots]
        done = sum(map(len, found))
        if progress is not None:
            progress(done)
    else:
        for rows in chunks:
            number_chunk(state, plan, rows)
            found.append(rows.ordinals)
            done += rows.count
            if progress is not None:
                progress(done)
    return np.concatenate(found) if found else np.zeros(0, np.int32)


def _planner(state: WriteState, model: Model | None) -> Planner:
    if model is None:
        return Planner(state.schemas, {})
    for schema in model.schemas:
        if state.schemas.get(schema.name) != schema:
            raise InputError(f"type {schema.name} of the model is not that of the write state", "TypeConflict")
    return Planner(state.schemas, model.logical)

"""Records in: whole tables, by column, flattened into types, deduplicated and numbered at every level.

    ingest_arrow(state, "Movie", table, model=model)      anything with __arrow_c_stream__
    ingest_objects(state, "Movie", movies, model=model)   objects of the model's classes
    ingest_dicts(state, "Movie", rows, model=model)       dicts, as JSON has them

All give the ordinals of the rows, and all give the same ordinals as adding record by record, depth first, as Java's
object mapper does: for each row, for each field in schema order, first what it refers to, then the record itself.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.schema.model import Model
from deltaic.state.ingest_arrow import ArrowPlan, ArrowRows
from deltaic.state.ingest_columns import Column, read_batches
from deltaic.state.ingest_fold import Fold, foldable_places
from deltaic.state.ingest_number import number_canonical, number_chunk
from deltaic.state.ingest_objects import ObjectRows, batched, refers_to_itself
from deltaic.state.ingest_plan import Place, Plan, Planner
from deltaic.state.ingest_records import number_records
from deltaic.state.ingest_rows import Rows
from deltaic.state.ingest_vectors import VectorSink, hand_over, vector_fields
from deltaic.state.write import WriteState

Ordinals = NDArray[np.int32]
Progress = Callable[[int], None]
"""Called after every chunk with the number of rows done."""

CHUNK_RECORDS = 1 << 18
"""Records of all types that a chunk has, about: their columns stay in the processor's caches."""

CHUNK_ROWS = 1 << 12
"""Objects or dicts that are turned into columns at a time."""

_FIRST_CHUNK_ROWS = 1 << 12


def ingest_arrow(
    state: WriteState,
    root_type: str,
    data: Any,
    *,
    model: Model | None = None,
    ignore_unknown: bool = False,
    progress: Progress | None = None,
    vectors: VectorSink | None = None,
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
        vectors: given the vectors of the records, chunk by chunk; None: there is no place for them.
        chunk_records: how many records are held in columns at a time, about.

    Raises:
        InputError: a value that cannot be kept, with column, row and value. Records before it were added.
    """
    maker, root = _arrow_root(state, root_type, read := read_batches(data), model, ignore_unknown, vectors)
    return _run(state, root, _arrow_chunks(root, maker, read[1], chunk_records), progress, vectors)


def ingest_objects(
    state: WriteState,
    root_type: str,
    objects: Iterable[Any],
    *,
    model: Model | None = None,
    progress: Progress | None = None,
    vectors: VectorSink | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Ordinals:
    """Add objects of the model's classes (dataclass, attrs, pydantic, msgspec, any with attributes); gives their
    ordinals.

    Args:
        state: where the records go.
        root_type: the OBJECT type that an object is.
        objects: the objects; what they refer to is read by attribute too.
        model: what the fields stand for; a model made of classes also checks the classes of the objects.
        progress: told the number of objects done, after every chunk.
        vectors: given the vectors of the records, chunk by chunk; None: there is no place for them.
        chunk_rows: how many objects are turned into columns at a time.

    Raises:
        InputError: a value that cannot be kept, with column, row and value. Records before it were added.
    """
    maker = ObjectRows(_planner(state, model, vectors), {} if model is None else model.classes)
    return _run_objects(state, root_type, maker, objects, progress, chunk_rows, vectors)


def ingest_dicts(
    state: WriteState,
    root_type: str,
    rows: Iterable[Mapping[str, Any]],
    *,
    model: Model | None = None,
    ignore_unknown: bool = False,
    progress: Progress | None = None,
    vectors: VectorSink | None = None,
    chunk_rows: int = CHUNK_ROWS,
) -> Ordinals:
    """Add dicts, guided by the schema, as JSON gives them; gives their ordinals.

    Missing keys are null. Dates, times, decimals and bytes (base64) may be texts. A map is an object, or a list of
    pairs or of `{"key": …, "value": …}`.

    Args:
        state: where the records go.
        root_type: the OBJECT type that a dict is.
        rows: the dicts.
        model: what the fields stand for beyond Hollow's types.
        ignore_unknown: leave keys out that a type has no field for, instead of refusing them.
        progress: told the number of rows done, after every chunk.
        vectors: given the vectors of the records, chunk by chunk; None: there is no place for them.
        chunk_rows: how many rows are turned into columns at a time.

    Raises:
        InputError: a value that cannot be kept, with column, row and value. Records before it were added.
    """
    maker = ObjectRows(_planner(state, model, vectors), as_json=True, ignore_unknown=ignore_unknown)
    return _run_objects(state, root_type, maker, rows, progress, chunk_rows, vectors)


class CanonicalIngest:
    """Collects all records of a cycle from several sources, then numbers them in canonical order.

    Canonical order needs every record of a type at once, so that one call of `ingest_arrow` and its like is a whole
    cycle. With more than one root type, or several tables, add them here and `finish`.
    """

    def __init__(self, state: WriteState, model: Model | None = None, vectors: VectorSink | None = None) -> None:
        if state.order != "canonical":
            raise InputError("the write state numbers records as they are given, not in canonical order", "Order")
        self._state, self._model, self._vectors = state, model, vectors
        self._sources: list[list[Rows]] = []

    def add_arrow(self, root_type: str, data: Any, *, ignore_unknown: bool = False) -> None:
        """Add the rows of an Arrow table; see `ingest_arrow`."""
        read = read_batches(data)
        maker, root = _arrow_root(self._state, root_type, read, self._model, ignore_unknown, self._vectors)
        if Plan.of(root) is None:
            raise InputError(f"type {root_type} refers to itself: it has no canonical order", "Recursive")
        self._sources.append(list(_arrow_chunks(root, maker, read[1], CHUNK_RECORDS)))

    def add_objects(self, root_type: str, objects: Iterable[Any]) -> None:
        """Add objects; see `ingest_objects`."""
        planner = _planner(self._state, self._model, self._vectors)
        maker = ObjectRows(planner, {} if self._model is None else self._model.classes)
        self._add(maker, root_type, objects)

    def add_dicts(self, root_type: str, rows: Iterable[Mapping[str, Any]], *, ignore_unknown: bool = False) -> None:
        """Add dicts; see `ingest_dicts`."""
        planner = _planner(self._state, self._model, self._vectors)
        maker = ObjectRows(planner, as_json=True, ignore_unknown=ignore_unknown)
        self._add(maker, root_type, rows)

    def finish(self) -> list[Ordinals]:
        """Number all records; gives the ordinals of the rows of every source, in the order in which they were added."""
        sources, self._sources = self._sources, []
        number_canonical(self._state, [rows for source in sources for rows in source])
        for source in sources:
            for rows in source:
                hand_over(rows, self._vectors)
        return [_joined([rows.ordinals for rows in source]) for source in sources]

    def _add(self, maker: ObjectRows, root_type: str, items: Iterable[Any]) -> None:
        if refers_to_itself(self._state.schemas, root_type):
            raise InputError(f"type {root_type} refers to itself: it has no canonical order", "Recursive")
        root = maker.root_place(root_type, whole=True)
        self._sources.append(list(_object_chunks(root, maker, items, CHUNK_ROWS)))


def _arrow_root(
    state: WriteState,
    root_type: str,
    read: tuple[Any, Iterator[Column]],
    model: Model | None,
    ignore_unknown: bool,
    vectors: VectorSink | None,
) -> tuple[ArrowRows, Place]:
    builder = ArrowPlan(_planner(state, model, vectors), ignore_unknown)
    root = builder.root(root_type, read[0])
    return ArrowRows(builder.children), root


def _arrow_chunks(root: Place, maker: ArrowRows, batches: Iterator[Column], chunk_records: int) -> Iterator[Rows]:
    first_row = 0
    size = max(1, min(_FIRST_CHUNK_ROWS, chunk_records))
    for batch in batches:
        start = 0
        while start < batch.length:
            part = slice(start, min(start + size, batch.length))
            rows = maker.root(root, batch, part, first_row)
            held = sum(each.count for each in rows.walk())
            yield rows
            first_row += rows.count
            start = part.stop
            size = max(1, chunk_records * rows.count // held)


def _object_chunks(root: Place, maker: ObjectRows, items: Iterable[Any], chunk_rows: int) -> Iterator[Rows]:
    first_row = 0
    for batch in batched(items, chunk_rows):
        yield maker.root(root, batch, first_row)
        first_row += len(batch)


def _run_objects(
    state: WriteState,
    root_type: str,
    maker: ObjectRows,
    items: Iterable[Any],
    progress: Progress | None,
    chunk_rows: int,
    vectors: VectorSink | None,
) -> Ordinals:
    recursive = refers_to_itself(state.schemas, root_type)
    root = maker.root_place(root_type, whole=not recursive)
    return _run(state, root, _object_chunks(root, maker, items, chunk_rows), progress, vectors, recursive=recursive)


def _run(
    state: WriteState,
    root: Place,
    chunks: Iterator[Rows],
    progress: Progress | None,
    vectors: VectorSink | None,
    *,
    recursive: bool = False,
) -> Ordinals:
    plan = None if recursive else Plan.of(root)
    if plan is not None and state.order == "canonical":
        roots = list(chunks)
        number_canonical(state, roots)
        for rows in roots:
            hand_over(rows, vectors)
        if progress is not None:
            progress(sum(rows.count for rows in roots))
        return _joined([rows.ordinals for rows in roots])
    folds = {number: Fold() for number in foldable_places(root)} if plan is not None else {}
    found: list[Ordinals] = []
    done = 0
    for rows in chunks:
        if plan is None:
            number_records(state, rows)
        else:
            number_chunk(state, plan, rows, folds)
        hand_over(rows, vectors)
        found.append(rows.ordinals)
        done += rows.count
        if progress is not None:
            progress(done)
    return _joined(found)


def _joined(found: list[Ordinals]) -> Ordinals:
    return np.concatenate(found) if found else np.zeros(0, np.int32)


def _planner(state: WriteState, model: Model | None, vectors: VectorSink | None) -> Planner:
    if model is None:
        return Planner(state.schemas, {})
    for schema in model.schemas:
        if state.schemas.get(schema.name) != schema:
            raise InputError(f"type {schema.name} of the model is not that of the write state", "TypeConflict")
    return Planner(state.schemas, model.logical, vector_fields(model), vectors is not None)

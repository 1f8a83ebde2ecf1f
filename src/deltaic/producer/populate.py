"""Populate: the records of a version go into the write state."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deltaic.producer.sources import ArrowRows, DictRows, Format, ObjectRows, RowSource, file_rows, row_sources
from deltaic.producer.vector_given import GivenVectors
from deltaic.schema.model import Model
from deltaic.state.ingest import CanonicalIngest, ingest_arrow, ingest_dicts, ingest_objects
from deltaic.state.read import ReadState
from deltaic.state.write import WriteState

Ordinals = NDArray[np.int32]
Progress = Callable[[str, int], None]
"""Told the type and how many of its rows were added so far."""


class Population:
    """What a populate function is given: everything that is added becomes part of the version.

    Args:
        write_state: the write state itself, for records that are added one by one.
        model: the model of the dataset.
        previous: the state of the version before; None in the first cycle.
        progress: told of rows as they are added.
        vectors: where the vectors of records go.
    """

    def __init__(
        self,
        write_state: WriteState,
        model: Model,
        previous: ReadState | None,
        progress: Progress | None = None,
        vectors: GivenVectors | None = None,
    ) -> None:
        self.write_state = write_state
        self.model = model
        self.previous = previous
        self._progress = progress
        self._rows: dict[str, int] = {}
        self.vectors = vectors or GivenVectors(model.vectors, {}, {})
        """The vectors that were given so far."""
        take = self.vectors.take
        self._canonical = CanonicalIngest(write_state, model, take) if write_state.order == "canonical" else None

    @property
    def rows(self) -> Mapping[str, int]:
        """Rows added so far, by type."""
        return self._rows

    def add(self, data: Any, type_name: str | None = None) -> None:
        """Add anything that holds rows: objects, dicts, Arrow, DataFrames, a Spark DataFrame, the path of a file."""
        for source in row_sources(data, self.model, type_name):
            self.add_rows(source)

    def add_objects(self, objects: Iterable[Any], type_name: str | None = None) -> None:
        """Add objects of the model's classes, which may be mixed."""
        for source in row_sources(objects, self.model, type_name):
            self.add_rows(source)

    def add_dicts(self, type_name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add dicts, as JSON has them."""
        self.add_rows(DictRows(type_name, rows))

    def add_arrow(self, type_name: str, data: Any) -> None:
        """Add the rows of anything with `__arrow_c_stream__`."""
        self.add_rows(ArrowRows(type_name, data))

    def add_file(self, type_name: str, path: str, file_format: Format | None = None) -> None:
        """Add the rows of a file; needs the extra `arrow` except for JSON."""
        self.add_rows(file_rows(path, type_name, file_format, model=self.model))

    def add_rows(self, source: RowSource) -> Ordinals | None:
        """Add the rows of one source; gives their ordinals, except in canonical order, where they are not known yet."""
        if self._canonical is not None:
            self._collect(self._canonical, source)
            return None
        state, name, done = self.write_state, source.type_name, self._counter(source.type_name)
        take = self.vectors.take
        match source:
            case ArrowRows():
                ordinals = ingest_arrow(state, name, source.data, model=self.model, progress=done, vectors=take)
            case DictRows():
                ordinals = ingest_dicts(state, name, source.rows, model=self.model, progress=done, vectors=take)
            case ObjectRows():
                ordinals = ingest_objects(state, name, source.objects, model=self.model, progress=done, vectors=take)
        return ordinals

    def finish(self) -> list[Ordinals]:
        """Number what was collected for canonical order; gives the ordinals of every source, in order."""
        return self._canonical.finish() if self._canonical is not None else []

    def _collect(self, canonical: CanonicalIngest, source: RowSource) -> None:
        match source:
            case ArrowRows():
                canonical.add_arrow(source.type_name, source.data)
            case DictRows():
                canonical.add_dicts(source.type_name, source.rows)
            case ObjectRows():
                canonical.add_objects(source.type_name, source.objects)

    def _counter(self, type_name: str) -> Callable[[int], None]:
        before = self._rows.get(type_name, 0)

        def done(rows: int) -> None:
            self._rows[type_name] = before + rows
            if self._progress is not None:
                self._progress(type_name, before + rows)

        return done

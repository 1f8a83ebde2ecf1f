"""Patches on the rows of a table: one commit, planned on the newest version and again if another writer came first.

The rows that patches are about become a small chain in memory, are patched there as records are, and come back as rows:
so a table takes what a chain takes, and a row is what the model says.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from deltaic.errors import InputError
from deltaic.producer.patch_records import PatchRules
from deltaic.producer.patching import PatchReport, patch
from deltaic.producer.producer import Producer
from deltaic.schema.model import Model
from deltaic.table.rows import Delete, Insert, Update
from deltaic.table.rows.editing import Edit
from deltaic.table.rows.equality import codes_of_both
from deltaic.table.rows.models import key_columns, table_columns
from deltaic.table.rows.reading import RowReader
from deltaic.table.rows.upserting import MergeClauses, key_predicate, plan_merge
from deltaic.table.rows.writing import WriteOptions
from deltaic.wire.patches import Operation, PatchBatch

_GONE = "__deltaic_gone"


class RowPatches:
    """Patches as the source of a merge; `report` tells what became of them in the last attempt."""

    def __init__(
        self, model: Model, type_name: str, batch: PatchBatch, rules: PatchRules, options: WriteOptions
    ) -> None:
        for group in batch.groups:
            if group.type_name != type_name:
                raise InputError(
                    f"the rows of the table are of type {type_name}: a patch of {group.type_name} has no place there",
                    "WrongType",
                )
        self._model, self._type_name, self._batch = model, type_name, batch
        self._rules, self._options = rules, options
        self._on = key_columns(model, type_name)
        if not self._on:
            raise InputError(f"type {type_name} has no key of columns to find its rows by", "NoKey")
        self.report: PatchReport | None = None

    def plan_merge(self, reader: RowReader, on: Sequence[str], clauses: MergeClauses) -> Edit:
        """Patch the rows of a version."""
        keys = self._keys(reader)
        before = self._rows(reader, keys)
        after = self._patched(before)
        source = _with_gone(before, after, self._on)
        names = [name for name in self._written(after.column_names) if name not in self._on]
        given = {name: _column(f"source.{name}") for name in after.column_names}
        own = MergeClauses(
            (Delete(where=_column(f"source.{_GONE}")), Update(set={name: given[name] for name in names})),
            (Insert(values=given),),
        )
        return plan_merge(reader, source, self._on, own, self._options)

    def _keys(self, reader: RowReader) -> Any:
        """The keys of all patches, each once, as the table has them."""
        tables = []
        for group in self._batch.groups:
            if len(group.keys) != len(self._on):
                shown = ", ".join(self._on)
                raise InputError(f"a patch of {self._type_name} needs its key ({shown})", "BadKey")
            columns = [
                _typed(key.to_list(), reader.schema.column(name).type, name)
                for key, name in zip(group.keys, self._on, strict=True)
            ]
            tables.append(pa.table(columns, names=list(self._on)))
        return pa.concat_tables(tables).group_by(list(self._on)).aggregate([]).select(list(self._on))

    def _rows(self, reader: RowReader, keys: Any) -> Any:
        names = [field.name for field in table_columns(self._model, self._type_name)]
        known = [name for name in names if name in reader.schema.arrow.names]
        tables = [reader.schema.arrow.empty_table().select(known)]
        for add in reader.files_of(key_predicate(keys, self._on)):
            rows = reader.read(add)
            wanted, there = codes_of_both(keys, rows, self._on)
            chosen = np.isin(there, wanted)
            if chosen.any():
                tables.append(rows.filter(pa.array(chosen)).select(known))
        return pa.concat_tables(tables)

    def _patched(self, before: Any) -> Any:
        with Producer("memory:", self._model, integrity="off", header_file=False) as producer:
            producer.publish(before, type_name=self._type_name)
            self.report = patch(producer, self._batch, rules=self._rules)
            state = producer.state
            if state is None or self._type_name not in state:
                return before.slice(0, 0)
            made = pa.table(state[self._type_name].to_arrow(fields=before.column_names))
        columns = [
            made.column(field.name).cast(field.type)
            if made.schema.field(field.name).type != field.type
            else made.column(field.name)
            for field in before.schema
        ]
        return pa.table(columns, schema=before.schema)

    def _written(self, names: Sequence[str]) -> list[str]:
        """The columns that a patch may change: all of them if whole records are put."""
        if any(group.operation is Operation.PUT for group in self._batch.groups):
            return list(names)
        heads = {str(group.path).split(".")[0].split("[")[0].split("{")[0] for group in self._batch.groups}
        return [name for name in names if name in heads]


def _with_gone(before: Any, after: Any, on: Sequence[str]) -> Any:
    """The rows after all patches, and those that are gone, which are told apart by a column."""
    old, new = codes_of_both(before, after, on)
    gone = before.filter(pa.array(~np.isin(old, new)))
    whole = pa.concat_tables([after, gone])
    flags = np.zeros(whole.num_rows, np.bool_)
    flags[after.num_rows :] = True
    return whole.append_column(_GONE, pa.array(flags))


def _column(name: str) -> Any:
    return lambda rows: rows.column(name)


def _typed(values: list[Any], kind: Any, name: str) -> Any:
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
        try:
            return pa.array(values).cast(kind)
        except (pa.ArrowException, TypeError) as error:
            raise InputError(f"a key of a patch is no {kind} for column {name}: {error}", "BadKey") from error

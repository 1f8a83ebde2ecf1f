"""Changed records as Arrow rows: the kind of change, and the record before and after as structs."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from deltaic.binary.arrow import ArrowColumn, ArrowField, ArrowTable, struct_column
from deltaic.state.arrow import BATCH_ROWS, CIRCLE_DEPTH, refers_to_itself, to_arrow
from deltaic.state.columns import InvalidText, Rows
from deltaic.state.read import ReadState
from deltaic.state.records import records_of

Ordinals = NDArray[np.int64]


def changes_to_arrow(
    type_name: str,
    kinds: list[tuple[str, int]],
    sides: tuple[tuple[ReadState, Ordinals], tuple[ReadState, Ordinals]],
    *,
    depth: int | None,
    on_invalid_text: InvalidText,
) -> ArrowTable:
    """Rows with the columns `change`, `before` and `after`; a side on which the record is not is null.

    Args:
        type_name: the type of the records.
        kinds: the kinds of change in order, each with its number of rows.
        sides: for each side its state and the ordinal of each row, -1 for none. A state without the type has no column.
        depth: how many references to follow; None follows all, of types that refer to themselves a few.
        on_invalid_text: what to do with lone surrogates.
    """
    tables = []
    for name, (state, ordinals) in zip(("before", "after"), sides, strict=True):
        if type_name in state:
            records = records_of(state)
            deep = CIRCLE_DEPTH if depth is None and refers_to_itself(records, type_name) else depth
            rows = Rows(len(ordinals), ordinals=ordinals)
            table = to_arrow(records, type_name, rows, depth=deep, on_invalid_text=on_invalid_text)
            tables.append((name, ordinals, table))
    fields = [ArrowField(name, "+s", True, table.field.children) for name, _, table in tables]
    kind = ArrowField("", "+s", False, (ArrowField("change", "u", False), *fields))
    count = sum(number for _, number in kinds)
    words = np.repeat(np.arange(len(kinds)), [number for _, number in kinds])

    def batches() -> Iterator[ArrowColumn]:
        for number, parts in enumerate(zip(*(table.batches() for _, _, table in tables), strict=True)):
            here = slice(number * BATCH_ROWS, number * BATCH_ROWS + parts[0].length)
            columns = [_words([name for name, _ in kinds], words[here])]
            for (_, ordinals, _), field, part in zip(tables, fields, parts, strict=True):
                columns.append(replace(part, field=field, valid=ordinals[here] >= 0))
            yield replace(struct_column("", tuple(columns), parts[0].length), field=kind)

    return ArrowTable(kind, count, batches)


def _words(names: list[str], numbers: NDArray[np.int64]) -> ArrowColumn:
    data = [name.encode() for name in names]
    lengths = np.array([len(each) for each in data], np.int64)
    one = ArrowColumn(
        ArrowField("change", "u", False),
        len(names),
        data=np.frombuffer(b"".join(data), np.uint8),
        offsets=np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))),
    )
    return one.take(numbers)

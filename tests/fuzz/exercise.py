"""Every use of a state that reaches its packed bits, so that a kernel would crash on what a load let through."""

import nanoarrow

from deltaic.errors import InputError
from deltaic.schema.types import ObjectSchema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.dump import dump_records, dump_state
from deltaic.state.read import ReadState
from deltaic.state.view import TypeView

MOST_ORDINALS = 200
"""Holes are read too, but a type may claim any number of them."""

MOST_RECORDS = 5
"""Records that are read one by one, of each type."""

MOST_FIELDS = 40
"""Fields that are read as columns, of each type."""

DEPTH = 3
"""References that are followed. Damaged references can lead in circles, whose content has no end."""


def use(state: ReadState) -> None:
    """Read all records, ghosts and holes of a state in every way there is."""
    repr(state)
    state.checksum()
    dump_state(state)
    for name, data in state.types.items():
        dump_records(data, data.pending)
        slots = min((shard.max_ordinal + 1) * len(data.shards) for shard in data.shards)
        below = OrdinalSet.all_below(min(slots, MOST_ORDINALS))
        dump_records(data, below)
        _use_columns(state[name], below)
        _use_records(state[name])


def _use_columns(view: TypeView, below: OrdinalSet) -> None:
    for ordinals in (None, below.ordinals()[::-1].copy(), view.ghosts.ordinals()):
        if isinstance(view.schema, ObjectSchema):
            for field in view.schema.fields[:MOST_FIELDS]:
                view.column(field.name, ordinals)
        else:
            view.members(ordinals)
    rows = view.to_arrow(depth=DEPTH, on_invalid_text="replace")
    nanoarrow.ArrayStream(rows).read_all()


def _use_records(view: TypeView) -> None:
    chosen = view.populated.union(view.ghosts).ordinals()
    for ordinal in chosen[:: max(1, len(chosen) // MOST_RECORDS)].tolist():
        record = view[ordinal]
        repr(record)
        hash(record)
        if not isinstance(view.schema, ObjectSchema):
            list(record)
        try:
            record.to_python(max_depth=DEPTH)
        except InputError as error:
            # Sound records can go deeper too; anything else is a fault.
            assert error.code == "TooDeep"

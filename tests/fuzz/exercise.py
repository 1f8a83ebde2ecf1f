"""Every use of a state that reaches its packed bits, so that a kernel would crash on what a load let through."""

from deltaic.state.bitset import OrdinalSet
from deltaic.state.dump import dump_records, dump_state
from deltaic.state.read import ReadState

MOST_ORDINALS = 2_000
"""Holes are read too, but a type may claim any number of them."""


def use(state: ReadState) -> None:
    """Read all records, ghosts and holes of a state in every way there is."""
    repr(state)
    state.checksum()
    dump_state(state)
    for data in state.types.values():
        dump_records(data, data.pending)
        slots = min((shard.max_ordinal + 1) * len(data.shards) for shard in data.shards)
        dump_records(data, OrdinalSet.all_below(min(slots, MOST_ORDINALS)))

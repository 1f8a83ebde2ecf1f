"""The vector columns of a step: from the vector part beside a blob to a state with its vectors.

A blob has its part if the announcement lists one beside it. Without one (the chain of a Java producer, or of one that
has no vectors) the state has no vectors, and `missing_vectors` says which columns are known to be missing: those that
the state before had, and those that the part goes on from while this consumer never had them. A column that is missing
comes back with the next part that has it whole: a snapshot's.
"""

from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from deltaic.errors import DecodeError
from deltaic.limits import Limits
from deltaic.state.filter import Filter
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobName
from deltaic.vector.names import part_name
from deltaic.vector.part import VectorPart, apply_part, read_part

ColumnKey = tuple[str, str]
"""Type and field of a vector column."""

_missing: "WeakKeyDictionary[ReadState, frozenset[ColumnKey]]" = WeakKeyDictionary()


def missing_vectors(state: ReadState) -> frozenset[ColumnKey]:
    """Vector columns that the chain is known to have, or to have had, and that this state lacks."""
    return _missing.get(state, frozenset())


def note_missing(state: ReadState, columns: Iterable[ColumnKey]) -> ReadState:
    """The state, of which it is known from now on that it lacks these columns."""
    lacking = frozenset(columns) - state.vectors.keys()
    if lacking:
        _missing[state] = lacking
    return state


def with_part(
    before: ReadState | None,
    state: ReadState,
    step: BlobName,
    data: memoryview | None,
    known: Iterable[ColumnKey],
    limits: Limits,
    *,
    check: bool = True,
) -> ReadState:
    """A state that a blob led to, with the vectors of the part beside the blob.

    Args:
        before: the state that the blob started at; None for a snapshot.
        state: the state after it, without vectors.
        step: the blob.
        data: the bytes of its part; None if it has none.
        known: columns that the consumer had, or missed, up to now.
        limits: bounds on what the bytes may ask for.
        check: compare the columns with the checksums that their producer noted; False if the file was compared.

    Raises:
        DecodeError: the part is damaged, or belongs to another blob.
    """
    if data is None:
        return note_missing(state, (key for key in known if keeps_column(state, key)))
    name = part_name(step)
    try:
        part = read_part(data, limits=limits, name=name)
        wanted = [key for key in columns_in(part) if keeps_column(state, key)]
        made = apply_part(
            part,
            None if before is None else before.vectors,
            {name: one.populated for name, one in state.types.items()},
            tag=state.tag,
            origin_tag=None if before is None else before.tag,
            columns=wanted,
            limits=limits,
            name=name,
            check=check,
        )
    except DecodeError as error:
        at = error.at if error.at.startswith(name) else f"{name}, {error.at}"
        raise type(error)(error.code, error.reason, at) from error
    return note_missing(state.with_vectors(made), wanted)


def step_checksum(step: BlobName, checksums: Mapping[str, str]) -> str | None:
    """What tells the files of a step from others of the same names: the checksums of its blob and of its part."""
    blob, part = checksums.get(str(step)), checksums.get(part_name(step))
    return blob if blob is None or part is None else f"{blob}+{part}"


def columns_in(part: VectorPart) -> list[ColumnKey]:
    """The columns that a part has, kept or not."""
    return [reader.head.key for reader in part.columns()]


def keeps_column(state: ReadState, key: ColumnKey) -> bool:
    """True if a column of a type is wanted beside the records of a state."""
    return key[0] in state.types and keeps_vectors(state.filter, key, state)


def keeps_vectors(filter: Filter | None, key: ColumnKey, state: ReadState) -> bool:
    """True if a filter leaves a vector column."""
    return filter is None or filter.keeps_vectors(*key, state.schemas)

"""The vector columns of a step: from the vector part beside a blob to a state with its vectors.

A blob has its part if the announcement lists one beside it. Without one (the chain of a Java producer, or of one that
has no vectors) the state has no vectors, and `missing_vectors` says which columns are known to be missing: those that
the header of the blob names, and those that the state before had. A column that is missing comes back with the next
part that has it whole: a snapshot's.
"""

from collections.abc import Iterable, Mapping
from weakref import WeakKeyDictionary

from deltaic.errors import DecodeError
from deltaic.limits import Limits
from deltaic.state.ghost_vectors import with_ghosts
from deltaic.state.read import ReadState
from deltaic.storage.chain import BlobName
from deltaic.vector.attach import missing_columns, with_vectors
from deltaic.vector.names import part_name
from deltaic.vector.part import VectorPart, read_part
from deltaic.vector.storage import VECTORS_TAG, read_vectors_tag

ColumnKey = tuple[str, str]
"""Type and field of a vector column."""

_lost: "WeakKeyDictionary[ReadState, frozenset[ColumnKey]]" = WeakKeyDictionary()


def missing_vectors(state: ReadState) -> frozenset[ColumnKey]:
    """Vector columns that the chain is known to have, or to have had, and that this state lacks."""
    named = frozenset(note.key for note in missing_columns(state) if keeps_column(state, note.key))
    return named | _lost.get(state, frozenset())


def note_missing(state: ReadState, columns: Iterable[ColumnKey]) -> ReadState:
    """The state, of which it is known from now on that it lacks these columns."""
    lacking = frozenset(key for key in columns if key not in state.vectors and keeps_column(state, key))
    if lacking:
        _lost[state] = lacking
    return state


def wants_part(state: ReadState) -> bool:
    """True unless the header of a state's blob says that nothing of its vector part is wanted here."""
    if VECTORS_TAG not in state.header_tags:
        return True
    notes = read_vectors_tag(state.header_tags)
    return any(note.form == "part" and keeps_column(state, note.key) for note in notes)


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
    """A state that a blob led to, with the vectors of the part beside the blob, or of its own records.

    Args:
        before: the state that the blob started at; None for a snapshot.
        state: the state after it, without vectors.
        step: the blob.
        data: the bytes of its part; None if it has none, or nothing of it is wanted.
        known: columns that the consumer had, or missed, up to now; they count where the blob's header names none.
        limits: bounds on what the bytes may ask for.
        check: compare the columns with the checksums that their producer noted; False if the file was compared.

    Raises:
        DecodeError: the part is damaged, or belongs to another blob.
    """
    name = part_name(step)
    try:
        part = None if data is None else read_part(data, limits=limits, name=name)
        has = [] if part is None else columns_in(part)
        named = [note.key for note in read_vectors_tag(state.header_tags)]
        wanted = None if state.filter is None else [key for key in (*has, *named) if keeps_column(state, key)]
        made = with_vectors(state, before, part, columns=wanted, limits=limits, name=name, check=check)
    except DecodeError as error:
        at = error.at if error.at.startswith(name) else f"{name}, {error.at}"
        raise type(error)(error.code, error.reason, at) from error
    if before is not None and made.vectors:
        made = made.with_vectors(
            {
                key: with_ghosts(before.vectors.get(key), column, made.types[key[0]].pending)
                for key, column in made.vectors.items()
            }
        )
    told = data is not None or VECTORS_TAG in state.header_tags
    return note_missing(made, has if told else known)


def step_checksum(step: BlobName, checksums: Mapping[str, str]) -> str | None:
    """What tells the files of a step from others of the same names: the checksums of its blob and of its part."""
    blob, part = checksums.get(str(step)), checksums.get(part_name(step))
    return blob if blob is None or part is None else f"{blob}+{part}"


def columns_in(part: VectorPart) -> list[ColumnKey]:
    """The columns that a part has, wanted or not."""
    return [reader.head.key for reader in part.columns()]


def keeps_column(state: ReadState, key: ColumnKey) -> bool:
    """True if a vector column is wanted beside the records of a state."""
    return key[0] in state.types and (state.filter is None or state.filter.keeps_vectors(*key, state.schemas))

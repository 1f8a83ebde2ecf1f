"""Vector parts of a version: encoded, staged beside its blobs, read back and compared before they count."""

import mmap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deltaic.binary.cursor import ReadableBuffer
from deltaic.errors import ChecksumError
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.producer.attachments import StagedFile
from deltaic.producer.encode import Spool
from deltaic.producer.integrity import Integrity
from deltaic.producer.reading import read_stored
from deltaic.producer.stage import STAGING
from deltaic.producer.vector_step import VectorStep, moved_vectors, steps_forward
from deltaic.schema.model import Model
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.source import Source
from deltaic.state.vector_column import StoredVectors
from deltaic.storage.announced import AnnouncedVersion, Artifact
from deltaic.storage.chain import BlobKind, BlobName
from deltaic.storage.store import Store
from deltaic.vector.attach import with_vectors
from deltaic.vector.layout import PartHeader
from deltaic.vector.names import VECTOR_KIND, part_name
from deltaic.vector.part import ColumnKey, apply_part, delta_pieces, snapshot_pieces
from deltaic.vector.part_write import part_pieces
from deltaic.vector.storage import VectorStorage, read_vectors_tag


class EncodedPart(Spool):
    """The bytes of a vector part before they are stored."""

    def __init__(self, blob: BlobName, pieces: Iterable[bytes]) -> None:
        self.name = part_name(blob)
        self.blob = blob
        super().__init__(self.name)
        for piece in pieces:
            self.write(memoryview(piece))

    @property
    def artifact(self) -> Artifact:
        """What the announcement says of it."""
        return Artifact(VECTOR_KIND, self.name, self.size_bytes, self.checksum)

    def stage(self, store: Store, cycle_id: str) -> StagedFile:
        """Write it into the staging folder."""
        key = staged_key(cycle_id, self.name)
        store.put_chunks(key, self.chunks())
        return StagedFile(self.name, key, self.artifact)


def staged_key(cycle_id: str, name: str) -> str:
    """Where a part is while it is staged."""
    return f"{STAGING}/{cycle_id}/{name}"


def encode_parts(
    kinds: Iterable[BlobName],
    step: VectorStep,
    previous: ReadState | None,
    state: ReadState,
    storages: Mapping[ColumnKey, VectorStorage],
) -> dict[BlobKind, EncodedPart]:
    """The parts of a version, one for each of these blobs that leads to a state with vectors in parts."""
    options = {key: storage.options for key, storage in storages.items()}
    before: Mapping[ColumnKey, StoredVectors] = {} if previous is None else previous.vectors
    made: dict[BlobKind, EncodedPart] = {}
    for blob in kinds:
        if not (_in_parts(previous) if blob.kind is BlobKind.REVERSE_DELTA else step.columns):
            continue
        match blob.kind:
            case BlobKind.SNAPSHOT:
                pieces = snapshot_pieces(step.columns, state.tag, options=options)
            case BlobKind.DELTA:
                assert previous is not None
                steps = steps_forward(step, before, _populated(state), storages)
                pieces = part_pieces(PartHeader(True, len(steps), previous.tag, state.tag), steps)
            case BlobKind.REVERSE_DELTA:
                assert previous is not None
                moves = {name: each.reversed() for name, each in step.moves.items()}
                back = state.tag, previous.tag, _populated(previous)
                pieces = delta_pieces(step.columns, _in_parts(previous), moves, *back, options=options)
            case _:
                continue
        made[blob.kind] = EncodedPart(blob, pieces)
    return made


def parts_between(steps: Iterable[tuple[BlobName, ReadState, ReadState]], model: Model) -> list[EncodedPart]:
    """The parts of deltas between states that are known: of each delta its name, where it starts and where it leads."""
    made = []
    for blob, before, after in steps:
        held, wanted = _in_parts(before), _in_parts(after)
        if wanted:
            types = {type_name for type_name, _ in (*held, *wanted)}
            moves = {name: moved_vectors(model, name, before, after) for name in types}
            tags = before.tag, after.tag, _populated(after)
            made.append(EncodedPart(blob, delta_pieces(before.vectors, wanted, moves, *tags)))
    return made


def check_parts(
    store: Store,
    staged: Mapping[BlobKind, StagedFile | EncodedPart],
    step: VectorStep,
    previous: ReadState | None,
    state: ReadState,
    *,
    level: Integrity,
    limits: Limits = DEFAULT_LIMITS,
) -> ReadState:
    """Read the parts of a version back and compare what they lead to; gives the state with its vectors.

    Raises:
        ChecksumError: a part does not lead to the columns that were made, or not back to those before.
    """
    state = state.with_vectors(step.columns)
    if level == "off":
        return _with_bytes(state, previous)
    before = {} if previous is None else dict(previous.vectors)
    tag, previous_tag = state.tag, None if previous is None else previous.tag
    for kind, file in staged.items():
        with read_back(store, file) as data:
            reverse = kind is BlobKind.REVERSE_DELTA
            made = apply_part(
                data,
                None if kind is BlobKind.SNAPSHOT else step.columns if reverse else before,
                _populated(previous if reverse and previous is not None else state),
                tag=previous_tag or 0 if reverse else tag,
                origin_tag=None if kind is BlobKind.SNAPSHOT else tag if reverse else previous_tag,
                limits=limits,
                name=file.name,
            )
            _compare(made, _in_parts(previous) if reverse else step.columns, file.name)
            if kind is BlobKind.DELTA:
                state = state.with_vectors(made)
    return _with_bytes(state, previous)


def read_vectors(
    store: Store,
    entry: AnnouncedVersion | None,
    blob: BlobName,
    before: ReadState | None,
    state: ReadState,
    *,
    limits: Limits = DEFAULT_LIMITS,
) -> ReadState:
    """The state of a stored blob with its vector columns; without those whose part is not there."""
    name = part_name(blob)
    artifact = None if entry is None else entry.artifact(name)
    if artifact is None:
        return with_vectors(state, before, None, limits=limits, name=name)
    with read_stored(store, name, artifact, limit_bytes=limits.max_blob_bytes) as source, mapped(source) as data:
        return with_vectors(state, before, data, limits=limits, name=name)


@contextmanager
def read_back(store: Store, file: StagedFile | EncodedPart) -> Iterator[ReadableBuffer]:
    """The bytes of a part as the store has them, or before it has them."""
    if isinstance(file, EncodedPart):
        yield file.read()
        return
    with read_stored(store, file.key, file.artifact, limit_bytes=file.artifact.size) as source, mapped(source) as data:
        yield data


@contextmanager
def mapped(source: Source) -> Iterator[ReadableBuffer]:
    """The bytes of a source; of a file they stay there, and are read where they are needed."""
    if not isinstance(source, str | Path):
        assert isinstance(source, bytes | bytearray | memoryview | mmap.mmap)
        yield source
        return
    with open(source, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _compare(made: Mapping[ColumnKey, StoredVectors], wanted: Mapping[ColumnKey, StoredVectors], name: str) -> None:
    for key in {*made, *wanted}:
        if key not in made or key not in wanted or not made[key].same_as(wanted[key]):
            raise ChecksumError("Integrity", f"vector column {key} is not what was published", name)


def _in_parts(state: ReadState | None) -> Mapping[ColumnKey, StoredVectors]:
    """The columns that a version has in its parts, not in its records."""
    if state is None:
        return {}
    inside = {note.key for note in read_vectors_tag(state.header_tags) if note.form == "bytes"}
    return {key: column for key, column in state.vectors.items() if key not in inside}


def _with_bytes(state: ReadState, previous: ReadState | None) -> ReadState:
    """The columns that are bytes of records, beside those of parts."""
    found = with_vectors(state.with_vectors({}), previous, None)
    return state.with_vectors({**found.vectors, **state.vectors}) if found.vectors else state


def _populated(state: ReadState) -> dict[str, OrdinalSet]:
    return {name: data.populated for name, data in state.types.items()}

"""The chain patcher: deltas between any two states, to bridge a chain that is broken.

Two states that do not follow each other may have different records at one ordinal, and a delta cannot replace a record
in place. So the way goes over a state in between, which holds the content of the second one: records whose ordinal is
taken in the first state wait there at ordinals that neither state uses, and so do all records that refer to them.
"""

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import ChainError, ChecksumError, CommitUnknownError, InputError
from deltaic.kernels import ordinals as ordinal_kernels
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.producer.attachments import StagedFile
from deltaic.producer.encode import EncodedBlob
from deltaic.producer.holding import LeaseHolder
from deltaic.producer.moving import Ordinals, refers_to_moved, serialize_moved
from deltaic.producer.publish import Publication
from deltaic.producer.restoring import load_version
from deltaic.producer.stage import StagedBlob, stage, unstage
from deltaic.producer.vector_parts import EncodedPart, parts_between, read_back
from deltaic.schema.model import Model
from deltaic.state.bitset import OrdinalSet
from deltaic.state.read import ReadState
from deltaic.state.restore import RestoredType
from deltaic.state.vector_column import StoredVectors
from deltaic.state.write import WriteState
from deltaic.storage.announced import MAIN, AnnouncedVersion, encode_version, version_name
from deltaic.storage.announcement import Announcements
from deltaic.storage.chain import BlobKind, BlobName, Chain
from deltaic.storage.store import Store

_NOTHING = OrdinalSet(np.zeros(0, np.uint64))


@dataclass(frozen=True, slots=True)
class Patch:
    """The deltas that lead from one version to another."""

    from_version: int
    to_version: int
    through_version: int | None
    """The version in between; None if one delta was enough."""
    blobs: tuple[str, ...]
    size_bytes: int


def patch_chain(
    store: Store,
    from_version: int,
    to_version: int,
    *,
    through_version: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
    lease_seconds: float = 60.0,
) -> Patch:
    """Publish deltas, both ways, between two versions of a chain that have a snapshot or deltas to be loaded by.

    Args:
        store: the folder of the chain.
        from_version: where consumers are stuck.
        to_version: where they should get to; larger.
        through_version: the number of the version in between; one that is free by default.
        limits: bounds on the blobs that are read.
        lease_seconds: how long the lease is taken for.

    Raises:
        ChainError: a delta leads on from the first version already, or no number is free between the two.
        CommitConflictError: a producer is at work.
    """
    if from_version >= to_version:
        raise InputError(f"version {to_version} is not newer than {from_version}")
    announcements = Announcements(store)
    lease = LeaseHolder(announcements, ttl_seconds=lease_seconds)
    lease.take()
    try:
        chain = Chain.read(store)
        if from_version in chain.deltas:
            raise ChainError(f"a delta leads from version {from_version} to {chain.deltas[from_version]} already")
        before = load_version(store, announcements, from_version, limits=limits)
        after = load_version(store, announcements, to_version, limits=limits)
        through = _free_version(chain, from_version, to_version) if through_version is None else through_version
        blobs, used = bridge(before, after, from_version, through, to_version)
        wanted = [blob for blob in blobs if not _is_there(chain, blob.name)]
        parts = _vector_parts(before, after, blobs, wanted)
        lease.keep()
        _publish(store, announcements, wanted, parts, used, lease.epoch)
        return Patch(
            from_version,
            to_version,
            used,
            (*(str(blob.name) for blob in wanted), *(part.name for part in parts)),
            sum(each.size_bytes for each in (*wanted, *parts)),
        )
    finally:
        lease.release()


def bridge(
    before: ReadState, after: ReadState, from_version: int, through_version: int | None, to_version: int
) -> tuple[list[EncodedBlob], int | None]:
    """The deltas from one state to another, checked; and the version in between, if one was needed."""
    writer = WriteState(after.schemas, tag=after.tag)
    writer.restore(before, exact=True)
    writer.set_tag(after.tag)
    moves = _detours(before, after)
    blobs: list[EncodedBlob] = []
    used = None
    if moves:
        used = through_version
        if used is None:
            raise ChainError(f"no version number is free between {from_version} and {to_version}")
        writer.set_tag(None)
        _copy_tags(writer, after)
        for name, data in after.types.items():
            _build(writer, before, after, name, moves)
            _set_populated(writer, name, _through(data.populated, moves.get(name)))
        blobs += _written(writer, from_version, used)
        through = before.apply(blobs[0].read())
        writer.next_cycle(after.tag)
        for name, data in after.types.items():
            waiting = _waiting(moves.get(name))
            if len(waiting):
                _put(writer, after, name, waiting, {})
            _set_populated(writer, name, data.populated)
        _copy_tags(writer, after)
        blobs += _written(writer, used, to_version)
        _check(through.apply(blobs[2].read()), after)
    else:
        _copy_tags(writer, after)
        for name, data in after.types.items():
            _build(writer, before, after, name, {})
            _set_populated(writer, name, data.populated)
        blobs += _written(writer, from_version, to_version)
        _check(before.apply(blobs[0].read()), after)
    return blobs, used


def _vector_parts(
    before: ReadState, after: ReadState, blobs: list[EncodedBlob], wanted: list[EncodedBlob]
) -> list[EncodedPart]:
    """The vector parts of those of the deltas that are wanted."""
    if not before.vectors and not after.vectors:
        return []
    ends = {blobs[0].name.from_version: before, blobs[-2].name.to_version: after}
    if len(blobs) > 2:
        through = before.apply(blobs[0].read())
        moves = _detours(before, after)
        ends[blobs[0].name.to_version] = through.with_vectors(
            {key: _waiting_vectors(column, moves.get(key[0])) for key, column in after.vectors.items()}
        )
    steps = [(blob.name, ends[blob.name.from_version], ends[blob.name.to_version]) for blob in wanted]
    return parts_between(steps, Model.from_schemas(after.schemas))


def _waiting_vectors(column: StoredVectors, moves: Ordinals | None) -> StoredVectors:
    if moves is None:
        return column
    held = column.present.ordinals()
    return StoredVectors.of(column.dimensions, moves[held], column.rows(held))


def _detours(before: ReadState, after: ReadState) -> dict[str, Ordinals]:
    """For every type with records that cannot take their place at once: where they wait."""
    moves: dict[str, Ordinals] = {}
    order = after.schemas.dependency_order()
    for schema in order:
        name = schema.name
        data = after.types[name]
        taken = before.types[name].populated if name in before else _NOTHING
        clashing = _different(before, after, name, data.populated.intersection(taken))
        if any(child in moves for child in schema.references()):
            clashing = np.union1d(clashing, refers_to_moved(after, name, moves))
        if schema.name in after.schemas.closure(schema.references()).names and len(clashing):
            raise ChainError(f"type {name} refers to itself: its records cannot be moved out of the way")
        if len(clashing):
            first = max(data.max_ordinal, before.types[name].max_ordinal if name in before else -1) + 1
            moved = np.arange(data.max_ordinal + 1, dtype=np.int64)
            moved[clashing] = first + np.arange(len(clashing))
            moves[name] = moved
    return moves


def _different(before: ReadState, after: ReadState, name: str, shared: OrdinalSet) -> Ordinals:
    """The ordinals that hold different records in the two states."""
    if not shared:
        return np.zeros(0, np.int64)
    schema = after.types[name].schema
    seen = ordinal_kernels.OrdinalMap()
    numbers = [
        seen.assign(*RestoredType(schema, state.types[name], exact=True).serialized(shared))
        for state in (before, after)
    ]
    differs: NDArray[np.bool_] = numbers[0] != numbers[1]
    return shared.ordinals()[differs]


def _through(populated: OrdinalSet, moves: Ordinals | None) -> OrdinalSet:
    if moves is None:
        return populated
    return OrdinalSet.from_ordinals(moves[populated.ordinals()])


def _waiting(moves: Ordinals | None) -> Ordinals:
    return np.zeros(0, np.int64) if moves is None else np.flatnonzero(moves != np.arange(len(moves)))


def _build(writer: WriteState, before: ReadState, after: ReadState, name: str, moves: dict[str, Ordinals]) -> None:
    """Put every record of the second state that the first lacks at its place, or at the place where it waits."""
    old = before.types[name].populated if name in before else _NOTHING
    waiting = _waiting(moves.get(name))
    direct = after.types[name].populated.difference(old).difference(OrdinalSet.from_ordinals(waiting))
    if direct:
        _put(writer, after, name, direct.ordinals(), {})
    if len(waiting):
        writer.place(name, *_serialized(writer, after, name, waiting, moves), moves[name][waiting])


def _put(writer: WriteState, after: ReadState, name: str, ordinals: Ordinals, moves: dict[str, Ordinals]) -> None:
    writer.place(name, *_serialized(writer, after, name, ordinals, moves), ordinals)


def _serialized(
    writer: WriteState, after: ReadState, name: str, ordinals: Ordinals, moves: dict[str, Ordinals]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    if moves:
        return serialize_moved(writer.schemas[name], after, name, ordinals, moves)
    restored = RestoredType(writer.schemas[name], after.types[name], exact=True)
    return restored.serialized(OrdinalSet.from_ordinals(ordinals))


def _set_populated(writer: WriteState, name: str, populated: OrdinalSet) -> None:
    """What was put is populated already; of the version before stays what this one has."""
    writer.keep(name, writer.previous(name).intersection(populated).ordinals())


def _copy_tags(writer: WriteState, state: ReadState) -> None:
    for name in list(writer.header_tags):
        del writer.header_tags[name]
    for name, value in state.header_tags.items():
        writer.header_tags[name] = value


def _written(writer: WriteState, from_version: int, to_version: int) -> list[EncodedBlob]:
    delta = EncodedBlob(BlobName.delta(from_version, to_version))
    writer.write_delta(delta)
    reverse = EncodedBlob(BlobName.delta(to_version, from_version))
    writer.write_reverse_delta(reverse)
    return [delta, reverse]


def _check(reached: ReadState, wanted: ReadState) -> None:
    if reached.tag != wanted.tag:
        raise ChecksumError("Integrity", "the deltas lead to another state", "the patch")
    for name, data in wanted.types.items():
        if name not in reached:
            continue  # a type that is new since: readers that follow deltas pass over it
        if reached.types[name].populated != data.populated or len(_different(reached, wanted, name, data.populated)):
            raise ChecksumError("Integrity", f"the deltas do not lead to the records of type {name}", "the patch")


def _free_version(chain: Chain, from_version: int, to_version: int) -> int | None:
    taken = set(chain.versions())
    return next((version for version in range(to_version - 1, from_version, -1) if version not in taken), None)


def _is_there(chain: Chain, name: BlobName) -> bool:
    """A version keeps the reverse delta to its real predecessor, if it has one."""
    return name.kind is BlobKind.REVERSE_DELTA and name.from_version in chain.reverse_deltas


def _publish(
    store: Store,
    announcements: Announcements,
    blobs: list[EncodedBlob],
    parts: list[EncodedPart],
    through: int | None,
    epoch: int,
) -> None:
    cycle_id = f"patch-{secrets.token_hex(8)}"
    publication = Publication(store)
    staged: list[StagedBlob] = []
    attached: list[StagedFile] = []
    try:
        for part in parts:
            # What stands there belongs to a delta that is gone: those that are there are not made again.
            store.delete(part.name)
            attached.append(part.stage(store, cycle_id))
            with read_back(store, attached[-1]):
                pass
        for blob in blobs:
            staged.append(stage(store, cycle_id, blob))
            with staged[-1].read_back(store):
                pass
        publication.publish(staged, attached)
        by_version: dict[int, list[StagedBlob | StagedFile]] = {}
        for each in staged:
            by_version.setdefault(each.name.owner, []).append(each)
        for part, file in zip(parts, attached, strict=True):
            by_version.setdefault(part.blob.owner, []).append(file)
        for version, files in by_version.items():
            _list(announcements, version, files, through, epoch)
    except CommitUnknownError:
        raise  # the files may be listed: they stay, and the next producer finds out
    except BaseException:
        publication.take_back()
        raise
    finally:
        unstage(store, [*(each.key for each in staged), *(file.key for file in attached)])
        for spool in (*blobs, *parts):
            spool.close()


def _list(
    announcements: Announcements,
    version: int,
    files: list[StagedBlob | StagedFile],
    through: int | None,
    epoch: int,
) -> None:
    """Let the announcement know the new files, so that consumers can verify them."""
    artifacts = tuple(each.artifact for each in files)
    if version != through and announcements.read().entry(version) is not None:
        announcements.add_artifacts(version, artifacts, epoch=epoch)
        return
    known = announcements.entry_of(version)
    held = known.artifacts if known is not None else ()
    entry = AnnouncedVersion(version, announcements.now_ms(), epoch, (MAIN,), (*held, *artifacts))
    announcements.store.put(version_name(version), encode_version(entry))

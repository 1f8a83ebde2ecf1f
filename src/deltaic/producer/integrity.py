"""Check: the staged bytes are read back, and must lead where they say.

The snapshot must be the version before plus the delta, with the new fields that the delta appends; the reverse delta
must lead back. States are compared type by type: which ordinals are populated, and Hollow's checksum over the fields
that both models have (a reader that follows deltas keeps what nobody told it to drop).
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Literal, Protocol

from deltaic.errors import ChecksumError
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import ObjectSchema, Schema
from deltaic.state.bitset import OrdinalSet
from deltaic.state.checksum import type_checksum
from deltaic.state.filter import Filter
from deltaic.state.project import projected
from deltaic.state.read import ReadState
from deltaic.state.source import Source, opened
from deltaic.state.type_data import TypeData
from deltaic.storage.chain import BlobKind
from deltaic.storage.store import Store
from deltaic.wire.append import AppendMode
from deltaic.wire.header import read_header
from deltaic.wire.tag_order import TagMap

Integrity = Literal["full", "deltas", "off"]
"""How much is checked: also against a snapshot in every cycle; deltas both ways; nothing."""


class ReadableBlob(Protocol):
    """A blob whose bytes can be read again."""

    def read_back(self, store: Store) -> AbstractContextManager[Source]:
        """The bytes, compared with those that were written."""
        ...


class Written(Protocol):
    """What is known of a version before it is read back; a write state is that."""

    schemas: SchemaSet
    header_tags: TagMap

    @property
    def tag(self) -> int:
        """The state tag."""
        ...

    def populated(self, type_name: str, /) -> OrdinalSet:
        """The records of a type."""
        ...


class TypeSums:
    """The checksums of types that were computed already; the state after one cycle is the state before the next."""

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[TypeData, int]]] = {}

    def of(self, data: TypeData) -> int:
        """The checksum of a type."""
        known = self._known.setdefault(data.schema.name, [])
        for other, found in known:
            if other.shards is data.shards and other.populated == data.populated:
                return found
        found = type_checksum(data)
        known.append((data, found))
        return found

    def keep_only(self, state: ReadState) -> None:
        """Forget all but the types of a state, and so let go of the memory of others."""
        for name, known in self._known.items():
            data = state.types.get(name)
            self._known[name] = [each for each in known if data is not None and each[0].shards is data.shards]


def check_integrity(
    store: Store,
    blobs: Mapping[BlobKind, ReadableBlob],
    previous: ReadState | None,
    written: Written,
    *,
    level: Integrity,
    limits: Limits = DEFAULT_LIMITS,
    sums: TypeSums | None = None,
    filter: Filter | None = None,
) -> ReadState:
    """Read the blobs of a version back and compare them; gives the state of the version.

    With a filter only some types are compared; `previous` must have been loaded with the same one.

    Raises:
        ChecksumError: the blobs do not lead to one state.
    """
    check = level != "off"
    sums = sums or TypeSums()
    whole = after = None
    if BlobKind.SNAPSHOT in blobs and (check or previous is None):
        with blobs[BlobKind.SNAPSHOT].read_back(store) as source:
            whole = ReadState.load(source, filter=filter, limits=limits, check=check)
        _check_is_written(whole, written, "the snapshot")
    if previous is not None:
        with blobs[BlobKind.DELTA].read_back(store) as source:
            after = previous.apply(source, limits=limits, check=check, schema_append=AppendMode.FULL)
        _check_is_written(after, written, "the delta")
    if check and whole is not None and after is not None:
        _compare(after, whole, sums, "the version before and the delta do not give the snapshot")
    if check and previous is not None and after is not None:
        with blobs[BlobKind.REVERSE_DELTA].read_back(store) as source:
            back = after.apply(source, limits=limits)
        if back.tag != previous.tag:
            raise _failed(f"the reverse delta leads to state {back.tag:016x}, not to {previous.tag:016x}")
        _compare(back, previous, sums, "the reverse delta does not lead back", written.schemas)
    if check and BlobKind.HEADER in blobs:
        with blobs[BlobKind.HEADER].read_back(store) as source, opened(source, limits) as cursor:
            header = read_header(cursor, limits)
        if header.destination_tag != written.tag or dict(header.tags) != dict(written.header_tags):
            raise _failed("the header file is not that of the version")
    if after is None or (whole is not None and after.schemas != whole.schemas):
        # After a change of the model only the snapshot has all of it.
        after = whole
    assert after is not None
    sums.keep_only(after)
    return after


def _check_is_written(state: ReadState, written: Written, what: str) -> None:
    if state.tag != written.tag:
        raise _failed(f"{what} leads to state {state.tag:016x}, not to {written.tag:016x}")
    for name, data in state.types.items():
        if name in written.schemas and data.populated != written.populated(name):
            raise _failed(f"{what} does not have the records of type {name} that were added")


def _compare(one: ReadState, other: ReadState, sums: TypeSums, what: str, model: SchemaSet | None = None) -> None:
    """Compare two states; with a `model` only the fields that it has, since its deltas carry no others."""
    for name in one:
        carried = None if model is None else model.get(name)
        if name in other and not same_records(one.types[name], other.types[name], sums, carried):
            raise _failed(f"{what}: type {name} differs")


def same_records(one: TypeData, other: TypeData, sums: TypeSums, carried: Schema | None = None) -> bool:
    """True if two types hold the same records at the same ordinals, as far as their models, and `carried`, agree."""
    if one.populated != other.populated:
        return False
    if one.shards is other.shards:
        return True
    common = _common(one.schema, other.schema)
    if common is not None and carried is not None:
        common = _common(common, carried)
    if common is None:
        return True
    if common == one.schema == other.schema:
        return sums.of(one) == sums.of(other)
    return type_checksum(projected(one, common)) == type_checksum(projected(other, common))


def _common(one: Schema, other: Schema) -> Schema | None:
    """What of two schemas can be compared; None: nothing but which records there are."""
    if not isinstance(one, ObjectSchema):
        # A checksum knows the buckets of sets and maps, which another hash key puts elsewhere.
        return one if one == other else None
    if not isinstance(other, ObjectSchema):
        return None
    fields = tuple(found for found in one.fields if found in other.fields)
    return ObjectSchema(one.name, fields, one.primary_key)


def _failed(reason: str) -> ChecksumError:
    return ChecksumError("Integrity", reason, "the staged blobs")

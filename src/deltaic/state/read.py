"""Read states: all records of all types at one version, immutable and bit-packed.

`ReadState.load` reads a snapshot; `state.apply` reads a delta or reverse delta and gives a new state that shares every
type and shard that did not change. The old state stays readable until its last user lets go. A state's model is the one
of its snapshot: fields and types that a later producer adds are passed over, those it drops stay (hollow-blob.md,
"changed models along a chain"); unless it is asked to take over what deltas append (`state.append`).
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from deltaic.binary.cursor import Cursor
from deltaic.errors import ChainError, DecodeError, LimitError, NotFoundError
from deltaic.limits import DEFAULT_LIMITS, Limits
from deltaic.schema.schemas import SchemaSet
from deltaic.schema.types import Schema
from deltaic.state.append import AppendReport, added_with_shards, prepare_types
from deltaic.state.append_model import AppendPlan, plan_append
from deltaic.state.apply import apply_section
from deltaic.state.bitset import EMPTY, OrdinalSet
from deltaic.state.check import Reach, check_references, check_section
from deltaic.state.filter import Filter
from deltaic.state.project import projected
from deltaic.state.source import Source, opened
from deltaic.state.type_data import TypeData
from deltaic.state.vector_column import StoredVectors
from deltaic.wire.append import AppendedSection, AppendMode, append_flags, read_append
from deltaic.wire.header import Header, read_header, read_part_header
from deltaic.wire.section import TypeSection, read_section_if

if TYPE_CHECKING:
    from deltaic.state.view import TypeView

_HEADER_ROOM_BYTES = 1 << 20


class ReadState:
    """All records of all types at one version. Never changes: a delta makes a new one."""

    def __init__(
        self,
        types: Mapping[str, TypeData],
        *,
        tag: int,
        origin_tag: int,
        header_tags: Mapping[str, str],
        filter: Filter | None = None,
        appended: AppendReport | None = None,
        vectors: Mapping[tuple[str, str], StoredVectors] | None = None,
    ) -> None:
        self.types: Mapping[str, TypeData] = MappingProxyType(dict(types))
        """The types in the order of the blob."""
        self.tag = tag
        """The state's own random 64-bit number, by which deltas find it."""
        self.origin_tag = origin_tag
        """The tag that the last blob came from."""
        self.header_tags: Mapping[str, str] = MappingProxyType(dict(header_tags))
        """Free text of the producer."""
        self.filter = filter
        """What was left out at load, or None."""
        self.appended = appended
        """What the appended section of the last delta did; None if there was none, or it was not read."""
        self.vectors: Mapping[tuple[str, str], StoredVectors] = MappingProxyType(dict(vectors or {}))
        """The vector columns by type and field. They come with vector parts, not with blobs: `with_vectors`."""
        self._views: dict[str, TypeView] = {}

    @classmethod
    def load(
        cls,
        source: Source,
        *,
        parts: Mapping[str, Source] | None = None,
        filter: Filter | None = None,
        limits: Limits = DEFAULT_LIMITS,
        check: bool = True,
    ) -> "ReadState":
        """Read a snapshot.

        Args:
            source: a path, bytes or a binary stream.
            parts: optional parts by name; types of parts that are not given are left out.
            filter: types and fields to keep or to leave out.
            limits: bounds on what the bytes may ask for.
            check: False skips the load checks; only for bytes that were checked before.
        """
        blob = _read_blob(source, parts or {}, None, filter, _for_snapshot(limits, filter))
        header, sections, at = blob.header, blob.sections, blob.at
        types: dict[str, TypeData] = {}
        reaches: list[Reach] = []
        wanted = {schema.name: schema for schema in filter.apply(header.schemas)} if filter is not None else None
        for section in sections:
            if section.schema.name in types:
                raise DecodeError("BadSchema", f"type {section.schema.name} stands there twice", at)
            if check:
                reaches += check_section(section, at)
            data = _type_data(section)
            if wanted is not None:
                data = projected(data, wanted[section.schema.name])
            types[section.schema.name] = data
        if check:
            check_references(reaches, {name: data.max_ordinal for name, data in types.items()}, at)
        state = cls(
            types,
            tag=header.destination_tag,
            origin_tag=header.origin_tag,
            header_tags=header.tags,
            filter=filter,
        )
        _check_size(state, limits, at)
        return state

    def apply(
        self,
        source: Source,
        *,
        parts: Mapping[str, Source] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        check: bool = True,
        schema_append: AppendMode | str = AppendMode.OFF,
    ) -> "ReadState":
        """The state after a delta or a reverse delta. This one stays as it is.

        Args:
            source: a path, bytes or a binary stream.
            parts: optional parts by name.
            limits: bounds on what the bytes may ask for.
            check: False skips the load checks; only for bytes that were checked before.
            schema_append: what to take of an appended section: `off`, `values`, or `full`, which takes the
                producer's new fields and types over.

        Raises:
            ChainError: the delta starts at another state.
            SchemaError: the appended section has a field that is here with another type (mode `full`).
        """
        mode = AppendMode(schema_append)
        blob = _read_blob(source, parts or {}, self, None, limits, mode=mode)
        header, sections, at = blob.header, blob.sections, blob.at
        reaches: list[Reach] = []
        if check:
            for section in sections:
                reaches += check_section(section, at)
        _check_refresh(self, sections, limits, at)
        before, report = self.types, None
        touched: Mapping[str, OrdinalSet] = {}
        if blob.section is not None:
            started = time.perf_counter()
            plan = added_with_shards(blob.plan, {one.schema.name: len(one.shards) for one in sections})
            prepared = prepare_types(self.types, plan, blob.section, limits, at)
            before, touched = prepared.types, prepared.touched
            reaches += prepared.reaches
            report = AppendReport(
                blob.section.size_bytes,
                prepared.fields,
                prepared.values,
                sum(one.new_fields for one in plan.types.values()),
                len(plan.added),
                plan.skipped_fields,
                blob.section_seconds + time.perf_counter() - started,
            )
        types = {name: replace(data, previous=data.populated, appended=EMPTY) for name, data in before.items()}
        seen: set[str] = set()
        for section in sections:
            name = section.schema.name
            if name in seen:
                raise DecodeError("BadSchema", f"type {name} stands there twice", at)
            seen.add(name)
            if name in before:
                types[name] = apply_section(before[name], section, at, limits)
        for name, ordinals in touched.items():
            if ordinals:
                types[name] = replace(types[name], appended=ordinals.intersection(types[name].populated))
        reached = {reach.referenced for reach in reaches if reach.ordinal >= 0}
        for name in reached.intersection(blob.plan.added).difference(seen):
            # Its records are in an optional part that was not given: as elsewhere, the type is not there then.
            del types[name]
        if check:
            check_references(reaches, {name: data.max_ordinal for name, data in types.items()}, at)
        state = ReadState(
            types,
            tag=header.destination_tag,
            origin_tag=header.origin_tag,
            header_tags=header.tags,
            filter=self.filter,
            appended=report,
        )
        _check_size(state, limits, at)
        return state

    def with_vectors(self, vectors: Mapping[tuple[str, str], StoredVectors]) -> "ReadState":
        """The same records with these vector columns, by type and field."""
        return ReadState(
            self.types,
            tag=self.tag,
            origin_tag=self.origin_tag,
            header_tags=self.header_tags,
            filter=self.filter,
            appended=self.appended,
            vectors=vectors,
        )

    @property
    def schemas(self) -> SchemaSet:
        """The schemas of the types, in order."""
        return SchemaSet(data.schema for data in self.types.values())

    def __getitem__(self, name: str) -> "TypeView":
        view = self._views.get(name)
        if view is None:
            data = self.types.get(name)
            if data is None:
                known = ", ".join(self.types) or "none"
                raise NotFoundError(f"there is no type {name!r} in this state; types: {known}")
            from deltaic.state.view import TypeView

            view = self._views[name] = TypeView(self, data)
        return view

    def __contains__(self, name: object) -> bool:
        return name in self.types

    def __iter__(self) -> Iterator[str]:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)

    def __repr__(self) -> str:
        records = sum(len(data.populated) for data in self.types.values())
        return f"ReadState(tag={self.tag:016x}, {len(self.types)} types, {records:,} records, {self.nbytes:,} bytes)"

    @property
    def nbytes(self) -> int:
        """Bytes of memory held by the records of all types and by the vector columns."""
        held = sum(data.nbytes for data in self.types.values())
        return held + sum(column.nbytes for column in self.vectors.values())

    def checksum(self) -> int:
        """Hollow's checksum of the state: compares two states of one chain."""
        from deltaic.state.checksum import state_checksum

        return state_checksum(self.types)


def _for_snapshot(limits: Limits, filter: Filter | None) -> Limits:
    """A state is about as large as its snapshot: one that is far too large is refused by its size alone."""
    if limits.max_state_bytes is None or filter is not None:
        return limits
    return replace(limits, max_blob_bytes=min(limits.max_blob_bytes, 2 * limits.max_state_bytes + _HEADER_ROOM_BYTES))


def _type_data(section: TypeSection) -> TypeData:
    assert section.populated is not None
    return TypeData(
        schema=section.schema,
        shards=tuple(shard.body for shard in section.shards),
        max_ordinal=section.max_ordinal,
        populated=OrdinalSet.from_words(np.asarray(section.populated, np.uint64)),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Blob:
    """What was read of a blob and its parts."""

    header: Header
    sections: list[TypeSection]
    at: str
    section: AppendedSection | None
    plan: AppendPlan
    section_seconds: float


def _read_blob(
    source: Source,
    parts: Mapping[str, Source],
    before: ReadState | None,
    filter: Filter | None,
    limits: Limits,
    *,
    mode: AppendMode = AppendMode.OFF,
) -> _Blob:
    """Header and wanted sections of a blob and its parts. `before` is the state that a delta meets."""
    delta = before is not None
    with opened(source, limits) as cursor:
        at = cursor.name
        header = read_header(cursor, limits)
        if before is not None and header.origin_tag != before.tag:
            raise ChainError(f"{at} starts at state {header.origin_tag:016x}, this is state {before.tag:016x}")
        schemas = list(header.schemas)
        wanted = None if before is None else frozenset(before.types)
        if filter is not None:
            wanted = _names(filter, schemas, cursor, header, limits, delta)
        start = cursor.position
        sections = _read_sections(cursor, header, wanted, limits, delta=delta)
        section, plan, seconds = None, AppendPlan(), 0.0
        flags = append_flags(header.extra, at) if before is not None and mode is not AppendMode.OFF else None
        if before is not None and flags is not None:
            started = time.perf_counter()
            section = read_append(cursor, flags, mode, limits)
            ours = {name: data.schema for name, data in before.types.items()}
            plan = plan_append(ours, section, mode, before.filter, at)
            seconds = time.perf_counter() - started
            if plan.added:
                # Which types are new is said behind the type sections: those of new ones are read in a second pass.
                new = frozenset(plan.added)
                cursor.position = start
                sections = [one for one in sections if one.schema.name not in new]
                sections += _read_sections(cursor, header, new, limits, delta=True)
                wanted = (wanted or frozenset()) | new
    for name, part in parts.items():
        with opened(part, limits) as cursor:
            part_header = read_part_header(cursor, limits)
            tags = (part_header.origin_tag, part_header.destination_tag)
            if part_header.part != name or tags != (header.origin_tag, header.destination_tag):
                cursor.fail("BadPart", f"this is part {part_header.part!r} of another blob, not part {name!r}")
            schemas += part_header.schemas
            if filter is not None:
                wanted = _kept_names(filter, schemas, cursor)
            sections += _read_sections(cursor, part_header, wanted, limits, delta=delta)
    return _Blob(replace(header, schemas=tuple(schemas)), sections, at, section, plan, seconds)


def _names(
    filter: Filter,
    schemas: list[Schema],
    cursor: Cursor,
    header: Header,
    limits: Limits,
    delta: bool,
) -> frozenset[str]:
    """The types that a filter keeps. A blob without a schema list is read ahead for its schemas."""
    if not schemas and header.sections:
        start = cursor.position
        for _ in range(header.sections):
            skipped = read_section_if(cursor, frozenset(), delta=delta, limits=limits)
            assert not isinstance(skipped, TypeSection)
            schemas.append(skipped)
        cursor.position = start
    return _kept_names(filter, schemas, cursor)


def _kept_names(filter: Filter, schemas: list[Schema], cursor: Cursor) -> frozenset[str]:
    if len({schema.name for schema in schemas}) < len(schemas):
        cursor.fail("BadSchema", "a type is declared twice")
    return frozenset(schema.name for schema in filter.apply(schemas))


def _read_sections(
    cursor: Cursor, header: Header, wanted: frozenset[str] | None, limits: Limits, *, delta: bool
) -> list[TypeSection]:
    declared = {schema.name: schema for schema in header.schemas}
    sections = []
    for _ in range(header.sections):
        section = read_section_if(cursor, wanted, delta=delta, limits=limits)
        schema = section.schema if isinstance(section, TypeSection) else section
        if declared.get(schema.name, schema) != schema:
            cursor.fail("BadSchema", f"type {schema.name!r} has one schema in the header and another in its section")
        if isinstance(section, TypeSection):
            sections.append(section)
    return sections


def _check_refresh(state: ReadState, sections: list[TypeSection], limits: Limits, at: str) -> None:
    """Refuse a delta whose changed types would not fit, before they are made."""
    if limits.max_state_bytes is None:
        return
    grown = state.nbytes + sum(section.size_bytes for section in sections)
    if grown > limits.max_state_bytes:
        reason = f"the state would take up to {grown:,} bytes, limit is {limits.max_state_bytes:,}"
        raise LimitError("Limit", reason, at)


def _check_size(state: ReadState, limits: Limits, at: str) -> None:
    if limits.max_state_bytes is not None and state.nbytes > limits.max_state_bytes:
        raise LimitError("Limit", f"the state takes {state.nbytes:,} bytes, limit is {limits.max_state_bytes:,}", at)

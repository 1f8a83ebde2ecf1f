"""From records along paths to values, by columns: what an index is built from.

The paths of an index form a tree. Each branch is followed once, all rows together: a reference goes on, a collection
makes a row of each of its members, and two paths through one collection share the member (hollow-blob.md, 19; Hollow's
traversal is the same). A row that meets a null on any path is no match and is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import InputError
from deltaic.kernels import hashing
from deltaic.kernels.content import BOOLEAN, DOUBLE, FLOAT, INT, LONG, REFERENCE, STRING, KeyPath
from deltaic.schema.paths import ResolvedPath, Step, resolve_path
from deltaic.schema.types import Kind
from deltaic.state.bitset import OrdinalSet
from deltaic.state.columns import Rows
from deltaic.state.read import ReadState
from deltaic.state.records import CODES, StateRecords, records_of

Ordinals = NDArray[np.int64]
Column = tuple[NDArray[np.int64], NDArray[np.uint8] | None]
"""Values as kernels compare them: numbers (floats as their bits), or offsets and bytes of texts."""

Prefix = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Edge:
    """A step from one type to another that some path takes."""

    parent: str
    position: int
    child: str


@dataclass(frozen=True, slots=True, eq=False)
class MatchRows:
    """One row for each combination of values that a root record has, in rising order of the roots."""

    roots: NDArray[np.int32]
    selected: NDArray[np.int32] | None
    """The records that the select path leads to; None if that is the root."""
    columns: tuple[Column, ...]
    codes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.roots)


class Traversal:
    """The paths of one index, followed through the schemas of a state.

    Args:
        state: whose schemas the paths go through.
        type_name: the type of the root records.
        match: the paths to the values; one that ends on a reference goes on to the one value behind it.
        select: the path to the records that are wanted; empty for the root.
        through_collections: False for keys, which go through OBJECTs only.
    """

    def __init__(
        self,
        state: ReadState,
        type_name: str,
        match: Sequence[str],
        select: str = "",
        *,
        through_collections: bool = True,
    ) -> None:
        schemas = {name: data.schema for name, data in state.types.items()}
        if not match:
            raise InputError(f"an index of {type_name} needs at least one path")
        state[type_name]
        self.type_name = type_name
        self.match = tuple(match)
        self.select = select
        self._paths = tuple(
            resolve_path(schemas, type_name, path, through_collections=through_collections) for path in match
        )
        for path, written in zip(self._paths, match, strict=True):
            if not path.steps:
                raise InputError(f"path {written!r} of an index of {type_name} leads to no value")
        self._select: ResolvedPath | None = None
        if select:
            self._select = resolve_path(schemas, type_name, select, expand=False, through_collections=True)
            if self._select.leads_to is None:
                raise InputError(f"path {select!r} selects a value; an index selects records")
        self.selects = type_name if self._select is None else str(self._select.leads_to)
        """The type of the records that are found."""
        self._children: dict[Prefix, dict[str, Step]] = {}
        for path in (*self._paths, *(() if self._select is None else (self._select,))):
            for depth, step in enumerate(path.steps):
                if step.leads_to is not None:
                    prefix = tuple(before.name for before in path.steps[:depth])
                    self._children.setdefault(prefix, {})[step.name] = step
        self._needed = {()} | {_parent(path) for path in self._paths}
        if self._select is not None:
            self._needed.add(_names(self._select))

    @property
    def codes(self) -> tuple[int, ...]:
        """The kernel's numbers of the types of the values."""
        return tuple(CODES[path.field_type] for path in self._paths)

    @property
    def key_paths(self) -> tuple[KeyPath, ...]:
        """The paths as the kernel that looks keys up follows them."""
        return tuple(KeyPath(path.positions, CODES[path.field_type]) for path in self._paths)

    @property
    def multiplies(self) -> bool:
        """True if a root record can have more than one row."""
        return any(step.kind is not Kind.OBJECT for steps in self._children.values() for step in steps.values())

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The steps from type to type, each once."""
        found = {
            Edge(step.type_name, step.position, step.leads_to): None
            for steps in self._children.values()
            for step in steps.values()
            if step.leads_to is not None
        }
        return tuple(found)

    @property
    def type_names(self) -> tuple[str, ...]:
        """The types that the paths go through, the root first."""
        return tuple(dict.fromkeys((self.type_name, *(edge.child for edge in self.edges))))

    def rows(self, state: ReadState, roots: OrdinalSet | None = None) -> MatchRows:
        """The rows of the populated records of a state, or of `roots` alone."""
        records = records_of(state)
        data = state.types[self.type_name]
        whole = Rows.of(data) if roots is None else Rows.of(data, roots.ordinals())
        table = _Table(records, whole)
        for prefix in self._prefixes():
            table.follow(prefix, self._children[prefix])
            table.keep({*self._needed, *self._ahead(prefix)})
        table.drop_nulls([(path, _parent(path)) for path in self._paths])
        columns = tuple(table.column(path) for path in self._paths)
        selected = None if self._select is None else table.ordinals[_names(self._select)].astype(np.int32)
        return MatchRows(table.roots().astype(np.int32), selected, columns, self.codes)

    def _prefixes(self) -> Iterator[Prefix]:
        """Places with references to follow, each after the one before it."""
        return iter(sorted(self._children, key=len))

    def _ahead(self, done: Prefix) -> list[Prefix]:
        order = sorted(self._children, key=len)
        return order[order.index(done) + 1 :]


def _names(path: ResolvedPath) -> Prefix:
    return tuple(step.name for step in path.steps)


def _parent(path: ResolvedPath) -> Prefix:
    """The place whose records hold the value; the place itself if the path ends on records."""
    ends_on_record = path.field is None
    return _names(path) if ends_on_record else _names(path)[:-1]


class _Table:
    """Rows that grow while paths are followed: for each place of the tree the ordinal that each row has there."""

    def __init__(self, records: StateRecords, whole: Rows) -> None:
        self._records = records
        # While no row was dropped or repeated the root is read as a whole, which is faster than by ordinals.
        self._whole: Rows | None = whole
        self._count = whole.count
        self.ordinals: dict[Prefix, Ordinals] = {}
        self._values: dict[ResolvedPath, Column] = {}

    def roots(self) -> Ordinals:
        return self._at(())

    def _at(self, place: Prefix) -> Ordinals:
        if place == () and self._whole is not None:
            self.ordinals[()] = self._whole.all()
        return self.ordinals[place]

    def _rows(self, place: Prefix) -> Rows:
        if place == () and self._whole is not None:
            return self._whole
        return Rows(self._count, ordinals=self.ordinals[place])

    def keep(self, places: set[Prefix]) -> None:
        """Forget what no path needs any more."""
        self.ordinals = {place: found for place, found in self.ordinals.items() if place in places}

    def follow(self, place: Prefix, steps: dict[str, Step]) -> None:
        """Go from the records of a place to those that they refer to."""
        first = next(iter(steps.values()))
        number, reader = self._records.number(first.type_name), self._records.reader
        if first.kind is Kind.OBJECT:
            for name, step in steps.items():
                rows = self._rows(place)
                values, valid = reader.read_fixed(number, step.position, rows.ordinals, rows.words, rows.count)
                if valid is not None:
                    self._take(np.flatnonzero(valid))
                    values = values[valid]
                self.ordinals[(*place, name)] = values.astype(np.int64)
            return
        rows = self._rows(place)
        offsets, elements, others = reader.read_collections(number, rows.ordinals, rows.words, rows.count)
        self._take(np.repeat(np.arange(self._count, dtype=np.int64), np.diff(offsets)))
        for name, step in steps.items():
            members = others if step.position == 1 else elements
            assert members is not None
            self.ordinals[(*place, name)] = members.astype(np.int64)

    def _take(self, places: NDArray[np.int64]) -> None:
        """Go on with these rows; one may occur more than once."""
        roots = self._at(())
        self._whole = None
        self.ordinals[()] = roots
        self.ordinals = {place: found[places] for place, found in self.ordinals.items()}
        self._count = len(places)

    def drop_nulls(self, leaves: list[tuple[ResolvedPath, Prefix]]) -> None:
        """Read the values, and leave out the rows where one is null."""
        there: NDArray[np.bool_] | None = None
        for path, place in leaves:
            column, valid = self._read(path, place)
            self._values[path] = column
            if valid is not None:
                there = valid if there is None else there & valid
        if there is None or there.all():
            return
        places = np.flatnonzero(there)
        self._take(places)
        self._values = {path: taken(column, places) for path, column in self._values.items()}

    def column(self, path: ResolvedPath) -> Column:
        return self._values[path]

    def _read(self, path: ResolvedPath, place: Prefix) -> tuple[Column, NDArray[np.bool_] | None]:
        if path.field is None:
            return (self._at(place), None), None
        step = path.steps[-1]
        number, reader = self._records.number(step.type_name), self._records.reader
        rows = self._rows(place)
        if not path.field.type.is_variable:
            values, valid = reader.read_fixed(number, step.position, rows.ordinals, rows.words, rows.count)
            return (comparable(values, CODES[path.field.type]), None), valid
        offsets, data, valid = reader.read_variable(number, step.position, rows.ordinals, rows.words, rows.count)
        if CODES[path.field.type] == STRING:
            offsets, data = _without_explicit_nulls(offsets, data)
        return (offsets, data), valid


def comparable(values: NDArray[np.generic], code: int) -> NDArray[np.int64]:
    """Numbers as int64; floats as their bits, every NaN as Java's one."""
    if code == FLOAT:
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        return np.where(bits & 0x7FFF_FFFF > 0x7F80_0000, np.uint32(0x7FC0_0000), bits).astype(np.int64)
    if code == DOUBLE:
        wide = np.ascontiguousarray(values, np.float64).view(np.uint64)
        nan = wide & np.uint64(2**63 - 1) > np.uint64(0x7FF0_0000_0000_0000)
        return np.where(nan, np.uint64(0x7FF8_0000_0000_0000), wide).view(np.int64)
    return np.ascontiguousarray(values, np.int64)


def taken(column: Column, places: NDArray[np.int64]) -> Column:
    """Some rows of a column."""
    numbers, data = column
    if data is None:
        return numbers[places], None
    from deltaic.kernels import access

    return access.gather_slices(data, numbers[:-1][places], numbers[1:][places])


def hashes_of(columns: Sequence[Column], codes: Sequence[int], *, mix_texts: bool) -> NDArray[np.int32]:
    """The hash of each row: of a hash index if texts are mixed, else of a primary key (hollow-blob.md, 19)."""
    fields: list[NDArray[np.int32]] = []
    for (numbers, data), code in zip(columns, codes, strict=True):
        if data is not None:
            fields.append(hashing.bytes_hash(data, numbers[:-1], numbers[1:]))
        elif code in (INT, REFERENCE):
            fields.append(hashing.index_hash_int(numbers))
        elif code in (LONG, DOUBLE):
            fields.append(hashing.index_hash_long(numbers))
        elif code == BOOLEAN:
            fields.append(hashing.index_hash_boolean(numbers.astype(np.uint8)))
        else:
            fields.append(hashing.index_hash_int(numbers.astype(np.uint32).view(np.int32).astype(np.int64)))
    if mix_texts:
        return hashing.combine_hash_index(fields)
    return hashing.combine_primary_key(fields, [data is not None for _, data in columns])


def _without_explicit_nulls(
    offsets: NDArray[np.int64], data: NDArray[np.uint8]
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """A text that is the single byte 0x80 reads as empty (hollow-blob.md, "strings"), so it is empty here too."""
    starts = offsets[:-1]
    single = np.flatnonzero(np.diff(offsets) == 1)
    single = single[data[starts[single]] == 0x80]
    if not len(single):
        return offsets, data
    ends = offsets[1:].copy()
    ends[single] -= 1
    from deltaic.kernels import access

    return access.gather_slices(data, np.ascontiguousarray(starts), ends)

"""Records and columns in plain Python and NumPy: the reference for `_access`, and the fall-back without a compiler."""

import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from deltaic.errors import DecodeError, InputError, NotFoundError
from deltaic.kernels import content, lookup, sameness
from deltaic.kernels.content import (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LONG,
    MAP,
    OBJECT,
    REFERENCE,
    STRING,
    Reference,
    TypeSpec,
)
from deltaic.kernels.plain import bits
from deltaic.kernels.plain.text import decode_text

Ordinals = NDArray[np.int64]
Mask = NDArray[np.bool_] | None

_REACH = 9
_NO_BYTES = np.zeros(16, np.uint8)


class StateAccess:
    """All types of a state, ready to read."""

    __slots__ = ("_classes", "types")

    def __init__(self, types: tuple[TypeSpec, ...]) -> None:
        self.types = types
        self._classes: list[type[Record]] = []
        for spec in types:
            _check(spec, len(types))
            if spec.kind == OBJECT:
                self._classes.append(make_record_class(spec.name, spec.field_names, spec.vector_names))
            else:
                self._classes.append((ListRecord, SetRecord, MapRecord)[spec.kind - 1])

    def record(self, number: int, ordinal: int) -> "Record":
        """The record at an ordinal that is populated or a ghost."""
        spec = self._type(number)
        if not 0 <= ordinal <= spec.max_ordinal or not (_has(spec.populated, ordinal) or _has(spec.pending, ordinal)):
            raise NotFoundError(f"type {spec.name} has no record {ordinal}")
        return self._make(number, ordinal)

    def value(self, number: int, ordinal: int) -> object:
        """The record, or its value if the type is boxed."""
        spec = self._checked(number, ordinal)
        return self.field(number, ordinal, 0) if spec.boxed else self._make(number, ordinal)

    def field(self, number: int, ordinal: int, position: int) -> object:
        """A field as Python sees it, references followed."""
        spec = self._checked_field(number, ordinal, position)
        if spec.field_codes[position] == REFERENCE:
            target = self.pointer(number, ordinal, position)
            return None if target < 0 else self._follow(number, position, target)
        value = self.scalar(number, ordinal, position)
        if value is None or spec.field_codes[position] not in (FLOAT, DOUBLE):
            return value
        assert isinstance(value, int)
        single = spec.field_codes[position] == FLOAT
        return struct.unpack("<f" if single else "<d", value.to_bytes(4 if single else 8, "little"))[0]

    def scalar(self, number: int, ordinal: int, position: int) -> object:
        """A field as a value to compare: floats as their bits, None for null. Not for references."""
        spec = self._checked_field(number, ordinal, position)
        shard, index = _locate(spec, ordinal)
        width, code = shard.widths[position], spec.field_codes[position]
        if index > shard.max_ordinal or width == 0:
            return None
        bit = index * shard.bits_per_record + shard.offsets[position]
        raw, ones = _read(shard.records, bit, width), (1 << width) - 1
        if code in (STRING, BYTES):
            return self._bytes(spec, shard, ordinal, position, bit, raw, width)
        if code == FLOAT:
            raw &= 0xFFFF_FFFF
            return None if raw in (content.NULL_FLOAT, ones) else raw
        if code == DOUBLE:
            return None if raw in (content.NULL_DOUBLE, ones) else raw
        if raw == ones:
            return None
        if code == BOOLEAN:
            return raw == 1
        if code == REFERENCE:
            return self._follow(number, position, raw)
        size = 32 if code == INT else 64
        raw &= (1 << size) - 1
        return (raw >> 1) ^ -(raw & 1)

    def _bytes(
        self, spec: TypeSpec, shard: Any, ordinal: int, position: int, bit: int, end: int, width: int
    ) -> str | bytes | None:
        if end >> (width - 1):
            return None
        start = 0
        if ordinal >> _shift(spec):
            start = _read(shard.records, bit - shard.bits_per_record, width) & ((1 << (width - 1)) - 1)
        data = shard.variable[position]
        data = _NO_BYTES[:0] if data is None else data
        if start > end or end > len(data):
            _bad_offsets(spec, ordinal)
        if spec.field_codes[position] == STRING:
            return decode_text(data, start, end)
        return bytes(data[start:end])

    def pointer(self, number: int, ordinal: int, position: int) -> int:
        """The ordinal in a REFERENCE field, or -1."""
        spec = self._checked_field(number, ordinal, position)
        if spec.field_codes[position] != REFERENCE:
            raise IndexError(f"field {position} of type {spec.name} is no reference")
        shard, index = _locate(spec, ordinal)
        width = shard.widths[position]
        if index > shard.max_ordinal or width == 0:
            return -1
        raw = _read(shard.records, index * shard.bits_per_record + shard.offsets[position], width)
        return -1 if raw == (1 << width) - 1 else raw

    def size(self, number: int, ordinal: int) -> int:
        """How many elements or entries a collection has."""
        spec = self._checked_collection(number, ordinal)
        start, end = _bounds(spec, ordinal)
        if spec.kind == LIST or start == end:
            return end - start
        shard, index = _locate(spec, ordinal)
        stride = shard.bits_per_pointer + shard.bits_per_size
        size = _read(shard.pointers, index * stride + shard.bits_per_pointer, shard.bits_per_size)
        if size > end - start:
            _bad_offsets(spec, ordinal)
        return size

    def elements(self, number: int, ordinal: int) -> list[int]:
        """The element ordinals of a LIST in order, of a SET in bucket order."""
        return [key for key, _ in self._members(number, ordinal)]

    def entries(self, number: int, ordinal: int) -> list[tuple[int, int]]:
        """The (key, value) ordinals of a MAP in bucket order."""
        return list(self._members(number, ordinal))

    def _members(self, number: int, ordinal: int) -> Iterator[tuple[int, int]]:
        for place in range(self.buckets(number, ordinal)):
            key, value = self.bucket(number, ordinal, place)
            if key >= 0:
                yield key, value

    def buckets(self, number: int, ordinal: int) -> int:
        """How many buckets a SET or MAP record has."""
        start, end = _bounds(self._checked_collection(number, ordinal), ordinal)
        return end - start

    def bucket(self, number: int, ordinal: int, place: int) -> tuple[int, int]:
        """The (key, value) ordinals in one bucket; key -1 if it is empty, value -1 in a SET."""
        spec = self._checked_collection(number, ordinal)
        start, end = _bounds(spec, ordinal)
        if not 0 <= place < end - start:
            raise IndexError(f"there is no bucket {place}")
        shard, _ = _locate(spec, ordinal)
        items, key_width, value_width = _items(spec, shard)
        bit = (start + place) * (key_width + value_width)
        key = _read(items, bit, key_width)
        if spec.kind != LIST and key == (1 << key_width) - 1:
            key = -1
        return key, _read(items, bit + key_width, value_width) if spec.kind == MAP else -1

    def read_fixed(
        self, number: int, position: int, ordinals: Ordinals | None, words: NDArray[np.uint64] | None, count: int
    ) -> tuple[NDArray[Any], Mask]:
        """A column of a field that is neither STRING nor BYTES: values, and a mask of those that are not null, or None.

        Rows are `ordinals` (below 0 is null), or the bits of `words` of which there are `count`, or the first `count`.
        """
        spec = self.types[number]
        code = spec.field_codes[position]
        rows = _rows(ordinals, words, count)
        raw, valid = np.zeros(count, np.uint64), np.zeros(count, np.bool_)
        for shard, places, index in _by_shard(spec, rows):
            width = shard.widths[position]
            if width == 0:
                continue
            found = bits.gather(shard.records, shard.bits_per_record, shard.offsets[position], width, index)
            raw[places] = found
            valid[places] = found != np.uint64((1 << width) - 1)
            if code in (FLOAT, DOUBLE):
                valid[places] &= found != np.uint64(content.NULL_FLOAT if code == FLOAT else content.NULL_DOUBLE)
        values = _converted(raw, code)
        values[~valid] = _null_of(code)
        return values, None if valid.all() else valid

    def read_variable(
        self, number: int, position: int, ordinals: Ordinals | None, words: NDArray[np.uint64] | None, count: int
    ) -> tuple[Ordinals, NDArray[np.uint8], Mask]:
        """A column of a STRING or BYTES field as stored: offsets, bytes, and the mask of `read_fixed`.

        Rows as in `read_fixed`. The bytes are a view of the shard's own where the rows lie there without a gap.
        """
        spec = self.types[number]
        rows = _rows(ordinals, words, count)
        lengths, valid = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        pieces: list[tuple[NDArray[np.uint8], NDArray[np.intp], Ordinals, Ordinals]] = []
        for shard, places, index in _by_shard(spec, rows):
            width = shard.widths[position]
            if width == 0:
                continue
            found = bits.gather(shard.records, shard.bits_per_record, shard.offsets[position], width, index)
            low = np.uint64((1 << (width - 1)) - 1)
            before = np.maximum(index - 1, 0)
            starts: Any = (
                bits.gather(shard.records, shard.bits_per_record, shard.offsets[position], width, before) & low
            )
            starts[index == 0] = 0
            here = found <= low
            ends = np.where(here, found, starts).astype(np.int64)
            data = shard.variable[position] if shard.variable[position] is not None else _NO_BYTES[:0]
            bad = np.flatnonzero((starts.astype(np.int64) > ends) | (here & (ends > len(data))))
            if len(bad):
                _bad_offsets(spec, int(rows[places[bad[0]]]))
            valid[places] = here
            lengths[places] = ends - starts.astype(np.int64)
            pieces.append((data, places, starts.astype(np.int64), ends))
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        mask = None if valid.all() else valid
        if len(spec.shards) == 1 and pieces:
            data, _, starts, ends = pieces[0]
            filled = np.flatnonzero(ends > starts)
            if not len(filled):
                return offsets, data[:0], mask
            if (starts[filled[1:]] == ends[filled[:-1]]).all():
                return offsets, data[starts[filled[0]] : ends[filled[-1]]], mask
        out = np.empty(int(offsets[-1]), np.uint8)
        for data, places, starts, ends in pieces:
            size = ends - starts
            within = np.arange(int(size.sum()), dtype=np.int64) - np.repeat(np.cumsum(size) - size, size)
            out[np.repeat(offsets[places], size) + within] = data[np.repeat(starts, size) + within]
        return offsets, out, mask

    def read_collections(
        self, number: int, ordinals: Ordinals | None, words: NDArray[np.uint64] | None, count: int
    ) -> tuple[Ordinals, NDArray[np.int32], NDArray[np.int32] | None]:
        """Offsets, element or key ordinals, and value ordinals (None but for a MAP); rows as in `read_fixed`."""
        offsets = np.zeros(count + 1, np.int64)
        members: list[tuple[int, int]] = []
        for place, ordinal in enumerate(_rows(ordinals, words, count).tolist()):
            if ordinal >= 0:
                members += self._members(number, ordinal)
            offsets[place + 1] = len(members)
        table = np.array(members, np.int64).reshape(-1, 2)
        keys, values = table[:, 0].astype(np.int32), table[:, 1].astype(np.int32)
        return offsets, keys, values if self.types[number].kind == MAP else None

    def _make(self, number: int, ordinal: int) -> "Record":
        record = object.__new__(self._classes[number])
        record._state, record._number, record._ordinal = self, number, ordinal
        return record

    def _follow(self, number: int, position: int, ordinal: int) -> object:
        spec = self.types[number]
        link = spec.links[position]
        if link < 0:
            return Reference(str(spec.link_names[position]), ordinal)
        if ordinal > self.types[link].max_ordinal:
            raise content.out_of_range(self, link, ordinal)
        return self.value(link, ordinal)

    def _type(self, number: int) -> TypeSpec:
        if not 0 <= number < len(self.types):
            raise IndexError(f"there is no type number {number}")
        return self.types[number]

    def _checked(self, number: int, ordinal: int) -> TypeSpec:
        spec = self._type(number)
        if not 0 <= ordinal <= spec.max_ordinal:
            raise NotFoundError(f"type {spec.name} has no record {ordinal}")
        return spec

    def _checked_field(self, number: int, ordinal: int, position: int) -> TypeSpec:
        spec = self._checked(number, ordinal)
        if spec.kind != OBJECT or not 0 <= position < len(spec.field_codes):
            raise IndexError(f"type {spec.name} has no field number {position}")
        return spec

    def _checked_collection(self, number: int, ordinal: int) -> TypeSpec:
        spec = self._checked(number, ordinal)
        if spec.kind == OBJECT:
            raise IndexError(f"type {spec.name} is no collection")
        return spec


def _check(spec: TypeSpec, types: int) -> None:
    shards = len(spec.shards)
    if shards == 0 or shards & (shards - 1):
        raise InputError(f"type {spec.name} has {shards} shards, not a power of two")
    if any(link >= types for link in spec.links):
        raise InputError(f"type {spec.name} refers to a type number past {types - 1}")
    for shard in spec.shards:
        count = shard.max_ordinal + 1
        if spec.kind == OBJECT:
            _check_room(spec, shard.records, shard.bits_per_record, count)
            for position, (offset, width) in enumerate(zip(shard.offsets, shard.widths, strict=True)):
                if not (0 <= width <= 64 and 0 <= offset and offset + width <= shard.bits_per_record):
                    raise InputError(f"type {spec.name}: field {position} lies outside its record")
            continue
        size_width = 0 if spec.kind == LIST else shard.bits_per_size
        items, key_width, value_width = _items(spec, shard)
        for width in (shard.bits_per_pointer, size_width, key_width, value_width):
            if not 0 <= width <= 64:
                raise InputError(f"type {spec.name} has a width of {width} bits")
        _check_room(spec, shard.pointers, shard.bits_per_pointer + size_width, count)
        total = shard.total_elements if spec.kind == LIST else shard.total_buckets
        _check_room(spec, items, key_width + value_width, total)


def _check_room(spec: TypeSpec, data: NDArray[np.uint8], stride: int, count: int) -> None:
    if stride < 0 or count < 0 or (count and stride and (count * stride + 7) // 8 + _REACH - 1 > len(data)):
        raise InputError(f"type {spec.name}: {count} elements of {stride} bits do not fit {len(data)} bytes")


def _has(words: NDArray[np.uint64], ordinal: int) -> bool:
    return ordinal >> 6 < len(words) and bool(int(words[ordinal >> 6]) >> (ordinal & 63) & 1)


def _shift(spec: TypeSpec) -> int:
    return len(spec.shards).bit_length() - 1


def _locate(spec: TypeSpec, ordinal: int) -> tuple[Any, int]:
    return spec.shards[ordinal & (len(spec.shards) - 1)], ordinal >> _shift(spec)


def _read(data: NDArray[np.uint8], bit: int, width: int) -> int:
    first = bit >> 3
    whole = int.from_bytes(data[first : (bit + width + 7) >> 3].tobytes(), "little")
    return whole >> (bit & 7) & ((1 << width) - 1)


def _items(spec: TypeSpec, shard: Any) -> tuple[NDArray[np.uint8], int, int]:
    if spec.kind == LIST:
        return shard.elements, shard.bits_per_element, 0
    if spec.kind == MAP:
        return shard.buckets, shard.bits_per_key, shard.bits_per_value
    return shard.buckets, shard.bits_per_element, 0


def _bounds(spec: TypeSpec, ordinal: int) -> tuple[int, int]:
    shard, index = _locate(spec, ordinal)
    if index > shard.max_ordinal:
        return 0, 0
    stride = shard.bits_per_pointer + (0 if spec.kind == LIST else shard.bits_per_size)
    end = _read(shard.pointers, index * stride, shard.bits_per_pointer)
    start = _read(shard.pointers, (index - 1) * stride, shard.bits_per_pointer) if index else 0
    total = shard.total_elements if spec.kind == LIST else shard.total_buckets
    if not start <= end <= total:
        _bad_offsets(spec, ordinal)
    return start, end


def _bad_offsets(spec: TypeSpec, ordinal: int) -> NoReturn:
    raise DecodeError(
        "OffsetRange", f"record {ordinal} of type {spec.name} points outside its data", f"type {spec.name}"
    )


def _rows(ordinals: Ordinals | None, words: NDArray[np.uint64] | None, count: int) -> Ordinals:
    if ordinals is not None:
        return ordinals
    if words is not None:
        return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))[:count].astype(np.int64)
    return np.arange(count, dtype=np.int64)


def _by_shard(spec: TypeSpec, rows: Ordinals) -> Iterator[tuple[Any, NDArray[np.intp], Ordinals]]:
    """For each shard: itself, the rows it answers, and its own ordinals for them; not the rows it has no slot for."""
    mask, shift = len(spec.shards) - 1, _shift(spec)
    for number, shard in enumerate(spec.shards):
        places = np.flatnonzero((rows >= 0) & (rows & mask == number) & (rows >> shift <= shard.max_ordinal))
        if len(places):
            yield shard, places, rows[places] >> shift


_DTYPES = {INT: np.int32, REFERENCE: np.int32, LONG: np.int64, BOOLEAN: np.bool_, FLOAT: np.float32, DOUBLE: np.float64}


def _converted(raw: NDArray[np.uint64], code: int) -> NDArray[Any]:
    one = np.uint64(1)
    if code == BOOLEAN:
        truths: NDArray[np.bool_] = raw == one
        return truths
    if code == FLOAT:
        return raw.astype(np.uint32).view(np.float32)
    if code == DOUBLE:
        return raw.view(np.float64).copy()
    if code == REFERENCE:
        return raw.astype(np.uint32).view(np.int32)
    if code == INT:
        raw = raw & np.uint64(0xFFFF_FFFF)
    return ((raw >> one).view(np.int64) ^ -(raw & one).view(np.int64)).astype(_DTYPES[code])


def _null_of(code: int) -> Any:
    """What Hollow's readers give for null."""
    if code == FLOAT:
        return np.uint32(content.NULL_FLOAT).view(np.float32)
    if code == DOUBLE:
        return np.uint64(content.NULL_DOUBLE).view(np.float64)
    return {INT: -(1 << 31), LONG: -(1 << 63), BOOLEAN: False, REFERENCE: -1}[code]


def gather_slices(data: NDArray[np.uint8], starts: Ordinals, ends: Ordinals) -> tuple[Ordinals, NDArray[np.uint8]]:
    """Pieces of `data` put one behind the other: offsets and bytes."""
    sizes = ends - starts
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    within = np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1], sizes)
    return offsets, data[np.repeat(starts, sizes) + within]


class TypeAccess:
    """The records of one type by ordinal: those that are populated, and ghosts. A subclass may open itself late."""

    __slots__ = ("_opened",)
    _opened: tuple[StateAccess, int]

    def _open(self) -> tuple[StateAccess, int]:
        """The `StateAccess` to read from and the number of the type."""
        raise NotImplementedError

    def _close(self) -> None:
        """Let go of the memory; the next read opens it anew."""
        if hasattr(self, "_opened"):
            del self._opened

    def __getitem__(self, ordinal: SupportsIndex) -> "Record":
        try:
            state, number = self._opened
        except AttributeError:
            state, number = self._opened = self._open()
        return state.record(number, ordinal.__index__())


class Record:
    """One record of a state. Holds the state's memory; equal to any record of the same type and content."""

    __slots__ = ("_number", "_ordinal", "_state")
    _state: StateAccess
    _number: int
    _ordinal: int

    def __init__(self, *arguments: object, **named: object) -> None:
        raise TypeError("records come from a state: state[type][ordinal]")

    @property
    def ordinal(self) -> int:
        """The number of the record in its type."""
        return self._ordinal

    @property
    def type_name(self) -> str:
        """The name of the record's type."""
        return self._spec.name

    @property
    def _spec(self) -> TypeSpec:
        return self._place()[0].types[self._number]

    def _place(self) -> tuple[StateAccess, int, int]:
        try:
            return self._state, self._number, self._ordinal
        except AttributeError:
            raise TypeError("records come from a state: state[type][ordinal]") from None

    def to_python(self, *, max_depth: int = content.MAX_DEPTH) -> object:
        """Dicts, lists and scalars, references followed; InputError where they nest deeper than `max_depth`."""
        return content.to_python(*self._place(), max_depth)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Record):
            return NotImplemented
        return sameness.equal(self._place(), other._place())

    def __hash__(self) -> int:
        return sameness.content_hash(*self._place())

    def __repr__(self) -> str:
        return content.describe(*self._place())

    def __reduce__(self) -> NoReturn:
        raise TypeError("a record is a view of its state and cannot be pickled; use to_python()")


class ObjectRecord(Record):
    """A record of an OBJECT type: fields as attributes, or by name in brackets."""

    __slots__ = ()

    def __getitem__(self, name: str) -> object:
        spec = self._spec
        if name in spec.vector_names:
            return content.vector(spec, name, self._ordinal)
        return self._state.field(self._number, self._ordinal, self._position(name))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._spec.field_names, *self._spec.vector_names]

    def field_names(self) -> tuple[str, ...]:
        """The names of the fields in order, without vectors."""
        return self._spec.field_names

    def vector_names(self) -> tuple[str, ...]:
        """The names of the vectors that belong to the record."""
        return self._spec.vector_names

    def reference(self, name: str) -> int | None:
        """The ordinal that a REFERENCE field holds, or None."""
        ordinal = self._state.pointer(self._number, self._ordinal, self._position(name))
        return None if ordinal < 0 else ordinal

    def to_dict(self, *, max_depth: int = content.MAX_DEPTH) -> dict[str, object]:
        """The fields by name, references followed; InputError where they nest deeper than `max_depth`."""
        if self._spec.boxed:
            value = {"value": self._state.field(self._number, self._ordinal, 0)}
            return value | content.plain_vectors(self._spec, self._ordinal)
        result = content.to_python(*self._place(), max_depth)
        assert isinstance(result, dict)
        return result

    def _position(self, name: str) -> int:
        spec = self._spec
        try:
            return spec.field_names.index(name)
        except ValueError:
            raise NotFoundError(f"type {spec.name} has no field {name!r}") from None


class FieldAccess:
    """The attribute of an OBJECT record that reads one field."""

    __slots__ = ("_position", "name")

    def __init__(self, name: str, position: int) -> None:
        if position < 0:
            raise IndexError("a field position is not negative")
        self.name, self._position = name, position

    def __get__(self, instance: object, owner: object) -> object:
        if instance is None:
            return self
        if not isinstance(instance, ObjectRecord) or self._position >= len(instance._spec.field_codes):
            raise TypeError(f"field {self.name!r} of a {type(instance).__name__}")
        return instance._state.field(instance._number, instance._ordinal, self._position)

    def __set__(self, instance: object, value: object) -> NoReturn:
        raise AttributeError(f"{type(instance).__name__!r} object attribute {self.name!r} is read-only")

    def __repr__(self) -> str:
        return f"<field {self.name!r}>"


class VectorAccess:
    """The attribute of an OBJECT record that reads its row of a vector column."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: object) -> object:
        if instance is None:
            return self
        if not isinstance(instance, ObjectRecord):
            raise TypeError(f"vector {self.name!r} of a {type(instance).__name__}")
        return content.vector(instance._spec, self.name, instance._ordinal)

    def __set__(self, instance: object, value: object) -> NoReturn:
        raise AttributeError(f"{type(instance).__name__!r} object attribute {self.name!r} is read-only")

    def __repr__(self) -> str:
        return f"<vector {self.name!r}>"


@lru_cache(maxsize=4096)
def make_record_class(
    name: str, field_names: tuple[str, ...], vector_names: tuple[str, ...] = ()
) -> type[ObjectRecord]:
    """The class of an OBJECT type's records. A field named like a method is read as `record["name"]` only."""
    taken = set(dir(ObjectRecord))
    members: dict[str, object] = {
        field: FieldAccess(field, position)
        for position, field in enumerate(field_names)
        if field not in taken and not (field.startswith("__") and field.endswith("__"))
    }
    for vector in vector_names:
        if vector not in taken and not (vector.startswith("__") and vector.endswith("__")):
            members[vector] = VectorAccess(vector)
    # Class names hold neither NUL nor lone surrogates; names in a blob can.
    shown = name.replace("\0", "?").encode("utf-8", "replace").decode()
    return type(shown, (ObjectRecord,), {**members, "__slots__": (), "__module__": "deltaic.state.records"})


class CollectionRecord(Record):
    """A record that holds other records. Members of boxed types are their values."""

    __slots__ = ()

    def __len__(self) -> int:
        state, number, ordinal = self._place()
        return state.size(number, ordinal)

    def __iter__(self) -> Iterator[Any]:
        state, number, ordinal = self._place()
        return (state._follow(number, 0, key) for key in state.elements(number, ordinal))

    def __contains__(self, wanted: object) -> bool:
        return lookup.find_member(*self._place(), wanted) is not None


class ListRecord(CollectionRecord):
    """A record of a LIST type: a sequence."""

    __slots__ = ()

    def __getitem__(self, place: Any) -> Any:
        state, number, ordinal = self._place()
        elements = state.elements(number, ordinal)
        if isinstance(place, slice):
            return [state._follow(number, 0, element) for element in elements[place]]
        try:
            element = elements[place]
        except IndexError:
            raise IndexError(f"{self.type_name} {ordinal} has {len(elements)} elements, no element {place}") from None
        return state._follow(number, 0, element)

    def __reversed__(self) -> Iterator[Any]:
        return iter(self[::-1])

    def index(self, wanted: object, *bounds: int) -> int:
        """The first place of an element."""
        return list(self).index(wanted, *bounds)

    def count(self, wanted: object) -> int:
        """How often an element occurs."""
        return list(self).count(wanted)

    def ordinals(self) -> list[int]:
        """The element ordinals."""
        state, number, ordinal = self._place()
        return state.elements(number, ordinal)

    def to_list(self, *, max_depth: int = content.MAX_DEPTH) -> Any:
        """The elements, references followed."""
        return self.to_python(max_depth=max_depth)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, list):
            return list(self) == other
        return Record.__eq__(self, other)

    def __hash__(self) -> int:
        return Record.__hash__(self)


class SetRecord(CollectionRecord):
    """A record of a SET type."""

    __slots__ = ()

    def find(self, *key: object) -> Any:
        """The element with a hash key, or None."""
        state, number, ordinal = self._place()
        found = lookup.find(state, number, ordinal, key)
        return None if found is None else state._follow(number, 0, found[0])

    def ordinals(self) -> list[int]:
        """The element ordinals in bucket order."""
        state, number, ordinal = self._place()
        return state.elements(number, ordinal)

    def to_list(self, *, max_depth: int = content.MAX_DEPTH) -> Any:
        """The elements, references followed."""
        return self.to_python(max_depth=max_depth)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, set):
            return len(other) == len(self) and set(self) == other
        return Record.__eq__(self, other)

    def __hash__(self) -> int:
        return Record.__hash__(self)


class MapRecord(CollectionRecord):
    """A record of a MAP type: a mapping."""

    __slots__ = ()

    def __getitem__(self, key: object) -> Any:
        state, number, ordinal = self._place()
        found = lookup.find_member(state, number, ordinal, key)
        if found is None:
            raise KeyError(key)
        return state._follow(number, 1, found[1])

    def get(self, key: object, default: object = None) -> Any:
        """The value of a key, or `default`."""
        state, number, ordinal = self._place()
        found = lookup.find_member(state, number, ordinal, key)
        return default if found is None else state._follow(number, 1, found[1])

    def find(self, *key: object) -> Any:
        """The value of the entry with a hash key, or None."""
        found = self.find_entry(*key)
        return None if found is None else found[1]

    def find_entry(self, *key: object) -> tuple[Any, Any] | None:
        """The (key, value) with a hash key, or None."""
        state, number, ordinal = self._place()
        found = lookup.find(state, number, ordinal, key)
        if found is None:
            return None
        return state._follow(number, 0, found[0]), state._follow(number, 1, found[1])

    def keys(self) -> list[Any]:
        """The keys in bucket order."""
        return list(self)

    def values(self) -> list[Any]:
        """The values in bucket order."""
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[Any, Any]]:
        """The (key, value) pairs in bucket order."""
        state, number, ordinal = self._place()
        entries = state.entries(number, ordinal)
        return [(state._follow(number, 0, key), state._follow(number, 1, value)) for key, value in entries]

    def ordinals(self) -> list[tuple[int, int]]:
        """The (key, value) ordinals in bucket order."""
        state, number, ordinal = self._place()
        return state.entries(number, ordinal)

    def to_dict(self, *, max_depth: int = content.MAX_DEPTH) -> Any:
        """The entries; a list of pairs if keys are records, or one occurs twice."""
        return self.to_python(max_depth=max_depth)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dict):
            return len(other) == len(self) and dict(self.items()) == other
        return Record.__eq__(self, other)

    def __hash__(self) -> int:
        return Record.__hash__(self)


Sequence.register(ListRecord)
Mapping.register(MapRecord)

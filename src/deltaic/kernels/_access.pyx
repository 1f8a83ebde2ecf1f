"""Records and columns straight from the packed shards of a state.

`StateAccess` holds one C description of each type of a state, and the arrays they point into: whoever holds it, or a
record, keeps the memory alive. Nothing refers back to records, so none of this needs the cycle collector.
Lengths of the arrays are checked once, when a `StateAccess` is made; after that every read is within them whatever the
bits say: offsets are compared with the data they point into, ordinals with the type they refer to. A shard may have
fewer slots than its type has ordinals: what lies behind reads as null or empty.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from deltaic.kernels._bits cimport low_bits, read_bits
from deltaic.kernels._text cimport decode_units

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from deltaic.errors import DecodeError, InputError, NotFoundError
from deltaic.kernels import content, lookup, sameness
from deltaic.kernels.content import Reference

cdef extern from *:
    """
    static CYTHON_INLINE PyObject* deltaic_new(PyObject* type, PyObject* no_arguments) {
        PyObject* made = ((PyTypeObject*)type)->tp_new((PyTypeObject*)type, no_arguments, NULL);
        /* Classes made at run time are always collected, but a record can be in no cycle. */
        if (made != NULL && PyType_IS_GC(Py_TYPE(made))) PyObject_GC_UnTrack(made);
        return made;
    }
    """
    object deltaic_new(object type, object no_arguments)
    int __builtin_ctzll(unsigned long long value) noexcept nogil
    void __builtin_prefetch(const void* address) noexcept nogil

cdef enum:
    # Values that are decoded to a buffer before they are converted: small enough for the first cache.
    BLOCK = 512
    # Bytes that a load at the last bit may touch.
    REACH = 9
    # How many rows ahead of a gather memory is asked for.
    AHEAD = 12

cdef uint64_t NULL_DOUBLE = 0x7FF8000000000001ULL
cdef uint64_t ALL_ONES = 0xFFFFFFFFFFFFFFFFULL
cdef uint8_t[16] NOTHING
memset(NOTHING, 0, 16)
cdef tuple NO_ARGUMENTS = ()


cdef const uint8_t* address(object array, list keep, int64_t* size) except NULL:
    cdef const uint8_t[::1] view = array
    keep.append(array)
    size[0] = view.shape[0]
    return &view[0] if view.shape[0] else <const uint8_t*>NOTHING


cdef const uint64_t* words_address(object array, list keep, int64_t* size) except NULL:
    cdef const uint64_t[::1] view = array
    keep.append(array)
    size[0] = view.shape[0]
    return &view[0] if view.shape[0] else <const uint64_t*>NOTHING


@cython.final
cdef class StateAccess:
    """All types of a state, ready to read."""

    def __cinit__(self, tuple types not None):
        cdef Py_ssize_t number
        self.types = types
        self.keep = []
        self.classes = []
        self.count = len(types)
        self.slots = <TypeSlot*>calloc(max(self.count, 1), sizeof(TypeSlot))
        if self.slots is NULL:
            raise MemoryError
        for number in range(self.count):
            self._describe(number, types[number])

    def __dealloc__(self):
        cdef Py_ssize_t number
        if self.slots is not NULL:
            for number in range(self.count):
                free(self.slots[number].shards)
                free(self.slots[number].fields)
                free(<void*>self.slots[number].links)
            free(self.slots)

    cdef int _describe(self, Py_ssize_t number, object spec) except -1:
        cdef TypeSlot* slot = &self.slots[number]
        cdef Py_ssize_t shards = len(spec.shards)
        cdef Py_ssize_t shard_number, position, link
        cdef ShardSlot* shard
        slot.kind = spec.kind
        slot.number = <int>number
        slot.boxed = spec.boxed
        slot.limit = spec.max_ordinal + 1
        slot.field_count = len(spec.field_codes)
        if shards == 0 or shards & (shards - 1):
            raise InputError(f"type {spec.name} has {shards} shards, not a power of two")
        slot.shard_mask = shards - 1
        slot.shift = shards.bit_length() - 1
        if spec.kind == OBJECT:
            record_class = make_record_class(spec.name, spec.field_names, spec.vector_names)
        else:
            record_class = (None, ListRecord, SetRecord, MapRecord)[spec.kind]
        self.classes.append(record_class)
        slot.record_class = <PyObject*>record_class
        slot.populated = words_address(spec.populated, self.keep, &slot.populated_words)
        slot.pending = words_address(spec.pending, self.keep, &slot.pending_words)
        slot.links = <TypeSlot**>calloc(max(len(spec.links), 1), sizeof(TypeSlot*))
        slot.shards = <ShardSlot*>calloc(shards, sizeof(ShardSlot))
        slot.fields = <FieldSlot*>calloc(max(slot.field_count * shards, 1), sizeof(FieldSlot))
        if slot.links is NULL or slot.shards is NULL or slot.fields is NULL:
            raise MemoryError
        for position, link in enumerate(spec.links):
            if link >= self.count:
                raise InputError(f"type {spec.name} refers to type number {link} of {self.count}")
            slot.links[position] = &self.slots[link] if link >= 0 else NULL
        for shard_number in range(shards):
            shard = &slot.shards[shard_number]
            shard.fields = &slot.fields[shard_number * slot.field_count]
            data = spec.shards[shard_number]
            shard.count = data.max_ordinal + 1
            if spec.kind == OBJECT:
                self._describe_object(spec, data, slot, shard)
            else:
                self._describe_collection(spec, data, slot, shard)
        return 0

    cdef int _describe_object(self, object spec, object data, TypeSlot* slot, ShardSlot* shard) except -1:
        cdef FieldSlot* field
        cdef int64_t size = 0
        cdef int position
        shard.stride = data.bits_per_record
        shard.records = address(data.records, self.keep, &size)
        check_room(spec, size, shard.stride, shard.count)
        if size < REACH:
            shard.records = <const uint8_t*>NOTHING
        for position in range(slot.field_count):
            field = &shard.fields[position]
            field.code = spec.field_codes[position]
            field.offset = data.offsets[position]
            field.width = data.widths[position]
            if not (0 <= field.width <= 64 and 0 <= field.offset and field.offset + field.width <= shard.stride):
                raise InputError(f"type {spec.name}: field {position} lies outside its record")
            field.mask = low_bits(field.width)
            field.end_mask = field.mask >> 1
            field.data = <const uint8_t*>NOTHING
            if field.code == STRING or field.code == BYTES:
                if data.variable[position] is not None:
                    field.data = address(data.variable[position], self.keep, &field.data_size)
        return 0

    cdef int _describe_collection(self, object spec, object data, TypeSlot* slot, ShardSlot* shard) except -1:
        cdef int64_t size = 0
        shard.records = address(data.pointers, self.keep, &size)
        shard.pointer_width = data.bits_per_pointer
        shard.size_width = 0 if slot.kind == LIST else data.bits_per_size
        shard.stride = shard.pointer_width + shard.size_width
        check_room(spec, size, shard.stride, shard.count)
        if size < REACH:
            shard.records = <const uint8_t*>NOTHING
        if slot.kind == LIST:
            shard.items = address(data.elements, self.keep, &size)
            shard.item_count = data.total_elements
            shard.key_width = data.bits_per_element
        else:
            shard.items = address(data.buckets, self.keep, &size)
            shard.item_count = data.total_buckets
            shard.key_width = data.bits_per_key if slot.kind == MAP else data.bits_per_element
            shard.value_width = data.bits_per_value if slot.kind == MAP else 0
        shard.item_stride = shard.key_width + shard.value_width
        for width in (shard.pointer_width, shard.size_width, shard.key_width, shard.value_width):
            if not 0 <= width <= 64:
                raise InputError(f"type {spec.name} has a width of {width} bits")
        check_room(spec, size, shard.item_stride, shard.item_count)
        if size < REACH:
            shard.items = <const uint8_t*>NOTHING
        shard.pointer_mask = low_bits(shard.pointer_width)
        shard.size_mask = low_bits(shard.size_width)
        shard.key_mask = low_bits(shard.key_width)
        shard.value_mask = low_bits(shard.value_width)
        return 0

    cdef TypeSlot* _slot(self, Py_ssize_t number, int64_t ordinal) except NULL:
        if not 0 <= number < self.count:
            raise IndexError(f"there is no type number {number}")
        if not 0 <= ordinal < self.slots[number].limit:
            raise NotFoundError(f"type {self.types[number].name} has no record {ordinal}")
        return &self.slots[number]

    cdef TypeSlot* _field_slot(self, Py_ssize_t number, int64_t ordinal, Py_ssize_t position) except NULL:
        cdef TypeSlot* slot = self._slot(number, ordinal)
        if slot.kind != OBJECT or not 0 <= position < slot.field_count:
            raise IndexError(f"type {self.types[number].name} has no field number {position}")
        return slot

    cdef TypeSlot* _collection_slot(self, Py_ssize_t number, int64_t ordinal) except NULL:
        cdef TypeSlot* slot = self._slot(number, ordinal)
        if slot.kind == OBJECT:
            raise IndexError(f"type {self.types[number].name} is no collection")
        return slot

    def record(self, Py_ssize_t number, int64_t ordinal):
        """The record at an ordinal that is populated or a ghost."""
        if not 0 <= number < self.count:
            raise IndexError(f"there is no type number {number}")
        return checked_record(self, &self.slots[number], ordinal)

    def value(self, Py_ssize_t number, int64_t ordinal):
        """The record, or its value if the type is boxed."""
        return wrap(self, self._slot(number, ordinal), ordinal)

    def field(self, Py_ssize_t number, int64_t ordinal, Py_ssize_t position):
        """A field as Python sees it, references followed."""
        return read_field(self, self._field_slot(number, ordinal, position), ordinal, <int>position)

    def scalar(self, Py_ssize_t number, int64_t ordinal, Py_ssize_t position):
        """A field as a value to compare: floats as their bits, None for null. Not for references."""
        cdef TypeSlot* slot = self._field_slot(number, ordinal, position)
        cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
        cdef FieldSlot* field = &shard.fields[position]
        cdef uint64_t raw
        if field.code == FLOAT or field.code == DOUBLE:
            if (ordinal >> slot.shift) >= shard.count:
                return None
            raw = raw_field(slot, ordinal, <int>position)
            if field.width == 0 or raw == field.mask:
                return None
            if raw == (<uint64_t>NULL_FLOAT if field.code == FLOAT else NULL_DOUBLE):
                return None
            return raw
        return read_field(self, slot, ordinal, <int>position)

    def pointer(self, Py_ssize_t number, int64_t ordinal, Py_ssize_t position):
        """The ordinal in a REFERENCE field, or -1."""
        cdef TypeSlot* slot = self._field_slot(number, ordinal, position)
        cdef uint64_t raw
        if slot.shards[0].fields[position].code != REFERENCE:
            raise IndexError(f"field {position} of type {self.types[number].name} is no reference")
        if (ordinal >> slot.shift) >= slot.shards[ordinal & slot.shard_mask].count:
            return -1
        raw = raw_field(slot, ordinal, <int>position)
        if raw == slot.shards[ordinal & slot.shard_mask].fields[position].mask:
            return -1
        return raw

    def size(self, Py_ssize_t number, int64_t ordinal):
        """How many elements or entries a collection has."""
        cdef TypeSlot* slot = self._collection_slot(number, ordinal)
        return collection_size(self, slot, ordinal)

    def elements(self, Py_ssize_t number, int64_t ordinal):
        """The element ordinals of a LIST in order, of a SET in bucket order."""
        cdef TypeSlot* slot = self._collection_slot(number, ordinal)
        return member_list(self, slot, ordinal, False)

    def entries(self, Py_ssize_t number, int64_t ordinal):
        """The (key, value) ordinals of a MAP in bucket order."""
        cdef TypeSlot* slot = self._collection_slot(number, ordinal)
        return member_list(self, slot, ordinal, True)

    def buckets(self, Py_ssize_t number, int64_t ordinal):
        """How many buckets a SET or MAP record has."""
        cdef TypeSlot* slot = self._collection_slot(number, ordinal)
        cdef int64_t start = 0, end = 0
        bounds(self, slot, ordinal, &start, &end)
        return end - start

    def bucket(self, Py_ssize_t number, int64_t ordinal, int64_t place):
        """The (key, value) ordinals in one bucket; key -1 if it is empty, value -1 in a SET."""
        cdef TypeSlot* slot = self._collection_slot(number, ordinal)
        cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
        cdef int64_t start = 0, end = 0
        cdef uint64_t key
        bounds(self, slot, ordinal, &start, &end)
        if not 0 <= place < end - start:
            raise IndexError(f"there is no bucket {place}")
        key = item_key(shard, start + place)
        return (
            -1 if slot.kind != LIST and key == shard.key_mask else key,
            item_value(shard, start + place) if slot.kind == MAP else -1,
        )

    def read_fixed(self, Py_ssize_t number, Py_ssize_t position, ordinals, words, Py_ssize_t count):
        """A column of a field that is neither STRING nor BYTES: values, and a mask of those that are not null, or None.

        Rows are `ordinals` (below 0 is null), or the bits of `words` of which there are `count`, or the first `count`.
        """
        return read_fixed_column(self, &self.slots[number], <int>position, ordinals, words, count)

    def read_variable(self, Py_ssize_t number, Py_ssize_t position, ordinals, words, Py_ssize_t count):
        """A column of a STRING or BYTES field as stored: offsets, bytes, and the mask of `read_fixed`.

        Rows as in `read_fixed`. The bytes are a view of the shard's own where the rows lie there without a gap.
        """
        return read_variable_column(self, &self.slots[number], <int>position, ordinals, words, count)

    def read_collections(self, Py_ssize_t number, ordinals, words, Py_ssize_t count):
        """Offsets, element or key ordinals, and value ordinals (None but for a MAP); rows as in `read_fixed`."""
        return read_collection_column(self, &self.slots[number], ordinals, words, count)


cdef int check_room(object spec, int64_t size, int64_t stride, int64_t count) except -1:
    if stride < 0 or count < 0 or (count and stride and (count * stride + 7) // 8 + REACH - 1 > size):
        raise InputError(f"type {spec.name}: {count} elements of {stride} bits do not fit {size} bytes")
    return 0


# One field of one record

cdef object bad_reference(StateAccess state, TypeSlot* link, uint64_t ordinal):
    raise content.out_of_range(state, link.number, ordinal)


cdef object bad_offsets(StateAccess state, TypeSlot* slot, int64_t ordinal):
    name = state.types[slot.number].name
    raise DecodeError("OffsetRange", f"record {ordinal} of type {name} points outside its data", f"type {name}")


cdef inline object wrap(StateAccess state, TypeSlot* slot, int64_t ordinal):
    if slot.boxed:
        return read_field(state, slot, ordinal, 0)
    return make_record(state, slot, ordinal)


cdef inline object follow(StateAccess state, TypeSlot* slot, int position, uint64_t ordinal):
    cdef TypeSlot* link = slot.links[position]
    if link is NULL:
        return Reference(state.types[slot.number].link_names[position], ordinal)
    if ordinal >= <uint64_t>link.limit:
        bad_reference(state, link, ordinal)
    return wrap(state, link, <int64_t>ordinal)


cdef object read_field(StateAccess state, TypeSlot* slot, int64_t ordinal, int position):
    cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
    cdef FieldSlot* field = &shard.fields[position]
    cdef int64_t index = ordinal >> slot.shift
    cdef int64_t bit = index * shard.stride + field.offset
    cdef uint64_t raw, start
    cdef uint32_t word
    cdef float single
    cdef double double_value
    cdef int code = field.code
    if index >= shard.count:
        return None
    raw = read_bits(shard.records, bit, field.width, field.mask)
    if code == STRING or code == BYTES:
        if field.width == 0 or raw > field.end_mask:
            return None
        start = 0
        if index:
            start = read_bits(shard.records, bit - shard.stride, field.width, field.mask) & field.end_mask
        if start > raw or raw > <uint64_t>field.data_size:
            bad_offsets(state, slot, ordinal)
        if code == STRING:
            return decode_units(field.data + start, <Py_ssize_t>(raw - start))
        return PyBytes_FromStringAndSize(<const char*>field.data + start, <Py_ssize_t>(raw - start))
    if code == FLOAT:
        word = <uint32_t>raw
        # All ones stand where a delta lacked the field; a real NaN is canonical and never that.
        if field.width == 0 or word == NULL_FLOAT or raw == field.mask:
            return None
        memcpy(&single, &word, 4)
        return <double>single
    if code == DOUBLE:
        if field.width == 0 or raw == NULL_DOUBLE or raw == field.mask:
            return None
        memcpy(&double_value, &raw, 8)
        return double_value
    if raw == field.mask:
        return None
    if code == REFERENCE:
        return follow(state, slot, position, raw)
    if code == INT:
        word = <uint32_t>raw
        return <int32_t>((word >> 1) ^ (0 - (word & 1)))
    if code == LONG:
        return <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return raw == 1


# One collection

cdef inline uint64_t item_key(ShardSlot* shard, int64_t item) noexcept nogil:
    return read_bits(shard.items, item * shard.item_stride, shard.key_width, shard.key_mask)


cdef inline uint64_t item_value(ShardSlot* shard, int64_t item) noexcept nogil:
    return read_bits(
        shard.items, item * shard.item_stride + shard.key_width, shard.value_width, shard.value_mask
    )


cdef inline bint try_bounds(TypeSlot* slot, int64_t ordinal, int64_t* start, int64_t* end) noexcept nogil:
    """Where the items of a collection are; False if that is outside the shard."""
    cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
    cdef int64_t index = ordinal >> slot.shift
    cdef int64_t bit = index * shard.stride
    if index >= shard.count:
        start[0] = end[0] = 0
        return True
    end[0] = <int64_t>read_bits(shard.records, bit, shard.pointer_width, shard.pointer_mask)
    start[0] = 0
    if index:
        start[0] = <int64_t>read_bits(shard.records, bit - shard.stride, shard.pointer_width, shard.pointer_mask)
    return 0 <= start[0] <= end[0] <= shard.item_count


cdef inline int bounds(StateAccess state, TypeSlot* slot, int64_t ordinal, int64_t* start, int64_t* end) except -1:
    if not try_bounds(slot, ordinal, start, end):
        bad_offsets(state, slot, ordinal)
    return 0


cdef int64_t collection_size(StateAccess state, TypeSlot* slot, int64_t ordinal) except -1:
    cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
    cdef int64_t start = 0, end = 0, size, bit
    bounds(state, slot, ordinal, &start, &end)
    if slot.kind == LIST or end == start:
        return end - start
    bit = (ordinal >> slot.shift) * shard.stride + shard.pointer_width
    size = <int64_t>read_bits(shard.records, bit, shard.size_width, shard.size_mask)
    # A size beyond the buckets can only come from data that was not checked when it was loaded.
    if not 0 <= size <= end - start:
        bad_offsets(state, slot, ordinal)
    return size


cdef list member_list(StateAccess state, TypeSlot* slot, int64_t ordinal, bint pairs):
    cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
    cdef int64_t start = 0, end = 0, item
    cdef uint64_t key
    cdef list members = []
    bounds(state, slot, ordinal, &start, &end)
    for item in range(start, end):
        key = item_key(shard, item)
        if slot.kind != LIST and key == shard.key_mask:
            continue
        if pairs:
            members.append((key, item_value(shard, item)))
        else:
            members.append(key)
    return members


# Plain values

cdef object plain_value(StateAccess state, TypeSlot* slot, int64_t ordinal, int64_t depth, int64_t* budget):
    """What `content.to_python` gives, which also makes the error where references nest too deep."""
    cdef FieldSlot* field
    cdef int position
    cdef object spec
    cdef uint64_t raw
    if slot.boxed:
        return read_field(state, slot, ordinal, 0)
    budget[0] -= 1
    if depth <= 0 or budget[0] <= 0:
        raise content.too_deep(state.types[slot.number].name, ordinal, depth)
    if slot.kind == OBJECT:
        result = {}
        spec = state.types[slot.number]
        for position in range(slot.field_count):
            field = &slot.shards[ordinal & slot.shard_mask].fields[position]
            if field.code == REFERENCE:
                value = None
                if (ordinal >> slot.shift) < slot.shards[ordinal & slot.shard_mask].count:
                    raw = raw_field(slot, ordinal, position)
                    if raw != field.mask:
                        value = plain_link(state, slot, position, raw, depth, budget)
            else:
                value = read_field(state, slot, ordinal, position)
            result[(<tuple>spec.field_names)[position]] = value
        if spec.vectors:
            result.update(content.plain_vectors(spec, ordinal))
        return result
    if slot.kind != MAP:
        return [
            plain_link(state, slot, 0, <uint64_t>element, depth, budget)
            for element in member_list(state, slot, ordinal, False)
        ]
    pairs = [
        (
            plain_link(state, slot, 0, <uint64_t>key, depth, budget),
            plain_link(state, slot, 1, <uint64_t>target, depth, budget),
        )
        for key, target in member_list(state, slot, ordinal, True)
    ]
    if slot.links[0] is not NULL and slot.links[0].boxed and len({key for key, _ in pairs}) == len(pairs):
        return dict(pairs)
    return pairs


cdef object plain_link(
    StateAccess state, TypeSlot* slot, int position, uint64_t target, int64_t depth, int64_t* budget
):
    cdef TypeSlot* link = slot.links[position]
    if link is NULL:
        return Reference(state.types[slot.number].link_names[position], target)
    if target >= <uint64_t>link.limit:
        bad_reference(state, link, target)
    return plain_value(state, link, <int64_t>target, depth - 1, budget)


cdef object plain_record(Record record, int64_t max_depth):
    cdef int64_t budget = content.MAX_VALUES
    require(record)
    if max_depth > content.MAX_PLAIN_DEPTH:
        raise InputError(f"max_depth is at most {content.MAX_PLAIN_DEPTH}")
    return plain_value(record.state, record.slot, record.number, max_depth, &budget)


# Records

cdef object make_record(StateAccess state, TypeSlot* slot, int64_t ordinal):
    cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
    # Its bits come from memory while the object is made.
    __builtin_prefetch(shard.records + (((ordinal >> slot.shift) * shard.stride) >> 3))
    cdef Record record = <Record>deltaic_new(<object>slot.record_class, NO_ARGUMENTS)
    record.state = state
    record.slot = slot
    record.number = ordinal
    return record


cdef object checked_record(StateAccess state, TypeSlot* slot, int64_t ordinal):
    if not 0 <= ordinal < slot.limit or not (
        has_bit(slot.populated, slot.populated_words, ordinal) or has_bit(slot.pending, slot.pending_words, ordinal)
    ):
        raise NotFoundError(f"type {state.types[slot.number].name} has no record {ordinal}")
    return make_record(state, slot, ordinal)


cdef class TypeAccess:
    """The records of one type by ordinal: those that are populated, and ghosts. A subclass may open itself late."""

    cdef StateAccess state
    cdef TypeSlot* slot

    def _open(self):
        """The `StateAccess` to read from and the number of the type."""
        raise NotImplementedError

    def __getitem__(self, int64_t ordinal):
        if self.slot is NULL:
            self._ready()
        # Held here, because the view may be closed while the record is made.
        cdef StateAccess state = self.state
        return checked_record(state, self.slot, ordinal)

    def _close(self):
        """Let go of the memory; the next read opens it anew."""
        with cython.critical_section(self):
            self.slot = NULL
            self.state = None

    cdef int _ready(self) except -1:
        cdef StateAccess state
        cdef Py_ssize_t number
        state, number = self._open()
        if not 0 <= number < state.count:
            raise IndexError(f"there is no type number {number}")
        # Without the global lock two threads may come here at once; the slot, which others look at, is set last.
        with cython.critical_section(self):
            if self.slot is NULL:
                self.state = state
                self.slot = &state.slots[number]
        return 0


@cython.no_gc
cdef class Record:
    """One record of a state. Holds the state's memory; equal to any record of the same type and content."""

    cdef StateAccess state
    cdef TypeSlot* slot
    cdef int64_t number

    def __init__(self, *arguments, **named):
        raise TypeError("records come from a state: state[type][ordinal]")

    @property
    def ordinal(self):
        """The number of the record in its type."""
        return self.number

    @property
    def type_name(self):
        """The name of the record's type."""
        return spec_of(self).name

    def _place(self):
        require(self)
        return self.state, self.slot.number, self.number

    def to_python(self, *, Py_ssize_t max_depth=content.MAX_DEPTH):
        """Dicts, lists and scalars, references followed; InputError where they nest deeper than `max_depth`."""
        return plain_record(self, max_depth)

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, Record):
            return NotImplemented
        return sameness.equal(self._place(), (<Record>other)._place())

    def __hash__(self):
        require(self)
        return sameness.content_hash(self.state, self.slot.number, self.number)

    def __repr__(self):
        require(self)
        return content.describe(self.state, self.slot.number, self.number)

    def __reduce__(self):
        raise TypeError("a record is a view of its state and cannot be pickled; use to_python()")


cdef inline int require(Record record) except -1:
    if record.slot is NULL:
        raise TypeError("records come from a state: state[type][ordinal]")
    return 0


cdef object spec_of(Record record):
    require(record)
    return record.state.types[record.slot.number]


@cython.no_gc
cdef class ObjectRecord(Record):
    """A record of an OBJECT type: fields as attributes, or by name in brackets."""

    def __getitem__(self, str name not None):
        spec = spec_of(self)
        if name in spec.vector_names:
            return content.vector(spec, name, self.number)
        return read_field(self.state, self.slot, self.number, field_position(self, name))

    def __dir__(self):
        return [*super().__dir__(), *spec_of(self).field_names, *spec_of(self).vector_names]

    def field_names(self):
        """The names of the fields in order, without vectors."""
        return spec_of(self).field_names

    def vector_names(self):
        """The names of the vectors that belong to the record."""
        return spec_of(self).vector_names

    def reference(self, str name not None):
        """The ordinal that a REFERENCE field holds, or None."""
        cdef int position = field_position(self, name)
        ordinal = self.state.pointer(self.slot.number, self.number, position)
        return None if ordinal < 0 else ordinal

    def to_dict(self, *, Py_ssize_t max_depth=content.MAX_DEPTH):
        """The fields by name, references followed; InputError where they nest deeper than `max_depth`."""
        require(self)
        if self.slot.boxed:
            value = {"value": read_field(self.state, self.slot, self.number, 0)}
            return value | content.plain_vectors(spec_of(self), self.number)
        return plain_record(self, max_depth)


cdef int field_position(ObjectRecord record, str name) except -1:
    spec = spec_of(record)
    try:
        return spec.field_names.index(name)
    except ValueError:
        raise NotFoundError(f"type {spec.name} has no field {name!r}") from None


@cython.final
cdef class FieldAccess:
    """The attribute of an OBJECT record that reads one field."""

    cdef readonly str name
    cdef int position

    def __cinit__(self, str name not None, int position):
        if position < 0:
            raise IndexError("a field position is not negative")
        self.name = name
        self.position = position

    def __get__(self, instance, owner):
        if instance is None:
            return self
        if not isinstance(instance, ObjectRecord):
            raise TypeError(f"field {self.name!r} of a {type(instance).__name__}")
        cdef ObjectRecord record = <ObjectRecord>instance
        if record.slot is NULL or self.position >= record.slot.field_count:
            raise TypeError(f"field {self.name!r} of a {type(instance).__name__}")
        return read_field(record.state, record.slot, record.number, self.position)

    def __repr__(self):
        return f"<field {self.name!r}>"


@cython.final
cdef class VectorAccess:
    """The attribute of an OBJECT record that reads its row of a vector column."""

    cdef readonly str name

    def __cinit__(self, str name not None):
        self.name = name

    def __get__(self, instance, owner):
        if instance is None:
            return self
        if not isinstance(instance, ObjectRecord):
            raise TypeError(f"vector {self.name!r} of a {type(instance).__name__}")
        cdef ObjectRecord record = <ObjectRecord>instance
        return content.vector(spec_of(record), self.name, record.number)

    def __set__(self, instance, value):
        raise AttributeError(f"{type(instance).__name__!r} object attribute {self.name!r} is read-only")

    def __repr__(self):
        return f"<vector {self.name!r}>"


@lru_cache(maxsize=4096)
def make_record_class(str name not None, tuple field_names not None, tuple vector_names=()):
    """The class of an OBJECT type's records. A field named like a method is read as `record["name"]` only."""
    taken = set(dir(ObjectRecord))
    members = {
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


cdef enum:
    ITERATE_KEYS = 0
    ITERATE_VALUES = 1
    ITERATE_ITEMS = 2


@cython.no_gc
@cython.final
cdef class MemberIterator:
    """Goes through a collection once."""

    cdef StateAccess state
    cdef TypeSlot* slot
    cdef ShardSlot* shard
    cdef int64_t item
    cdef int64_t end
    cdef int what

    def __iter__(self):
        return self

    def __next__(self):
        cdef uint64_t key
        while self.item < self.end:
            key = item_key(self.shard, self.item)
            self.item += 1
            if self.slot.kind != LIST and key == self.shard.key_mask:
                continue
            if self.what == ITERATE_KEYS:
                return follow(self.state, self.slot, 0, key)
            value = follow(self.state, self.slot, 1, item_value(self.shard, self.item - 1))
            return value if self.what == ITERATE_VALUES else (follow(self.state, self.slot, 0, key), value)
        raise StopIteration


cdef MemberIterator iterate(Record record, int what):
    require(record)
    cdef MemberIterator iterator = MemberIterator.__new__(MemberIterator)
    iterator.state = record.state
    iterator.slot = record.slot
    iterator.shard = &record.slot.shards[record.number & record.slot.shard_mask]
    bounds(record.state, record.slot, record.number, &iterator.item, &iterator.end)
    iterator.what = what
    return iterator


@cython.no_gc
cdef class CollectionRecord(Record):
    """A record that holds other records. Members of boxed types are their values."""

    def __len__(self):
        require(self)
        return collection_size(self.state, self.slot, self.number)

    def __iter__(self):
        return iterate(self, ITERATE_KEYS)

    def __contains__(self, wanted):
        require(self)
        return lookup.find_member(self.state, self.slot.number, self.number, wanted) is not None


@cython.no_gc
cdef class ListRecord(CollectionRecord):
    """A record of a LIST type: a sequence."""

    def __getitem__(self, place):
        cdef int64_t start = 0, end = 0, index
        require(self)
        bounds(self.state, self.slot, self.number, &start, &end)
        if isinstance(place, slice):
            return [
                follow(self.state, self.slot, 0, item_key(&self.slot.shards[self.number & self.slot.shard_mask], item))
                for item in range(start, end)[place]
            ]
        index = place
        if index < 0:
            index += end - start
        if not 0 <= index < end - start:
            raise IndexError(f"{spec_of(self).name} {self.number} has {end - start} elements, no element {place}")
        return follow(
            self.state, self.slot, 0, item_key(&self.slot.shards[self.number & self.slot.shard_mask], start + index)
        )

    def __reversed__(self):
        return iter(self[::-1])

    def index(self, wanted, *bounds):
        """The first place of an element."""
        return list(self).index(wanted, *bounds)

    def count(self, wanted):
        """How often an element occurs."""
        return list(self).count(wanted)

    def ordinals(self):
        """The element ordinals."""
        require(self)
        return member_list(self.state, self.slot, self.number, False)

    def to_list(self, *, Py_ssize_t max_depth=content.MAX_DEPTH):
        """The elements, references followed."""
        return self.to_python(max_depth=max_depth)

    def __eq__(self, other):
        if isinstance(other, list):
            return list(self) == other
        return Record.__eq__(self, other)

    def __hash__(self):
        return Record.__hash__(self)


@cython.no_gc
cdef class SetRecord(CollectionRecord):
    """A record of a SET type."""

    def find(self, *key):
        """The element with a hash key, or None."""
        require(self)
        found = lookup.find(self.state, self.slot.number, self.number, key)
        return None if found is None else follow(self.state, self.slot, 0, found[0])

    def ordinals(self):
        """The element ordinals in bucket order."""
        require(self)
        return member_list(self.state, self.slot, self.number, False)

    def to_list(self, *, Py_ssize_t max_depth=content.MAX_DEPTH):
        """The elements, references followed."""
        return self.to_python(max_depth=max_depth)

    def __eq__(self, other):
        if isinstance(other, set):
            return len(other) == len(self) and set(self) == other
        return Record.__eq__(self, other)

    def __hash__(self):
        return Record.__hash__(self)


@cython.no_gc
cdef class MapRecord(CollectionRecord):
    """A record of a MAP type: a mapping."""

    def __getitem__(self, key):
        require(self)
        found = lookup.find_member(self.state, self.slot.number, self.number, key)
        if found is None:
            raise KeyError(key)
        return follow(self.state, self.slot, 1, found[1])

    def get(self, key, default=None):
        """The value of a key, or `default`."""
        require(self)
        found = lookup.find_member(self.state, self.slot.number, self.number, key)
        return default if found is None else follow(self.state, self.slot, 1, found[1])

    def find(self, *key):
        """The value of the entry with a hash key, or None."""
        found = self.find_entry(*key)
        return None if found is None else found[1]

    def find_entry(self, *key):
        """The (key, value) with a hash key, or None."""
        require(self)
        found = lookup.find(self.state, self.slot.number, self.number, key)
        if found is None:
            return None
        return follow(self.state, self.slot, 0, found[0]), follow(self.state, self.slot, 1, found[1])

    def keys(self):
        """The keys in bucket order."""
        return list(iterate(self, ITERATE_KEYS))

    def values(self):
        """The values in bucket order."""
        return list(iterate(self, ITERATE_VALUES))

    def items(self):
        """The (key, value) pairs in bucket order."""
        return list(iterate(self, ITERATE_ITEMS))

    def ordinals(self):
        """The (key, value) ordinals in bucket order."""
        require(self)
        return member_list(self.state, self.slot, self.number, True)

    def to_dict(self, *, Py_ssize_t max_depth=content.MAX_DEPTH):
        """The entries; a list of pairs if keys are records, or one occurs twice."""
        return self.to_python(max_depth=max_depth)

    def __eq__(self, other):
        if isinstance(other, dict):
            return len(other) == len(self) and dict(self.items()) == other
        return Record.__eq__(self, other)

    def __hash__(self):
        return Record.__hash__(self)


Sequence.register(ListRecord)
Mapping.register(MapRecord)


# Columns

cdef class _Rows:
    """The ordinals of a column, a block at a time: given ones, the bits of a set, or all up to a count."""

    cdef const int64_t* given
    cdef const uint64_t* words
    cdef int64_t word_count
    cdef int64_t count
    cdef int64_t at
    cdef int64_t word
    cdef uint64_t left
    cdef object keep

    def __cinit__(self, ordinals, words, Py_ssize_t count):
        cdef const int64_t[::1] given
        cdef const uint64_t[::1] bits
        self.keep = (ordinals, words)
        self.count = count
        if ordinals is not None:
            given = ordinals
            if given.shape[0]:
                self.given = &given[0]
        elif words is not None:
            bits = words
            self.word_count = bits.shape[0]
            if self.word_count:
                self.words = &bits[0]
                self.left = bits[0]

    cdef int64_t fill(self, int64_t* out) noexcept nogil:
        """The next ordinals, at most BLOCK; how many."""
        cdef int64_t n = 0, base
        cdef uint64_t left
        cdef int64_t rest = self.count - self.at
        if rest > BLOCK:
            rest = BLOCK
        if self.given is not NULL:
            memcpy(out, self.given + self.at, rest * sizeof(int64_t))
            n = rest
        elif self.words is NULL:
            for n in range(rest):
                out[n] = self.at + n
            n = rest
        else:
            while n < rest:
                base = self.word << 6
                if self.left == ALL_ONES and rest - n >= 64:
                    for left in range(64):
                        out[n + <int64_t>left] = base + <int64_t>left
                    n += 64
                    self.left = 0
                while self.left and n < rest:
                    out[n] = base + __builtin_ctzll(self.left)
                    self.left &= self.left - 1
                    n += 1
                if self.left == 0:
                    self.word += 1
                    if self.word >= self.word_count:
                        break
                    self.left = self.words[self.word]
        self.at += n
        return n


cdef void raw_run(ShardSlot* shard, FieldSlot* field, int64_t first, int64_t n, uint64_t* out) noexcept nogil:
    """Adjacent records of one shard."""
    cdef int64_t i, bit = first * shard.stride + field.offset
    cdef int64_t stride = shard.stride
    cdef const uint8_t* records = shard.records
    cdef uint64_t word, mask = field.mask
    if field.width > 57:
        for i in range(n):
            out[i] = read_bits(records, bit, 64, mask)
            bit += stride
    else:
        for i in range(n):
            memcpy(&word, records + (bit >> 3), 8)
            out[i] = (word >> (bit & 7)) & mask
            bit += stride


cdef int64_t raw_words(
    ShardSlot* shard, FieldSlot* field, const uint64_t* words, int64_t count, int64_t* word, uint64_t* out
) noexcept nogil:
    """Records of one shard whose bits are set, whole words of bits while a block has room; how many."""
    cdef uint64_t[64] run
    cdef uint64_t bits, null = field.mask
    cdef int64_t n = 0, first, i
    if field.code == FLOAT:
        null = NULL_FLOAT
    elif field.code == DOUBLE:
        null = NULL_DOUBLE
    while word[0] < count and n + 64 <= BLOCK:
        bits = words[word[0]]
        first = word[0] << 6
        word[0] += 1
        if bits == ALL_ONES and first + 64 <= shard.count:
            raw_run(shard, field, first, 64, out + n)
            n += 64
        elif first + 64 <= shard.count:
            if bits:
                # Every record is decoded and written; the place moves on only behind those that are wanted.
                raw_run(shard, field, first, 64, run)
                for i in range(64):
                    out[n] = run[i]
                    n += (bits >> i) & 1
        else:
            for i in range(64):
                if (bits >> i) & 1:
                    out[n] = null
                    if first + i < shard.count:
                        raw_run(shard, field, first + i, 1, out + n)
                    n += 1
    return n


cdef inline bint no_value(TypeSlot* slot, int64_t ordinal, int position) noexcept nogil:
    cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
    return shard.fields[position].width == 0 or (ordinal >> slot.shift) >= shard.count


cdef inline void ask_for(TypeSlot* slot, int64_t ordinal) noexcept nogil:
    """Have the bits of a record on their way from memory."""
    cdef ShardSlot* shard
    if ordinal >= 0:
        shard = &slot.shards[ordinal & slot.shard_mask]
        __builtin_prefetch(shard.records + (((ordinal >> slot.shift) * shard.stride) >> 3))


cdef void raw_rows(TypeSlot* slot, int position, const int64_t* rows, int64_t n, uint64_t* out) noexcept nogil:
    """Records anywhere; nulls of fields where all ones are null, and rows below 0, become ALL_ONES."""
    cdef int64_t i, ordinal
    cdef ShardSlot* shard
    cdef FieldSlot* field
    cdef uint64_t raw
    for i in range(n):
        if i + AHEAD < n:
            ask_for(slot, rows[i + AHEAD])
        ordinal = rows[i]
        if ordinal < 0:
            out[i] = ALL_ONES
            continue
        shard = &slot.shards[ordinal & slot.shard_mask]
        field = &shard.fields[position]
        if (ordinal >> slot.shift) >= shard.count:
            out[i] = ALL_ONES
            continue
        raw = read_bits(
            shard.records, (ordinal >> slot.shift) * shard.stride + field.offset, field.width, field.mask
        )
        out[i] = ALL_ONES if raw == field.mask else raw


cdef int64_t to_int32(const uint64_t* raw, int64_t n, uint64_t null, int32_t* out) noexcept nogil:
    cdef int64_t i, nulls = 0
    cdef uint32_t word
    for i in range(n):
        word = <uint32_t>raw[i]
        nulls += raw[i] == null
        out[i] = <int32_t>((word >> 1) ^ (0 - (word & 1)))
    return nulls


cdef int64_t to_narrow_int32(const uint64_t* raw, int64_t n, uint32_t null, int32_t* out) noexcept nogil:
    """As `to_int32` for fields of at most 32 bits: comparing half a word is what vector units can do."""
    cdef int64_t i
    cdef uint32_t word, nulls = 0
    for i in range(n):
        word = <uint32_t>raw[i]
        nulls += word == null
        out[i] = <int32_t>((word >> 1) ^ (0 - (word & 1)))
    return nulls


cdef int64_t to_narrow_ordinals(const uint64_t* raw, int64_t n, uint32_t null, int32_t* out) noexcept nogil:
    cdef int64_t i
    cdef uint32_t word, nulls = 0
    for i in range(n):
        word = <uint32_t>raw[i]
        nulls += word == null
        out[i] = <int32_t>word
    return nulls


cdef int64_t to_int64(const uint64_t* raw, int64_t n, uint64_t null, int64_t* out) noexcept nogil:
    cdef int64_t i, nulls = 0
    for i in range(n):
        nulls += raw[i] == null
        out[i] = <int64_t>((raw[i] >> 1) ^ (0 - (raw[i] & 1)))
    return nulls


cdef int64_t to_ordinals(const uint64_t* raw, int64_t n, uint64_t null, int32_t* out) noexcept nogil:
    cdef int64_t i, nulls = 0
    for i in range(n):
        nulls += raw[i] == null
        out[i] = <int32_t>raw[i]
    return nulls


cdef int64_t to_bits32(const uint64_t* raw, int64_t n, uint32_t* out) noexcept nogil:
    cdef int64_t i, nulls = 0
    for i in range(n):
        out[i] = <uint32_t>raw[i]
        nulls += out[i] == NULL_FLOAT
    return nulls


cdef int64_t to_bits64(const uint64_t* raw, int64_t n, uint64_t null, uint64_t* out) noexcept nogil:
    cdef int64_t i, nulls = 0
    for i in range(n):
        out[i] = raw[i]
        nulls += raw[i] == null
    return nulls


cdef int64_t to_bools(const uint64_t* raw, int64_t n, uint64_t null, uint8_t* out) noexcept nogil:
    cdef int64_t i, nulls = 0
    for i in range(n):
        out[i] = raw[i] == 1 and raw[i] != null
        nulls += raw[i] == null
    return nulls


cdef uint8_t* byte_address(object array):
    cdef uint8_t[::1] view = array.view(np.uint8)
    return &view[0] if view.shape[0] else NULL


DTYPES = (np.int32, np.int32, np.int64, np.bool_, np.float32, np.float64)


cdef object read_fixed_column(
    StateAccess state, TypeSlot* slot, int position, object ordinals, object words, Py_ssize_t count
):
    cdef _Rows rows = _Rows(ordinals, words, count)
    cdef FieldSlot* field = &slot.shards[0].fields[position]
    cdef int code = field.code
    values = np.empty(count, DTYPES[code])
    valid = np.empty(count, np.bool_)
    if count == 0:
        return values, None
    cdef uint8_t* out = byte_address(values)
    cdef uint8_t* mask = byte_address(valid)
    cdef int item_size = values.itemsize
    cdef int64_t[BLOCK] chosen
    cdef uint64_t[BLOCK] raw
    cdef int64_t done = 0, n, i, here, nulls = 0
    cdef bint run = slot.shard_mask == 0 and ordinals is None and field.width > 0
    cdef bint by_words = run and words is not None
    cdef int64_t word = 0
    cdef bint floating = code == FLOAT or code == DOUBLE
    cdef uint64_t unread, null = ALL_ONES
    with nogil:
        while done < count:
            # One shard needs no arithmetic per record; its nulls keep the width of the field.
            if by_words:
                n = raw_words(&slot.shards[0], field, rows.words, rows.word_count, &word, raw)
                if n == 0:
                    if word >= rows.word_count:
                        break
                    continue
                null = field.mask
            else:
                n = rows.fill(chosen)
                if n == 0:
                    break
                if run and chosen[n - 1] < slot.shards[0].count:
                    raw_run(&slot.shards[0], field, chosen[0], n, raw)
                    null = field.mask
                else:
                    raw_rows(slot, position, chosen, n, raw)
                    null = ALL_ONES
            if floating and not by_words and null == ALL_ONES:
                for i in range(n):
                    here = chosen[i]
                    if raw[i] == ALL_ONES or here < 0 or no_value(slot, here, position):
                        raw[i] = <uint64_t>NULL_FLOAT if code == FLOAT else NULL_DOUBLE
            if floating:
                null = <uint64_t>NULL_FLOAT if code == FLOAT else NULL_DOUBLE
                unread = <uint64_t>0xFFFFFFFF if code == FLOAT else ALL_ONES
                for i in range(n):
                    raw[i] = null if raw[i] == unread else raw[i]
            if code == DOUBLE:
                here = to_bits64(raw, n, null, <uint64_t*>(out + done * 8))
            elif code == FLOAT:
                here = to_bits32(raw, n, <uint32_t*>(out + done * 4))
            elif code == INT and null == field.mask and field.width <= 32:
                here = to_narrow_int32(raw, n, <uint32_t>null, <int32_t*>(out + done * 4))
            elif code == REFERENCE and null == field.mask and field.width <= 32:
                here = to_narrow_ordinals(raw, n, <uint32_t>null, <int32_t*>(out + done * 4))
            elif code == INT:
                here = to_int32(raw, n, null, <int32_t*>(out + done * 4))
            elif code == LONG:
                here = to_int64(raw, n, null, <int64_t*>(out + done * 8))
            elif code == REFERENCE:
                here = to_ordinals(raw, n, null, <int32_t*>(out + done * 4))
            else:
                here = to_bools(raw, n, null, out + done)
            if here and nulls == 0:
                memset(mask, 1, done)
            nulls += here
            if nulls:
                for i in range(n):
                    mask[done + i] = raw[i] != null
            if here and code != DOUBLE and code != FLOAT and code != BOOLEAN:
                write_null_numbers(code, raw, null, n, out + done * item_size)
            done += n
    return values, valid if nulls else None


cdef void write_null_numbers(int code, const uint64_t* raw, uint64_t null, int64_t n, uint8_t* out) noexcept nogil:
    """What Hollow's readers give for null: the smallest number, -1 for a reference."""
    cdef int64_t i
    for i in range(n):
        if raw[i] == null:
            if code == LONG:
                (<int64_t*>out)[i] = <int64_t>(<uint64_t>1 << 63)
            elif code == INT:
                (<int32_t*>out)[i] = <int32_t>(<uint32_t>1 << 31)
            else:
                (<int32_t*>out)[i] = -1


cdef object read_variable_column(
    StateAccess state, TypeSlot* slot, int position, object ordinals, object words, Py_ssize_t count
):
    cdef _Rows rows = _Rows(ordinals, words, count)
    offsets = np.empty(count + 1, np.int64)
    valid = np.empty(count, np.bool_)
    cdef int64_t[::1] ends = offsets
    cdef uint8_t* mask = byte_address(valid)
    cdef int64_t[BLOCK] chosen
    cdef int64_t done = 0, n, i, ordinal, total = 0, nulls = 0, bad = -1
    cdef int64_t index, bit, start, end, first = 0, previous = 0, expected = -1, last_end = 0
    cdef bint adjacent = slot.shard_mask == 0
    cdef bint gathered = ordinals is not None
    cdef ShardSlot* shard
    cdef FieldSlot* field
    cdef uint64_t raw
    sources = np.empty(count if gathered else 0, np.uint64)
    cdef const uint8_t** source = <const uint8_t**>byte_address(sources)
    ends[0] = 0
    with nogil:
        while done < count:
            n = rows.fill(chosen)
            if n == 0:
                break
            for i in range(n):
                if gathered and i + AHEAD < n:
                    ask_for(slot, chosen[i + AHEAD])
                ordinal = chosen[i]
                start = end = 0
                mask[done + i] = 0
                if ordinal >= 0:
                    shard = &slot.shards[ordinal & slot.shard_mask]
                    field = &shard.fields[position]
                    if not no_value(slot, ordinal, position):
                        index = ordinal >> slot.shift
                        bit = index * shard.stride + field.offset
                        raw = read_bits(shard.records, bit, field.width, field.mask)
                        if raw <= field.end_mask:
                            mask[done + i] = 1
                            end = <int64_t>raw
                            if ordinal == expected:
                                start = last_end
                            elif index:
                                start = <int64_t>(
                                    read_bits(shard.records, bit - shard.stride, field.width, field.mask)
                                    & field.end_mask
                                )
                            if start > end or end > field.data_size:
                                bad = ordinal
                                break
                        if slot.shard_mask == 0:
                            expected = ordinal + 1
                            last_end = <int64_t>(raw & field.end_mask)
                nulls += mask[done + i] == 0
                if gathered:
                    source[done + i] = field.data + start if end > start else NULL
                if end > start:
                    if total == 0:
                        first = start
                    elif start != previous:
                        adjacent = False
                    previous = end
                    total += end - start
                ends[done + i + 1] = total
            if bad >= 0:
                break
            done += n
    if bad >= 0:
        bad_offsets(state, slot, bad)
    if adjacent:
        data = state.types[slot.number].shards[0].variable[position]
        data = np.zeros(0, np.uint8) if data is None else data[first:first + total]
    else:
        data = np.empty(total, np.uint8)
        if gathered:
            copy_sources(source, byte_address(data), &ends[0], count)
            return offsets, data, valid if nulls else None
        copy_slices(slot, position, _Rows(ordinals, words, count), byte_address(data), &ends[0], count)
    return offsets, data, valid if nulls else None


cdef void copy_sources(
    const uint8_t** sources, uint8_t* out, const int64_t* offsets, int64_t count
) noexcept:
    cdef int64_t i
    with nogil:
        for i in range(count):
            if i + AHEAD < count:
                __builtin_prefetch(sources[i + AHEAD])
            if offsets[i + 1] > offsets[i]:
                memcpy(out + offsets[i], sources[i], offsets[i + 1] - offsets[i])


cdef void copy_slices(
    TypeSlot* slot, int position, _Rows rows, uint8_t* out, const int64_t* offsets, int64_t count
) noexcept:
    cdef int64_t[BLOCK] chosen
    cdef int64_t done = 0, n, i, ordinal, size
    cdef ShardSlot* shard
    cdef FieldSlot* field
    cdef uint64_t end
    with nogil:
        while done < count:
            n = rows.fill(chosen)
            if n == 0:
                break
            for i in range(n):
                size = offsets[done + i + 1] - offsets[done + i]
                if size == 0:
                    continue
                ordinal = chosen[i]
                shard = &slot.shards[ordinal & slot.shard_mask]
                field = &shard.fields[position]
                end = read_bits(
                    shard.records, (ordinal >> slot.shift) * shard.stride + field.offset, field.width, field.mask
                )
                memcpy(out + offsets[done + i], field.data + end - size, size)
            done += n


cdef inline void ask_for_items(TypeSlot* slot, const int64_t* rows, int64_t i, int64_t n) noexcept nogil:
    """Have the bounds of a collection further on, and the items of a nearer one, on their way from memory."""
    cdef int64_t start = 0, end = 0
    cdef ShardSlot* shard
    if i + 2 * AHEAD < n:
        ask_for(slot, rows[i + 2 * AHEAD])
    if i + AHEAD < n and rows[i + AHEAD] >= 0 and try_bounds(slot, rows[i + AHEAD], &start, &end):
        shard = &slot.shards[rows[i + AHEAD] & slot.shard_mask]
        __builtin_prefetch(shard.items + ((start * shard.item_stride) >> 3))


cdef object read_collection_column(StateAccess state, TypeSlot* slot, object ordinals, object words, Py_ssize_t count):
    cdef _Rows rows = _Rows(ordinals, words, count)
    cdef _Rows again = _Rows(ordinals, words, count)
    offsets = np.empty(count + 1, np.int64)
    cdef int64_t[::1] ends = offsets
    cdef int64_t[BLOCK] chosen
    cdef int64_t done = 0, n, i, ordinal, total = 0, bad = -1, start = 0, end = 0, item
    cdef ShardSlot* shard
    cdef uint64_t key
    cdef int32_t[::1] keys_out
    cdef int32_t[::1] values_out
    cdef bint gathered = ordinals is not None
    ends[0] = 0
    with nogil:
        while done < count:
            n = rows.fill(chosen)
            if n == 0:
                break
            for i in range(n):
                if gathered:
                    ask_for_items(slot, chosen, i, n)
                ordinal = chosen[i]
                if ordinal >= 0:
                    if not try_bounds(slot, ordinal, &start, &end):
                        bad = ordinal
                        break
                    if slot.kind == LIST:
                        total += end - start
                    else:
                        shard = &slot.shards[ordinal & slot.shard_mask]
                        for item in range(start, end):
                            total += item_key(shard, item) != shard.key_mask
                ends[done + i + 1] = total
            if bad >= 0:
                break
            done += n
    if bad >= 0:
        bad_offsets(state, slot, bad)
    keys = np.empty(total, np.int32)
    values = np.empty(total if slot.kind == MAP else 0, np.int32)
    keys_out = keys
    values_out = values
    done = 0
    total = 0
    with nogil:
        while done < count:
            n = again.fill(chosen)
            if n == 0:
                break
            for i in range(n):
                if gathered:
                    ask_for_items(slot, chosen, i, n)
                ordinal = chosen[i]
                if ordinal < 0:
                    continue
                try_bounds(slot, ordinal, &start, &end)
                shard = &slot.shards[ordinal & slot.shard_mask]
                for item in range(start, end):
                    key = item_key(shard, item)
                    if slot.kind != LIST and key == shard.key_mask:
                        continue
                    keys_out[total] = <int32_t>key
                    if slot.kind == MAP:
                        values_out[total] = <int32_t>item_value(shard, item)
                    total += 1
            done += n
    return offsets, keys, values if slot.kind == MAP else None


def gather_slices(const uint8_t[::1] data not None, const int64_t[::1] starts not None, const int64_t[::1] ends not None):
    """Pieces of `data` put one behind the other: offsets and bytes."""
    cdef Py_ssize_t count = starts.shape[0], i
    cdef int64_t total = 0
    offsets = np.empty(count + 1, np.int64)
    cdef int64_t[::1] places = offsets
    places[0] = 0
    for i in range(count):
        total += ends[i] - starts[i]
        places[i + 1] = total
    out = np.empty(total, np.uint8)
    cdef uint8_t[::1] target = out
    if total:
        with nogil:
            for i in range(count):
                memcpy(&target[0] + places[i], &data[0] + starts[i], ends[i] - starts[i])
    return offsets, out

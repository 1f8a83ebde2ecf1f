"""The C description of a state for other kernels: where the bits of each field lie, and how a record is made of them."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint64_t

from deltaic.kernels._bits cimport read_bits

cdef enum:
    OBJECT = 0
    LIST = 1
    SET = 2
    MAP = 3

cdef enum:
    REFERENCE = 0
    INT = 1
    LONG = 2
    BOOLEAN = 3
    FLOAT = 4
    DOUBLE = 5
    STRING = 6
    BYTES = 7

cdef enum:
    NULL_FLOAT = 0x7FC00001


cdef struct FieldSlot:
    int64_t offset
    uint64_t mask
    uint64_t end_mask
    const uint8_t* data
    int64_t data_size
    int width
    int code


cdef struct ShardSlot:
    const uint8_t* records
    int64_t stride
    int64_t count
    FieldSlot* fields
    uint64_t pointer_mask
    uint64_t size_mask
    int pointer_width
    int size_width
    const uint8_t* items
    int64_t item_stride
    int64_t item_count
    uint64_t key_mask
    uint64_t value_mask
    int key_width
    int value_width


cdef struct TypeSlot:
    int kind
    int number
    int boxed
    int field_count
    int shift
    int64_t shard_mask
    int64_t limit
    ShardSlot* shards
    FieldSlot* fields
    TypeSlot** links
    PyObject* record_class
    const uint64_t* populated
    int64_t populated_words
    const uint64_t* pending
    int64_t pending_words


cdef inline bint has_bit(const uint64_t* words, int64_t count, int64_t ordinal) noexcept nogil:
    cdef int64_t word = ordinal >> 6
    return word < count and (words[word] >> (ordinal & 63)) & 1


cdef inline uint64_t raw_field(TypeSlot* slot, int64_t ordinal, int position) noexcept nogil:
    cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
    cdef FieldSlot* field = &shard.fields[position]
    return read_bits(shard.records, (ordinal >> slot.shift) * shard.stride + field.offset, field.width, field.mask)


cdef class StateAccess:
    cdef readonly tuple types
    cdef list keep
    cdef list classes
    cdef TypeSlot* slots
    cdef Py_ssize_t count

    cdef int _describe(self, Py_ssize_t number, object spec) except -1
    cdef int _describe_object(self, object spec, object data, TypeSlot* slot, ShardSlot* shard) except -1
    cdef int _describe_collection(self, object spec, object data, TypeSlot* slot, ShardSlot* shard) except -1
    cdef TypeSlot* _slot(self, Py_ssize_t number, int64_t ordinal) except NULL
    cdef TypeSlot* _field_slot(self, Py_ssize_t number, int64_t ordinal, Py_ssize_t position) except NULL
    cdef TypeSlot* _collection_slot(self, Py_ssize_t number, int64_t ordinal) except NULL


cdef object make_record(StateAccess state, TypeSlot* slot, int64_t ordinal)

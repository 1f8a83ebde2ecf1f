"""The tables of indexes: from a key to the record that has it, from values to groups of records, texts in order.

A slot of a table has 64 bits: the hash in the upper half, the number of an entry plus one in the lower one, 0 if it is
empty. Probing is linear and ends at an empty slot, or after one round. Entries are put in by rising number, as Hollow
does it, so that of records with one key the first on the way has the smallest ordinal; a look-up in several tables
takes the smallest of what it meets. What a table names is compared with the record itself, so that a wrong or an old
entry is passed over and never believed.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

from deltaic.kernels._access cimport (
    BOOLEAN,
    BYTES,
    DOUBLE,
    FLOAT,
    INT,
    LIST,
    LONG,
    NULL_FLOAT,
    OBJECT,
    REFERENCE,
    STRING,
    FieldSlot,
    ShardSlot,
    StateAccess,
    TypeSlot,
    has_bit,
    make_record,
    raw_field,
)
from deltaic.kernels._bits cimport read_bits
from deltaic.kernels._hashing cimport (
    canonical_double,
    canonical_float,
    fold_int64,
    hash_int32,
    murmur3_32,
)
from deltaic.kernels._text cimport text_length

import numpy as np

from deltaic.errors import InputError, MissingKeyError
from deltaic.kernels import content
from deltaic.kernels import text as text_kernel

cdef extern from "Python.h":
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    void* PyUnicode_DATA(object text)
    bint PyUnicode_IS_ASCII(object text)
    bint PyUnicode_CheckExact(object value)

cdef extern from *:
    int __builtin_ctzll(unsigned long long value) noexcept nogil
    void __builtin_prefetch(const void* address) noexcept nogil

cdef enum:
    # Keys that are looked up together: their memory is asked for before the first one is compared.
    BLOCK = 64
    MOST_PARTS = 16
    # How many rows ahead the slots of a table are asked for.
    AHEAD = 16
    # The same for groups of members, of which each is more work.
    NEAR = 4

cdef uint64_t NULL_DOUBLE = 0x7FF8000000000001ULL
cdef uint64_t ALL_ONES = 0xFFFFFFFFFFFFFFFFULL
NO_VALUES = np.zeros(0, np.int64)


cdef struct Part:
    int code
    int depth
    int* positions


cdef struct Query:
    uint64_t number
    const uint8_t* text
    int64_t length


cdef struct Table:
    const uint64_t* slots
    uint64_t mask
    const uint64_t* stale
    int64_t stale_words
    # Equal hashes are equal keys: nothing needs to be compared.
    bint exact


cdef struct Column:
    const int64_t* numbers
    const int64_t* offsets
    const uint8_t* data
    int code


cdef inline int64_t entry_of(uint64_t slot) noexcept nogil:
    return <int64_t><uint32_t>slot - 1


# Values

cdef inline bint is_text(int code) noexcept nogil:
    return code == STRING or code == BYTES


cdef inline bint is_whole_number(int code) noexcept nogil:
    return code == INT or code == LONG or code == BOOLEAN or code == REFERENCE


cdef inline int32_t value_hash(int code, const Query* value, bint mix_texts) noexcept nogil:
    """The hash of one field of a key (hollow-blob.md, 2.2, second column, and 19)."""
    cdef int32_t hashed
    if is_text(code):
        hashed = murmur3_32(value.text, <Py_ssize_t>value.length)
        return hash_int32(hashed) if mix_texts else hashed
    if code == LONG or code == DOUBLE:
        return hash_int32(fold_int64(value.number))
    return hash_int32(<int32_t>value.number)


cdef inline bint same_value(int code, const Query* left, const Query* right) noexcept nogil:
    if is_text(code):
        return left.length == right.length and memcmp(left.text, right.text, left.length) == 0
    return left.number == right.number


cdef inline void load_row(const Column* column, int64_t row, Query* out) noexcept nogil:
    if column.offsets is not NULL:
        out.text = column.data + column.offsets[row]
        out.length = column.offsets[row + 1] - column.offsets[row]
    else:
        out.number = <uint64_t>column.numbers[row]


cdef object wrong_type(object value, int code):
    names = ("REFERENCE", "INT", "LONG", "BOOLEAN", "FLOAT", "DOUBLE", "STRING", "BYTES")
    raise InputError(f"{type(value).__name__} given for a key field of type {names[code]}", "KeyType")


cdef int load_value(int code, object value, Query* out, list keep) except -1:
    """A Python value as the kernel compares it; 0 if no record can hold it."""
    cdef int overflow = 0
    cdef int64_t number
    cdef float single
    cdef double wide
    cdef uint32_t word
    if code == INT or code == LONG or code == REFERENCE:
        if not PyLong_CheckExact(value):
            return load_odd_value(code, value, out, keep)
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow or (code != LONG and (<int64_t><int32_t>number) != number):
            return 0
        # The smallest numbers mean null.
        if code == REFERENCE and number < 0:
            return 0
        if <uint64_t>number == (<uint64_t>1 << 63) or (code == INT and number == -(<int64_t>1 << 31)):
            return 0
        out.number = <uint64_t>number
        return 1
    if code == STRING:
        if not PyUnicode_CheckExact(value):
            return load_odd_value(code, value, out, keep)
        if PyUnicode_IS_ASCII(value):
            out.text = <const uint8_t*>PyUnicode_DATA(value)
            out.length = PyUnicode_GET_LENGTH(value)
            return 1
        encoded = text_kernel.encode_text(value)
        keep.append(encoded)
        out.text = <const uint8_t*>PyBytes_AS_STRING(encoded)
        out.length = PyBytes_GET_SIZE(encoded)
        return 1
    if code == BYTES:
        if type(value) is not bytes:
            return load_odd_value(code, value, out, keep)
        out.text = <const uint8_t*>PyBytes_AS_STRING(value)
        out.length = PyBytes_GET_SIZE(value)
        return 1
    if code == BOOLEAN:
        if value is not True and value is not False:
            return load_odd_value(code, value, out, keep)
        out.number = value is True
        return 1
    if not PyFloat_CheckExact(value):
        return load_odd_value(code, value, out, keep)
    wide = PyFloat_AS_DOUBLE(value)
    if code == DOUBLE:
        memcpy(&out.number, &wide, 8)
        out.number = canonical_double(out.number)
        return 1
    single = <float>wide
    if (single - single != 0) and (wide - wide == 0):
        return 0  # a number too large for a FLOAT became infinite
    memcpy(&word, &single, 4)
    out.number = canonical_float(word)
    return 1


cdef int load_odd_value(int code, object value, Query* out, list keep) except -1:
    """Values that are not of the one Python type that a field has."""
    if value is None:
        return 0
    if isinstance(value, np.generic):
        plain = value.item()
        if not isinstance(plain, np.generic):
            keep.append(plain)
            return load_value(code, plain, out, keep)
    if isinstance(value, bool):
        wrong_type(value, code)
    if isinstance(value, int):
        if code == INT or code == LONG or code == REFERENCE:
            return load_value(code, int(value), out, keep)
        if code == FLOAT or code == DOUBLE:
            try:
                return load_value(code, float(value), out, keep)
            except OverflowError:
                return 0
    if isinstance(value, float) and (code == FLOAT or code == DOUBLE):
        return load_value(code, float(value), out, keep)
    if isinstance(value, str) and code == STRING:
        plain = value[:] if type(value) is str else str.__str__(value)
        keep.append(plain)
        return load_value(code, plain, out, keep)
    if isinstance(value, (bytearray, memoryview, bytes)) and code == BYTES:
        plain = bytes(value)
        keep.append(plain)
        return load_value(code, plain, out, keep)
    wrong_type(value, code)


cdef int read_value(TypeSlot* slot, const Part* part, int64_t ordinal, Query* out) noexcept nogil:
    """The value at the end of a path from a record; 0 if it is null, or if the way to it leads nowhere."""
    cdef int step, position
    cdef ShardSlot* shard
    cdef FieldSlot* field
    cdef uint64_t raw, start
    cdef int64_t index, bit
    for step in range(part.depth - 1):
        position = part.positions[step]
        shard = &slot.shards[ordinal & slot.shard_mask]
        if (ordinal >> slot.shift) >= shard.count:
            return 0
        raw = raw_field(slot, ordinal, position)
        if raw == shard.fields[position].mask:
            return 0
        slot = slot.links[position]
        if slot is NULL or raw >= <uint64_t>slot.limit:
            return 0
        ordinal = <int64_t>raw
    position = part.positions[part.depth - 1]
    shard = &slot.shards[ordinal & slot.shard_mask]
    field = &shard.fields[position]
    index = ordinal >> slot.shift
    if index >= shard.count or field.width == 0:
        return 0
    bit = index * shard.stride + field.offset
    raw = read_bits(shard.records, bit, field.width, field.mask)
    if is_text(part.code):
        if raw > field.end_mask:
            return 0
        start = 0
        if index:
            start = read_bits(shard.records, bit - shard.stride, field.width, field.mask) & field.end_mask
        if start > raw or raw > <uint64_t>field.data_size:
            return 0
        out.text = field.data + start
        out.length = <int64_t>(raw - start)
        if part.code == STRING:
            out.length = text_length(out.text, <Py_ssize_t>out.length)
        return 1
    if part.code == FLOAT:
        if <uint32_t>raw == NULL_FLOAT or raw == field.mask:
            return 0
        out.number = canonical_float(<uint32_t>raw)
        return 1
    if part.code == DOUBLE:
        if raw == NULL_DOUBLE or raw == field.mask:
            return 0
        out.number = canonical_double(raw)
        return 1
    if raw == field.mask:
        return 0
    if part.code == INT:
        out.number = <uint64_t><int64_t><int32_t>((<uint32_t>raw >> 1) ^ (0 - (<uint32_t>raw & 1)))
    elif part.code == LONG:
        out.number = (raw >> 1) ^ (0 - (raw & 1))
    elif part.code == BOOLEAN:
        out.number = raw == 1
    else:
        out.number = raw
    return 1


cdef class _Columns:
    """Columns of values, with their addresses: numbers, or offsets and bytes."""

    cdef Column* columns
    cdef int count
    cdef object keep

    def __cinit__(self, tuple columns not None, tuple codes not None, int64_t rows):
        cdef const int64_t[::1] numbers
        cdef const uint8_t[::1] data
        cdef int place
        self.count = len(columns)
        self.keep = columns
        self.columns = <Column*>calloc(max(self.count, 1), sizeof(Column))
        if self.columns is NULL:
            raise MemoryError
        for place in range(self.count):
            first, second = columns[place]
            self.columns[place].code = codes[place]
            if (second is not None) != is_text(self.columns[place].code):
                raise InputError("a column of texts has offsets and bytes, one of numbers has no bytes")
            numbers = first
            if second is None:
                if numbers.shape[0] < rows:
                    raise InputError(f"{rows} rows of a column of {numbers.shape[0]}")
                self.columns[place].numbers = &numbers[0] if rows else NULL
            else:
                data = second
                if numbers.shape[0] < rows + 1 or numbers[0] < 0 or numbers[rows] > data.shape[0]:
                    raise InputError("the offsets of a column do not fit its bytes")
                self.columns[place].offsets = &numbers[0]
                self.columns[place].data = &data[0] if data.shape[0] else NULL

    def __dealloc__(self):
        free(self.columns)


# Tables

cdef inline uint64_t entry_for(int32_t hashed, int64_t number) noexcept nogil:
    return (<uint64_t><uint32_t>hashed << 32) | <uint64_t>(number + 1)


cdef inline void insert(uint64_t* slots, uint64_t mask, uint64_t entry) noexcept nogil:
    cdef uint64_t place = (entry >> 32) & mask
    while slots[place]:
        place = (place + 1) & mask
    slots[place] = entry


cdef object empty_table(Py_ssize_t size):
    # Not np.zeros: NumPy asks for large pages where it allocates without zeroing, and a table is read all over.
    table = np.empty(size, np.uint64)
    cdef uint64_t[::1] slots = table
    memset(&slots[0], 0, size * sizeof(uint64_t))
    return table


def fill_table(const int32_t[::1] hashes not None, entries, valid, Py_ssize_t size):
    """A table of `size` slots, a power of two, with an entry for each row that is valid.

    Entries are `entries`, or the numbers of the rows. There must be more slots than rows.
    """
    cdef Py_ssize_t count = hashes.shape[0], row
    cdef const int64_t[::1] numbers
    cdef const uint8_t[::1] flags
    cdef const int64_t* number = NULL
    cdef const uint8_t* flag = NULL
    cdef uint64_t mask = <uint64_t>size - 1
    if size & (size - 1) or size <= count:
        raise InputError(f"{count} entries do not fit a table of {size} slots")
    table = empty_table(size)
    cdef uint64_t[::1] slots = table
    if entries is not None and count:
        numbers = entries
        number = &numbers[0]
    if valid is not None and count:
        flags = valid.view(np.uint8)
        flag = &flags[0]
    with nogil:
        for row in range(count):
            if row + AHEAD < count:
                __builtin_prefetch(&slots[<uint32_t>hashes[row + AHEAD] & mask])
            if flag is NULL or flag[row]:
                insert(&slots[0], mask, entry_for(hashes[row], number[row] if number is not NULL else row))
    return table


cdef inline bint read_number(TypeSlot* slot, int position, int64_t ordinal, int64_t* value) noexcept nogil:
    """One whole number of a record; False if it is null."""
    cdef ShardSlot* shard = &slot.shards[ordinal & slot.shard_mask]
    cdef FieldSlot* field = &shard.fields[position]
    cdef int64_t index = ordinal >> slot.shift
    cdef uint64_t raw
    if index >= shard.count:
        return False
    raw = read_bits(shard.records, index * shard.stride + field.offset, field.width, field.mask)
    if raw == field.mask:
        return False
    if field.code == LONG:
        value[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    elif field.code == INT:
        value[0] = <int32_t>((<uint32_t>raw >> 1) ^ (0 - (<uint32_t>raw & 1)))
    else:
        value[0] = <int64_t>raw
    return True


cdef inline int32_t number_hash(int code, int64_t value) noexcept nogil:
    return hash_int32(fold_int64(<uint64_t>value) if code == LONG else <int32_t>value)


cdef bint read_run(TypeSlot* slot, int position, int64_t first, uint64_t* entries, uint64_t* above) noexcept nogil:
    """The entries of 64 adjacent records of one shard; False if that is not what they are, or if one is null."""
    cdef ShardSlot* shard = &slot.shards[0]
    cdef FieldSlot* field = &shard.fields[position]
    cdef int64_t bit = first * shard.stride + field.offset, stride = shard.stride
    cdef uint64_t mask = field.mask, high = 0, found
    cdef uint64_t[64] raw
    cdef int i, nulls = 0
    if slot.shard_mask or first + 64 > shard.count or field.width > 57 or field.width == 0:
        return False
    for i in range(64):
        memcpy(&found, shard.records + (bit >> 3), 8)
        raw[i] = (found >> (bit & 7)) & mask
        nulls += raw[i] == mask
        bit += stride
    if nulls:
        return False
    if field.code == LONG:
        for i in range(64):
            raw[i] = (raw[i] >> 1) ^ (0 - (raw[i] & 1))
            high |= raw[i] >> 32
            raw[i] = <uint32_t>fold_int64(raw[i])
        above[0] |= high
    elif field.code == INT:
        for i in range(64):
            raw[i] = (<uint32_t>raw[i] >> 1) ^ (0 - (<uint32_t>raw[i] & 1))
    for i in range(64):
        entries[i] = entry_for(hash_int32(<int32_t>raw[i]), first + i)
    return True


def number_table(StateAccess state not None, Py_ssize_t number, Py_ssize_t position, words, Py_ssize_t size):
    """The table of a key that is one whole number of the record itself, straight from the records.

    Gives the table, the ordinals of the records that have a null there, and whether the table is exact. Records are
    those whose bits `words` has; there must be more slots, a power of two, than records.
    """
    cdef const uint64_t[::1] rows = words
    cdef TypeSlot* slot
    cdef uint64_t left, above = 0
    cdef int64_t word, ordinal, value = 0
    cdef int code
    if not 0 <= number < state.count or state.slots[number].kind != OBJECT:
        raise InputError("keys are those of an OBJECT type")
    slot = &state.slots[number]
    if not 0 <= position < slot.field_count or not is_whole_number(slot.shards[0].fields[position].code):
        raise InputError("the key is one whole number")
    if rows.shape[0] * 64 >= slot.limit + 64:
        raise InputError("there are bits behind the last record")
    if size & (size - 1) or size <= int(np.bitwise_count(words).sum()):
        raise InputError(f"the records do not fit a table of {size} slots")
    code = slot.shards[0].fields[position].code
    cdef uint64_t[64] fresh
    cdef uint64_t[64] waiting
    cdef uint64_t mask = <uint64_t>size - 1
    cdef int n, i, waiting_count = 0
    table = empty_table(size)
    cdef uint64_t[::1] view = table
    cdef uint64_t* slots = &view[0]
    cdef list without = []
    with nogil:
        for word in range(rows.shape[0]):
            left = rows[word]
            n = 0
            if left == ALL_ONES and read_run(slot, <int>position, word << 6, fresh, &above):
                n = 64
            else:
                while left:
                    ordinal = (word << 6) + __builtin_ctzll(left)
                    left &= left - 1
                    if read_number(slot, <int>position, ordinal, &value):
                        above |= <uint64_t>value >> 32
                        fresh[n] = entry_for(number_hash(code, value), ordinal)
                        n += 1
                    else:
                        with gil:
                            without.append(ordinal)
            for i in range(n):
                __builtin_prefetch(slots + ((fresh[i] >> 32) & mask))
            # Those of the word before have had time to arrive.
            for i in range(waiting_count):
                insert(slots, mask, waiting[i])
            memcpy(waiting, fresh, n * sizeof(uint64_t))
            waiting_count = n
        for i in range(waiting_count):
            insert(slots, mask, waiting[i])
    return table, np.array(without, np.int64), code != LONG or above == 0


cdef class KeyFinder:
    """Records of one type by key.

    Args:
        state: what the records are read from.
        number: the number of their type.
        paths: a `content.KeyPath` for each part of the key.
        tables: for each table of ordinals its slots, the bits of those that do not count any more (or None), and
            whether it is exact: equal hashes are equal keys. In one that is not, keys are compared with the records.
    """

    cdef StateAccess state
    cdef TypeSlot* slot
    cdef Part* parts
    cdef int* positions
    cdef int part_count
    cdef Table* tables
    cdef int table_count
    cdef tuple keep
    cdef tuple paths

    def __dealloc__(self):
        free(self.parts)
        free(self.positions)
        free(self.tables)

    def __init__(self, StateAccess state not None, Py_ssize_t number, tuple paths not None, tuple tables not None):
        cdef int part, step, used = 0
        cdef TypeSlot* slot
        cdef const uint64_t[::1] view
        if self.slot is not NULL:
            raise TypeError("a finder is made once")
        if not 0 <= number < state.count or state.slots[number].kind != OBJECT:
            raise InputError("keys are those of an OBJECT type")
        if not 0 < len(paths) <= MOST_PARTS:
            raise InputError(f"a key has 1 to {MOST_PARTS} parts, not {len(paths)}")
        self.parts = <Part*>calloc(len(paths), sizeof(Part))
        self.positions = <int*>calloc(sum([len(path.positions) for path in paths]) + 1, sizeof(int))
        self.tables = <Table*>calloc(max(len(tables), 1), sizeof(Table))
        if self.parts is NULL or self.positions is NULL or self.tables is NULL:
            raise MemoryError
        for part, path in enumerate(paths):
            self.parts[part].code = path.code
            self.parts[part].depth = len(path.positions)
            self.parts[part].positions = self.positions + used
            slot = &state.slots[number]
            if not path.positions:
                raise InputError("a key has no empty path")
            for step, position in enumerate(path.positions):
                if slot is NULL or slot.kind != OBJECT or not 0 <= position < slot.field_count:
                    raise InputError("a path of the key leads nowhere")
                wanted = path.code if step == len(path.positions) - 1 else REFERENCE
                if slot.shards[0].fields[<int>position].code != wanted:
                    raise InputError("a path of the key ends on a field of another type")
                self.positions[used] = position
                used += 1
                slot = slot.links[<int>position] if wanted == REFERENCE else NULL
        for step, (slots, stale, exact) in enumerate(tables):
            view = slots
            if view.shape[0] == 0 or view.shape[0] & (view.shape[0] - 1):
                raise InputError(f"a table has {view.shape[0]} slots, not a power of two")
            self.tables[step].slots = &view[0]
            self.tables[step].mask = <uint64_t>view.shape[0] - 1
            if exact and (len(paths) != 1 or not is_whole_number(self.parts[0].code)):
                raise InputError("a table is exact for one whole number only")
            self.tables[step].exact = exact
            if stale is not None and len(stale):
                view = stale
                self.tables[step].stale = &view[0]
                self.tables[step].stale_words = view.shape[0]
        self.table_count = len(tables)
        self.part_count = len(paths)
        self.keep = tables
        self.paths = paths
        self.state = state
        self.slot = &state.slots[number]

    def _finder(self):
        """What another finder of the same keys is made of."""
        self._ready()
        return self.state, self.slot.number, self.paths, self.keep

    def _prepare(self):
        """Call `KeyFinder.__init__`: the first look-up asks for it where that has not been done yet."""
        raise TypeError("this index was not built")

    cdef int _ready(self) except -1:
        if self.slot is NULL:
            self._prepare()
        return 0

    cdef bint _has_values(self, const Query* queries, int64_t ordinal) noexcept nogil:
        cdef Query found
        cdef int part
        for part in range(self.part_count):
            if not read_value(self.slot, &self.parts[part], ordinal, &found):
                return False
            if not same_value(self.parts[part].code, &found, &queries[part]):
                return False
        return True

    cdef int64_t _search(self, const Query* queries, int32_t hashed) noexcept nogil:
        """The smallest ordinal with a key, or -1."""
        cdef int64_t best = -1, ordinal
        cdef uint64_t place, mask, slot, steps
        cdef const uint64_t* slots
        cdef int number
        cdef bint same
        for number in range(self.table_count):
            slots = self.tables[number].slots
            mask = self.tables[number].mask
            place = <uint32_t>hashed & mask
            for steps in range(mask + 1):
                slot = slots[place]
                if slot == 0:
                    break
                if <uint32_t>(slot >> 32) == <uint32_t>hashed:
                    ordinal = entry_of(slot)
                    if (best < 0 or ordinal < best) and 0 <= ordinal < self.slot.limit and not has_bit(
                        self.tables[number].stale, self.tables[number].stale_words, ordinal
                    ):
                        if self.tables[number].exact:
                            # A LONG above 32 bits has the hash of a smaller one, and is in no exact table.
                            same = self.parts[0].code != LONG or queries[0].number >> 32 == 0
                        else:
                            same = self._has_values(queries, ordinal)
                        if same:
                            best = ordinal
                            break
                place = (place + 1) & mask
        return best

    cdef int _load(self, object key, Query* queries, int32_t* hashed, list keep) except -1:
        """A key as it is compared, and its hash; 0 if no record can have it."""
        cdef int part
        hashed[0] = 0
        if self.part_count == 1:
            if type(key) is tuple and PyTuple_GET_SIZE(key) == 1:
                key = key[0]
                keep.append(key)
            if not load_value(self.parts[0].code, key, &queries[0], keep):
                return 0
            hashed[0] = value_hash(self.parts[0].code, &queries[0], False)
            return 1
        if not isinstance(key, (tuple, list)) or len(key) != self.part_count:
            raise InputError(f"a key is a tuple of {self.part_count} values, not {key!r}", "KeyType")
        for part in range(self.part_count):
            value = key[part]
            keep.append(value)
            if not load_value(self.parts[part].code, value, &queries[part], keep):
                return 0
            hashed[0] ^= value_hash(self.parts[part].code, &queries[part], False)
        return 1

    cdef int64_t _find(self, object key) except -2:
        cdef Query[MOST_PARTS] queries
        cdef int32_t hashed = 0
        cdef list keep = None
        if self.slot is NULL:
            self._ready()
        # The two common kinds of key are read in place and need no list that keeps them.
        if not PyLong_CheckExact(key) and not (PyUnicode_CheckExact(key) and PyUnicode_IS_ASCII(key)):
            keep = []
        if not self._load(key, queries, &hashed, keep):
            return -1
        return self._search(queries, hashed)

    def ordinals(self, key):
        """The ordinals of all records with a key, rising: more than one where the key is no key."""
        cdef Query[MOST_PARTS] queries
        cdef int32_t hashed = 0
        cdef list keep = []
        cdef uint64_t place, steps
        cdef int64_t ordinal
        cdef Table* table
        cdef int number
        self._ready()
        if not self._load(key, queries, &hashed, keep):
            return []
        found = []
        for number in range(self.table_count):
            table = &self.tables[number]
            place = <uint32_t>hashed & table.mask
            for steps in range(table.mask + 1):
                if table.slots[place] == 0:
                    break
                if <uint32_t>(table.slots[place] >> 32) == <uint32_t>hashed:
                    ordinal = entry_of(table.slots[place])
                    if 0 <= ordinal < self.slot.limit and not has_bit(table.stale, table.stale_words, ordinal):
                        if self._has_values(queries, ordinal):
                            found.append(ordinal)
                place = (place + 1) & table.mask
        return sorted(found)

    def ordinal(self, key):
        """The ordinal of the record with a key, or -1."""
        return self._find(key)

    def __getitem__(self, key):
        cdef int64_t ordinal = self._find(key)
        if ordinal < 0:
            raise MissingKeyError(self.state.types[self.slot.number].name, key)
        return make_record(self.state, self.slot, ordinal)

    def get(self, key, default=None):
        """The record with a key, or `default`."""
        cdef int64_t ordinal = self._find(key)
        return default if ordinal < 0 else make_record(self.state, self.slot, ordinal)

    def __contains__(self, key):
        return self._find(key) >= 0

    def find_columns(self, tuple columns not None, valid, Py_ssize_t count):
        """For each row the ordinal of the record with that key, or -1: where none has it, or the row is not valid.

        A column is (numbers, None) or (offsets, bytes), one for each part of the key.
        """
        self._ready()
        if len(columns) != self.part_count:
            raise InputError(f"a key has {self.part_count} parts, {len(columns)} columns given")
        cdef _Columns given = _Columns(columns, tuple([path.code for path in self.paths]), count)
        cdef const uint8_t[::1] flags
        cdef const uint8_t* flag = NULL
        if valid is not None and count:
            flags = valid.view(np.uint8)
            flag = &flags[0]
        found = np.empty(count, np.int64)
        cdef int64_t[::1] out = found
        if self.part_count == 1 and self.parts[0].depth == 1 and is_whole_number(self.parts[0].code):
            if count:
                self._find_numbers(given.columns[0].numbers, flag, count, &out[0])
            return found
        cdef int parts = self.part_count
        cdef Query* queries = <Query*>malloc(BLOCK * parts * sizeof(Query))
        if queries is NULL:
            raise MemoryError
        cdef int32_t[BLOCK] hashes
        cdef Py_ssize_t done = 0, n, i
        cdef int part
        with nogil:
            while done < count:
                n = min(count - done, <Py_ssize_t>BLOCK)
                for i in range(n):
                    hashes[i] = 0
                    for part in range(parts):
                        load_row(&given.columns[part], done + i, &queries[i * parts + part])
                        hashes[i] ^= value_hash(given.columns[part].code, &queries[i * parts + part], False)
                    for part in range(self.table_count):
                        __builtin_prefetch(self.tables[part].slots + (<uint32_t>hashes[i] & self.tables[part].mask))
                self._ask_for(hashes, n)
                for i in range(n):
                    if flag is not NULL and not flag[done + i]:
                        out[done + i] = -1
                    else:
                        out[done + i] = self._search(&queries[i * parts], hashes[i])
                done += n
        free(queries)
        return found

    cdef void _find_numbers(
        self, const int64_t* numbers, const uint8_t* flag, Py_ssize_t count, int64_t* out
    ) noexcept:
        """`find_columns` for the most common key, one whole number of the record itself: compared as it is stored."""
        cdef int32_t[BLOCK] hashes
        cdef uint64_t[BLOCK] stored
        cdef int code = self.parts[0].code
        cdef int position = self.parts[0].positions[0]
        cdef TypeSlot* type_slot = self.slot
        cdef ShardSlot* shard
        cdef FieldSlot* field
        cdef Py_ssize_t done = 0, n, i
        cdef int64_t number, ordinal, best, index
        cdef uint64_t place, mask, slot, steps
        cdef const uint64_t* slots
        cdef uint32_t hashed
        cdef int table
        with nogil:
            while done < count:
                n = min(count - done, <Py_ssize_t>BLOCK)
                for i in range(n):
                    number = numbers[done + i]
                    hashes[i] = hash_int32(fold_int64(<uint64_t>number) if code == LONG else <int32_t>number)
                    stored[i] = <uint64_t>number
                    if code == LONG:
                        stored[i] = (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)
                    elif code == INT:
                        stored[i] = <uint32_t>(number << 1) ^ <uint32_t>(number >> 63)
                for table in range(self.table_count):
                    slots = self.tables[table].slots
                    mask = self.tables[table].mask
                    for i in range(n):
                        __builtin_prefetch(slots + (<uint32_t>hashes[i] & mask))
                if not self.tables[0].exact:
                    self._ask_for(hashes, n)
                for i in range(n):
                    best = -1
                    hashed = <uint32_t>hashes[i]
                    for table in range(self.table_count):
                        slots = self.tables[table].slots
                        mask = self.tables[table].mask
                        place = hashed & mask
                        for steps in range(mask + 1):
                            slot = slots[place]
                            if slot == 0:
                                break
                            place = (place + 1) & mask
                            if <uint32_t>(slot >> 32) != hashed:
                                continue
                            ordinal = entry_of(slot)
                            if not 0 <= ordinal < type_slot.limit or (best >= 0 and ordinal >= best):
                                continue
                            if has_bit(self.tables[table].stale, self.tables[table].stale_words, ordinal):
                                continue
                            if self.tables[table].exact:
                                if code != LONG or <uint64_t>numbers[done + i] >> 32 == 0:
                                    best = ordinal
                                break
                            shard = &type_slot.shards[ordinal & type_slot.shard_mask]
                            field = &shard.fields[position]
                            index = ordinal >> type_slot.shift
                            if index < shard.count and stored[i] != field.mask and stored[i] == read_bits(
                                shard.records, index * shard.stride + field.offset, field.width, field.mask
                            ):
                                best = ordinal
                                break
                    out[done + i] = -1 if flag is not NULL and not flag[done + i] else best
                done += n

    cdef void _ask_for(self, const int32_t* hashes, Py_ssize_t count) noexcept nogil:
        """Have the records that the first table names, and what they refer to, on their way from memory."""
        cdef int64_t[BLOCK] ordinals
        cdef Py_ssize_t i
        cdef uint64_t place, mask, steps, raw
        cdef const uint64_t* slots
        cdef int step, position
        cdef TypeSlot* slot = self.slot
        cdef ShardSlot* shard
        if self.table_count == 0:
            return
        slots = self.tables[0].slots
        mask = self.tables[0].mask
        for i in range(count):
            place = <uint32_t>hashes[i] & mask
            ordinals[i] = -1
            for steps in range(8):
                if slots[place] == 0:
                    break
                if <uint32_t>(slots[place] >> 32) == <uint32_t>hashes[i]:
                    ordinals[i] = entry_of(slots[place])
                    break
                place = (place + 1) & mask
            ask_for_record(slot, &ordinals[i])
        for step in range(self.parts[0].depth - 1):
            position = self.parts[0].positions[step]
            for i in range(count):
                if ordinals[i] >= 0:
                    shard = &slot.shards[ordinals[i] & slot.shard_mask]
                    raw = raw_field(slot, ordinals[i], position)
                    ordinals[i] = -1 if raw == shard.fields[position].mask else <int64_t>raw
                    ask_for_record(slot.links[position], &ordinals[i])
            slot = slot.links[position]
            if slot is NULL:
                return
        if is_text(self.parts[0].code):
            position = self.parts[0].positions[self.parts[0].depth - 1]
            for i in range(count):
                if ordinals[i] >= 0:
                    shard = &slot.shards[ordinals[i] & slot.shard_mask]
                    raw = raw_field(slot, ordinals[i], position) & shard.fields[position].end_mask
                    if raw < <uint64_t>shard.fields[position].data_size:
                        __builtin_prefetch(shard.fields[position].data + raw)

    def first_of(self, const int64_t[::1] ordinals not None):
        """For each record the smallest ordinal with its key; -1 where the key has a null."""
        self._ready()
        cdef Py_ssize_t count = ordinals.shape[0], row
        found = np.empty(count, np.int64)
        cdef int64_t[::1] out = found
        cdef Query[MOST_PARTS] queries
        cdef int32_t hashed
        cdef int part
        cdef bint whole
        with nogil:
            for row in range(count):
                hashed = 0
                whole = 0 <= ordinals[row] < self.slot.limit
                if whole:
                    for part in range(self.part_count):
                        if not read_value(self.slot, &self.parts[part], ordinals[row], &queries[part]):
                            whole = False
                            break
                        hashed ^= value_hash(self.parts[part].code, &queries[part], False)
                out[row] = self._search(queries, hashed) if whole else -1
        return found


cdef inline void ask_for_record(TypeSlot* slot, int64_t* ordinal) noexcept nogil:
    """Have a record on its way from memory; -1 in place of an ordinal that there is not."""
    cdef ShardSlot* shard
    if ordinal[0] < 0 or slot is NULL or ordinal[0] >= slot.limit:
        ordinal[0] = -1
        return
    shard = &slot.shards[ordinal[0] & slot.shard_mask]
    if (ordinal[0] >> slot.shift) >= shard.count:
        ordinal[0] = -1
        return
    __builtin_prefetch(shard.records + (((ordinal[0] >> slot.shift) * shard.stride) >> 3))


# Groups

cdef uint64_t* grown(uint64_t* slots, uint64_t* mask) noexcept nogil:
    """The same entries in twice as many slots; NULL if there is no memory."""
    cdef uint64_t wide = (mask[0] << 1) | 1, place, old
    cdef uint64_t* made = <uint64_t*>calloc(wide + 1, sizeof(uint64_t))
    if made is NULL:
        return NULL
    for old in range(mask[0] + 1):
        if slots[old]:
            place = (slots[old] >> 32) & wide
            while made[place]:
                place = (place + 1) & wide
            made[place] = slots[old]
    free(slots)
    mask[0] = wide
    return made


def group_rows(const int32_t[::1] hashes not None, tuple columns not None, tuple codes not None):
    """Rows with equal values: a table of groups, the group of each row, and the first row of each group.

    A column is (numbers, None) or (offsets, bytes).
    """
    cdef Py_ssize_t count = hashes.shape[0], row
    cdef _Columns given = _Columns(columns, codes, count)
    groups = np.empty(count, np.int32)
    firsts = np.empty(count, np.int64)
    cdef int32_t[::1] group_of = groups
    cdef int64_t[::1] first_of = firsts
    cdef uint64_t mask = 1023, place, slot
    cdef uint64_t* slots = <uint64_t*>calloc(mask + 1, sizeof(uint64_t))
    cdef int64_t made = 0, group
    cdef int column
    cdef Query left, right
    cdef bint same
    if slots is NULL:
        raise MemoryError
    with nogil:
        for row in range(count):
            if row + AHEAD < count:
                __builtin_prefetch(slots + (<uint32_t>hashes[row + AHEAD] & mask))
            place = <uint32_t>hashes[row] & mask
            while True:
                slot = slots[place]
                if slot == 0:
                    slots[place] = (<uint64_t><uint32_t>hashes[row] << 32) | <uint64_t>(made + 1)
                    group_of[row] = <int32_t>made
                    first_of[made] = row
                    made += 1
                    if <uint64_t>made * 10 > (mask + 1) * 7:
                        slots = grown(slots, &mask)
                    break
                if <uint32_t>(slot >> 32) == <uint32_t>hashes[row]:
                    group = entry_of(slot)
                    same = True
                    for column in range(given.count):
                        load_row(&given.columns[column], first_of[group], &left)
                        load_row(&given.columns[column], row, &right)
                        if not same_value(given.columns[column].code, &left, &right):
                            same = False
                            break
                    if same:
                        group_of[row] = <int32_t>group
                        break
                place = (place + 1) & mask
            if slots is NULL:
                break
    if slots is NULL:
        raise MemoryError
    table = np.empty(mask + 1, np.uint64)
    cdef uint64_t[::1] view = table
    memcpy(&view[0], slots, (mask + 1) * sizeof(uint64_t))
    free(slots)
    return table, groups, firsts[:made].copy()


def group_members(
    const int32_t[::1] groups not None, Py_ssize_t group_count, const int32_t[::1] roots not None, selected
):
    """The rows of each group: offsets, what they select, and their roots (None where the roots are selected).

    Rows come in rising order of their roots. A row that repeats the one before it in its group is left out.
    """
    cdef Py_ssize_t count = groups.shape[0], row
    cdef const int32_t[::1] chosen
    cdef bint apart = selected is not None
    chosen = selected if apart else roots
    offsets = np.zeros(group_count + 1, np.int64)
    cdef int64_t[::1] ends = offsets
    last = np.full(group_count, -1, np.int64)
    cdef int64_t[::1] last_row = last
    cdef int64_t before, total = 0, place
    cdef int32_t group
    with nogil:
        for row in range(count):
            group = groups[row]
            before = last_row[group]
            if before < 0 or roots[before] != roots[row] or chosen[before] != chosen[row]:
                ends[group + 1] += 1
                last_row[group] = row
        for row in range(group_count):
            total += ends[row + 1]
            ends[row + 1] = total
    members = np.empty(total, np.int32)
    owners = np.empty(total if apart else 0, np.int32)
    cdef int32_t[::1] out = members
    cdef int32_t[::1] owners_out = owners
    # Where the next member of each group goes.
    places = offsets[:-1].copy()
    cdef int64_t[::1] at = places
    with nogil:
        for row in range(count):
            group = groups[row]
            place = at[group]
            if place > ends[group] and out[place - 1] == chosen[row] and (
                not apart or owners_out[place - 1] == roots[row]
            ):
                continue
            out[place] = chosen[row]
            if apart:
                owners_out[place] = roots[row]
            at[group] = place + 1
    return offsets, members, owners if apart else None


cdef class GroupFinder:
    """Groups of records by the values that they share.

    Args:
        table: a table of groups.
        columns: the values of each group, as in `group_rows`.
        codes: the field types of the columns.
        offsets: where the members of each group begin, and where those of the last one end.
        members: the members of all groups.
    """

    cdef _Columns columns
    cdef const uint64_t[::1] table
    cdef const int64_t[::1] offsets
    cdef const int32_t[::1] all_members
    cdef tuple codes
    cdef int64_t count

    def __init__(self, table, tuple columns not None, tuple codes not None, offsets, members):
        cdef int64_t count = len(offsets) - 1
        self.table = table
        self.offsets = offsets
        self.all_members = members
        if count < 0 or self.offsets[0] < 0 or self.offsets[count] > self.all_members.shape[0]:
            raise InputError("the offsets of groups do not fit their members")
        if self.table.shape[0] == 0 or self.table.shape[0] & (self.table.shape[0] - 1):
            raise InputError(f"a table has {self.table.shape[0]} slots, not a power of two")
        if not 0 < len(columns) <= MOST_PARTS or len(columns) != len(codes):
            raise InputError(f"an index has 1 to {MOST_PARTS} paths, not {len(columns)}")
        self.columns = _Columns(columns, codes, count)
        self.codes = codes
        self.count = count

    cdef int64_t _search(self, const Query* queries, int32_t hashed) noexcept nogil:
        cdef uint64_t mask = <uint64_t>self.table.shape[0] - 1
        cdef uint64_t place = <uint32_t>hashed & mask, slot, steps
        cdef int64_t group
        cdef int column
        cdef Query found
        cdef bint same
        for steps in range(mask + 1):
            slot = self.table[place]
            if slot == 0:
                return -1
            if <uint32_t>(slot >> 32) == <uint32_t>hashed:
                group = entry_of(slot)
                same = group < self.count
                for column in range(self.columns.count):
                    if not same:
                        break
                    load_row(&self.columns.columns[column], group, &found)
                    same = same_value(self.columns.columns[column].code, &found, &queries[column])
                if same:
                    return group
            place = (place + 1) & mask
        return -1

    def find(self, tuple values not None):
        """The group with these values, or -1."""
        return self._find(values)

    def members(self, tuple values not None):
        """The members of the group with these values, in order; none if there is no such group."""
        cdef int64_t group = self._find(values), first = 0, count = 0, place
        if group >= 0:
            first = self.offsets[group]
            count = self.offsets[group + 1] - first
            if count < 0 or first < 0 or first + count > self.all_members.shape[0]:
                raise InputError("the offsets of groups do not fit their members")
        found = np.empty(count, np.int64)
        cdef int64_t[::1] out = found
        for place in range(count):
            out[place] = self.all_members[first + place]
        return found

    cdef int64_t _find(self, tuple values) except -2:
        cdef Query[MOST_PARTS] queries
        cdef int32_t hashed = 0
        cdef int column
        cdef list keep = []
        if len(values) != self.columns.count:
            raise InputError(f"this index matches {self.columns.count} values, {len(values)} given", "KeyType")
        for column in range(self.columns.count):
            if not load_value(self.columns.columns[column].code, values[column], &queries[column], keep):
                return -1
            hashed ^= value_hash(self.columns.columns[column].code, &queries[column], True)
        return self._search(queries, hashed)

    def find_columns(self, tuple columns not None, valid, Py_ssize_t count):
        """For each row of values the group that has them, or -1."""
        if len(columns) != self.columns.count:
            raise InputError(f"this index matches {self.columns.count} values, {len(columns)} columns given")
        cdef _Columns given = _Columns(columns, self.codes, count)
        cdef const uint8_t[::1] flags
        cdef const uint8_t* flag = NULL
        if valid is not None and count:
            flags = valid.view(np.uint8)
            flag = &flags[0]
        found = np.empty(count, np.int64)
        cdef int64_t[::1] out = found
        cdef Query[MOST_PARTS] queries
        cdef int32_t[BLOCK] hashes
        cdef uint64_t mask = <uint64_t>self.table.shape[0] - 1
        cdef Py_ssize_t done = 0, n, i
        cdef int column
        with nogil:
            while done < count:
                n = min(count - done, <Py_ssize_t>BLOCK)
                for i in range(n):
                    hashes[i] = 0
                    for column in range(given.count):
                        load_row(&given.columns[column], done + i, &queries[0])
                        hashes[i] ^= value_hash(given.columns[column].code, &queries[0], True)
                    __builtin_prefetch(&self.table[<uint32_t>hashes[i] & mask])
                for i in range(n):
                    if flag is not NULL and not flag[done + i]:
                        out[done + i] = -1
                        continue
                    for column in range(given.count):
                        load_row(&given.columns[column], done + i, &queries[column])
                    out[done + i] = self._search(queries, hashes[i])
                done += n
        return found


def collect(
    const int64_t[::1] groups not None,
    const int64_t[::1] offsets not None,
    const int32_t[::1] members not None,
    owners,
    stale,
):
    """The members of each asked-for group, one behind the other: offsets and members. A group of -1 has none.

    Members whose owner (the member itself if `owners` is None) is a bit of `stale` are left out.
    """
    cdef Py_ssize_t count = groups.shape[0], row
    cdef const int32_t[::1] owner = members if owners is None else owners
    cdef const uint64_t[::1] words
    cdef const uint64_t* word = NULL
    cdef int64_t word_count = 0, total = 0, place, group
    if stale is not None and len(stale):
        words = stale
        word = &words[0]
        word_count = words.shape[0]
    ends = np.zeros(count + 1, np.int64)
    cdef int64_t[::1] out_ends = ends
    with nogil:
        for row in range(count):
            if row + AHEAD < count and groups[row + AHEAD] >= 0:
                __builtin_prefetch(&offsets[groups[row + AHEAD]])
            group = groups[row]
            if group >= 0:
                total += offsets[group + 1] - offsets[group]
    found = np.empty(total, np.int64)
    cdef int64_t[::1] out = found
    total = 0
    with nogil:
        for row in range(count):
            if row + NEAR < count and groups[row + NEAR] >= 0:
                __builtin_prefetch(&members[offsets[groups[row + NEAR]]])
                __builtin_prefetch(&members[offsets[groups[row + NEAR]]] + 16)
            group = groups[row]
            if group >= 0:
                for place in range(offsets[group], offsets[group + 1]):
                    if word is NULL or not has_bit(word, word_count, owner[place]):
                        out[total] = members[place]
                        total += 1
            out_ends[row + 1] = total
    return ends, found[:total]


def points_into(StateAccess state not None, Py_ssize_t number, Py_ssize_t position, parents, touched):
    """True if one of the records `parents` refers to one of `touched`, both given as the bits of sets.

    `position` is a field of an OBJECT; for collections 0 is the element or key, 1 the value.
    """
    cdef const uint64_t[::1] parent_words = parents
    cdef const uint64_t[::1] touched_words = touched
    cdef TypeSlot* slot
    cdef ShardSlot* shard
    cdef int64_t word, ordinal, index, start, end, item, touched_count = touched_words.shape[0]
    cdef uint64_t left, raw
    cdef int width
    cdef const uint64_t* bits
    if not 0 <= number < state.count:
        raise InputError(f"there is no type number {number}")
    slot = &state.slots[number]
    if not 0 <= position < (slot.field_count if slot.kind == OBJECT else 2):
        raise InputError(f"type {state.types[number].name} has no reference {position}")
    if touched_count == 0 or parent_words.shape[0] == 0:
        return False
    bits = &touched_words[0]
    with nogil:
        for word in range(parent_words.shape[0]):
            left = parent_words[word]
            while left:
                ordinal = (word << 6) + __builtin_ctzll(left)
                left &= left - 1
                shard = &slot.shards[ordinal & slot.shard_mask]
                index = ordinal >> slot.shift
                if ordinal >= slot.limit or index >= shard.count:
                    continue
                if slot.kind == OBJECT:
                    raw = raw_field(slot, ordinal, <int>position)
                    if raw != shard.fields[position].mask and has_bit(bits, touched_count, <int64_t>raw):
                        with gil:
                            return True
                    continue
                start = 0
                if index:
                    start = <int64_t>read_bits(
                        shard.records, (index - 1) * shard.stride, shard.pointer_width, shard.pointer_mask
                    )
                end = <int64_t>read_bits(
                    shard.records, index * shard.stride, shard.pointer_width, shard.pointer_mask
                )
                if not 0 <= start <= end <= shard.item_count:
                    continue
                for item in range(start, end):
                    raw = read_bits(shard.items, item * shard.item_stride, shard.key_width, shard.key_mask)
                    if slot.kind != LIST and raw == shard.key_mask:
                        continue
                    if position == 1:
                        raw = read_bits(
                            shard.items,
                            item * shard.item_stride + shard.key_width,
                            shard.value_width,
                            shard.value_mask,
                        )
                    if has_bit(bits, touched_count, <int64_t>raw):
                        with gil:
                            return True
    return False


# Texts

def encode_texts(list texts not None):
    """The character data of many str: offsets, bytes, and a mask of those that are not None, or None."""
    cdef Py_ssize_t count = len(texts), row
    cdef int64_t total = 0, size
    cdef bint nulls = False
    offsets = np.empty(count + 1, np.int64)
    valid = np.ones(count, np.bool_)
    cdef int64_t[::1] ends = offsets
    cdef uint8_t[::1] flags = valid.view(np.uint8)
    cdef dict encoded = {}
    ends[0] = 0
    for row in range(count):
        value = texts[row]
        if value is None:
            flags[row] = 0
            nulls = True
        elif not isinstance(value, str):
            wrong_type(value, STRING)
        elif PyUnicode_IS_ASCII(value):
            total += PyUnicode_GET_LENGTH(value)
        else:
            data = text_kernel.encode_text(str(value))
            encoded[row] = data
            total += PyBytes_GET_SIZE(data)
        ends[row + 1] = total
    out = np.empty(total, np.uint8)
    if total:
        fill_texts(texts, encoded, &ends[0], out)
    return offsets, out, valid if nulls else None


cdef int fill_texts(list texts, dict encoded, const int64_t* ends, uint8_t[::1] out) except -1:
    cdef Py_ssize_t row
    cdef int64_t size
    for row in range(len(texts)):
        size = ends[row + 1] - ends[row]
        if size == 0:
            continue
        value = texts[row]
        if PyUnicode_IS_ASCII(value):
            memcpy(&out[ends[row]], PyUnicode_DATA(value), size)
        else:
            data = encoded[row]
            memcpy(&out[ends[row]], PyBytes_AS_STRING(data), size)
    return 0


def lower_ascii(const uint8_t[::1] data not None):
    """The bytes with A to Z in lower case."""
    cdef Py_ssize_t count = data.shape[0], i
    lowered = np.empty(count, np.uint8)
    cdef uint8_t[::1] out = lowered
    cdef uint8_t byte
    with nogil:
        for i in range(count):
            byte = data[i]
            out[i] = byte + (<uint8_t>((byte - 65) < 26 and byte >= 65) << 5)
    return lowered


cdef inline uint64_t eight_bytes(const uint8_t* data, int64_t start, int64_t end) noexcept nogil:
    """The next eight bytes of a text, most significant first, 0 behind its end."""
    cdef uint64_t word = 0
    cdef int64_t left = end - start, i
    if left >= 8:
        memcpy(&word, data + start, 8)
        return __builtin_bswap64(word)
    for i in range(left):
        word |= <uint64_t>data[start + i] << (56 - 8 * i)
    return word


cdef extern from *:
    uint64_t __builtin_bswap64(uint64_t word) noexcept nogil


cdef struct Sorted:
    uint64_t key
    int64_t row


cdef void sort_few(Sorted* items, int64_t count) noexcept nogil:
    cdef int64_t i, j
    cdef Sorted item
    for i in range(1, count):
        item = items[i]
        j = i - 1
        while j >= 0 and items[j].key > item.key:
            items[j + 1] = items[j]
            j -= 1
        items[j + 1] = item


cdef void sort_many(Sorted* items, Sorted* spare, int64_t count) noexcept nogil:
    """Stable, byte by byte from the last one; bytes that all keys share are passed over."""
    cdef int64_t[256] places
    cdef int64_t i, total, here
    cdef int shift, digit
    cdef uint64_t all_or = 0, all_and = ~<uint64_t>0
    cdef Sorted* source = items
    cdef Sorted* target = spare
    cdef Sorted* other
    for i in range(count):
        all_or |= items[i].key
        all_and &= items[i].key
    for shift in range(0, 64, 8):
        if not ((all_or ^ all_and) >> shift) & 255:
            continue
        for digit in range(256):
            places[digit] = 0
        for i in range(count):
            places[(source[i].key >> shift) & 255] += 1
        total = 0
        for digit in range(256):
            here = places[digit]
            places[digit] = total
            total += here
        for i in range(count):
            digit = <int>((source[i].key >> shift) & 255)
            target[places[digit]] = source[i]
            places[digit] += 1
        other = source
        source = target
        target = other
    if source is not items:
        memcpy(items, source, count * sizeof(Sorted))


cdef struct Run:
    int64_t first
    int64_t count
    int64_t depth


def sort_texts(const int64_t[::1] offsets not None, const uint8_t[::1] data not None):
    """The rows of texts in the order of their bytes; equal texts in the order of their rows."""
    cdef int64_t count = offsets.shape[0] - 1, row, start, end
    order = np.empty(count, np.int64)
    cdef int64_t[::1] out = order
    cdef const uint8_t* bytes_in = &data[0] if data.shape[0] else NULL
    cdef Sorted* items
    cdef Sorted* spare
    cdef Run* runs
    cdef Run run, inner
    cdef int64_t waiting = 0, room = 1024, ended, i
    cdef bint failed = False
    if count == 0:
        return order
    items = <Sorted*>malloc(count * sizeof(Sorted))
    spare = <Sorted*>malloc(count * sizeof(Sorted))
    runs = <Run*>malloc(room * sizeof(Run))
    if items is NULL or spare is NULL or runs is NULL:
        free(items)
        free(spare)
        free(runs)
        raise MemoryError
    with nogil:
        for row in range(count):
            items[row].row = row
        runs[0].first = 0
        runs[0].count = count
        runs[0].depth = 0
        waiting = 1
        while waiting and not failed:
            waiting -= 1
            run = runs[waiting]
            # Texts that end inside the bytes already compared are alike so far, and the shorter one comes first.
            for i in range(run.first, run.first + run.count):
                start = offsets[items[i].row] + run.depth
                end = offsets[items[i].row + 1]
                items[i].key = eight_bytes(bytes_in, start, end) if start < end else 0
            if run.count < 40:
                sort_few(items + run.first, run.count)
            else:
                sort_many(items + run.first, spare, run.count)
            start = run.first
            end = run.first + run.count
            while start < end:
                ended = start + 1
                while ended < end and items[ended].key == items[start].key:
                    ended += 1
                if ended - start > 1:
                    inner.first = start
                    inner.count = ended - start
                    inner.depth = run.depth + 8
                    finish_equal(items, &inner, &offsets[0])
                    if inner.count > 1:
                        if waiting == room:
                            runs = grown_runs(runs, &room)
                            if runs is NULL:
                                failed = True
                                break
                        runs[waiting] = inner
                        waiting += 1
                start = ended
        for row in range(count):
            out[row] = items[row].row
    free(items)
    free(spare)
    free(runs)
    if failed:
        raise MemoryError
    return order


cdef Run* grown_runs(Run* runs, int64_t* room) noexcept nogil:
    cdef Run* made = <Run*>malloc(room[0] * 2 * sizeof(Run))
    if made is not NULL:
        memcpy(made, runs, room[0] * sizeof(Run))
        room[0] *= 2
    free(runs)
    return made


cdef void finish_equal(Sorted* items, Run* run, const int64_t* offsets) noexcept nogil:
    """Put the texts of a run that end within its depth first, shortest first, and take them out of it."""
    cdef int64_t i, ended = 0, length, last = run.first + run.count
    cdef Sorted item
    for i in range(run.first, last):
        length = offsets[items[i].row + 1] - offsets[items[i].row]
        # Zero bytes at the end of a key stand for the end of the text as well as for themselves.
        items[i].key = <uint64_t>length if length <= run.depth else ~<uint64_t>0
        ended += length <= run.depth
    if ended == 0:
        return
    # Equal keys keep their order, so that longer texts stay in the order of their rows.
    if run.count < 40:
        sort_few(items + run.first, run.count)
    else:
        merge_ended(items + run.first, run.count)
    run.first += ended
    run.count -= ended


cdef void merge_ended(Sorted* items, int64_t count) noexcept nogil:
    cdef Sorted* spare = <Sorted*>malloc(count * sizeof(Sorted))
    if spare is NULL:
        sort_few(items, count)
        return
    sort_many(items, spare, count)
    free(spare)


cdef inline int compare_texts(const uint8_t* text, int64_t size, const uint8_t* other, int64_t length) noexcept nogil:
    cdef int64_t shared = size if size < length else length
    cdef int order = memcmp(text, other, shared) if shared else 0
    if order:
        return order
    return -1 if size < length else (1 if size > length else 0)


def text_place(
    const int64_t[::1] offsets not None, const uint8_t[::1] data not None, bytes wanted not None, int behind
):
    """Where a text goes among sorted ones: before those equal to it (0), behind them (1), behind all it starts (2)."""
    cdef int64_t low = 0, high = offsets.shape[0] - 1, middle, size
    cdef const uint8_t* needle = <const uint8_t*>PyBytes_AS_STRING(wanted)
    cdef int64_t length = PyBytes_GET_SIZE(wanted)
    cdef const uint8_t* place
    cdef int order
    while low < high:
        middle = (low + high) >> 1
        place = &data[0] + offsets[middle] if data.shape[0] else NULL
        size = offsets[middle + 1] - offsets[middle]
        if behind == 2 and size > length:
            size = length
        order = compare_texts(place, size, needle, length)
        if order < 0 or (behind and order == 0):
            low = middle + 1
        else:
            high = middle
    return low


cdef inline int64_t space_size(const uint8_t* data, int64_t at, int64_t end) noexcept nogil:
    """How many bytes of UTF-8 at this place are white space: 0 if there is none."""
    cdef uint8_t byte = data[at]
    if byte < 0x80:
        return byte == 32 or 9 <= byte <= 13 or 28 <= byte <= 31
    if byte == 0xC2 and at + 1 < end and (data[at + 1] == 0x85 or data[at + 1] == 0xA0):
        return 2
    if at + 2 >= end:
        return 0
    if byte == 0xE1 and data[at + 1] == 0x9A and data[at + 2] == 0x80:
        return 3
    if byte == 0xE2 and data[at + 1] == 0x80 and (
        0x80 <= data[at + 2] <= 0x8A or data[at + 2] == 0xA8 or data[at + 2] == 0xA9 or data[at + 2] == 0xAF
    ):
        return 3
    if byte == 0xE2 and data[at + 1] == 0x81 and data[at + 2] == 0x9F:
        return 3
    return 3 if byte == 0xE3 and data[at + 1] == 0x80 and data[at + 2] == 0x80 else 0


def split_texts(const int64_t[::1] offsets not None, const uint8_t[::1] data not None):
    """The words of texts in UTF-8, as `str.split` has them: the row of each, where it starts and where it ends."""
    cdef int64_t count = offsets.shape[0] - 1, row, at, end, start, found = 0, size, room
    cdef const uint8_t* bytes_in = &data[0] if data.shape[0] else NULL
    cdef int again
    cdef int64_t[::1] rows_out
    cdef int64_t[::1] starts_out
    cdef int64_t[::1] ends_out
    rows = starts = ends = NO_VALUES
    # Once to count, once to write.
    for again in range(2):
        if again:
            rows = np.empty(found, np.int64)
            starts = np.empty(found, np.int64)
            ends = np.empty(found, np.int64)
            rows_out = rows
            starts_out = starts
            ends_out = ends
        found = 0
        with nogil:
            for row in range(count):
                at = offsets[row]
                end = offsets[row + 1]
                start = -1
                while at < end:
                    size = space_size(bytes_in, at, end)
                    if size:
                        if start >= 0:
                            if again:
                                rows_out[found] = row
                                starts_out[found] = start
                                ends_out[found] = at
                            found += 1
                            start = -1
                        at += size
                    else:
                        if start < 0:
                            start = at
                        at += 1
                if start >= 0:
                    if again:
                        rows_out[found] = row
                        starts_out[found] = start
                        ends_out[found] = end
                    found += 1
    return rows, starts, ends

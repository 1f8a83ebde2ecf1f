"""The map from serialized records to ordinals. See the plain twin for what each method does.

Records lie back to back in an arena, each behind its length (4 bytes); `starts` has the place of each ordinal's record, 0
for none. The hash table is open addressing over 8-byte entries: 32 bits of the record's hash, 32 bits of its ordinal
plus one. An entry is found by the low bits of the stored hash, so that the table grows without looking at records.
Entries of equal records, which only `put` makes, keep the order in which they came. Arrays are replaced when they grow,
never moved under a view that a caller holds.
"""

cimport cython
import numpy as np
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from deltaic.kernels._hashing cimport murmur3_32

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    #if defined(_MSC_VER)
    #include <intrin.h>
    #define deltaic_prefetch(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
    #else
    #define deltaic_prefetch(p) __builtin_prefetch(p)
    #endif

    static inline uint64_t deltaic_load8(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
    static inline uint64_t deltaic_load4(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }

    static inline uint64_t deltaic_fold(uint64_t a, uint64_t b) {
    #if defined(__SIZEOF_INT128__)
        __uint128_t product = (__uint128_t)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    #else
        uint64_t low = (a & 0xffffffffu) * (b & 0xffffffffu), high = (a >> 32) * (b >> 32);
        uint64_t cross = (a >> 32) * (b & 0xffffffffu) + (a & 0xffffffffu) * (b >> 32);
        return (low + (cross << 32)) ^ (high + (cross >> 32));
    #endif
    }

    static inline uint32_t deltaic_record_hash(const uint8_t *p, int64_t n) {
        const uint64_t k1 = 0x9E3779B97F4A7C15ull, k2 = 0xD6E8FEB86659FD93ull;
        uint64_t seed = k2 ^ (uint64_t)n, a = 0, b = 0, h;
        if (n > 16) {
            while (n > 16) {
                seed = deltaic_fold(deltaic_load8(p) ^ k1, deltaic_load8(p + 8) ^ seed);
                p += 16;
                n -= 16;
            }
            a = deltaic_load8(p + n - 16);
            b = deltaic_load8(p + n - 8);
        } else if (n >= 8) {
            a = deltaic_load8(p);
            b = deltaic_load8(p + n - 8);
        } else if (n >= 4) {
            a = deltaic_load4(p);
            b = deltaic_load4(p + n - 4);
        } else if (n > 0) {
            a = ((uint64_t)p[0] << 16) | ((uint64_t)p[n >> 1] << 8) | p[n - 1];
        }
        h = deltaic_fold(a ^ k1, b ^ seed);
        h = deltaic_fold(h ^ k2, k1);
        return (uint32_t)(h ^ (h >> 32));
    }

    static inline int deltaic_same(const uint8_t *a, const uint8_t *b, int64_t n) {
        int64_t i;
        if (n >= 8) {
            for (i = 0; i + 8 < n; i += 8)
                if (deltaic_load8(a + i) != deltaic_load8(b + i)) return 0;
            return deltaic_load8(a + n - 8) == deltaic_load8(b + n - 8);
        }
        if (n >= 4)
            return deltaic_load4(a) == deltaic_load4(b) && deltaic_load4(a + n - 4) == deltaic_load4(b + n - 4);
        for (i = 0; i < n; i++)
            if (a[i] != b[i]) return 0;
        return 1;
    }
    """
    void deltaic_prefetch(const void*) noexcept nogil
    uint32_t deltaic_record_hash(const uint8_t*, int64_t) noexcept nogil
    bint deltaic_same(const uint8_t*, const uint8_t*, int64_t) noexcept nogil

LAST_LOCAL_ORDINAL = 2**29 - 1
MAX_ARENA_BYTES = 2**35

cdef enum:
    BLOCK = 32
    CHUNK = 1 << 14
    SLACK = 16
    FIRST_TABLE = 64
    OK = 0
    NO_ORDINAL = 1
    NO_BYTES = 2

cdef int64_t last_local = LAST_LOCAL_ORDINAL
cdef int64_t max_bytes = MAX_ARENA_BYTES


cdef class OrdinalMap:
    cdef object _arena, _starts, _table, _held, _populated, _unused
    cdef uint8_t* arena_at
    cdef int64_t arena_used, arena_size, dead
    cdef int64_t* starts_at
    cdef int64_t capacity
    cdef uint64_t* held_at
    cdef uint64_t* populated_at
    cdef uint64_t* unused_at
    cdef uint64_t* table_at
    cdef uint64_t mask
    cdef int64_t count, top
    cdef int partitions
    cdef list _pools
    cdef int32_t* pool_at[4]
    cdef int64_t pool_next[4]
    cdef int64_t pool_size[4]
    cdef int64_t local_next[4]
    cdef bint busy

    def __init__(self, int partitions=1):
        cdef int i
        self.partitions = partitions
        self.top = -1
        for i in range(4):
            self.local_next[i] = 0
            self.pool_next[i] = self.pool_size[i] = 0
        self._pools = [np.zeros(0, np.int32)] * partitions
        self._set_arena(np.empty(256, np.uint8))
        self._set_slots(64)
        self._set_table(np.zeros(FIRST_TABLE, np.uint64))

    def __len__(self):
        return self.count

    @property
    def max_ordinal(self):
        return self.top

    @property
    def nbytes(self):
        return self.arena_used - self.dead - 4 * self.count

    @property
    def arena(self):
        return self._arena

    @property
    def starts(self):
        return self._starts[: self.top + 1]

    @property
    def held(self):
        return _trimmed(self._held)

    @property
    def populated(self):
        return _trimmed(self._populated)

    @populated.setter
    def populated(self, words):
        self._need_slots(64 * len(words))
        self._populated[len(words):] = 0
        self._populated[: len(words)] = words

    @property
    def unclaimed(self):
        return _trimmed(self._unused)

    def reserve(self, words):
        self._need_slots(64 * len(words))
        self._unused[len(words):] = 0
        self._unused[: len(words)] = words

    @property
    def free(self):
        return [np.array(pool[self.pool_next[i]:], np.int32) for i, pool in enumerate(self._pools)]

    @property
    def next_local(self):
        return [self.local_next[i] for i in range(self.partitions)]

    def set_free(self, pools, next_local):
        cdef int32_t[::1] view
        cdef int i
        kept = []
        for i in range(self.partitions):
            pool = np.array(pools[i], np.int32)
            kept.append(pool)
            self.pool_next[i] = 0
            self.pool_size[i] = len(pool)
            self.local_next[i] = next_local[i]
            if len(pool):
                view = pool
                self.pool_at[i] = &view[0]
                self._need_slots(int(pool.max()) + 1)
        self._pools = kept

    def record(self, int64_t ordinal):
        cdef int64_t start = self._starts[ordinal]
        if start == 0:
            raise KeyError(ordinal)
        cdef uint32_t length
        memcpy(&length, self.arena_at + start - 4, 4)
        return bytes(self._arena[start : start + length])

    def assign(
        self,
        const uint8_t[::1] data,
        const int64_t[::1] ends,
        const int64_t[::1] order=None,
        const int32_t[::1] preferred=None,
    ):
        cdef int64_t rows = ends.shape[0] if order is None else order.shape[0]
        cdef int64_t start, stop, n = ends.shape[0]
        out = np.empty(n, np.int32) if order is None else np.full(n, -1, np.int32)
        if rows == 0:
            return out
        cdef int32_t[::1] result = out
        cdef const uint8_t* bytes_at = &data[0] if data.shape[0] else NULL
        cdef const int64_t* order_at = NULL if order is None else &order[0]
        cdef const int32_t* preferred_at = NULL if preferred is None else &preferred[0]
        cdef int failed = OK
        self._enter()
        try:
            start = 0
            while start < rows and failed == OK:
                stop = min(start + CHUNK, rows)
                self._room(_length_of(&ends[0], order_at, start, stop), stop - start)
                with nogil:
                    failed = self._run(bytes_at, &ends[0], order_at, preferred_at, &result[0], start, stop)
                start = stop
        finally:
            self.busy = False
        if failed != OK:
            raise OverflowError("ordinals" if failed == NO_ORDINAL else "bytes")
        return out

    def add(self, bytes record, int32_t preferred=-1):
        cdef int64_t end = PyBytes_GET_SIZE(record)
        cdef int32_t ordinal = -1
        cdef int failed
        self._enter()
        try:
            self._room(end, 1)
            failed = self._run(
                <const uint8_t*>PyBytes_AS_STRING(record), &end, NULL, &preferred, &ordinal, 0, 1
            )
        finally:
            self.busy = False
        if failed != OK:
            raise OverflowError("ordinals" if failed == NO_ORDINAL else "bytes")
        return ordinal

    def find(self, const uint8_t[::1] data, const int64_t[::1] ends):
        cdef int64_t n = ends.shape[0]
        out = np.empty(n, np.int32)
        if n == 0:
            return out
        cdef int32_t[::1] result = out
        cdef const uint8_t* bytes_at = &data[0] if data.shape[0] else NULL
        self._enter()
        try:
            with nogil:
                self._look(bytes_at, &ends[0], &result[0], n)
        finally:
            self.busy = False
        return out

    def put(self, const uint8_t[::1] data, const int64_t[::1] ends, const int32_t[::1] ordinals):
        cdef int64_t i, begin = 0, n = ends.shape[0]
        cdef int failed = OK
        cdef uint32_t h
        if n == 0:
            return
        cdef const uint8_t* bytes_at = &data[0] if data.shape[0] else NULL
        self._enter()
        try:
            self._room(ends[n - 1], n)
            self._need_slots(int(np.asarray(ordinals).max()) + 1)
            with nogil:
                for i in range(n):
                    h = deltaic_record_hash(bytes_at + begin, ends[i] - begin)
                    failed = self._insert(bytes_at + begin, ends[i] - begin, h, self._empty_slot(h), ordinals[i])
                    if failed != OK:
                        break
                    begin = ends[i]
        finally:
            self.busy = False
        if failed != OK:
            raise OverflowError("bytes")

    def unmark(self, const int64_t[::1] ordinals):
        cdef int64_t i
        for i in range(ordinals.shape[0]):
            if ordinals[i] < self.capacity:
                self.populated_at[ordinals[i] >> 6] &= ~(<uint64_t>1 << (ordinals[i] & 63))

    def retain(self, live):
        cdef int64_t words = self.capacity >> 6
        padded = np.zeros(words, np.uint64)
        used = min(words, len(live))
        padded[:used] = live[:used]
        gone = self._held & ~padded
        cdef int64_t leaving = int(np.bitwise_count(gone).sum())
        cdef const uint64_t[::1] bits = gone
        self._enter()
        try:
            if leaving == 0:
                return
            if leaving * 8 > self.count:
                with nogil:
                    self._drop(&bits[0], words, False)
                size = FIRST_TABLE
                while self.count * 5 > size * 3:
                    size *= 2
                # Not much smaller than it was: the next cycle will bring about as many records.
                self._rebuild(max(size, (self.mask + 1) // 2))
            else:
                with nogil:
                    self._drop(&bits[0], words, True)
            with nogil:
                while self.top >= 0 and self.starts_at[self.top] == 0:
                    self.top -= 1
            if self.dead > (1 << 20) and self.dead * 2 > self.arena_used:
                self._compact()
        finally:
            self.busy = False

    cdef int _enter(self) except -1:
        if self.busy:
            raise RuntimeError("an ordinal map is used by two threads at once")
        self.busy = True
        return 0

    cdef int _set_arena(self, array) except -1:
        cdef uint8_t[::1] view = array
        self._arena = array
        self.arena_at = &view[0]
        self.arena_size = view.shape[0]
        return 0

    cdef int _set_table(self, array) except -1:
        cdef uint64_t[::1] view = array
        self._table = array
        self.table_at = &view[0]
        self.mask = view.shape[0] - 1
        return 0

    cdef int _set_slots(self, int64_t capacity) except -1:
        """Make room for ordinals below `capacity`, a multiple of 64."""
        cdef int64_t[::1] starts
        cdef uint64_t[::1] words
        cdef int64_t before = self.capacity
        # Zeroed memory is not touched before it is used, so that room for many costs nothing.
        grown = np.zeros(capacity, np.int64)
        if before:
            grown[:before] = self._starts
        self._starts = grown
        starts = grown
        self.starts_at = &starts[0]
        bits = []
        for old in (self._held, self._populated, self._unused):
            grown = np.zeros(capacity >> 6, np.uint64)
            if before:
                grown[: before >> 6] = old
            bits.append(grown)
        self._held, self._populated, self._unused = bits
        words = self._held
        self.held_at = &words[0]
        words = self._populated
        self.populated_at = &words[0]
        words = self._unused
        self.unused_at = &words[0]
        self.capacity = capacity
        return 0

    cdef int _need_slots(self, int64_t ordinals) except -1:
        if ordinals > self.capacity:
            self._set_slots((max(ordinals, self.capacity * 2) + 63) & ~<int64_t>63)
        return 0

    cdef int _room(self, int64_t size, int64_t rows) except -1:
        """Make room for so many new records of so many bytes in all."""
        cdef int64_t needed = self.arena_used + size + 4 * rows + SLACK
        cdef int64_t ordinals = 0
        cdef int64_t table = self.mask + 1
        cdef int i
        if needed > self.arena_size:
            grown = np.empty(max(needed, self.arena_size * 2), np.uint8)
            grown[: self.arena_used] = self._arena[: self.arena_used]
            self._set_arena(grown)
        for i in range(self.partitions):
            if self.local_next[i] <= last_local:
                ordinals = max(ordinals, min(self.local_next[i] + rows, last_local + 1) * self.partitions)
        self._need_slots(ordinals)
        while (self.count + rows) * 5 > table * 3:
            table *= 2
        if table != <int64_t>self.mask + 1:
            self._rebuild(table)
        return 0

    cdef int _rebuild(self, int64_t size) except -1:
        """Move the entries whose record is still there to a table of another size."""
        grown = np.zeros(size, np.uint64)
        cdef uint64_t[::1] view = grown
        cdef uint64_t* target = &view[0]
        cdef uint64_t old_mask = self.mask, mask = size - 1, entry, place
        cdef uint64_t i, first = 0
        cdef uint64_t* source = self.table_at
        with nogil:
            # From behind an empty slot on, entries of one hash are met in the order in which they came.
            while source[first] != 0:
                first += 1
            for i in range(1, old_mask + 2):
                entry = source[(first + i) & old_mask]
                if entry == 0 or self.starts_at[_ordinal_of(entry)] == 0:
                    continue
                place = (entry >> 32) & mask
                while target[place] != 0:
                    place = (place + 1) & mask
                target[place] = entry
        self._set_table(grown)
        return 0

    cdef int _compact(self) except -1:
        grown = np.empty(self.arena_used - self.dead + (self.arena_used >> 2) + SLACK, np.uint8)
        cdef uint8_t[::1] view = grown
        cdef uint8_t* target = &view[0]
        cdef int64_t ordinal, start, used = 0
        cdef uint32_t length
        with nogil:
            for ordinal in range(self.top + 1):
                start = self.starts_at[ordinal]
                if start == 0:
                    continue
                memcpy(&length, self.arena_at + start - 4, 4)
                memcpy(target + used, self.arena_at + start - 4, length + 4)
                self.starts_at[ordinal] = used + 4
                used += length + 4
        self._set_arena(grown)
        self.arena_used = used
        self.dead = 0
        return 0

    cdef int _run(
        self,
        const uint8_t* data,
        const int64_t* ends,
        const int64_t* order,
        const int32_t* preferred,
        int32_t* out,
        int64_t start,
        int64_t stop,
    ) noexcept nogil:
        cdef uint32_t hashes[BLOCK]
        cdef int64_t begins[BLOCK]
        cdef int64_t lengths[BLOCK]
        cdef int64_t rows[BLOCK]
        cdef int64_t likely[BLOCK]
        cdef int64_t base, row, ordinal
        cdef uint64_t entry, place
        cdef int i, m, failed
        base = start
        while base < stop:
            m = <int>min(stop - base, <int64_t>BLOCK)
            # Three passes that only bring memory near, then the pass that does the work.
            for i in range(m):
                row = base + i if order == NULL else order[base + i]
                rows[i] = row
                begins[i] = ends[row - 1] if row else 0
                lengths[i] = ends[row] - begins[i]
                hashes[i] = deltaic_record_hash(data + begins[i], lengths[i])
                deltaic_prefetch(self.table_at + (hashes[i] & self.mask))
            if m > 4:
                for i in range(m):
                    entry = self.table_at[hashes[i] & self.mask]
                    likely[i] = -1
                    if entry != 0 and <uint32_t>(entry >> 32) == hashes[i]:
                        likely[i] = _ordinal_of(entry)
                        deltaic_prefetch(self.starts_at + likely[i])
                for i in range(m):
                    if likely[i] >= 0:
                        deltaic_prefetch(self.arena_at + self.starts_at[likely[i]] - 4)
            for i in range(m):
                place = hashes[i] & self.mask
                ordinal = self._search(data + begins[i], lengths[i], hashes[i], &place)
                if ordinal < 0:
                    ordinal = self._take(data + begins[i], lengths[i], -1 if preferred == NULL else preferred[rows[i]])
                    if ordinal < 0:
                        return NO_ORDINAL
                    failed = self._insert(data + begins[i], lengths[i], hashes[i], place, ordinal)
                    if failed != OK:
                        return failed
                self.populated_at[ordinal >> 6] |= <uint64_t>1 << (ordinal & 63)
                out[rows[i]] = <int32_t>ordinal
            base += m
        return OK

    cdef void _look(self, const uint8_t* data, const int64_t* ends, int32_t* out, int64_t n) noexcept nogil:
        cdef uint32_t hashes[BLOCK]
        cdef int64_t likely[BLOCK]
        cdef int64_t base = 0, begin
        cdef uint64_t entry, place
        cdef int i, m
        while base < n:
            m = <int>min(n - base, <int64_t>BLOCK)
            for i in range(m):
                begin = ends[base + i - 1] if base + i else 0
                hashes[i] = deltaic_record_hash(data + begin, ends[base + i] - begin)
                deltaic_prefetch(self.table_at + (hashes[i] & self.mask))
            for i in range(m):
                entry = self.table_at[hashes[i] & self.mask]
                likely[i] = -1
                if entry != 0 and <uint32_t>(entry >> 32) == hashes[i]:
                    likely[i] = _ordinal_of(entry)
                    deltaic_prefetch(self.starts_at + likely[i])
            for i in range(m):
                if likely[i] >= 0:
                    deltaic_prefetch(self.arena_at + self.starts_at[likely[i]] - 4)
            for i in range(m):
                begin = ends[base + i - 1] if base + i else 0
                place = hashes[i] & self.mask
                out[base + i] = <int32_t>self._search(data + begin, ends[base + i] - begin, hashes[i], &place)
            base += m

    cdef int64_t _search(self, const uint8_t* record, int64_t length, uint32_t h, uint64_t* place) noexcept nogil:
        """The ordinal of a record or -1; `place` is then the free slot where it belongs."""
        cdef uint64_t at = place[0], entry
        cdef int64_t ordinal, start
        cdef uint32_t stored
        while True:
            entry = self.table_at[at]
            if entry == 0:
                place[0] = at
                return -1
            if <uint32_t>(entry >> 32) == h:
                ordinal = _ordinal_of(entry)
                start = self.starts_at[ordinal]
                memcpy(&stored, self.arena_at + start - 4, 4)
                if stored == length and deltaic_same(record, self.arena_at + start, length):
                    return ordinal
            at = (at + 1) & self.mask

    cdef uint64_t _empty_slot(self, uint32_t h) noexcept nogil:
        cdef uint64_t at = h & self.mask
        while self.table_at[at] != 0:
            at = (at + 1) & self.mask
        return at

    cdef int64_t _take(self, const uint8_t* record, int64_t length, int32_t preferred) noexcept nogil:
        cdef int partition = 0
        cdef int64_t ordinal
        cdef uint64_t bit
        if preferred >= 0:
            bit = <uint64_t>1 << (preferred & 63)
            if self.unused_at[preferred >> 6] & bit:
                self.unused_at[preferred >> 6] &= ~bit
                return preferred
        if self.partitions == 4:
            partition = murmur3_32(record, length) & 3
        if self.pool_next[partition] < self.pool_size[partition]:
            ordinal = self.pool_at[partition][self.pool_next[partition]]
            self.pool_next[partition] += 1
            return ordinal
        if self.local_next[partition] > last_local:
            return -1
        ordinal = self.local_next[partition] * self.partitions + partition
        self.local_next[partition] += 1
        return ordinal

    cdef int _insert(
        self, const uint8_t* record, int64_t length, uint32_t h, uint64_t place, int64_t ordinal
    ) noexcept nogil:
        cdef uint32_t stored = <uint32_t>length
        cdef int64_t start = self.arena_used + 4
        if self.arena_used - self.dead + length > max_bytes * self.partitions or length > <int64_t>0xFFFFFFFF:
            return NO_BYTES
        memcpy(self.arena_at + start - 4, &stored, 4)
        memcpy(self.arena_at + start, record, length)
        self.arena_used = start + length
        self.starts_at[ordinal] = start
        self.held_at[ordinal >> 6] |= <uint64_t>1 << (ordinal & 63)
        self.table_at[place] = (<uint64_t>h << 32) | <uint64_t>(ordinal + 1)
        self.count += 1
        if ordinal > self.top:
            self.top = ordinal
        return OK

    cdef void _drop(self, const uint64_t* gone, int64_t words, bint unlink) noexcept nogil:
        cdef int64_t w, ordinal, start
        cdef uint64_t bits
        cdef uint32_t length
        for w in range(words):
            bits = gone[w]
            self.held_at[w] &= ~bits
            while bits:
                ordinal = 64 * w + _lowest(bits)
                bits &= bits - 1
                start = self.starts_at[ordinal]
                memcpy(&length, self.arena_at + start - 4, 4)
                if unlink:
                    self._unlink(deltaic_record_hash(self.arena_at + start, length), ordinal)
                self.starts_at[ordinal] = 0
                self.dead += length + 4
                self.count -= 1

    cdef void _unlink(self, uint32_t h, int64_t ordinal) noexcept nogil:
        """Take an entry out of the table and close the gap, so that no search stops early."""
        cdef uint64_t at = h & self.mask, probe, home
        cdef uint64_t wanted = (<uint64_t>h << 32) | <uint64_t>(ordinal + 1)
        while self.table_at[at] != wanted:
            at = (at + 1) & self.mask
        probe = at
        while True:
            probe = (probe + 1) & self.mask
            if self.table_at[probe] == 0:
                break
            home = (self.table_at[probe] >> 32) & self.mask
            # An entry may fill the gap unless its home lies between the gap and where it is.
            if ((probe - home) & self.mask) >= ((probe - at) & self.mask):
                self.table_at[at] = self.table_at[probe]
                at = probe
        self.table_at[at] = 0


cdef inline int64_t _ordinal_of(uint64_t entry) noexcept nogil:
    return <int64_t><uint32_t>entry - 1


cdef inline int64_t _lowest(uint64_t bits) noexcept nogil:
    cdef int64_t n = 0
    while not bits & 1:
        bits >>= 1
        n += 1
    return n


cdef int64_t _length_of(const int64_t* ends, const int64_t* order, int64_t start, int64_t stop) noexcept nogil:
    cdef int64_t i, row, total = 0
    if order == NULL:
        return ends[stop - 1] - (ends[start - 1] if start else 0)
    for i in range(start, stop):
        row = order[i]
        total += ends[row] - (ends[row - 1] if row else 0)
    return total


def _trimmed(words):
    used = np.flatnonzero(words)
    return words[: int(used.max()) + 1 if len(used) else 0].copy()

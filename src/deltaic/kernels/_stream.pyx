"""Arrow C streams whose batches are made when they are asked for.

The C struct of Arrow's stream interface, with callbacks into Python: a large table crosses batch by batch.
"""

from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EINVAL
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cdef extern from "Python.h":
    void PyErr_Fetch(PyObject** kind, PyObject** value, PyObject** trace)
    void PyErr_Restore(PyObject* kind, PyObject* value, PyObject* trace)

cdef extern from *:
    """
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    #include <stdint.h>
    struct ArrowSchema {
        const char* format; const char* name; const char* metadata; int64_t flags; int64_t n_children;
        struct ArrowSchema** children; struct ArrowSchema* dictionary;
        void (*release)(struct ArrowSchema*); void* private_data;
    };
    struct ArrowArray {
        int64_t length; int64_t null_count; int64_t offset; int64_t n_buffers; int64_t n_children;
        const void** buffers; struct ArrowArray** children; struct ArrowArray* dictionary;
        void (*release)(struct ArrowArray*); void* private_data;
    };
    #endif
    #ifndef ARROW_C_STREAM_INTERFACE
    #define ARROW_C_STREAM_INTERFACE
    struct ArrowArrayStream {
        int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
        int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
        const char* (*get_last_error)(struct ArrowArrayStream*);
        void (*release)(struct ArrowArrayStream*);
        void* private_data;
    };
    #endif
    """
    struct ArrowSchema:
        void (*release)(ArrowSchema*) noexcept nogil
    struct ArrowArray:
        void (*release)(ArrowArray*) noexcept nogil
    struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
        int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
        const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
        void (*release)(ArrowArrayStream*) noexcept nogil
        void* private_data


cdef class _Source:
    """One stream in somebody's hands."""

    cdef object make_schema
    cdef object arrays
    cdef bytes message

    cdef int fail(self, object error) noexcept:
        try:
            text = f"{type(error).__name__}: {error}"
            self.message = text.encode("utf-8", "replace").replace(b"\0", b" ")
        except BaseException:
            self.message = b"the batch could not be made"
        return EINVAL


cdef int get_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept with gil:
    cdef _Source source = <_Source>stream.private_data
    cdef ArrowSchema* made
    try:
        capsule = source.make_schema()
        made = <ArrowSchema*>PyCapsule_GetPointer(capsule, "arrow_schema")
        # To move a struct is to copy it and to mark the old place released.
        out[0] = made[0]
        made.release = NULL
    except BaseException as error:
        return source.fail(error)
    return 0


cdef int get_next(ArrowArrayStream* stream, ArrowArray* out) noexcept with gil:
    cdef _Source source = <_Source>stream.private_data
    cdef ArrowArray* made
    try:
        capsule = next(source.arrays, None)
        if capsule is None:
            memset(out, 0, sizeof(ArrowArray))
        else:
            made = <ArrowArray*>PyCapsule_GetPointer(capsule, "arrow_array")
            out[0] = made[0]
            made.release = NULL
    except BaseException as error:
        return source.fail(error)
    return 0


cdef const char* get_last_error(ArrowArrayStream* stream) noexcept with gil:
    cdef _Source source = <_Source>stream.private_data
    return NULL if source.message is None else <const char*>source.message


cdef void release(ArrowArrayStream* stream) noexcept with gil:
    # A taker may let go while one of its own errors is under way.
    cdef PyObject* kind
    cdef PyObject* value
    cdef PyObject* trace
    PyErr_Fetch(&kind, &value, &trace)
    Py_DECREF(<_Source>stream.private_data)
    stream.private_data = NULL
    stream.release = NULL
    PyErr_Restore(kind, value, trace)


cdef void close(object capsule) noexcept:
    cdef ArrowArrayStream* stream = <ArrowArrayStream*>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream is not NULL:
        if stream.release is not NULL:
            stream.release(stream)
        free(stream)


def make_stream(make_schema, arrays):
    """A capsule of an Arrow stream.

    `make_schema` gives a fresh `arrow_schema` capsule, the iterator `arrays` gives `arrow_array` capsules; an error in
    either ends the stream with its message.
    """
    cdef ArrowArrayStream* stream = <ArrowArrayStream*>calloc(1, sizeof(ArrowArrayStream))
    if stream is NULL:
        raise MemoryError
    cdef _Source source = _Source.__new__(_Source)
    source.make_schema = make_schema
    source.arrays = arrays
    Py_INCREF(source)
    stream.private_data = <void*>source
    stream.get_schema = get_schema
    stream.get_next = get_next
    stream.get_last_error = get_last_error
    stream.release = release
    return PyCapsule_New(stream, "arrow_array_stream", close)

# distutils: language = c++
"""Python bindings for utf8.hpp: finding and replacing invalid UTF-8."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint64_t


cdef extern from "unicode/utf8.hpp" namespace "cs336" nogil:
    cdef struct Utf8Sequence:
        size_t length
        bint valid

    cdef struct Replaced:
        uint64_t sequences, bytes, first

    Utf8Sequence utf8_sequence(const uint8_t* p, const uint8_t* end)
    Replaced invalid_utf8(const uint8_t* text, size_t size)
    uint8_t* write_valid_utf8(const uint8_t* text, size_t size, uint8_t* out)
    size_t first_invalid_utf8(const uint8_t* text, size_t size)
    size_t first_invalid_utf8_scalar(const uint8_t* text, size_t size)


def first_invalid(data, vectors=True):
    """Return the offset of the first invalid byte, or None if all bytes are valid UTF-8.

    If `vectors` is true, the vector instructions of this CPU are used.
    """
    cdef bytes text = data
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(text)
    cdef size_t size = PyBytes_GET_SIZE(text)
    cdef size_t offset
    offset = first_invalid_utf8(start, size) if vectors else first_invalid_utf8_scalar(start, size)
    return None if offset == size else offset


def is_valid_utf8(bytes data not None):
    """Compiled version of `utf8.is_valid_utf8_in_python`. Releases the GIL."""
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data)
    cdef size_t valid
    with nogil:
        valid = first_invalid_utf8(start, size)
    return valid == size


def count_invalid(bytes data not None):
    """Compiled version of `utf8.count_invalid_in_python`. Releases the GIL."""
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data)
    cdef Replaced found
    with nogil:
        found = invalid_utf8(start, size)
    return found.sequences, found.bytes, found.first if found.sequences else size


def replace_invalid(bytes data not None):
    """Compiled version of `utf8.replace_invalid_in_python`. Releases the GIL."""
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data)
    cdef Replaced found
    cdef uint8_t* out
    with nogil:
        found = invalid_utf8(start, size)
    text = PyBytes_FromStringAndSize(NULL, size - found.bytes + 3 * found.sequences)
    out = <uint8_t*>PyBytes_AS_STRING(text)
    with nogil:
        write_valid_utf8(start, size, out)
    return text


def text_and_bytes(bytes data not None):
    """Compiled version of `utf8.text_and_bytes_in_python`."""
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data)
    cdef size_t begin = 0, end_of_text, end
    cdef Utf8Sequence sequence
    while begin < size:
        end_of_text = end = begin + first_invalid_utf8(start + begin, size - begin)
        while end < size:
            sequence = utf8_sequence(start + end, start + size)
            if sequence.valid:
                break
            end += sequence.length
        yield data[begin:end_of_text], data[end_of_text:end]
        begin = end

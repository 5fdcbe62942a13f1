# distutils: language = c++
"""Compiled versions of the loops in byte_strings.py over a file's tokens and merges.

They halve the time needed to load GPT-2's vocabulary (benchmarks/NOTES.md). The tests compare them
with the Python code.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t, uint32_t


cdef extern from "Python.h":
    ctypedef uint32_t Py_UCS4
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_UCS4 PyUnicode_READ(int kind, void* data, Py_ssize_t index)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    Py_ssize_t PyUnicode_FindChar(
        object text, Py_UCS4 character, Py_ssize_t start, Py_ssize_t end, int direction
    ) except -2


cdef enum:
    NO_BYTE = 0x100  # as in byte_strings.py


def strings_to_tokens(list strings, const uint16_t[::1] byte_of_code):
    """Return the same as `byte_strings.strings_to_tokens`; strings is a list of str."""
    return [token_of(string, 0, PyUnicode_GET_LENGTH(string), byte_of_code) for string in strings]


def merges_of_strings(list pairs, const uint16_t[::1] byte_of_code):
    """Return the same as `byte_strings.merges_of_strings`, or None if a merge is invalid."""
    cdef list merges = []
    for pair in pairs:
        if type(pair) is str:
            merge = merge_of(pair, 0, PyUnicode_GET_LENGTH(pair), byte_of_code)
            if merge is None:
                return None
            merges.append(merge)
            continue
        if type(pair) is list and len(<list>pair) == 2:
            left, right = (<list>pair)[0], (<list>pair)[1]
            if type(left) is not str or type(right) is not str:
                return None
            left = token_of(left, 0, PyUnicode_GET_LENGTH(left), byte_of_code)
            right = token_of(right, 0, PyUnicode_GET_LENGTH(right), byte_of_code)
        else:
            return None
        if not left or not right:  # None, or an empty string
            return None
        merges.append((left, right))
    return merges


def merges_of_lines(str text, const uint16_t[::1] byte_of_code):
    """Return `merges_of_strings` for the lines of a text, without building a list of the lines."""
    cdef list merges = []
    cdef Py_ssize_t length = PyUnicode_GET_LENGTH(text), start = 0, stop
    while start <= length:
        stop = PyUnicode_FindChar(text, c"\n", start, length, 1)
        stop = length if stop < 0 else stop
        merge = merge_of(text, start, stop, byte_of_code)
        if merge is None:
            return None
        merges.append(merge)
        start = stop + 1
    return merges


cdef merge_of(str text, Py_ssize_t start, Py_ssize_t stop, const uint16_t[::1] byte_of_code):
    """Return the merge that these characters represent, or None if they represent none."""
    cdef Py_ssize_t space = PyUnicode_FindChar(text, c" ", start, stop, 1)
    left = token_of(text, start, space, byte_of_code)
    right = token_of(text, space + 1, stop, byte_of_code)
    return (left, right) if left and right else None


cdef token_of(str text, Py_ssize_t start, Py_ssize_t stop, const uint16_t[::1] byte_of_code):
    """Return the token that these characters represent, or None if they represent none."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    if stop <= start:
        return b"" if stop == start else None
    cdef bytes token = PyBytes_FromStringAndSize(NULL, stop - start)
    cdef uint8_t* out = <uint8_t*>PyBytes_AS_STRING(token)
    cdef size_t last = byte_of_code.shape[0] - 1
    cdef uint16_t byte
    cdef Py_ssize_t index
    for index in range(start, stop):
        byte = byte_of_code[min(<size_t>PyUnicode_READ(kind, data, index), last)]
        if byte == NO_BYTE:
            return None
        out[index - start] = <uint8_t>byte
    return token

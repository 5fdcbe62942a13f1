# distutils: language = c++
"""The lines that the hash of a tokenizer is made of.

In C++ because in Python they take 25 ms for GPT-2's vocabulary instead of 10, more than hashing them
and the rest of loading a directory's metadata (see benchmarks/NOTES.md).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t
from libcpp.string cimport string, to_string


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1


def hash_lines(list ids, list tokens, list merges):
    """Return the same as `vocab_files.hash_lines`.

    Raises:
        TypeError: a token is not bytes.
    """
    cdef string lines
    cdef const char* token_ = b"token "
    cdef const char* merge_ = b"merge "
    cdef int overflow = 0
    cdef long long number
    for token_id, token in zip(ids, tokens, strict=True):
        lines.append(token_, 6)
        number = PyLong_AsLongLongAndOverflow(token_id, &overflow)
        lines.append(<string>str(token_id).encode() if overflow else to_string(number))
        lines.push_back(b" ")
        append_hex(lines, token)
        lines.push_back(b"\n")
    for left, right in merges:
        lines.append(merge_, 6)
        append_hex(lines, left)
        lines.push_back(b" ")
        append_hex(lines, right)
        lines.push_back(b"\n")
    return <bytes>lines


cdef int append_hex(string& text, token) except -1:
    if not isinstance(token, bytes):  # (A parameter declared as bytes would refuse subclasses.)
        raise TypeError(f"{token!r} is a {type(token).__name__}, not bytes")
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(<bytes>token)
    cdef const char* digits = b"0123456789abcdef"
    cdef size_t offset = text.size(), length = PyBytes_GET_SIZE(<bytes>token), i
    text.resize(offset + 2 * length)
    for i in range(length):
        text[offset + 2 * i] = digits[start[i] >> 4]
        text[offset + 2 * i + 1] = digits[start[i] & 15]
    return 0

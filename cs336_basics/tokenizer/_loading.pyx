# distutils: language = c++
"""What loading a tokenizer does for each token and each merge, compiled.

Loading GPT-2's vocabulary takes half as long as with the same loops in Python
(benchmarks/NOTES.md). The functions that read return None for whatever is not as it should be: the
code in Python finds out what it is, and says so.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libcpp.string cimport string, to_string

import numpy as np


cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1
    ctypedef uint32_t Py_UCS4
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_UCS4 PyUnicode_READ(int kind, void* data, Py_ssize_t index)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    PyObject* PyDict_GetItemWithError(object mapping, object key) except? NULL


cdef enum:
    NO_BYTE = 0x100  # as in byte_strings.py


# --------------------------------------------------------------------- reading


def vocab_of_strings(dict strings, const uint16_t[::1] byte_of_code, long long max_id):
    """Return id -> token for string -> id, the content of vocab.json.

    Args:
        strings: string -> id.
        byte_of_code: code point -> byte, NO_BYTE for one that represents none; the last for all
            others.
        max_id: the greatest id that is allowed.

    Returns:
        The vocabulary; None if a string does not represent bytes, or an id is not an int, is not
        between 0 and `max_id`, or occurs twice.
    """
    cdef PyObject* key
    cdef PyObject* value
    cdef Py_ssize_t position = 0
    cdef int overflow = 0
    cdef long long number
    cdef dict vocab = {}
    while PyDict_Next(strings, &position, &key, &value):
        string_, token_id = <object>key, <object>value
        if type(token_id) is not int:
            return None
        number = PyLong_AsLongLongAndOverflow(token_id, &overflow)
        if overflow or not 0 <= number <= max_id:
            return None
        token = token_of(string_, 0, PyUnicode_GET_LENGTH(string_), byte_of_code)
        if token is None:
            return None
        vocab[token_id] = token
    return vocab if len(vocab) == len(strings) else None


def merges_of_text(str text, const uint16_t[::1] byte_of_code):
    """Return the merges in the content of merges.txt, pairs of tokens; None if a line is not one.

    Args:
        text: the content.
        byte_of_code: as for `vocab_of_strings`.
    """
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
    cdef Py_ssize_t length = PyUnicode_GET_LENGTH(text), start = 0, end, stop, space
    cdef bint ended = False  # only empty lines may follow
    cdef list merges = []
    if text.startswith("#version:"):
        while start < length and PyUnicode_READ(kind, data, start) != c"\n":
            start += 1
        start += 1
    while start < length:
        space = -1
        end = start
        while end < length and PyUnicode_READ(kind, data, end) != c"\n":
            if space < 0 and PyUnicode_READ(kind, data, end) == c" ":
                space = end
            end += 1
        stop = end
        if stop > start and PyUnicode_READ(kind, data, stop - 1) == c"\r":
            stop -= 1
        if stop == start:
            ended = True
        else:
            if ended or space <= start or space + 1 >= stop:
                return None
            left = token_of(text, start, space, byte_of_code)
            right = token_of(text, space + 1, stop, byte_of_code)
            if left is None or right is None:  # a second space represents no byte either
                return None
            merges.append((left, right))
        start = end + 1
    return merges


cdef token_of(str text, Py_ssize_t start, Py_ssize_t stop, const uint16_t[::1] byte_of_code):
    """Return the token that these characters represent, or None."""
    cdef int kind = PyUnicode_KIND(text)
    cdef void* data = PyUnicode_DATA(text)
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


# --------------------------------------------------------------------- checking


def index_merges(list merges, dict token_ids):
    """Return the same as `vocabulary.index_merges`."""
    ids = np.empty((len(merges), 3), np.uint32)
    cdef uint32_t[:, ::1] rows = ids
    cdef Py_ssize_t rank = 0
    for merge in merges:
        if type(merge) is tuple and len(<tuple>merge) == 2:
            left, right = (<tuple>merge)[0], (<tuple>merge)[1]
        elif type(merge) is list and len(<list>merge) == 2:
            left, right = (<list>merge)[0], (<list>merge)[1]
        else:
            return None
        if type(left) is not bytes or type(right) is not bytes:
            return None
        if not (
            find_id(token_ids, left, &rows[rank, 0])
            and find_id(token_ids, right, &rows[rank, 1])
            and find_id(token_ids, left + right, &rows[rank, 2])
        ):
            return None
        rank += 1
    return ids


cdef bint find_id(dict token_ids, token, uint32_t* token_id) except -1:
    cdef PyObject* found = PyDict_GetItemWithError(token_ids, token)
    if found is NULL:
        return False
    token_id[0] = <uint32_t>(<object>found)
    return True


# --------------------------------------------------------------------- the hash


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
        raise TypeError(f"{token!r} is of type {type(token).__name__}, not bytes")
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(<bytes>token)
    cdef const char* digits = b"0123456789abcdef"
    cdef size_t offset = text.size(), length = PyBytes_GET_SIZE(<bytes>token), i
    text.resize(offset + 2 * length)
    for i in range(length):
        text[offset + 2 * i] = digits[start[i] >> 4]
        text[offset + 2 * i + 1] = digits[start[i] & 15]
    return 0

"""Failures of C++ threads, and the exceptions that they become in Python."""

from libc.stdint cimport uint64_t
from libcpp.string cimport string


cdef extern from "base/failure.hpp" namespace "cs336" nogil:
    cdef cppclass Failure:
        int kind
        size_t file
        uint64_t offset
        uint64_t expected
        int code
        string message

    int NONE "cs336::Failure::NONE"
    int SYSTEM "cs336::Failure::SYSTEM"
    int SHORTER "cs336::Failure::SHORTER"
    int NOT_UTF8 "cs336::Failure::NOT_UTF8"
    int MEMORY "cs336::Failure::MEMORY"
    int ABSENT_BYTE "cs336::Failure::ABSENT_BYTE"
    int LONE_SURROGATE "cs336::Failure::LONE_SURROGATE"
    int TOO_LONG "cs336::Failure::TOO_LONG"


cdef inline int raise_reading_failure(const Failure& failure, path) except -1:
    """Raise the exception for a failure to read the file `path`; do nothing for other failures."""
    import os

    from cs336_basics.pretokenization.reading.storage import piece_too_long
    from cs336_basics.pretokenization.reading.utf8_errors import invalid_utf8_error

    if failure.kind == NOT_UTF8:
        raise invalid_utf8_error(path, failure.code, failure.offset)
    if failure.kind == SYSTEM:
        where = f" at byte {failure.offset:,}" if failure.offset else ""
        raise OSError(failure.code, os.strerror(failure.code) + where, path)
    if failure.kind == TOO_LONG:
        where = f"{path}, the text from byte {failure.offset:,} on"
        raise piece_too_long(where, failure.expected)
    if failure.kind == SHORTER:
        raise ValueError(
            f"{path} ended at byte {failure.offset:,} where bytes up to {failure.expected:,} "
            "were expected: the file became shorter while it was read"
        )
    return 0

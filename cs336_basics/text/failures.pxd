"""Failures in C++ threads, converted to Python exceptions."""

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
    int LONE_SURROGATE "cs336::Failure::LONE_SURROGATE"
    int TOO_LONG "cs336::Failure::TOO_LONG"


cdef inline int raise_failure(const Failure& failure, paths, data) except -1:
    """Raise the exception for a failure, if there was one.

    Args:
        failure: The failure. If it concerns a file, its `file` is an index into `paths`.
        paths: Names of the files that the threads read.
        data: Name of the data that did not fit in memory, such as "ids".
    """
    if failure.kind == NONE:
        return 0
    import os

    from cs336_basics._support.errors import RunError
    from cs336_basics.text.storage import (
        became_shorter, invalid_utf8_error, piece_too_long,
    )

    path = paths[failure.file] if failure.file < <size_t>len(paths) else None
    if failure.kind == MEMORY:
        raise MemoryError(f"not enough memory for the {data}")
    if failure.kind == SYSTEM and path is None:
        raise RunError(f"no thread could be started: {os.strerror(failure.code)}")
    if failure.kind == SYSTEM:
        where = f" at byte {failure.offset:,}" if failure.offset else ""
        raise OSError(failure.code, os.strerror(failure.code) + where, path)
    if failure.kind == NOT_UTF8:
        raise invalid_utf8_error(path, failure.code, failure.offset)
    if failure.kind == TOO_LONG:
        where = f"{path}, the text at byte {failure.offset:,}"
        raise piece_too_long(where, failure.expected)
    if failure.kind == SHORTER:
        raise became_shorter(path, failure.offset, failure.expected)
    raise RuntimeError(failure.message.decode("utf-8", "replace"))

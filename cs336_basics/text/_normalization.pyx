# distutils: language = c++
"""Python binding of normal_characters.hpp: a quick check for normalized text."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.utility cimport move
from libcpp.vector cimport vector


cdef extern from "unicode/normal_characters.hpp" namespace "cs336" nogil:
    cdef cppclass CppNormalCharacters "cs336::NormalCharacters":
        CppNormalCharacters()
        CppNormalCharacters(vector[uint64_t] blocks) except +
        cbool contain_all[Unit](const Unit* text, size_t size)
        cbool contain_all_utf8(const uint8_t* text, size_t size)
        vector[CppRun] runs(const uint8_t* text, size_t size) except +

    cdef struct CppRun "cs336::NormalCharacters::Run":
        size_t start, end


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)


cdef class NormalCharacters:
    """A set of characters, given as one 64-bit number for each 64 code points."""

    cdef CppNormalCharacters characters

    def __init__(self, const uint64_t[::1] blocks not None):
        assert blocks.shape[0] == 0x110000 // 64
        cdef vector[uint64_t] copied
        copied.assign(&blocks[0], &blocks[0] + blocks.shape[0])
        self.characters = CppNormalCharacters(move(copied))

    def contain_all(self, text not None):
        """Return whether all characters of a str or of valid UTF-8 are in the set."""
        cdef const void* data
        cdef size_t size
        cdef int kind
        cdef cbool found
        if isinstance(text, bytes):
            data, size, kind = PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), 0
        else:
            if PyUnicode_IS_ASCII(text):
                return True  # every ASCII text is normalized
            data, size = PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text)
            kind = PyUnicode_KIND(text)
        with nogil:
            if kind == 0:
                found = self.characters.contain_all_utf8(<const uint8_t*>data, size)
            elif kind == 1:
                found = self.characters.contain_all(<const uint8_t*>data, size)
            elif kind == 2:
                found = self.characters.contain_all(<const uint16_t*>data, size)
            else:
                found = self.characters.contain_all(<const uint32_t*>data, size)
        return found

    def runs(self, bytes text not None):
        """Return `(start, end)` of the runs of UTF-8 that may have to be normalized.

        Everything between two runs is normalized and does not interact with them.
        """
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(text)
        cdef size_t size = PyBytes_GET_SIZE(text)
        cdef vector[CppRun] found
        cdef CppRun run
        with nogil:
            found = self.characters.runs(data, size)
        return [(run.start, run.end) for run in found]

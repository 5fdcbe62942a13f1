# distutils: language = c++
"""Python binding of normal_characters.hpp: a quick check for normalized text."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libcpp.vector cimport vector


cdef extern from "unicode/normal_characters.hpp" namespace "cs336" nogil:
    enum TextKind "cs336::TextView::Kind":
        UTF8 "cs336::TextView::UTF8"
        LATIN1 "cs336::TextView::LATIN1"
        UCS2 "cs336::TextView::UCS2"
        UCS4 "cs336::TextView::UCS4"

    cdef cppclass TextView:
        const void* data
        size_t length
        TextKind kind

    cdef struct Run "cs336::NormalCharacters::Run":
        size_t start, end

    cdef cppclass CppNormalCharacters "cs336::NormalCharacters":
        CppNormalCharacters()
        CppNormalCharacters(const uint8_t* classes, vector[uint64_t] pairs) except +
        vector[Run] runs(const TextView& text) except +


cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)


# Minimum length of a text in units to release the GIL, which takes as long as reading them.
cdef size_t MIN_WITHOUT_GIL = 1 << 12


cdef TextView view_text(text) except *:
    """Return a view of a str or of valid UTF-8. The text must outlive the view."""
    cdef TextView view
    cdef int kind
    if isinstance(text, bytes):
        view.data, view.length = PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)
        view.kind = UTF8
        return view
    kind = PyUnicode_KIND(text)
    view.data, view.length = PyUnicode_DATA(text), PyUnicode_GET_LENGTH(text)
    view.kind = LATIN1 if kind == 1 else UCS2 if kind == 2 else UCS4
    if PyUnicode_IS_ASCII(text):
        view.kind = UTF8
    return view


cdef class NormalCharacters:
    """What normalization does to each character.

    Args:
        classes: Class of each code point, as described in normal_characters.hpp.
        pairs: Pairs of code points that are joined; see the same file.
    """

    cdef CppNormalCharacters characters

    def __init__(self, const uint8_t[::1] classes not None, pairs):
        cdef vector[uint64_t] joined
        assert classes.shape[0] == 0x110000
        for first, second in pairs:
            joined.push_back(<uint64_t>first << 32 | <uint64_t>second)
        self.characters = CppNormalCharacters(&classes[0], joined)

    def runs(self, text not None):
        """Return `(start, end)` of the runs of a str or of valid UTF-8 to be normalized.

        Everything between two runs is normalized and does not interact with them.
        """
        cdef TextView view = view_text(text)
        cdef vector[Run] found
        cdef Run run
        if view.length < MIN_WITHOUT_GIL:
            found = self.characters.runs(view)
        else:
            with nogil:
                found = self.characters.runs(view)
        return [(run.start, run.end) for run in found]

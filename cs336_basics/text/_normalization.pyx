# distutils: language = c++
"""Python binding of normal_characters.hpp: a quick check for normalized text."""

import unicodedata

from libc.stdint cimport uint8_t, uint64_t
from libcpp.vector cimport vector

from cs336_basics.text.text_views cimport TextView, view_text


cdef extern from "unicode/normal_characters.hpp" namespace "cs336" nogil:
    cdef struct Run "cs336::NormalCharacters::Run":
        size_t start, end

    cdef cppclass CppNormalCharacters "cs336::NormalCharacters":
        CppNormalCharacters()
        CppNormalCharacters(const uint8_t* classes, vector[uint64_t] pairs) except +
        vector[Run] runs(const TextView& text) except +


# Minimum length of a text in units to release the GIL, which takes as long as reading them.
cdef size_t MIN_WITHOUT_GIL = 1 << 12


# `unicodedata` checks this many characters in 20 ms, the time that the tables take.
cdef Py_ssize_t MAX_UNAIDED = 1 << 24


cdef class NormalCharacters:
    """What normalization does to each character.

    The tables are made when they are worth it: for a text that is not normalized, or after
    MAX_UNAIDED characters, which `unicodedata` checks without them.

    Args:
        form: Normalization form.
        make_tables: Function that returns the class of each code point and the pairs of code points
            that are joined, both as described in normal_characters.hpp.
    """

    cdef CppNormalCharacters characters
    cdef object form
    cdef object make_tables  # None when the tables exist
    cdef Py_ssize_t unaided  # number of characters that `unicodedata` has checked

    def __cinit__(self, str form not None, make_tables not None):
        self.form = form
        self.make_tables = make_tables

    cdef bint is_normalized_unaided(self, text) except -1:
        """Return whether a text is normalized, or False if that is not to be checked."""
        if text.isascii():
            return True
        self.unaided += len(text)
        if self.unaided > MAX_UNAIDED:
            return False
        if isinstance(text, bytes):
            text = text.decode()
        return unicodedata.is_normalized(self.form, text)

    cdef int build(self) except -1:
        cdef vector[uint64_t] joined
        cdef const uint8_t[::1] classes
        classes, pairs = self.make_tables()
        if self.make_tables is None:  # another thread was faster, and may be using its tables
            return 0
        if classes.shape[0] != 0x110000:
            raise ValueError("there must be a class for each code point")
        for first, second in pairs:
            joined.push_back(<uint64_t>first << 32 | <uint64_t>second)
        self.characters = CppNormalCharacters(&classes[0], joined)
        self.make_tables = None
        return 0

    def runs(self, text not None):
        """Return `(start, end)` of the runs of a str or of valid UTF-8 to be normalized.

        Everything between two runs is normalized and does not interact with them.
        """
        if self.make_tables is not None:
            if self.is_normalized_unaided(text):
                return []
            self.build()
        cdef TextView view = view_text(text)
        cdef vector[Run] found
        cdef Run run
        if view.length < MIN_WITHOUT_GIL:
            found = self.characters.runs(view)
        else:
            with nogil:
                found = self.characters.runs(view)
        return [(run.start, run.end) for run in found]

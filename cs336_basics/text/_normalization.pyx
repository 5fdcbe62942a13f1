# distutils: language = c++
"""Python binding of normal_characters.hpp: a quick check for normalized text."""

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

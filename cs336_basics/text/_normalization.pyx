# distutils: language = c++
"""Python binding of normal_characters.hpp: a quick check for normalized text."""

from unicodedata import is_normalized

from cpython.unicode cimport PyUnicode_DecodeUTF8, PyUnicode_FromKindAndData
from libc.stdint cimport uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.vector cimport vector

from cs336_basics.text.text_views cimport LATIN1, UCS2, UTF8, TextKind, TextView, view_text


cdef extern from "unicode/beyond_ascii.hpp" namespace "cs336":
    cdef struct RunBeyondAscii:
        size_t start, end

    vector[RunBeyondAscii] runs_beyond_ascii(const TextView& text) except +
    cbool join_beyond_ascii(
        const TextView& text, size_t max_units, vector[uint8_t]& joined
    ) except +


cdef extern from "unicode/normal_characters.hpp" namespace "cs336" nogil:
    cdef struct Run "cs336::NormalCharacters::Run":
        size_t start, end

    cdef cppclass CppNormalCharacters "cs336::NormalCharacters":
        CppNormalCharacters()
        CppNormalCharacters(const uint8_t* classes, vector[uint64_t] pairs) except +
        vector[Run] runs(const TextView& text) except +


# Minimum length of a text in units to release the GIL, which takes as long as reading them.
cdef size_t MIN_WITHOUT_GIL = 1 << 12


# Maximum length of a str that is checked as a whole, which takes less time than to find the
# characters that are not ASCII.
cdef size_t MAX_WHOLE = 64

# To find and normalize a run takes `unicodedata` as long as to check this many characters for each
# character of the run.
cdef Py_ssize_t COST_OF_CHANGE = 64


cdef str text_of_units(const vector[uint8_t]& units, TextKind kind):
    """Return the text whose units, as bytes, are given."""
    if kind == UTF8:
        return PyUnicode_DecodeUTF8(<const char*>units.data(), units.size(), NULL)
    cdef int unit_size = 1 if kind == LATIN1 else 2 if kind == UCS2 else 4
    return PyUnicode_FromKindAndData(unit_size, units.data(), units.size() // unit_size)


cdef class NormalCharacters:
    """What normalization does to each character.

    Tables tell it. They are made when they are worth it: until then, `unicodedata` looks at the
    characters that are not ASCII.

    Args:
        form: Normalization form.
        make_tables: Function that returns the class of each code point and the pairs of code points
            that are joined, both as described in normal_characters.hpp.
        max_unaided: Number of characters that `unicodedata` checks in the time in which the tables
            are made.
    """

    cdef CppNormalCharacters characters
    cdef object form
    cdef object make_tables  # None when the tables exist
    cdef Py_ssize_t unaided  # number of characters that `unicodedata` may still check

    def __cinit__(self, str form not None, make_tables not None, Py_ssize_t max_unaided):
        self.form = form
        self.make_tables = make_tables
        self.unaided = max_unaided

    cdef list runs_unaided(self, text, const TextView& view):
        """Return `runs` without the tables, or None if that is not worth it any more."""
        cdef vector[uint8_t] joined
        cdef RunBeyondAscii run
        if view.kind != UTF8 and view.length <= MAX_WHOLE:
            beyond = text
        elif not join_beyond_ascii(view, max(self.unaided, 0), joined):
            return None
        elif joined.empty():
            return []
        else:
            # ASCII is not joined with what is before it, so the rest of the text changes nothing.
            beyond = text_of_units(joined, view.kind)
        self.unaided -= len(beyond)
        if self.unaided < 0:
            return None
        if is_normalized(self.form, beyond):
            return []
        self.unaided -= COST_OF_CHANGE * len(beyond)
        if self.unaided < 0:
            return None
        found = []
        for run in runs_beyond_ascii(view):
            part = text[run.start : run.end]
            if isinstance(part, bytes):
                part = part.decode()
            if not is_normalized(self.form, part):
                found.append((run.start, run.end))
        return found

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
        cdef TextView view = view_text(text)
        if self.make_tables is not None:
            unaided = self.runs_unaided(text, view)
            if unaided is not None:
                return unaided
            self.build()
        cdef vector[Run] found
        cdef Run run
        if view.length < MIN_WITHOUT_GIL:
            found = self.characters.runs(view)
        else:
            with nogil:
                found = self.characters.runs(view)
        return [(run.start, run.end) for run in found]

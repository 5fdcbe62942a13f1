# distutils: language = c++
"""Python bindings for scanner.hpp: splitting text."""

import functools
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint32_t
from libcpp.memory cimport shared_ptr, unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from cs336_basics._support.errors import InputError

from cs336_basics._support.simd_levels cimport (
    SimdLevel, available_levels, best_simd_level, default_level, simd_level_of,
)

from cs336_basics.splitting.scanners cimport (
    ScanState, Scanner, SplitProgram, make_scanner, named_program,
)

from cs336_basics.splitting.patterns import split_program


cdef extern from "scanning/scanner.hpp" namespace "cs336" nogil:
    size_t BATCH_CAPACITY

    cdef cppclass CutScanner "cs336::Scanner":
        CutScanner()
        CutScanner(shared_ptr[const SplitProgram] program, SimdLevel simd_level)
        bint is_safe_cut(const uint8_t* text, size_t offset)

cdef extern from "unicode/utf8.hpp" namespace "cs336" nogil:
    size_t first_invalid_utf8(const uint8_t* text, size_t size)


cdef extern from "scanning/special_tokens.hpp" namespace "cs336" nogil:
    cdef struct Occurrence:
        size_t offset, length, token

    cdef cppclass SpecialTokens:
        SpecialTokens() except +
        SpecialTokens(vector[string] tokens, SimdLevel simd_level) except +

    cdef cppclass Occurrences:
        Occurrences(const SpecialTokens& tokens, const uint8_t* text, size_t size)
        Occurrence next(size_t start)


def program_of(pattern):
    """Return the SplitProgram of a pattern.

    Raises:
        ValueError: If the pattern cannot be compiled.
    """
    if not isinstance(pattern, str):
        return pattern
    program = split_program.find_program(pattern)
    if program is None:
        raise InputError(
            f"pattern {pattern!r} cannot be compiled; use "
            "cs336_basics.splitting.pretokenize, which accepts every pattern"
        )
    return program


def simd_levels():
    """Return the names of the SIMD levels that this build and this CPU support, slowest first."""
    return list(available_levels())


def default_simd_level():
    """Return the SIMD level set in the CS336_SIMD environment variable, or the fastest level."""
    return default_level()


if "CS336_SIMD" in os.environ and os.environ["CS336_SIMD"] not in simd_levels():
    raise InputError(
        f"the environment variable CS336_SIMD must be one of {', '.join(simd_levels())}, "
        f"got {os.environ['CS336_SIMD']!r}"
    )


cdef class NamedCuts:
    """The safe cuts of a named pattern; see `split_program.SplitProgram`.

    Unlike a SplitProgram, it is compiled already, in `named_programs.hpp`.
    """

    cdef CutScanner scanner

    def __cinit__(self, str name not None):
        self.scanner = CutScanner(named_program(name.encode()), best_simd_level())

    def is_safe_cut(self, str before not None, str after not None):
        """Return whether text can always be cut between two characters."""
        cdef bytes start = before.encode()
        cdef bytes text = start + after.encode() + b" "
        return self.scanner.is_safe_cut(<const uint8_t*>PyBytes_AS_STRING(text), len(start))

    def ascii_before(self, unsigned char after):
        """Return the ASCII codes after which text can be cut before the ASCII code `after`."""
        cdef uint8_t text[3]
        cdef int before
        text[1], text[2] = after, c" "
        found = []
        for before in range(128):
            text[0] = before
            if self.scanner.is_safe_cut(text, 1):
                found.append(before)
        return found


cdef class CompiledPattern:
    """The scanner for a pattern; see `PreTokens`."""

    cdef Scanner scanner

    def __cinit__(self, pattern, int simd_level):
        self.scanner = make_scanner(pattern, <SimdLevel>simd_level)


# Deriving the rules of a pattern takes up to 7 ms, much longer than splitting a short text.
compiled_pattern = functools.lru_cache(maxsize=32)(CompiledPattern)


cdef class PreTokens:
    """An iterator over the pre-tokens of a str without special tokens. It finds them in batches.

    Args:
        text: Text without special tokens.
        pattern: Name in PATTERNS, regular expression, or SplitProgram.
        simd_level: Name in `simd_levels()`. Defaults to `default_simd_level()`.

    Raises:
        ValueError: If the pattern cannot be compiled, or the SIMD level is not available.
        UnicodeEncodeError: If the text contains a lone surrogate.
    """

    cdef bytes data
    cdef Scanner scanner
    cdef unique_ptr[ScanState] state
    cdef size_t size, position, start
    cdef size_t count, index
    cdef const uint8_t* origin
    cdef uint32_t ends[1024]  # BATCH_CAPACITY

    def __cinit__(self, str text not None, pattern="gpt2", simd_level=None):
        cdef CompiledPattern compiled = compiled_pattern(pattern, <int>simd_level_of(simd_level))
        self.scanner = compiled.scanner
        self.state.reset(new ScanState(self.scanner.num_states()))
        self.data = text.encode()
        self.size = PyBytes_GET_SIZE(self.data)
        assert sizeof(self.ends) == BATCH_CAPACITY * sizeof(uint32_t)

    def __iter__(self):
        return self

    def __next__(self):
        cdef const uint8_t* text = <const uint8_t*>PyBytes_AS_STRING(self.data)
        cdef const uint8_t* word
        if self.index == self.count:
            if self.position == self.size:
                raise StopIteration
            self.origin = text + self.position
            self.start = 0
            self.index = 0
            self.count = self.scanner.fill(
                text, self.size, self.position, self.ends, self.state.get()[0])
            if self.count == 0:  # a pre-token of more than 4 GiB
                self.position = self.scanner.next(
                    text, self.size, self.position, self.state.get()[0])
                return pretoken(self.origin, text + self.position)
        word = self.origin + self.start
        self.start = self.ends[self.index]
        self.index += 1
        return pretoken(word, self.origin + self.start)


cdef class TokenSearch:
    """Finds tokens (nonempty bytes) in bytes, as `token_finder.TokenFinder` does.

    Args:
        tokens: The tokens.
        simd_level: Name in `simd_levels()`. Defaults to `default_simd_level()`.
    """

    cdef SpecialTokens tokens

    def __cinit__(self, list tokens not None, simd_level=None):
        self.tokens = SpecialTokens(<vector[string]>tokens, simd_level_of(simd_level))

    def occurrences(self, bytes text not None):
        """Return `(start, end)` of each token from left to right, without overlaps."""
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(text)
        cdef size_t size = PyBytes_GET_SIZE(text)
        cdef unique_ptr[Occurrences] search
        cdef vector[Occurrence] found
        cdef Occurrence one
        cdef size_t end = 0
        search.reset(new Occurrences(self.tokens, data, size))
        with nogil:
            while True:
                one = search.get().next(end)
                if one.length == 0:
                    break
                found.push_back(one)
                end = one.offset + one.length
        return [(one.offset, one.offset + one.length) for one in found]


cdef inline str pretoken(const uint8_t* first, const uint8_t* end):
    return PyUnicode_DecodeUTF8(<const char*>first, end - first, NULL)


def num_pretokens(bytes data not None, pattern="gpt2", simd_level=None):
    """Return the number of pre-tokens in UTF-8 bytes; see `PreTokens`.

    Releases the GIL.

    Raises:
        ValueError: See `PreTokens`, or if the bytes are not valid UTF-8.
    """
    cdef const uint8_t* text = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data)
    cdef size_t position = 0, found = 0, count = 0
    cdef uint32_t ends[1024]  # BATCH_CAPACITY
    cdef PreTokens settings = PreTokens("", pattern, simd_level)
    if first_invalid_utf8(text, size) != size:
        raise ValueError("the text is not valid UTF-8")
    with nogil:
        while position < size:
            count = settings.scanner.fill(text, size, position, ends, settings.state.get()[0])
            if count == 0:  # a pre-token of more than 4 GiB
                count = 1
                position = settings.scanner.next(text, size, position, settings.state.get()[0])
            found += count
    return found

# distutils: language = c++
"""Binding of scanner.hpp: pre-tokens of bytes or text in memory."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint8_t, uint32_t

from cs336_basics.pretokenization.patterns import PATTERNS


cdef extern from "scanner.hpp" namespace "cs336" nogil:
    cdef cppclass Gpt2:
        @staticmethod
        size_t next(const uint8_t* text, size_t size, size_t i)

    cdef cppclass Cl100k:
        @staticmethod
        size_t next(const uint8_t* text, size_t size, size_t i)

    enum class SimdLevel:
        pass

    ctypedef size_t (*Fill)(const uint8_t*, size_t, size_t&, uint32_t*) noexcept

    cdef struct Character:
        uint32_t char_class
        uint32_t length

    Character character(const uint8_t* p)
    size_t BATCH_CAPACITY
    int NUM_SIMD_LEVELS
    const char* SIMD_LEVEL_NAMES[]
    bint has_simd_level(SimdLevel simd_level)
    SimdLevel best_simd_level()
    Fill fill_function[Pattern](SimdLevel simd_level)
    const char* c_UNICODE_VERSION "cs336::UNICODE_VERSION"
    const char* c_REGEX_VERSION "cs336::REGEX_VERSION"

cdef extern from "utf8.hpp" namespace "cs336" nogil:
    size_t first_invalid_utf8(const uint8_t* text, size_t size)
    size_t first_invalid_utf8_scalar(const uint8_t* text, size_t size)

UNICODE_VERSION = c_UNICODE_VERSION.decode()
REGEX_VERSION = c_REGEX_VERSION.decode()

# The patterns that scanner.hpp knows, by their expression: an edited pattern is an unknown one.
_SCANNED = {
    r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""": "gpt2",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]|\s+(?!\S)|\s": "cl100k",
}


def scanned_pattern(pattern):
    """Return the name of the scanner for a pattern (name or expression), None if there is none."""
    return _SCANNED.get(PATTERNS.get(pattern, pattern))


def simd_levels():
    """Return the names of the SIMD levels that this build and this CPU have, the slowest first."""
    return [
        SIMD_LEVEL_NAMES[i].decode() for i in range(NUM_SIMD_LEVELS) if has_simd_level(<SimdLevel>i)
    ]


def default_simd_level():
    """Return the SIMD level in use: the fastest, or the one that CS336_SIMD (environment) names."""
    return SIMD_LEVEL_NAMES[<int>best_simd_level()].decode()


cdef SimdLevel simd_level_named(name) except *:
    if name is None:
        return best_simd_level()
    available = simd_levels()
    if name not in available:
        raise ValueError(f"simd_level is {name!r}: it must be one of {', '.join(available)}")
    for i in range(NUM_SIMD_LEVELS):
        if SIMD_LEVEL_NAMES[i].decode() == name:
            return <SimdLevel>i


cdef class PreTokens:
    """Iterator over the pre-tokens of a text, as str or as bytes; finds them a batch at a time."""

    cdef bytes data
    cdef bint as_text
    cdef Fill fill
    cdef bint gpt2
    cdef size_t size, position, start
    cdef size_t count, index
    cdef const uint8_t* origin
    cdef uint32_t ends[1024]  # BATCH_CAPACITY

    def __cinit__(self, bytes data not None, pattern, simd_level, bint as_text):
        name = scanned_pattern(pattern)
        if name is None:
            raise ValueError(
                f"pattern {pattern!r} has no scanner: choose one of {', '.join(PATTERNS)}, or use "
                "cs336_basics.pretokenization.pretokenize, which takes every pattern"
            )
        cdef SimdLevel chosen = simd_level_named(simd_level)
        self.gpt2 = name == "gpt2"
        self.fill = fill_function[Gpt2](chosen) if self.gpt2 else fill_function[Cl100k](chosen)
        self.data = data
        self.as_text = as_text
        self.size = PyBytes_GET_SIZE(data)
        assert sizeof(self.ends) == BATCH_CAPACITY * sizeof(uint32_t)

    def __iter__(self):
        return self

    def __next__(self):
        cdef const uint8_t* text = <const uint8_t*>PyBytes_AS_STRING(self.data)
        cdef const uint8_t* word
        cdef size_t length
        if self.index == self.count:
            if self.position == self.size:
                raise StopIteration
            self.origin = text + self.position
            self.start = 0
            self.index = 0
            self.count = self.fill(text, self.size, self.position, self.ends)
            if self.count == 0:  # a pre-token of more than 4 GiB
                length = self.position
                if self.gpt2:
                    self.position = Gpt2.next(text, self.size, self.position)
                else:
                    self.position = Cl100k.next(text, self.size, self.position)
                return self.give(text + length, self.position - length)
        word = self.origin + self.start
        length = self.ends[self.index] - self.start
        self.start = self.ends[self.index]
        self.index += 1
        return self.give(word, length)

    cdef object give(self, const uint8_t* word, size_t length):
        if self.as_text:
            return PyUnicode_DecodeUTF8(<const char*>word, length, NULL)
        return PyBytes_FromStringAndSize(<const char*>word, length)


def pretokenize_text(text, pattern="gpt2", simd_level=None):
    """Return an iterator over the pre-tokens of a str; see `splitter.pretokenize`.

    Raises:
        ValueError: the pattern has no scanner; there is no such SIMD level.
        UnicodeEncodeError: the text holds a lone surrogate.
    """
    return PreTokens(text.encode(), pattern, simd_level, True)


def pretokenize_bytes(data, pattern="gpt2", simd_level=None):
    """Return an iterator over the pre-tokens of UTF-8 bytes, as bytes.

    Args:
        data: bytes.
        pattern: a name in PATTERNS or its expression.
        simd_level: a name in `simd_levels()`; None = `default_simd_level()`.

    Raises:
        ValueError: the pattern has no scanner; there is no such SIMD level; the bytes are not UTF-8.
    """
    cdef size_t place
    checked = bytes(data)
    place = first_invalid_utf8(<const uint8_t*>PyBytes_AS_STRING(checked), len(checked))
    if place < <size_t>len(checked):
        raise ValueError(f"byte {checked[place]:#04x} at offset {place:,} is not valid UTF-8")
    return PreTokens(checked, pattern, simd_level, False)


def num_pretokens(bytes data not None, pattern="gpt2", simd_level=None):
    """Return the number of pre-tokens of UTF-8 bytes: the scanner alone, without the GIL."""
    cdef const uint8_t* text = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data)
    cdef size_t position = 0, found = 0, count = 0
    cdef uint32_t ends[1024]  # BATCH_CAPACITY
    cdef PreTokens settings = PreTokens(data, pattern, simd_level, False)
    if first_invalid(data) is not None:
        raise ValueError("the bytes are not valid UTF-8")
    with nogil:
        while position < size:
            count = settings.fill(text, size, position, ends)
            if count == 0:  # a pre-token of more than 4 GiB
                count = 1
                if settings.gpt2:
                    position = Gpt2.next(text, size, position)
                else:
                    position = Cl100k.next(text, size, position)
            found += count
    return found


def first_invalid(data, vectors=True):
    """Return the offset of the first byte that is not valid UTF-8, None if all is valid.

    Args:
        data: bytes.
        vectors: use the vector instructions of this CPU, if it has them.
    """
    cdef bytes text = data
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(text)
    cdef size_t size = PyBytes_GET_SIZE(text)
    cdef size_t place
    place = first_invalid_utf8(start, size) if vectors else first_invalid_utf8_scalar(start, size)
    return None if place == size else place


def character_classes(str text not None):
    """Return the class of every character: 0 other, 1 letter, 2 number, 3 white space; as bytes."""
    cdef bytes data = text.encode()
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(data)
    cdef size_t size = PyBytes_GET_SIZE(data)
    cdef size_t i = 0
    cdef Character c
    classes = bytearray()
    while i < size:
        c = character(start + i)
        classes.append(c.char_class)
        i += c.length
    return bytes(classes)

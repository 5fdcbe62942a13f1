# distutils: language = c++
"""Python bindings for word_counter.hpp: count words in files (in threads) or in memory."""

import os

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.map cimport map as cpp_map
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from cs336_basics._support.simd_levels cimport simd_level_of
from cs336_basics.splitting.scanners cimport Scanner, make_scanner
from cs336_basics.text.failures cimport Failure, raise_failure

from cs336_basics._support.errors import InputError
from cs336_basics.text.storage import MAX_PIECE_BYTES


cdef extern from "unicode/utf8.hpp" namespace "cs336" nogil:
    cdef cppclass Replaced:
        uint64_t sequences, bytes, first

cdef extern from "counting/word_counter.hpp" namespace "cs336" nogil:
    cdef cppclass SpecialTokens:
        SpecialTokens() except +
        SpecialTokens(vector[string] tokens) except +

    cdef cppclass SplitOptions:
        SplitOptions() except +
        SpecialTokens tokens
        Scanner scanner
        cbool strict

    cdef cppclass FileCounter:
        FileCounter(vector[string], vector[uint64_t], SplitOptions, int, size_t, size_t, size_t,
                    int (*)(void*, uint64_t) except -1, void*) except +
        Failure count() except +
        size_t num_words()
        size_t num_bytes()
        Failure write(uint8_t*, int64_t*, int64_t*) except +
        cpp_map[size_t, Replaced] replaced()

    cdef cppclass MemoryCounter:
        MemoryCounter(SplitOptions) except +
        void count(const uint8_t*, size_t) except +
        void add_words(const uint8_t*, size_t, const int64_t*, const int64_t*, size_t) except +
        void finish() except +
        size_t num_words()
        size_t num_bytes()
        void write(uint8_t*, int64_t*, int64_t*) except +

    size_t c_first_repeated "cs336::first_repeated"(
        const uint8_t*, size_t, const int64_t*, size_t) except +


# Maximum number of words in a thread's own table. A full table takes 32 MB.
MOST_OWN_WORDS = 700_000


cdef SplitOptions make_options(special_tokens, pattern, errors, simd_level) except *:
    cdef SplitOptions options
    cdef vector[string] tokens
    for token in special_tokens:
        tokens.push_back(<string>token.encode())
    options.tokens = SpecialTokens(tokens)
    options.scanner = make_scanner(pattern, simd_level_of(simd_level))
    options.strict = errors == "strict"
    return options


def count_files(paths, sizes, special_tokens, pattern, num_workers, errors, block_size,
                progress_callback=None, simd_level=None, most_own_words=MOST_OWN_WORDS,
                max_piece_bytes=MAX_PIECE_BYTES):
    """Count the pre-tokens in files with several threads; see `count_words`.

    Only the pattern is checked; `count_words` checks the other arguments.

    Args:
        paths: Files to count.
        sizes: Size of each file in bytes. Any further bytes are not read.
        special_tokens: Tokens that are cut out of the text and not counted.
        pattern: Name in PATTERNS or regular expression.
        num_workers: Number of threads.
        errors: "replace" or "strict".
        block_size: Number of bytes that a thread reads at once.
        progress_callback: Callback invoked every 50 ms with the number of bytes counted so far.
        simd_level: Name in `_scanner.simd_levels()`. Defaults to `default_simd_level()`.
        most_own_words: Maximum number of distinct words in a thread's own table. When the table is
            full, its words are added to the table that all threads share.
        max_piece_bytes: Maximum number of bytes between two safe cuts.

    Returns:
        buffers: `(data, offsets, counts)`, the buffers of a WordCounts.
        replaced: Mapping from the index of each file that is not valid UTF-8 to the number of
            invalid sequences, the total number of bytes in them, and the offset of the first one.

    Raises:
        ValueError: If the pattern has no scanner, or a file is not valid UTF-8 (errors="strict"),
            was truncated, or exceeds `max_piece_bytes`.
        OSError: If a file cannot be read.
        MemoryError: If the distinct words do not fit in memory.
    """
    cdef vector[string] c_paths
    cdef vector[uint64_t] c_sizes
    cdef SplitOptions options = make_options(special_tokens, pattern, errors, simd_level)
    cdef unique_ptr[FileCounter] job
    cdef _Buffers buffers
    cdef Failure failure
    names = [os.fspath(path) for path in paths]
    for name, size in zip(names, sizes, strict=True):
        c_paths.push_back(<string>os.fsencode(name))
        c_sizes.push_back(size)
    num_workers, block_size = min(num_workers, 1 << 16), min(block_size, 1 << 48)
    max_piece_bytes = min(max_piece_bytes, 1 << 62)
    job.reset(new FileCounter(c_paths, c_sizes, options, num_workers, block_size, most_own_words,
                              max_piece_bytes, watch, <void*>progress_callback))
    with nogil:
        failure = job.get().count()
    raise_failure(failure, names, "distinct words")
    replaced = {}
    for entry in job.get().replaced():
        found = entry.second
        replaced[entry.first] = found.sequences, found.bytes, found.first
    buffers = _Buffers(job.get().num_words(), job.get().num_bytes())
    with nogil:
        failure = job.get().write(buffers.data, buffers.offsets, buffers.counts)
    raise_failure(failure, names, "distinct words")
    return buffers.result(), replaced


cdef int watch(void* progress_callback, uint64_t bytes_done) except -1 with gil:
    """Run signal handlers and report progress, in the thread that waits for the workers."""
    PyErr_CheckSignals()
    if <object>progress_callback is not None:
        (<object>progress_callback)(bytes_done)
    return 0


@cython.internal
cdef class _Buffers:
    """Memory for the result. Only C++ accesses it until the result is complete."""

    cdef bytes data_bytes, offset_bytes, count_bytes
    cdef uint8_t* data
    cdef int64_t* offsets
    cdef int64_t* counts

    def __cinit__(self, size_t num_words, size_t num_bytes):
        self.data_bytes = PyBytes_FromStringAndSize(NULL, num_bytes)
        self.offset_bytes = PyBytes_FromStringAndSize(NULL, (num_words + 1) * sizeof(int64_t))
        self.count_bytes = PyBytes_FromStringAndSize(NULL, num_words * sizeof(int64_t))
        self.data = <uint8_t*>PyBytes_AS_STRING(self.data_bytes)
        self.offsets = <int64_t*>PyBytes_AS_STRING(self.offset_bytes)
        self.counts = <int64_t*>PyBytes_AS_STRING(self.count_bytes)
        self.offsets[0] = 0

    cdef tuple result(self):
        offsets, counts = memoryview(self.offset_bytes), memoryview(self.count_bytes)
        return self.data_bytes, offsets.cast("q"), counts.cast("q")


def first_repeated(const uint8_t[::1] data not None, const int64_t[::1] offsets not None):
    """Return the index of the first word that repeats an earlier word, or the number of words.

    Raises:
        ValueError: If the offsets decrease or exceed the data.
    """
    cdef size_t num_bytes = data.shape[0], num_words = offsets.shape[0] - 1, index = 0
    cdef const uint8_t* start = &data[0] if num_bytes else NULL
    if offsets.shape[0] > 1:
        with nogil:
            index = c_first_repeated(start, num_bytes, &offsets[0], num_words)
    return index


cdef class TextCounter:
    """Counts texts in memory, and can add words that have already been counted.

    Args:
        special_tokens, pattern, simd_level: See `count_files`.
    """

    cdef unique_ptr[MemoryCounter] counter
    cdef bint busy

    def __cinit__(self, special_tokens=(), pattern="gpt2", simd_level=None):
        cdef SplitOptions options = make_options(special_tokens, pattern, "replace", simd_level)
        self.counter.reset(new MemoryCounter(options))

    cdef int begin(self) except -1:
        """Refuse a second thread, which could change memory that the first one reads."""
        if self.busy:
            raise RuntimeError("a TextCounter can be used by one thread at a time")
        self.busy = True
        return 0

    def count(self, bytes text not None):
        """Count the pre-tokens of a complete text in UTF-8.

        Raises:
            RuntimeError: If another thread uses the counter; so do the other methods.
        """
        cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(text)
        cdef size_t size = PyBytes_GET_SIZE(text)
        self.begin()
        try:
            with nogil:
                self.counter.get().count(start, size)
        finally:
            self.busy = False

    def add_words(self, const uint8_t[::1] data not None, const int64_t[::1] offsets not None,
                  const int64_t[::1] counts not None):
        """Add words with their counts, given as the arrays of a WordCounts.

        Raises:
            ValueError: If the offsets decrease or exceed the data, or their number is wrong.
            InputError: If the total count of a word exceeds 2^63 - 1.
        """
        cdef size_t num_words = counts.shape[0]
        if <size_t>offsets.shape[0] != num_words + 1:
            raise ValueError("offsets must have one number more than counts")
        cdef size_t num_bytes = data.shape[0]
        if num_words == 0:
            return
        self.begin()
        try:
            with nogil:
                self.counter.get().add_words(
                    &data[0] if num_bytes else NULL, num_bytes, &offsets[0], &counts[0], num_words)
        except OverflowError as error:
            raise InputError(str(error)) from None
        finally:
            self.busy = False

    def result(self):
        """Return `(data, offsets, counts)`, the buffers of a WordCounts, for all words so far."""
        cdef _Buffers buffers
        self.begin()
        try:
            with nogil:
                self.counter.get().finish()
            buffers = _Buffers(self.counter.get().num_words(), self.counter.get().num_bytes())
            with nogil:
                self.counter.get().write(buffers.data, buffers.offsets, buffers.counts)
        finally:
            self.busy = False
        return buffers.result()

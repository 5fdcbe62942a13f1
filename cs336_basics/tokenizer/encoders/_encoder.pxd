"""Declarations of the C++ code in `native/encoding` that `_encoder.pyx` binds."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from cs336_basics._support.simd_levels cimport SimdLevel
from cs336_basics.splitting.scanners cimport Scanner
from cs336_basics.text.failures cimport Failure
from cs336_basics.text.text_views cimport Buffer, TextSpan, TextView
from cs336_basics.tokenizer._vocabulary cimport CppWords


cdef extern from "unicode/utf8.hpp" namespace "cs336" nogil:
    cdef enum class InvalidBytes:
        REPLACE
        REFUSE
        KEEP


cdef extern from "encoding/file_encoder.hpp" namespace "cs336" nogil:
    uint32_t NO_ID
    enum:
        OUTPUT_SLACK "cs336::OUTPUT_SLACK"
        MAX_SHORT_TEXT "cs336::MAX_SHORT_TEXT"
        MAX_GAP "cs336::MAX_GAP"

    cdef cppclass Replaced:
        uint64_t sequences, bytes, first

    cdef cppclass SpecialTokens:
        SpecialTokens() except +
        SpecialTokens(vector[string] tokens) except +

    cdef cppclass SpecialIds:
        SpecialTokens tokens
        vector[uint32_t] ids

    cdef cppclass Dropout:
        pass

    cdef cppclass BatchDropout:
        uint64_t state
        cbool all
        vector[uint64_t] shares, documents, offsets
        Dropout of_text(size_t text)

    cdef cppclass EncodingWorker:
        Buffer output, text
        void trim()
        size_t encode(const uint8_t*, size_t, const SpecialIds&, void*, uint32_t,
                      vector[int64_t]*) except +
        size_t encode_word(const uint8_t*, size_t, const uint8_t*, void*) except +
        size_t drop_word(const uint8_t*, size_t, const Dropout&, uint64_t, void*) except +

    cdef struct WholeWord:
        TextSpan word
        uint32_t id

    ctypedef vector[WholeWord] WholeWords

    cdef cppclass Join:
        pass

    Join join_of(TextSpan left, TextSpan right)

    cdef cppclass CppEncoder "cs336::Encoder":
        unique_ptr[EncodingWorker] make_worker(size_t cache_bytes) except +

    Failure encode_text(EncodingWorker&, const TextView&, const SpecialIds&, size_t, size_t,
                        size_t&) except +

    cbool encode_short_text(EncodingWorker&, const TextView&, const SpecialIds&, void*,
                            size_t&) except +

    cdef cppclass BatchEncoder:
        BatchEncoder(const vector[EncodingWorker*]&, size_t, const vector[TextView]&,
                     const SpecialIds&, const BatchDropout*) except +
        void start() except +
        cbool wait(int milliseconds)
        void join()
        const Failure& failure()
        size_t num_groups()
        size_t group_start(size_t group)
        cbool wait_group(size_t group, int milliseconds)
        const uint8_t* ids(size_t group)
        void free(size_t group)
        size_t num_ids(size_t text)
        size_t estimate(size_t last)
        void write_to(uint8_t* out, size_t room)

    cdef cppclass BlockReader:
        BlockReader(const SpecialTokens&, const Scanner&, vector[string], vector[uint64_t], size_t,
                    size_t) except +
        size_t num_blocks()

    cdef cppclass EncodedBlock:
        Buffer ids
        size_t num_ids
        vector[int64_t] ends
        uint64_t num_bytes
        size_t file
        Replaced replaced

    cdef cppclass FileEncoder:
        FileEncoder(const BlockReader&, const vector[EncodingWorker*]&, size_t, const SpecialIds&,
                    InvalidBytes, uint32_t) except +
        void start() except +
        cbool wait(int milliseconds)
        EncodedBlock* block()
        void next()
        void close()
        const Failure& failure()


cdef extern from "encoding/superword_encoder.hpp" namespace "cs336" nogil:
    unique_ptr[CppEncoder] make_encoder(
        cbool narrow, const uint32_t* byte_ids, const uint32_t* merges, const vector[Join]& joins,
        size_t cache_bytes, Scanner scanner, SimdLevel simd_level,
        const WholeWords& whole_words, const CppWords* words) except +


cdef extern from "encoding/text_cutter.hpp" namespace "cs336" nogil:
    vector[TextView] cut_text(const TextView&, size_t, const SpecialTokens&,
                              const Scanner&) except +

"""The part of `_decoder.pyx` that other compiled modules call."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr

from cs336_basics.tokenizer._usual_calls cimport Rest


cdef extern from "encoding/decoder.hpp" namespace "cs336" nogil:
    size_t DECODER_SLACK

    cdef struct TextSpan:
        const uint8_t* data
        size_t size

    cdef cppclass CppDecoder "cs336::Decoder":
        CppDecoder(const uint8_t*, const int64_t*, size_t) except +
        size_t copy_ids[Id](const Id* ids, size_t count, uint32_t* copies)
        void write(const uint32_t* ids, size_t count, uint8_t* out)
        TextSpan token(uint32_t id)

    cdef cppclass Decoding:
        Decoding(const CppDecoder&, size_t count) except +
        cbool append[Id](const Id* ids, size_t count, uint32_t* copies) except +
        const char* data()
        size_t size()


cdef class Decoder:
    cdef unique_ptr[CppDecoder] decoder
    cdef size_t num_ids

    cdef object decode_list(self, list ids, bint as_text)
    cdef object decode_short(self, list ids, bint as_text)
    cdef object push(self, bytes waiting, object token_id, Rest* rest)

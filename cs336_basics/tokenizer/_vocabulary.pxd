"""The part of `_vocabulary.pyx` that other compiled modules call."""

from libc.stdint cimport uint8_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.utility cimport pair
from libcpp.vector cimport vector

from cs336_basics.text.text_views cimport TextSpan


cdef extern from "word_merging/words.hpp" namespace "cs336" nogil:
    cdef cppclass CppWords "cs336::Words":
        CppWords(size_t num_bytes, size_t num_tokens) except +
        uint8_t* room()
        void add(size_t size, uint32_t id) except +
        cbool index() except +
        uint32_t find(const uint8_t*, size_t)
        cbool add_more(const vector[pair[string, uint32_t]]& more) except +
        cbool index_ids() except +
        cbool set_merges(const vector[TextSpan]& pairs) except +
        cbool set_merges_of_ranks() except +
        size_t num_tokens()
        size_t size()
        TextSpan token(size_t i)
        uint32_t id(size_t i)
        uint32_t index_of(uint32_t id)
        TextSpan token_of(uint32_t id)
        const vector[uint32_t]& merges()


cdef class Words:
    cdef unique_ptr[CppWords] words

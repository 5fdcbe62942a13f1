# distutils: language = c++
"""Binding of words.hpp and token_ids.hpp: a vocabulary and its merges, checked and indexed."""

from array import array

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from cs336_basics.text.text_views cimport TextSpan


cdef extern from "word_merging/token_ids.hpp" namespace "cs336":
    cdef cppclass CppTokenIds "cs336::TokenIds":
        CppTokenIds(size_t num_tokens) except +
        cbool insert_all(const vector[TextSpan]& tokens, const vector[uint32_t]& ids) except +

    cdef cppclass RankSplitter:
        RankSplitter(const CppTokenIds& ranks)
        size_t split(const uint8_t* token, size_t size) except +


cdef uint32_t NO_ID = 0xFFFFFFFF
cdef uint32_t NO_INDEX = 0xFFFFFFFF


cdef inline const uint8_t* bytes_of(object token):
    return <const uint8_t*>PyBytes_AS_STRING(token)


cdef inline TextSpan span_of(object token):
    cdef TextSpan span
    span.data, span.size = bytes_of(token), PyBytes_GET_SIZE(token)
    return span


cdef inline bytes token_of(TextSpan span):
    return PyBytes_FromStringAndSize(<const char*>span.data, span.size)


cdef class Words:
    """Tokens and merges; see `words.Words`. As a buffer, it has the rows of the merges as uint32.

    `Words.of` and `_byte_strings.TokenizerFile` make it.
    """

    def __cinit__(self, size_t num_bytes, size_t num_tokens):
        self.words.reset(new CppWords(num_bytes, num_tokens))

    def __init__(self, *_):
        raise TypeError("use Words.of")

    @staticmethod
    def of(dict tokens not None, list merges not None):
        """Return the words of a mapping of id -> token and of merges.

        Returns None if an id is not an int from 0 to 2^32 - 2, a token is not a nonempty bytes
        object or occurs twice, a merge is not a tuple or list of two tokens, or their joined token
        is unknown, or a merge occurs twice.
        """
        cdef Words made
        cdef object token_id, token
        cdef size_t num_bytes = 0
        cdef vector[TextSpan] pairs
        for token_id, token in tokens.items():
            if type(token_id) is not int or type(token) is not bytes:
                return None
            if not 0 <= token_id < NO_ID:
                return None
            num_bytes += PyBytes_GET_SIZE(token)
        made = Words.__new__(Words, num_bytes, len(tokens))
        for token_id, token in tokens.items():
            memcpy(made.words.get().room(), bytes_of(token), PyBytes_GET_SIZE(token))
            made.words.get().add(PyBytes_GET_SIZE(token), token_id)
        if not made.words.get().index() or not made.words.get().index_ids():
            return None
        pairs.reserve(2 * len(merges))
        for merge in merges:
            if type(merge) is tuple and len(<tuple>merge) == 2:
                left, right = (<tuple>merge)[0], (<tuple>merge)[1]
            elif type(merge) is list and len(<list>merge) == 2:
                left, right = (<list>merge)[0], (<list>merge)[1]
            else:
                return None
            if type(left) is not bytes or type(right) is not bytes:
                return None
            pairs.push_back(span_of(left))
            pairs.push_back(span_of(right))
        return made if made.words.get().set_merges(pairs) else None

    def __len__(self):
        return self.words.get().num_tokens()

    @property
    def size(self):
        return self.words.get().size()

    @property
    def num_merges(self):
        return self.words.get().merges().size() // 3

    def get(self, bytes token not None, default=None):
        """Return the id of a token, or the default."""
        cdef uint32_t token_id = self.words.get().find(bytes_of(token), PyBytes_GET_SIZE(token))
        return default if token_id == NO_ID else token_id

    def has_id(self, token_id):
        """Return whether a token has this id."""
        return 0 <= token_id < NO_ID and self.words.get().index_of(token_id) != NO_INDEX

    def tokens(self):
        """Return a new mapping of id -> token."""
        cdef size_t i
        return {
            self.words.get().id(i): token_of(self.words.get().token(i))
            for i in range(self.words.get().num_tokens())
        }

    def merges(self, dict tokens not None):
        """Return a new list of the merges, as pairs of the bytes objects in `tokens`."""
        cdef const uint32_t* rows = self.words.get().merges().data()
        cdef Py_ssize_t i
        return [
            (tokens[rows[3 * i]], tokens[rows[3 * i + 1]]) for i in range(self.num_merges)
        ]

    def merge_rows(self):
        """Return the ids of the left, right and joined tokens of each merge."""
        cdef const uint32_t* rows = self.words.get().merges().data()
        cdef Py_ssize_t i
        return [
            (rows[3 * i], rows[3 * i + 1], rows[3 * i + 2]) for i in range(self.num_merges)
        ]

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        cdef const vector[uint32_t]* rows = &self.words.get().merges()
        PyBuffer_FillInfo(
            buffer, self, <void*>rows.data(), rows.size() * sizeof(uint32_t), True, flags)

    def tables(self, dict more not None, size_t size):
        """Return the arguments of `_decoder.Decoder` for the ids below `size`.

        Args:
            more: Tokens that are not words, by id.
        """
        cdef size_t token_id, end = 0
        cdef uint32_t index
        cdef TextSpan span
        cdef vector[TextSpan] spans
        spans.resize(size)
        offsets = array("q", bytes(8 * (size + 1)))
        cdef int64_t[::1] ends = offsets
        for token_id in range(size):
            index = self.words.get().index_of(token_id)
            if index != NO_INDEX:
                spans[token_id] = self.words.get().token(index)
        for number, token in more.items():
            if number < size:
                spans[<size_t>number] = span_of(<bytes?>token)
        for token_id in range(size):
            end += spans[token_id].size
            ends[token_id + 1] = end
        data = bytearray(end)
        cdef uint8_t[::1] out = data
        for token_id in range(size):
            if spans[token_id].size:
                memcpy(&out[ends[token_id]], spans[token_id].data, spans[token_id].size)
        return data, offsets


def rank_splits(list tokens not None):
    """Return where tiktoken would split each token if it lacked the token.

    Args:
        tokens: Different nonempty bytes objects, ordered by rank.

    Returns:
        For each token, the length of the first of two tokens, or 0 if there are not two.
    """
    cdef unique_ptr[CppTokenIds] ranks
    cdef unique_ptr[RankSplitter] splitter
    cdef vector[TextSpan] spans
    cdef vector[uint32_t] numbers
    cdef uint32_t rank
    ranks.reset(new CppTokenIds(len(tokens)))
    for rank in range(len(tokens)):
        spans.push_back(span_of(<bytes?>tokens[rank]))
        numbers.push_back(rank)
    if not ranks.get().insert_all(spans, numbers):
        raise ValueError("the tokens must be different and not empty")
    splitter.reset(new RankSplitter(ranks.get()[0]))
    return [splitter.get().split(bytes_of(token), PyBytes_GET_SIZE(token)) for token in tokens]

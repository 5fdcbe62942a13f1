# distutils: language = c++
"""Binding of token_ids.hpp: look up tokens by their bytes, five times as fast as with a dict."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from cs336_basics.tokenizer.encoders.text_views cimport TextSpan

from cs336_basics._support.lazy import np


cdef extern from "word_merging/token_ids.hpp" namespace "cs336":
    cdef cppclass CppTokenIds "cs336::TokenIds":
        CppTokenIds(size_t num_tokens) except +
        cbool insert_all(const vector[TextSpan]& tokens, const vector[uint32_t]& ids) except +
        uint32_t find(const uint8_t* data, size_t length)
        cbool find_merges(const vector[TextSpan]& pairs, uint32_t* ids) except +

    cdef cppclass RankSplitter:
        RankSplitter(const CppTokenIds& ranks)
        size_t split(const uint8_t* token, size_t size) except +


cdef uint32_t NO_ID = 0xFFFFFFFF


cdef inline const uint8_t* bytes_of(object token):
    return <const uint8_t*>PyBytes_AS_STRING(token)


cdef inline TextSpan span_of(object token):
    return TextSpan(bytes_of(token), <size_t>PyBytes_GET_SIZE(token))


cdef class TokenIds:
    """The ids of the tokens of a vocabulary, as a mapping that only has `get`.

    Args:
        tokens: Mapping of id -> token.

    Attributes:
        is_valid: Whether the ids are ints from 0 to 2^32 - 2 and the tokens are different nonempty
            bytes objects. Otherwise, nothing can be looked up.
    """

    cdef unique_ptr[CppTokenIds] ids
    cdef dict tokens  # keeps the bytes alive
    cdef readonly bint is_valid

    def __init__(self, dict tokens not None):
        cdef object token_id, token
        cdef vector[TextSpan] spans
        cdef vector[uint32_t] ids
        self.tokens = tokens
        self.ids.reset(new CppTokenIds(len(tokens)))
        spans.reserve(len(tokens))
        ids.reserve(len(tokens))
        for token_id, token in tokens.items():
            if type(token_id) is not int or type(token) is not bytes:
                return
            if not 0 <= token_id < NO_ID:
                return
            spans.push_back(span_of(token))
            ids.push_back(token_id)
        self.is_valid = self.ids.get().insert_all(spans, ids)

    def get(self, bytes token not None, default=None):
        """Return the id of a token, or the default."""
        cdef uint32_t token_id
        if self.is_valid:
            token_id = self.ids.get().find(bytes_of(token), PyBytes_GET_SIZE(token))
            if token_id != NO_ID:
                return token_id
        return default

    def index_merges(self, list merges not None):
        """Return the ids of the left, right and joined tokens of each merge.

        Returns:
            Array of shape (num_merges, 3), uint32; or None if a merge is not a tuple or list of two
            bytes objects, or a token is unknown.
        """
        ids = np.empty((len(merges), 3), np.uint32)
        cdef uint32_t[:, ::1] rows = ids
        cdef vector[TextSpan] pairs
        pairs.reserve(2 * len(merges))
        if not self.is_valid:
            return None
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
        if len(merges) and not self.ids.get().find_merges(pairs, &rows[0, 0]):
            return None
        return ids


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

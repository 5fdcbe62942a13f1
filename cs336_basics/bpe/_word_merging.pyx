# distutils: language = c++
"""Binding of native/merging/starting_merges.hpp: words to the symbols that the merges of a vocabulary make.

The compiled twin of `StartingVocabulary.split`, for many words at once.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libcpp.memory cimport unique_ptr

from cs336_basics._support.lazy import LazyModule

np = LazyModule("numpy")

cdef extern from "merging/starting_merges.hpp" namespace "cs336" nogil:
    cdef cppclass StartingMerges:
        StartingMerges(const uint32_t* merges, size_t num_merges) except +
        int64_t merge(const uint8_t* word, size_t length, uint32_t* out) except +

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

# Words between two checks for Ctrl-C.
cdef Py_ssize_t SLICE = 1 << 14


def split_words(list words, start):
    """Return the symbols of words (bytes) before the first new merge; see `merge_words`.

    `start` is the `StartingVocabulary`.
    """
    lengths = np.fromiter(map(len, words), np.int64, len(words))
    data = np.frombuffer(b"".join(words), np.uint8)
    if not start.merges:
        return data, lengths
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return merge_words(data, offsets, start.merge_ids())


def merge_words(
    const uint8_t[::1] data, const int64_t[::1] offsets, const uint32_t[:, ::1] merges
):
    """Return the symbols of words, one after the other, and their number in each word.

    Args:
        data: uint8, the bytes of all words.
        offsets: int64 of shape (num_words + 1,); word i is `data[offsets[i]:offsets[i + 1]]`.
        merges: uint32 of shape (num_merges, 3), see `StartingVocabulary.merge_ids`.

    Returns:
        symbols: uint32, indices into `StartingVocabulary.symbols`.
        lengths: int64 of shape (num_words,).
    """
    cdef Py_ssize_t num_words = offsets.shape[0] - 1
    cdef uint32_t[::1] symbols = np.empty(data.shape[0] + 1, np.uint32)
    cdef int64_t[::1] lengths = np.empty(num_words, np.int64)
    cdef unique_ptr[StartingMerges] merger
    cdef int64_t total = 0
    cdef Py_ssize_t word
    merger.reset(new StartingMerges(&merges[0, 0] if merges.shape[0] else NULL, merges.shape[0]))
    with nogil:
        for word in range(num_words):
            lengths[word] = 0
            if offsets[word + 1] > offsets[word]:
                lengths[word] = merger.get().merge(
                    &data[offsets[word]], offsets[word + 1] - offsets[word], &symbols[total])
            total += lengths[word]
            if word % SLICE == 0:
                with gil:
                    PyErr_CheckSignals()
    return np.asarray(symbols)[:total], np.asarray(lengths)

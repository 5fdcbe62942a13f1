"""v3 with types: the same algorithm, but every symbol, count and set is a C or C++ value.

There are no typed memoryviews, and so it needs C++ containers: Python's list, dict and set hold
objects only. `list` becomes `vector`, `dict` `unordered_map`, `set` `unordered_set`, and the heap
`priority_queue`. A pair is one integer, (left id, right id). Of the heap entries, the strings break
ties: they compare as `bytes` do. It knows no other tie rule.
"""

from cython.operator cimport dereference
from libc.stdint cimport int32_t, int64_t, uint64_t
from libcpp.pair cimport pair
from libcpp.queue cimport priority_queue
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.unordered_set cimport unordered_set
from libcpp.vector cimport vector

from cs336_basics.bpe.base import BPE_Trainer

ctypedef pair[pair[int64_t, pair[string, string]], uint64_t] entry_t


class TypedHeapTrainer(BPE_Trainer):
    """v3, whose three hooks call typed code."""

    name = "heap, typed"

    def _index(self, words, counts):
        self._loop = Loop(words, counts)

    def _find_best(self):
        best = self._loop.find_best()
        self._pair_counts = {best: self._loop.best_count}
        return best

    def _apply(self, pair):
        self._loop.merge()


cdef class Loop:
    cdef vector[vector[int32_t]] splits
    cdef vector[int64_t] counts
    cdef unordered_map[uint64_t, int64_t] pair_counts
    cdef unordered_map[uint64_t, unordered_set[int32_t]] pair_words
    cdef vector[string] tokens
    cdef priority_queue[entry_t] heap
    cdef uint64_t best
    cdef readonly int64_t best_count

    def __init__(self, list words, list counts):
        cdef bytes word
        cdef vector[int32_t] split
        cdef int32_t index, byte
        for byte in range(256):
            self.tokens.push_back(bytes([byte]))
        for word in words:
            split.clear()
            for byte in word:
                split.push_back(byte & 255)  # C iterates over signed characters
            self.splits.push_back(split)
        for count in counts:
            self.counts.push_back(count)
        for index in range(<int32_t>self.splits.size()):
            self.add_pairs(index)
        for item in self.pair_counts:
            self.push(item.first)

    cdef void add_pairs(self, int32_t index) noexcept:
        cdef vector[int32_t]* symbols = &self.splits[index]
        cdef size_t i
        cdef uint64_t key
        for i in range(1, symbols.size()):
            key = key_of(symbols[0][i - 1], symbols[0][i])
            self.pair_counts[key] += self.counts[index]
            self.pair_words[key].insert(index)

    cdef void remove_pairs(self, int32_t index) noexcept:
        cdef vector[int32_t]* symbols = &self.splits[index]
        cdef size_t i
        cdef uint64_t key
        for i in range(1, symbols.size()):
            key = key_of(symbols[0][i - 1], symbols[0][i])
            self.pair_counts[key] -= self.counts[index]
            self.pair_words[key].erase(index)
            if self.pair_counts[key] == 0:
                self.pair_counts.erase(key)
                self.pair_words.erase(key)

    cdef void push(self, uint64_t key) noexcept:
        cdef entry_t entry
        entry.first.first = self.pair_counts[key]
        entry.first.second.first = self.tokens[key >> 32]
        entry.first.second.second = self.tokens[key & 0xFFFFFFFF]
        entry.second = key
        self.heap.push(entry)

    def find_best(self):
        cdef entry_t entry
        cdef int64_t count
        while not self.heap.empty():
            entry = self.heap.top()
            self.heap.pop()
            found = self.pair_counts.find(entry.second)
            count = 0
            if found != self.pair_counts.end():
                count = dereference(found).second
            if count == entry.first.first:
                self.best, self.best_count = entry.second, count
                return <bytes>entry.first.second.first, <bytes>entry.first.second.second
            if count:
                self.push(entry.second)
        return None

    cdef void _merge(self) noexcept:
        cdef int32_t left = <int32_t>(self.best >> 32), right = <int32_t>(self.best & 0xFFFFFFFF)
        cdef int32_t new_token = <int32_t>self.tokens.size(), index
        cdef unordered_set[uint64_t] new_pairs
        cdef vector[int32_t] indices, merged
        cdef vector[int32_t]* symbols
        cdef size_t i
        self.tokens.push_back(self.tokens[left] + self.tokens[right])
        for index in self.pair_words[self.best]:
            indices.push_back(index)
        for index in indices:
            self.remove_pairs(index)
            symbols = &self.splits[index]
            merged.clear()
            i = 0
            while i < symbols.size():
                if i + 1 < symbols.size() and symbols[0][i] == left and symbols[0][i + 1] == right:
                    merged.push_back(new_token)
                    i += 2
                else:
                    merged.push_back(symbols[0][i])
                    i += 1
            self.splits[index] = merged
            self.add_pairs(index)
            for i in range(1, merged.size()):
                if merged[i - 1] == new_token or merged[i] == new_token:
                    new_pairs.insert(key_of(merged[i - 1], merged[i]))
        for key in new_pairs:
            self.push(key)

    def merge(self):
        """Merge the pair that `find_best` returned."""
        self._merge()


cdef inline uint64_t key_of(int32_t left, int32_t right) noexcept:
    return (<uint64_t>left << 32) | <uint64_t>right

// LongWordMerger: merges a word of any length in time proportional to its length.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "base/failure.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/rank_lists.hpp"

namespace cs336 {

// Merges one pair at a time: the pair with the lowest rank and, for equal ranks, the leftmost.
// Every rank has a linked list of its pair's positions. A merge removes one symbol and adds at most
// two pairs, so at most three positions per byte are visited.
//
// The positions in a list are in ascending order. Until a merge crosses the edge of a token, the
// bytes of the token merge independently of their neighbors. So if the same bytes occur in two
// places, the left place is never merged later than the right one, and the pairs of the left place
// are appended first.
template <class Id>
class LongWordMerger {
  public:
    // `cancelled` is read every 65,536 steps, because a 100 MB word takes seconds.
    LongWordMerger(const MergeTable<Id>& merges, const std::atomic<bool>& cancelled)
        : merges_(merges), cancelled_(cancelled) {}

    // Write the ids of a word of bytes or symbols, which are all in the vocabulary. Returns the end
    // of the ids. Throws Cancelled or std::length_error.
    template <class Unit>
    Id* merge(const Unit* word, size_t word_length, Id* out) {
        if (word_length >= END) throw std::length_error("a pre-token must be shorter than 4 GiB");
        const uint32_t length = uint32_t(word_length);
        reserve_for_long_word(symbols_, length);
        reserve_for_long_word(spans_, length);
        reserve_for_long_word(begins_, length);
        lists_.start(merges_.size(), 3 * size_t{length});
        // Clear the lists even after an exception.
        struct Cleaner {
            LongWordMerger& merger;
            ~Cleaner() { merger.clear(); }
        } cleaner{*this};
        for (uint32_t i = 0; i < length; ++i) {
            stop_if_cancelled(i);
            symbols_.push_back(merges_.symbol(word[i]));
            spans_.push_back(1);
            begins_.push_back(1);
            if (i) append(i - 1, merges_.rank_of_units(word[i - 1], word[i]));
        }
        for (size_t done = 0; !lists_.empty(); ++done) {
            stop_if_cancelled(done);
            const uint32_t rank = lists_.lowest_rank();
            merge_pair(lists_.take_first(), rank, length);
        }
        for (uint32_t i = 0; i < length; i += spans_[i]) *out++ = symbols_[i];
        return out;
    }

  private:
    static constexpr uint32_t END = UINT32_MAX;

    // The memory for longer words is freed after use.
    static constexpr size_t MAX_KEPT = size_t{1} << 16;

    // Merge the pair of a rank at a position. An earlier merge may have removed the pair.
    void merge_pair(uint32_t position, uint32_t rank, uint32_t length) {
        if (!begins_[position]) return;
        const uint32_t right = position + spans_[position];
        if (right >= length) return;
        if (merges_.rank(symbols_[position], symbols_[right]) != rank) return;
        const uint32_t end = right + spans_[right];
        const Id merged = merges_.merged(rank);
        symbols_[position] = merged;
        // The length of a symbol is stored at its first and its last byte.
        begins_[right] = 0;
        spans_[position] = spans_[end - 1] = end - position;
        if (position > 0) {
            const uint32_t before = position - spans_[position - 1];
            append(before, merges_.rank(symbols_[before], merged));
        }
        if (end < length) append(position, merges_.rank(merged, symbols_[end]));
    }

    void append(uint32_t position, uint32_t rank) {
        if (rank != MergeTable<Id>::NO_RANK) lists_.append(position, rank);
    }

    void clear() {
        lists_.clear(MAX_KEPT);
        if (symbols_.capacity() > MAX_KEPT) {
            symbols_ = {};
            spans_ = {};
            begins_ = {};
        }
    }

    void stop_if_cancelled(size_t step) const {
        if (step % (1 << 16) == 0 && cancelled_.load(std::memory_order_relaxed)) throw Cancelled();
    }

    const MergeTable<Id>& merges_;
    const std::atomic<bool>& cancelled_;
    std::vector<Id> symbols_;
    std::vector<uint32_t> spans_;  // the length, in units, of the symbol that starts or ends here
    std::vector<uint8_t> begins_;  // whether a symbol starts at this unit
    RankLists lists_;              // of the pairs
};

}  // namespace cs336

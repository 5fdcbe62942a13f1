// WordMerger: merges one word. It repeatedly merges the adjacent pair that was learned first (the
// leftmost, if it occurs several times) until no learned pair is left (Sennrich, Haddow and Birch
// 2016; Radford et al. 2019). `tokenizer/reference.py` contains the simplest version.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/simd_level.hpp"
#include "word_merging/long_word_merger.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/short_word_merger.hpp"

namespace cs336 {

// Chooses the merger for each word.
template <class Id>
class WordMerger {
  public:
    // `merges` and `cancelled` must outlive this object. If `cancelled` is set, merging a long word
    // throws Cancelled.
    WordMerger(const MergeTable<Id>& merges, SimdLevel simd_level,
               const std::atomic<bool>& cancelled)
        : short_(merges, simd_level),
          long_(merges, cancelled),
          takes_short_(merges.size() <= MAX_NUMBERED_MERGES) {}

    // Whether WordGroupMerger supports the vocabulary.
    bool takes_groups() const { return takes_short_; }

    // Write the ids of a word of bytes or symbols, at most `length` > 0. Returns the end of the
    // ids. Throws Cancelled or std::length_error.
    template <class Unit>
    Id* merge(const Unit* word, size_t length, Id* out) {
        if (takes_short_ && length <= ShortWordMerger<Id>::MAX_LENGTH) {
            return short_.merge(word, length, out);
        }
        return long_.merge(word, length, out);
    }

  private:
    const ShortWordMerger<Id> short_;
    LongWordMerger<Id> long_;
    const bool takes_short_;
};

}  // namespace cs336

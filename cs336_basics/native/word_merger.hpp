// Merging one word: of all pairs of neighbours the one that was learned first is merged, wherever
// it occurs, until no pair is left (Sennrich, Haddow and Birch 2016; Radford et al. 2019).
// `tokenizer/reference.py` does the same in the plainest way.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "failure.hpp"
#include "long_word_merger.hpp"
#include "merge_table.hpp"
#include "short_word_merger.hpp"
#include "simd/dispatch.hpp"

namespace cs336 {

// Thrown where the vocabulary lacks a byte of the text.
struct AbsentByte {
    const uint8_t* byte;  // in the text
};

// Chooses between the two mergers, and cuts long words where no merge can join.
template <class Id>
class WordMerger {
  public:
    // `merges` and `cancelled` must outlive this object. While `cancelled` is set, merging a long
    // word throws Cancelled.
    WordMerger(const MergeTable<Id>& merges, SimdLevel simd_level,
               const std::atomic<bool>& cancelled)
        : merges_(merges),
          cancelled_(cancelled),
          short_(merges, simd_level),
          long_(merges, cancelled),
          takes_short_(merges.in_order() && merges.size() < ShortWordMerger<Id>::MAX_MERGES) {}

    // Write the ids of a pre-token, at most `length` > 0 of them; returns their end. Throws
    // AbsentByte, Cancelled.
    Id* merge(const uint8_t* word, size_t length, Id* out) {
        if (!merges_.has_all_bytes()) {
            for (size_t i = 0; i < length; ++i) {
                if (merges_.byte_id(word[i]) == ABSENT_ID) throw AbsentByte{word + i};
            }
        }
        if (length <= 16) return merge_segment(word, length, out);
        // A long word mostly falls into segments that no merge can join.
        size_t start = 0;
        for (size_t i = 1; i < length; ++i) {
            if (i % (1 << 16) == 0 && cancelled_.load(std::memory_order_relaxed)) {
                throw Cancelled();
            }
            if (merges_.joins(word[i - 1], word[i])) continue;
            out = merge_segment(word + start, i - start, out);
            start = i;
        }
        return merge_segment(word + start, length - start, out);
    }

  private:
    Id* merge_segment(const uint8_t* word, size_t length, Id* out) {
        if (takes_short_ && length <= ShortWordMerger<Id>::MAX_LENGTH) {
            return short_.merge(word, length, out);
        }
        return long_.merge(word, length, out);
    }

    const MergeTable<Id>& merges_;
    const std::atomic<bool>& cancelled_;
    const ShortWordMerger<Id> short_;
    LongWordMerger<Id> long_;
    const bool takes_short_;
};

}  // namespace cs336

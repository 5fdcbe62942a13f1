// StartingMerges: applies the merges of an existing vocabulary to the words in new text.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "base/simd_level.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/word_merger.hpp"

namespace cs336 {

// Symbols are ids: 0 to 255 for the bytes, then one for each distinct merged token. In every word,
// the pair with the lowest rank is merged first and, for equal ranks, the leftmost.
class StartingMerges {
  public:
    // `merges` has three ids for every rank: left, right, merged. Throws std::length_error.
    explicit StartingMerges(const std::vector<uint32_t>& merges)
        : table_(byte_symbols().data(), merges.data(), merges.size() / 3),
          merger_(table_, best_simd_level(), cancelled_) {}

    // Write the symbols of a word, at most `length` > 0. Returns their number.
    int64_t merge(const uint8_t* word, size_t length, uint32_t* out) {
        return merger_.merge(word, length, out) - out;
    }

  private:
    static std::vector<uint32_t> byte_symbols() {
        std::vector<uint32_t> symbols(256);
        std::iota(symbols.begin(), symbols.end(), 0);
        return symbols;
    }

    const std::atomic<bool> cancelled_{false};
    const MergeTable<uint32_t> table_;
    WordMerger<uint32_t> merger_;
};

}  // namespace cs336

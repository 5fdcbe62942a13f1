// StartingMerges: applies the merges of an existing vocabulary to the words in new text.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "merging/byte_pairs.hpp"
#include "merging/pair_table.hpp"

namespace cs336 {

// Symbols are ids: 0 to 255 for the bytes, then one for each distinct merged token. In every word,
// the pair with the lowest rank is merged first and, for equal ranks, the leftmost.
class StartingMerges {
  public:
    // `merges` has three ids for every rank: left, right, merged.
    explicit StartingMerges(const std::vector<uint32_t>& merges)
        : byte_ranks_(BytePairs::NUM_PAIRS, NO_PAIR) {
        for (size_t i = 0; i + 2 < merges.size(); i += 3) {
            const uint32_t left = merges[i], right = merges[i + 1];
            const PairId rank = ranks_.add(left, right, 0);
            if (left < 256 && right < 256) byte_ranks_[BytePairs::index_of(left, right)] = rank;
            merged_.push_back(merges[i + 2]);
        }
    }

    // Write the symbols of a word, at most `length` > 0. Returns their number.
    int64_t merge(const uint8_t* word, size_t length, uint32_t* out) const {
        std::copy(word, word + length, out);
        const bool is_short = length <= SHORT && merged_.size() <= MOST_NUMBERED;
        return is_short ? merge_short(out, length) : merge_long(out, length);
    }

  private:
    static constexpr size_t SHORT = 64;  // bits of a mask
    static constexpr uint32_t UNRANKED = UINT32_MAX;
    static constexpr size_t MOST_NUMBERED = UNRANKED / SHORT;

    // The rank of a pair; NO_PAIR, which is above all ranks, if no merge has this pair.
    PairId rank(uint32_t left, uint32_t right) const {
        if (left < 256 && right < 256) return byte_ranks_[BytePairs::index_of(left, right)];
        return ranks_.find(PairTable::key_of(left, right));
    }

    // Search all pairs of the word for the lowest rank, without branches. A number combines the
    // rank of a pair with its position, and so orders pairs as they are merged.
    int64_t merge_short(uint32_t* symbols, size_t size) const {
        uint32_t numbers[SHORT];
        uint64_t begins = ~uint64_t{0} >> (64 - size);  // a mask of the bytes that begin a symbol
        const auto number = [&](uint32_t left, uint32_t right) {
            const PairId found = rank(symbols[left], symbols[right]);
            return found == NO_PAIR ? UNRANKED : found * uint32_t{SHORT} + left;
        };
        for (uint32_t i = 0; i + 1 < size; ++i) numbers[i] = number(i, i + 1);
        while (true) {
            uint32_t lowest = UNRANKED;
            for (size_t i = 0; i + 1 < size; ++i) lowest = std::min(lowest, numbers[i]);
            if (lowest == UNRANKED) break;
            const uint32_t i = lowest % SHORT;
            symbols[i] = merged_[lowest / SHORT];
            uint64_t after = begins & ~((uint64_t{2} << i) - 1);
            const uint32_t gone = uint32_t(lowest_bit(after));
            begins ^= uint64_t{1} << gone;
            numbers[gone] = UNRANKED;
            after &= after - 1;
            numbers[i] = after ? number(i, uint32_t(lowest_bit(after))) : UNRANKED;
            const uint64_t before = begins & ((uint64_t{1} << i) - 1);
            if (before) {
                const uint32_t left = uint32_t(highest_bit(before));
                numbers[left] = number(left, i);
            }
        }
        uint32_t* end = symbols;
        for (; begins; begins &= begins - 1) *end++ = symbols[lowest_bit(begins)];
        return end - symbols;
    }

    // Keep the pairs in a heap, and link each symbol to its neighbors.
    int64_t merge_long(uint32_t* symbols, size_t size) const {
        constexpr uint32_t GONE = UINT32_MAX;  // the symbol was merged into the one before it
        using Entry = std::pair<PairId, Position>;  // rank and position of a pair; may be stale
        std::vector<Entry> entries;
        std::vector<Position> previous(size), next(size);
        for (Position i = 0; i < size; ++i) {
            previous[i] = i - 1;  // not used at the start
            next[i] = i + 1;
            if (i + 1 == size) break;
            const PairId found = rank(symbols[i], symbols[i + 1]);
            if (found != NO_PAIR) entries.emplace_back(found, i);
        }
        std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> heap(
            std::greater<Entry>(), std::move(entries));
        const auto push = [&](Position i) {
            if (next[i] == size) return;
            const PairId found = rank(symbols[i], symbols[next[i]]);
            if (found != NO_PAIR) heap.emplace(found, i);
        };
        while (!heap.empty()) {
            const auto [lowest, i] = heap.top();
            heap.pop();
            if (symbols[i] == GONE || next[i] == size) continue;
            if (rank(symbols[i], symbols[next[i]]) != lowest) continue;
            symbols[i] = merged_[lowest];
            symbols[next[i]] = GONE;
            next[i] = next[next[i]];
            if (next[i] < size) previous[next[i]] = i;
            push(i);
            if (i > 0) push(previous[i]);
        }
        return std::remove(symbols, symbols + size, GONE) - symbols;
    }

    PairTable ranks_;  // the id of a pair is its rank
    std::vector<PairId> byte_ranks_;
    std::vector<uint32_t> merged_;  // by rank
};

}  // namespace cs336

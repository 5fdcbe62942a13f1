// PairSums: upper bounds for the counts of all pairs, in a small table.
//
// Most pairs are too rare to be merged, and a table of all pairs would be large. This table has no
// keys, so several pairs may share a slot. The sum of a slot is never too low for any of its pairs:
// if it is below the threshold, all of them can be ignored.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/compiler.hpp"
#include "base/memory.hpp"

namespace cs336 {

class PairSums {
  public:
    // A table for `num_pairs` occurrences of pairs. `num_wanted` of the pairs are wanted, and
    // `num_tables` such tables are in memory together. The others add about num_pairs / 2^bits to
    // each sum. In real text, this is far less than the counts of the wanted pairs if there are 256
    // slots for each, however long the text is.
    PairSums(size_t num_pairs, size_t num_wanted, size_t num_tables) {
        const size_t num_slots = std::min(num_pairs / 2, SLOTS_OF_A_PAIR * num_wanted);
        while (bits_ < MAX_BITS && size_t{1} << bits_ < num_slots &&
               num_tables << bits_ < MAX_SLOTS) {
            ++bits_;
        }
    }

    // Allocate the table. Call this in the thread that uses it.
    void start() {
        sums_.reserve(size_t{1} << bits_);
        ask_for_huge_pages(sums_.data(), (size_t{1} << bits_) * sizeof(uint32_t));
        sums_.resize(size_t{1} << bits_);
    }

    // Add to the count of a pair, by its hash. Sums above MOST are stored as MOST.
    CS336_INLINE void add(uint64_t hash, int64_t count) {
        uint32_t& sum = sums_[hash >> (64 - bits_)];
        sum = uint32_t(std::min<uint64_t>(MOST, sum + uint64_t(count)));
    }

    // Add a table of the same size, which is emptied.
    void add_all(PairSums& other) {
        for (size_t i = 0; i < sums_.size(); ++i) {
            sums_[i] = uint32_t(std::min<uint64_t>(MOST, uint64_t{sums_[i]} + other.sums_[i]));
        }
        other.sums_ = {};
    }

    // The highest sum. It is at least the count of any pair, or MOST.
    int64_t most() const { return *std::max_element(sums_.begin(), sums_.end()); }

    // The sum with a rank, 0 for the highest one; 0 if there are fewer slots. It is at least the
    // count of the pair with this rank, or MOST.
    int64_t of_rank(size_t rank) const {
        if (rank >= sums_.size()) return 0;
        std::vector<uint32_t> sums = sums_;
        std::nth_element(sums.begin(), sums.begin() + ptrdiff_t(rank), sums.end(),
                         std::greater<uint32_t>());
        return sums[rank];
    }

    // Replace the sums with a bit each: whether the sum reaches a threshold.
    void keep_reaching(int64_t threshold) {
        const auto least = uint32_t(std::min<int64_t>(MOST, threshold));
        reaching_.assign((sums_.size() + 63) / 64, 0);
        for (size_t i = 0; i < sums_.size(); ++i) {
            reaching_[i / 64] |= uint64_t(sums_[i] >= least) << i % 64;
        }
        sums_ = {};
    }

    // Whether a pair may reach the threshold, by its hash.
    CS336_INLINE bool may_reach_threshold(uint64_t hash) const {
        const uint64_t slot = hash >> (64 - bits_);
        return reaching_[slot / 64] >> slot % 64 & 1;
    }

  private:
    static constexpr uint32_t MOST = UINT32_MAX;
    static constexpr size_t SLOTS_OF_A_PAIR = 256;
    static constexpr int MAX_BITS = 24;
    static constexpr size_t MAX_SLOTS = size_t{1} << 27;  // of all tables: 512 MiB

    int bits_ = 16;
    std::vector<uint32_t> sums_;
    std::vector<uint64_t> reaching_;
};

}  // namespace cs336

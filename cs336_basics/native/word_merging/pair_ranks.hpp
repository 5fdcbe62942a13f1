// PairRanks: the ranks of id pairs, in a perfect hash table.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/compiler.hpp"
#include "base/hashing.hpp"

namespace cs336 {

// An immutable hash table without collisions: a lookup reads one slot and does not branch. With
// linear probing, most lookups would cost a mispredicted branch, because the CPU cannot predict
// whether the pairs of a new word have ranks.
//
// The method is "hash and displace" (Belazzougui, Botelho and Dietzfelbinger 2009). A first hash
// maps pairs to buckets with two or three pairs on average. Each bucket has a factor, found by
// trial, with which a second hash maps its pairs to free slots. The largest buckets are placed
// first. `Pair` is an unsigned integer type. Threads can share the table.
template <class Pair>
class PairRanks {
  public:
    static constexpr uint32_t NO_RANK = UINT32_MAX;

    // `pairs` is ordered by rank. If a pair occurs more than once, its lowest rank is used.
    PairRanks(const std::vector<Pair>& pairs, HashSeed seed) {
        bits_ = 4;
        while ((size_t{1} << bits_) < pairs.size() + pairs.size() / 4) ++bits_;
        // In rare cases, no factor works for a bucket. In that case, try other
        // multipliers.
        for (int attempt = 1; !place(pairs, seed); ++attempt) {
            seed = hash_seed_of(seed.block);
            if (attempt % 2 == 0) ++bits_;
        }
    }

    struct Slot {
        Pair pair;
        uint32_t rank;  // NO_RANK: the slot is empty
    };

    // The only slot that can contain the pair.
    CS336_INLINE const Slot& slot(Pair pair) const {
        return slots_[slot_of(pair, factors_[bucket_of(pair)])];
    }
    // The rank of a pair from its slot; NO_RANK if the pair has no rank.
    static CS336_INLINE uint32_t rank(Pair pair, const Slot& slot) {
        return slot.rank | (uint32_t{0} - uint32_t(slot.pair != pair));
    }

  private:
    // Multiply by a random odd number. For any two pairs, the highest n bits are equal with a
    // probability of at most 2^(1 - n) (Dietzfelbinger et al. 1997).
    size_t bucket_of(Pair pair) const {
        return (uint64_t(pair) * bucket_multiplier_) >> (64 - bits_ + 2);
    }
    size_t slot_of(Pair pair, uint32_t factor) const {
        // Without the addend, pair 0 would have slot 0 for every factor, and slot 0 may be taken.
        return ((uint64_t(pair) * slot_multiplier_ + addend_) * factor) >> (64 - bits_);
    }

    // Fill the table. Returns false if no factor works for a bucket.
    bool place(const std::vector<Pair>& pairs, const HashSeed& seed) {
        bucket_multiplier_ = seed.multiplier;
        slot_multiplier_ = seed.low | 1;
        addend_ = seed.high;
        const size_t num_buckets = size_t{1} << (bits_ - 2);
        slots_.assign(size_t{1} << bits_, Slot{0, NO_RANK});
        factors_.assign(num_buckets, 1);
        // The ranks of bucket b are ranks[starts[b]] to ranks[starts[b + 1] - 1], in ascending
        // order.
        std::vector<uint32_t> starts(num_buckets + 1), ranks(pairs.size());
        for (const Pair pair : pairs) ++starts[bucket_of(pair) + 1];
        const uint32_t largest = *std::max_element(starts.begin(), starts.end());
        std::vector<std::vector<uint32_t>> of_size(largest + 1);  // buckets
        for (size_t bucket = 0; bucket < num_buckets; ++bucket) {
            of_size[starts[bucket + 1]].push_back(uint32_t(bucket));
            starts[bucket + 1] += starts[bucket];
        }
        std::vector<uint32_t> next(starts.begin(), starts.end() - 1);
        for (size_t rank = 0; rank < pairs.size(); ++rank) {
            ranks[next[bucket_of(pairs[rank])]++] = uint32_t(rank);
        }
        for (uint32_t size = largest; size > 0; --size) {
            for (const uint32_t bucket : of_size[size]) {
                if (!place_bucket(pairs, &ranks[starts[bucket]], size, factors_[bucket])) {
                    return false;
                }
            }
        }
        return true;
    }

    // Find the odd factor of a bucket and fill the slots of its pairs.
    bool place_bucket(const std::vector<Pair>& pairs, const uint32_t* ranks, uint32_t size,
                      uint16_t& factor) {
        for (uint32_t tried = 1; tried <= UINT16_MAX; tried += 2) {
            uint32_t placed = 0;
            for (; placed < size; ++placed) {
                const Pair pair = pairs[ranks[placed]];
                Slot& slot = slots_[slot_of(pair, tried)];
                if (slot.rank == NO_RANK) {
                    slot = {pair, ranks[placed]};
                } else if (slot.pair != pair) {
                    break;
                }
            }
            if (placed == size) {
                factor = uint16_t(tried);
                return true;
            }
            while (placed > 0) slots_[slot_of(pairs[ranks[--placed]], tried)] = {0, NO_RANK};
        }
        return false;
    }

    int bits_;
    uint64_t bucket_multiplier_, slot_multiplier_, addend_;
    std::vector<uint16_t> factors_;  // of the buckets
    std::vector<Slot> slots_;
};

}  // namespace cs336

// MergeTable: finds the rank of a pair and the merged id of a rank.

#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "base/compiler.hpp"
#include "base/hashing.hpp"
#include "word_merging/pair_ranks.hpp"

namespace cs336 {

// Maps (left id, right id) to a rank, and a rank to its merged id. If all ids fit, `Id` is
// uint16_t, which halves the size of the table so that it stays in the L2 cache. The table is
// immutable, so threads can share it.
template <class Id>
class MergeTable {
    using Pair = typename std::conditional<sizeof(Id) == 2, uint32_t, uint64_t>::type;

  public:
    static constexpr uint32_t NO_RANK = PairRanks<uint32_t>::NO_RANK;

    // `byte_ids` has the id of each byte. `merges` has three ids for every rank: left, right,
    // merged. Throws std::length_error.
    MergeTable(const uint32_t* byte_ids, const uint32_t* merges, size_t num_merges,
               const HashSeed& seed = process_hash_seed())
        : ranks_(pairs_of(merges, num_merges), seed) {
        for (int byte = 0; byte < 256; ++byte) byte_ids_[byte] = Id(byte_ids[byte]);
        merged_.resize(num_merges);
        for (size_t rank = 0; rank < num_merges; ++rank) {
            merged_[rank] = Id(merges[3 * rank + 2]);
            consecutive_ &= merged_[rank] == Id(merged_[0] + rank);
        }
        if (num_merges) first_merged_ = merged_[0];
        byte_ranks_.resize(1 << 16);
        for (int left = 0; left < 256; ++left) {
            for (int right = 0; right < 256; ++right) {
                byte_ranks_[left << 8 | right] = rank(byte_ids_[left], byte_ids_[right]);
            }
        }
    }

    // The rank of a pair; NO_RANK if no merge has this pair.
    CS336_INLINE uint32_t rank(Id left, Id right) const { return find(left, right).rank(); }

    // `rank` in two steps: `find` computes the slot of a pair, and `Found::rank` reads it later.
    struct Found {
        Pair pair;
        const typename PairRanks<Pair>::Slot* slot;
        CS336_INLINE uint32_t rank() const { return PairRanks<Pair>::rank(pair, *slot); }
    };
    CS336_INLINE Found find(Id left, Id right) const {
        const Pair pair = pair_of(left, right);
        return {pair, &ranks_.slot(pair)};
    }

    Id merged(uint32_t rank) const {
        return consecutive_ ? Id(first_merged_ + rank) : merged_[rank];
    }
    Id byte_id(uint8_t byte) const { return byte_ids_[byte]; }
    uint32_t byte_rank(uint8_t left, uint8_t right) const {
        return byte_ranks_[size_t(left) << 8 | right];
    }
    size_t size() const { return merged_.size(); }

    // A word consists of bytes, or of symbols that earlier merges made: the symbol of a unit, and
    // the rank of two.
    Id symbol(uint8_t byte) const { return byte_id(byte); }
    Id symbol(Id id) const { return id; }
    uint32_t rank_of_units(uint8_t left, uint8_t right) const { return byte_rank(left, right); }
    uint32_t rank_of_units(Id left, Id right) const { return rank(left, right); }

  private:
    static Pair pair_of(Id left, Id right) { return Pair(left) << (8 * sizeof(Id)) | right; }

    static std::vector<Pair> pairs_of(const uint32_t* merges, size_t num_merges) {
        if (num_merges >= NO_RANK) throw std::length_error("too many merges");
        std::vector<Pair> pairs(num_merges);
        for (size_t rank = 0; rank < num_merges; ++rank) {
            pairs[rank] = pair_of(Id(merges[3 * rank]), Id(merges[3 * rank + 1]));
        }
        return pairs;
    }

    const PairRanks<Pair> ranks_;
    Id byte_ids_[256];
    std::vector<Id> merged_;
    // Whether the merged ids are consecutive, as after training. If so, `merged` need not read
    // `merged_`.
    bool consecutive_ = true;
    Id first_merged_ = 0;
    std::vector<uint32_t> byte_ranks_;
};

}  // namespace cs336

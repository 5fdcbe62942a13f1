// The merges of a vocabulary, made ready for looking up pairs.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "compiler.hpp"
#include "hashing.hpp"
#include "id_map.hpp"
#include "join_filter.hpp"

namespace cs336 {

// Stands for the id of a byte that the vocabulary lacks.
constexpr uint32_t ABSENT_ID = UINT32_MAX;

// (left id, right id) -> rank, as a flat hash table; rank -> merged id. `Id` is uint16_t where all
// ids fit, which halves the table: it should stay in the L2 cache. Immutable, so threads share it.
template <class Id>
class MergeTable {
  public:
    static constexpr uint32_t NO_RANK = UINT32_MAX;

    // `byte_ids`: 256 ids, ABSENT_ID for a byte that the vocabulary lacks. `merges`: three ids for
    // every rank: left, right, merged. Throws std::length_error.
    MergeTable(const uint32_t* byte_ids, const uint32_t* merges, size_t num_merges,
               const HashSeed& seed = process_hash_seed())
        : multiplier_(seed.multiplier),
          joins_(byte_ids, merges, num_merges, ABSENT_ID, seed.multiplier) {
        if (num_merges >= NO_RANK) throw std::length_error("too many merges");
        std::copy(byte_ids, byte_ids + 256, byte_ids_);
        has_all_bytes_ = std::find(byte_ids, byte_ids + 256, ABSENT_ID) == byte_ids + 256;
        // At most four fifths full: a table of half the size, which more often is in the L2 cache,
        // gains more than a longer search in it costs.
        bits_ = 4;
        while ((size_t{1} << bits_) < num_merges + num_merges / 4) ++bits_;
        slots_.assign(size_t{1} << bits_, Slot{0, NO_RANK});
        merged_.resize(num_merges);
        for (size_t rank = 0; rank < num_merges; ++rank) {
            insert(pair_of(Id(merges[3 * rank]), Id(merges[3 * rank + 1])), uint32_t(rank));
            merged_[rank] = Id(merges[3 * rank + 2]);
            consecutive_ &= merged_[rank] == Id(merged_[0] + rank);
        }
        if (num_merges) first_merged_ = merged_[0];
        in_order_ = ranks_grow(merges, num_merges);
        byte_ranks_.resize(1 << 16);
        for (int left = 0; left < 256; ++left) {
            for (int right = 0; right < 256; ++right) {
                const bool known = byte_ids_[left] != ABSENT_ID && byte_ids_[right] != ABSENT_ID;
                byte_ranks_[left << 8 | right] =
                    known ? rank(Id(byte_ids_[left]), Id(byte_ids_[right])) : NO_RANK;
            }
        }
    }

    // The rank of a pair; NO_RANK if it is not merged.
    uint32_t rank(Id left, Id right) const {
        const Pair pair = pair_of(left, right);
        const uint64_t hashed = hash(pair);
        CS336_PREFETCH(&slots_[hashed >> (64 - bits_)]);  // before the filter is read
        const uint64_t bit = filter_bit(hashed);
        if (!(filter_[bit >> 6] >> (bit & 63) & 1)) return NO_RANK;
        for (size_t slot = hashed >> (64 - bits_);; slot = (slot + 1) & mask()) {
            const Slot& found = slots_[slot];
            if (found.pair == pair || found.rank == NO_RANK) return found.rank;
        }
    }

    Id merged(uint32_t rank) const {
        return consecutive_ ? Id(first_merged_ + rank) : merged_[rank];
    }
    uint32_t byte_id(uint8_t byte) const { return byte_ids_[byte]; }
    uint32_t byte_rank(uint8_t left, uint8_t right) const {
        return byte_ranks_[size_t(left) << 8 | right];
    }
    const JoinFilter& joins() const { return joins_; }
    bool has_all_bytes() const { return has_all_bytes_; }
    size_t size() const { return merged_.size(); }

    // Whether every merge was learned after those that make its two tokens, as in all vocabularies
    // that come from training. Then a merge never makes a pair of a lower rank than its own, and
    // pairs can be merged one by one, the lowest rank first and of equal ones the leftmost.
    bool in_order() const { return in_order_; }

  private:
    using Pair = typename std::conditional<sizeof(Id) == 2, uint32_t, uint64_t>::type;
    struct Slot {
        Pair pair;
        uint32_t rank;  // NO_RANK: the slot is empty
    };

    static Pair pair_of(Id left, Id right) { return Pair(left) << (8 * sizeof(Id)) | right; }

    size_t mask() const { return slots_.size() - 1; }

    // Multiplication by a random odd number: for any two pairs the highest n bits are equal with a
    // probability of at most 2^(1 - n) (Dietzfelbinger et al. 1997).
    uint64_t hash(Pair pair) const { return uint64_t(pair) * multiplier_; }

    // Most pairs that are looked up have no rank. A bit for each possible hash identifies most of
    // them from a few kilobytes, so that the table need not be read.
    static constexpr int FILTER_BITS = 18;
    static uint64_t filter_bit(uint64_t hashed) { return hashed << 20 >> (64 - FILTER_BITS); }

    void insert(Pair pair, uint32_t rank) {
        const uint64_t hashed = hash(pair);
        size_t slot = hashed >> (64 - bits_);
        while (slots_[slot].rank != NO_RANK) slot = (slot + 1) & mask();
        slots_[slot] = {pair, rank};
        const uint64_t bit = filter_bit(hashed);
        filter_[bit >> 6] |= uint64_t{1} << (bit & 63);
    }

    bool ranks_grow(const uint32_t* merges, size_t num_merges) const {
        if (num_merges == 0) return true;
        const uint32_t greatest = *std::max_element(merges, merges + 3 * num_merges);
        IdMap<uint32_t> last_made(3 * num_merges, greatest, multiplier_);  // the last rank
        for (size_t rank = 0; rank < num_merges; ++rank) {
            last_made.replace(merges[3 * rank + 2], uint32_t(rank));
        }
        for (size_t rank = 0; rank < num_merges; ++rank) {
            for (int side = 0; side < 2; ++side) {
                const uint32_t* const made = last_made.find(merges[3 * rank + side]);
                if (made && *made >= rank) return false;
            }
        }
        return true;
    }

    const uint64_t multiplier_;
    const JoinFilter joins_;
    uint32_t byte_ids_[256];
    bool has_all_bytes_;
    int bits_;
    std::vector<Slot> slots_;
    std::vector<Id> merged_;
    // Whether each merged id is one more than the one before, as after training: then it is known
    // without reading `merged_`.
    bool consecutive_ = true;
    Id first_merged_ = 0;
    std::vector<uint32_t> byte_ranks_;
    uint64_t filter_[(size_t{1} << FILTER_BITS) / 64] = {};
    bool in_order_;
};

}  // namespace cs336

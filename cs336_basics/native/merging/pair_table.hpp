// PairTable: a hash table of the token pairs that may be merged, with counts and postings.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/hashing.hpp"
#include "merging/postings.hpp"

namespace cs336 {

using PairId = uint32_t;
constexpr PairId NO_PAIR = UINT32_MAX;

struct Pair {
    int64_t count;
    uint32_t left, right;
    Position* postings;  // ascending
    uint32_t num_postings;
};

// Stores pairs by id and maps (left, right) to the id, with open addressing.
class PairTable {
  public:
    static uint64_t key_of(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

    explicit PairTable(const HashSeed& seed = process_hash_seed()) : seed_(seed) {}

    // The hash of a pair; its highest bits choose the slot.
    uint64_t hash(uint64_t key) const {
        return hash_pair(seed_, uint32_t(key >> 32), uint32_t(key));
    }

    size_t size() const { return pairs_.size(); }
    Pair& operator[](size_t id) { return pairs_[id]; }
    const Pair& operator[](size_t id) const { return pairs_[id]; }
    std::vector<Pair>::iterator begin() { return pairs_.begin(); }
    std::vector<Pair>::iterator end() { return pairs_.end(); }
    std::vector<Pair>::const_iterator begin() const { return pairs_.begin(); }
    std::vector<Pair>::const_iterator end() const { return pairs_.end(); }

    // The address of a pair's slot, to prefetch it before `find` or `add`.
    const void* slot_of(uint64_t key) const { return &slots_[hash(key) >> shift_]; }

    // The id of a pair; NO_PAIR if it is not in the table.
    PairId find(uint64_t key) const {
        const size_t mask = slots_.size() - 1;
        for (size_t i = hash(key) >> shift_;; i = (i + 1) & mask) {
            if (slots_[i].pair == NO_PAIR || slots_[i].key == key) return slots_[i].pair;
        }
    }

    // Add a pair that is not in the table, without postings. Returns its id.
    PairId add(uint32_t left, uint32_t right, int64_t count) {
        // Growing when the table is half full is slower: more slots do not fit into the caches.
        if (3 * pairs_.size() >= 2 * slots_.size()) resize(2 * slots_.size());
        const PairId id = PairId(pairs_.size());
        pairs_.push_back({count, left, right, nullptr, 0});
        insert(id);
        return id;
    }

    // Make room for about as many pairs, so that the slots need not grow step by step. The pairs
    // get room for more, since room that stays empty is never loaded.
    void reserve(size_t num_pairs) {
        size_t num_slots = slots_.size();
        while (num_slots < 2 * num_pairs) num_slots *= 2;
        if (num_slots > slots_.size()) resize(num_slots);
        pairs_.reserve(4 * num_pairs);
    }

    void clear() {
        pairs_.clear();
        resize(FIRST_SLOTS);
    }

    // Remove the pairs with counts below `count`. The remaining pairs get new ids.
    void remove_below(int64_t count) {
        pairs_.erase(std::remove_if(pairs_.begin(), pairs_.end(),
                                    [&](const Pair& pair) { return pair.count < count; }),
                     pairs_.end());
        size_t num_slots = FIRST_SLOTS;
        while (num_slots < 4 * pairs_.size()) num_slots *= 2;
        resize(num_slots);
    }

  private:
    static constexpr size_t FIRST_SLOTS = 1 << 12;

    struct Slot {
        uint64_t key = 0;
        PairId pair = NO_PAIR;  // NO_PAIR: the slot is empty
    };

    void resize(size_t num_slots) {  // a power of two
        slots_.assign(num_slots, Slot{});
        shift_ = 64;
        while (num_slots >>= 1) --shift_;
        for (size_t id = 0; id < pairs_.size(); ++id) insert(PairId(id));
    }

    void insert(PairId id) {
        const uint64_t key = key_of(pairs_[id].left, pairs_[id].right);
        const size_t mask = slots_.size() - 1;
        size_t i = hash(key) >> shift_;
        while (slots_[i].pair != NO_PAIR) i = (i + 1) & mask;
        slots_[i] = {key, id};
    }

    const HashSeed seed_;
    std::vector<Pair> pairs_;
    std::vector<Slot> slots_ = std::vector<Slot>(FIRST_SLOTS);
    int shift_ = 64 - 12;
};

}  // namespace cs336

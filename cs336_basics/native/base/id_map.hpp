// IdMap: a map from token ids to values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace cs336 {

struct SeededIdHash {
    uint64_t multiplier;
    size_t operator()(uint32_t id) const { return size_t(id * multiplier >> 32); }
};

// An array indexed by id if the ids are dense, as in nearly every vocabulary. Otherwise, a hash
// table with a secret multiplier, because a hostile file could contain ids chosen to collide.
template <class Value>
class IdMap {
  public:
    // Create an empty map for `num_ids` ids up to `max_id`.
    IdMap(size_t num_ids, uint32_t max_id, uint64_t multiplier)
        : sparse_(0, SeededIdHash{multiplier}) {
        if (max_id / 8 <= num_ids) {
            values_.resize(size_t(max_id) + 1);
            known_.resize(size_t(max_id) + 1);
        }
    }

    const Value* find(uint32_t id) const {
        if (!known_.empty()) return known_[id] ? &values_[id] : nullptr;
        const auto found = sparse_.find(id);
        return found == sparse_.end() ? nullptr : &found->second;
    }

    // Returns false if the id already has a value.
    bool insert(uint32_t id, const Value& value) {
        if (known_.empty()) return sparse_.emplace(id, value).second;
        if (known_[id]) return false;
        known_[id] = 1;
        values_[id] = value;
        return true;
    }

  private:
    std::vector<Value> values_;
    std::vector<uint8_t> known_;
    std::unordered_map<uint32_t, Value, SeededIdHash> sparse_;
};

}  // namespace cs336

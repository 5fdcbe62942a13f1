// The lazy heap that finds the most frequent pair, ties by the tie rule.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "pair_table.hpp"
#include "token_bytes.hpp"

namespace cs336 {

// Every pair is pushed once, with its count at that time. Counts only fall afterwards, so an entry
// never ranks too low: where the count on top is stale, the entry goes back with the current one.
class PairHeap {
  public:
    // Both arguments must outlive this object.
    PairHeap(const PairTable& pairs, const TokenBytes& tokens)
        : pairs_(pairs), tokens_(tokens), merged_after_{pairs, tokens} {}

    // Start again with all pairs of the table.
    void rebuild() {
        entries_.clear();
        for (size_t id = 0; id < pairs_.size(); ++id) entries_.push_back(entry(PairId(id)));
        std::make_heap(entries_.begin(), entries_.end(), merged_after_);
    }

    // The number of entries popped and of new pairs pushed since the last call; for the trace.
    int64_t take_num_entries() { return std::exchange(num_entries_, 0); }

    void push(PairId id) {
        ++num_entries_;
        entries_.push_back(entry(id));
        std::push_heap(entries_.begin(), entries_.end(), merged_after_);
    }

    // Take the best pair; NO_PAIR if none occurs `least` times.
    PairId pop_best(int64_t least) {
        while (!entries_.empty()) {
            ++num_entries_;
            std::pop_heap(entries_.begin(), entries_.end(), merged_after_);
            Entry& top = entries_.back();
            const PairId pair = top.pair;
            const int64_t count = pairs_[pair].count;
            if (count == top.count) {
                entries_.pop_back();
                return pair;
            }
            if (count < least) {
                entries_.pop_back();
            } else {
                top.count = count;
                std::push_heap(entries_.begin(), entries_.end(), merged_after_);
            }
        }
        return NO_PAIR;
    }

  private:
    struct Entry {
        int64_t count;     // when it was pushed
        uint64_t tie_key;  // of the left token
        PairId pair;
    };

    // The order for which the standard algorithms keep the best pair on top.
    struct MergedAfter {
        const PairTable& pairs;
        const TokenBytes& tokens;

        bool operator()(const Entry& one, const Entry& other) const {
            if (one.count != other.count) return one.count < other.count;
            if (one.tie_key != other.tie_key) return one.tie_key < other.tie_key;
            const Pair &p = pairs[one.pair], &q = pairs[other.pair];
            if (p.left != q.left) return tokens.compare(p.left, q.left) < 0;
            return tokens.compare(p.right, q.right) < 0;
        }
    };

    Entry entry(PairId id) const {
        return {pairs_[id].count, tokens_.tie_key(pairs_[id].left), id};
    }

    const PairTable& pairs_;
    const TokenBytes& tokens_;
    const MergedAfter merged_after_;
    std::vector<Entry> entries_;
    int64_t num_entries_ = 0;
};

}  // namespace cs336

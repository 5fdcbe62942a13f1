// PairHeap: a lazy heap that finds the most frequent pair and applies the tie rule.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "merging/pair_table.hpp"
#include "merging/token_bytes.hpp"

namespace cs336 {

// Every pair is pushed once, with its current count. After that, its count can only fall, so an
// entry never ranks too low. If the top entry's count is stale, the entry is put back with the new
// count.
//
// Most pairs are far too rare to be merged next. They wait in buckets of pairs with similar counts.
// The heap contains only the pairs in the highest bucket, which are few enough to fit in the L2
// cache. When the heap is empty, it is filled from the next bucket. A single heap of all pairs
// would take four to eight times as long.
//
// `Counts` returns the count of a pair in the table; see TotalCounts.
template <class Counts>
class PairHeapOf {
  public:
    // All arguments must outlive this object.
    PairHeapOf(const PairTable& pairs, const TokenBytes& tokens, Counts counts)
        : pairs_(pairs), tokens_(tokens), count_of_(counts), merged_after_{pairs, tokens} {}

    // Replace the contents with all pairs in the table.
    void rebuild() {
        entries_.clear();
        for (std::vector<PairId>& bucket : buckets_) bucket.clear();
        current_ = NUM_BUCKETS;
        for (size_t id = 0; id < pairs_.size(); ++id) put(PairId(id));
    }

    // The number of entries popped and new pairs pushed since the last call; for the trace.
    int64_t take_num_entries() { return std::exchange(num_entries_, 0); }

    void push(PairId id) {
        ++num_entries_;
        put(id);
    }

    // Remove and return the best pair; NO_PAIR if no pair has a count of at least `least`.
    PairId pop_best(int64_t least) {
        do {
            while (!entries_.empty()) {
                ++num_entries_;
                std::pop_heap(entries_.begin(), entries_.end(), merged_after_);
                const Entry top = entries_.back();
                entries_.pop_back();
                const int64_t count = count_of_(top.pair);
                if (count == top.count) return top.pair;
                if (count >= least) put(top.pair);
            }
        } while (fill_heap(least));
        return NO_PAIR;
    }

  private:
    struct Entry {
        int64_t count;     // when it was pushed
        uint64_t tie_key;  // of the left token
        PairId pair;
    };

    // The comparison that makes the standard heap algorithms keep the best pair on top.
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

    // The four highest bits of a count choose its bucket; each small count has its own bucket.
    static constexpr int NUM_BUCKETS = 62 * 8;

    static int bucket_of(int64_t count) {
        if (count < 8) return int(count);
        const int bit = highest_bit(uint64_t(count));
        return (bit - 2) * 8 + int(count >> (bit - 3) & 7);
    }

    // Put a pair into the heap or, if its count is too low, into its bucket.
    void put(PairId id) {
        const int bucket = bucket_of(count_of_(id));
        if (bucket < current_) {
            buckets_[bucket].push_back(id);
        } else {
            entries_.push_back(entry(id));
            std::push_heap(entries_.begin(), entries_.end(), merged_after_);
        }
    }

    // Fill the empty heap from the highest bucket that has pairs; pairs that became rarer move to a
    // lower bucket. Returns whether any pair has a count of at least `least`.
    bool fill_heap(int64_t least) {
        const int lowest = bucket_of(least);
        while (entries_.empty() && current_ > lowest) {
            const std::vector<PairId> bucket = std::move(buckets_[--current_]);
            buckets_[current_] = {};
            for (const PairId id : bucket) {
                if (count_of_(id) >= least) put(id);
            }
        }
        return !entries_.empty();
    }

    Entry entry(PairId id) const { return {count_of_(id), tokens_.tie_key(pairs_[id].left), id}; }

    const PairTable& pairs_;
    const TokenBytes& tokens_;
    const Counts count_of_;
    const MergedAfter merged_after_;
    std::vector<Entry> entries_;  // the heap: pairs of bucket `current_` and above
    std::vector<PairId> buckets_[NUM_BUCKETS];
    int current_ = NUM_BUCKETS;
    int64_t num_entries_ = 0;
};

// The counts in the table.
struct TotalCounts {
    const PairTable& pairs;
    int64_t operator()(PairId id) const { return pairs[id].count; }
};

class PairHeap : public PairHeapOf<TotalCounts> {
  public:
    PairHeap(const PairTable& pairs, const TokenBytes& tokens)
        : PairHeapOf(pairs, tokens, TotalCounts{pairs}) {}
};

}  // namespace cs336

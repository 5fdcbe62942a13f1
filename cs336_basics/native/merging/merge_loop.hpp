// The interface of the merge loop: its options, what it learns and what it records.

#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "merging/pair_table.hpp"

namespace cs336 {

struct MergeOptions {
    int64_t num_merges = 0;
    int64_t min_frequency = 1;  // a pair with a smaller count is not merged
    int64_t max_token_length = std::numeric_limits<int64_t>::max();  // bytes
    const uint8_t* byte_ranks = nullptr;                             // see TokenBytes
    bool (*keep_going)() = nullptr;                                  // see InterruptCheck
    bool traced = false;                                             // whether `trace` is kept
    // The vocabulary that is continued: its merges as StartingMerges takes them, and the bytes of
    // its merged tokens, those of token 256 + i from start_offsets[i] to start_offsets[i + 1].
    const uint32_t* start_merges = nullptr;
    int64_t num_start_merges = 0;
    const uint8_t* start_bytes = nullptr;
    const int64_t* start_offsets = nullptr;
    int64_t num_start_tokens = 0;
    size_t num_threads = 1;  // that lay the words out; the merges have one
    // Parts that benchmarks/stages/ablations.py switches off, to measure what each of them gains.
    bool threshold = true;     // keep frequent pairs only
    bool sorted_words = true;  // lay the words out by count, instead of in the order given
    bool prefetch = true;
};

// What one merge took, read and changed; see bpe/trace.py.
struct MergeTrace {
    int64_t count, occurrences, positions, pairs_updated, heap_entries;
    double seconds_counting, seconds_finding, seconds_updating;
};

// What the loop holds; docs/stages.md draws it.
struct MergeState {
    int64_t threshold;
    std::vector<int64_t> cells;  // -1: NO_TOKEN
    std::vector<Pair> pairs;     // their postings belong to the loop
};

// The interface; it hides the width of the token ids.
class MergeLoop {
  public:
    virtual ~MergeLoop() = default;

    // Learn merges for about `seconds`; returns whether there are more to learn. After an exception
    // the loop cannot be continued. Throws Interrupted, std::bad_alloc.
    virtual bool run(double seconds) = 0;

    virtual MergeState state() const = 0;

    std::vector<std::pair<uint32_t, uint32_t>> merges;  // token ids, see TokenBytes
    std::vector<MergeTrace> trace;                      // of every merge, if it is kept
    double seconds_counting = 0, seconds_finding = 0, seconds_updating = 0;  // of the last `run`
};

}  // namespace cs336

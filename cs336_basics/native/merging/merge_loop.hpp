// The interface of the merge loop: its options, merges and trace.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cs336 {

struct MergeOptions {
    int64_t num_merges = 0;
    int64_t min_frequency = 1;  // a pair with a smaller count is not merged
    // Returns 1 if the most frequent pair must not be merged, 0 if it may be, and -1 to stop. The
    // arguments are `rules`, the two tokens and the count. If null, all pairs may be merged.
    int (*refuse)(void*, const std::string&, const std::string&, int64_t) = nullptr;
    void* rules = nullptr;
    const uint8_t* byte_ranks = nullptr;  // see TokenBytes
    bool (*keep_going)() = nullptr;       // see InterruptCheck
    bool traced = false;                  // whether to fill `trace`
    // The existing vocabulary, if training continues one: its merges in the format of
    // StartingMerges, and its merged tokens, which get the ids from 256 on.
    std::vector<uint32_t> start_merges;
    std::vector<std::string> start_tokens;
    size_t num_threads = 1;  // for laying out the words; merging uses one thread
};

// The work and the time of one merge; see bpe/trace.py.
struct MergeTrace {
    int64_t count, occurrences, positions, pairs_updated, heap_entries;
    double seconds_counting, seconds_finding, seconds_updating;
};

// The base class of the merge loops for the different token-id widths.
class MergeLoop {
  public:
    virtual ~MergeLoop() = default;

    // Learn merges for about `seconds` seconds. Returns whether there are more merges to learn. Do
    // not call this again after an exception. Throws Cancelled or std::bad_alloc.
    virtual bool run(double seconds) = 0;

    std::vector<std::pair<uint32_t, uint32_t>> merges;  // token ids; see TokenBytes
    std::vector<MergeTrace> trace;                      // one per merge, if `traced`
    double seconds_counting = 0, seconds_finding = 0, seconds_updating = 0;  // of the last `run`
};

}  // namespace cs336

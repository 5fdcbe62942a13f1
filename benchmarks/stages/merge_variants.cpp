// The native merge loop without some of its parts; see merge_variants.py.

#include <algorithm>
#include <cstdint>

#include "merging/flat_merge_loop.hpp"

namespace {

using cs336::MergePolicy;

struct WithoutPrefetching : MergePolicy {
    static void prefetch(const void*) {}
};
struct WithoutOrder : WithoutPrefetching {
    static int64_t layout_key(int64_t) { return 0; }
};
struct WithoutThreshold : WithoutOrder {
    static int64_t threshold(int64_t) { return 0; }
};

struct Words {
    const uint8_t* data;
    const int64_t* offsets;
    const int64_t* counts;
    int64_t num_words;
};

template <class Policy>
int64_t learn(const Words& words, int64_t num_merges, uint32_t* merges, double* seconds) {
    cs336::MergeOptions options;
    options.num_merges = num_merges;
    cs336::FlatMergeLoop<uint16_t, Policy> loop(words.data, words.offsets, words.counts,
                                                words.num_words, options);
    loop.run(1e9);
    seconds[0] = loop.seconds_counting;
    seconds[1] = loop.seconds_finding;
    seconds[2] = loop.seconds_updating;
    for (const auto& [left, right] : loop.merges) {
        *merges++ = left;
        *merges++ = right;
    }
    return int64_t(loop.merges.size());
}

}  // namespace

// Write (left id, right id) of up to `num_merges` merges, fewer than 65,000, and the seconds spent
// counting, finding and updating. Returns the number of merges.
extern "C" int64_t learn_merges(int num_left_out, const uint8_t* data, const int64_t* offsets,
                                const int64_t* counts, int64_t num_words, int64_t num_merges,
                                uint32_t* merges, double* seconds) {
    const Words words{data, offsets, counts, num_words};
    switch (num_left_out) {
        case 0: return learn<MergePolicy>(words, num_merges, merges, seconds);
        case 1: return learn<WithoutPrefetching>(words, num_merges, merges, seconds);
        case 2: return learn<WithoutOrder>(words, num_merges, merges, seconds);
        default: return learn<WithoutThreshold>(words, num_merges, merges, seconds);
    }
}

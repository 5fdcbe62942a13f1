// KeptMerges: which merges of a word are not left out by BPE-dropout.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"

namespace cs336 {

// Without dropout, all merges are kept.
struct AllMerges {
    static constexpr bool ALL = true;
    CS336_INLINE bool next() const { return true; }
};

// SplitMix64 (Steele, Lea and Flood 2014).
constexpr uint64_t SPLIT_MIX_STEP = 0x9E3779B97F4A7C15ull;

inline uint64_t split_mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

// The state that belongs to a number, given the state of a larger unit: the seed's for a document,
// or a document's for a word.
inline uint64_t state_for(uint64_t state, uint64_t number) {
    return split_mix((state ^ number) + SPLIT_MIX_STEP);
}

// The largest number of kept merges that a single draw decides.
constexpr size_t MAX_GAP = 64;

// How to leave out merges.
struct Dropout {
    uint64_t state;          // of the document: the source of its words' states
    const uint64_t* shares;  // shares[n]: the probability, times 2^64, to keep n merges
    bool all;                // leave out all merges: a probability of 1
};

// Decides which of the merges that are visited in a word are kept. A draw gives a gap: the number
// of merges to keep before the next one that is left out.
class KeptMerges {
  public:
    static constexpr bool ALL = false;

    KeptMerges() = default;  // must be assigned to
    KeptMerges(const Dropout& dropout, uint64_t offset)
        : shares_(dropout.shares), state_(state_for(dropout.state, offset)), drawn_(draw()) {}

    // Whether the first `number` <= MAX_GAP merges are kept.
    bool keep_first(size_t number) const { return number == 0 || drawn_ < shares_[number]; }

    // Call this once before `next`.
    void start() { set_gap(drawn_); }

    // Whether to keep the next merge.
    CS336_INLINE bool next() {
        for (;;) {
            if (gap_) {
                --gap_;
                return true;
            }
            const bool was_cut = was_cut_;  // by MAX_GAP
            set_gap(draw());
            if (!was_cut) return false;
        }
    }

  private:
    uint64_t draw() { return split_mix(state_ += SPLIT_MIX_STEP); }

    // The gap is the number of shares above the draw. The shares are in descending order.
    void set_gap(uint64_t drawn) {
        size_t gap = 0;
        for (size_t step = MAX_GAP / 2; step; step /= 2) {
            gap += drawn < shares_[gap + step] ? step : 0;
        }
        gap += drawn < shares_[gap + 1];
        gap_ = gap;
        was_cut_ = gap == MAX_GAP;
    }

    const uint64_t* shares_ = nullptr;
    uint64_t state_ = 0, drawn_ = 0;
    size_t gap_ = 0;
    bool was_cut_ = false;
};

}  // namespace cs336

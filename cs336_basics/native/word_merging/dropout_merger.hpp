// DropoutMerger: merges one word with BPE-dropout (Provilkov, Emelianenko and Voita 2020, algorithm
// 1). `merge_with_dropout` in tokenizer/reference.py defines the result.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "base/failure.hpp"
#include "base/simd_level.hpp"
#include "base/simd_target.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/short_word_merger.hpp"

namespace cs336 {

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

// Decides which of the merges that are visited in a word are kept. A draw gives a gap: the number of
// merges to keep before the next one that is left out.
class KeptMerges {
  public:
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

    const uint64_t* shares_;
    uint64_t state_, drawn_;
    size_t gap_ = 0;
    bool was_cut_ = false;
};

// In each step, the possible merges are visited in the order of their ranks and, for equal ranks,
// from left to right. The first one that is not left out is applied. The word is finished if all
// were left out, or none is possible.
template <class Id>
class DropoutMerger {
  public:
    DropoutMerger(const MergeTable<Id>& merges, SimdLevel simd_level,
                  const std::atomic<bool>& cancelled)
        : merges_(merges), simd_level_(simd_level), cancelled_(cancelled) {}

    // Write the ids of a word, at most `length` > 0. Returns the end of the ids. Throws Cancelled
    // or std::length_error.
    Id* merge(const uint8_t* word, size_t length, KeptMerges kept, Id* out) {
        kept.start();
        if (length <= SHORT && merges_.size() <= MAX_NUMBERED_MERGES) {
            return merge_short(word, uint32_t(length), kept, out);
        }
        if (length >= END) throw std::length_error("a pre-token must be shorter than 4 GiB");
        return merge_long(word, uint32_t(length), kept, out);
    }

  private:
    static constexpr uint32_t SHORT = 64;
    static constexpr uint32_t END = UINT32_MAX;
    static constexpr size_t MAX_KEPT = size_t{1} << 16;
    static constexpr uint64_t NONE = UINT64_MAX;  // no merge

    // A possible merge: its rank and the position of its left symbol.
    static uint64_t merge_at(uint32_t rank, size_t position) {
        return rank == MergeTable<Id>::NO_RANK ? NONE : uint64_t{rank} << 32 | position;
    }

    // Inlined into callers, so that the compiler vectorizes it for their instruction sets.
    template <uint32_t CAPACITY>
    CS336_INLINE Id* merge_in_array(const uint8_t* bytes, uint32_t length, KeptMerges kept,
                                    Id* out) const {
        ShortWord<Id, CAPACITY> word;
        word.start(merges_, bytes, length);
        int32_t* const numbers = word.numbers;
        int32_t first = 0;  // merges with lower numbers were left out in this step
        for (;;) {
            int32_t least = UNRANKED;
            for (uint32_t i = 0; i < CAPACITY; ++i) {
                const int32_t number = numbers[i] < first ? UNRANKED : numbers[i];
                least = std::min(least, number);
            }
            if (least >= UNRANKED) return word.write(out);
            if (!kept.next()) {
                first = least + 1;
                continue;
            }
            const ShortWordChange change = merge_pair(merges_, word, least);
            numbers[change.right] = UNRANKED;
            numbers[change.merged] = change.merged_pair;
            numbers[change.before] = change.before_pair;
            first = 0;
        }
    }

    template <uint32_t CAPACITY>
    CS336_NOINLINE Id* merge_portable(const uint8_t* bytes, uint32_t length, KeptMerges kept, Id* out) const {
        return merge_in_array<CAPACITY>(bytes, length, kept, out);
    }

#if defined(CS336_X86)
    template <uint32_t CAPACITY>
    CS336_AVX2 CS336_NOINLINE Id* merge_for_avx2(const uint8_t* bytes, uint32_t length,
                                                 KeptMerges kept, Id* out) const {
        return merge_in_array<CAPACITY>(bytes, length, kept, out);
    }

    // Like merge_in_array, but keeps the numbers in registers; see ShortWordMerger.
    template <int REGISTERS>
    CS336_AVX512 Id* merge_in_registers(const uint8_t* bytes, uint32_t length, KeptMerges kept, Id* out) const {
        ShortWord<Id, 16 * REGISTERS> word;
        word.start(merges_, bytes, length);
        const __m512i unranked = _mm512_set1_epi32(UNRANKED);
        __m512i open[REGISTERS];
        for (int r = 0; r < REGISTERS; ++r) open[r] = _mm512_load_si512(word.numbers + 16 * r);
        int32_t first = 0;
        for (;;) {
            const __m512i bound = _mm512_set1_epi32(first);
            __m512i lower = unranked;
            for (int r = 0; r < REGISTERS; ++r) {
                const __mmask16 is_left = _mm512_cmpge_epi32_mask(open[r], bound);
                lower = _mm512_mask_min_epi32(lower, is_left, lower, open[r]);
            }
            const int32_t least = _mm512_reduce_min_epi32(lower);
            if (least >= UNRANKED) return word.write(out);
            if (!kept.next()) {
                first = least + 1;
                continue;
            }
            const ShortWordChange change = merge_pair(merges_, word, least);
            const uint64_t right = uint64_t{1} << change.right;
            const uint64_t merged = uint64_t{1} << change.merged;
            const uint64_t before = uint64_t{1} << change.before;
            for (int r = 0; r < REGISTERS; ++r) {
                const auto mask = [&](uint64_t bit) { return __mmask16(bit >> 16 * r); };
                open[r] = _mm512_mask_set1_epi32(open[r], mask(right), UNRANKED);
                open[r] = _mm512_mask_set1_epi32(open[r], mask(merged), change.merged_pair);
                open[r] = _mm512_mask_set1_epi32(open[r], mask(before), change.before_pair);
            }
            first = 0;
        }
    }
#endif

    // For a word of at most SHORT bytes.
    Id* merge_short(const uint8_t* bytes, uint32_t length, KeptMerges kept, Id* out) const {
#if defined(CS336_X86)
        if (simd_level_ == SimdLevel::AVX512) {
            if (length <= 16) return merge_in_registers<1>(bytes, length, kept, out);
            if (length <= 32) return merge_in_registers<2>(bytes, length, kept, out);
            return merge_in_registers<4>(bytes, length, kept, out);
        }
        if (simd_level_ == SimdLevel::AVX2) {
            if (length <= 8) return merge_for_avx2<8>(bytes, length, kept, out);
            if (length <= 16) return merge_for_avx2<16>(bytes, length, kept, out);
            return merge_for_avx2<SHORT>(bytes, length, kept, out);
        }
#endif
        if (length <= 8) return merge_portable<8>(bytes, length, kept, out);
        if (length <= 16) return merge_portable<16>(bytes, length, kept, out);
        return merge_portable<SHORT>(bytes, length, kept, out);
    }

    // Keep the merges in a heap. An entry is stale if its position has another merge or none.
    Id* merge_long(const uint8_t* word, uint32_t length, KeptMerges kept, Id* out) {
        symbols_.resize(length);
        merges_at_.assign(length, NONE);
        before_.resize(length);
        after_.resize(length);
        heap_ = {};
        left_out_.clear();
        for (uint32_t i = 0; i < length; ++i) {
            stop_if_cancelled(i);
            symbols_[i] = merges_.byte_id(word[i]);
            before_[i] = i ? i - 1 : END;
            after_[i] = i + 1 < length ? i + 1 : END;
            if (i) add(i - 1, merges_.byte_rank(word[i - 1], word[i]));
        }
        for (size_t step = 0; !heap_.empty(); ++step) {
            stop_if_cancelled(step);
            const uint64_t best = heap_.top();
            heap_.pop();
            const uint32_t left = uint32_t(best);
            if (merges_at_[left] != best) continue;
            if (!kept.next()) {
                left_out_.push_back(best);
                continue;
            }
            const uint32_t right = after_[left], next = after_[right], previous = before_[left];
            symbols_[left] = merges_.merged(uint32_t(best >> 32));
            after_[left] = next;
            merges_at_[left] = merges_at_[right] = NONE;
            if (next != END) {
                before_[next] = left;
                add(left, merges_.rank(symbols_[left], symbols_[next]));
            }
            if (previous != END) add(previous, merges_.rank(symbols_[previous], symbols_[left]));
            for (const uint64_t merge : left_out_) {
                if (merges_at_[uint32_t(merge)] == merge) heap_.push(merge);
            }
            left_out_.clear();
        }
        for (uint32_t i = 0; i != END; i = after_[i]) *out++ = symbols_[i];
        if (symbols_.capacity() > MAX_KEPT) {
            symbols_ = {};
            merges_at_ = {};
            before_ = after_ = {};
            left_out_ = {};
        }
        return out;
    }

    void add(uint32_t position, uint32_t rank) {
        merges_at_[position] = merge_at(rank, position);
        if (merges_at_[position] != NONE) heap_.push(merges_at_[position]);
    }

    void stop_if_cancelled(size_t step) const {
        if (step % (1 << 16) == 0 && cancelled_.load(std::memory_order_relaxed)) throw Cancelled();
    }

    const MergeTable<Id>& merges_;
    const SimdLevel simd_level_;
    const std::atomic<bool>& cancelled_;
    // By position. The members below are used for long words only.
    std::vector<Id> symbols_;
    std::vector<uint64_t> merges_at_;
    std::vector<uint32_t> before_, after_;
    std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<uint64_t>> heap_;
    std::vector<uint64_t> left_out_;  // in this step
};

}  // namespace cs336

// ShortWordMerger: merges a word of at most 64 bytes in registers and the L1 cache.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/simd_level.hpp"
#include "base/simd_target.hpp"
#include "word_merging/kept_merges.hpp"
#include "word_merging/merge_table.hpp"

namespace cs336 {

// A number combines the rank and the start position of a pair in a word. The lowest number in a
// word identifies its next merge. A pair without a rank has a number of at least UNRANKED.
constexpr int32_t UNRANKED = 0x7FFFFF00;
constexpr size_t MAX_NUMBERED_MERGES = UNRANKED >> 8;

CS336_INLINE int32_t number_of_pair(uint32_t rank, uint32_t position) {
    return int32_t((rank << 8 | position) & INT32_MAX);  // without a branch, as in PairRanks
}
CS336_INLINE uint32_t position_of(int32_t number) { return number & 0xFF; }
CS336_INLINE uint32_t rank_of(int32_t number) { return uint32_t(number) >> 8; }

// A word that is being merged.
template <class Id, uint32_t CAPACITY>
struct ShortWord {
    alignas(64) int32_t numbers[CAPACITY];  // of the pairs, by start position
    Id symbols[CAPACITY];                   // by start position
    uint64_t begins;                        // a mask of the units that start a symbol

    // Start with the units of a word: bytes, or symbols.
    template <class Unit>
    CS336_INLINE void start(const MergeTable<Id>& merges, const Unit* units, uint32_t length) {
        for (int32_t& number : numbers) number = UNRANKED;
        symbols[0] = merges.symbol(units[0]);
        for (uint32_t i = 1; i < length; ++i) {
            symbols[i] = merges.symbol(units[i]);
            numbers[i - 1] = number_of_pair(merges.rank_of_units(units[i - 1], units[i]), i - 1);
        }
        begins = ~uint64_t{0} >> (64 - length);
    }

    // Write the symbols. Returns the end of the output.
    CS336_INLINE Id* write(Id* out) const {
        for (uint64_t rest = begins; rest; rest &= rest - 1) *out++ = symbols[lowest_bit(rest)];
        return out;
    }
};

// A merge changes the numbers at three positions: the merged symbol's, its right half's
// and the symbol before it. If no symbol precedes it, `before` equals `right`. The new number
// of `right` is UNRANKED.
struct ShortWordChange {
    int merged, right, before;         // positions
    int32_t merged_pair, before_pair;  // the new numbers of `merged` and `before`
};

// Merge the pair with this number.
template <class Id, uint32_t CAPACITY>
CS336_INLINE ShortWordChange merge_pair(const MergeTable<Id>& merges, ShortWord<Id, CAPACITY>& word,
                                        int32_t number) {
    const int position = position_of(number);
    const Id merged = merges.merged(rank_of(number));
    word.symbols[position] = merged;
    const uint64_t after = word.begins & (~uint64_t{1} << position);
    const uint64_t behind = after & (after - 1);
    const uint64_t before = word.begins & ((uint64_t{1} << position) - 1);
    word.begins ^= after ^ behind;
    ShortWordChange change = {position, lowest_bit(after), 0, UNRANKED, UNRANKED};
    change.before = change.right;
    if (behind) {
        const Id next = word.symbols[lowest_bit(behind)];
        change.merged_pair = number_of_pair(merges.rank(merged, next), position);
    }
    if (before) {
        change.before = highest_bit(before);
        const Id previous = word.symbols[change.before];
        change.before_pair = number_of_pair(merges.rank(previous, merged), change.before);
    }
    return change;
}

// The lowest number that is at least `first`, or UNRANKED. With all merges, `first` is 0.
template <class Kept>
CS336_INLINE int32_t least_number(const int32_t* numbers, uint32_t capacity, int32_t first) {
    const auto left = [&](uint32_t i) {
        return Kept::ALL || numbers[i] >= first ? numbers[i] : UNRANKED;
    };
    // With `least = UNRANKED` at the beginning, GCC does not vectorize the loop.
    int32_t least = left(0);
    for (uint32_t i = 1; i < capacity; ++i) least = std::min(least, left(i));
    return least;
}

// Merges one pair at a time: the pair with the lowest rank and, for equal ranks, the leftmost. The
// vocabulary may have at most MAX_NUMBERED_MERGES merges. Finding the lowest numbers takes time
// quadratic in the length of the word, which is small.
//
// With dropout, the pairs of a step are visited in this order until one is kept.
template <class Id>
class ShortWordMerger {
  public:
    static constexpr size_t MAX_LENGTH = 64;

    ShortWordMerger(const MergeTable<Id>& merges, SimdLevel simd_level)
        : merges_(merges), simd_level_(simd_level) {}

    // Write the ids of a word of 1 to MAX_LENGTH bytes or symbols. Returns the end of the ids.
    // `kept` is AllMerges or a started KeptMerges.
    template <class Unit, class Kept = AllMerges>
    Id* merge(const Unit* word, size_t length, Id* out, Kept kept = Kept()) const {
        if (length == 1) {
            *out = merges_.symbol(*word);
            return out + 1;
        }
        // The symbols that superwords join are few, and vectors do not pay for them.
        if (sizeof(Unit) > 1 && length <= 8) {
            return merge_portable<8>(word, uint32_t(length), out, kept);
        }
#if defined(CS336_X86)
        if (simd_level_ == SimdLevel::AVX512) {
            if (length <= 16) return merge_in_registers<1>(word, uint32_t(length), out, kept);
            if (length <= 32) return merge_in_registers<2>(word, uint32_t(length), out, kept);
            return merge_in_registers<4>(word, uint32_t(length), out, kept);
        }
        if (simd_level_ == SimdLevel::AVX2) {
            if (length <= 16) return merge_for_avx2<16>(word, uint32_t(length), out, kept);
            if (length <= 32) return merge_for_avx2<32>(word, uint32_t(length), out, kept);
            return merge_for_avx2<64>(word, uint32_t(length), out, kept);
        }
#endif
        if (length <= 16) return merge_portable<16>(word, uint32_t(length), out, kept);
        if (length <= 32) return merge_portable<32>(word, uint32_t(length), out, kept);
        return merge_portable<64>(word, uint32_t(length), out, kept);
    }

  private:
    template <uint32_t CAPACITY>
    using Word = ShortWord<Id, CAPACITY>;

    // Inlined into callers, so that the compiler vectorizes it for their instruction sets.
    template <uint32_t CAPACITY, class Unit, class Kept>
    CS336_INLINE Id* merge_in_array(const Unit* units, uint32_t length, Id* out, Kept kept) const {
        Word<CAPACITY> word;
        word.start(merges_, units, length);
        int32_t* const numbers = word.numbers;
        int32_t first = 0;  // lower numbers were left out in this step
        for (;;) {
            const int32_t least = least_number<Kept>(numbers, CAPACITY, first);
            if (least >= UNRANKED) return word.write(out);
            if (!kept.next()) {
                first = least + 1;
                continue;
            }
            first = 0;
            const ShortWordChange change = merge_pair(merges_, word, least);
            numbers[change.right] = UNRANKED;
            numbers[change.merged] = change.merged_pair;
            numbers[change.before] = change.before_pair;
        }
    }

    template <uint32_t CAPACITY, class Unit, class Kept>
    CS336_NOINLINE Id* merge_portable(const Unit* units, uint32_t length, Id* out,
                                      Kept kept) const {
        return merge_in_array<CAPACITY>(units, length, out, kept);
    }

#if defined(CS336_X86)
    // For words that are not cached, AVX2 is 1.1 to 1.2 times as fast as SSE2 on Zen 3.
    template <uint32_t CAPACITY, class Unit, class Kept>
    CS336_AVX2 CS336_NOINLINE Id* merge_for_avx2(const Unit* units, uint32_t length, Id* out,
                                                 Kept kept) const {
        return merge_in_array<CAPACITY>(units, length, out, kept);
    }

    // Like merge_in_array, but keeps the numbers in registers. With an array, every merge stores
    // single numbers and reads them back as vectors, so the merge waits for its own stores. For
    // Chinese text without a cache, the array version reaches 60 MB/s on Zen 5 and the register
    // version 86 MB/s.
    template <int REGISTERS, class Unit, class Kept>
    CS336_AVX512 Id* merge_in_registers(const Unit* units, uint32_t length, Id* out,
                                        Kept kept) const {
        Word<16 * REGISTERS> word;
        word.start(merges_, units, length);
        __m512i open[REGISTERS];
        for (int r = 0; r < REGISTERS; ++r) open[r] = _mm512_load_si512(word.numbers + 16 * r);
        const __m512i unranked = _mm512_set1_epi32(UNRANKED);
        int32_t first = 0;  // lower numbers were left out in this step
        for (;;) {
            __m512i lower = unranked;
            for (int r = 0; r < REGISTERS; ++r) {
                const __mmask16 is_left =
                    Kept::ALL ? __mmask16(0xFFFF)
                              : _mm512_cmpge_epi32_mask(open[r], _mm512_set1_epi32(first));
                lower = _mm512_mask_min_epi32(lower, is_left, lower, open[r]);
            }
            const int32_t least = _mm512_reduce_min_epi32(lower);
            if (least >= UNRANKED) return word.write(out);
            if (!kept.next()) {
                first = least + 1;
                continue;
            }
            first = 0;
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
        }
    }
#endif

    const MergeTable<Id>& merges_;
    const SimdLevel simd_level_;
};

}  // namespace cs336

// SuperwordMerges: the merges that join words, at the end of a vocabulary such as SuperBPE's.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/compiler.hpp"
#include "base/hashing.hpp"
#include "base/simd_level.hpp"
#include "base/simd_target.hpp"
#include "encoding/join_filter.hpp"
#include "encoding/line_cutter.hpp"

namespace cs336 {

// Whether a merge joins tokens of different words, as LineCutter finds words.
inline bool joins_words(const Join& join) {
    const auto byte = [&](int i) { return uint8_t(join.window >> 8 * i); };
    const bool has_next = join.mask >> 4 & 1;
    return LineCutter::may_end(byte(2), byte(3), has_next ? byte(4) : ' ');
}

// Two-stage training (Liu et al. 2025, SuperBPE) first learns merges within words, and then merges
// that join the resulting symbols. Text can be encoded in the same two steps, which is faster,
// because the symbols of a word are in the cache, and most boundaries between two symbols are
// joined by no merge of the second step.
//
// The two steps give the ids of all merges together if no merge of the second step makes a token
// that a merge of the first step joins: while there is a pair of the first step, it has the lower
// rank, and afterwards, no new one appears.
template <class Id>
class SuperwordMerges {
  public:
    static constexpr size_t READ_AHEAD = 7;

    // `merges` has three ids for every rank, as for MergeTable, and `joins` the join of each merge.
    SuperwordMerges(const uint32_t* merges, const std::vector<Join>& joins,
                    const HashSeed& seed = process_hash_seed())
        : num_merges_(joins.size()),
          first_rank_(first_superword(joins)),
          left_multiplier_(uint32_t(seed.multiplier) | 1),
          right_multiplier_(uint32_t(seed.multiplier >> 32) | 1) {
        const std::vector<uint64_t> pairs = symbol_pairs(merges);
        int bits = MIN_BITS;
        while (bits < 31 && (size_t{1} << bits) < BITS_PER_PAIR * pairs.size()) ++bits;
        shift_ = 32 - bits;
        known_.resize(size_t{1} << (bits - 5));
        for (const uint64_t pair : pairs) {
            const uint32_t bit = bit_of(Id(pair >> 32), Id(pair));
            known_[bit >> 5] |= uint32_t{1} << (bit & 31);
        }
        for (size_t rank = first_rank_; rank < num_merges_; ++rank) {
            const uint64_t bytes = joins[rank].window >> 16 & 0xFFFF;
            meets_[bytes >> 6] |= uint64_t{1} << (bytes & 63);
        }
    }

    // Whether it pays to encode in two steps, and the result is certainly the same.
    bool are_useful() const { return is_exact_ && first_rank_ < num_merges_; }
    // The number of merges of the first step.
    size_t first_rank() const { return first_rank_; }

    // Whether a merge of the second step may join tokens that end and start with these symbols.
    // Even if none does, the result is true for a few percent of all pairs.
    CS336_INLINE bool may_join(Id left, Id right) const {
        const uint32_t bit = bit_of(left, right);
        return known_[bit >> 5] >> (bit & 31) & 1;
    }
    // The same for `count` <= 64 boundaries: bit i is that of symbols i and i + 1. READ_AHEAD more
    // symbols after the last one can be read.
    uint64_t may_join(const Id* symbols, size_t count, SimdLevel simd_level) const {
#if defined(CS336_X86)
        if (simd_level >= SimdLevel::AVX2) return may_join_for_avx2(symbols, count);
#endif
        (void)simd_level;
        uint64_t bits = 0;
        for (size_t i = 0; i < count; ++i) {
            bits |= uint64_t(may_join(symbols[i], symbols[i + 1])) << i;
        }
        return bits;
    }
    // Whether a merge of the second step joins or makes this token.
    bool has(uint32_t id) const { return id < is_in_merges_.size() && is_in_merges_[id]; }
    // Whether a merge of the second step joins these two bytes.
    CS336_INLINE bool may_meet(uint8_t before, uint8_t after) const {
        const unsigned bytes = before | unsigned(after) << 8;
        return meets_[bytes >> 6] >> (bytes & 63) & 1;
    }

  private:
    static constexpr int MIN_BITS = 10;
    static constexpr size_t BITS_PER_PAIR = 32;

    CS336_INLINE uint32_t bit_of(Id left, Id right) const {
        return (left * left_multiplier_ + right * right_multiplier_) >> shift_;
    }

#if defined(CS336_X86)
    // Eight boundaries at a time.
    CS336_AVX2 CS336_NOINLINE uint64_t may_join_for_avx2(const Id* symbols, size_t count) const {
        const __m256i left = _mm256_set1_epi32(int(left_multiplier_));
        const __m256i right = _mm256_set1_epi32(int(right_multiplier_));
        const __m128i shift = _mm_cvtsi32_si128(shift_);
        const int* const known = reinterpret_cast<const int*>(known_.data());
        uint64_t found = 0;
        for (size_t i = 0; i < count; i += 8) {
            const __m256i sums =
                _mm256_add_epi32(_mm256_mullo_epi32(load_symbols(symbols + i), left),
                                 _mm256_mullo_epi32(load_symbols(symbols + i + 1), right));
            const __m256i bits = _mm256_srl_epi32(sums, shift);
            const __m256i words = _mm256_i32gather_epi32(known, _mm256_srli_epi32(bits, 5), 4);
            // Move each bit to the sign of its word: left by 31 - bits % 32.
            const __m256i places = _mm256_andnot_si256(bits, _mm256_set1_epi32(31));
            const __m256 signs = _mm256_castsi256_ps(_mm256_sllv_epi32(words, places));
            found |= uint64_t(uint32_t(_mm256_movemask_ps(signs))) << i;
        }
        return count < 64 ? found & ((uint64_t{1} << count) - 1) : found;
    }

    static CS336_AVX2 CS336_INLINE __m256i load_symbols(const Id* symbols) {
        if (sizeof(Id) == 4) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(symbols));
        return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(symbols)));
    }
#endif

    // The rank that divides best the merges that join words from the others; the number of merges
    // if most merges after this rank join no words.
    static size_t first_superword(const std::vector<Join>& joins) {
        // Of the merges from a rank on: those that join words, minus the others.
        ptrdiff_t surplus = 0, most = 0;
        size_t first = joins.size();
        for (size_t rank = joins.size(); rank-- > 0;) {
            surplus += joins_words(joins[rank]) ? 1 : -1;
            if (surplus > most) {
                most = surplus;
                first = rank;
            }
        }
        return first;
    }

    // The last symbol of the left token and the first symbol of the right token of every merge of
    // the second step.
    std::vector<uint64_t> symbol_pairs(const uint32_t* merges) {
        std::vector<uint64_t> pairs;
        if (first_rank_ == num_merges_) return pairs;
        uint32_t num_ids = 0;
        for (size_t i = 0; i < 3 * num_merges_; ++i) num_ids = std::max(num_ids, merges[i] + 1);
        // The first and last symbols of every token; NONE if no merge of the second step made it.
        constexpr uint32_t NONE = UINT32_MAX;
        std::vector<uint32_t> first(num_ids, NONE), last(num_ids, NONE);
        is_in_merges_.resize(num_ids);
        for (size_t i = 3 * first_rank_; i < 3 * num_merges_; ++i) is_in_merges_[merges[i]] = 1;
        std::vector<uint8_t> is_used(num_ids);  // by the first step, or by an earlier merge
        for (size_t i = 0; i < 3 * first_rank_; ++i) is_used[merges[i]] = 1;
        for (size_t rank = first_rank_; rank < num_merges_; ++rank) {
            const uint32_t left = merges[3 * rank], right = merges[3 * rank + 1];
            const uint32_t made = merges[3 * rank + 2];
            is_used[left] = is_used[right] = 1;
            // Each token has one history if it is made once, and before it is joined.
            if (is_used[made]) is_exact_ = false;
            is_used[made] = 1;
            const uint32_t before = last[left] == NONE ? left : last[left];
            const uint32_t after = first[right] == NONE ? right : first[right];
            pairs.push_back(uint64_t{before} << 32 | after);
            first[made] = first[left] == NONE ? left : first[left];
            last[made] = last[right] == NONE ? right : last[right];
        }
        return pairs;
    }

    bool is_exact_ = true;
    const size_t num_merges_, first_rank_;
    const uint32_t left_multiplier_, right_multiplier_;
    int shift_;
    std::vector<uint8_t> is_in_merges_;      // by id: whether it is in a merge of the second step
    std::vector<uint32_t> known_;            // a bit for every hash of two symbols
    uint64_t meets_[(1 << 16) / 64] = {};    // a bit for every two bytes
};

}  // namespace cs336

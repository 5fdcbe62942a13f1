// The SIMD level `avx2`.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/simd_target.hpp"
#include "scanning/simd/masks.hpp"

#if defined(CS336_X86)

namespace cs336 {

namespace avx2 {

// LEAD_IS_LETTER packed into 16 bytes: bit r of of_low_half[i] is set if all characters with the
// first byte 0xC0 + 16 * r + i are letters.
struct LeadRows {
    alignas(16) uint8_t of_low_half[16];
    constexpr LeadRows() : of_low_half() {
        for (int i = 0; i < 64; ++i) of_low_half[i % 16] |= LEAD_IS_LETTER[i] << i / 16;
    }
};

inline constexpr LeadRows LEAD_ROWS;

struct Halves {
    __m256i low, high;
};

CS336_AVX2 CS336_INLINE uint64_t bits(__m256i low, __m256i high) {
    return uint32_t(_mm256_movemask_epi8(low)) | uint64_t(uint32_t(_mm256_movemask_epi8(high)))
                                                     << 32;
}

CS336_AVX2 CS336_INLINE uint64_t equal(Halves v, char byte) {
    const __m256i wanted = _mm256_set1_epi8(byte);
    return bits(_mm256_cmpeq_epi8(v.low, wanted), _mm256_cmpeq_epi8(v.high, wanted));
}

// A mask of the bytes from 128 - `count` - `shift` to 127 - `shift`. Adding `shift` moves these
// bytes to the top of the signed range, above 127 - `count`.
CS336_AVX2 CS336_INLINE uint64_t in_range(Halves v, int shift, int count) {
    const __m256i by = _mm256_set1_epi8(char(shift)), below = _mm256_set1_epi8(char(127 - count));
    return bits(_mm256_cmpgt_epi8(_mm256_add_epi8(v.low, by), below),
                _mm256_cmpgt_epi8(_mm256_add_epi8(v.high, by), below));
}

// 0xFF for every byte from 0xC0 on with LEAD_IS_LETTER, 0x00 for all others. Uses two lookups of
// half bytes, as in utf8.hpp.
CS336_AVX2 CS336_INLINE __m256i lead_is_letter(__m256i v) {
    const __m256i low_half = _mm256_set1_epi8(0x0F);
    const __m256i rows = _mm256_broadcastsi128_si256(
        _mm_load_si128(reinterpret_cast<const __m128i*>(LEAD_ROWS.of_low_half)));
    const __m256i bit_of_row =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8));
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), low_half);
    const __m256i row = _mm256_shuffle_epi8(bit_of_row, high);
    const __m256i found = _mm256_shuffle_epi8(rows, _mm256_and_si256(v, low_half));
    return _mm256_cmpgt_epi8(_mm256_and_si256(row, found), _mm256_setzero_si256());
}

template <Wide WIDE>
CS336_AVX2 CS336_INLINE Masks masks(const uint8_t* window) {
    const Halves v = {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(window)),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(window + 32))};
    const __m256i small = _mm256_set1_epi8(0x20);
    const Halves lower = {_mm256_or_si256(v.low, small), _mm256_or_si256(v.high, small)};
    Masks m;
    m.letter = in_range(lower, 127 - 'z', 26);
    m.number = in_range(v, 127 - '9', 10);
    m.blank = equal(v, ' ');
    m.space = in_range(v, 127 - '\r', 5) | m.blank;
    m.apostrophe = equal(v, '\'');
    m.line_end = equal(v, '\n') | equal(v, '\r');
    m.upper = in_range(v, 127 - 'Z', 26);
    m.lower = m.letter & ~m.upper;
    m.mark = 0;
    m.slash = equal(v, '/');
    m.control = (in_range(v, 127 - 0x1F, 0x20) & ~m.space) | equal(v, 0x7F);
    m.wide = bits(v.low, v.high);
    m.continuation = 0;
    if (m.wide) {
        // 0x80 to 0xBF are the signed bytes below -64.
        const __m256i limit = _mm256_set1_epi8(-64);
        m.continuation = bits(_mm256_cmpgt_epi8(limit, v.low), _mm256_cmpgt_epi8(limit, v.high));
        m.wide &= ~m.continuation;
        if (WIDE != Wide::CASES) {
            uint64_t letters = bits(lead_is_letter(v.low), lead_is_letter(v.high));
            if (WIDE == Wide::DEEPSEEK) {
                const __m256i first = _mm256_set1_epi8(char(FIRST_OF_THREE));
                letters &= bits(_mm256_cmpgt_epi8(first, v.low), _mm256_cmpgt_epi8(first, v.high));
            }
            mark_letters(m, letters);
        }
        classify_wide<WIDE>(m, window);
    }
    return m;
}

// Write origin + i to `out` for every set bit i of `bits`, eight at a time, so that the CPU predicts
// the loop better. Returns the number of set bits. `out` must have room for 72 elements.
CS336_AVX2 CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    const size_t count = __builtin_popcountll(bits);
    for (size_t done = 0; done < count; done += 8) {
        for (int k = 0; k < 8; ++k) {
            // When `bits` is 0, this writes origin + 64 beyond `count`.
            out[done + k] = origin + uint32_t(_tzcnt_u64(bits));
            bits &= bits - 1;
        }
    }
    return count;
}

CS336_DEFINE_FILL(CS336_AVX2)

}  // namespace avx2

}  // namespace cs336

#endif  // CS336_X86

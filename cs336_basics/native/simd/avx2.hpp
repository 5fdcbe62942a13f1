// The SIMD level `avx2`.

#pragma once

#include <cstddef>
#include <cstdint>

#include "../compiler.hpp"
#include "masks.hpp"
#include "target.hpp"

#if defined(CS336_X86)

namespace cs336 {

namespace avx2 {

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

// The bytes from 128 - `count` - `shift` to 127 - `shift`. Adding `shift` moves them to the top of
// the signed range, where they are the ones greater than 127 - `count`.
CS336_AVX2 CS336_INLINE uint64_t in_range(Halves v, int shift, int count) {
    const __m256i by = _mm256_set1_epi8(char(shift)), below = _mm256_set1_epi8(char(127 - count));
    return bits(_mm256_cmpgt_epi8(_mm256_add_epi8(v.low, by), below),
                _mm256_cmpgt_epi8(_mm256_add_epi8(v.high, by), below));
}

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
    m.wide = bits(v.low, v.high);
    m.continuation = 0;
    if (m.wide) {
        // As signed bytes, 0x80 to 0xBF are those below -64.
        const __m256i limit = _mm256_set1_epi8(-64);
        m.continuation = bits(_mm256_cmpgt_epi8(limit, v.low), _mm256_cmpgt_epi8(limit, v.high));
        m.wide &= ~m.continuation;
        classify_wide(m, window);
    }
    return m;
}

// The same as portable::positions, eight at a time: the number of iterations is easier to predict.
CS336_AVX2 CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    const size_t count = __builtin_popcountll(bits);
    for (size_t done = 0; done < count; done += 8) {
        for (int k = 0; k < 8; ++k) {
            // (For bits = 0 this writes origin + 64 beyond `count`.)
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

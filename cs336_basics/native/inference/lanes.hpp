// Vectors of floats and of short integers, by SIMD level.
//
// Each namespace has the same names, so that kernels_inl.hpp can be written once. Floats has WIDTH
// floats, Shorts has SHORTS 16-bit integers, and Ints has the sums of products of Shorts.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "base/simd_target.hpp"

namespace cs336 {

// The upper half of a float32, a number with 8 bits of precision.
struct BFloat16 {
    uint16_t bits;
};

inline float to_float(BFloat16 number) {
    const uint32_t bits = uint32_t(number.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline float to_float(float number) { return number; }

namespace scalar {

// Compilers turn these loops into the vector instructions that every CPU of the target has.
constexpr size_t WIDTH = 4, SHORTS = 4;
struct Floats {
    float lane[WIDTH];
};
struct Shorts {
    int16_t lane[SHORTS];
};
struct Ints {
    int32_t lane[SHORTS];
};

#define CS336_EACH(result, expression)                                                             \
    for (size_t i = 0; i < 4; ++i) result = (expression)

CS336_INLINE Floats spread(float x) { return {{x, x, x, x}}; }
CS336_INLINE Floats load(const float* from) {
    Floats x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
CS336_INLINE Floats load(const BFloat16* from) {
    Floats x;
    CS336_EACH(x.lane[i], to_float(from[i]));
    return x;
}
CS336_INLINE void store(float* to, Floats x) { std::memcpy(to, &x, sizeof x); }
CS336_INLINE Floats add(Floats a, Floats b) {
    CS336_EACH(a.lane[i], a.lane[i] + b.lane[i]);
    return a;
}
CS336_INLINE Floats subtract(Floats a, Floats b) {
    CS336_EACH(a.lane[i], a.lane[i] - b.lane[i]);
    return a;
}
CS336_INLINE Floats multiply(Floats a, Floats b) {
    CS336_EACH(a.lane[i], a.lane[i] * b.lane[i]);
    return a;
}
CS336_INLINE Floats divide(Floats a, Floats b) {
    CS336_EACH(a.lane[i], a.lane[i] / b.lane[i]);
    return a;
}
// a * b + c
CS336_INLINE Floats multiply_add(Floats a, Floats b, Floats c) {
    CS336_EACH(c.lane[i], a.lane[i] * b.lane[i] + c.lane[i]);
    return c;
}
// The larger numbers of a and b, or those of b if one is NaN.
CS336_INLINE Floats larger(Floats a, Floats b) {
    CS336_EACH(b.lane[i], a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]);
    return b;
}
CS336_INLINE Floats smaller(Floats a, Floats b) {
    CS336_EACH(b.lane[i], a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]);
    return b;
}
CS336_INLINE Floats magnitude(Floats a) {
    CS336_EACH(a.lane[i], std::fabs(a.lane[i]));
    return a;
}
// a * 2^n, where n is in the lowest bits of the float `exponents`.
CS336_INLINE Floats scale_by_power(Floats a, Floats exponents) {
    uint32_t bits[WIDTH], powers[WIDTH];
    std::memcpy(bits, &a, sizeof a);
    std::memcpy(powers, &exponents, sizeof exponents);
    CS336_EACH(bits[i], bits[i] + (powers[i] << 23));
    std::memcpy(&a, bits, sizeof a);
    return a;
}
CS336_INLINE float sum(Floats a) { return (a.lane[0] + a.lane[2]) + (a.lane[1] + a.lane[3]); }
CS336_INLINE float largest(Floats a) {
    float result = a.lane[0];
    for (float x : a.lane) result = x > result ? x : result;
    return result;
}

CS336_INLINE Ints no_ints() { return {{0, 0, 0, 0}}; }
CS336_INLINE Shorts load_shorts(const int16_t* from) {
    Shorts x;
    std::memcpy(&x, from, sizeof x);
    return x;
}
CS336_INLINE Shorts load_shorts(const int8_t* from) {
    Shorts x;
    CS336_EACH(x.lane[i], from[i]);
    return x;
}
CS336_INLINE Ints multiply_add(Shorts a, Shorts b, Ints c) {
    CS336_EACH(c.lane[i], c.lane[i] + int32_t(a.lane[i]) * b.lane[i]);
    return c;
}
CS336_INLINE int64_t sum(Ints a) { return int64_t(a.lane[0]) + a.lane[1] + a.lane[2] + a.lane[3]; }

#undef CS336_EACH

}  // namespace scalar

#if defined(CS336_X86)
// AVX2 with fused multiply-add, which is a separate instruction set.
#define CS336_AVX2_FMA __attribute__((target("avx2,fma")))

inline bool has_avx2_fma() { return has_avx2() && __builtin_cpu_supports("fma"); }

namespace avx2 {

#define CS336_LANES CS336_INLINE CS336_AVX2_FMA

constexpr size_t WIDTH = 8, SHORTS = 16;
using Floats = __m256;
struct Shorts {
    __m256i lanes;
};
struct Ints {
    __m256i lanes;
};

CS336_LANES Floats spread(float x) { return _mm256_set1_ps(x); }
CS336_LANES Floats load(const float* from) { return _mm256_loadu_ps(from); }
CS336_LANES Floats load(const BFloat16* from) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}
CS336_LANES void store(float* to, Floats x) { _mm256_storeu_ps(to, x); }
CS336_LANES Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
CS336_LANES Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
CS336_LANES Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
CS336_LANES Floats divide(Floats a, Floats b) { return _mm256_div_ps(a, b); }
CS336_LANES Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
CS336_LANES Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
CS336_LANES Floats smaller(Floats a, Floats b) { return _mm256_min_ps(a, b); }
CS336_LANES Floats magnitude(Floats a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
CS336_LANES Floats scale_by_power(Floats a, Floats exponents) {
    const __m256i powers = _mm256_slli_epi32(_mm256_castps_si256(exponents), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), powers));
}
CS336_LANES float sum(Floats a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_shuffle_ps(x, x, 1)));
}
CS336_LANES float largest(Floats a) {
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_shuffle_ps(x, x, 1)));
}

CS336_LANES Ints no_ints() { return {_mm256_setzero_si256()}; }
CS336_LANES Shorts load_shorts(const int16_t* from) {
    return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))};
}
CS336_LANES Shorts load_shorts(const int8_t* from) {
    return {_mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
}
CS336_LANES Ints multiply_add(Shorts a, Shorts b, Ints c) {
    return {_mm256_add_epi32(c.lanes, _mm256_madd_epi16(a.lanes, b.lanes))};
}
CS336_LANES int64_t sum(Ints a) {
    const __m256i low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(a.lanes));
    const __m256i high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256(a.lanes, 1));
    const __m256i both = _mm256_add_epi64(low, high);
    const __m128i x =
        _mm_add_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    return _mm_cvtsi128_si64(_mm_add_epi64(x, _mm_unpackhi_epi64(x, x)));
}

#undef CS336_LANES

}  // namespace avx2
#endif

#if defined(CS336_AVX512)
namespace avx512 {

#define CS336_LANES CS336_INLINE CS336_AVX512

constexpr size_t WIDTH = 16, SHORTS = 32;
using Floats = __m512;
struct Shorts {
    __m512i lanes;
};
struct Ints {
    __m512i lanes;
};

CS336_LANES Floats spread(float x) { return _mm512_set1_ps(x); }
CS336_LANES Floats load(const float* from) { return _mm512_loadu_ps(from); }
CS336_LANES Floats load(const BFloat16* from) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
CS336_LANES void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }
CS336_LANES Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
CS336_LANES Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
CS336_LANES Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
CS336_LANES Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
CS336_LANES Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
CS336_LANES Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }
CS336_LANES Floats smaller(Floats a, Floats b) { return _mm512_min_ps(a, b); }
CS336_LANES Floats magnitude(Floats a) { return _mm512_abs_ps(a); }
CS336_LANES Floats scale_by_power(Floats a, Floats exponents) {
    const __m512i powers = _mm512_slli_epi32(_mm512_castps_si512(exponents), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(a), powers));
}
CS336_LANES float sum(Floats a) { return _mm512_reduce_add_ps(a); }
CS336_LANES float largest(Floats a) { return _mm512_reduce_max_ps(a); }

CS336_LANES Ints no_ints() { return {_mm512_setzero_si512()}; }
CS336_LANES Shorts load_shorts(const int16_t* from) {
    return {_mm512_loadu_si512(reinterpret_cast<const void*>(from))};
}
CS336_LANES Shorts load_shorts(const int8_t* from) {
    return {_mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}
CS336_LANES Ints multiply_add(Shorts a, Shorts b, Ints c) {
    return {_mm512_add_epi32(c.lanes, _mm512_madd_epi16(a.lanes, b.lanes))};
}
CS336_LANES int64_t sum(Ints a) {
    const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(a.lanes));
    const __m512i high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(a.lanes, 1));
    return _mm512_reduce_add_epi64(_mm512_add_epi64(low, high));
}

#undef CS336_LANES

}  // namespace avx512
#endif

#if defined(CS336_NEON)
namespace neon {

constexpr size_t WIDTH = 4, SHORTS = 8;
using Floats = float32x4_t;
struct Shorts {
    int16x8_t lanes;
};
struct Ints {
    int32x4_t lanes;
};

CS336_INLINE Floats spread(float x) { return vdupq_n_f32(x); }
CS336_INLINE Floats load(const float* from) { return vld1q_f32(from); }
CS336_INLINE Floats load(const BFloat16* from) {
    const uint16x4_t halves = vld1_u16(reinterpret_cast<const uint16_t*>(from));
    return vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(halves), 16));
}
CS336_INLINE void store(float* to, Floats x) { vst1q_f32(to, x); }
CS336_INLINE Floats add(Floats a, Floats b) { return vaddq_f32(a, b); }
CS336_INLINE Floats subtract(Floats a, Floats b) { return vsubq_f32(a, b); }
CS336_INLINE Floats multiply(Floats a, Floats b) { return vmulq_f32(a, b); }
CS336_INLINE Floats divide(Floats a, Floats b) { return vdivq_f32(a, b); }
CS336_INLINE Floats multiply_add(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
CS336_INLINE Floats larger(Floats a, Floats b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
CS336_INLINE Floats smaller(Floats a, Floats b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
CS336_INLINE Floats magnitude(Floats a) { return vabsq_f32(a); }
CS336_INLINE Floats scale_by_power(Floats a, Floats exponents) {
    const int32x4_t powers = vshlq_n_s32(vreinterpretq_s32_f32(exponents), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(a), powers));
}
CS336_INLINE float sum(Floats a) { return vaddvq_f32(a); }
CS336_INLINE float largest(Floats a) { return vmaxvq_f32(a); }

CS336_INLINE Ints no_ints() { return {vdupq_n_s32(0)}; }
CS336_INLINE Shorts load_shorts(const int16_t* from) { return {vld1q_s16(from)}; }
CS336_INLINE Shorts load_shorts(const int8_t* from) { return {vmovl_s8(vld1_s8(from))}; }
CS336_INLINE Ints multiply_add(Shorts a, Shorts b, Ints c) {
    const int32x4_t low = vmlal_s16(c.lanes, vget_low_s16(a.lanes), vget_low_s16(b.lanes));
    return {vmlal_s16(low, vget_high_s16(a.lanes), vget_high_s16(b.lanes))};
}
CS336_INLINE int64_t sum(Ints a) { return vaddlvq_s32(a.lanes); }

}  // namespace neon
#endif

}  // namespace cs336

// Replaces native/base/simd_target.hpp in test_emulated_simd.py. SIMDe emulates the AVX2,
// AVX-512 and NEON instructions on any CPU.

#pragma once

#include <cstdint>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>
#include <simde/x86/avx2.h>
#include <simde/x86/avx512.h>

#define CS336_X86 1
#define CS336_NEON 1
#define CS336_AVX2
#define CS336_AVX512

// Instructions that SIMDe does not emulate.

#if !defined(__AVX512F__)
using __mmask64 = uint64_t;
#endif

#if !defined(__BMI__)
inline uint64_t _tzcnt_u64(uint64_t word) { return word ? __builtin_ctzll(word) : 64; }
#endif

#if !defined(__POPCNT__)
inline long long _mm_popcnt_u64(uint64_t word) { return __builtin_popcountll(word); }
#endif

#if !defined(_mm512_maskz_compress_epi8) && !defined(__AVX512VBMI2__)
inline simde__m512i _mm512_maskz_compress_epi8(uint64_t mask, simde__m512i v) {
    uint8_t from[64], to[64] = {};
    simde_mm512_storeu_si512(from, v);
    int count = 0;
    for (int i = 0; i < 64; ++i) {
        if (mask >> i & 1) to[count++] = from[i];
    }
    return simde_mm512_loadu_si512(to);
}
#endif

#if !defined(_mm512_cvtepu8_epi32) && !defined(__AVX512F__)
inline simde__m512i _mm512_cvtepu8_epi32(simde__m128i v) {
    uint8_t from[16];
    uint32_t to[16];
    simde_mm_storeu_si128(reinterpret_cast<simde__m128i*>(from), v);
    for (int i = 0; i < 16; ++i) to[i] = from[i];
    return simde_mm512_loadu_si512(to);
}
#endif

#if !defined(_mm512_shuffle_i64x2) && !defined(__AVX512F__)
// Supports only two equal vectors, which is all that avx512.hpp passes.
inline simde__m512i _mm512_shuffle_i64x2(simde__m512i v, simde__m512i, int order) {
    uint64_t from[8], to[8];
    simde_mm512_storeu_si512(from, v);
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = from[2 * (order >> 2 * i & 3)];
        to[2 * i + 1] = from[2 * (order >> 2 * i & 3) + 1];
    }
    return simde_mm512_loadu_si512(to);
}
#endif

namespace cs336 {

inline bool has_avx2() { return true; }
inline bool has_avx512() { return true; }

}  // namespace cs336

// Replaces native/base/simd_target.hpp in test_emulated_simd.py. SIMDe emulates the AVX2 and NEON
// instructions on any CPU. CS336_AVX512 is not defined, because it does not emulate AVX-512.

#pragma once

#include <cstdint>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>
#include <simde/x86/avx2.h>
#include <simde/x86/fma.h>

#define CS336_X86 1
#define CS336_NEON 1
#define CS336_AVX2

// Instructions that SIMDe does not emulate.

#if !defined(__BMI__)
inline uint64_t _tzcnt_u64(uint64_t word) { return word ? __builtin_ctzll(word) : 64; }
#endif

#if !defined(vdivq_f32)  // added to SIMDe after version 0.7.4
inline float32x4_t vdivq_f32(float32x4_t a, float32x4_t b) { return a / b; }
#endif

namespace cs336 {

inline bool has_avx2() { return true; }
inline bool has_avx512() { return true; }

}  // namespace cs336

// Replaces native/base/simd_target.hpp in test_emulated_simd.py. SIMDe emulates the AVX2 and NEON
// instructions on any CPU. CS336_AVX512 is not defined, because it does not emulate AVX-512.

#pragma once

#include <cstdint>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/arm/neon.h>
#include <simde/x86/avx2.h>

#define CS336_X86 1
#define CS336_NEON 1
#define CS336_AVX2

// Instructions that SIMDe does not emulate.

#if !defined(__BMI__)
inline uint64_t _tzcnt_u64(uint64_t word) { return word ? __builtin_ctzll(word) : 64; }
#endif

namespace cs336 {

inline bool has_avx2() { return true; }
inline bool has_avx512() { return true; }

}  // namespace cs336

// The SIMD levels, and the choice between them at run time.

#pragma once

#include <cstdlib>
#include <cstring>

#include "base/simd_target.hpp"

namespace cs336 {

// SCALAR uses no vector instructions. Only the encoder has code for AVX512; the scanner uses AVX2.
enum class SimdLevel { SCALAR, NEON, AVX2, AVX512 };

inline const char* const SIMD_LEVEL_NAMES[] = {"scalar", "neon", "avx2", "avx512"};
constexpr int NUM_SIMD_LEVELS = 4;

// Whether this build and this CPU support the level.
inline bool has_simd_level(SimdLevel simd_level) {
    switch (simd_level) {
        case SimdLevel::SCALAR: return true;
#if defined(CS336_NEON)
        case SimdLevel::NEON: return true;
#endif
#if defined(CS336_X86)
        case SimdLevel::AVX2: return has_avx2();
        case SimdLevel::AVX512: return has_avx512();
#endif
        default: return false;
    }
}

// The level named in the CS336_SIMD environment variable, or the fastest supported level.
// `_scanner.pyx` rejects other names.
inline SimdLevel best_simd_level() {
    static const SimdLevel best = [] {
        if (const char* wanted = std::getenv("CS336_SIMD")) {
            for (int i = 0; i < NUM_SIMD_LEVELS; ++i) {
                if (!std::strcmp(wanted, SIMD_LEVEL_NAMES[i]) && has_simd_level(SimdLevel(i))) {
                    return SimdLevel(i);
                }
            }
        }
        for (int i = NUM_SIMD_LEVELS - 1; i > 0; --i) {
            if (has_simd_level(SimdLevel(i))) return SimdLevel(i);
        }
        return SimdLevel::SCALAR;
    }();
    return best;
}

}  // namespace cs336

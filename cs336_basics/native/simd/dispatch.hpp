// The SIMD levels, and the choice between them at run time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "avx2.hpp"
#include "avx512.hpp"
#include "neon.hpp"
#include "portable.hpp"
#include "scalar.hpp"
#include "target.hpp"

namespace cs336 {

enum class SimdLevel { SCALAR, PORTABLE, NEON, AVX2, AVX512 };

inline const char* const SIMD_LEVEL_NAMES[] = {"scalar", "portable", "neon", "avx2", "avx512"};
constexpr int NUM_SIMD_LEVELS = 5;

// Whether this build and this CPU support it.
inline bool has_simd_level(SimdLevel simd_level) {
    switch (simd_level) {
        case SimdLevel::SCALAR:
        case SimdLevel::PORTABLE: return true;
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

// The fastest SIMD level of this CPU, or the one that the environment variable CS336_SIMD names.
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

// The type of `fill`; see scalar.hpp.
using Fill = size_t (*)(const uint8_t*, size_t, size_t&, uint32_t*);

template <class Pattern>
Fill fill_function(SimdLevel simd_level) {
    switch (simd_level) {
#if defined(CS336_X86)
        case SimdLevel::AVX512: return avx512::fill<Pattern>;
        case SimdLevel::AVX2: return avx2::fill<Pattern>;
#endif
#if defined(CS336_NEON)
        case SimdLevel::NEON: return neon::fill<Pattern>;
#endif
        case SimdLevel::PORTABLE: return portable::fill<Pattern>;
        default: return scalar::fill<Pattern>;
    }
}

}  // namespace cs336

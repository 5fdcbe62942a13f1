// The SIMD levels, and the choice between them at run time.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "scanning/simd/avx2.hpp"
#include "scanning/simd/avx512.hpp"
#include "scanning/simd/neon.hpp"
#include "scanning/simd/portable.hpp"
#include "scanning/simd/scalar.hpp"
#include "scanning/simd/starts.hpp"
#include "scanning/simd/target.hpp"

namespace cs336 {

enum class SimdLevel { SCALAR, PORTABLE, NEON, AVX2, AVX512 };

inline const char* const SIMD_LEVEL_NAMES[] = {"scalar", "portable", "neon", "avx2", "avx512"};
constexpr int NUM_SIMD_LEVELS = 5;

// Whether this build and this CPU support the level.
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

// The level named in the CS336_SIMD environment variable, if supported; otherwise, the fastest
// supported level.
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

// The types of `fill` and `fill_with`; see scalar.hpp.
using Fill = size_t (*)(const uint8_t*, size_t, size_t&, uint32_t*);
using FillWith = size_t (*)(const SplitProgram&, const uint8_t*, size_t, size_t&, uint32_t*,
                            ScanState&);

template <class Pattern, class Starts>
Fill fill_function(SimdLevel simd_level) {
    switch (simd_level) {
#if defined(CS336_X86)
        case SimdLevel::AVX512: return avx512::fill<Pattern, Starts>;
        case SimdLevel::AVX2: return avx2::fill<Pattern, Starts>;
#endif
#if defined(CS336_NEON)
        case SimdLevel::NEON: return neon::fill<Pattern, Starts>;
#endif
        case SimdLevel::PORTABLE: return portable::fill<Pattern, Starts>;
        default: return scalar::fill<Pattern, Starts>;
    }
}

template <class Starts>
FillWith fill_with_function(SimdLevel simd_level) {
    switch (simd_level) {
#if defined(CS336_X86)
        case SimdLevel::AVX512: return avx512::fill_with<Starts>;
        case SimdLevel::AVX2: return avx2::fill_with<Starts>;
#endif
#if defined(CS336_NEON)
        case SimdLevel::NEON: return neon::fill_with<Starts>;
#endif
        case SimdLevel::PORTABLE: return portable::fill_with<Starts>;
        default: return scalar::fill_with<Starts>;
    }
}

// A pattern that uses masks wherever they find the pre-token starts of a window, and its
// SplitProgram elsewhere.
struct MaskedPattern {
    const char* name;
    FillWith (*fill_with)(SimdLevel);
};

inline const MaskedPattern MASKED_PATTERNS[] = {
    {"gpt2-digits1", fill_with_function<Gpt2Starts<Digits::SINGLE>>},
    {"gpt2-digits3", fill_with_function<Gpt2Starts<Digits::THREES>>},
    {"gpt2-digits3-right", fill_with_function<Gpt2Starts<Digits::THREES_FROM_RIGHT>>},
    {"llama3", fill_with_function<Cl100kStarts<Llama3Rules>>},
    {"qwen2", fill_with_function<Cl100kStarts<Qwen2Rules>>},
    {"o200k", fill_with_function<Cl100kStarts<O200kRules>>},
    {"deepseek-v3", fill_with_function<Cl100kStarts<DeepseekV3Rules>>},
};
constexpr int NUM_MASKED_PATTERNS = int(sizeof(MASKED_PATTERNS) / sizeof(MASKED_PATTERNS[0]));

}  // namespace cs336

// The functions that find pre-tokens, by SIMD level.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/simd_level.hpp"
#include "base/simd_target.hpp"
#include "scanning/simd/avx2.hpp"
#include "scanning/simd/neon.hpp"
#include "scanning/simd/scalar.hpp"
#include "scanning/simd/starts.hpp"

namespace cs336 {

// The types of `fill` and `fill_with`; see scalar.hpp.
using Fill = size_t (*)(const uint8_t*, size_t, size_t&, uint32_t*);
using FillWith = size_t (*)(const SplitProgram&, const uint8_t*, size_t, size_t&, uint32_t*,
                            ScanState&);

template <class Pattern, class Starts>
Fill fill_function(SimdLevel simd_level) {
    switch (simd_level) {
#if defined(CS336_X86)
        case SimdLevel::AVX512:
        case SimdLevel::AVX2: return avx2::fill<Pattern, Starts>;
#endif
#if defined(CS336_NEON)
        case SimdLevel::NEON: return neon::fill<Pattern, Starts>;
#endif
        default: return scalar::fill<Pattern, Starts>;
    }
}

template <class Starts>
FillWith fill_with_function(SimdLevel simd_level) {
    switch (simd_level) {
#if defined(CS336_X86)
        case SimdLevel::AVX512:
        case SimdLevel::AVX2: return avx2::fill_with<Starts>;
#endif
#if defined(CS336_NEON)
        case SimdLevel::NEON: return neon::fill_with<Starts>;
#endif
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

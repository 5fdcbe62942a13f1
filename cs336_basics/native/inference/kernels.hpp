// The kernels of a Transformer: products, normalization, activation and attention.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <type_traits>

#include "base/compiler.hpp"
#include "base/simd_level.hpp"
#include "inference/lanes.hpp"

namespace cs336 {

// How the weights of a matrix are stored. INT8 has a scale for each row.
enum class Precision { FLOAT32, BFLOAT16, INT8 };

struct Matrix {
    size_t rows = 0, columns = 0;
    Precision precision = Precision::FLOAT32;
    const void* weights = nullptr;  // rows * columns numbers, row by row
    const float* scales = nullptr;  // of each row, for INT8
    const float* bias = nullptr;    // of each row, or null
};

// Vectors to multiply with a matrix, one for each token. For INT8 matrices, they are integers and a
// scale for each token.
struct Inputs {
    size_t tokens = 0;
    const float* values = nullptr;
    const int16_t* integers = nullptr;
    const float* scales = nullptr;
};

// Keys are stored in blocks of 16 slots: feature 0 of each slot, then feature 1, and so on. The
// scores of a query then need no sums over the lanes of a vector.
constexpr size_t KEY_BLOCK = 16;

struct Kernels {
    // out[token * stride + row] = the product of a row and a token, for rows first .. last - 1.
    void (*multiply)(const Matrix& matrix, size_t first, size_t last, const Inputs& inputs,
                     float* out, size_t stride);
    void (*round_to_bfloat16)(const float* x, size_t size, BFloat16* out);
    // These return the scale of the integers.
    float (*round_to_int8)(const float* x, size_t size, int8_t* out);
    float (*round_to_int16)(const float* x, size_t size, int16_t* out);
    void (*normalize)(const float* x, const float* gain, float eps, size_t size, float* out);
    void (*activate)(const float* x, const float* gate, size_t size, float* out);
    void (*attend)(const float* query, const float* keys, const float* values, size_t slots,
                   size_t d_head, float* scores, float* out);
};

namespace scalar {
#define CS336_TARGET
#include "inference/kernels_inl.hpp"
#undef CS336_TARGET
}  // namespace scalar

#if defined(CS336_X86)
namespace avx2 {
#define CS336_TARGET CS336_AVX2_FMA
#include "inference/kernels_inl.hpp"
#undef CS336_TARGET
}  // namespace avx2
#endif

#if defined(CS336_AVX512)
namespace avx512 {
#define CS336_TARGET CS336_AVX512
#include "inference/kernels_inl.hpp"
#undef CS336_TARGET
}  // namespace avx512
#endif

#if defined(CS336_NEON)
namespace neon {
#define CS336_TARGET
#include "inference/kernels_inl.hpp"
#undef CS336_TARGET
}  // namespace neon
#endif

inline const Kernels& kernels_of(SimdLevel simd_level) {
    switch (simd_level) {
#if defined(CS336_AVX512)
        case SimdLevel::AVX512: return avx512::KERNELS;
#endif
#if defined(CS336_X86)
        case SimdLevel::AVX2: return has_avx2_fma() ? avx2::KERNELS : scalar::KERNELS;
#endif
#if defined(CS336_NEON)
        case SimdLevel::NEON: return neon::KERNELS;
#endif
        default: return scalar::KERNELS;
    }
}

}  // namespace cs336

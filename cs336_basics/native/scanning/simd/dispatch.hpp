// The functions that scan windows, by SIMD level.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/simd_level.hpp"
#include "scanning/simd/avx2.hpp"
#include "scanning/simd/avx2_named.hpp"
#include "scanning/simd/neon.hpp"
#include "scanning/simd/window.hpp"
#include "scanning/split_program.hpp"

namespace cs336 {

inline ScanWindows scan_windows_function([[maybe_unused]] const SplitProgram& program,
                                         SimdLevel simd_level) {
    switch (simd_level) {
#if defined(CS336_X86)
        case SimdLevel::AVX512:
        case SimdLevel::AVX2: {
            const ScanWindows named = avx2::named_scan_windows(program.name());
            return named ? named : avx2::scan_windows;
        }
#endif
#if defined(CS336_NEON)
        case SimdLevel::NEON: return neon::scan_windows;
#endif
        default: return scalar::scan_windows;
    }
}

}  // namespace cs336

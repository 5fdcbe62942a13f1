// The vector instructions that the compiler supports, and the attributes that enable them.

#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define CS336_X86 1
#include <cpuid.h>
#if defined(__clang__)
#include <immintrin.h>
#else
// GCC 12 warns about variables in its own header that are uninitialized on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

// Call a function with one of these attributes only if has_avx2() or has_avx512() is true.
#define CS336_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define CS336_AVX512                                                                               \
    __attribute__((                                                                                \
        target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))

namespace cs336 {

// A CPU without LZCNT executes the instruction as BSR, whose results differ.
// `__builtin_cpu_supports` recognizes the name only from GCC 11 on. CPUID takes microseconds in a
// virtual machine, so it is asked once.
inline bool has_lzcnt() {
    static const bool has = [] {
        unsigned a = 0, b = 0, c = 0, d = 0;
        return __get_cpuid(0x80000001, &a, &b, &c, &d) && (c >> 5 & 1);
    }();
    return has;
}

// Whether this CPU supports the instructions of CS336_AVX2.
inline bool has_avx2() {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
           __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt") && has_lzcnt();
}

// Whether this CPU supports the instructions of CS336_AVX512.
inline bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
           __builtin_cpu_supports("avx512vbmi2");
}

}  // namespace cs336
#endif

#if defined(__aarch64__) && defined(__GNUC__)
#define CS336_NEON 1
#include <arm_neon.h>
#endif

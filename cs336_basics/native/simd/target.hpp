// Which vector instructions the compiler can generate, and how a function asks for them.

#pragma once

#if defined(__x86_64__) && defined(__GNUC__)
#define CS336_X86 1
// GCC 12 warns about variables in its own header that are left uninitialized on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop

// Such a function may only be called after a check that the CPU has the instructions.
#define CS336_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define CS336_AVX512 \
    __attribute__((  \
        target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))
#endif

#if defined(__aarch64__) && defined(__GNUC__)
#define CS336_NEON 1
#include <arm_neon.h>
#endif

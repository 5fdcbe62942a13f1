// Wrappers for features that differ between compilers: inlining, prefetching, branch hints, relaxed
// loads and the search for a set bit.

#pragma once

#include <cstdint>

#if defined(__GNUC__)
#define CS336_INLINE inline __attribute__((always_inline))
#define CS336_NOINLINE __attribute__((noinline))
#define CS336_PREFETCH(address) __builtin_prefetch(address, 1)
// Mark a condition as rarely true, so that the compiler moves the branch out of the hot path.
#define CS336_UNLIKELY(condition) __builtin_expect(!!(condition), 0)
#else
#include <intrin.h>
#define CS336_INLINE __forceinline
#define CS336_NOINLINE __declspec(noinline)
#define CS336_PREFETCH(address) ((void)0)
#define CS336_UNLIKELY(condition) (condition)
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a little-endian CPU is required"
#endif

namespace cs336 {

// Load a number that another thread may change, exactly once. It is an ordinary load of the CPU.
template <class Number>
CS336_INLINE Number load_relaxed(const Number* number) {
#if defined(__GNUC__)
    return __atomic_load_n(number, __ATOMIC_RELAXED);
#else
    return *static_cast<const volatile Number*>(number);
#endif
}

// The index of the lowest set bit; `mask` must not be 0.
CS336_INLINE int lowest_bit(uint64_t mask) {
#if defined(__GNUC__)
    return __builtin_ctzll(mask);
#else
    unsigned long index;
    _BitScanForward64(&index, mask);
    return static_cast<int>(index);
#endif
}

// The index of the highest set bit; `mask` must not be 0.
CS336_INLINE int highest_bit(uint64_t mask) {
#if defined(__GNUC__)
    return 63 - __builtin_clzll(mask);
#else
    unsigned long index;
    _BitScanReverse64(&index, mask);
    return static_cast<int>(index);
#endif
}

}  // namespace cs336

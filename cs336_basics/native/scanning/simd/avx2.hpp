// The SIMD level `avx2`.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/simd_target.hpp"
#include "scanning/simd/window.hpp"

#if defined(CS336_X86)

namespace cs336 {

namespace avx2 {

CS336_AVX2 CS336_INLINE __m256i load(const uint8_t* bytes) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

// A table of 16 entries in both halves of a vector.
CS336_AVX2 CS336_INLINE __m256i table(const uint8_t* entries) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(entries)));
}

CS336_AVX2 CS336_INLINE uint64_t bits(__m256i low, __m256i high) {
    return uint32_t(_mm256_movemask_epi8(low)) | uint64_t(uint32_t(_mm256_movemask_epi8(high)))
                                                     << 32;
}

// The entries of a table for 64 bytes from 0x40 to 0x7F, or from 0 to 0x3F, whose other bits are
// ignored. `bit4` and `bit5` have these bits of the bytes as their highest bit.
CS336_AVX2 CS336_INLINE __m256i look_up_64(const uint8_t* entries, __m256i v, __m256i bit4,
                                           __m256i bit5) {
    const __m256i row0 = _mm256_shuffle_epi8(table(entries), v);
    const __m256i row1 = _mm256_shuffle_epi8(table(entries + 16), v);
    const __m256i row2 = _mm256_shuffle_epi8(table(entries + 32), v);
    const __m256i row3 = _mm256_shuffle_epi8(table(entries + 48), v);
    return _mm256_blendv_epi8(_mm256_blendv_epi8(row0, row1, bit4),
                              _mm256_blendv_epi8(row2, row3, bit4), bit5);
}

// The classes of 32 bytes. With `wide`, some of them are above 127.
template <bool WIDE>
CS336_AVX2 CS336_INLINE __m256i classes_of(const uint8_t* class_of_byte, __m256i bytes) {
    const __m256i v = WIDE ? _mm256_and_si256(bytes, _mm256_set1_epi8(0x7F)) : bytes;
    const __m256i bit4 = _mm256_slli_epi16(bytes, 3), bit5 = _mm256_slli_epi16(bytes, 2);
    const __m256i bit6 = _mm256_slli_epi16(bytes, 1);
    const __m256i ascii = _mm256_blendv_epi8(look_up_64(class_of_byte, v, bit4, bit5),
                                             look_up_64(class_of_byte + 64, v, bit4, bit5), bit6);
    if (!WIDE) return ascii;
    const __m256i lead = _mm256_blendv_epi8(_mm256_set1_epi8(BoundaryRules::CONTINUATION),
                                            look_up_64(class_of_byte + 192, v, bit4, bit5), bit6);
    return _mm256_blendv_epi8(ascii, lead, bytes);
}

struct Halves {
    __m256i low, high;
};

// Move all bytes up by one; the lowest byte becomes 0.
CS336_AVX2 CS336_INLINE Halves moved_up(Halves v) {
    const __m256i below_low = _mm256_permute2x128_si256(v.low, v.low, 0x08);
    const __m256i below_high = _mm256_permute2x128_si256(v.low, v.high, 0x21);
    return {_mm256_alignr_epi8(v.low, below_low, 15), _mm256_alignr_epi8(v.high, below_high, 15)};
}

// A mask of the bytes that have a common bit.
CS336_AVX2 CS336_INLINE uint64_t intersect(Halves a, Halves b) {
    const __m256i zero = _mm256_setzero_si256();
    return ~bits(_mm256_cmpeq_epi8(_mm256_and_si256(a.low, b.low), zero),
                 _mm256_cmpeq_epi8(_mm256_and_si256(a.high, b.high), zero));
}

CS336_AVX2 CS336_INLINE Halves look_up(const uint8_t* entries, Halves classes) {
    const __m256i t = table(entries);
    return {_mm256_shuffle_epi8(t, classes.low), _mm256_shuffle_epi8(t, classes.high)};
}

// The classes of the characters in a window, at their first bytes; CONTINUATION at all others.
// `wide` is a mask of the bytes above 127. Writes the mask of the other bytes of characters.
CS336_AVX2 inline Halves wide_classes(const SplitProgram& program, const uint8_t* window, Halves v,
                                      uint64_t& continuation, Halves& of_every_byte) {
    const uint8_t* const class_of_byte = program.rules().class_of_byte;
    Halves classes = {classes_of<true>(class_of_byte, v.low),
                      classes_of<true>(class_of_byte, v.high)};
    const __m256i limit = _mm256_set1_epi8(-64);  // 0x80 to 0xBF are below
    const Halves inside = {_mm256_cmpgt_epi8(limit, v.low), _mm256_cmpgt_epi8(limit, v.high)};
    continuation = bits(inside.low, inside.high);
    const __m256i mixed = _mm256_set1_epi8(BoundaryRules::MIXED);
    const uint64_t unknown =
        bits(_mm256_cmpeq_epi8(classes.low, mixed), _mm256_cmpeq_epi8(classes.high, mixed));
    if (unknown) {
        alignas(32) uint8_t stored[WINDOW];
        _mm256_store_si256(reinterpret_cast<__m256i*>(stored), classes.low);
        _mm256_store_si256(reinterpret_cast<__m256i*>(stored + 32), classes.high);
        classify_mixed(program, window, unknown, stored);
        classes = {load(stored), load(stored + 32)};
    }
    of_every_byte = classes;
    for (int i = 0; i < 3; ++i) {
        const Halves moved = moved_up(of_every_byte);
        of_every_byte = {_mm256_blendv_epi8(classes.low, moved.low, inside.low),
                         _mm256_blendv_epi8(classes.high, moved.high, inside.high)};
    }
    return classes;
}

CS336_AVX2 CS336_INLINE Marks marks(const SplitProgram& program, const uint8_t* window) {
    const BoundaryRules& rules = program.rules();
    const Halves v = {load(window), load(window + 32)};
    const uint64_t wide = bits(v.low, v.high);
    Marks m;
    m.continuation = 0;
    Halves classes, of_every_byte;
    if (CS336_UNLIKELY(wide)) {
        classes = wide_classes(program, window, v, m.continuation, of_every_byte);
    } else {
        classes = {classes_of<false>(rules.class_of_byte, v.low),
                   classes_of<false>(rules.class_of_byte, v.high)};
        of_every_byte = classes;
    }
    const Halves groups = moved_up(look_up(rules.groups, of_every_byte));
    m.starts = intersect(groups, look_up(rules.starts, classes));
    m.unclear = 0;
    if (!intersect(groups, look_up(rules.special, classes))) return m;
    m.unclear = intersect(groups, look_up(rules.unclear, classes));
    const Halves decided = look_up(rules.decided, classes);
    const Halves skipped = look_up(rules.skipped, classes);
    for (size_t type = 0; type < rules.num_types; ++type) {
        const uint64_t typed = intersect(groups, look_up(rules.typed[type], classes));
        if (!typed) continue;
        const __m256i bit = _mm256_set1_epi8(char(1 << type));
        const __m256i start = _mm256_set1_epi8(char(16 << type));
        apply_next(m, typed, wide, intersect(decided, {bit, bit}),
                   intersect(decided, {start, start}), intersect(skipped, {bit, bit}));
    }
    if (m.unclear) {
        for (int i = 0; i < BoundaryRules::NUM_CONDITIONS; ++i) {
            m.conditions[i] = intersect(groups, look_up(rules.conditions[i], classes));
        }
    }
    return m;
}

// Write origin + i to `out` for every set bit i of `bits`, eight at a time, so that the CPU
// predicts the loop better. Returns the number of set bits. `out` must have room for 72 elements.
CS336_AVX2 CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    const size_t count = __builtin_popcountll(bits);
    for (size_t done = 0; done < count; done += 8) {
        for (int k = 0; k < 8; ++k) {
            // When `bits` is 0, this writes origin + 64 beyond `count`.
            out[done + k] = origin + uint32_t(_tzcnt_u64(bits));
            bits &= bits - 1;
        }
    }
    return count;
}

CS336_DEFINE_SCAN(CS336_AVX2)

}  // namespace avx2

}  // namespace cs336

#endif  // CS336_X86

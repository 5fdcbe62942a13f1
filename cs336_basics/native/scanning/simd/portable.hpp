// The SIMD level `portable`: no intrinsics, only loops that compilers can vectorize.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "scanning/simd/masks.hpp"

namespace cs336 {

namespace portable {

// Pack 64 bytes that are 0 or 1 into 64 bits.
CS336_INLINE uint64_t pack(const uint8_t* flags) {
    uint64_t mask = 0;
    for (int i = 0; i < 8; ++i) {
        uint64_t word;
        std::memcpy(&word, flags + 8 * i, 8);
        mask |= (word * 0x0102040810204080ull >> 56) << (8 * i);
    }
    return mask;
}

template <Wide WIDE>
CS336_INLINE Masks masks(const uint8_t* window) {
    uint8_t letter[64], number[64], space[64], blank[64], apostrophe[64], line_end[64];
    uint8_t upper[64], slash[64], control[64], high[64], continuation[64];
    for (int i = 0; i < 64; ++i) letter[i] = uint8_t((window[i] | 0x20) - 'a') < 26;
    for (int i = 0; i < 64; ++i) number[i] = uint8_t(window[i] - '0') < 10;
    for (int i = 0; i < 64; ++i) blank[i] = window[i] == ' ';
    for (int i = 0; i < 64; ++i) space[i] = (uint8_t(window[i] - 9) < 5) | (window[i] == ' ');
    for (int i = 0; i < 64; ++i) apostrophe[i] = window[i] == '\'';
    for (int i = 0; i < 64; ++i) line_end[i] = (window[i] == '\n') | (window[i] == '\r');
    for (int i = 0; i < 64; ++i) upper[i] = uint8_t(window[i] - 'A') < 26;
    for (int i = 0; i < 64; ++i) slash[i] = window[i] == '/';
    for (int i = 0; i < 64; ++i) control[i] = (window[i] < ' ') | (window[i] == 0x7F);
    for (int i = 0; i < 64; ++i) high[i] = window[i] >> 7;
    Masks m = {};
    m.letter = pack(letter);
    m.number = pack(number);
    m.space = pack(space);
    m.blank = pack(blank);
    m.apostrophe = pack(apostrophe);
    m.line_end = pack(line_end);
    m.upper = pack(upper);
    m.lower = m.letter & ~m.upper;
    m.slash = pack(slash);
    m.control = pack(control) & ~m.space;
    m.wide = pack(high);
    if (m.wide) {
        for (int i = 0; i < 64; ++i) continuation[i] = (window[i] & 0xC0) == 0x80;
        m.continuation = pack(continuation);
        m.wide &= ~m.continuation;
        classify_wide<WIDE>(m, window);
    }
    return m;
}

// Write origin + i to `out` for every set bit i of `bits`. Returns the number of set bits. `out`
// must have room for 64 elements.
CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    size_t count = 0;
    while (bits) {
        out[count++] = origin + lowest_bit(bits);
        bits &= bits - 1;
    }
    return count;
}

CS336_DEFINE_FILL()

}  // namespace portable

}  // namespace cs336

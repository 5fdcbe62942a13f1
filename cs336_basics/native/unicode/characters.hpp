// The characters of UTF-8 text, which must be valid.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"

namespace cs336 {

// The number of bytes of the character with this first byte.
CS336_INLINE size_t character_length(uint8_t first) {
    return first < 0x80 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
}

// The code point of a multi-byte character in two parts: `index` is its lowest six bits, and
// `block` is all higher bits. The encodings of the code points in a block differ only in the last
// byte.
struct WideCode {
    uint32_t block, index;
    uint32_t length;  // in bytes
};

// The character of two or more bytes that starts at `p`.
CS336_INLINE WideCode wide_code(const uint8_t* p) {
    const uint32_t first = p[0];
    if (first < 0xE0) return {first & 0x1F, p[1] & 0x3Fu, 2};
    const uint32_t second = p[1] & 0x3F, third = p[2] & 0x3F;
    if (first < 0xF0) return {(first & 0x0F) << 6 | second, third, 3};
    return {(first & 0x07) << 12 | second << 6 | third, p[3] & 0x3Fu, 4};
}

// Set the highest bit of every byte of `word` that is an ASCII letter.
CS336_INLINE uint64_t ascii_letters(uint64_t word) {
    constexpr uint64_t EVERY = 0x0101010101010101ull;
    const uint64_t lower = (word | 0x20 * EVERY) & 0x7F * EVERY;
    // No sum overflows its byte. The first sum is at least 128 from 'a' on, the second after 'z'.
    const uint64_t from_a = lower + (0x80 - 'a') * EVERY, beyond_z = lower + (0x7F - 'z') * EVERY;
    return from_a & ~beyond_z & ~word & 0x80 * EVERY;
}

}  // namespace cs336

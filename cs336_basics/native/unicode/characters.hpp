// The classes of UTF-8 characters (letter, number, whitespace, other) and runs of one class. The
// text must be valid UTF-8.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/compiler.hpp"
#include "unicode/unicode_tables.hpp"

namespace cs336 {

struct Character {
    uint32_t char_class;
    uint32_t length;  // in bytes
};

// CATEGORY_RUNS as a table. Code points are divided into blocks of 64, whose UTF-8 encodings differ
// only in the last byte. Adjacent equal blocks are stored once.
struct CategoryTable {
    uint16_t block_of[0x110000 / 64];
    uint8_t blocks[NUM_BLOCKS][64];

    CategoryTable() {
        std::vector<uint8_t> categories;
        categories.reserve(0x110000);
        for (const uint32_t run : CATEGORY_RUNS) {
            categories.insert(categories.end(), run >> 4, uint8_t(run & 15));
        }
        size_t last = 0;
        std::memcpy(blocks[0], &categories[0], 64);
        for (size_t i = 0; i < 0x110000 / 64; ++i) {
            const uint8_t* const block = &categories[64 * i];
            if (std::memcmp(blocks[last], block, 64)) std::memcpy(blocks[++last], block, 64);
            block_of[i] = uint16_t(last);
        }
    }
};

inline const CategoryTable CATEGORIES;

// The category of a code point: `index` is its lowest six bits, and `block` is all higher bits.
CS336_INLINE uint32_t category_in_block(uint32_t block, uint32_t index) {
    return CATEGORIES.blocks[CATEGORIES.block_of[block]][index];
}

CS336_INLINE uint32_t class_of(uint32_t category) { return category & 3; }

// The code point of a multi-byte character, in two parts; see `category_in_block`.
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

CS336_INLINE Character wide_character(const uint8_t* p) {
    const WideCode code = wide_code(p);
    return {class_of(category_in_block(code.block, code.index)), code.length};
}

CS336_INLINE Character character(const uint8_t* p) {
    if (*p < 0x80) return {ASCII_CLASS[*p], 1};
    return wide_character(p);
}

// ASCII_CLASS extended to all bytes: 0xFF for a byte of a multi-byte character.
struct ByteClass {
    uint8_t of_byte[256];
    constexpr ByteClass() : of_byte() {
        for (int byte = 0; byte < 256; ++byte) {
            of_byte[byte] = byte < 128 ? ASCII_CLASS[byte] : 0xFF;
        }
    }
};

inline constexpr ByteClass BYTE_CLASS;

// Set the highest bit of every byte of `word` that is an ASCII letter.
CS336_INLINE uint64_t ascii_letters(uint64_t word) {
    constexpr uint64_t EVERY = 0x0101010101010101ull;
    const uint64_t lower = (word | 0x20 * EVERY) & 0x7F * EVERY;
    // No sum overflows its byte. The first sum is at least 128 from 'a' on, the second after 'z'.
    const uint64_t from_a = lower + (0x80 - 'a') * EVERY, beyond_z = lower + (0x7F - 'z') * EVERY;
    return from_a & ~beyond_z & ~word & 0x80 * EVERY;
}

// The end of the run of `char_class` characters that starts at `i`.
inline size_t run_end(const uint8_t* text, size_t size, size_t i, uint32_t char_class) {
    // Skip eight ASCII letters at a time, which avoids a branch that is hard to predict.
    if (char_class == LETTER) {
        for (; size - i >= 8; i += 8) {
            uint64_t word;
            std::memcpy(&word, text + i, 8);
            const uint64_t others = ascii_letters(word) ^ 0x8080808080808080ull;
            if (others) {
                i += lowest_bit(others) / 8;
                break;
            }
        }
    }
    for (;;) {
        while (i < size && BYTE_CLASS.of_byte[text[i]] == char_class) ++i;
        if (i == size || text[i] < 0x80) return i;
        const Character c = wide_character(text + i);
        if (c.char_class != char_class) return i;
        i += c.length;
    }
}

CS336_INLINE bool is_line_end(uint8_t byte) { return byte == '\n' || byte == '\r'; }

// A run of whitespace.
struct WhiteSpace {
    size_t end;       // of the run
    size_t last;      // the start of its last character
    size_t line_end;  // the end of its last CR or LF; 0 if it has none
};

inline WhiteSpace white_space(const uint8_t* text, size_t size, size_t i) {
    WhiteSpace run = {i, i, 0};
    while (run.end < size) {
        const Character c = character(text + run.end);
        if (c.char_class != SPACE) break;
        run.last = run.end;
        run.end += c.length;
        if (is_line_end(text[run.last])) run.line_end = run.end;
    }
    return run;
}

}  // namespace cs336

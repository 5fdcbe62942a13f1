// The split patterns `gpt2` and `cl100k`: functions that find the end of one pre-token, character
// by character, exactly as the regular expressions in named_patterns.py do. If you edit one of
// these expressions, also edit its code here and in simd/starts.hpp.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "unicode/characters.hpp"

namespace cs336 {

// The length of the contraction that starts with the apostrophe at `i`; 0 if there is none.
CS336_INLINE size_t contraction_gpt2(const uint8_t* text, size_t size, size_t i) {
    if (i + 1 >= size) return 0;
    const uint8_t a = text[i + 1];
    if (a == 's' || a == 't' || a == 'd' || a == 'm') return 2;
    if (i + 2 >= size) return 0;
    const uint8_t b = text[i + 2];
    return (a == 'l' && b == 'l') || ((a == 'v' || a == 'r') && b == 'e') ? 3 : 0;
}

// Like contraction_gpt2, but ignores case. Simple case folding maps U+017F, the long s, to s.
CS336_INLINE size_t contraction_cl100k(const uint8_t* text, size_t size, size_t i) {
    if (i + 1 >= size) return 0;
    const uint8_t a = text[i + 1] | 0x20;
    if (a == 's' || a == 't' || a == 'd' || a == 'm') return 2;
    if (i + 2 >= size) return 0;
    if (text[i + 1] == 0xC5 && text[i + 2] == 0xBF) return 3;
    const uint8_t b = text[i + 2] | 0x20;
    return (a == 'l' && b == 'l') || ((a == 'v' || a == 'r') && b == 'e') ? 3 : 0;
}

// The pattern `gpt2`.
struct Gpt2 {
    // The end of the pre-token that starts at `i` < `size`.
    static size_t next(const uint8_t* text, size_t size, size_t i) {
        if (text[i] == '\'') {
            const size_t length = contraction_gpt2(text, size, i);
            if (length) return i + length;
        }
        size_t start = i;
        if (text[i] == ' ' && i + 1 < size) start = i + 1;
        // ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+`
        const Character c = character(text + start);
        if (c.char_class != SPACE) return run_end(text, size, start + c.length, c.char_class);

        // `\s+(?!\S)|\s+`: the last space belongs to the next pre-token, except at the end of the
        // text.
        const WhiteSpace run = white_space(text, size, i);
        return run.end == size || run.last == i ? run.end : run.last;
    }
};

// The pattern `cl100k`.
struct Cl100k {
    static size_t next(const uint8_t* text, size_t size, size_t i) {
        if (text[i] == '\'') {
            const size_t length = contraction_cl100k(text, size, i);
            if (length) return i + length;
        }
        const Character first = character(text + i);
        size_t start = i;
        uint32_t char_class = first.char_class;
        // `\p{N}{1,3}`
        if (char_class == NUMBER) {
            size_t j = i + first.length;
            for (int k = 1; k < 3 && j < size; ++k) {
                const Character c = character(text + j);
                if (c.char_class != NUMBER) break;
                j += c.length;
            }
            return j;
        }
        // `[^\r\n\p{L}\p{N}]?\p{L}+| ?[^\s\p{L}\p{N}]+[\r\n]*`
        if (char_class != LETTER && !is_line_end(text[i]) && i + first.length < size) {
            const uint32_t second = character(text + i + first.length).char_class;
            if (second == LETTER || (second == OTHER && text[i] == ' ')) {
                start = i + first.length;
                char_class = second;
            }
        }
        if (char_class == LETTER) return run_end(text, size, start, LETTER);
        if (char_class == OTHER) {
            size_t j = run_end(text, size, start, OTHER);
            while (j < size && is_line_end(text[j])) ++j;
            return j;
        }
        // `\s+$|\s*[\r\n]|\s+(?!\S)|\s`
        const WhiteSpace run = white_space(text, size, i);
        if (run.end == size) return size;
        if (run.line_end) return run.line_end;
        return run.last == i ? run.end : run.last;
    }
};

}  // namespace cs336

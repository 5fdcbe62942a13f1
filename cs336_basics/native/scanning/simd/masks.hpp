// Masks: bit masks that find all pre-token starts of a 64-byte window at once.
//
// Each class of characters has a 64-bit mask; bit i is set if byte i belongs to a character of this
// class. Shifts and bitwise operations combine these masks into the mask of all pre-token starts. A
// window always begins at the start of a pre-token, so windows share no state. The last three bytes
// are left for the next window, because the text after them could change whether pre-tokens start
// there. The idea of 64-byte masks comes from Langdale and Lemire 2019, "Parsing Gigabytes of JSON
// per Second".

#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "scanning/simd/scalar.hpp"
#include "unicode/characters.hpp"

namespace cs336 {

// Bit i of each mask describes byte i of the window.
struct Masks {
    uint64_t letter;
    uint64_t number;
    uint64_t space;  // whitespace, including non-ASCII
    uint64_t blank;  // ' '
    uint64_t apostrophe;
    uint64_t line_end;            // CR and LF
    uint64_t upper, lower, mark;  // include multi-byte characters only with Wide::CASES
    uint64_t slash;
    uint64_t control;       // ASCII only
    uint64_t wide;          // first bytes of multi-byte characters that are not yet classified
    uint64_t continuation;  // second and later bytes of characters
};

// How to classify multi-byte characters. CLASSES: by class. CASES: also by case. DEEPSEEK: by
// class, where marks count as letters. With DEEPSEEK, classification stops at the first character
// that has its own rule in `deepseek-v3`: a Chinese character, kana, or a character that has no
// class and is not a mark, punctuation or a symbol.
enum class Wide { CLASSES, CASES, DEEPSEEK };

// The lowest first byte of a three-byte character.
constexpr uint8_t FIRST_OF_THREE = 0xE0;

// Whether a block may contain characters that `deepseek-v3` treats as Chinese or kana: U+3040 to
// U+30FF, and U+4E00 to U+9FA5.
CS336_INLINE bool may_be_kana(uint32_t block) {
    return block - (0x3040 >> 6) <= (0x30FF >> 6) - (0x3040 >> 6) ||
           block - (0x4E00 >> 6) <= (0x9FA5 >> 6) - (0x4E00 >> 6);
}

// Classify multi-byte characters one by one. They may extend beyond the window, but not beyond the
// text, which is valid UTF-8. Characters that are not classified stay in `wide`.
//
// With CASES, a window with at least 32 continuation bytes is not classified: in scripts with
// three-byte characters, where pre-tokens are long, a SplitProgram is twice as fast.
template <Wide WIDE>
CS336_INLINE void classify_wide(Masks& m, const uint8_t* window) {
    if (WIDE == Wide::CASES && std::bitset<64>(m.continuation).count() >= 32) return;
    while (m.wide) {
        const int i = lowest_bit(m.wide);
        const WideCode code = wide_code(window + i);
        const uint32_t category = category_in_block(code.block, code.index);
        uint32_t char_class = class_of(category);
        if (WIDE == Wide::DEEPSEEK) {
            if (may_be_kana(code.block) || category == OTHER) return;
            if (category == MARK) char_class = LETTER;
        }
        m.wide &= m.wide - 1;
        const uint64_t bytes = ((uint64_t{1} << code.length) - 1) << i;
        m.letter |= char_class == LETTER ? bytes : 0;
        m.number |= char_class == NUMBER ? bytes : 0;
        m.space |= char_class == SPACE ? bytes : 0;
        if (WIDE == Wide::CASES) {
            m.upper |= category == UPPER ? bytes : 0;
            m.lower |= category == LOWER ? bytes : 0;
            m.mark |= category == MARK ? bytes : 0;
        }
    }
}

// Mark the letters whose first bytes are in `leads`, so that classify_wide skips them. In most
// scripts, the first byte shows that a character is a letter (LEAD_IS_LETTER).
CS336_INLINE void mark_letters(Masks& m, uint64_t leads) {
    leads &= m.wide;
    m.wide &= ~leads;
    uint64_t letters = leads;
    letters |= letters << 1 & m.continuation;
    letters |= letters << 1 & m.continuation;
    letters |= letters << 1 & m.continuation;
    m.letter |= letters;
}

// A mask of the first bytes of the characters whose last bytes are in `last`. The characters have
// at most three bytes.
CS336_INLINE uint64_t first_bytes(uint64_t last, uint64_t continuation) {
    last |= (last & continuation) >> 1;
    last |= (last & continuation) >> 1;
    return last & ~continuation;
}

// Whether a batch has room for the pre-tokens of another window.
CS336_INLINE bool has_room(size_t origin, size_t position, size_t size, size_t count) {
    return position < size && count + 64 <= BATCH_CAPACITY && position - origin < MAX_BATCH_BYTES;
}

// Define `fill` and `fill_with` (see scalar.hpp) in the namespace of a SIMD level that has `masks`
// and `positions`. This is a macro because a function with a `target` attribute cannot be a
// template argument.
#define CS336_DEFINE_FILL(TARGET)                                                                  \
    /* Append the pre-tokens that end in the window at `start`; returns false if none does. */     \
    template <class Starts>                                                                        \
    TARGET CS336_INLINE bool append_window(const uint8_t* text, size_t size, size_t origin,        \
                                           size_t& start, uint32_t* ends, size_t& count) {         \
        if (size - start < 64) return false;                                                       \
        const Masks m = masks<Starts::WIDE>(text + start);                                         \
        const uint64_t found = Starts::of(m, text + start, text + size) & ~uint64_t{1};            \
        if (!found) return false;                                                                  \
        count += positions(found, uint32_t(start - origin), ends + count);                         \
        start += highest_bit(found);                                                               \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    template <class Pattern, class Starts>                                                         \
    TARGET size_t fill(const uint8_t* text, size_t size, size_t& position, uint32_t* ends) {       \
        const size_t origin = position;                                                            \
        size_t start = position, count = 0;                                                        \
        while (has_room(origin, start, size, count) &&                                             \
               (append_window<Starts>(text, size, origin, start, ends, count) ||                   \
                append_next<Pattern>(text, size, origin, start, ends, count))) {                   \
        }                                                                                          \
        position = start;                                                                          \
        return count;                                                                              \
    }                                                                                              \
                                                                                                   \
    template <class Starts>                                                                        \
    TARGET size_t fill_with(const SplitProgram& program, const uint8_t* text, size_t size,         \
                            size_t& position, uint32_t* ends, ScanState& state) {                  \
        const size_t origin = position;                                                            \
        size_t start = position, count = 0, most = 1;                                              \
        while (has_room(origin, start, size, count)) {                                             \
            if (append_window<Starts>(text, size, origin, start, ends, count)) {                   \
                most = 1;                                                                          \
                continue;                                                                          \
            }                                                                                      \
            if (!append_next(program, text, size, origin, start, ends, count, most, state)) {      \
                break;                                                                             \
            }                                                                                      \
            /* While masks find no start, the program finds more and more pre-tokens per call. */  \
            most = most < 256 ? 2 * most : most;                                                   \
        }                                                                                          \
        position = start;                                                                          \
        return count;                                                                              \
    }

}  // namespace cs336

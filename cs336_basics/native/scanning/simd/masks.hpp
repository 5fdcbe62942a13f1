// Masks: the pre-token starts of a window of 64 bytes, found together.
//
// Each class of characters becomes a 64-bit mask, where bit i tells whether byte i belongs to a
// character of this class. Shifting and combining these masks gives the mask of all pre-token
// starts. A window always begins at the start of a pre-token, so no state is carried from one
// window to the next. The last three bytes are left to the next window, because the text after them
// could change their starts. (64-byte masks: Langdale and Lemire 2019, "Parsing Gigabytes of JSON
// per Second".)

#pragma once

#include <cstddef>
#include <cstdint>

#include "unicode/characters.hpp"
#include "base/compiler.hpp"
#include "scanning/simd/scalar.hpp"

namespace cs336 {

// Bit i of each mask describes byte i of the window.
struct Masks {
    uint64_t letter;
    uint64_t number;
    uint64_t space;  // white space, Unicode's included
    uint64_t blank;  // ' '
    uint64_t apostrophe;
    uint64_t line_end;            // CR and LF
    uint64_t upper, lower, mark;  // of characters of several bytes only with Wide::CASES
    uint64_t slash;
    uint64_t control;       // ASCII only
    uint64_t wide;          // first bytes of characters of several bytes, not yet classified
    uint64_t continuation;  // second and later bytes of characters
};

// What is found of characters of several bytes: their classes; or also their cases. DEEPSEEK:
// classes, with marks as letters, up to the first character that `deepseek-v3` has rules of its own
// for: Chinese characters, kana, and what is neither in a class nor a mark, punctuation or symbol.
enum class Wide { CLASSES, CASES, DEEPSEEK };

// The lowest first byte of characters of three bytes.
constexpr uint8_t FIRST_OF_THREE = 0xE0;

// Whether a code point is, or may be, of the Chinese characters and kana of `deepseek-v3`: U+3040
// to U+30FF, and U+4E00 to U+9FA5 (here to the end of its block).
CS336_INLINE bool may_be_kana(uint32_t block) {
    return block - (0x3040 >> 6) <= (0x30FF >> 6) - (0x3040 >> 6) ||
           block - (0x4E00 >> 6) <= (0x9FA5 >> 6) - (0x4E00 >> 6);
}

// Classify the characters of several bytes one by one. They may extend beyond the window, but not
// beyond the text, which is valid UTF-8. What is not classified stays in `wide`.
//
// With cases, a window of which at least half are continuation bytes keeps its `wide`: in scripts
// of three bytes a character, where pre-tokens are long, a SplitProgram is twice as fast.
template <Wide WIDE>
CS336_INLINE void classify_wide(Masks& m, const uint8_t* window) {
    if (WIDE == Wide::CASES && __builtin_popcountll(m.continuation) >= 32) return;
    while (m.wide) {
        const int i = lowest_bit(m.wide);
        const WideCode code = wide_code(window + i);
        uint32_t char_class = class_in_block(code.block, code.index);
        if (WIDE == Wide::DEEPSEEK) {
            if (may_be_kana(code.block)) return;
            if (char_class == OTHER && !is_symbol_in_block(code.block, code.index)) {
                if (case_in_block(code.block, code.index) != MARK) return;
                char_class = LETTER;
            }
        }
        m.wide &= m.wide - 1;
        const uint64_t bytes = ((uint64_t{1} << code.length) - 1) << i;
        m.letter |= char_class == LETTER ? bytes : 0;
        m.number |= char_class == NUMBER ? bytes : 0;
        m.space |= char_class == SPACE ? bytes : 0;
        if (WIDE == Wide::CASES) {
            const uint32_t char_case = case_in_block(code.block, code.index);
            m.upper |= char_case == UPPER ? bytes : 0;
            m.lower |= char_case == LOWER ? bytes : 0;
            m.mark |= char_case == MARK ? bytes : 0;
        }
    }
}

// Mark the letters whose first bytes are in `leads`; classify_wide then skips them. In most scripts
// the first byte of a character shows that it is a letter (LEAD_IS_LETTER).
CS336_INLINE void mark_letters(Masks& m, uint64_t leads) {
    leads &= m.wide;
    m.wide &= ~leads;
    uint64_t letters = leads;
    letters |= letters << 1 & m.continuation;
    letters |= letters << 1 & m.continuation;
    letters |= letters << 1 & m.continuation;
    m.letter |= letters;
}

// The first bytes of the characters (of at most three bytes) whose last bytes are in `last`.
CS336_INLINE uint64_t first_bytes(uint64_t last, uint64_t continuation) {
    last |= (last & continuation) >> 1;
    last |= (last & continuation) >> 1;
    return last & ~continuation;
}

// Whether a window, or the next pre-token, may be added to a batch.
CS336_INLINE bool has_room(size_t origin, size_t position, size_t size, size_t count) {
    return position < size && count + 64 <= BATCH_CAPACITY && position - origin < MAX_BATCH_BYTES;
}

// Define `fill` and `fill_with` (see scalar.hpp) in the namespace of a SIMD level that has `masks`
// and `positions`. They are macros because a function with a `target` attribute cannot be a
// template argument.
#define CS336_DEFINE_FILL(TARGET)                                                                  \
    /* Append the pre-tokens that the window at `start` shows; returns false if it shows none. */  \
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
            /* Text whose starts no window shows is left to the program, more and more. */         \
            most = most < 256 ? 2 * most : most;                                                   \
        }                                                                                          \
        position = start;                                                                          \
        return count;                                                                              \
    }

}  // namespace cs336

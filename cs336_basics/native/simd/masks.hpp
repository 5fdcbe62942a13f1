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

#include "../characters.hpp"
#include "../compiler.hpp"
#include "../split_patterns.hpp"
#include "scalar.hpp"

namespace cs336 {

// Bit i of each mask describes byte i of the window.
struct Masks {
    uint64_t letter;
    uint64_t number;
    uint64_t space;  // white space, Unicode's included
    uint64_t blank;  // ' '
    uint64_t apostrophe;
    uint64_t line_end;      // CR and LF
    uint64_t continuation;  // second and later bytes of characters
    uint64_t wide;          // first bytes of characters of several bytes, not yet classified
};

// The bytes of a window whose starts are certain. A start depends on at most three bytes after it
// (a white space character of three bytes and the byte behind it), and on all bytes before it.
constexpr uint64_t CERTAIN = (uint64_t{1} << 61) - 1;

// Classify the characters of several bytes one by one. They may extend beyond the window, but not
// beyond the text, which is valid UTF-8.
CS336_INLINE void classify_wide(Masks& m, const uint8_t* window) {
    while (m.wide) {
        const int i = lowest_bit(m.wide);
        m.wide &= m.wide - 1;
        const Character c = wide_character(window + i);
        const uint64_t bytes = ((uint64_t{1} << c.length) - 1) << i;
        m.letter |= c.char_class == LETTER ? bytes : 0;
        m.number |= c.char_class == NUMBER ? bytes : 0;
        m.space |= c.char_class == SPACE ? bytes : 0;
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

CS336_INLINE uint64_t starts(Gpt2, const Masks& m, const uint8_t* window, const uint8_t* end) {
    const uint64_t other = ~(m.letter | m.number | m.space);
    const uint64_t inside = (m.letter & m.letter << 1) | (m.number & m.number << 1) |
                            (other & other << 1) | m.blank << 1 | m.space;
    const uint64_t words = ~inside;
    const uint64_t spaces = m.space & ~(m.space << 1);
    const uint64_t last_spaces = first_bytes(m.space & ~(m.space >> 1), m.continuation);
    uint64_t starts = words | spaces | last_spaces;

    uint64_t apostrophes = m.apostrophe & words & CERTAIN;
    while (apostrophes) {
        const int i = lowest_bit(apostrophes);
        apostrophes &= apostrophes - 1;
        const size_t length = contraction_gpt2(window, end - window, i);
        if (length) {
            starts &= ~(uint64_t{2} << i);
            starts |= uint64_t{1} << (i + length);
        }
    }
    return starts;
}

CS336_INLINE uint64_t starts(Cl100k, const Masks& m, const uint8_t* window, const uint8_t* end) {
    const uint64_t other = ~(m.letter | m.number | m.space);
    const uint64_t gap = m.space & ~m.line_end;

    // A run of others starts a pre-token unless a blank before it does.
    const uint64_t other_starts = other & ~(other << 1) & ~(m.blank << 1);
    // The first character of the run may prefix the letters after it: `[^\r\n\p{L}\p{N}]?\p{L}+`.
    uint64_t prefix = other_starts;
    prefix |= prefix << 1 & m.continuation;
    prefix |= prefix << 1 & m.continuation;
    prefix |= prefix << 1 & m.continuation;
    const uint64_t letter_starts = m.letter & ~(m.letter << 1) & ~((prefix | gap) << 1);

    // Numbers in groups of three characters.
    uint64_t number_starts = m.number & ~(m.number << 1);
    if (m.number & m.continuation) {
        for (uint64_t runs = number_starts; runs; runs &= runs - 1) {
            size_t i = lowest_bit(runs);
            for (int k = 0; i < 64 && m.number >> i & 1; ++k) {
                if (k % 3 == 0) number_starts |= uint64_t{1} << i;
                i += character(window + i).length;
            }
        }
    } else {
        const uint64_t third = m.number & m.number << 1 & m.number << 2;
        uint64_t group = number_starts << 3 & third;
        while (group) {
            number_starts |= group;
            group = group << 3 & third;
        }
    }

    // Line ends directly after others belong to them: the addition carries through the whole run.
    const uint64_t taken = m.line_end & ~(m.line_end + (m.line_end & other << 1));
    const uint64_t spaces = m.space & ~taken;
    const uint64_t space_starts = spaces & ~(spaces << 1);
    const uint64_t last_spaces =
        first_bytes(m.space & ~(m.space >> 1), m.continuation) & ~m.line_end;
    uint64_t starts = other_starts | letter_starts | number_starts | space_starts | last_spaces;

    // `\s*[\r\n]` ends after the last line end of a run of white space. The rest of the run is a
    // pre-token of its own, unless it reaches the end of the text.
    uint64_t rests = gap & (m.line_end & ~taken) << 1 & CERTAIN;
    while (rests) {
        const int i = lowest_bit(rests);
        rests &= rests - 1;
        const uint64_t after = ~(gap >> i);  // only 0 if i is: zeros are shifted in
        const int next = after ? i + lowest_bit(after) : 64;
        bool starts_here;
        if (next < 64) {
            starts_here = !(m.line_end >> next & 1);
        } else {
            const WhiteSpace run = white_space(window, end - window, i);
            starts_here = run.line_end == 0 && run.end < static_cast<size_t>(end - window);
        }
        if (starts_here) starts |= uint64_t{1} << i;
    }

    uint64_t apostrophes = m.apostrophe & other_starts & CERTAIN;
    while (apostrophes) {
        const int i = lowest_bit(apostrophes);
        apostrophes &= apostrophes - 1;
        const size_t length = contraction_cl100k(window, end - window, i);
        if (length) starts |= uint64_t{1} << (i + length);
    }
    return starts;
}

// Defines `fill` (see scalar.hpp) in the namespace of a SIMD level that has `masks` and
// `positions`. It is a macro because a function with a `target` attribute cannot be a template
// argument.
#define CS336_DEFINE_FILL(TARGET)                                                                  \
    template <class Pattern>                                                                       \
    TARGET size_t fill(const uint8_t* text, size_t size, size_t& position, uint32_t* ends) {       \
        const size_t origin = position;                                                            \
        size_t start = position, count = 0;                                                        \
        while (start < size && count + 64 <= BATCH_CAPACITY && start - origin < MAX_BATCH_BYTES) { \
            uint64_t found = 0;                                                                    \
            if (size - start >= 64) {                                                              \
                const Masks m = masks(text + start);                                               \
                found = starts(Pattern{}, m, text + start, text + size) & CERTAIN & ~uint64_t{1};  \
            }                                                                                      \
            if (found) {                                                                           \
                count += positions(found, uint32_t(start - origin), ends + count);                 \
                start += highest_bit(found);                                                       \
            } else if (!append_next<Pattern>(text, size, origin, start, ends, count)) {            \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
        position = start;                                                                          \
        return count;                                                                              \
    }

}  // namespace cs336

// The split patterns as rules on masks, which find the pre-token starts of a 64-byte window.
//
// The rules match the regular expressions in named_patterns.py exactly. If you edit an expression,
// also edit its rules here.

#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "scanning/simd/masks.hpp"
#include "scanning/split_patterns.hpp"
#include "unicode/characters.hpp"

namespace cs336 {

// Return a mask of the bytes for which it is certain whether they start a pre-token. `known` is a
// mask of the classified bytes, which form a prefix of the window. Whether a byte starts a
// pre-token depends on all bytes before it and on at most three bytes after it: the rest of a
// three-byte whitespace character, and the byte after this character.
CS336_INLINE uint64_t certain(uint64_t known) { return known >> 3; }

// A mask of the bytes before the first byte of `unknown`; of all bytes if `unknown` is 0.
CS336_INLINE uint64_t before_first(uint64_t unknown) { return (unknown - 1) & ~unknown; }

// A mask of digit-group starts. Numbers are cut into groups of DIGITS (1 or 3) characters.
template <int DIGITS>
CS336_INLINE uint64_t number_starts(const Masks& m, const uint8_t* window) {
    if (DIGITS == 1) return m.number & ~m.continuation;
    uint64_t starts = m.number & ~(m.number << 1);
    if (m.number & m.continuation) {
        for (uint64_t runs = starts; runs; runs &= runs - 1) {
            size_t i = lowest_bit(runs);
            for (int k = 0; i < 64 && m.number >> i & 1; ++k) {
                if (k % 3 == 0) starts |= uint64_t{1} << i;
                i += character(window + i).length;
            }
        }
    } else {
        const uint64_t third = m.number & m.number << 1 & m.number << 2;
        uint64_t group = starts << 3 & third;
        while (group) {
            starts |= group;
            group = group << 3 & third;
        }
    }
    return starts;
}

// Like number_starts, but for groups of three from the right. A number that may continue after the
// window is not cut; instead, `known` ends after the first byte of the number.
inline uint64_t number_starts_from_right(const Masks& m, const uint8_t* window, uint64_t& known) {
    uint64_t starts = m.number & ~(m.number << 1);
    for (uint64_t runs = starts; runs; runs &= runs - 1) {
        const int begin = lowest_bit(runs);
        const uint64_t after = ~(m.number >> begin);  // 0 only if `begin` is 0
        const int length = after ? lowest_bit(after) : 64;
        if (begin + length > 61) {
            known = (uint64_t{2} << begin) - 1;
            break;
        }
        const uint64_t bytes = ((uint64_t{1} << length) - 1) << begin;
        int digits = int(std::bitset<64>(bytes & ~m.continuation).count());
        for (int i = begin; digits; --digits) {
            if (digits % 3 == 0) starts |= uint64_t{1} << i;
            i += character(window + i).length;
        }
    }
    return starts;
}

// How `gpt2` and its variants cut numbers.
enum class Digits { ALL, SINGLE, THREES, THREES_FROM_RIGHT };

template <Digits DIGITS>
struct Gpt2Starts {
    static constexpr Wide WIDE = Wide::CLASSES;

    CS336_INLINE static uint64_t of(const Masks& m, const uint8_t* window, const uint8_t* end) {
        uint64_t known = ~uint64_t{0};
        uint64_t same_number = m.number & m.number << 1;
        if (DIGITS == Digits::SINGLE) same_number = m.number & ~number_starts<1>(m, window);
        if (DIGITS == Digits::THREES) same_number = m.number & ~number_starts<3>(m, window);
        if (DIGITS == Digits::THREES_FROM_RIGHT) {
            same_number = m.number & ~number_starts_from_right(m, window, known);
        }
        const uint64_t other = ~(m.letter | m.number | m.space);
        const uint64_t inside = (m.letter & m.letter << 1) | same_number | (other & other << 1) |
                                m.blank << 1 | m.space;
        const uint64_t words = ~inside;
        const uint64_t spaces = m.space & ~(m.space << 1);
        const uint64_t last_spaces = first_bytes(m.space & ~(m.space >> 1), m.continuation);
        uint64_t starts = words | spaces | last_spaces;

        uint64_t apostrophes = m.apostrophe & words & certain(~uint64_t{0});
        while (apostrophes) {
            const int i = lowest_bit(apostrophes);
            apostrophes &= apostrophes - 1;
            const size_t length = contraction_gpt2(window, end - window, i);
            if (length) {
                starts &= ~(uint64_t{2} << i);
                starts |= uint64_t{1} << (i + length);
            }
        }
        return starts & known & certain(~uint64_t{0});
    }
};

enum class Contractions { NONE, ALONE, AFTER_WORDS };

// The rules of `cl100k`. Its variants override some of them. The comments describe `true`.
struct Cl100kRules {
    static constexpr int DIGITS = 3;
    static constexpr Contractions CONTRACTIONS = Contractions::ALONE;
    // Whitespace at the end of the text is one pre-token, even if it contains line endings.
    static constexpr bool JOINS_LAST_SPACES = true;
    // All whitespace before a number is one pre-token.
    static constexpr bool JOINS_SPACES_BEFORE_NUMBERS = false;
    // Marks count as letters without case, and a word also ends between a lower-case and an
    // upper-case letter.
    static constexpr bool CUTS_BEFORE_CAPITALS = false;
    // The line endings that belong to the characters before them may be mixed with slashes.
    static constexpr bool LINE_ENDS_WITH_SLASHES = false;
    // Control characters have their own rules.
    static constexpr bool CONTROLS_DIFFER = false;
    // Only an ASCII character can be a prefix of letters, and only of ASCII letters.
    static constexpr bool ASCII_PREFIXES = false;
    static constexpr Wide WIDE = Wide::CLASSES;
};

struct Llama3Rules : Cl100kRules {
    static constexpr bool JOINS_LAST_SPACES = false;
};

struct Qwen2Rules : Llama3Rules {
    static constexpr int DIGITS = 1;
};

struct O200kRules : Llama3Rules {
    static constexpr Contractions CONTRACTIONS = Contractions::AFTER_WORDS;
    static constexpr bool CUTS_BEFORE_CAPITALS = true;
    static constexpr bool LINE_ENDS_WITH_SLASHES = true;
    static constexpr Wide WIDE = Wide::CASES;
};

struct DeepseekV3Rules : Llama3Rules {
    static constexpr Contractions CONTRACTIONS = Contractions::NONE;
    static constexpr bool JOINS_SPACES_BEFORE_NUMBERS = true;
    static constexpr bool CONTROLS_DIFFER = true;
    static constexpr bool ASCII_PREFIXES = true;
    static constexpr Wide WIDE = Wide::DEEPSEEK;
};

template <class Rules>
struct Cl100kStarts {
    static constexpr Wide WIDE = Rules::WIDE;

    CS336_INLINE static uint64_t of(const Masks& m, const uint8_t* window, const uint8_t* end) {
        const uint64_t letter = m.letter | (Rules::CUTS_BEFORE_CAPITALS ? m.mark : 0);
        const uint64_t other = ~(letter | m.number | m.space);
        const uint64_t gap = m.space & ~m.line_end;

        // Line endings directly after a character of class OTHER belong to its pre-token. The carry
        // of the addition propagates through all of these line endings.
        const uint64_t taken = m.line_end & ~(m.line_end + (m.line_end & other << 1));

        uint64_t unknown = Rules::WIDE == Wide::CLASSES ? 0 : m.wide;
        if (Rules::CONTROLS_DIFFER) unknown |= m.control;
        if (Rules::LINE_ENDS_WITH_SLASHES) unknown |= m.slash & taken << 1;
        if (Rules::CUTS_BEFORE_CAPITALS) {
            // A mark without a letter before it may count as OTHER. If an upper-case letter
            // follows a letter without case, the word ends between the two, unless a lower-case
            // letter comes next.
            const uint64_t uncased = letter & ~(m.upper | m.lower);
            unknown |= ((m.mark & ~(letter << 1)) | (m.upper & uncased << 1)) & ~m.continuation;
        }
        const uint64_t known = before_first(unknown);

        // A run of OTHER characters starts a pre-token, unless a blank precedes the run and starts
        // the pre-token instead.
        const uint64_t other_starts = other & ~(other << 1) & ~(m.blank << 1);
        // The first character of the run can prefix the letters after it:
        // `[^\r\n\p{L}\p{N}]?\p{L}+`.
        uint64_t prefix = other_starts;
        prefix |= prefix << 1 & m.continuation;
        prefix |= prefix << 1 & m.continuation;
        prefix |= prefix << 1 & m.continuation;
        uint64_t prefixed_ends = 0;
        if (Rules::ASCII_PREFIXES) {
            // `[!-/:-@...][A-Za-z]+`: a non-ASCII letter after such a match starts a pre-token.
            const uint64_t ascii = m.upper | m.lower;
            prefix = other_starts & ascii >> 1;
            prefixed_ends = ~ascii & (ascii + (prefix << 1));
        }
        uint64_t letter_starts = letter & ~(letter << 1) & ~((prefix | gap) << 1);
        letter_starts |= letter & prefixed_ends;
        if (Rules::CUTS_BEFORE_CAPITALS) letter_starts |= m.upper & m.lower << 1;

        const uint64_t spaces = m.space & ~taken;
        const uint64_t space_starts = spaces & ~(spaces << 1);
        uint64_t space_ends = m.space & ~(m.space >> 1);
        if (Rules::JOINS_SPACES_BEFORE_NUMBERS) space_ends &= ~(m.number >> 1);
        const uint64_t last_spaces = first_bytes(space_ends, m.continuation) & ~m.line_end;
        uint64_t starts = other_starts | letter_starts | space_starts | last_spaces |
                          number_starts<Rules::DIGITS>(m, window);

        // `\s*[\r\n]` ends after the last line ending in a run of whitespace. The rest of the run
        // is another pre-token, unless the text ends with it and JOINS_LAST_SPACES is true.
        uint64_t rests = gap & (m.line_end & ~taken) << 1 & certain(known);
        while (rests) {
            const int i = lowest_bit(rests);
            rests &= rests - 1;
            const uint64_t after = ~(gap >> i);  // 0 only if i is 0
            const int next = after ? i + lowest_bit(after) : 64;
            bool starts_here;
            if (next < 64 && known >> next & 1) {
                starts_here = !(m.line_end >> next & 1);
            } else {
                const WhiteSpace run = white_space(window, end - window, i);
                starts_here = run.line_end == 0 && (!Rules::JOINS_LAST_SPACES ||
                                                    run.end < static_cast<size_t>(end - window));
            }
            if (starts_here) starts |= uint64_t{1} << i;
        }

        if (Rules::CONTRACTIONS == Contractions::ALONE) {
            uint64_t apostrophes = m.apostrophe & other_starts & certain(known);
            while (apostrophes) {
                const int i = lowest_bit(apostrophes);
                apostrophes &= apostrophes - 1;
                const size_t length = contraction_cl100k(window, end - window, i);
                if (length) starts |= uint64_t{1} << (i + length);
            }
        } else if (Rules::CONTRACTIONS == Contractions::AFTER_WORDS) {
            uint64_t apostrophes = m.apostrophe & letter << 1 & certain(known);
            int cut = 0;
            while (apostrophes) {
                const int i = lowest_bit(apostrophes);
                apostrophes &= apostrophes - 1;
                // A word has at most one contraction; the text after it starts a pre-token.
                const size_t length = i == cut ? 0 : contraction_cl100k(window, end - window, i);
                if (length) {
                    cut = i + int(length);
                    starts &= ~(((uint64_t{1} << length) - 1) << i);
                    starts |= uint64_t{1} << cut;
                }
            }
        }
        return starts & certain(known);
    }
};

}  // namespace cs336

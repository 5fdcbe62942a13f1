// Hand-written rules for `gpt2`, `cl100k` and the patterns that are like them.
//
// The rules that boundary_rules.hpp derives are general, but cost more instructions. These patterns
// are the most frequent, so they keep rules on masks of character classes, in the same function
// type. benchmarks/NOTES.md has the figures. Where a rule needs text that is not classified, the
// program runs, as in window.hpp. `o200k` and `deepseek-v3` distinguish more characters than have
// masks, so their rules are for ASCII, and the derived rules scan all other windows. They also scan
// the windows of other patterns with many characters whose class their first byte does not show. If
// you edit an expression in named_patterns.py, also edit its rules here.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "base/simd_target.hpp"
#include "scanning/simd/avx2.hpp"
#include "scanning/simd/window.hpp"

#if defined(CS336_X86)

namespace cs336 {

namespace avx2 {

// Bit i of each mask describes byte i of a window.
struct ClassMasks {
    uint64_t letter;
    uint64_t number;
    uint64_t space;  // whitespace, including non-ASCII
    uint64_t blank;  // ' '
    uint64_t apostrophe;
    uint64_t line_end;  // CR and LF
    uint64_t upper;     // ASCII only
    uint64_t slash;
    uint64_t control;       // ASCII only
    uint64_t continuation;  // second and later bytes of characters
    uint64_t known;         // the bytes before the first character that is not classified
};

CS336_AVX2 CS336_INLINE uint64_t equal(Halves v, char byte) {
    const __m256i wanted = _mm256_set1_epi8(byte);
    return bits(_mm256_cmpeq_epi8(v.low, wanted), _mm256_cmpeq_epi8(v.high, wanted));
}

// A mask of the bytes from 128 - `count` - `shift` to 127 - `shift`. Adding `shift` moves these
// bytes to the top of the signed range, above 127 - `count`.
CS336_AVX2 CS336_INLINE uint64_t in_range(Halves v, int shift, int count) {
    const __m256i by = _mm256_set1_epi8(char(shift)), below = _mm256_set1_epi8(char(127 - count));
    return bits(_mm256_cmpgt_epi8(_mm256_add_epi8(v.low, by), below),
                _mm256_cmpgt_epi8(_mm256_add_epi8(v.high, by), below));
}

// 0xFF for every byte from 0xC0 on after which all characters are letters, 0x00 for all others.
CS336_AVX2 CS336_INLINE __m256i lead_is_letter(const uint8_t* letter_leads, __m256i v) {
    const __m256i low_half = _mm256_set1_epi8(0x0F);
    const __m256i bit_of_row =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8));
    const __m256i high = _mm256_and_si256(_mm256_srli_epi16(v, 4), low_half);
    const __m256i row = _mm256_shuffle_epi8(bit_of_row, high);
    const __m256i found = _mm256_shuffle_epi8(table(letter_leads), _mm256_and_si256(v, low_half));
    return _mm256_cmpgt_epi8(_mm256_and_si256(row, found), _mm256_setzero_si256());
}

// `bytes`, and the continuation bytes that follow them.
CS336_INLINE uint64_t whole_characters(uint64_t bytes, uint64_t continuation) {
    for (int i = 0; i < 3; ++i) bytes |= bytes << 1 & continuation;
    return bytes;
}

// The first bytes of the characters whose last bytes are in `last`. The characters have at most
// three bytes.
CS336_INLINE uint64_t first_bytes(uint64_t last, uint64_t continuation) {
    last |= (last & continuation) >> 1;
    last |= (last & continuation) >> 1;
    return last & ~continuation;
}

// The bytes of some multi-byte characters, by class, and `known` as in ClassMasks.
struct WideMasks {
    uint64_t letter = 0, number = 0, space = 0, known = ~uint64_t{0};
};

// Classify the characters whose first bytes are in `leads`, one by one. They may extend beyond the
// window, but not beyond the text.
CS336_INLINE WideMasks classify(const SplitProgram& program, const uint8_t* window,
                                uint64_t leads) {
    const BoundaryRules& rules = program.rules();
    const uint8_t letter = rules.class_of_byte['x'], number = rules.class_of_byte['0'];
    const uint8_t space = rules.class_of_byte['\t'], other = rules.class_of_byte['#'];
    WideMasks m;
    for (; leads; leads &= leads - 1) {
        const int i = lowest_bit(leads);
        const uint8_t found = rules.class_of_column[program.wide_column(window + i)];
        const uint64_t bytes = ((uint64_t{1} << character_length(window[i])) - 1) << i;
        // Without branches, because the classes are hard to predict.
        m.letter |= found == letter ? bytes : 0;
        m.number |= found == number ? bytes : 0;
        m.space |= found == space ? bytes : 0;
        if (found != letter && found != number && found != space && found != other) {
            // The pattern mentions this character, such as the long s.
            m.known = (uint64_t{1} << i) - 1;
            break;
        }
    }
    return m;
}

// The derived rules are faster for a window with this many characters to classify one by one.
constexpr int MANY_OTHERS = 5;

// The masks of the ASCII characters.
CS336_AVX2 CS336_INLINE ClassMasks ascii_masks(Halves v) {
    const __m256i small = _mm256_set1_epi8(0x20);
    const Halves lower = {_mm256_or_si256(v.low, small), _mm256_or_si256(v.high, small)};
    ClassMasks m;
    m.letter = in_range(lower, 127 - 'z', 26);
    m.number = in_range(v, 127 - '9', 10);
    m.blank = equal(v, ' ');
    m.space = in_range(v, 127 - '\r', 5) | m.blank;
    m.apostrophe = equal(v, '\'');
    m.line_end = equal(v, '\n') | equal(v, '\r');
    m.upper = in_range(v, 127 - 'Z', 26);
    m.slash = equal(v, '/');
    m.control = (in_range(v, 127 - 0x1F, 0x20) & ~m.space) | equal(v, 0x7F);
    m.continuation = 0;
    m.known = ~uint64_t{0};
    return m;
}

// Add the characters of several bytes, whose bytes are in `wide`. Returns false if the derived
// rules are faster.
CS336_AVX2 CS336_INLINE bool add_wide(ClassMasks& m, const SplitProgram& program, Halves v,
                                      uint64_t wide, const uint8_t* window) {
    // 0x80 to 0xBF are the signed bytes below -64.
    const __m256i limit = _mm256_set1_epi8(-64);
    m.continuation = bits(_mm256_cmpgt_epi8(limit, v.low), _mm256_cmpgt_epi8(limit, v.high));
    const uint8_t* const leads = program.rules().letter_leads;
    const uint64_t letters = bits(lead_is_letter(leads, v.low), lead_is_letter(leads, v.high));
    const uint64_t others = wide & ~m.continuation & ~letters;
    if (__builtin_popcountll(others) >= MANY_OTHERS) return false;
    const WideMasks classified = classify(program, window, others);
    m.letter |= whole_characters(letters, m.continuation) | classified.letter;
    m.number |= classified.number;
    m.space |= classified.space;
    m.known = classified.known;
    return true;
}

// The bytes for which it is certain whether they start a pre-token. This depends on all bytes
// before a byte and on at most three bytes after it: the rest of a three-byte whitespace character,
// and the byte after this character.
CS336_INLINE uint64_t certain(uint64_t known) { return known >> 3; }

// The bytes before the first byte of `unknown`; all bytes if `unknown` is 0.
CS336_INLINE uint64_t before_first(uint64_t unknown) { return (unknown - 1) & ~unknown; }

// The starts of groups of DIGITS (1 or 3) digits.
template <int DIGITS>
CS336_INLINE uint64_t number_starts(const ClassMasks& m, const uint8_t* window) {
    if (DIGITS == 1) return m.number & ~m.continuation;
    uint64_t starts = m.number & ~(m.number << 1);
    if (m.number & m.continuation) {
        for (uint64_t runs = starts; runs; runs &= runs - 1) {
            size_t i = lowest_bit(runs);
            for (int k = 0; i < 64 && m.number >> i & 1; ++k) {
                if (k % 3 == 0) starts |= uint64_t{1} << i;
                i += character_length(window[i]);
            }
        }
    } else {
        const uint64_t third = m.number & m.number << 1 & m.number << 2;
        for (uint64_t group = starts << 3 & third; group; group = group << 3 & third) {
            starts |= group;
        }
    }
    return starts;
}

// The length of the contraction that starts with the apostrophe before `after`; 0 if there is none.
// With `ignored_case` = 0x20, capitals count as well.
CS336_INLINE int contraction(const uint8_t* after, uint8_t ignored_case) {
    const uint8_t a = after[0] | ignored_case, b = after[1] | ignored_case;
    if (a == 's' || a == 't' || a == 'd' || a == 'm') return 2;
    return (a == 'l' && b == 'l') || ((a == 'v' || a == 'r') && b == 'e') ? 3 : 0;
}

// `gpt2`. Numbers are cut into groups of DIGITS characters; 0 stands for any number of them.
template <int DIGITS>
struct Gpt2Starts {
    static constexpr bool ASCII = false;

    CS336_INLINE static uint64_t of(const ClassMasks& m, const uint8_t* window) {
        const uint64_t same_number =
            DIGITS == 0 ? m.number & m.number << 1 : m.number & ~number_starts<DIGITS>(m, window);
        const uint64_t other = ~(m.letter | m.number | m.space);
        const uint64_t inside = (m.letter & m.letter << 1) | same_number | (other & other << 1) |
                                m.blank << 1 | m.space;
        const uint64_t words = ~inside;
        const uint64_t spaces = m.space & ~(m.space << 1);
        const uint64_t last_spaces = first_bytes(m.space & ~(m.space >> 1), m.continuation);
        uint64_t starts = words | spaces | last_spaces;
        uint64_t apostrophes = m.apostrophe & words & certain(m.known);
        for (; apostrophes; apostrophes &= apostrophes - 1) {
            const int i = lowest_bit(apostrophes);
            const int length = contraction(window + i + 1, 0);
            if (length) {
                starts &= ~(uint64_t{2} << i);
                starts |= uint64_t{1} << (i + length);
            }
        }
        return starts & certain(m.known);
    }
};

// The rules of `cl100k`, and of `llama3`, which differs in whitespace only at the end of the text,
// beyond the last window. Other patterns override some of them. The comments describe `true`.
struct Cl100kRules {
    static constexpr bool ASCII = false;
    static constexpr int DIGITS = 3;
    // A contraction is a pre-token.
    static constexpr bool CONTRACTIONS = true;
    // A word ends before an upper-case letter after a lower-case one, and includes a contraction.
    // The line endings after other characters may be mixed with slashes.
    static constexpr bool IS_O200K = false;
    // All whitespace before a number is one pre-token. Control characters have their own rules.
    static constexpr bool IS_DEEPSEEK_V3 = false;
};

struct Qwen2Rules : Cl100kRules {
    static constexpr int DIGITS = 1;
};

struct O200kRules : Cl100kRules {
    static constexpr bool ASCII = true;
    static constexpr bool CONTRACTIONS = false;
    static constexpr bool IS_O200K = true;
};

struct DeepseekV3Rules : Cl100kRules {
    static constexpr bool ASCII = true;
    static constexpr bool CONTRACTIONS = false;
    static constexpr bool IS_DEEPSEEK_V3 = true;
};

template <class Rules>
struct Cl100kStarts {
    static constexpr bool ASCII = Rules::ASCII;

    CS336_INLINE static uint64_t of(const ClassMasks& m, const uint8_t* window) {
        const uint64_t other = ~(m.letter | m.number | m.space);
        const uint64_t gap = m.space & ~m.line_end;

        // Line endings directly after other characters belong to their pre-token. The carry of the
        // addition propagates through all of these line endings.
        const uint64_t taken = m.line_end & ~(m.line_end + (m.line_end & other << 1));

        uint64_t classified = m.known;
        if (Rules::IS_O200K) classified &= before_first(m.slash & taken << 1);
        if (Rules::IS_DEEPSEEK_V3) classified &= before_first(m.control);
        uint64_t known = certain(classified);

        // A run of other characters starts a pre-token, unless a blank precedes the run and starts
        // the pre-token instead.
        const uint64_t other_starts = other & ~(other << 1) & ~(m.blank << 1);
        // The first character of the run can prefix the letters after it:
        // `[^\r\n\p{L}\p{N}]?\p{L}+`.
        const uint64_t prefix = whole_characters(other_starts, m.continuation);
        uint64_t letter_starts = m.letter & ~(m.letter << 1) & ~((prefix | gap) << 1);
        if (Rules::IS_O200K) letter_starts |= m.upper & (m.letter & ~m.upper) << 1;

        const uint64_t spaces = m.space & ~taken;
        const uint64_t space_starts = spaces & ~(spaces << 1);
        uint64_t space_ends = m.space & ~(m.space >> 1);
        if (Rules::IS_DEEPSEEK_V3) space_ends &= ~(m.number >> 1);
        const uint64_t last_spaces = first_bytes(space_ends, m.continuation) & ~m.line_end;
        uint64_t starts = other_starts | letter_starts | space_starts | last_spaces |
                          number_starts<Rules::DIGITS>(m, window);

        // `\s*[\r\n]` ends after the last line ending in a run of whitespace. The rest of the run
        // is another pre-token.
        uint64_t rests = gap & (m.line_end & ~taken) << 1 & known;
        for (; rests; rests &= rests - 1) {
            const int i = lowest_bit(rests);
            const uint64_t after = ~(gap >> i);  // 0 only if `i` is 0
            const int next = after ? i + lowest_bit(after) : 64;
            if (next >= 64 || !(classified >> next & 1)) {  // the run may contain a line ending
                known = (uint64_t{1} << i) - 1;
                break;
            }
            starts |= uint64_t(!(m.line_end >> next & 1)) << i;
        }

        uint64_t apostrophes = m.apostrophe & known & certain(m.known);
        apostrophes &= Rules::IS_O200K ? m.letter << 1 : Rules::CONTRACTIONS ? other_starts : 0;
        int cut = 0;
        for (; apostrophes; apostrophes &= apostrophes - 1) {
            const int i = lowest_bit(apostrophes);
            // A word has at most one contraction; the text after it starts a pre-token.
            const int length = Rules::IS_O200K && i == cut ? 0 : contraction(window + i + 1, 0x20);
            if (!length) continue;
            cut = i + length;
            if (Rules::IS_O200K) starts &= ~(((uint64_t{1} << length) - 1) << i);
            starts |= uint64_t{1} << cut;
        }
        return starts & known;
    }
};

// Scan windows until the rules find no start in one. Returns whether the derived rules should scan
// this window. Every window starts at the start of a pre-token.
template <class Starts>
CS336_AVX2 CS336_INLINE bool scan_by_hand(const SplitProgram& program, const uint8_t* text,
                                          size_t stop, size_t origin, size_t& start, uint32_t* ends,
                                          size_t& count) {
    size_t at = start, number = count;  // copies, which stay in registers
    bool is_mixed = false;
    while (has_room(at, stop, origin, number)) {
        const uint8_t* const window = text + at;
        const Halves v = {load(window), load(window + 32)};
        const uint64_t wide = bits(v.low, v.high);
        uint64_t found;
        if (!wide) {
            found = Starts::of(ascii_masks(v), window);  // computes only the masks that it uses
        } else {
            ClassMasks m = ascii_masks(v);
            is_mixed = Starts::ASCII || !add_wide(m, program, v, wide, window);
            if (is_mixed) break;
            found = Starts::of(m, window);
        }
        found &= ~uint64_t{1};
        if (!found) break;
        number += positions(found, uint32_t(at - origin), ends + number);
        at += highest_bit(found);
    }
    start = at;
    count = number;
    return is_mixed;
}

// The derived rules scan this many windows before these rules are tried again, at first and at
// most.
constexpr size_t WIDE_WINDOWS = 4, MOST_WIDE_WINDOWS = 64;

// See window.hpp.
template <class Starts>
CS336_AVX2 inline bool scan_named(const SplitProgram& program, const uint8_t* text, size_t size,
                                  size_t stop, size_t origin, size_t& start, size_t& window,
                                  uint32_t* ends, size_t& count, ScanState& state) {
    size_t num_wide = WIDE_WINDOWS;
    while (has_room(start, stop, origin, count)) {
        const size_t before = start;
        const bool is_mixed = scan_by_hand<Starts>(program, text, stop, origin, start, ends, count);
        if (!has_room(start, stop, origin, count)) break;
        if (start != before || !is_mixed) num_wide = WIDE_WINDOWS;
        const size_t from = start;
        if (is_mixed) {
            window = start;
            if (!scan_windows(program, text, size, std::min(stop, start + num_wide * WINDOW),
                              origin, start, window, ends, count, state)) {
                return false;
            }
            num_wide = std::min(2 * num_wide, MOST_WIDE_WINDOWS);
        }
        if (start == from && !program.find_ends(text, size, origin, start, start + WINDOW, ends,
                                                BATCH_CAPACITY, count, state)) {
            return false;
        }
    }
    return true;
}

// The function for a named pattern; null if it has no rules of its own.
inline ScanWindows named_scan_windows(const char* name) {
    struct Named {
        const char* name;
        ScanWindows scan_windows;
    };
    static constexpr Named NAMED[] = {
        {"gpt2", scan_named<Gpt2Starts<0>>},
        {"gpt2-digits1", scan_named<Gpt2Starts<1>>},
        {"gpt2-digits3", scan_named<Gpt2Starts<3>>},
        {"cl100k", scan_named<Cl100kStarts<Cl100kRules>>},
        {"llama3", scan_named<Cl100kStarts<Cl100kRules>>},
        {"qwen2", scan_named<Cl100kStarts<Qwen2Rules>>},
        {"o200k", scan_named<Cl100kStarts<O200kRules>>},
        {"deepseek-v3", scan_named<Cl100kStarts<DeepseekV3Rules>>},
    };
    for (const Named& named : NAMED) {
        if (name && !std::strcmp(named.name, name)) return named.scan_windows;
    }
    return nullptr;
}

}  // namespace avx2

}  // namespace cs336

#endif  // CS336_X86

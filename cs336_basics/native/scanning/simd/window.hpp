// The scan of a text in windows of 64 bytes.
//
// Each SIMD level classifies the bytes of a window, and turns the BoundaryRules of a program into
// bit masks that mark the starts of pre-tokens. Where the rules are unclear, the program runs from
// the last start to the next. The idea of 64-byte masks comes from Langdale and Lemire 2019,
// "Parsing Gigabytes of JSON per Second".

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "scanning/boundary_rules.hpp"
#include "scanning/split_program.hpp"

namespace cs336 {

// A batch of pre-tokens is an array of their ends, as offsets from the start of the batch.
constexpr size_t BATCH_CAPACITY = 1024;
constexpr size_t MAX_BATCH_BYTES = size_t{1} << 31;

constexpr size_t WINDOW = 64;

// Whether the window at `window` ends before `stop`, and a batch that starts at `origin` and has
// `count` pre-tokens has room for those of the window.
CS336_INLINE bool has_room(size_t window, size_t stop, size_t origin, size_t count) {
    return window + WINDOW <= stop && count + WINDOW + 8 <= BATCH_CAPACITY &&
           window - origin < MAX_BATCH_BYTES;
}

// The type of `scan_windows`; see below.
using ScanWindows = bool (*)(const SplitProgram&, const uint8_t*, size_t, size_t, size_t, size_t&,
                             size_t&, uint32_t*, size_t&, ScanState&);

// Bit i describes byte i of a window. Each level has a function `marks`, whose results are valid
// for the first bytes of characters, except for the first character and a character at byte 63.
struct Marks {
    uint64_t starts;
    uint64_t unclear;
    uint64_t continuation;  // bytes that are not the first of a character
    uint64_t conditions[BoundaryRules::NUM_CONDITIONS];  // only if `unclear` is not 0
};

// Decide unclear characters by the characters before them. `starts` must include a bit for the
// first character of the window or of what remains of it, if a pre-token starts there; `known` are
// all characters of interest.
CS336_INLINE void apply_conditions(const Marks& m, uint64_t known, uint64_t& starts,
                                   uint64_t& unclear) {
    using Rules = BoundaryRules;
    const auto next = [&](uint64_t characters) {  // the bytes after them, among others
        if (CS336_UNLIKELY(m.continuation)) {
            for (int i = 0; i < 3; ++i) characters |= characters << 1 & m.continuation;
        }
        return characters << 1;
    };
    for (int i = 0; i < 4 && unclear; ++i) {
        const uint64_t after_start = next(starts) & unclear;
        const uint64_t after_inside = next(known & ~starts & ~unclear) & unclear;
        const uint64_t more = (after_start & m.conditions[Rules::STARTS_AFTER_START]) |
                              (after_inside & m.conditions[Rules::STARTS_AFTER_INSIDE]);
        const uint64_t none = (after_start & m.conditions[Rules::INSIDE_AFTER_START]) |
                              (after_inside & m.conditions[Rules::INSIDE_AFTER_INSIDE]);
        if (!(more | none)) return;
        starts |= more;
        unclear &= ~(more | none);
    }
}

// Decide the characters in `typed` by the characters after them. The masks say of every character
// whether it decides them, whether they then start a pre-token, and whether it may be skipped.
// `wide` are the bytes above 127.
CS336_INLINE void apply_next(Marks& m, uint64_t typed, uint64_t wide, uint64_t decides,
                             uint64_t starts, uint64_t skipped) {
    // The byte after a multi-byte character's first byte is not the next character.
    const uint64_t decided = typed & decides >> 1 & ~wide;
    m.starts |= decided & starts >> 1;
    typed &= ~decided;
    for (uint64_t rest = skipped ? typed : 0; rest; rest &= rest - 1) {
        const int i = lowest_bit(rest);
        const uint64_t after = ~skipped & (~uint64_t{1} << i);
        if (!after) break;
        const int next = lowest_bit(after);
        if (!(decides >> next & 1)) continue;
        typed &= ~(uint64_t{1} << i);
        m.starts |= (starts >> next & 1) << i;
    }
    m.unclear |= typed;
}

// If the pre-token that starts at byte `start` of a window has only two characters, of which the
// second is at byte `at` and unclear, return the byte after it; otherwise 0. `characters` are the
// first bytes of all characters.
CS336_INLINE int end_after(const Marks& m, uint64_t characters, size_t start, int at) {
    const uint64_t bit = uint64_t{1} << at;
    if (!(m.conditions[BoundaryRules::ENDS_AFTER_START] & bit)) return 0;
    const uint64_t before = characters & (bit - 1), after = characters & ~(bit | (bit - 1));
    if (!before || !after || start != size_t(highest_bit(before))) return 0;
    return lowest_bit(after);
}

// Replace MIXED in the classes of a window. `mixed` is a mask of the characters in question, which
// may extend beyond the window, but not beyond the text.
inline void classify_mixed(const SplitProgram& program, const uint8_t* window, uint64_t mixed,
                           uint8_t* classes) {
    const uint8_t* const class_of_column = program.rules().class_of_column;
    for (; mixed; mixed &= mixed - 1) {
        const int i = lowest_bit(mixed);
        classes[i] = class_of_column[program.wide_column(window + i)];
    }
}

namespace scalar {

// Write origin + i to `out` for every set bit i of `bits`. Returns the number of set bits. `out`
// must have room for 72 elements.
CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    size_t count = 0;
    for (; bits; bits &= bits - 1) out[count++] = origin + uint32_t(lowest_bit(bits));
    return count;
}

CS336_INLINE void add_conditions(Marks& m, int i, uint32_t before, uint32_t at,
                                 const BoundaryRules& rules) {
    const uint64_t bits = rules.conditional[before << 4 | at];
    for (int k = 0; k < BoundaryRules::NUM_CONDITIONS; ++k) m.conditions[k] |= (bits >> k & 1) << i;
}

inline Marks marks(const SplitProgram& program, const uint8_t* window) {
    const BoundaryRules& rules = program.rules();
    Marks m = {0, 0, 0, {}};
    uint64_t any = 0;
    for (size_t i = 0; i < WINDOW; i += 8) {
        uint64_t word;
        std::memcpy(&word, window + i, 8);
        any |= word;
    }
    if ((any & 0x8080808080808080ull) == 0) {
        uint32_t triple = rules.class_of_byte[window[0]];
        for (int i = 1; i < 64; ++i) {
            triple = (triple << 4 | rules.class_of_byte[window[i]]) & 0xFFF;
            const uint64_t verdict = rules.verdicts[triple];
            m.starts |= (verdict & START) << (i - 1);
            m.unclear |= (verdict >> 1) << (i - 1);
        }
        m.unclear &= ~uint64_t{1};
        for (uint64_t rest = m.unclear; rest; rest &= rest - 1) {
            const int i = lowest_bit(rest);
            const uint32_t before = rules.class_of_byte[window[i - 1]];
            const uint32_t at = rules.class_of_byte[window[i]];
            const uint32_t skipped = rules.skipped_after[before << 4 | at];
            int next = i + 1;
            while (next < 64 && (skipped >> rules.class_of_byte[window[next]] & 1)) ++next;
            if (next < 64) {
                const uint64_t verdict =
                    rules.verdict(before, at, rules.class_of_byte[window[next]]);
                m.starts |= (verdict & START) << i;
                if (verdict != UNCLEAR) m.unclear &= ~(uint64_t{1} << i);
            }
            add_conditions(m, i, before, at, rules);
        }
        return m;
    }
    uint8_t classes[WINDOW];
    uint64_t mixed = 0;
    for (int i = 0; i < 64; ++i) {
        classes[i] = rules.class_of_byte[window[i]];
        m.continuation |= uint64_t((window[i] & 0xC0) == 0x80) << i;
        mixed |= uint64_t(classes[i] == BoundaryRules::MIXED) << i;
    }
    classify_mixed(program, window, mixed, classes);
    uint32_t before = classes[0];
    for (int i = 1; i < 63; ++i) {
        if (m.continuation >> i & 1) continue;
        const uint64_t verdict = rules.verdict(before, classes[i], classes[i + 1]);
        m.starts |= (verdict & START) << i;
        m.unclear |= (verdict >> 1) << i;
        if (verdict == UNCLEAR) add_conditions(m, i, before, classes[i], rules);
        before = classes[i];
    }
    return m;
}

}  // namespace scalar

// Define `scan_windows` in the namespace of a SIMD level that has `marks` and `positions`. This is
// a macro because a function with a `target` attribute cannot be a template argument.
//
// `scan_windows` appends the ends of pre-tokens, as offsets from `origin`, and moves `start` past
// the last one. It reads windows from `window` on, before which all starts are known, and moves
// `window`. It stops where less than a window is left before `stop`, or the batch is full. Returns
// false if the next pre-token is longer than 4 GiB.
#define CS336_DEFINE_SCAN(TARGET)                                                                  \
    TARGET inline bool scan_windows(const SplitProgram& program, const uint8_t* text, size_t size, \
                                    size_t stop, size_t origin, size_t& start, size_t& window,     \
                                    uint32_t* ends, size_t& count, ScanState& state) {             \
        /* The rules do not know a line feed at the end of the text. */                            \
        const size_t body = std::min(stop, size - (text[size - 1] == '\n'));                       \
        while (has_room(window, body, origin, count)) {                                            \
            const Marks m = marks(program, text + window);                                         \
            const int last = highest_bit(~m.continuation & (~uint64_t{0} >> 1));                   \
            uint64_t known = ((uint64_t{2} << last) - 1) & ~m.continuation;                        \
            uint64_t starts = m.starts & known & ~uint64_t{1};                                     \
            uint64_t unclear = m.unclear & known & ~uint64_t{1};                                   \
            if (unclear) {                                                                         \
                starts |= start == window;                                                         \
                apply_conditions(m, known, starts, unclear);                                       \
                starts &= ~uint64_t{1};                                                            \
            }                                                                                      \
            while (CS336_UNLIKELY(unclear)) {                                                      \
                const int first = lowest_bit(unclear);                                             \
                const uint64_t before = starts & ((uint64_t{1} << first) - 1);                     \
                if (before) {                                                                      \
                    count += positions(before, uint32_t(window - origin), ends + count);           \
                    start = window + highest_bit(before);                                          \
                }                                                                                  \
                const uint64_t characters = ~m.continuation & ((uint64_t{2} << last) - 1);         \
                const int end = end_after(m, characters, start - window, first);                   \
                if (end) {                                                                         \
                    start = window + end;                                                          \
                    ends[count++] = uint32_t(start - origin);                                      \
                } else if (!program.find_ends(text, size, origin, start, window + first, ends,     \
                                              BATCH_CAPACITY, count, state)) {                     \
                    return false;                                                                  \
                }                                                                                  \
                if (count + WINDOW + 8 > BATCH_CAPACITY) return true;                              \
                if (start - window >= size_t(last)) {                                              \
                    starts = 0;                                                                    \
                    break;                                                                         \
                }                                                                                  \
                /* What follows must not depend on guesses about what came before. */              \
                const uint64_t here = uint64_t{1} << (start - window);                             \
                known &= ~(here - 1);                                                              \
                starts = (m.starts & known) | here;                                                \
                unclear = m.unclear & known & ~here;                                               \
                apply_conditions(m, known, starts, unclear);                                       \
                starts &= ~here;                                                                   \
            }                                                                                      \
            if (starts) {                                                                          \
                count += positions(starts, uint32_t(window - origin), ends + count);               \
                start = window + highest_bit(starts);                                              \
            }                                                                                      \
            window = std::max(start, window + last);                                               \
        }                                                                                          \
        return true;                                                                               \
    }

namespace scalar {
CS336_DEFINE_SCAN()
}

}  // namespace cs336

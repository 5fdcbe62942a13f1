// Hand-written splitters for the patterns `gpt2` and `cl100k` over valid UTF-8. No Python in here.
//
//     cs336::scan_gpt2(text, size, [](const uint8_t* word, size_t length) { ... });
//
// calls the function for every pre-token, in order. The result is exactly that of the regular
// expressions in patterns.py, run by the `regex` module.
//
// Two methods give the same result:
//
// - `next_gpt2` and `next_cl100k` find the end of one pre-token, character by character. They read
//   like the patterns, need nothing of the CPU, and finish what the other method leaves.
// - The window method looks at 64 bytes at once. Every class of characters becomes a 64-bit mask
//   (bit i: the byte i belongs to a character of this class); shifting and combining the masks
//   gives the mask of all pre-token starts. A window always begins at the start of a pre-token, so
//   no state is carried from one to the next; its last starts are left to the next window, because
//   what follows could change them. (Masks of 64 bytes: Langdale and Lemire 2019, "Parsing
//   Gigabytes of JSON per Second".)
//
// Neither reads a byte outside [text, text + size).

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "unicode_tables.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#define CS336_X86 1
// GCC 12 warns of variables in its own header that are left uninitialized on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif
#if defined(__aarch64__) && defined(__GNUC__)
#define CS336_NEON 1
#include <arm_neon.h>
#endif

#if defined(__GNUC__)
#define CS336_INLINE inline __attribute__((always_inline))
#define CS336_NOINLINE __attribute__((noinline))
#else
#include <intrin.h>
#define CS336_INLINE __forceinline
#define CS336_NOINLINE __declspec(noinline)
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the masks need a little-endian CPU"
#endif

namespace cs336 {

// --- characters ----------------------------------------------------------------------------------

CS336_INLINE int lowest_bit(uint64_t mask) {
#if defined(__GNUC__)
    return __builtin_ctzll(mask);
#else
    unsigned long index;
    _BitScanForward64(&index, mask);
    return static_cast<int>(index);
#endif
}

CS336_INLINE int highest_bit(uint64_t mask) {
#if defined(__GNUC__)
    return 63 - __builtin_clzll(mask);
#else
    unsigned long index;
    _BitScanReverse64(&index, mask);
    return static_cast<int>(index);
#endif
}

struct Character {
    uint32_t char_class;
    uint32_t length;  // in bytes
};

CS336_INLINE uint32_t class_in_block(uint32_t block, uint32_t place) {
    if (block >= NUM_BLOCKS_OF) return OTHER;
    return CLASS_BLOCKS[BLOCK_OF[block]][place >> 5] >> (2 * (place & 31)) & 3;
}

// The character of at least two bytes that begins at `p`.
CS336_INLINE Character wide_character(const uint8_t* p) {
    const uint32_t first = p[0];
    if (first < 0xE0) return {class_in_block(first & 0x1F, p[1] & 0x3F), 2};
    if (first < 0xF0) {
        return {class_in_block((first & 0x0F) << 6 | (p[1] & 0x3F), p[2] & 0x3F), 3};
    }
    return {class_in_block((first & 0x07) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F), p[3] & 0x3F), 4};
}

CS336_INLINE Character character(const uint8_t* p) {
    if (*p < 0x80) return {ASCII_CLASS[*p], 1};
    return wide_character(p);
}

// ASCII_CLASS for all bytes: those of characters of several bytes have a class of their own.
struct ByteClass {
    uint8_t of_byte[256];
    constexpr ByteClass() : of_byte() {
        for (int byte = 0; byte < 256; ++byte) of_byte[byte] = byte < 128 ? ASCII_CLASS[byte] : 0xFF;
    }
};

inline constexpr ByteClass BYTE_CLASS;

// The highest bit of every byte of `word` that is an ASCII letter.
CS336_INLINE uint64_t ascii_letters(uint64_t word) {
    constexpr uint64_t EVERY = 0x0101010101010101ull;
    const uint64_t lower = (word | 0x20 * EVERY) & 0x7F * EVERY;
    // No sum exceeds a byte. From 'a' on the first sums reach 128, beyond 'z' the second do.
    const uint64_t from_a = lower + (0x80 - 'a') * EVERY, beyond_z = lower + (0x7F - 'z') * EVERY;
    return from_a & ~beyond_z & ~word & 0x80 * EVERY;
}

// The end of the run of characters of this class that begins at `i`.
inline size_t run_end(const uint8_t* text, size_t size, size_t i, uint32_t char_class) {
    // Eight letters at a time: their number is known without a branch that is hard to foresee.
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

// --- one pre-token after the other ---------------------------------------------------------------

// Bytes of the contraction at `i`, where an apostrophe stands; 0 if there is none.
CS336_INLINE size_t contraction_gpt2(const uint8_t* text, size_t size, size_t i) {
    if (i + 1 >= size) return 0;
    const uint8_t a = text[i + 1];
    if (a == 's' || a == 't' || a == 'd' || a == 'm') return 2;
    if (i + 2 >= size) return 0;
    const uint8_t b = text[i + 2];
    return (a == 'l' && b == 'l') || ((a == 'v' || a == 'r') && b == 'e') ? 3 : 0;
}

// As contraction_gpt2, in any case; simple case folding also takes U+017F, the long s, for an s.
CS336_INLINE size_t contraction_cl100k(const uint8_t* text, size_t size, size_t i) {
    if (i + 1 >= size) return 0;
    const uint8_t a = text[i + 1] | 0x20;
    if (a == 's' || a == 't' || a == 'd' || a == 'm') return 2;
    if (i + 2 >= size) return 0;
    if (text[i + 1] == 0xC5 && text[i + 2] == 0xBF) return 3;
    const uint8_t b = text[i + 2] | 0x20;
    return (a == 'l' && b == 'l') || ((a == 'v' || a == 'r') && b == 'e') ? 3 : 0;
}

// What a pattern needs to know of a run of white space.
struct WhiteSpace {
    size_t end;        // of the run
    size_t last;       // start of its last character
    size_t line_end;   // end of its last CR or LF; 0 if it holds none
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

// '(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
struct Gpt2 {
    // The end of the pre-token that starts at `i` < `size`.
    static size_t next(const uint8_t* text, size_t size, size_t i) {
        if (text[i] == '\'') {
            const size_t length = contraction_gpt2(text, size, i);
            if (length) return i + length;
        }
        size_t start = i;
        if (text[i] == ' ' && i + 1 < size) start = i + 1;
        const Character c = character(text + start);
        if (c.char_class != SPACE) return run_end(text, size, start + c.length, c.char_class);

        const WhiteSpace run = white_space(text, size, i);
        // `\s+(?!\S)` leaves the last character to what follows, if that is not the end.
        return run.end == size || run.last == i ? run.end : run.last;
    }

    template <class Masks>
    static CS336_INLINE uint64_t starts(const Masks& m, const uint8_t* window, const uint8_t* end);
};

// '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}
// | ?[^\s\p{L}\p{N}]+[\r\n]*|\s+$|\s*[\r\n]|\s+(?!\S)|\s
struct Cl100k {
    static size_t next(const uint8_t* text, size_t size, size_t i) {
        if (text[i] == '\'') {
            const size_t length = contraction_cl100k(text, size, i);
            if (length) return i + length;
        }
        const Character first = character(text + i);
        size_t start = i;
        uint32_t char_class = first.char_class;
        if (char_class == NUMBER) {
            size_t j = i + first.length;
            for (int k = 1; k < 3 && j < size; ++k) {
                const Character c = character(text + j);
                if (c.char_class != NUMBER) break;
                j += c.length;
            }
            return j;
        }
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
        const WhiteSpace run = white_space(text, size, i);
        if (run.end == size) return size;
        if (run.line_end) return run.line_end;
        return run.last == i ? run.end : run.last;
    }

    template <class Masks>
    static CS336_INLINE uint64_t starts(const Masks& m, const uint8_t* window, const uint8_t* end);
};

// --- 64 bytes at once ----------------------------------------------------------------------------

// Bit i of each mask speaks of byte i of the window.
struct Masks {
    uint64_t letter;
    uint64_t number;
    uint64_t space;         // white space of every kind
    uint64_t blank;         // ' '
    uint64_t apostrophe;
    uint64_t line_end;      // CR and LF
    uint64_t continuation;  // second and later bytes of characters
    uint64_t wide;          // first bytes of characters of several bytes, not yet classified
};

// The bytes of a window whose starts are certain: a start depends on at most three bytes after it
// (white space of three bytes, and what follows it), and on everything before it.
constexpr uint64_t CERTAIN = (uint64_t{1} << 61) - 1;

// Classify the characters of several bytes one by one. Their bytes may lie behind the window: the
// text is valid UTF-8, so a character that begins in it also ends in it.
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

// First bytes of the characters of which `last` marks the last bytes (for at most three bytes).
CS336_INLINE uint64_t first_bytes(uint64_t last, uint64_t continuation) {
    last |= (last & continuation) >> 1;
    last |= (last & continuation) >> 1;
    return last & ~continuation;
}

template <class M>
CS336_INLINE uint64_t Gpt2::starts(const M& m, const uint8_t* window, const uint8_t* end) {
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

template <class M>
CS336_INLINE uint64_t Cl100k::starts(const M& m, const uint8_t* window, const uint8_t* end) {
    const uint64_t other = ~(m.letter | m.number | m.space);
    const uint64_t gap = m.space & ~m.line_end;

    // A run of others starts a pre-token unless a blank before it does.
    const uint64_t other_starts = other & ~(other << 1) & ~(m.blank << 1);
    // Its first character takes the letters that follow: `[^\r\n\p{L}\p{N}]?\p{L}+`.
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

    // Line ends straight after others belong to them; adding carries through their whole run.
    const uint64_t taken = m.line_end & ~(m.line_end + (m.line_end & other << 1));
    const uint64_t spaces = m.space & ~taken;
    const uint64_t space_starts = spaces & ~(spaces << 1);
    const uint64_t last_spaces =
        first_bytes(m.space & ~(m.space >> 1), m.continuation) & ~m.line_end;
    uint64_t starts = other_starts | letter_starts | number_starts | space_starts | last_spaces;

    // `\s*[\r\n]` ends after the last line end of a run of white space: there starts what is left
    // of the run, if no line end follows, and if it does not reach the end of the text.
    uint64_t rests = gap & (m.line_end & ~taken) << 1 & CERTAIN;
    while (rests) {
        const int i = lowest_bit(rests);
        rests &= rests - 1;
        const uint64_t after = ~(gap >> i);  // never 0: zeros are shifted in, but if i is 0
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

// --- masks and positions, for every kind of CPU --------------------------------------------------

// Without vector instructions of a certain kind; compilers make vectors of the loops where they can.
namespace portable {

// Eight bytes that are 0 or 1 become eight bits.
CS336_INLINE uint64_t pack(const uint8_t* flags) {
    uint64_t mask = 0;
    for (int i = 0; i < 8; ++i) {
        uint64_t word;
        std::memcpy(&word, flags + 8 * i, 8);
        mask |= (word * 0x0102040810204080ull >> 56) << (8 * i);
    }
    return mask;
}

CS336_INLINE Masks masks(const uint8_t* window) {
    uint8_t letter[64], number[64], space[64], blank[64], apostrophe[64], line_end[64];
    uint8_t high[64], continuation[64];
    for (int i = 0; i < 64; ++i) letter[i] = uint8_t((window[i] | 0x20) - 'a') < 26;
    for (int i = 0; i < 64; ++i) number[i] = uint8_t(window[i] - '0') < 10;
    for (int i = 0; i < 64; ++i) blank[i] = window[i] == ' ';
    for (int i = 0; i < 64; ++i) space[i] = (uint8_t(window[i] - 9) < 5) | (window[i] == ' ');
    for (int i = 0; i < 64; ++i) apostrophe[i] = window[i] == '\'';
    for (int i = 0; i < 64; ++i) line_end[i] = (window[i] == '\n') | (window[i] == '\r');
    for (int i = 0; i < 64; ++i) high[i] = window[i] >> 7;
    Masks m = {pack(letter),     pack(number),   pack(space), pack(blank),
               pack(apostrophe), pack(line_end), 0,           pack(high)};
    if (m.wide) {
        for (int i = 0; i < 64; ++i) continuation[i] = (window[i] & 0xC0) == 0x80;
        m.continuation = pack(continuation);
        m.wide &= ~m.continuation;
        classify_wide(m, window);
    }
    return m;
}

// Write origin + i to `out` for every bit i of `bits`; return their number. Up to 64 places of
// `out` may be written.
CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    size_t count = 0;
    while (bits) {
        out[count++] = origin + lowest_bit(bits);
        bits &= bits - 1;
    }
    return count;
}

}  // namespace portable

#if defined(CS336_X86)
#define CS336_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define CS336_AVX512 \
    __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")))

namespace avx2 {

struct Halves {
    __m256i low, high;
};

CS336_AVX2 CS336_INLINE uint64_t bits(__m256i low, __m256i high) {
    return uint32_t(_mm256_movemask_epi8(low)) | uint64_t(uint32_t(_mm256_movemask_epi8(high))) << 32;
}

CS336_AVX2 CS336_INLINE uint64_t equal(Halves v, char byte) {
    const __m256i wanted = _mm256_set1_epi8(byte);
    return bits(_mm256_cmpeq_epi8(v.low, wanted), _mm256_cmpeq_epi8(v.high, wanted));
}

// Bytes from 128 - `count` - `shift` to 127 - `shift`: moved to the top of the signed range, they
// are what is greater than 127 - `count`.
CS336_AVX2 CS336_INLINE uint64_t in_range(Halves v, int shift, int count) {
    const __m256i by = _mm256_set1_epi8(char(shift)), below = _mm256_set1_epi8(char(127 - count));
    return bits(_mm256_cmpgt_epi8(_mm256_add_epi8(v.low, by), below),
                _mm256_cmpgt_epi8(_mm256_add_epi8(v.high, by), below));
}

CS336_AVX2 CS336_INLINE Masks masks(const uint8_t* window) {
    const Halves v = {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(window)),
                      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(window + 32))};
    const __m256i small = _mm256_set1_epi8(0x20);
    const Halves lower = {_mm256_or_si256(v.low, small), _mm256_or_si256(v.high, small)};
    Masks m;
    m.letter = in_range(lower, 127 - 'z', 26);
    m.number = in_range(v, 127 - '9', 10);
    m.blank = equal(v, ' ');
    m.space = in_range(v, 127 - '\r', 5) | m.blank;
    m.apostrophe = equal(v, '\'');
    m.line_end = equal(v, '\n') | equal(v, '\r');
    m.wide = bits(v.low, v.high);
    m.continuation = 0;
    if (m.wide) {
        // As signed bytes, 0x80 to 0xBF are those below -64.
        const __m256i limit = _mm256_set1_epi8(-64);
        m.continuation = bits(_mm256_cmpgt_epi8(limit, v.low), _mm256_cmpgt_epi8(limit, v.high));
        m.wide &= ~m.continuation;
        classify_wide(m, window);
    }
    return m;
}

// As portable::positions, eight at a time: the number of rounds is easier to foresee.
CS336_AVX2 CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    const size_t count = __builtin_popcountll(bits);
    for (size_t done = 0; done < count; done += 8) {
        for (int k = 0; k < 8; ++k) {
            // The result for 0 is 64: written, but beyond `count`.
            out[done + k] = origin + uint32_t(_tzcnt_u64(bits));
            bits &= bits - 1;
        }
    }
    return count;
}

}  // namespace avx2

namespace avx512 {

// One table look-up gives all classes of an ASCII byte, as bits.
enum : uint8_t {
    LETTER_BIT = 1, NUMBER_BIT = 2, SPACE_BIT = 4, BLANK_BIT = 8, APOSTROPHE_BIT = 16, LINE_END_BIT = 32
};

struct ByteClasses {
    alignas(64) uint8_t of_byte[128];
    alignas(64) uint8_t place[64];  // 0, 1, 2, ...
    constexpr ByteClasses() : of_byte(), place() {
        for (int byte = 0; byte < 128; ++byte) {
            of_byte[byte] = uint8_t(
                (ASCII_CLASS[byte] == LETTER ? LETTER_BIT : 0) |
                (ASCII_CLASS[byte] == NUMBER ? NUMBER_BIT : 0) |
                (ASCII_CLASS[byte] == SPACE ? SPACE_BIT : 0) | (byte == ' ' ? BLANK_BIT : 0) |
                (byte == '\'' ? APOSTROPHE_BIT : 0) |
                (byte == '\n' || byte == '\r' ? LINE_END_BIT : 0));
        }
        for (int i = 0; i < 64; ++i) place[i] = uint8_t(i);
    }
};

inline constexpr ByteClasses BYTE_CLASSES;

CS336_AVX512 CS336_INLINE Masks masks(const uint8_t* window) {
    const __m512i v = _mm512_loadu_si512(window);
    const __mmask64 high = _mm512_movepi8_mask(v);
    // The look-up takes the low seven bits of a byte: those of wide characters are masked out.
    const __m512i classes = _mm512_maskz_permutex2var_epi8(
        ~high, _mm512_load_si512(BYTE_CLASSES.of_byte), v,
        _mm512_load_si512(BYTE_CLASSES.of_byte + 64));
    Masks m;
    m.letter = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(LETTER_BIT));
    m.number = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(NUMBER_BIT));
    m.space = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(SPACE_BIT));
    m.blank = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(BLANK_BIT));
    m.apostrophe = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(APOSTROPHE_BIT));
    m.line_end = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(LINE_END_BIT));
    m.continuation = 0;
    m.wide = 0;
    if (high) {
        m.continuation = _mm512_cmplt_epi8_mask(v, _mm512_set1_epi8(-64));
        m.wide = high & ~m.continuation;
        // Most letters of most scripts show in their first byte.
        const __m512i lead = _mm512_maskz_permutexvar_epi8(
            m.wide, v, _mm512_loadu_si512(LEAD_IS_LETTER));
        uint64_t letters = _mm512_test_epi8_mask(lead, lead);
        m.wide &= ~letters;
        letters |= letters << 1 & m.continuation;
        letters |= letters << 1 & m.continuation;
        letters |= letters << 1 & m.continuation;
        m.letter |= letters;
        classify_wide(m, window);
    }
    return m;
}

CS336_AVX512 CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    const size_t count = _mm_popcnt_u64(bits);
    __m512i places = _mm512_maskz_compress_epi8(bits, _mm512_load_si512(BYTE_CLASSES.place));
    const __m512i from = _mm512_set1_epi32(int(origin));
    for (size_t done = 0;; done += 16) {
        const __m512i sixteen = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(places));
        _mm512_storeu_si512(out + done, _mm512_add_epi32(sixteen, from));
        if (done + 16 >= count) return count;
        places = _mm512_shuffle_i64x2(places, places, 0x39);  // the next 16 bytes to the front
    }
}

}  // namespace avx512
#endif  // CS336_X86

#if defined(CS336_NEON)
namespace neon {

// Vectors of 0x00 and 0xFF for the 64 bytes of a window become a mask.
CS336_INLINE uint64_t bits(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d) {
    const uint8x16_t weight = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t ab = vpaddq_u8(vandq_u8(a, weight), vandq_u8(b, weight));
    const uint8x16_t cd = vpaddq_u8(vandq_u8(c, weight), vandq_u8(d, weight));
    const uint8x16_t abcd = vpaddq_u8(ab, cd);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(abcd, abcd)), 0);
}

struct Quarters {
    uint8x16_t v[4];
};

CS336_INLINE uint64_t equal(const Quarters& q, uint8_t byte) {
    const uint8x16_t w = vdupq_n_u8(byte);
    return bits(vceqq_u8(q.v[0], w), vceqq_u8(q.v[1], w), vceqq_u8(q.v[2], w), vceqq_u8(q.v[3], w));
}

// Bytes from `first` on, `count` of them.
CS336_INLINE uint64_t in_range(const Quarters& q, uint8_t first, uint8_t count) {
    const uint8x16_t f = vdupq_n_u8(first), n = vdupq_n_u8(count);
    return bits(vcltq_u8(vsubq_u8(q.v[0], f), n), vcltq_u8(vsubq_u8(q.v[1], f), n),
                vcltq_u8(vsubq_u8(q.v[2], f), n), vcltq_u8(vsubq_u8(q.v[3], f), n));
}

CS336_INLINE Masks masks(const uint8_t* window) {
    Quarters q, lower;
    for (int i = 0; i < 4; ++i) {
        q.v[i] = vld1q_u8(window + 16 * i);
        lower.v[i] = vorrq_u8(q.v[i], vdupq_n_u8(0x20));
    }
    Masks m;
    m.letter = in_range(lower, 'a', 26);
    m.number = in_range(q, '0', 10);
    m.blank = equal(q, ' ');
    m.space = in_range(q, 9, 5) | m.blank;
    m.apostrophe = equal(q, '\'');
    m.line_end = equal(q, '\n') | equal(q, '\r');
    m.wide = in_range(q, 0x80, 0x80);
    m.continuation = 0;
    if (m.wide) {
        m.continuation = in_range(q, 0x80, 0x40);
        m.wide &= ~m.continuation;
        classify_wide(m, window);
    }
    return m;
}

}  // namespace neon
#endif  // CS336_NEON

// --- the choice of the method --------------------------------------------------------------------

enum class Method { SCALAR, PORTABLE, NEON, AVX2, AVX512 };

inline const char* const METHOD_NAMES[] = {"scalar", "portable", "neon", "avx2", "avx512"};
constexpr int NUM_METHODS = 5;

// Whether this build and this CPU have it.
inline bool has_method(Method method) {
    switch (method) {
        case Method::SCALAR:
        case Method::PORTABLE:
            return true;
#if defined(CS336_NEON)
        case Method::NEON:
            return true;
#endif
#if defined(CS336_X86)
        case Method::AVX2:
            return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                   __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
        case Method::AVX512:
            return has_method(Method::AVX2) && __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2");
#endif
        default:
            return false;
    }
}

// The fastest method there is, or the one that the environment variable CS336_SIMD names.
inline Method best_method() {
    static const Method best = [] {
        if (const char* wanted = std::getenv("CS336_SIMD")) {
            for (int i = 0; i < NUM_METHODS; ++i) {
                if (!std::strcmp(wanted, METHOD_NAMES[i]) && has_method(Method(i))) return Method(i);
            }
        }
        for (int i = NUM_METHODS - 1; i > 0; --i) {
            if (has_method(Method(i))) return Method(i);
        }
        return Method::SCALAR;
    }();
    return best;
}

// Pre-tokens are found in batches: their ends, counted from the start of the batch.
constexpr size_t BATCH_CAPACITY = 1024;
constexpr size_t MAX_BATCH_BYTES = size_t{1} << 31;

// Find the end of the pre-token at `position` one by one. Returns false if the end does not fit 32
// bits; then it is the only one of its batch, and is left to the caller.
template <class Pattern>
inline bool one_more(const uint8_t* text, size_t size, size_t origin, size_t& position,
                     uint32_t* ends, size_t& count) {
    const size_t end = Pattern::next(text, size, position);
    if (end - origin > UINT32_MAX) return false;
    ends[count++] = uint32_t(end - origin);
    position = end;
    return true;
}

// The functions `fill_*` write ends from `position` on, move `position`, and return their number. 0
// says that the next pre-token is longer than 4 GiB.
template <class Pattern>
size_t fill_scalar(const uint8_t* text, size_t size, size_t& position, uint32_t* ends) {
    const size_t origin = position;
    size_t count = 0;
    while (position < size && count < BATCH_CAPACITY &&
           one_more<Pattern>(text, size, origin, position, ends, count)) {
    }
    return count;
}

// The same loop for every kind of CPU: a function with a `target` cannot be a template parameter.
#define CS336_FILL(NAME, TARGET, KIND, POSITIONS)                                                  \
    template <class Pattern>                                                                       \
    TARGET size_t NAME(const uint8_t* text, size_t size, size_t& position, uint32_t* ends) {       \
        const size_t origin = position;                                                            \
        size_t place = position, count = 0;                                                        \
        while (place < size && count + 64 <= BATCH_CAPACITY && place - origin < MAX_BATCH_BYTES) { \
            uint64_t starts = 0;                                                                   \
            if (size - place >= 64) {                                                              \
                const Masks m = KIND::masks(text + place);                                         \
                starts = Pattern::starts(m, text + place, text + size) & CERTAIN & ~uint64_t{1};   \
            }                                                                                      \
            if (starts) {                                                                          \
                count += POSITIONS::positions(starts, uint32_t(place - origin), ends + count);     \
                place += highest_bit(starts);                                                      \
            } else if (!one_more<Pattern>(text, size, origin, place, ends, count)) {               \
                break;                                                                             \
            }                                                                                      \
        }                                                                                          \
        position = place;                                                                          \
        return count;                                                                              \
    }

CS336_FILL(fill_portable, , portable, portable)
#if defined(CS336_X86)
CS336_FILL(fill_avx2, CS336_AVX2, avx2, avx2)
CS336_FILL(fill_avx512, CS336_AVX512, avx512, avx512)
#endif
#if defined(CS336_NEON)
CS336_FILL(fill_neon, , neon, portable)
#endif
#undef CS336_FILL

using Fill = size_t (*)(const uint8_t*, size_t, size_t&, uint32_t*);

template <class Pattern>
Fill fill_function(Method method) {
    switch (method) {
#if defined(CS336_X86)
        case Method::AVX512: return fill_avx512<Pattern>;
        case Method::AVX2: return fill_avx2<Pattern>;
#endif
#if defined(CS336_NEON)
        case Method::NEON: return fill_neon<Pattern>;
#endif
        case Method::PORTABLE: return fill_portable<Pattern>;
        default: return fill_scalar<Pattern>;
    }
}

// Call `batch(first, ends, count)` for groups of consecutive pre-tokens: the first one is
// [first, first + ends[0]), the next [first + ends[0], first + ends[1]), ...; or, for one that is
// longer than 4 GiB, `huge(first, length)`.
template <class Pattern, class Batch, class Huge>
void scan_batches(const uint8_t* text, size_t size, Method method, Batch&& batch, Huge&& huge) {
    const Fill fill = fill_function<Pattern>(method);
    uint32_t ends[BATCH_CAPACITY];
    size_t position = 0;
    while (position < size) {
        const size_t origin = position;
        const size_t count = fill(text, size, position, ends);
        if (count) {
            batch(text + origin, ends, count);
        } else {
            position = Pattern::next(text, size, origin);
            huge(text + origin, position - origin);
        }
    }
}

// Call `sink(word, length)` for every pre-token of `text`, in order; `text` must be valid UTF-8.
template <class Pattern, class Sink>
void scan(const uint8_t* text, size_t size, Sink&& sink, Method method = best_method()) {
    scan_batches<Pattern>(
        text, size, method,
        [&](const uint8_t* first, const uint32_t* ends, size_t count) {
            uint32_t start = 0;
            for (size_t i = 0; i < count; ++i) {
                sink(first + start, size_t(ends[i] - start));
                start = ends[i];
            }
        },
        sink);
}

template <class Sink>
void scan_gpt2(const uint8_t* text, size_t size, Sink&& sink, Method method = best_method()) {
    scan<Gpt2>(text, size, sink, method);
}

template <class Sink>
void scan_cl100k(const uint8_t* text, size_t size, Sink&& sink, Method method = best_method()) {
    scan<Cl100k>(text, size, sink, method);
}

}  // namespace cs336

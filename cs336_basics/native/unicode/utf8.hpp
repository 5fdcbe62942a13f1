// Finds invalid UTF-8 and replaces it with U+FFFD exactly as Python's `decode` does.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/simd_target.hpp"

namespace cs336 {

// The sequence at the start of [p, end): its length in bytes, and whether it is a character. An
// invalid sequence is the longest prefix of a possible character, and Python replaces it with one
// U+FFFD (Unicode standard, section 3.9, "U+FFFD Substitution of Maximal Subparts").
struct Utf8Sequence {
    size_t length;
    bool valid;
};

inline Utf8Sequence utf8_sequence(const uint8_t* p, const uint8_t* end) {
    const uint8_t first = p[0];
    if (first < 0x80) return {1, true};
    size_t length;
    // Some first bytes restrict the second byte, to exclude overlong forms, surrogates and code
    // points above U+10FFFF.
    uint8_t lowest = 0x80, highest = 0xBF;
    if (first >= 0xC2 && first <= 0xDF) {
        length = 2;
    } else if (first >= 0xE0 && first <= 0xEF) {
        length = 3;
        if (first == 0xE0) lowest = 0xA0;
        if (first == 0xED) highest = 0x9F;
    } else if (first >= 0xF0 && first <= 0xF4) {
        length = 4;
        if (first == 0xF0) lowest = 0x90;
        if (first == 0xF4) highest = 0x8F;
    } else {
        return {1, false};
    }
    for (size_t i = 1; i < length; ++i) {
        if (p + i == end || p[i] < lowest || p[i] > highest) return {i, false};
        lowest = 0x80;
        highest = 0xBF;
    }
    return {length, true};
}

// The offset of the first invalid sequence at or after `from`; `size` if there is none.
inline size_t first_invalid_utf8_scalar(const uint8_t* text, size_t size, size_t from = 0) {
    const uint8_t* const end = text + size;
    const uint8_t* p = text + from;
    while (p < end) {
        // Skip ASCII, 32 bytes at a time.
        while (end - p >= 32) {
            uint64_t words[4];
            std::memcpy(words, p, 32);
            if ((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080ull) break;
            p += 32;
        }
        // Check the next 32 bytes, one character at a time.
        const uint8_t* const stop = end - p > 32 ? p + 32 : end;
        while (p < stop) {
            if (*p < 0x80) {
                ++p;
                continue;
            }
            const Utf8Sequence sequence = utf8_sequence(p, end);
            if (!sequence.valid) return p - text;
            p += sequence.length;
        }
    }
    return size;
}

#if defined(CS336_X86)
// The lookup algorithm of Keiser and Lemire 2021, "Validating UTF-8 In Less Than One Instruction
// Per Byte": three table lookups of half bytes find the possible errors of two adjacent bytes.
namespace utf8_avx2 {

enum : uint8_t {
    TOO_SHORT = 1,            // a first byte or ASCII instead of a required continuation
    TOO_LONG = 2,             // a continuation after ASCII
    OVERLONG_3 = 4,           // E0 80-9F
    TOO_LARGE = 8,            // F4 90-BF, F5-FF
    SURROGATE = 16,           // ED A0-BF
    OVERLONG_2 = 32,          // C0, C1
    TOO_LARGE_1000 = 64,      // F5-FF 80-8F
    OVERLONG_4 = 64,          // F0 80-8F
    TWO_CONTINUATIONS = 128,  // valid only if the second is a third or fourth byte; checked below
    ANY_LOW = TOO_SHORT | TOO_LONG | TWO_CONTINUATIONS
};

// clang-format off
alignas(16) inline constexpr uint8_t FIRST_HIGH[16] = {
    TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG, TOO_LONG,
    TWO_CONTINUATIONS, TWO_CONTINUATIONS, TWO_CONTINUATIONS, TWO_CONTINUATIONS,
    TOO_SHORT | OVERLONG_2, TOO_SHORT, TOO_SHORT | OVERLONG_3 | SURROGATE,
    TOO_SHORT | TOO_LARGE | TOO_LARGE_1000 | OVERLONG_4};

alignas(16) inline constexpr uint8_t FIRST_LOW[16] = {
    ANY_LOW | OVERLONG_3 | OVERLONG_2 | OVERLONG_4, ANY_LOW | OVERLONG_2, ANY_LOW, ANY_LOW,
    ANY_LOW | TOO_LARGE, ANY_LOW | TOO_LARGE | TOO_LARGE_1000, ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000, ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000, ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000, ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000 | SURROGATE, ANY_LOW | TOO_LARGE | TOO_LARGE_1000,
    ANY_LOW | TOO_LARGE | TOO_LARGE_1000};

alignas(16) inline constexpr uint8_t SECOND_HIGH[16] = {
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT,
    TOO_LONG | OVERLONG_2 | TWO_CONTINUATIONS | OVERLONG_3 | TOO_LARGE_1000 | OVERLONG_4,
    TOO_LONG | OVERLONG_2 | TWO_CONTINUATIONS | OVERLONG_3 | TOO_LARGE,
    TOO_LONG | OVERLONG_2 | TWO_CONTINUATIONS | SURROGATE | TOO_LARGE,
    TOO_LONG | OVERLONG_2 | TWO_CONTINUATIONS | SURROGATE | TOO_LARGE,
    TOO_SHORT, TOO_SHORT, TOO_SHORT, TOO_SHORT};
// clang-format on

CS336_AVX2 inline __m256i table(const uint8_t* values) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(values)));
}

CS336_AVX2 inline size_t first_invalid(const uint8_t* text, size_t size) {
    const __m256i first_high = table(FIRST_HIGH), first_low = table(FIRST_LOW);
    const __m256i second_high = table(SECOND_HIGH), low_half = _mm256_set1_epi8(0x0F);
    __m256i before = _mm256_setzero_si256();
    size_t i = 0;
    for (; i + 32 <= size; i += 32) {
        const __m256i now = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text + i));
        // The input shifted by one, two and three bytes.
        const __m256i joint = _mm256_permute2x128_si256(before, now, 0x21);
        const __m256i back1 = _mm256_alignr_epi8(now, joint, 15);
        const __m256i back2 = _mm256_alignr_epi8(now, joint, 14);
        const __m256i back3 = _mm256_alignr_epi8(now, joint, 13);
        const __m256i back1_high = _mm256_and_si256(_mm256_srli_epi16(back1, 4), low_half);
        const __m256i now_high = _mm256_and_si256(_mm256_srli_epi16(now, 4), low_half);
        const __m256i seen = _mm256_and_si256(
            _mm256_and_si256(_mm256_shuffle_epi8(first_high, back1_high),
                             _mm256_shuffle_epi8(first_low, _mm256_and_si256(back1, low_half))),
            _mm256_shuffle_epi8(second_high, now_high));
        // Two adjacent continuations are valid only if the second is a third or fourth byte.
        const __m256i third = _mm256_subs_epu8(back2, _mm256_set1_epi8(0xE0 - 0x80));
        const __m256i fourth = _mm256_subs_epu8(back3, _mm256_set1_epi8(0xF0 - 0x80));
        const __m256i due =
            _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8(char(0x80)));
        const __m256i errors = _mm256_xor_si256(due, seen);
        if (!_mm256_testz_si256(errors, errors)) break;
        before = now;
    }
    // Check the rest of the text. If the last sequence may extend beyond `i`, start with its first
    // byte.
    size_t start = i;
    for (size_t back = 1; back <= 3 && back <= i; ++back) {
        if (text[i - back] >= 0xC0) {
            start = i - back;
            break;
        }
        if (text[i - back] < 0x80) break;
    }
    return first_invalid_utf8_scalar(text, size, start);
}

}  // namespace utf8_avx2
#endif

// Like first_invalid_utf8_scalar, but uses AVX2 if the CPU supports it.
inline size_t first_invalid_utf8(const uint8_t* text, size_t size) {
#if defined(CS336_X86)
    static const bool avx2 = has_avx2();
    if (avx2) return utf8_avx2::first_invalid(text, size);
#endif
    return first_invalid_utf8_scalar(text, size);
}

// How to handle invalid UTF-8: replace it with U+FFFD, reject the text, or keep the bytes.
enum class InvalidBytes { REPLACE, REFUSE, KEEP };

// The invalid sequences that were replaced in a text.
struct Replaced {
    uint64_t sequences = 0;
    uint64_t bytes = 0;  // the total length
    uint64_t first = 0;  // the lowest offset

    void add(const Replaced& other) {
        if (!other.sequences) return;
        first = sequences ? std::min(first, other.first) : other.first;
        sequences += other.sequences;
        bytes += other.bytes;
    }
};

// From left to right, call `valid_part(first, end)` for valid UTF-8 and
// `invalid_sequence(offset, length)` for every invalid sequence.
template <class ValidPart, class InvalidSequence>
void for_each_part(const uint8_t* text, size_t size, ValidPart valid_part,
                   InvalidSequence invalid_sequence) {
    for (size_t start = 0; start < size;) {
        size_t at = start + first_invalid_utf8(text + start, size - start);
        valid_part(text + start, text + at);
        for (; at < size; ++at) {
            const Utf8Sequence sequence = utf8_sequence(text + at, text + size);
            if (sequence.valid) break;
            invalid_sequence(at, sequence.length);
            at += sequence.length - 1;
        }
        start = at;
    }
}

// Find the invalid sequences in text.
inline Replaced invalid_utf8(const uint8_t* text, size_t size) {
    Replaced found;
    for_each_part(
        text, size, [](const uint8_t*, const uint8_t*) {},
        [&](size_t offset, size_t length) { found.add({1, length, offset}); });
    return found;
}

// Write a text with U+FFFD (three bytes) in place of every invalid sequence. Returns the end of the
// output.
inline uint8_t* write_valid_utf8(const uint8_t* text, size_t size, uint8_t* out) {
    for_each_part(
        text, size,
        [&](const uint8_t* first, const uint8_t* end) { out = std::copy(first, end, out); },
        [&](size_t, size_t) {
            *out++ = 0xEF;
            *out++ = 0xBF;
            *out++ = 0xBD;
        });
    return out;
}

// Append [text, text + size) to `out`, with U+FFFD in place of every invalid sequence.
inline Replaced replace_invalid_utf8(const uint8_t* text, size_t size, std::vector<uint8_t>& out) {
    const Replaced found = invalid_utf8(text, size);
    const size_t done = out.size();
    out.resize(done + size - found.bytes + 3 * found.sequences);
    write_valid_utf8(text, size, out.data() + done);
    return found;
}

}  // namespace cs336

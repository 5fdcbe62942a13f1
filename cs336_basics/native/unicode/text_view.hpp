// TextView: a text in memory, either valid UTF-8 or the storage of a Python str (PEP 393). This
// file also contains functions that convert a TextView to UTF-8.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "base/failure.hpp"
#include "base/memory.hpp"
#include "base/simd_target.hpp"

namespace cs336 {

struct TextSpan {
    const uint8_t* data = nullptr;
    size_t size = 0;
};

struct TextView {
    // The units of UTF8 are bytes. In the other kinds, each code point is one unit of one byte (if
    // all are below U+0100), two bytes or four bytes.
    enum Kind { UTF8, LATIN1, UCS2, UCS4 };

    const void* data;
    size_t length;  // in units; UTF8: in bytes
    Kind kind;
};

// An upper bound on the UTF-8 size of a text, computed without reading the text.
inline size_t utf8_bound(const TextView& text) {
    constexpr size_t MOST[] = {1, 2, 3, 4};
    return text.length * MOST[text.kind];
}

// The units [from, to) of a text.
inline TextView part_of(const TextView& text, size_t from, size_t to) {
    constexpr size_t UNIT_SIZE[] = {1, 1, 2, 4};
    return {static_cast<const uint8_t*>(text.data) + from * UNIT_SIZE[text.kind], to - from,
            text.kind};
}

// Call `use(units)` with a pointer to the units of a text that is not UTF-8.
template <class Use>
inline auto with_units(const TextView& text, Use use) {
    if (text.kind == TextView::LATIN1) return use(static_cast<const uint8_t*>(text.data));
    if (text.kind == TextView::UCS2) return use(static_cast<const uint16_t*>(text.data));
    return use(static_cast<const uint32_t*>(text.data));
}

// The UTF-8 size of a text.
inline size_t utf8_size(const TextView& text) {
    if (text.kind == TextView::UTF8) return text.length;
    return with_units(text, [&](const auto* units) {
        size_t size = text.length;
        for (size_t i = 0; i < text.length; ++i) {
            const uint32_t c = units[i];
            size += size_t(c >= 0x80) + size_t(c >= 0x800) + size_t(c >= 0x10000);
        }
        return size;
    });
}

// Write a code point as UTF-8, without writing beyond its bytes. Returns the end of the output.
CS336_INLINE uint8_t* put_utf8(uint32_t c, uint8_t* out) {
    const auto rest = [&](int shift) { return uint8_t((c >> shift & 0x3F) | 0x80); };
    if (c < 0x80) {
        *out++ = uint8_t(c);
        return out;
    }
    if (c < 0x800) {
        *out++ = uint8_t(0xC0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *out++ = uint8_t(0xE0 | c >> 12);
        } else {
            *out++ = uint8_t(0xF0 | c >> 18);
            *out++ = rest(12);
        }
        *out++ = rest(6);
    }
    *out++ = rest(0);
    return out;
}

#if defined(CS336_X86)
// Load eight units as 16 bits each. Units from U+8000 on may change, but never to ASCII.
CS336_INLINE __m128i eight_units(const uint16_t* units) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(units));
}
CS336_INLINE __m128i eight_units(const uint32_t* units) {
    const __m128i* const vectors = reinterpret_cast<const __m128i*>(units);
    return _mm_packs_epi32(_mm_loadu_si128(vectors), _mm_loadu_si128(vectors + 1));
}

// Write 16 units as bytes. Returns a mask of the ASCII units.
template <class Unit>
CS336_INLINE uint32_t put_bytes(const Unit* units, uint8_t* out) {
    const __m128i first = eight_units(units), last = eight_units(units + 8);
    const __m128i high = _mm_set1_epi16(int16_t(0xFF80)), zero = _mm_setzero_si128();
    const __m128i first_ascii = _mm_cmpeq_epi16(_mm_and_si128(first, high), zero);
    const __m128i last_ascii = _mm_cmpeq_epi16(_mm_and_si128(last, high), zero);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_packus_epi16(first, last));
    return uint32_t(_mm_movemask_epi8(_mm_packs_epi16(first_ascii, last_ascii)));
}
template <>
CS336_INLINE uint32_t put_bytes(const uint8_t* units, uint8_t* out) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(units));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
    return ~uint32_t(_mm_movemask_epi8(bytes)) & 0xFFFF;
}
#else
template <class Unit>
CS336_INLINE uint32_t put_bytes(const Unit* units, uint8_t* out) {
    uint32_t ascii = 0;
    for (size_t i = 0; i < 16; ++i) {
        out[i] = uint8_t(units[i]);
        ascii |= uint32_t(units[i] < 0x80) << i;
    }
    return ascii;
}
#endif

// The two-byte UTF-8 encoding of a code point, with the first byte lowest.
CS336_INLINE uint32_t two_bytes(uint32_t c) { return 0x80C0 | c >> 6 | (c & 0x3F) << 8; }

// Whether all units of a block are three-byte characters or surrogates.
template <class Unit, size_t SIZE>
CS336_INLINE bool are_all_three_bytes(const Unit (&block)[SIZE]) {
    bool all = true;
    for (size_t i = 0; i < SIZE; ++i) all &= block[i] - 0x800u <= 0xF7FFu;
    return all;
}

// Write units as UTF-8, without writing beyond their bytes. Returns the end of the output, or null
// if there is a lone surrogate.
template <class Unit>
inline uint8_t* write_utf8_of(const Unit* units, size_t length, uint8_t* out) {
    // Most characters have neighbors with the same UTF-8 length, so loops without branches convert
    // them. These loops write up to one byte too many, so at least one unit must follow.
    constexpr size_t STEP = 8, ASCII_STEP = 16;
    uint32_t surrogates = 0;
    size_t i = 0;
    for (; length - i > STEP; i += STEP) {
        Unit block[STEP];
        std::memcpy(block, units + i, sizeof(block));
        Unit all = 0;
        for (size_t j = 0; j < STEP; ++j) all |= block[j];
        if (all < 0x80) {
            for (size_t j = 0; j < STEP; ++j) out[j] = uint8_t(block[j]);
            out += STEP;
            // More ASCII is likely. Every further unit takes at least one byte of the output, so
            // there is room to write 16 bytes.
            while (length - i > STEP + ASCII_STEP) {
                const uint32_t others = put_bytes(units + i + STEP, out) ^ 0xFFFF;
                const size_t count = others ? size_t(lowest_bit(others)) : ASCII_STEP;
                i += count;
                out += count;
                if (others) break;
            }
        } else if (all < 0x800) {
            for (size_t j = 0; j < STEP; ++j) {
                const uint32_t c = block[j];
                const uint32_t is_two = c >= 0x80;
                const uint16_t bytes = uint16_t(c ^ ((c ^ two_bytes(c)) & (0 - is_two)));
                std::memcpy(out, &bytes, 2);
                out += 1 + is_two;
            }
        } else if (are_all_three_bytes(block)) {
            for (size_t j = 0; j < STEP; ++j) {
                const uint32_t c = block[j];
                surrogates |= uint32_t((c & 0xF800) == 0xD800);
                const uint32_t bytes = 0x8080E0 | c >> 12 | (c << 2 & 0x3F00) | (c & 0x3F) << 16;
                std::memcpy(out + 3 * j, &bytes, 4);
            }
            out += 3 * STEP;
        } else {
            for (size_t j = 0; j < STEP; ++j) {
                surrogates |= uint32_t((block[j] & 0xFFFFF800) == 0xD800);
                out = put_utf8(block[j], out);
            }
        }
    }
    for (; i < length; ++i) {
        surrogates |= uint32_t((units[i] & 0xFFFFF800) == 0xD800);
        out = put_utf8(units[i], out);
    }
    return surrogates ? nullptr : out;
}

// Write a text as UTF-8; see `write_utf8_of`. The text must not already be UTF-8.
inline uint8_t* write_utf8(const TextView& text, uint8_t* out) {
    return with_units(text,
                      [&](const auto* units) { return write_utf8_of(units, text.length, out); });
}

// Set `utf8` to the text as UTF-8, which is written to `buffer` if necessary. Returns a
// LONE_SURROGATE failure if the text contains a lone surrogate.
inline Failure as_utf8(const TextView& text, Buffer& buffer, TextSpan& utf8) {
    if (text.kind == TextView::UTF8) {
        utf8 = {static_cast<const uint8_t*>(text.data), text.length};
        return {};
    }
    // The bound costs nothing to compute, and unused memory is almost free.
    buffer.reserve(utf8_bound(text), 0);
    const uint8_t* const end = write_utf8(text, buffer.data());
    if (!end) return {Failure::LONE_SURROGATE, 0, 0, 0, 0, ""};
    utf8 = {buffer.data(), size_t(end - buffer.data())};
    return {};
}

}  // namespace cs336

// The SIMD level `avx512`: AVX-512 with VBMI and VBMI2.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "scanning/simd/masks.hpp"
#include "scanning/simd/target.hpp"
#include "unicode/unicode_tables.hpp"

#if defined(CS336_X86)

namespace cs336 {

namespace avx512 {

// The classes of an ASCII byte as bits, so that one table lookup finds all of them.
enum : uint8_t {
    LETTER_BIT = 1,
    NUMBER_BIT = 2,
    SPACE_BIT = 4,
    BLANK_BIT = 8,
    APOSTROPHE_BIT = 16,
    LINE_END_BIT = 32,
    UPPER_BIT = 64,
    SLASH_BIT = 128
};

struct ByteClasses {
    alignas(64) uint8_t of_byte[128];
    alignas(64) uint8_t index[64];  // 0, 1, 2, ...
    constexpr ByteClasses() : of_byte(), index() {
        for (int byte = 0; byte < 128; ++byte) {
            of_byte[byte] = uint8_t(
                (ASCII_CLASS[byte] == LETTER ? LETTER_BIT : 0) |
                (ASCII_CLASS[byte] == NUMBER ? NUMBER_BIT : 0) |
                (ASCII_CLASS[byte] == SPACE ? SPACE_BIT : 0) | (byte == ' ' ? BLANK_BIT : 0) |
                (byte == '\'' ? APOSTROPHE_BIT : 0) |
                (byte == '\n' || byte == '\r' ? LINE_END_BIT : 0) |
                (byte >= 'A' && byte <= 'Z' ? UPPER_BIT : 0) | (byte == '/' ? SLASH_BIT : 0));
        }
        for (int i = 0; i < 64; ++i) index[i] = uint8_t(i);
    }
};

inline constexpr ByteClasses BYTE_CLASSES;

template <Wide WIDE>
CS336_AVX512 CS336_INLINE Masks masks(const uint8_t* window) {
    const __m512i v = _mm512_loadu_si512(window);
    const __mmask64 high = _mm512_movepi8_mask(v);
    // The lookup uses the low seven bits of a byte, so bytes above 127 are masked out.
    const __m512i classes =
        _mm512_maskz_permutex2var_epi8(~high, _mm512_load_si512(BYTE_CLASSES.of_byte), v,
                                       _mm512_load_si512(BYTE_CLASSES.of_byte + 64));
    Masks m;
    m.letter = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(LETTER_BIT));
    m.number = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(NUMBER_BIT));
    m.space = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(SPACE_BIT));
    m.blank = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(BLANK_BIT));
    m.apostrophe = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(APOSTROPHE_BIT));
    m.line_end = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(LINE_END_BIT));
    m.upper = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(UPPER_BIT));
    m.lower = m.letter & ~m.upper;
    m.mark = 0;
    m.slash = _mm512_test_epi8_mask(classes, _mm512_set1_epi8(char(SLASH_BIT)));
    m.control = (_mm512_cmplt_epu8_mask(v, _mm512_set1_epi8(' ')) & ~m.space) |
                _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(0x7F));
    m.continuation = 0;
    m.wide = high;
    if (high) {
        m.continuation = _mm512_cmplt_epi8_mask(v, _mm512_set1_epi8(-64));
        m.wide &= ~m.continuation;
        if (WIDE != Wide::CASES) {
            const __m512i lead =
                _mm512_maskz_permutexvar_epi8(m.wide, v, _mm512_loadu_si512(LEAD_IS_LETTER));
            uint64_t letters = _mm512_test_epi8_mask(lead, lead);
            if (WIDE == Wide::DEEPSEEK) {
                letters &= _mm512_cmplt_epu8_mask(v, _mm512_set1_epi8(char(FIRST_OF_THREE)));
            }
            mark_letters(m, letters);
        }
        classify_wide<WIDE>(m, window);
    }
    return m;
}

CS336_AVX512 CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    const size_t count = _mm_popcnt_u64(bits);
    __m512i indices = _mm512_maskz_compress_epi8(bits, _mm512_load_si512(BYTE_CLASSES.index));
    const __m512i from = _mm512_set1_epi32(int(origin));
    for (size_t done = 0;; done += 16) {
        const __m512i sixteen = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(indices));
        _mm512_storeu_si512(out + done, _mm512_add_epi32(sixteen, from));
        if (done + 16 >= count) return count;
        indices =
            _mm512_shuffle_i64x2(indices, indices, 0x39);  // move the next 16 bytes to the front
    }
}

CS336_DEFINE_FILL(CS336_AVX512)

}  // namespace avx512

}  // namespace cs336

#endif  // CS336_X86

// read_ranks: reads a rank file of tiktoken, whose lines are a token in base64 and its rank.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "word_merging/words.hpp"

namespace cs336 {

// Add the tokens to `words`, which has room for `size` bytes. Returns false if a line does not have
// the usual form; the caller then reads the file in another way, and finds the mistake, if it is
// one.
inline bool read_ranks(const uint8_t* file, size_t size, Words& words) {
    static constexpr uint8_t NONE = 0xFF;
    static constexpr auto VALUES = [] {
        std::array<uint8_t, 256> values{};
        for (uint8_t& value : values) value = NONE;
        for (uint8_t i = 0; i < 26; ++i) {
            values['A' + i] = i;
            values['a' + i] = uint8_t(26 + i);
        }
        for (uint8_t i = 0; i < 10; ++i) values['0' + i] = uint8_t(52 + i);
        values['+'] = 62;
        values['/'] = 63;
        return values;
    }();
    const uint8_t* p = file;
    const uint8_t* const end = file + size;
    while (p < end) {
        uint8_t* out = words.room();
        size_t num_digits = 0;  // of base64
        uint32_t bits = 0;
        for (; p < end && VALUES[*p] != NONE; ++p) {
            bits = bits << 6 | VALUES[*p];
            if (++num_digits % 4 == 0) {
                *out++ = uint8_t(bits >> 16);
                *out++ = uint8_t(bits >> 8);
                *out++ = uint8_t(bits);
                bits = 0;
            }
        }
        size_t padding = 0;
        while (p < end && *p == '=') ++p, ++padding;
        if (num_digits % 4 == 1 || padding != (4 - num_digits % 4) % 4) return false;
        if (num_digits % 4 == 2) {
            if (bits & 0xF) return false;
            *out++ = uint8_t(bits >> 4);
        } else if (num_digits % 4 == 3) {
            if (bits & 0x3) return false;
            *out++ = uint8_t(bits >> 10);
            *out++ = uint8_t(bits >> 2);
        }
        if (p == end || *p++ != ' ') return false;
        uint64_t rank = 0;
        const uint8_t* const start = p;
        for (; p < end && *p >= '0' && *p <= '9' && p - start <= 10; ++p) {
            rank = 10 * rank + (*p - '0');
        }
        if (p == start || p - start > 10 || rank >= Words::NO_ID) return false;
        if (p < end && *p++ != '\n') return false;
        words.add(out - words.room(), uint32_t(rank));
    }
    return true;
}

}  // namespace cs336

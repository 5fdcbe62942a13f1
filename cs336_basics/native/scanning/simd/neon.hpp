// The SIMD level `neon`.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/simd_target.hpp"
#include "scanning/simd/masks.hpp"

#if defined(CS336_NEON)

namespace cs336 {

namespace neon {

// Pack 64 bytes that are 0x00 or 0xFF into 64 bits.
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

// A mask of the bytes from `first` to `first` + `count` - 1.
CS336_INLINE uint64_t in_range(const Quarters& q, uint8_t first, uint8_t count) {
    const uint8x16_t f = vdupq_n_u8(first), n = vdupq_n_u8(count);
    return bits(vcltq_u8(vsubq_u8(q.v[0], f), n), vcltq_u8(vsubq_u8(q.v[1], f), n),
                vcltq_u8(vsubq_u8(q.v[2], f), n), vcltq_u8(vsubq_u8(q.v[3], f), n));
}

template <Wide WIDE>
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
    m.upper = in_range(q, 'A', 26);
    m.lower = m.letter & ~m.upper;
    m.mark = 0;
    m.slash = equal(q, '/');
    m.control = (in_range(q, 0, ' ') & ~m.space) | equal(q, 0x7F);
    m.wide = in_range(q, 0x80, 0x80);
    m.continuation = 0;
    if (m.wide) {
        m.continuation = in_range(q, 0x80, 0x40);
        m.wide &= ~m.continuation;
        classify_wide<WIDE>(m, window);
    }
    return m;
}

// Write origin + i to `out` for every set bit i of `bits`. Returns the number of set bits. `out`
// must have room for 64 elements.
CS336_INLINE size_t positions(uint64_t bits, uint32_t origin, uint32_t* out) {
    size_t count = 0;
    while (bits) {
        out[count++] = origin + lowest_bit(bits);
        bits &= bits - 1;
    }
    return count;
}

CS336_DEFINE_FILL()

}  // namespace neon

}  // namespace cs336

#endif  // CS336_NEON

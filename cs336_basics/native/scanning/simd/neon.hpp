// The SIMD level `neon`.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/simd_target.hpp"
#include "scanning/simd/window.hpp"

#if defined(CS336_NEON)

namespace cs336 {

namespace neon {

struct Quarters {
    uint8x16_t v[4];
};

// Pack 64 bytes that are 0x00 or 0xFF into 64 bits.
CS336_INLINE uint64_t bits(const Quarters& q) {
    const uint8x16_t weight = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t ab = vpaddq_u8(vandq_u8(q.v[0], weight), vandq_u8(q.v[1], weight));
    const uint8x16_t cd = vpaddq_u8(vandq_u8(q.v[2], weight), vandq_u8(q.v[3], weight));
    const uint8x16_t abcd = vpaddq_u8(ab, cd);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(abcd, abcd)), 0);
}

// A mask of the bytes that have a common bit.
CS336_INLINE uint64_t intersect(const Quarters& a, const Quarters& b) {
    Quarters q;
    for (int i = 0; i < 4; ++i) q.v[i] = vtstq_u8(a.v[i], b.v[i]);
    return bits(q);
}

CS336_INLINE Quarters all(uint8_t byte) {
    const uint8x16_t v = vdupq_n_u8(byte);
    return {{v, v, v, v}};
}

CS336_INLINE Quarters look_up(const uint8_t* entries, const Quarters& classes) {
    const uint8x16_t table = vld1q_u8(entries);
    Quarters q;
    for (int i = 0; i < 4; ++i) q.v[i] = vqtbl1q_u8(table, classes.v[i]);
    return q;
}

// The classes of all bytes: four tables of 64 entries. An index of 64 or more gives 0.
CS336_INLINE Quarters classes_of(const uint8_t* class_of_byte, const Quarters& bytes) {
    Quarters q = all(0);
    for (int part = 0; part < 4; ++part) {
        const uint8_t* const entries = class_of_byte + 64 * part;
        const uint8x16x4_t table = {{vld1q_u8(entries), vld1q_u8(entries + 16),
                                     vld1q_u8(entries + 32), vld1q_u8(entries + 48)}};
        for (int i = 0; i < 4; ++i) {
            const uint8x16_t index = veorq_u8(bytes.v[i], vdupq_n_u8(uint8_t(64 * part)));
            q.v[i] = vorrq_u8(q.v[i], vqtbl4q_u8(table, index));
        }
    }
    return q;
}

// Move all bytes up by one; the lowest byte becomes 0.
CS336_INLINE Quarters moved_up(const Quarters& q) {
    const uint8x16_t zero = vdupq_n_u8(0);
    return {{vextq_u8(zero, q.v[0], 15), vextq_u8(q.v[0], q.v[1], 15), vextq_u8(q.v[1], q.v[2], 15),
             vextq_u8(q.v[2], q.v[3], 15)}};
}

inline Marks marks(const SplitProgram& program, const uint8_t* window) {
    const BoundaryRules& rules = program.rules();
    Quarters v;
    for (int i = 0; i < 4; ++i) v.v[i] = vld1q_u8(window + 16 * i);
    const uint64_t wide = intersect(v, all(0x80));
    Marks m;
    m.continuation = 0;
    Quarters classes = classes_of(rules.class_of_byte, v), of_every_byte = classes;
    if (wide) {
        Quarters inside, mixed;
        for (int i = 0; i < 4; ++i) {
            inside.v[i] = vcltq_u8(vsubq_u8(v.v[i], vdupq_n_u8(0x80)), vdupq_n_u8(0x40));
            mixed.v[i] = vceqq_u8(classes.v[i], vdupq_n_u8(BoundaryRules::MIXED));
        }
        m.continuation = bits(inside);
        const uint64_t unknown = bits(mixed);
        if (unknown) {
            uint8_t stored[WINDOW];
            for (int i = 0; i < 4; ++i) vst1q_u8(stored + 16 * i, classes.v[i]);
            classify_mixed(program, window, unknown, stored);
            for (int i = 0; i < 4; ++i) classes.v[i] = vld1q_u8(stored + 16 * i);
        }
        of_every_byte = classes;
        for (int times = 0; times < 3; ++times) {
            const Quarters moved = moved_up(of_every_byte);
            for (int i = 0; i < 4; ++i) {
                of_every_byte.v[i] = vbslq_u8(inside.v[i], moved.v[i], classes.v[i]);
            }
        }
    }
    const Quarters groups = moved_up(look_up(rules.groups, of_every_byte));
    m.starts = intersect(groups, look_up(rules.starts, classes));
    m.unclear = 0;
    if (!intersect(groups, look_up(rules.special, classes))) return m;
    m.unclear = intersect(groups, look_up(rules.unclear, classes));
    const Quarters decided = look_up(rules.decided, classes);
    const Quarters skipped = look_up(rules.skipped, classes);
    for (size_t type = 0; type < rules.num_types; ++type) {
        const uint64_t typed = intersect(groups, look_up(rules.typed[type], classes));
        if (!typed) continue;
        const Quarters bit = all(uint8_t(1 << type)), start = all(uint8_t(16 << type));
        apply_next(m, typed, wide, intersect(decided, bit), intersect(decided, start),
                   intersect(skipped, bit));
    }
    if (m.unclear) {
        for (int i = 0; i < BoundaryRules::NUM_CONDITIONS; ++i) {
            m.conditions[i] = intersect(groups, look_up(rules.conditions[i], classes));
        }
    }
    return m;
}

using scalar::positions;

CS336_DEFINE_SCAN()

}  // namespace neon

}  // namespace cs336

#endif  // CS336_NEON

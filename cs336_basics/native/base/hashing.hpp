// Hashes of words, token pairs and ids, with a secret seed.
//
// Text and vocabularies are untrusted. If anyone could compute the hashes, an attacker could choose
// words that all hash to one part of a table. Counting these words would take quadratic time
// (Crosby and Wallach 2003, "Denial of Service via Algorithmic Complexity Attacks"). Therefore,
// every process draws a random seed for its hashes. The seed affects the order of entries in
// tables, but not the results. A forked process keeps its parent's seed, because it inherits the
// parent's tables.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

namespace cs336 {

// Four secret numbers. `multiplier` is odd.
struct HashSeed {
    uint64_t low, high, block, multiplier;
};

// Derive a seed from a number, with SplitMix64 (Steele, Lea and Flood 2014).
inline HashSeed hash_seed_of(uint64_t number) {
    const auto next = [&] {
        uint64_t z = number += 0x9E3779B97F4A7C15ull;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
        z = (z ^ z >> 27) * 0x94D049BB133111EBull;
        return z ^ z >> 31;
    };
    const uint64_t low = next(), high = next(), block = next();
    return {low, high, block, next() | 1};
}

// The seed of this process: 256 random bits from the system, drawn on first use. Throws
// std::system_error if the system cannot provide them.
inline const HashSeed& process_hash_seed() {
    static const HashSeed seed = [] {
        std::random_device device;
        const auto draw = [&] { return uint64_t(device()) << 32 | uint32_t(device()); };
        const uint64_t low = draw(), high = draw(), block = draw();
        return HashSeed{low, high, block, draw() | 1};
    }();
    return seed;
}

// XOR the two halves of the 128-bit product, so that each bit of a factor affects the whole result.
inline uint64_t multiply_fold(uint64_t a, uint64_t b) {
#if defined(__SIZEOF_INT128__)
    const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
#else
    const uint64_t a0 = uint32_t(a), a1 = a >> 32, b0 = uint32_t(b), b1 = b >> 32;
    const uint64_t middle = a1 * b0 + (a0 * b0 >> 32);
    const uint64_t middle2 = a0 * b1 + uint32_t(middle);
    const uint64_t high = a1 * b1 + (middle >> 32) + (middle2 >> 32);
    return (middle2 << 32 | uint32_t(a0 * b0)) ^ high;
#endif
}

// A hash of 16 bytes; its highest bits choose the slot. A factor is 0 only if `low` or `high`
// equals a secret number.
inline uint64_t hash_16(const HashSeed& seed, uint64_t low, uint64_t high) {
    return multiply_fold(low ^ seed.low, high ^ seed.high);
}

// A hash of two ids. Callers may use any of its bits to choose a slot.
inline uint64_t hash_pair(const HashSeed& seed, uint32_t left, uint32_t right) {
    return multiply_fold((uint64_t{left} << 32 | right) ^ seed.low, seed.multiplier);
}

// A hash of at least 16 bytes. As in wyhash (Wang Yi 2019), one factor in every step contains the
// secret result of all earlier steps, and the other factor contains a secret number. So nobody can
// construct a text that makes a factor 0.
inline uint64_t hash_long(const HashSeed& seed, const uint8_t* bytes, size_t size) {
    uint64_t hash = seed.high ^ size, block[2];
    for (size_t i = 0; i + 16 < size; i += 16) {
        std::memcpy(block, bytes + i, 16);
        hash = multiply_fold(block[0] ^ seed.block, block[1] ^ hash);
    }
    // The last 16 bytes. They may overlap the previous block; the hash also depends on the size.
    std::memcpy(block, bytes + size - 16, 16);
    return multiply_fold(block[0] ^ seed.low, block[1] ^ hash);
}

}  // namespace cs336

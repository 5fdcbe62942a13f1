// WordKey: a word to look up in a hash table, and its hash.
//
// A word of at most 15 bytes is stored inline, with the length in the last byte, so words are
// compared as two integers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "base/hashing.hpp"
#include "base/memory.hpp"
#include "base/simd_target.hpp"

namespace cs336 {

constexpr size_t MAX_SHORT_WORD = 15;

// A word to look up and its hash.
struct WordKey {
    uint64_t low, high;  // a short word, or the address and the length of a long word
    uint64_t hash;

    bool is_long() const { return high >> 56 == 0xFF; }
    size_t length() const { return is_long() ? high << 8 >> 8 : high >> 56; }
    const uint8_t* bytes() const {
        return is_long() ? reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(low))
                         : reinterpret_cast<const uint8_t*>(&low);
    }
};

static_assert(offsetof(WordKey, high) == 8 && offsetof(HashSeed, high) == 8,
              "two integers are read as a vector or as the bytes of a short word");

// Two 16-byte vectors, stored as integers, for a word of n bytes: SHORT_MASKS.of_length[n] masks
// the first n bytes; SHORT_MASKS.length[n] has n in its last byte. With n = WHOLE_KEY, the 16 bytes
// of the word are the key.
constexpr size_t WHOLE_KEY = MAX_SHORT_WORD + 1;

struct ShortMasks {
    uint64_t of_length[WHOLE_KEY + 1][2];
    uint64_t length[WHOLE_KEY + 1][2];
    constexpr ShortMasks() : of_length(), length() {
        for (unsigned n = 0; n <= MAX_SHORT_WORD; ++n) {
            of_length[n][0] = n < 8 ? (uint64_t{1} << 8 * n) - 1 : ~uint64_t{0};
            of_length[n][1] = n <= 8 ? 0 : (uint64_t{1} << 8 * (n - 8)) - 1;
            length[n][1] = uint64_t{n} << 56;
        }
        of_length[WHOLE_KEY][0] = of_length[WHOLE_KEY][1] = ~uint64_t{0};
    }
};

inline constexpr ShortMasks SHORT_MASKS;

CS336_NOINLINE inline WordKey make_long_key(const HashSeed& seed, const uint8_t* word,
                                            size_t length) {
    return {reinterpret_cast<uintptr_t>(word), uint64_t{0xFF} << 56 | length,
            hash_long(seed, word, length)};
}

inline WordKey make_short_key(const HashSeed& seed, const uint8_t* word, size_t length) {
    uint64_t low, high;
    std::memcpy(&low, word, 8);
    std::memcpy(&high, word + 8, 8);
    low &= SHORT_MASKS.of_length[length][0];
    high = (high & SHORT_MASKS.of_length[length][1]) | SHORT_MASKS.length[length][1];
    return {low, high, hash_16(seed, low, high)};
}

// Like the function above, but uses SSE2, which makes the encoder 4 to 9 % faster. The result is
// written to `key`, because returning it by value would send the vector through memory.
CS336_INLINE void make_short_key(const HashSeed& seed, const uint8_t* word, size_t length,
                                 WordKey& key) {
#if defined(CS336_X86)
    const auto load = [](const void* bytes) {
        return _mm_loadu_si128(static_cast<const __m128i*>(bytes));
    };
    const __m128i masked = _mm_and_si128(load(word), load(SHORT_MASKS.of_length[length]));
    const __m128i both = _mm_or_si128(masked, load(SHORT_MASKS.length[length]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(&key.low), both);
    // As in hash_16.
    const __m128i factors = _mm_xor_si128(both, load(&seed.low));
    key.hash = multiply_fold(uint64_t(_mm_cvtsi128_si64(factors)),
                             uint64_t(_mm_cvtsi128_si64(_mm_unpackhi_epi64(factors, factors))));
#else
    key = make_short_key(seed, word, length);
#endif
}

// The key of the word [word, word + length). WORD_PADDING bytes after it must be readable.
inline WordKey make_key(const HashSeed& seed, const uint8_t* word, size_t length) {
    if (CS336_UNLIKELY(length > MAX_SHORT_WORD)) return make_long_key(seed, word, length);
    return make_short_key(seed, word, length);
}

}  // namespace cs336

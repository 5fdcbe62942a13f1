// WordTable: distinct words and their counts, in a flat hash table.
//
// The table uses open addressing. Its entries have 32 bytes, two in a cache line. An entry stores a
// word of at most 15 bytes inline, with the length in the last byte, so words are compared as two
// integers. Longer words are stored in an arena. The slot of an entry is its scaled hash, so the
// slots are in hash order (see shared_words.hpp).

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/compiler.hpp"
#include "base/hashing.hpp"
#include "base/memory.hpp"
#include "scanning/simd/target.hpp"

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

// A word in a table.
struct WordEntry : WordKey {
    int64_t count;  // 0: the entry is empty
};

static_assert(sizeof(WordEntry) == 32, "two entries to a cache line");
static_assert(offsetof(WordKey, high) == 8 && offsetof(HashSeed, high) == 8,
              "two integers are read as a vector or as the bytes of a short word");

// Two 16-byte vectors, stored as integers, for a word of n bytes: SHORT_MASKS.of_length[n] masks
// the first n bytes; SHORT_MASKS.length[n] has n in its last byte.
struct ShortMasks {
    uint64_t of_length[MAX_SHORT_WORD + 1][2];
    uint64_t length[MAX_SHORT_WORD + 1][2];
    constexpr ShortMasks() : of_length(), length() {
        for (unsigned n = 0; n <= MAX_SHORT_WORD; ++n) {
            of_length[n][0] = n < 8 ? (uint64_t{1} << 8 * n) - 1 : ~uint64_t{0};
            of_length[n][1] = n <= 8 ? 0 : (uint64_t{1} << 8 * (n - 8)) - 1;
            length[n][1] = uint64_t{n} << 56;
        }
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
    high = (high & SHORT_MASKS.of_length[length][1]) | uint64_t(length) << 56;
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

class WordTable {
  public:
    // The table starts with 2^first_bits slots.
    explicit WordTable(const HashSeed& seed = process_hash_seed(), int first_bits = 14)
        : seed_(seed),
          bits_(first_bits),
          shift_(64 - first_bits),
          entries_(size_t{1} << first_bits) {}

    size_t size() const { return size_; }
    size_t num_slots() const { return entries_.size(); }
    // The entry in a slot; its count is 0 if the slot is empty.
    const WordEntry& slot(size_t i) const { return entries_[i]; }

    WordKey key(const uint8_t* word, size_t length) const { return make_key(seed_, word, length); }

    // Load the slot of a key into the CPU cache before `add`.
    void prefetch(const WordKey& key) const { CS336_PREFETCH(&entries_[key.hash >> shift_]); }

    // Add `count` > 0 to the count of a word. Throws std::overflow_error if the sum exceeds
    // 2^63 - 1, or std::bad_alloc if memory runs out.
    void add(const WordKey& key, int64_t count) {
        WordEntry& entry = find(key);
        if (entry.count == 0) {
            insert(entry, key, count);
        } else if (count > INT64_MAX - entry.count) {
            throw std::overflow_error("the count of a word exceeds 2^63 - 1");
        } else {
            entry.count += count;
        }
    }

    // Add 1 to the count of each word: [first, first + ends[0]), [first + ends[0], first + ends[1])
    // and so on.
    void add_batch(const uint8_t* first, const uint32_t* ends, size_t num_words) {
        // Large enough to hide the memory latency, small enough for the L1 cache.
        constexpr size_t GROUP = 256;
        WordKey keys[GROUP];
        const HashSeed seed = seed_;  // a local copy stays in registers despite stores to `keys`
        uint32_t start = 0;
        for (size_t done = 0; done < num_words; done += GROUP) {
            const size_t group = std::min(GROUP, num_words - done);
            for (size_t i = 0; i < group; ++i) {
                const uint32_t end = ends[done + i];
                keys[i] = make_key(seed, first + start, end - start);
                prefetch(keys[i]);
                start = end;
            }
            for (size_t i = 0; i < group; ++i) {
                WordEntry& entry = entries_[keys[i].hash >> shift_];
                // The common case is a short word in its first slot. The key of a long word never
                // equals its entry, because the entry contains an address in the arena.
                if (entry.low == keys[i].low && entry.high == keys[i].high) {
                    ++entry.count;
                } else {
                    add_displaced(keys[i]);
                }
            }
        }
    }

    // Make room for `words` words.
    void reserve(size_t words) {
        int bits = bits_;
        while (words > 3 * (size_t{1} << (bits - 2))) ++bits;
        if (bits > bits_) grow_to(bits);
    }

    // Remove all words, but keep the memory of the entries.
    void clear() {
        // Clear whole entries: `add_batch` compares words before it checks whether an entry is
        // empty.
        std::memset(static_cast<void*>(&entries_[0]), 0, entries_.size() * sizeof(WordEntry));
        size_ = 0;
        arena_ = Arena();
    }

    // Free the entries, but keep the bytes of long words.
    void clear_entries() {
        entries_ = EntryArray<WordEntry>();
        size_ = 0;
    }

  private:
    // Add 1 to the count of a word that is not in its first slot. If the word in that slot is
    // rarer, swap the two, so that `add_batch` finds frequent words without a search. A search ends
    // at an empty entry, so swapping two words does not break it.
    CS336_NOINLINE void add_displaced(const WordKey& key) {
        WordEntry& entry = find(key);
        if (entry.count == 0) {
            insert(entry, key, 1);
            return;
        }
        ++entry.count;
        WordEntry& first = entries_[key.hash >> shift_];
        if (first.count < entry.count) std::swap(first, entry);
    }

    // The entry of a key, or the empty entry where the key belongs.
    WordEntry& find(const WordKey& key) {
        const size_t mask = entries_.size() - 1;
        for (size_t slot = key.hash >> shift_;; slot = (slot + 1) & mask) {
            WordEntry& entry = entries_[slot];
            if (entry.count == 0 || equal(entry, key)) return entry;
        }
    }

    static bool equal(const WordKey& a, const WordKey& b) {
        if (a.high != b.high) return false;
        return a.low == b.low || (a.is_long() && a.hash == b.hash &&
                                  std::memcmp(a.bytes(), b.bytes(), a.length()) == 0);
    }

    void insert(WordEntry& entry, const WordKey& key, int64_t count) {
        entry = {key, count};
        if (key.is_long()) {
            entry.low = reinterpret_cast<uintptr_t>(arena_.store(key.bytes(), key.length()));
        }
        // Grow only when the table is three quarters full, however the entries are distributed.
        // Growing when it is half full is no faster and takes more memory.
        if (++size_ > 3 * (size_t{1} << (bits_ - 2))) grow_to(bits_ + 1);
    }

    void grow_to(int bits) {
        EntryArray<WordEntry> larger(size_t{1} << bits);
        const size_t mask = larger.size() - 1;
        for (size_t i = 0; i < entries_.size(); ++i) {
            const WordEntry& entry = entries_[i];
            if (entry.count == 0) continue;
            size_t slot = entry.hash >> (64 - bits);
            while (larger[slot].count) slot = (slot + 1) & mask;
            larger[slot] = entry;
        }
        entries_ = std::move(larger);
        bits_ = bits;
        shift_ = 64 - bits;
    }

    HashSeed seed_;
    int bits_, shift_;
    size_t size_ = 0;
    EntryArray<WordEntry> entries_;
    Arena arena_;
};

}  // namespace cs336

// WordTable: distinct words and their counts, in a flat hash table.
//
// Open addressing with entries of 32 bytes, two in a cache line. A word of at most 15 bytes is
// stored in its entry, with its length in the last byte, so that words are compared as two
// integers; a longer word is stored in an arena. The slot of an entry is its hash, scaled, so the
// entries are nearly sorted by hash: several threads can merge several tables, each a range of
// hashes, and sorting the result costs almost nothing.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

#include "compiler.hpp"
#include "memory.hpp"

namespace cs336 {

constexpr size_t MAX_SHORT_WORD = 15;

// A word to look up, with its hash.
struct WordKey {
    uint64_t low, high;  // a short word; or the address and the length of a long one
    uint64_t hash;

    bool is_long() const { return high >> 56 == 0xFF; }
    size_t length() const { return is_long() ? high << 8 >> 8 : high >> 56; }
};

struct WordEntry {
    uint64_t low, high;
    uint64_t hash;
    int64_t count;  // 0: the entry is empty

    bool is_long() const { return high >> 56 == 0xFF; }
    size_t length() const { return is_long() ? high << 8 >> 8 : high >> 56; }
    const uint8_t* bytes() const {
        return is_long() ? reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(low))
                         : reinterpret_cast<const uint8_t*>(&low);
    }
};

static_assert(sizeof(WordEntry) == 32, "two entries to a cache line");
static_assert(offsetof(WordEntry, high) == 8, "a short word spans `low` and `high`");

// The two halves of the product of 128 bits, combined: each bit of a factor affects every bit.
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

inline uint64_t hash_two(uint64_t low, uint64_t high) {
    // Digits of pi and e. The first factor is 0 for one value of `low` only, which is not UTF-8.
    return multiply_fold(low ^ 0xF43F6A8885A308D3ull, high ^ 0xADF85458A2BB4A9Aull) +
           0x9E3779B97F4A7C15ull * low;
}

// SHORT_MASKS.of_length[n]: a mask of the first n of 16 bytes, as two integers.
struct ShortMasks {
    uint64_t of_length[MAX_SHORT_WORD + 1][2];
    constexpr ShortMasks() : of_length() {
        for (unsigned n = 0; n <= MAX_SHORT_WORD; ++n) {
            of_length[n][0] = n < 8 ? (uint64_t{1} << 8 * n) - 1 : ~uint64_t{0};
            of_length[n][1] = n <= 8 ? 0 : (uint64_t{1} << 8 * (n - 8)) - 1;
        }
    }
};

inline constexpr ShortMasks SHORT_MASKS;

inline WordKey make_long_key(const uint8_t* word, size_t length) {
    uint64_t hash = length, block[2];
    for (size_t i = 0; i + 16 <= length; i += 16) {
        std::memcpy(block, word + i, 16);
        hash = hash_two(block[0] ^ hash, block[1] + hash);
    }
    // The last 16 bytes. (Some are hashed twice; the hash depends on the length, too.)
    std::memcpy(block, word + length - 16, 16);
    hash = hash_two(block[0] ^ hash, block[1] + hash);
    return {reinterpret_cast<uintptr_t>(word), uint64_t{0xFF} << 56 | length, hash};
}

inline WordKey make_short_key(const uint8_t* word, size_t length) {
    uint64_t low, high;
    std::memcpy(&low, word, 8);
    std::memcpy(&high, word + 8, 8);
    low &= SHORT_MASKS.of_length[length][0];
    high = (high & SHORT_MASKS.of_length[length][1]) | uint64_t(length) << 56;
    return {low, high, hash_two(low, high)};
}

// The key of the word [word, word + length); WORD_PADDING bytes behind it must be readable.
inline WordKey make_key(const uint8_t* word, size_t length) {
    return length > MAX_SHORT_WORD ? make_long_key(word, length) : make_short_key(word, length);
}

class WordTable {
  public:
    WordTable() : entries_(slots(FIRST_BITS)) {}

    size_t size() const { return size_; }

    // Load the slot of a key into the CPU cache, ahead of `add`.
    void prefetch(const WordKey& key) const { CS336_PREFETCH(&entries_[key.hash >> shift_]); }

    // Add `count` > 0 to the count of a word. Throws std::overflow_error above 2^63 - 1,
    // std::bad_alloc.
    void add(const WordKey& key, int64_t count) {
        WordEntry& entry = find(key);
        if (entry.count == 0) {
            insert(entry, key, count);
        } else if (count > INT64_MAX - entry.count) {
            throw std::overflow_error("the count of a word does not fit 63 bits");
        } else {
            entry.count += count;
        }
    }

    // Count the words [first, first + ends[0]), [first + ends[0], first + ends[1]), ... once each.
    void add_batch(const uint8_t* first, const uint32_t* ends, size_t num_words) {
        // Far enough ahead to hide the memory, few enough to stay in the L1 cache. (Blogs:
        // 16 words 620 MB/s, 32 words 640, 64 words 740, 128 words 810, 256 words 840.)
        constexpr size_t GROUP = 256;
        WordKey keys[GROUP];
        uint32_t start = 0;
        for (size_t done = 0; done < num_words; done += GROUP) {
            const size_t group = std::min(GROUP, num_words - done);
            for (size_t i = 0; i < group; ++i) {
                const uint32_t end = ends[done + i];
                keys[i] = make_key(first + start, end - start);
                prefetch(keys[i]);
                start = end;
            }
            for (size_t i = 0; i < group; ++i) {
                WordEntry& entry = entries_[keys[i].hash >> shift_];
                // Nearly always a short word in its first slot. (The key of a long word never
                // equals its entry, which has the address in the arena.)
                if (entry.low == keys[i].low && entry.high == keys[i].high) {
                    ++entry.count;
                } else {
                    add(keys[i], 1);
                }
            }
        }
    }

    // Add all words to another table, in the order of their hashes, and so of their slots.
    void add_to(WordTable& other) const {
        constexpr size_t AHEAD = 16;
        // Words in this order would crowd the first slots of a table that is too small, long before
        // it is full enough to grow.
        other.reserve(other.size_ + size_);
        for (size_t i = 0; i < entries_.size(); ++i) {
            if (i + AHEAD < entries_.size() && entries_[i + AHEAD].count) {
                CS336_PREFETCH(&other.entries_[entries_[i + AHEAD].hash >> other.shift_]);
            }
            const WordEntry& entry = entries_[i];
            if (entry.count) other.add({entry.low, entry.high, entry.hash}, entry.count);
        }
    }

    // Remove all words, but keep the memory of the entries.
    void clear() {
        for (size_t i = 0; i < entries_.size(); ++i) entries_[i].count = 0;
        size_ = 0;
        arena_ = Arena();
    }

    // Append the entries of slice `slice` of 2^slice_bits equal ranges of hashes, sorted by hash,
    // then by bytes.
    void collect(uint64_t slice, int slice_bits, std::vector<WordEntry>& out) const;

    // Free the entries, but keep the bytes of long words.
    void clear_entries() {
        entries_ = EntryArray<WordEntry>();
        size_ = 0;
    }

  private:
    static constexpr int FIRST_BITS = 14;
    static constexpr size_t SLACK = 64;

    // Entries do not wrap around to the first slot: there are SLACK more slots behind the last one,
    // and when these are full the table grows.
    static size_t slots(int bits) { return (size_t{1} << bits) + SLACK; }

    // The entry of a key, or the empty entry where it is to be inserted.
    WordEntry& find(const WordKey& key) {
        for (;;) {
            size_t slot = key.hash >> shift_;
            if (!key.is_long()) {
                for (; slot < entries_.size(); ++slot) {
                    WordEntry& entry = entries_[slot];
                    if ((entry.low == key.low && entry.high == key.high) || entry.count == 0) {
                        return entry;
                    }
                }
            } else {
                for (; slot < entries_.size(); ++slot) {
                    WordEntry& entry = entries_[slot];
                    if (entry.count == 0 || (entry.high == key.high && entry.hash == key.hash &&
                                             same_bytes(entry, key))) {
                        return entry;
                    }
                }
            }
            grow();
        }
    }

    static bool same_bytes(const WordEntry& entry, const WordKey& key) {
        const uint8_t* bytes = reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(key.low));
        return std::memcmp(entry.bytes(), bytes, entry.length()) == 0;
    }

    void insert(WordEntry& entry, const WordKey& key, int64_t count) {
        WordEntry added = {key.low, key.high, key.hash, count};
        if (key.is_long()) {
            const uint8_t* bytes =
                reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(key.low));
            added.low = reinterpret_cast<uintptr_t>(arena_.store(bytes, key.length()));
        }
        entry = added;
        // At most three quarters full. (Half full is no faster and takes more memory.)
        if (++size_ > 3 * (size_t{1} << (bits_ - 2))) grow();
    }

    // Make room for `words` words.
    void reserve(size_t words) {
        int bits = bits_;
        while (words > 3 * (size_t{1} << (bits - 2))) ++bits;
        if (bits > bits_) grow_to(bits);
    }

    void grow() { grow_to(bits_ + 1); }

    void grow_to(int least_bits) {
        for (int bits = least_bits;; ++bits) {
            EntryArray<WordEntry> larger(slots(bits));
            if (move_to(larger, bits)) {
                entries_ = std::move(larger);
                bits_ = bits;
                shift_ = 64 - bits;
                return;
            }
        }
    }

    bool move_to(EntryArray<WordEntry>& larger, int bits) const {
        for (size_t i = 0; i < entries_.size(); ++i) {
            const WordEntry& entry = entries_[i];
            if (entry.count == 0) continue;
            size_t slot = entry.hash >> (64 - bits);
            while (slot < larger.size() && larger[slot].count) ++slot;
            if (slot == larger.size()) return false;
            larger[slot] = entry;
        }
        return true;
    }

    int bits_ = FIRST_BITS;
    int shift_ = 64 - FIRST_BITS;
    size_t size_ = 0;
    EntryArray<WordEntry> entries_;
    Arena arena_;
};

inline int compare_bytes(const WordEntry& a, const WordEntry& b) {
    const size_t a_length = a.length(), b_length = b.length();
    const int order = std::memcmp(a.bytes(), b.bytes(), std::min(a_length, b_length));
    if (order) return order;
    return a_length < b_length ? -1 : a_length > b_length;
}

// The order of the result: by hash, which is nearly the order of the table.
inline int compare_entries(const WordEntry& a, const WordEntry& b) {
    if (a.hash != b.hash) return a.hash < b.hash ? -1 : 1;
    return compare_bytes(a, b);
}

inline void WordTable::collect(uint64_t slice, int slice_bits, std::vector<WordEntry>& out) const {
    if (entries_.size() == 0) return;
    const size_t slots_per_slice = size_t{1} << (bits_ - slice_bits);
    const size_t stop = (slice + 1) * slots_per_slice;
    for (size_t slot = slice * slots_per_slice; slot < entries_.size(); ++slot) {
        const WordEntry& entry = entries_[slot];
        // Entries that overflowed from the slice follow it without a gap.
        if (entry.count == 0) {
            if (slot >= stop) break;
            continue;
        }
        if (slice_bits && entry.hash >> (64 - slice_bits) != slice) continue;
        out.push_back(entry);
        for (size_t i = out.size() - 1; i > 0 && compare_entries(out[i - 1], out[i]) > 0; --i) {
            std::swap(out[i - 1], out[i]);
        }
    }
}

// Merge two sorted lists of entries; the counts of equal words are added.
inline std::vector<WordEntry> merge_sorted(const std::vector<WordEntry>& a,
                                           const std::vector<WordEntry>& b) {
    std::vector<WordEntry> out;
    out.reserve(a.size() + b.size());
    size_t i = 0, j = 0;
    while (i < a.size() && j < b.size()) {
        const int order = compare_entries(a[i], b[j]);
        if (order < 0) {
            out.push_back(a[i++]);
        } else if (order > 0) {
            out.push_back(b[j++]);
        } else {
            out.push_back(a[i++]);
            out.back().count += b[j++].count;
        }
    }
    out.insert(out.end(), a.begin() + i, a.end());
    out.insert(out.end(), b.begin() + j, b.end());
    return out;
}

}  // namespace cs336

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
#include "base/word_key.hpp"

namespace cs336 {

// A word in a table.
struct WordEntry : WordKey {
    int64_t count;  // 0: the entry is empty
};

static_assert(sizeof(WordEntry) == 32, "two entries to a cache line");

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

// FlatWords: word tables merged into flat arrays, in an order that depends only on the words.
//
// A word's position in a table depends on the process's seed (hashing.hpp), so the result is sorted
// by another hash, which uses no secret. Sorting by this hash is fast, because the hash distributes
// ordinary words evenly. Words with equal hashes are sorted by their bytes.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/compiler.hpp"
#include "base/hashing.hpp"
#include "base/memory.hpp"
#include "counting/word_table.hpp"

namespace cs336 {

// Sorts in two steps, each made of independent tasks. The first step divides every
// segment of a table into buckets, which are ranges of the final order. The second step sorts every
// bucket.
class FlatWords {
  public:
    // The tables must outlive the first step. Their arenas of long words must outlive this object.
    void prepare(std::vector<WordTable*> tables) {
        size_t entries = 0, slots = 0;
        for (const WordTable* table : tables) {
            entries += table->size();
            slots += table->num_slots();
        }
        bucket_bits_ = 0;
        while (bucket_bits_ < MAX_BUCKET_BITS && entries >> bucket_bits_ > BUCKET_SIZE) {
            ++bucket_bits_;
        }
        buckets_.assign(size_t{1} << bucket_bits_, {});
        num_entries_ = entries;
        divided_.reset(entries);
        sorted_.reset(entries);
        segments_.clear();
        const size_t step = std::max(SEGMENT_SLOTS, slots / MAX_SEGMENTS);
        for (const WordTable* table : tables) {
            for (size_t i = 0; table->size() && i < table->num_slots(); i += step) {
                segments_.push_back(
                    {table, i, std::min(i + step, table->num_slots()), nullptr, {}});
            }
        }
    }

    size_t num_entries() const { return num_entries_; }
    size_t num_segments() const { return segments_.size(); }
    size_t num_buckets() const { return buckets_.size(); }

    void divide_segment(size_t index) {
        Segment& segment = segments_[index];
        std::vector<uint64_t> keys(segment.stop - segment.first);
        std::vector<uint32_t>& ends = segment.ends;
        ends.assign(buckets_.size() + 1, 0);
        for (size_t i = segment.first; i < segment.stop; ++i) {
            constexpr size_t AHEAD = 16;  // slots; hides the memory latency
            if (i + AHEAD < segment.stop) {
                const WordEntry& later = segment.table->slot(i + AHEAD);
                if (later.is_long()) CS336_PREFETCH(later.bytes());
            }
            const WordEntry& entry = segment.table->slot(i);
            if (entry.count == 0) continue;
            const uint64_t key = order_key(entry);
            keys[i - segment.first] = key;
            ++ends[bucket_of(key) + 1];
        }
        for (size_t bucket = 1; bucket < ends.size(); ++bucket) ends[bucket] += ends[bucket - 1];
        segment.entries = divided_.take(ends.back());
        // In this loop, `ends[b]` is the position for the next entry of bucket b. After the loop,
        // it is the end of the bucket.
        for (size_t i = segment.first; i < segment.stop; ++i) {
            const WordEntry& entry = segment.table->slot(i);
            if (entry.count == 0) continue;
            const uint64_t key = keys[i - segment.first];
            WordEntry& copy = segment.entries[ends[bucket_of(key)]++];
            copy = entry;
            copy.hash = key;
        }
    }

    // Call this after all segments have been divided.
    void sort_bucket(size_t index) {
        // Sort by the DIGIT_BITS bits of the key that follow its bucket bits. Then compare the few
        // words that share all of these bits.
        uint32_t ends[(size_t{1} << DIGIT_BITS) + 1] = {};
        const auto digit = [&](const WordEntry& entry) {
            return entry.hash << bucket_bits_ >> (64 - DIGIT_BITS);
        };
        for_each_entry(index, [&](const WordEntry& entry) { ++ends[digit(entry) + 1]; });
        for (size_t i = 0; i < size_t{1} << DIGIT_BITS; ++i) ends[i + 1] += ends[i];
        Bucket& bucket = buckets_[index];
        WordEntry* const entries = sorted_.take(ends[size_t{1} << DIGIT_BITS]);
        for_each_entry(index,
                       [&](const WordEntry& entry) { entries[ends[digit(entry)]++] = entry; });
        size_t num_words = 0;
        bucket.entries = entries;
        for (size_t first = 0, i = 0; i < size_t{1} << DIGIT_BITS; first = ends[i++]) {
            std::sort(entries + first, entries + ends[i],
                      [](const auto& a, const auto& b) { return compare(a, b) < 0; });
            for (size_t j = first; j < ends[i]; ++j) {
                if (j > first && compare(entries[num_words - 1], entries[j]) == 0) {
                    entries[num_words - 1].count += entries[j].count;  // a word in several tables
                } else {
                    bucket.num_bytes += entries[j].length();
                    entries[num_words++] = entries[j];
                }
            }
        }
        bucket.num_words = num_words;
    }

    // Compute each bucket's position in the result. Call this after all buckets have been sorted.
    void finish_sorting() {
        segments_ = {};
        divided_.reset(0);
        num_words_ = num_bytes_ = 0;
        for (Bucket& bucket : buckets_) {
            bucket.first_word = num_words_;
            bucket.first_byte = num_bytes_;
            num_words_ += bucket.num_words;
            num_bytes_ += bucket.num_bytes;
        }
    }

    size_t num_words() const { return num_words_; }
    size_t num_bytes() const { return num_bytes_; }

    // Write a bucket to the arrays data[num_bytes], offsets[num_words + 1] and counts[num_words].
    void write_bucket(size_t index, uint8_t* data, int64_t* offsets, int64_t* counts) {
        Bucket& bucket = buckets_[index];
        size_t word = bucket.first_word, byte = bucket.first_byte;
        for (size_t i = 0; i < bucket.num_words; ++i) {
            const WordEntry& entry = bucket.entries[i];
            const size_t length = entry.length();
            std::memcpy(data + byte, entry.bytes(), length);
            byte += length;
            offsets[word + 1] = int64_t(byte);
            counts[word] = entry.count;
            ++word;
        }
        if (index == 0) offsets[0] = 0;
    }

  private:
    // One block of memory for the entries of all tasks: small blocks would cost more page faults.
    class Pool {
      public:
        void reset(size_t size) {
            entries_ = EntryArray<WordEntry>(size);
            used_ = 0;
        }
        WordEntry* take(size_t size) { return &entries_[used_.fetch_add(size)]; }

      private:
        EntryArray<WordEntry> entries_;
        std::atomic<size_t> used_{0};
    };
    // A range of table slots that one task divides.
    struct Segment {
        const WordTable* table;
        size_t first, stop;
        WordEntry* entries;          // grouped by bucket; `hash` is the order key
        std::vector<uint32_t> ends;  // the end of every bucket in `entries`
    };
    struct Bucket {
        const WordEntry* entries = nullptr;  // sorted, each word once
        size_t num_words = 0, num_bytes = 0, first_word = 0, first_byte = 0;
    };

    static constexpr size_t SEGMENT_SLOTS = size_t{1} << 14, MAX_SEGMENTS = 256;
    static constexpr size_t BUCKET_SIZE = 4096;  // entries, roughly; fits into the L2 cache
    static constexpr int MAX_BUCKET_BITS = 12, DIGIT_BITS = 12;

    // Digits of pi and e. The order of saved word counts depends on them.
    static constexpr HashSeed ORDER = {0x243F6A8885A308D3ull, 0xADF85458A2BB4A9Aull,
                                       0x13198A2E03707344ull, 0xAFDC5620273D3CF1ull};

    static uint64_t order_key(const WordEntry& entry) {
        return entry.is_long() ? hash_long(ORDER, entry.bytes(), entry.length())
                               : hash_16(ORDER, entry.low, entry.high);
    }

    // Two shifts, because a shift by 64 is undefined.
    size_t bucket_of(uint64_t key) const { return key >> 1 >> (63 - bucket_bits_); }

    template <class Function>
    void for_each_entry(size_t bucket, Function function) const {
        for (const Segment& segment : segments_) {
            const uint32_t start = bucket ? segment.ends[bucket - 1] : 0;
            for (uint32_t i = start; i < segment.ends[bucket]; ++i) function(segment.entries[i]);
        }
    }

    // The result is < 0, 0 or > 0.
    static int compare(const WordEntry& a, const WordEntry& b) {
        if (a.hash != b.hash) return a.hash < b.hash ? -1 : 1;
        const size_t a_length = a.length(), b_length = b.length();
        const int order = std::memcmp(a.bytes(), b.bytes(), std::min(a_length, b_length));
        if (order) return order;
        return a_length < b_length ? -1 : a_length > b_length;
    }

    std::vector<Segment> segments_;
    std::vector<Bucket> buckets_;
    Pool divided_, sorted_;
    int bucket_bits_ = 0;
    size_t num_entries_ = 0, num_words_ = 0, num_bytes_ = 0;
};

}  // namespace cs336

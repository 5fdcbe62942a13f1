// SharedWords: word counts that several threads add to.
//
// The first bits of a word's hash choose one of 16 parts. Every part is a table with its own lock,
// so threads can add to different parts at the same time. A part that grows moves only its own
// words, which needs less temporary memory than one large table. With 64 parts, most tables would
// be too small for huge pages, and adding would take a third longer.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/hashing.hpp"
#include "counting/word_table.hpp"

namespace cs336 {

class SharedWords {
  public:
    explicit SharedWords(const HashSeed& seed = process_hash_seed()) {
        for (int i = 0; i < NUM_PARTS; ++i) parts_.emplace_back(new Part(seed));
    }

    // Add the words of a table that has the same seed. `first`, which may be any number, selects
    // the part to start with: threads that start with different parts wait less. Throws
    // std::overflow_error or std::bad_alloc.
    void add(const WordTable& words, size_t first) {
        // The slots of a table are in hash order. The few words that were displaced from the last
        // slots of one part to the first slots of the next are added at the end.
        std::vector<const WordEntry*> displaced;
        const size_t step = words.num_slots() / NUM_PARTS;
        for (size_t i = 0; i < NUM_PARTS; ++i) {
            const size_t number = (first + i) % NUM_PARTS;
            add_slots(words, number * step, (number + 1) * step, number, displaced);
        }
        for (const WordEntry* entry : displaced) {
            Part& part = *parts_[number_of(entry->hash)];
            std::lock_guard<std::mutex> lock(part.mutex);
            part.table.add(key_of(*entry), entry->count);
        }
    }

    // Do not call this while threads are adding words.
    bool empty() const {
        return std::all_of(parts_.begin(), parts_.end(),
                           [](const auto& part) { return part->table.size() == 0; });
    }
    std::vector<WordTable*> tables() {
        std::vector<WordTable*> tables;
        for (auto& part : parts_) tables.push_back(&part->table);
        return tables;
    }

  private:
    static constexpr int PART_BITS = 4, NUM_PARTS = 1 << PART_BITS;
    static constexpr int FIRST_BITS = 10;  // small, because a small text does not use these tables

    struct Part {
        explicit Part(const HashSeed& seed) : table(seed, FIRST_BITS) {}
        std::mutex mutex;
        WordTable table;
    };

    static size_t number_of(uint64_t hash) { return size_t(hash >> (64 - PART_BITS)); }

    // The key of a word in its part, without the hash bits that all words of the part share.
    static WordKey key_of(const WordEntry& entry) {
        return {entry.low, entry.high, entry.hash << PART_BITS};
    }

    void add_slots(const WordTable& words, size_t start, size_t stop, size_t number,
                   std::vector<const WordEntry*>& displaced) {
        constexpr size_t AHEAD = 16;  // slots; hides the memory latency
        size_t num_words = 0;
        for (size_t i = start; i < stop; ++i) num_words += words.slot(i).count != 0;
        Part& part = *parts_[number];
        std::lock_guard<std::mutex> lock(part.mutex);
        // Reserve first: words added in hash order would crowd the first slots of a small table
        // long before the table is full enough to grow.
        part.table.reserve(part.table.size() + num_words);
        for (size_t i = start; i < stop; ++i) {
            if (i + AHEAD < stop && words.slot(i + AHEAD).count) {
                part.table.prefetch(key_of(words.slot(i + AHEAD)));
            }
            const WordEntry& entry = words.slot(i);
            if (entry.count == 0) continue;
            if (number_of(entry.hash) == number) {
                part.table.add(key_of(entry), entry.count);
            } else {
                displaced.push_back(&entry);
            }
        }
    }

    std::vector<std::unique_ptr<Part>> parts_;
};

}  // namespace cs336

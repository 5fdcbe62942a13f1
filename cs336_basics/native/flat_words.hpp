// FlatWords: word tables merged into flat arrays.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "word_table.hpp"

namespace cs336 {

// Merges tables range by range of hashes, and writes the words out.
class FlatWords {
  public:
    // `tables` must outlive this object: long words stay in their arenas.
    void prepare(std::vector<WordTable*> tables) {
        tables_ = std::move(tables);
        size_t entries = 0;
        for (const WordTable* table : tables_) entries += table->size();
        part_bits_ = 0;
        while (part_bits_ < MAX_PART_BITS && entries >> part_bits_ > PART_SIZE) ++part_bits_;
        parts_.assign(size_t{1} << part_bits_, {});
    }

    size_t num_parts() const { return parts_.size(); }

    void merge_part(size_t part) {
        std::vector<std::vector<WordEntry>> lists(tables_.size());
        for (size_t i = 0; i < tables_.size(); ++i) tables_[i]->collect(part, part_bits_, lists[i]);
        for (size_t step = 1; step < lists.size(); step *= 2) {
            for (size_t i = 0; i + step < lists.size(); i += 2 * step) {
                lists[i] = merge_sorted(lists[i], lists[i + step]);
                lists[i + step] = {};
            }
        }
        Part& result = parts_[part];
        if (!lists.empty()) result.entries = std::move(lists[0]);
        for (const WordEntry& entry : result.entries) result.num_bytes += entry.length();
    }

    // After all parts: where each begins in the result.
    void place_parts() {
        num_words_ = num_bytes_ = 0;
        for (Part& part : parts_) {
            part.first_word = num_words_;
            part.first_byte = num_bytes_;
            num_words_ += part.entries.size();
            num_bytes_ += part.num_bytes;
        }
    }

    size_t num_words() const { return num_words_; }
    size_t num_bytes() const { return num_bytes_; }

    // Write a part into the arrays: data[num_bytes], offsets[num_words + 1], counts[num_words].
    void write_part(size_t index, uint8_t* data, int64_t* offsets, int64_t* counts) {
        Part& part = parts_[index];
        size_t word = part.first_word, byte = part.first_byte;
        for (const WordEntry& entry : part.entries) {
            const size_t length = entry.length();
            std::memcpy(data + byte, entry.bytes(), length);
            byte += length;
            offsets[word + 1] = int64_t(byte);
            counts[word] = entry.count;
            ++word;
        }
        if (index == 0) offsets[0] = 0;
        part.entries = {};
    }

  private:
    struct Part {
        std::vector<WordEntry> entries;
        size_t num_bytes = 0, first_word = 0, first_byte = 0;
    };

    static constexpr size_t PART_SIZE = 8192;
    static constexpr int MAX_PART_BITS = 12;

    std::vector<WordTable*> tables_;
    std::vector<Part> parts_;
    int part_bits_ = 0;
    size_t num_words_ = 0, num_bytes_ = 0;
};

}  // namespace cs336

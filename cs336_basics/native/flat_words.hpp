// FlatWords: word tables merged into flat arrays.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "word_table.hpp"

namespace cs336 {

// The tables are merged in slices, ranges of hashes, which are independent of each other.
class FlatWords {
  public:
    // `tables` must outlive this object, which refers to the long words in their arenas.
    void prepare(std::vector<WordTable*> tables) {
        tables_ = std::move(tables);
        size_t entries = 0;
        for (const WordTable* table : tables_) entries += table->size();
        slice_bits_ = 0;
        while (slice_bits_ < MAX_SLICE_BITS && entries >> slice_bits_ > SLICE_SIZE) ++slice_bits_;
        slices_.assign(size_t{1} << slice_bits_, {});
    }

    size_t num_slices() const { return slices_.size(); }

    void merge_slice(size_t slice) {
        std::vector<std::vector<WordEntry>> lists(tables_.size());
        for (size_t i = 0; i < tables_.size(); ++i)
            tables_[i]->collect(slice, slice_bits_, lists[i]);
        for (size_t step = 1; step < lists.size(); step *= 2) {
            for (size_t i = 0; i + step < lists.size(); i += 2 * step) {
                lists[i] = merge_sorted(lists[i], lists[i + step]);
                lists[i + step] = {};
            }
        }
        Slice& result = slices_[slice];
        if (!lists.empty()) result.entries = std::move(lists[0]);
        for (const WordEntry& entry : result.entries) result.num_bytes += entry.length();
    }

    // After all slices were merged: compute where each of them begins in the result.
    void finish_merging() {
        num_words_ = num_bytes_ = 0;
        for (Slice& slice : slices_) {
            slice.first_word = num_words_;
            slice.first_byte = num_bytes_;
            num_words_ += slice.entries.size();
            num_bytes_ += slice.num_bytes;
        }
    }

    size_t num_words() const { return num_words_; }
    size_t num_bytes() const { return num_bytes_; }

    // Write a slice into the arrays data[num_bytes], offsets[num_words + 1] and counts[num_words].
    void write_slice(size_t index, uint8_t* data, int64_t* offsets, int64_t* counts) {
        Slice& slice = slices_[index];
        size_t word = slice.first_word, byte = slice.first_byte;
        for (const WordEntry& entry : slice.entries) {
            const size_t length = entry.length();
            std::memcpy(data + byte, entry.bytes(), length);
            byte += length;
            offsets[word + 1] = int64_t(byte);
            counts[word] = entry.count;
            ++word;
        }
        if (index == 0) offsets[0] = 0;
        slice.entries = {};
    }

  private:
    struct Slice {
        std::vector<WordEntry> entries;
        size_t num_bytes = 0, first_word = 0, first_byte = 0;
    };

    // Entries of a slice, roughly: they fit into the L2 cache.
    static constexpr size_t SLICE_SIZE = 8192;
    static constexpr int MAX_SLICE_BITS = 12;

    std::vector<WordTable*> tables_;
    std::vector<Slice> slices_;
    int slice_bits_ = 0;
    size_t num_words_ = 0, num_bytes_ = 0;
};

}  // namespace cs336

// BytePairs: the counts and occurrences of the byte pairs that training starts with.
//
// There are at most 65,536 byte pairs, so they fit in an array. They are counted while the words
// are laid out (word_cells.hpp), with one thread for each part of the words.

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cs336 {

class BytePairs {
  public:
    static constexpr size_t NUM_PAIRS = 256 * 256;

    struct Entry {
        int64_t count = 0;             // in the text
        uint32_t num_occurrences = 0;  // in the distinct words
    };
    using Part = std::vector<Entry>;  // by index_of

    static size_t index_of(uint32_t left, uint32_t right) { return left << 8 | right; }

    // Prepare to count in `num_parts` parts. Each thread then resizes its part to NUM_PAIRS
    // entries.
    void start(size_t num_parts) { parts_.assign(num_parts, Part()); }
    Part& part(size_t i) { return parts_[i]; }

    // Add up the counts of the parts. Call this before the methods below.
    void add_up() {
        Part& total = parts_[0];
        for (size_t part = 1; part < parts_.size(); ++part) {
            for (size_t i = 0; i < NUM_PAIRS; ++i) {
                Entry& entry = parts_[part][i];
                total[i].count += entry.count;
                const uint32_t earlier = total[i].num_occurrences;
                total[i].num_occurrences += entry.num_occurrences;
                entry.num_occurrences = earlier;
            }
        }
    }

    bool empty() const { return parts_.empty(); }
    void clear() { parts_ = std::vector<Part>(); }

    // The entry of a pair in the whole text.
    const Entry& operator[](size_t index) const { return parts_[0][index]; }

    // The number of occurrences of a pair in the parts before `part`.
    uint32_t num_earlier(size_t part, size_t index) const {
        return part == 0 ? 0 : parts_[part][index].num_occurrences;
    }

  private:
    std::vector<Part> parts_;  // after add_up: totals in part 0, num_earlier in the others
};

}  // namespace cs336

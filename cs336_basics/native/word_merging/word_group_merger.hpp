// WordGroupMerger: merges several short words at the same time.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/compiler.hpp"
#include "base/simd_level.hpp"
#include "base/simd_target.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/short_word_merger.hpp"

namespace cs336 {

// Each step merges one pair of every unfinished word, without branches that depend on the pairs.
// When a word is merged alone, each merge waits for a table lookup and for mispredicted branches.
// In a group, the merges of different words overlap, and merging 32 words takes half the time. The
// requirements and results are the same as for ShortWordMerger.
template <class Id, class Kept = AllMerges>
class WordGroupMerger {
  public:
    static constexpr size_t CAPACITY = 64;
    static constexpr size_t MAX_LENGTH = 16;

    WordGroupMerger(const MergeTable<Id>& merges, SimdLevel simd_level)
        : merges_(merges), simd_level_(simd_level) {}

    void clear() { size_ = 0; }

    // Add a word of 1 to MAX_LENGTH bytes or symbols. The group must have fewer than CAPACITY
    // words. `kept` is the same as for ShortWordMerger.
    template <class Unit>
    CS336_INLINE void add(const Unit* units, size_t length, const Kept& kept = Kept()) {
        kept_[size_] = kept;
        words_[size_++].start(merges_, units, uint32_t(length));
    }

    // Merge all words.
    void merge() {
#if defined(CS336_X86)
        if (simd_level_ >= SimdLevel::AVX2) return merge_for_avx2();
#endif
        merge_portable();
    }

    // Write the ids of word `i`, at most MAX_LENGTH. Returns the end of the ids.
    Id* ids(size_t i, Id* out) const { return words_[i].write(out); }

  private:
    using Word = ShortWord<Id, MAX_LENGTH>;
    using Found = typename MergeTable<Id>::Found;

    // One merge of a word.
    struct Merge {
        Word* word;
        int32_t number;
        // The start positions of the merged symbol, its right half and the symbol before it; 0 if
        // no symbol precedes it.
        uint8_t position, right, before;
        bool is_last;             // whether the merged symbol is the last in the word
        Found pair, pair_before;  // the new pairs at `position` and `before`
    };

    CS336_NOINLINE void merge_portable() { merge_here(); }
#if defined(CS336_X86)
    CS336_AVX2 CS336_NOINLINE void merge_for_avx2() { merge_here(); }
#endif

    // Inlined into callers, so that the compiler vectorizes it for their instruction sets.
    CS336_INLINE void merge_here() {
        Merge merges[CAPACITY];
        size_t num_open = size_;
        for (size_t i = 0; i < size_; ++i) merges[i].word = &words_[i];
        while ((num_open = find_least(merges, num_open))) {
            for (size_t i = 0; i < num_open; ++i) merge_pair(merges[i]);
            for (size_t i = 0; i < num_open; ++i) number_new_pairs(merges[i]);
        }
    }

    // Find the next merge of each word, and move the words that have one to the front. Returns the
    // number of these words.
    CS336_INLINE size_t find_least(Merge* merges, size_t num_merges) {
        size_t num_open = 0;
        for (size_t i = 0; i < num_merges; ++i) {
            Word* const word = merges[i].word;
            int32_t least = least_number<AllMerges>(word->numbers, MAX_LENGTH, 0);
            if (!Kept::ALL) {
                Kept& kept = kept_[word - words_];
                while (least < UNRANKED && !kept.next()) {
                    least = least_number<Kept>(word->numbers, MAX_LENGTH, least + 1);
                }
            }
            merges[num_open].word = word;
            merges[num_open].number = least;
            num_open += least < UNRANKED;
        }
        return num_open;
    }

    CS336_INLINE void merge_pair(Merge& merge) const {
        Word& word = *merge.word;
        const uint32_t position = position_of(merge.number);
        const uint64_t after = word.begins & (~uint64_t{1} << position);
        const uint64_t behind = after & (after - 1);
        const uint64_t before = word.begins & ((uint64_t{1} << position) - 1);
        const Id merged = merges_.merged(rank_of(merge.number));
        word.symbols[position] = merged;
        word.begins ^= after ^ behind;
        merge.position = uint8_t(position);
        merge.right = uint8_t(lowest_bit(after));
        merge.before = uint8_t(highest_bit(before | 1));
        merge.is_last = !behind;
        // On a side without a neighbor, `find` looks up an arbitrary pair, whose rank is not used.
        merge.pair = merges_.find(merged, word.symbols[lowest_bit(behind | 0x8000)]);
        merge.pair_before = merges_.find(word.symbols[merge.before], merged);
        CS336_PREFETCH(merge.pair.slot);
        CS336_PREFETCH(merge.pair_before.slot);
    }

    static CS336_INLINE void number_new_pairs(const Merge& merge) {
        const uint32_t unused = uint32_t{0} - uint32_t(merge.is_last);  // all bits or none
        int32_t* const numbers = merge.word->numbers;
        numbers[merge.right] = UNRANKED;
        // If no symbol precedes the merged symbol, the next line overwrites this number.
        numbers[merge.before] = number_of_pair(merge.pair_before.rank(), merge.before);
        numbers[merge.position] = number_of_pair(merge.pair.rank() | unused, merge.position);
    }

    const MergeTable<Id>& merges_;
    const SimdLevel simd_level_;
    size_t size_ = 0;
    Word words_[CAPACITY] = {};
    Kept kept_[CAPACITY] = {};
};

}  // namespace cs336

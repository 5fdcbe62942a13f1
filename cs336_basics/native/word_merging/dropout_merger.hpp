// DropoutMerger: merges one word with BPE-dropout (Provilkov, Emelianenko and Voita 2020, algorithm
// 1). `merge_with_dropout` in tokenizer/reference.py defines the result.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <stdexcept>
#include <vector>

#include "base/failure.hpp"
#include "base/simd_level.hpp"
#include "word_merging/kept_merges.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/rank_lists.hpp"
#include "word_merging/short_word_merger.hpp"

namespace cs336 {

// In each step, the possible merges are visited in the order of their ranks and, for equal ranks,
// from left to right. The first one that is not left out is applied. The word is finished if all
// were left out, or none is possible.
template <class Id>
class DropoutMerger {
  public:
    DropoutMerger(const MergeTable<Id>& merges, SimdLevel simd_level,
                  const std::atomic<bool>& cancelled)
        : merges_(merges), short_(merges, simd_level), cancelled_(cancelled) {}

    // Write the ids of a word, at most `length` > 0. Returns the end of the ids. Throws Cancelled
    // or std::length_error.
    Id* merge(const uint8_t* word, size_t length, KeptMerges kept, Id* out) {
        kept.start();
        if (length <= ShortWordMerger<Id>::MAX_LENGTH && merges_.size() <= MAX_NUMBERED_MERGES) {
            return short_.merge(word, length, out, kept);
        }
        if (length >= END) throw std::length_error("a pre-token must be shorter than 4 GiB");
        return merge_long(word, uint32_t(length), kept, out);
    }

  private:
    static constexpr uint32_t END = UINT32_MAX;
    static constexpr uint32_t NO_RANK = MergeTable<Id>::NO_RANK;
    static constexpr size_t MAX_KEPT = size_t{1} << 16;

    // Possible merges are in ascending lists of their ranks. Those that would break the order,
    // because they were left out or a merge on their left was, are in a heap. An entry is stale if
    // its position has another rank or none.
    Id* merge_long(const uint8_t* word, uint32_t length, KeptMerges kept, Id* out) {
        reserve_for_long_word(symbols_, length);
        reserve_for_long_word(ranks_at_, length);
        reserve_for_long_word(before_, length);
        reserve_for_long_word(after_, length);
        lists_.start(merges_.size(), 3 * size_t{length});
        heap_ = {};
        left_out_.clear();
        // Clear the lists even after an exception.
        struct Cleaner {
            DropoutMerger& merger;
            ~Cleaner() { merger.clear(); }
        } cleaner{*this};
        for (uint32_t i = 0; i < length; ++i) {
            stop_if_cancelled(i);
            symbols_.push_back(merges_.byte_id(word[i]));
            ranks_at_.push_back(NO_RANK);
            before_.push_back(i ? i - 1 : END);
            after_.push_back(i + 1 < length ? i + 1 : END);
            if (i) add(i - 1, merges_.byte_rank(word[i - 1], word[i]));
        }
        for (size_t step = 0; !lists_.empty() || !heap_.empty(); ++step) {
            stop_if_cancelled(step);
            const uint64_t best = take_first();
            const uint32_t left = uint32_t(best), rank = uint32_t(best >> 32);
            if (ranks_at_[left] != rank) continue;
            if (!kept.next()) {
                left_out_.push_back(best);
                continue;
            }
            const uint32_t right = after_[left], next = after_[right], previous = before_[left];
            symbols_[left] = merges_.merged(rank);
            after_[left] = next;
            ranks_at_[left] = ranks_at_[right] = NO_RANK;
            if (next != END) {
                before_[next] = left;
                add(left, merges_.rank(symbols_[left], symbols_[next]));
            }
            if (previous != END) add(previous, merges_.rank(symbols_[previous], symbols_[left]));
            for (const uint64_t merge : left_out_) {
                if (ranks_at_[uint32_t(merge)] == merge >> 32) heap_.push(merge);
            }
            left_out_.clear();
        }
        for (uint32_t i = 0; i != END; i = after_[i]) *out++ = symbols_[i];
        return out;
    }

    // Return a possible merge: its rank and the position of its left symbol.
    static uint64_t merge_at(uint32_t rank, uint32_t position) {
        return uint64_t{rank} << 32 | position;
    }

    // Remove the first merge from the lists and the heap.
    uint64_t take_first() {
        if (!lists_.empty()) {
            const uint64_t listed = merge_at(lists_.lowest_rank(), lists_.first());
            if (heap_.empty() || listed < heap_.top()) {
                lists_.take_first();
                return listed;
            }
        }
        const uint64_t best = heap_.top();
        heap_.pop();
        return best;
    }

    void add(uint32_t position, uint32_t rank) {
        ranks_at_[position] = rank;
        if (rank == NO_RANK) return;
        if (lists_.is_after_last(position, rank)) {
            lists_.append(position, rank);
        } else {
            heap_.push(merge_at(rank, position));
        }
    }

    void clear() {
        lists_.clear(MAX_KEPT);
        if (symbols_.capacity() > MAX_KEPT) {
            symbols_ = {};
            ranks_at_ = before_ = after_ = {};
            heap_ = {};
            left_out_ = {};
        }
    }

    void stop_if_cancelled(size_t step) const {
        if (step % (1 << 16) == 0 && cancelled_.load(std::memory_order_relaxed)) throw Cancelled();
    }

    const MergeTable<Id>& merges_;
    const ShortWordMerger<Id> short_;
    const std::atomic<bool>& cancelled_;
    // By position. The members below are used for long words only.
    std::vector<Id> symbols_;
    std::vector<uint32_t> ranks_at_, before_, after_;
    RankLists lists_;
    std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<uint64_t>> heap_;
    std::vector<uint64_t> left_out_;  // in this step
};

}  // namespace cs336

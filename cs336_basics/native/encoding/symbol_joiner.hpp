// SymbolJoiner: applies the merges that join words to the symbols of the words.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "base/memory.hpp"
#include "base/simd_level.hpp"
#include "encoding/gaps.hpp"
#include "encoding/superwords.hpp"
#include "word_merging/merge_table.hpp"
#include "word_merging/word_group_merger.hpp"
#include "word_merging/word_merger.hpp"

namespace cs336 {

// Two neighboring symbols are a boundary, which is open if a merge may join them. A run is a
// sequence of symbols with open boundaries; runs merge independently. Most symbols are alone, and
// most runs have two symbols, so no branch depends on a single boundary: branches would be
// unpredictable.
//
// Symbols are appended in pieces of any length. The last run stays here until its end is known.
template <class Id>
class SymbolJoiner {
  public:
    // The arguments must outlive this object. `merger` has the merges that join words.
    SymbolJoiner(const SuperwordMerges<Id>& superwords, const MergeTable<Id>& merges,
                 WordMerger<Id>& merger, SimdLevel simd_level)
        : superwords_(superwords),
          merges_(merges),
          merger_(merger),
          group_(merges, simd_level),
          simd_level_(simd_level) {}

    // Forget all symbols. An exception may have left some.
    void clear() {
        num_open_ = num_gaps_ = 0;
        group_.clear();
    }

    // The place at which to append at most `count` symbols; the next `SLACK` may be overwritten.
    Id* place(size_t count) {
        const size_t size = (num_open_ + count + SLACK) * sizeof(Id);
        symbols_.reserve(size, num_open_ * sizeof(Id));
        return symbols() + num_open_;
    }

    // Write the ids of all runs that have ended; `end` is the end of the appended symbols. If
    // `is_last`, the last run ends there, too. Returns the end of the ids, of which SLACK more may
    // be overwritten. Long runs leave gaps; see `fill_gaps`.
    Id* join(const Id* end, bool is_last, Id* out) {
        const Id* const first = symbols();
        const size_t count = size_t(end - first);
        if (!count) return out;
        size_t run = 0;  // the first symbol that is not written
        bool is_open = num_open_ > 1;
        for (size_t base = num_open_ ? num_open_ - 1 : 0; base < count; base += BLOCK) {
            const Id* const block = first + base;
            // Boundary i follows symbol i. The one after the last symbol is closed or unknown.
            const size_t num_boundaries = std::min(BLOCK, count - base - 1);
            const size_t num_symbols = num_boundaries < BLOCK ? num_boundaries + is_last : BLOCK;
            uint64_t open = superwords_.may_join(block, num_boundaries, simd_level_);
            if (is_open) {
                const size_t length = num_ones(open);
                if (length >= num_symbols) continue;
                const size_t next = base + length + 1;
                out = merge(first + run, next - run, out);
                run = next;
                is_open = false;
                open &= open + 1;
            }
            while (open) {
                const size_t start = size_t(lowest_bit(open));
                const size_t length = num_ones(open >> start);
                out = copy(first + run, base + start - run, out);
                run = base + start;
                if (start + length >= num_symbols) {
                    is_open = true;
                    break;
                }
                out = merge(first + run, length + 1, out);
                run += length + 1;
                open &= open + (uint64_t{1} << start);
            }
            if (!is_open) {
                out = copy(first + run, base + num_symbols - run, out);
                run = base + num_symbols;
            }
        }
        num_open_ = count - run;
        if (run) std::memmove(symbols(), first + run, num_open_ * sizeof(Id));
        return out;
    }

    // Write the ids of the long runs into their gaps, and shift the ids that follow each gap. Other
    // ids may have been written since the last call of `join`. Returns the end of the ids.
    CS336_INLINE Id* fill_gaps(Id* end) { return num_gaps_ ? fill_some_gaps(end) : end; }

    // Free memory that is too large to keep.
    void trim() {
        if (!num_open_) symbols_.trim(MAX_KEPT);
    }

  private:
    static constexpr size_t BLOCK = 64;  // boundaries
    static constexpr size_t SLACK = 8;
    static_assert(SLACK >= SuperwordMerges<Id>::READ_AHEAD, "symbols are read eight at a time");
    static constexpr size_t MAX_KEPT = size_t{1} << 20;  // bytes

    Id* symbols() { return reinterpret_cast<Id*>(symbols_.data()); }

    // The number of set bits below the lowest bit that is not set.
    static CS336_INLINE size_t num_ones(uint64_t bits) {
        return ~bits ? size_t(lowest_bit(~bits)) : 64;
    }

    static CS336_INLINE Id* copy(const Id* symbols, size_t count, Id* out) {
        size_t i = 0;
        do {  // mostly once
            std::memcpy(out + i, symbols + i, SLACK * sizeof(Id));
            i += SLACK;
        } while (CS336_UNLIKELY(i < count));
        return out + count;
    }

    // Merge the symbols of a run.
    CS336_INLINE Id* merge(const Id* symbols, size_t count, Id* out) {
        if (count == 2) return merge_pair(symbols[0], symbols[1], out);
        if (count > 3) return merge_long(symbols, count, out);
        const Id a = symbols[0], b = symbols[1], c = symbols[2];
        const uint32_t first = merges_.rank(a, b), second = merges_.rank(b, c);
        const uint32_t rank = std::min(first, second);
        if (rank == MergeTable<Id>::NO_RANK) {
            out[0] = a;
            out[1] = b;
            out[2] = c;
            return out + 3;
        }
        const Id merged = merges_.merged(rank);
        const bool is_left = first <= second;
        return merge_pair(is_left ? merged : a, is_left ? c : merged, out);
    }

    // Merge the symbols of a run of more than three. Most runs wait for others, because merges of a
    // group overlap.
    Id* merge_long(const Id* symbols, size_t count, Id* out) {
        if (count > Group::MAX_LENGTH || !merger_.takes_groups()) {
            return merger_.merge(symbols, count, out);
        }
        if (num_gaps_ == Group::CAPACITY) out = fill_some_gaps(out);
        group_.add(symbols, count);
        gaps_[num_gaps_++] = {out, count};
        return out + count;
    }

    CS336_NOINLINE Id* fill_some_gaps(Id* end) {
        group_.merge();
        Id* const out = close_gaps(gaps_, num_gaps_, end, [this](size_t i, Id* at) {
            return group_.ids(i, at);
        });
        group_.clear();
        num_gaps_ = 0;
        return out;
    }

    CS336_INLINE Id* merge_pair(Id left, Id right, Id* out) const {
        const uint32_t rank = merges_.rank(left, right);
        const bool is_merged = rank != MergeTable<Id>::NO_RANK;
        out[0] = is_merged ? merges_.merged(rank) : left;
        out[1] = right;
        return out + 2 - is_merged;
    }

    const SuperwordMerges<Id>& superwords_;
    const MergeTable<Id>& merges_;
    WordMerger<Id>& merger_;
    using Group = WordGroupMerger<Id>;
    struct Gap {
        Id* begin;
        size_t length;
    };
    Group group_;
    const SimdLevel simd_level_;
    Gap gaps_[Group::CAPACITY];
    size_t num_gaps_ = 0;
    Buffer symbols_;
    size_t num_open_ = 0;  // of the last run
};

}  // namespace cs336

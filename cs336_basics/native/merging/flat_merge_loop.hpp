// The merge loop of the native trainer: counted words in, merges out.
//
// Three ideas make it fast; each replaces waiting for memory by work on a few nearby bytes.
//
// 1. Cells with two tags: see word_cells.hpp.
//
// 2. Postings that may be stale. A pair knows the positions where it began when it was counted, in
//    ascending order, so that runs such as "aaaa" merge from the left. The cells themselves show
//    whether a posting still holds.
//
// 3. A threshold. In real text almost all pairs are so rare that no merge will ever choose them.
//    Only pairs with at least `threshold_` occurrences are kept: the others have no table entry, no
//    postings, no heap entry. That is exact: the count of a pair can only fall once the merge that
//    made it is complete, so as long as a kept pair reaches the threshold, the best pair is a kept
//    one. When none does, the threshold is lowered and the pairs are counted again.
//
// During a merge nothing is hashed: given the pair (a, b), the pairs that change are identified by
// the neighbour alone. Their changes are summed in two arrays indexed by token id, and each changed
// pair is looked up once at the end.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "merging/byte_pairs.hpp"
#include "base/clock.hpp"
#include "base/compiler.hpp"
#include "base/interrupt.hpp"
#include "base/memory.hpp"
#include "merging/merge_loop.hpp"
#include "merging/pair_heap.hpp"
#include "merging/pair_table.hpp"
#include "merging/postings.hpp"
#include "base/run_parts.hpp"
#include "merging/starting_merges.hpp"
#include "merging/token_bytes.hpp"
#include "merging/word_cells.hpp"

namespace cs336 {

template <class Token>
class FlatMergeLoop final : public MergeLoop {
  public:
    // data: the words one after the other; word i is data[offsets[i]:offsets[i + 1]]. Σ
    // count·length must fit int64. The arrays are not needed after construction.
    FlatMergeLoop(const uint8_t* data, const int64_t* offsets, const int64_t* counts,
                  int64_t num_words, const MergeOptions& options)
        : options_(options),
          floor_(std::max<int64_t>(1, options.min_frequency)),
          tokens_(options.byte_ranks),
          cells_(data, offsets, counts, num_words, options.sorted_words, options.num_threads,
                 options.keep_going, byte_pairs_),
          num_tokens_(cells_.size()),
          heap_(pairs_, tokens_),
          before_(256),
          after_(256) {
        if (options.num_start_tokens) merge_words();
    }

    bool run(double seconds) override {
        double start = seconds_now();
        const double deadline = start + seconds;
        seconds_counting = seconds_finding = seconds_updating = 0;
        while (int64_t(merges.size()) < options_.num_merges) {
            const PairId best = heap_.pop_best(threshold_);
            const double found = seconds_now();
            seconds_finding += found - start;
            if (best == NO_PAIR) {
                if (threshold_ <= floor_) return false;
                if (byte_pairs_.empty()) {
                    count_pairs();
                } else {
                    index_byte_pairs();
                }
                start = seconds_now();
                seconds_counting += start - found;
                seconds_untraced_ += start - found;
            } else {
                const int64_t count = pairs_[best].count;
                const size_t positions = pairs_[best].num_postings;
                merge(best);
                const double end = seconds_now();
                seconds_updating += end - found;
                if (options_.traced) record(count, positions, found - start, end - found);
                start = end;
            }
            if (start >= deadline) return true;
        }
        return false;
    }

    MergeState state() const override {
        MergeState state{threshold_, {}, {pairs_.begin(), pairs_.end()}};
        for (size_t i = 0; i < cells_.size(); ++i) {
            const Token cell = cells_.data()[i];
            state.cells.push_back(cell == NO_TOKEN ? -1 : int64_t(cell));
        }
        return state;
    }

  private:
    static constexpr Token NO_TOKEN = WordCells<Token>::NO_TOKEN;
    static constexpr uint32_t NO_CURSOR = UINT32_MAX;

    // What a merge changes for one token id beside it.
    struct Neighbour {
        int64_t count;
        uint32_t num_occurrences;
        uint32_t cursor;  // where its next posting is written
    };
    // One merged occurrence of a pair.
    struct Occurrence {
        Position position;
        Token before, after;
    };

    // Append the last merge to the trace. Its seconds of counting are those since the one before.
    void record(int64_t count, size_t positions, double finding, double updating) {
        trace.push_back({count, int64_t(occurrences_.size()), int64_t(positions), num_updates_,
                         heap_.take_num_entries(), seconds_untraced_, finding, updating});
        seconds_untraced_ = 0;
    }

    InterruptCheck interrupt_check() const { return InterruptCheck(options_.keep_going); }

    // Apply the merges of the vocabulary that is continued.
    void merge_words() {
        for (int64_t i = 0; i < options_.num_start_tokens; ++i) {
            const int64_t start = options_.start_offsets[i];
            tokens_.add(options_.start_bytes + start,
                        size_t(options_.start_offsets[i + 1] - start));
        }
        before_.resize(tokens_.size());
        after_.resize(tokens_.size());
        first_threshold_ = guess_threshold();
        byte_pairs_.clear();
        StartingMerges merger(options_.start_merges, size_t(options_.num_start_merges));
        num_tokens_ -= cells_.merge_words(tokens_, interrupt_check(),
                                          [&](const uint8_t* word, size_t length, uint32_t* out) {
                                              return merger.merge(word, length, out);
                                          });
    }

    // --- counting pairs -------------------------------------------------------------------------

    // The merges of the whole vocabulary, those of the one that is continued included.
    int64_t num_all_merges() const { return options_.num_start_tokens + options_.num_merges; }

    // A guess from a dozen corpora of how frequent the last merged pair will be, on the low side:
    // too low costs a few more pairs, too high costs counting again.
    int64_t guess_threshold() const {
        int64_t occurrences = 0, most = 0;
        for (size_t i = 0; i < BytePairs::NUM_PAIRS; ++i) {
            occurrences += byte_pairs_[i].count;
            most = std::max(most, byte_pairs_[i].count);
        }
        const int64_t guess = occurrences / 64 / num_all_merges();
        return options_.threshold ? std::max(floor_, std::min(guess, most / 4)) : floor_;
    }

    // Set the first threshold, and index the pairs of bytes, which are counted already.
    void index_byte_pairs() {
        threshold_ = guess_threshold();
        if (options_.max_token_length >= 2) {
            for (uint32_t i = 0; i < BytePairs::NUM_PAIRS; ++i) {
                if (byte_pairs_[i].count < threshold_) continue;
                const PairId id = pairs_.add(i >> 8, i & 255, byte_pairs_[i].count);
                pairs_[id].num_postings = byte_pairs_[i].num_occurrences;
            }
        }
        for (Pair& pair : pairs_) pair.postings = postings_.allocate(pair.num_postings);
        run_parts(
            cells_.num_parts(), options_.keep_going,
            [&](size_t part, InterruptCheck interrupt) { write_byte_postings(part, interrupt); });
        byte_pairs_.clear();
        heap_.rebuild();
    }

    // Write the postings of the pairs of bytes in a part of the cells.
    void write_byte_postings(size_t part, InterruptCheck& interrupt) {
        std::vector<Position*> next(BytePairs::NUM_PAIRS, nullptr);
        for (const Pair& pair : pairs_) {
            const size_t i = BytePairs::index_of(pair.left, pair.right);
            next[i] = pair.postings + byte_pairs_.num_earlier(part, i);
        }
        const Token* const cells = cells_.data();
        for (Position p = cells_.part_start(part); p + 1 < cells_.part_start(part + 1); ++p) {
            interrupt.at(p);
            if (cells[p] == NO_TOKEN || cells[p + 1] == NO_TOKEN) continue;
            Position*& posting = next[BytePairs::index_of(cells[p], cells[p + 1])];
            if (posting) *posting++ = p;
        }
    }

    // Lower the threshold when no kept pair reaches it any more, and count the pairs again.
    void count_pairs() {
        pairs_.clear();
        postings_.clear();

        // First in a table without keys, where several pairs may share a slot: its sums are never
        // too low, so pairs below the threshold are ruled out without a table of them all.
        int bits = 16;
        while (bits < 24 && (size_t{1} << bits) < num_tokens_ / 2) ++bits;
        std::vector<int64_t> sums(size_t{1} << bits);
        const auto sum = [&](uint64_t key) -> int64_t& {
            return sums[pairs_.hash(key) >> (64 - bits)];
        };
        for_each_pair([&](Position, uint64_t key, int64_t count) { sum(key) += count; });
        const int64_t most = *std::max_element(sums.begin(), sums.end());
        threshold_ = first_threshold_ > 0 ? std::max(floor_, std::min(first_threshold_, most / 4))
                                          : lower_threshold(most);
        first_threshold_ = 0;

        for_each_pair([&](Position, uint64_t key, int64_t count) {
            if (sum(key) < threshold_) return;
            PairId id = pairs_.find(key);
            if (id == NO_PAIR) id = pairs_.add(uint32_t(key >> 32), uint32_t(key), 0);
            pairs_[id].count += count;
            ++pairs_[id].num_postings;
        });
        pairs_.remove_below(threshold_);

        for (Pair& pair : pairs_) {
            pair.postings = postings_.allocate(pair.num_postings);
            pair.num_postings = 0;
        }
        for_each_pair([&](Position p, uint64_t key, int64_t) {
            if (sum(key) < threshold_) return;
            const PairId id = pairs_.find(key);
            if (id != NO_PAIR) pairs_[id].postings[pairs_[id].num_postings++] = p;
        });
        heap_.rebuild();
    }

    // `most`: no pair is more frequent. Counts of merged pairs fall about as rank^-1.5.
    int64_t lower_threshold(int64_t most) const {
        const double progress =
            double(options_.num_start_tokens + int64_t(merges.size())) / double(num_all_merges());
        const int64_t guess = int64_t(double(threshold_) * std::pow(progress, 1.5));
        return std::max(floor_, std::min({guess, threshold_ / 4, most / 4}));
    }

    // Call function(position, key, count of the word) for all pairs that may be merged.
    template <class Function>
    void for_each_pair(Function function) const {
        cells_.for_each_pair(tokens_, interrupt_check(),
                             [&](Position p, Token left, Token right, int64_t count) {
                                 if (!fits(left, right)) return;
                                 function(p, PairTable::key_of(left, right), count);
                             });
    }

    bool fits(uint32_t left, uint32_t right) const {
        return int64_t{tokens_.length(left)} + tokens_.length(right) <= options_.max_token_length;
    }

    // --- merging --------------------------------------------------------------------------------

    void merge(PairId id) {
        const Pair pair = pairs_[id];
        const uint32_t a = pair.left, b = pair.right, ab = tokens_.add(a, b);
        before_.push_back(Neighbour{});
        after_.push_back(Neighbour{});
        merges.emplace_back(a, b);
        pairs_[id].count = 0;
        replace_in_cells(pair, ab);
        num_tokens_ -= occurrences_.size();
        postings_.release(pair.postings, pair.num_postings);

        // (x, a) became (x, ab), and (b, y) became (ab, y), everywhere at once. Of "abab" the first
        // merge makes (ab, a), which the second removes again to make (ab, ab): its x is ab.
        const size_t first_new = pairs_.size();
        const int64_t removed = before_[ab].count;
        size_t num_postings = 0;
        num_updates_ = int64_t(2 * (touched_before_.size() + touched_after_.size()));
        const auto keep = [&](uint32_t left, uint32_t right, int64_t count, Neighbour& neighbour) {
            neighbour.cursor = NO_CURSOR;
            if (count < threshold_ || !fits(left, right)) return;
            pairs_[pairs_.add(left, right, count)].num_postings = neighbour.num_occurrences;
            neighbour.cursor = uint32_t(num_postings);
            num_postings += neighbour.num_occurrences;
        };
        decrease(
            touched_before_, before_, Token(ab), [&](Token x) { return PairTable::key_of(x, a); },
            [&](Token x) { return PairTable::key_of(x, ab); });
        for (const Token x : touched_before_) keep(x, ab, before_[x].count, before_[x]);
        decrease(
            touched_after_, after_, a == b ? Token(a) : NO_TOKEN,
            [&](Token y) { return PairTable::key_of(b, y); },
            [&](Token y) { return PairTable::key_of(ab, y); });
        for (const Token y : touched_after_) {
            keep(ab, y, after_[y].count - (y == a ? removed : 0), after_[y]);
        }
        if (num_postings) write_postings(first_new, num_postings);
        for (const Token x : touched_before_) before_[x] = Neighbour{};
        for (const Token y : touched_after_) after_[y] = Neighbour{};
    }

    // Write token `ab` wherever the pair occurs; record the occurrences and sum up by neighbour.
    void replace_in_cells(const Pair& pair, uint32_t ab) {
        constexpr uint32_t AHEAD = 24;  // postings; hides the latency of memory
        constexpr uint32_t GROUP = 64;  // postings whose neighbours are prefetched together
        const uint32_t num_prefetched =
            options_.prefetch && pair.num_postings > AHEAD ? pair.num_postings - AHEAD : 0;
        const uint32_t a = pair.left, b = pair.right;
        const Position length_a = tokens_.length(a), length_b = tokens_.length(b);
        const Position* postings = pair.postings;
        Token* cells = cells_.data();
        Neighbour* before = before_.data();
        Neighbour* after = after_.data();
        InterruptCheck interrupt = interrupt_check();
        occurrences_.clear();
        if (pair.num_postings > occurrences_.capacity()) {
            occurrences_.reserve(pair.num_postings);
            ask_for_huge_pages(occurrences_.data(), occurrences_.capacity() * sizeof(Occurrence));
        }
        touched_before_.clear();
        touched_after_.clear();
        size_t run = cells_.run_of(postings[0]);
        for (uint32_t first = 0; first < pair.num_postings; first += GROUP) {
            interrupt.at(first);
            const size_t first_merged = occurrences_.size();
            const uint32_t stop = std::min(first + GROUP, pair.num_postings);
            for (uint32_t i = first; i < stop; ++i) {
                if (i < num_prefetched) CS336_PREFETCH(cells + postings[i + AHEAD]);
                const Position p = postings[i], q = p + length_a, end = q + length_b;
                if (cells[p] != a || cells[q] != b) continue;  // stale
                const Token x = cells[p - 1], y = cells[end];
                cells[q] = NO_TOKEN;
                cells[p] = cells[end - 1] = Token(ab);
                occurrences_.push_back({p, x, y});
                prefetch_neighbours(occurrences_.back());
            }
            for (size_t i = first_merged; i < occurrences_.size(); ++i) {
                const auto [p, x, y] = occurrences_[i];
                if (p >= cells_.run_start(run + 1)) run = cells_.run_of(p, run + 1);
                const int64_t count = cells_.run_count(run);
                if (x != NO_TOKEN) {
                    if (!before[x].num_occurrences++) touched_before_.push_back(x);
                    before[x].count += count;
                }
                if (y != NO_TOKEN) {
                    if (!after[y].num_occurrences++) touched_after_.push_back(y);
                    after[y].count += count;
                }
            }
        }
    }

    void prefetch_neighbours(const Occurrence& merged) const {
        if (!options_.prefetch) return;
        prefetch_neighbour(before_, merged.before);
        prefetch_neighbour(after_, merged.after);
    }

    // (NO_TOKEN, too: to prefetch any address does no harm, and a branch would take longer.)
    static void prefetch_neighbour(const std::vector<Neighbour>& neighbours, Token token) {
        const auto start = reinterpret_cast<uintptr_t>(neighbours.data());
        CS336_PREFETCH(reinterpret_cast<const void*>(start + size_t{token} * sizeof(Neighbour)));
    }

    // Give the pairs from `first_new` on their postings, and push them.
    void write_postings(size_t first_new, size_t num_postings) {
        Position* const postings = postings_.allocate(num_postings);
        Position* next = postings;
        for (size_t id = first_new; id < pairs_.size(); ++id) {
            pairs_[id].postings = next;
            next += pairs_[id].num_postings;
            heap_.push(PairId(id));
        }
        constexpr size_t AHEAD = 16;  // occurrences
        for (size_t i = 0; i < occurrences_.size(); ++i) {
            if (i + AHEAD < occurrences_.size()) prefetch_neighbours(occurrences_[i + AHEAD]);
            const Occurrence& merged = occurrences_[i];
            if (merged.before != NO_TOKEN && before_[merged.before].cursor != NO_CURSOR) {
                postings[before_[merged.before].cursor++] =
                    merged.position - tokens_.length(merged.before);
            }
            if (merged.after != NO_TOKEN && after_[merged.after].cursor != NO_CURSOR) {
                postings[after_[merged.after].cursor++] = merged.position;
            }
        }
    }

    // Subtract what the merge took from the pair `old_key(token)` of every token beside it but
    // `skip`. `new_key(token)` is the pair that it made instead. (The table is far larger than the
    // caches, so that both are prefetched.)
    template <class OldKey, class NewKey>
    void decrease(const std::vector<Token>& touched, const std::vector<Neighbour>& neighbours,
                  Token skip, OldKey old_key, NewKey new_key) {
        constexpr size_t AHEAD = 12;  // tokens
        found_.clear();
        for (size_t i = 0; i < touched.size(); ++i) {
            if (options_.prefetch && i + AHEAD < touched.size()) {
                pairs_.prefetch(old_key(touched[i + AHEAD]));
            }
            const PairId id = touched[i] == skip ? NO_PAIR : pairs_.find(old_key(touched[i]));
            if (options_.prefetch && id != NO_PAIR) CS336_PREFETCH(&pairs_[id]);
            found_.push_back(id);
        }
        for (size_t i = 0; i < touched.size(); ++i) {
            const int64_t count = neighbours[touched[i]].count;
            if (found_[i] != NO_PAIR) pairs_[found_[i]].count -= count;
            if (options_.prefetch && count >= threshold_) pairs_.prefetch(new_key(touched[i]));
        }
    }

    const MergeOptions options_;
    const int64_t floor_;
    int64_t threshold_ = std::numeric_limits<int64_t>::max();
    int64_t first_threshold_ = 0;  // where a vocabulary is continued, before pairs are counted
    int64_t num_updates_ = 0;      // of pair counts, by the last merge; for the trace
    double seconds_untraced_ = 0;  // of counting, since the last merge

    TokenBytes tokens_;
    BytePairs byte_pairs_;  // empty once they are in pairs_
    WordCells<Token> cells_;
    size_t num_tokens_;  // in the cells, ends of words included
    PairTable pairs_;
    PostingPool postings_;
    PairHeap heap_;

    // Scratch of merge, by token id: what changes for the tokens before and after the merged pair.
    std::vector<Neighbour> before_, after_;
    std::vector<Token> touched_before_, touched_after_;
    std::vector<Occurrence> occurrences_;
    std::vector<PairId> found_;
};

// A merge loop with the narrowest token ids that hold all merges. Throws std::overflow_error: the
// words have too many bytes; Interrupted.
inline std::unique_ptr<MergeLoop> make_merge_loop(const uint8_t* data, const int64_t* offsets,
                                                  const int64_t* counts, int64_t num_words,
                                                  const MergeOptions& options) {
    if (options.num_start_tokens + options.num_merges < 65535 - 256) {
        return std::make_unique<FlatMergeLoop<uint16_t>>(data, offsets, counts, num_words, options);
    }
    return std::make_unique<FlatMergeLoop<uint32_t>>(data, offsets, counts, num_words, options);
}

}  // namespace cs336

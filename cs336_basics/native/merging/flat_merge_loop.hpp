// The merge loop of the native trainer, which learns merges from counted words.
//
// Three ideas make it fast. Each avoids memory latency by working on a few nearby bytes.
//
// 1. Each token is stored in its first and last cell; see word_cells.hpp.
//
// 2. Postings may be stale. A pair keeps the positions at which it occurred when it was counted, in
//    ascending order, so that runs such as "aaaa" merge from the left. The cells show whether a
//    posting is still valid.
//
// 3. Rare pairs are ignored. In real text, almost all pairs are too rare to be merged. Only pairs
//    with a count of at least `threshold_` have a table entry, postings and a heap entry. The
//    result is still exact: after the merge that creates a pair, the pair's count can only fall. So
//    if any kept pair reaches the threshold, the best pair is among the kept pairs. Otherwise, the
//    loop lowers the threshold and counts the pairs again.
//
// A merge hashes nothing while it updates the cells: when (a, b) is merged, the neighbor alone
// identifies a changed pair. Two arrays indexed by token id sum the changes, and each changed pair
// is looked up once at the end.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/compiler.hpp"
#include "base/failure.hpp"
#include "base/interrupt.hpp"
#include "base/run_parts.hpp"
#include "merging/byte_pairs.hpp"
#include "merging/merge_loop.hpp"
#include "merging/merge_policy.hpp"
#include "merging/pair_heap.hpp"
#include "merging/pair_sums.hpp"
#include "merging/pair_table.hpp"
#include "merging/postings.hpp"
#include "merging/starting_symbols.hpp"
#include "merging/token_bytes.hpp"
#include "merging/word_cells.hpp"

namespace cs336 {

// `Token` is the type of token ids. For `Policy`, see merge_policy.hpp.
template <class Token, class Policy = MergePolicy>
class FlatMergeLoop final : public MergeLoop {
  public:
    // Word i is data[offsets[i]:offsets[i + 1]]. The sum of count * length over all words must fit
    // into int64. The arrays are not needed after construction.
    FlatMergeLoop(const uint8_t* data, const int64_t* offsets, const int64_t* counts,
                  int64_t num_words, const MergeOptions& options)
        : options_(options),
          floor_(std::max<int64_t>(1, options.min_frequency)),
          tokens_(options.byte_ranks),
          cells_(laid_out(data, offsets, counts, num_words)),
          num_tokens_(cells_.size()),
          heap_(pairs_, tokens_),
          before_(tokens_.size()),
          after_(tokens_.size()) {}

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
            } else if (refused(pairs_[best])) {
                start = seconds_now();  // the pair is no longer in the heap
                seconds_finding += start - found;
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

    // The data of the loop, for a drawing.
    int64_t threshold() const { return threshold_; }
    const WordCells<Token, Policy>& cells() const { return cells_; }
    const PairTable& pairs() const { return pairs_; }

  private:
    static constexpr Token NO_TOKEN = WordCells<Token, Policy>::NO_TOKEN;
    static constexpr uint32_t NO_CURSOR = UINT32_MAX;
    static constexpr size_t CELLS_OF_A_MERGE = 64;

    // The changes that a merge makes for one neighboring token id.
    struct Neighbor {
        int64_t count;
        uint32_t num_occurrences;
        uint32_t cursor;  // index at which to write its new pair's next posting
    };
    // A merged occurrence of a pair.
    struct Occurrence {
        Position position;
        Token before, after;
    };

    // Return whether the pair, which is the most frequent one, must not be merged.
    bool refused(const Pair& pair) const {
        if (!options_.refuse) return false;
        const int answer = options_.refuse(options_.rules, tokens_.bytes(pair.left),
                                           tokens_.bytes(pair.right), pair.count);
        if (answer < 0) throw Cancelled();
        return answer > 0;
    }

    // Append the last merge to the trace, with the time spent counting since the previous merge.
    void record(int64_t count, size_t positions, double finding, double updating) {
        trace.push_back({count, int64_t(num_occurrences_), int64_t(positions), num_updates_,
                         heap_.take_num_entries(), seconds_untraced_, finding, updating});
        seconds_untraced_ = 0;
    }

    InterruptCheck interrupt_check() const { return InterruptCheck(options_.keep_going); }

    // Lay out the words, after the merges of an existing vocabulary if there is one.
    WordCells<Token, Policy> laid_out(const uint8_t* data, const int64_t* offsets,
                                      const int64_t* counts, int64_t num_words) {
        const size_t num_threads = options_.num_threads;
        if (options_.start_tokens.empty()) {
            return {data,       offsets, counts, num_words, num_threads, options_.keep_going,
                    byte_pairs_};
        }
        for (const std::string& token : options_.start_tokens) tokens_.add(token);
        const StartingSymbols<Token> symbols(options_.start_merges, options_.start_tokens);
        return {data,    offsets,       counts, num_words, num_threads, options_.keep_going,
                symbols, tokens_.size()};
    }

    // --- counting pairs -------------------------------------------------------------------------

    // Choose the first threshold: an estimate of the count of the pair that will be merged last. If
    // it is too low, a few more pairs are kept; if it is too high, the pairs must be counted again.
    // If no pair occurs n times anymore, every word that occurs n times is a single token, which
    // took a merge. With as many such words as merges, n is therefore not too high. Nor is 3/2 n in
    // real text, where pairs occur in several words. A higher estimate, from a formula fitted to a
    // dozen corpora, is too high only if there are few cells for each merge.
    int64_t guess_threshold() const {
        int64_t occurrences = 0, most = 0;
        for (size_t i = 0; i < BytePairs::NUM_PAIRS; ++i) {
            occurrences += byte_pairs_[i].count;
            most = std::max(most, byte_pairs_[i].count);
        }
        const int64_t num_merges = options_.num_merges;
        int64_t guess = (3 * cells_.count_of_word(size_t(num_merges - 1)) + 1) / 2;
        if (int64_t(cells_.size() / CELLS_OF_A_MERGE) >= num_merges) {
            guess = std::max(guess, occurrences / 64 / num_merges);
        }
        return std::max(floor_, Policy::threshold(std::min(guess, most / 4)));
    }

    // Set the first threshold and index the byte pairs, which are already counted.
    void index_byte_pairs() {
        threshold_ = guess_threshold();
        pairs_.reserve(std::min(cells_.size(), 2 * size_t(options_.num_merges)));
        for (uint32_t i = 0; i < BytePairs::NUM_PAIRS; ++i) {
            if (byte_pairs_[i].count < threshold_) continue;
            const PairId id = pairs_.add(i >> 8, i & 255, byte_pairs_[i].count);
            pairs_[id].num_postings = byte_pairs_[i].num_occurrences;
        }
        for (Pair& pair : pairs_) pair.postings = postings_.allocate(pair.num_postings);
        run_parts(
            cells_.num_parts(), options_.keep_going,
            [&](size_t part, InterruptCheck interrupt) { write_byte_postings(part, interrupt); });
        byte_pairs_.clear();
        heap_.rebuild();
    }

    // Write the postings of the byte pairs in one part of the cells.
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

    // Lower the threshold, which no kept pair reaches anymore, and count the pairs again. Each
    // thread reads its parts of the cells three times: to find which pairs may reach the threshold,
    // to count these, and to write their postings.
    void count_pairs() {
        pairs_.clear();
        postings_.clear();
        const PairSums frequent = sum_pairs();
        const size_t num_parts = cells_.num_parts();
        std::vector<PairTable> counted(num_parts);
        each_part([&](size_t part, InterruptCheck& interrupt) {
            PairTable& found = counted[part];
            const auto count = [&](const PairOccurrence& at, PairId id) {
                if (id == NO_PAIR) id = found.find(at.key);  // it may have been added since
                if (id == NO_PAIR) id = found.add(uint32_t(at.key >> 32), uint32_t(at.key), 0);
                found[id].count += at.count;
                ++found[id].num_postings;
            };
            each_frequent(part, interrupt, frequent, found, count);
        });
        for (const PairTable& part : counted) {
            for (const Pair& pair : part) {
                const uint64_t key = PairTable::key_of(pair.left, pair.right);
                PairId id = pairs_.find(key);
                if (id == NO_PAIR) id = pairs_.add(pair.left, pair.right, 0);
                pairs_[id].count += pair.count;
                pairs_[id].num_postings += pair.num_postings;
            }
        }
        pairs_.remove_below(threshold_);

        // Every part writes its postings after the postings of the parts before it.
        for (Pair& pair : pairs_) {
            pair.postings = postings_.allocate(pair.num_postings);
            pair.num_postings = 0;
        }
        for (PairTable& part : counted) {
            for (Pair& pair : part) {
                const PairId id = pairs_.find(PairTable::key_of(pair.left, pair.right));
                if (id == NO_PAIR) continue;
                pair.postings = pairs_[id].postings + pairs_[id].num_postings;
                pairs_[id].num_postings += pair.num_postings;
            }
        }
        each_part([&](size_t part, InterruptCheck& interrupt) {
            PairTable& found = counted[part];
            const auto write = [&](const PairOccurrence& at, PairId id) {
                if (found[id].postings) *found[id].postings++ = at.position;
            };
            each_frequent(part, interrupt, frequent, found, write);
        });
        heap_.rebuild();
    }

    // Sum the counts of the pairs in a table without keys, and choose the threshold.
    PairSums sum_pairs() {
        const size_t num_parts = cells_.num_parts();
        const size_t num_wanted = size_t(options_.num_merges) - merges.size();
        std::vector<PairSums> sums(num_parts, PairSums(num_tokens_, num_wanted, num_parts));
        each_part([&](size_t part, InterruptCheck& interrupt) {
            PairSums& own = sums[part];
            own.start();
            cells_.for_each_pair(part, interrupt,
                                 [&](Position, Token left, Token right, int64_t count) {
                                     own.add(pairs_.hash(PairTable::key_of(left, right)), count);
                                 });
        });
        for (size_t part = 1; part < num_parts; ++part) sums[0].add_all(sums[part]);
        threshold_ = lower_threshold(sums[0]);
        sums[0].keep_reaching(threshold_);
        return std::move(sums[0]);
    }

    struct PairOccurrence {
        uint64_t key;
        int64_t count;
        Position position;
    };

    // Call function(occurrence, id in `table`) for all pairs in a part that may reach the
    // threshold, in order. Whether a pair does is unpredictable, and the table is larger than the
    // caches. Therefore, the occurrences are collected without a branch, and their entries are
    // prefetched.
    template <class Function>
    void each_frequent(size_t part, InterruptCheck& interrupt, const PairSums& frequent,
                       const PairTable& table, Function function) const {
        constexpr size_t GROUP = 64;
        PairOccurrence group[GROUP];
        PairId ids[GROUP];
        size_t size = 0;
        const auto finish_group = [&] {
            for (size_t i = 0; i < size; ++i) Policy::prefetch(table.slot_of(group[i].key));
            for (size_t i = 0; i < size; ++i) {
                ids[i] = table.find(group[i].key);
                if (ids[i] != NO_PAIR) Policy::prefetch(&table[ids[i]]);
            }
            for (size_t i = 0; i < size; ++i) function(group[i], ids[i]);
            size = 0;
        };
        cells_.for_each_pair(part, interrupt,
                             [&](Position p, Token left, Token right, int64_t count) {
                                 const uint64_t key = PairTable::key_of(left, right);
                                 group[size] = {key, count, p};
                                 size += frequent.may_reach_threshold(pairs_.hash(key));
                                 if (size == GROUP) finish_group();
                             });
        finish_group();
    }

    // The merges to learn are mostly pairs that are frequent now, and each merge makes others
    // rarer. Therefore, half the count of the pair whose rank is the number of merges is mostly
    // low enough.
    int64_t lower_threshold(const PairSums& sums) const {
        const int64_t guess = sums.of_rank(size_t(options_.num_merges) - merges.size()) / 2;
        return std::max(floor_, std::min({guess, threshold_ / 4, sums.most() / 4}));
    }

    template <class RunPart>
    void each_part(const RunPart& run_part) const {
        run_parts(cells_.num_parts(), options_.keep_going,
                  [&](size_t part, InterruptCheck interrupt) { run_part(part, interrupt); });
    }

    // --- merging --------------------------------------------------------------------------------

    void merge(PairId id) {
        const Pair pair = pairs_[id];
        const uint32_t a = pair.left, b = pair.right, ab = tokens_.add(a, b);
        cells_.add(a, b);
        before_.push_back(Neighbor{});
        after_.push_back(Neighbor{});
        merges.emplace_back(a, b);
        pairs_[id].count = 0;
        replace_in_cells(pair, ab);
        num_tokens_ -= num_occurrences_;
        postings_.release(pair.postings, pair.num_postings);

        // At every occurrence, (x, a) became (x, ab) and (b, y) became (ab, y). In "abab", merging
        // the first "ab" creates (ab, a), and merging the second turns this pair into (ab, ab). At
        // the second occurrence, x is ab, so `removed` is subtracted from the count of (ab, a).
        const size_t first_new = pairs_.size();
        const int64_t removed = before_[ab].count;
        size_t num_postings = 0;
        num_updates_ = int64_t(2 * (touched_before_.size() + touched_after_.size()));
        const auto keep = [&](uint32_t left, uint32_t right, int64_t count, Neighbor& neighbor) {
            neighbor.cursor = NO_CURSOR;
            if (count < threshold_) return;
            pairs_[pairs_.add(left, right, count)].num_postings = neighbor.num_occurrences;
            neighbor.cursor = uint32_t(num_postings);
            num_postings += neighbor.num_occurrences;
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
        for (const Token x : touched_before_) before_[x] = Neighbor{};
        for (const Token y : touched_after_) after_[y] = Neighbor{};
    }

    // Replace every occurrence of the pair with token `ab`. Record the occurrences, and sum their
    // counts by neighbor. Prefetch the slots of the pairs that become rarer.
    void replace_in_cells(const Pair& pair, uint32_t ab) {
        constexpr uint32_t AHEAD = 24;  // postings; hides the memory latency
        constexpr uint32_t GROUP = 64;  // postings whose neighbors are prefetched together
        const uint32_t num_prefetched = pair.num_postings > AHEAD ? pair.num_postings - AHEAD : 0;
        const uint32_t a = pair.left, b = pair.right;
        const Position width_a = cells_.width(a), width_b = cells_.width(b);
        const Position* postings = pair.postings;
        Token* cells = cells_.data();
        Neighbor* before = before_.data();
        Neighbor* after = after_.data();
        InterruptCheck interrupt = interrupt_check();
        if (occurrences_.size() < pair.num_postings) occurrences_.resize(pair.num_postings);
        Occurrence* const occurrences = occurrences_.data();
        size_t num_occurrences = 0;
        touched_before_.clear();
        touched_after_.clear();
        for (uint32_t i = 0; i < std::min(AHEAD, pair.num_postings); ++i) {
            Policy::prefetch(cells + postings[i]);
        }
        size_t run = cells_.run_of(postings[0]);
        for (uint32_t first = 0; first < pair.num_postings; first += GROUP) {
            interrupt.at(first);
            const size_t first_merged = num_occurrences;
            const uint32_t stop = std::min(first + GROUP, pair.num_postings);
            for (uint32_t i = first; i < stop; ++i) {
                if (i < num_prefetched) Policy::prefetch(cells + postings[i + AHEAD]);
                const Position p = postings[i], q = p + width_a, end = q + width_b;
                if (cells[p] != a || cells[q] != b) continue;  // stale
                const Token x = cells[p - 1], y = cells[end];
                cells[q] = NO_TOKEN;
                cells[p] = cells[end - 1] = Token(ab);
                occurrences[num_occurrences++] = {p, x, y};
                prefetch_neighbor(before, x);
                prefetch_neighbor(after, y);
            }
            for (size_t i = first_merged; i < num_occurrences; ++i) {
                const auto [p, x, y] = occurrences[i];
                if (p >= cells_.run_start(run + 1)) run = cells_.run_of(p, run + 1);
                const int64_t count = cells_.run_count(run);
                if (x != NO_TOKEN) {
                    if (!before[x].num_occurrences++) {
                        touched_before_.push_back(x);
                        Policy::prefetch(pairs_.slot_of(PairTable::key_of(x, a)));
                    }
                    before[x].count += count;
                }
                if (y != NO_TOKEN) {
                    if (!after[y].num_occurrences++) {
                        touched_after_.push_back(y);
                        Policy::prefetch(pairs_.slot_of(PairTable::key_of(b, y)));
                    }
                    after[y].count += count;
                }
            }
        }
        num_occurrences_ = num_occurrences;
    }

    // `token` may be NO_TOKEN: prefetching any address is harmless, and a branch would take longer.
    static void prefetch_neighbor(const Neighbor* neighbors, Token token) {
        const auto start = reinterpret_cast<uintptr_t>(neighbors);
        Policy::prefetch(reinterpret_cast<const void*>(start + size_t{token} * sizeof(Neighbor)));
    }

    // Write the postings of the pairs from `first_new` on, and push these pairs onto the heap.
    void write_postings(size_t first_new, size_t num_postings) {
        Position* const postings = postings_.allocate(num_postings);
        Position* next = postings;
        for (size_t id = first_new; id < pairs_.size(); ++id) {
            pairs_[id].postings = next;
            next += pairs_[id].num_postings;
            heap_.push(PairId(id));
        }
        for (size_t i = 0; i < num_occurrences_; ++i) {
            const Occurrence& merged = occurrences_[i];
            if (merged.before != NO_TOKEN && before_[merged.before].cursor != NO_CURSOR) {
                postings[before_[merged.before].cursor++] =
                    merged.position - cells_.width(merged.before);
            }
            if (merged.after != NO_TOKEN && after_[merged.after].cursor != NO_CURSOR) {
                postings[after_[merged.after].cursor++] = merged.position;
            }
        }
    }

    // For every neighboring token except `skip`, subtract the merged occurrences from the count of
    // the pair `old_key(token)`, whose slot `replace_in_cells` prefetched. `new_key(token)` is the
    // pair that replaces it. The pairs are prefetched too, because the table is far larger than the
    // caches.
    template <class OldKey, class NewKey>
    void decrease(const std::vector<Token>& touched, const std::vector<Neighbor>& neighbors,
                  Token skip, OldKey old_key, NewKey new_key) {
        found_.clear();
        for (const Token token : touched) {
            const PairId id = token == skip ? NO_PAIR : pairs_.find(old_key(token));
            if (id != NO_PAIR) Policy::prefetch(&pairs_[id]);
            found_.push_back(id);
        }
        for (size_t i = 0; i < touched.size(); ++i) {
            const int64_t count = neighbors[touched[i]].count;
            if (found_[i] != NO_PAIR) pairs_[found_[i]].count -= count;
            if (count >= threshold_) Policy::prefetch(pairs_.slot_of(new_key(touched[i])));
        }
    }

    const MergeOptions options_;
    const int64_t floor_;
    int64_t threshold_ = std::numeric_limits<int64_t>::max();
    int64_t num_updates_ = 0;      // pair counts that the last merge changed; for the trace
    double seconds_untraced_ = 0;  // counting time since the last merge

    TokenBytes tokens_;
    BytePairs byte_pairs_;  // emptied when the pairs are added to pairs_
    WordCells<Token, Policy> cells_;
    size_t num_tokens_;  // in the cells, including word ends
    PairTable pairs_;
    PostingPool postings_;
    PairHeap heap_;

    // Scratch arrays of `merge`: the changes for tokens before and after the pair, by token id.
    std::vector<Neighbor> before_, after_;
    std::vector<Token> touched_before_, touched_after_;
    std::vector<Occurrence> occurrences_;  // of the merged pair: the first num_occurrences_
    size_t num_occurrences_ = 0;
    std::vector<PairId> found_;
};

// Return a merge loop with the narrowest token ids that fit all merges. Throws std::overflow_error
// if the words have too many bytes, or Cancelled if keep_going returns false.
inline std::unique_ptr<MergeLoop> make_merge_loop(const uint8_t* data, const int64_t* offsets,
                                                  const int64_t* counts, int64_t num_words,
                                                  const MergeOptions& options) {
    if (int64_t(options.start_tokens.size()) + options.num_merges < 65535 - 256) {
        return std::make_unique<FlatMergeLoop<uint16_t>>(data, offsets, counts, num_words, options);
    }
    return std::make_unique<FlatMergeLoop<uint32_t>>(data, offsets, counts, num_words, options);
}

}  // namespace cs336

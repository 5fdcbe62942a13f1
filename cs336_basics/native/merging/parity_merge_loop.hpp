// The merge loop of parity-aware BPE (Foroutan et al. 2025, arXiv 2508.04796), which learns merges
// from several sources. `specified_parity` in bpe/parity.py defines the result.
//
// The loop resembles FlatMergeLoop; read flat_merge_loop.hpp first. There are three differences:
//
// 1. A pair has a count for each source, and each source has its own heap and its own threshold. A
//    pair is kept if it reaches the threshold of any source. A further column contains the sums, if
//    merges are chosen by them at first.
//
// 2. The held-out words are laid out behind the words of the sources. They add nothing to the
//    counts, but a merge visits them as well, and each occurrence shortens the held-out text.
//
// 3. The source with the worst compression of its held-out text chooses the next pair.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/compiler.hpp"
#include "base/failure.hpp"
#include "base/hashing.hpp"
#include "base/interrupt.hpp"
#include "merging/merge_loop.hpp"
#include "merging/pair_heap.hpp"
#include "merging/pair_table.hpp"
#include "merging/postings.hpp"
#include "merging/starting_merges.hpp"
#include "merging/token_bytes.hpp"

namespace cs336 {

struct ParityOptions {
    // The words of source s have the indices [first_words[s], first_words[s + 1]), and its held-out
    // words [first_words[n + s], first_words[n + s + 1]), for n sources.
    std::vector<int64_t> first_words;
    std::vector<int64_t> sizes;    // of the held-out texts, in the unit of compression
    std::vector<int64_t> lengths;  // of the held-out texts, in bytes
    int64_t window = 0;            // the number of choices to look back at; 0: none
    int64_t most_in_window = 0;    // a source with more choices among them must wait
    int64_t global_merges = 0;     // the number of merges to choose by the sums
};

// Compares sizes[s] / lengths[s], which are exact fractions.
inline int compare_products(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {  // a * b, c * d
#if defined(__SIZEOF_INT128__)
    const auto left = static_cast<unsigned __int128>(a) * b;
    const auto right = static_cast<unsigned __int128>(c) * d;
    return (left > right) - (left < right);
#else
    const auto product = [](uint64_t x, uint64_t y) {
        const uint64_t x0 = uint32_t(x), x1 = x >> 32, y0 = uint32_t(y), y1 = y >> 32;
        const uint64_t middle = x1 * y0 + (x0 * y0 >> 32);
        const uint64_t middle2 = x0 * y1 + uint32_t(middle);
        return std::make_pair(x1 * y1 + (middle >> 32) + (middle2 >> 32), x * y);
    };
    const auto left = product(a, b), right = product(c, d);
    return (left > right) - (left < right);
#endif
}

class ParityMergeLoop final : public MergeLoop {
  public:
    static constexpr int32_t SUM = -1;  // chosen by the sums, not by a source

    std::vector<int32_t> served;  // the source that chose each merge, or SUM

    // The words are the same as for FlatMergeLoop, in the order of `parity.first_words`. Throws
    // std::overflow_error or Cancelled.
    ParityMergeLoop(const uint8_t* data, const int64_t* offsets, const int64_t* counts,
                    const MergeOptions& options, const ParityOptions& parity)
        : options_(options),
          parity_(parity),
          num_sources_(parity.sizes.size()),
          num_columns_(num_sources_ + (parity.global_merges > 0)),
          floor_(std::max<int64_t>(1, options.min_frequency)),
          tokens_(options.byte_ranks),
          thresholds_(num_columns_, std::numeric_limits<int64_t>::max()),
          is_exhausted_(num_sources_, 0),
          in_window_(num_sources_, 0) {
        lay_out(data, offsets, counts);
        if (!options.start_tokens.empty()) merge_words();
        resize_scratch();
        for (size_t column = 0; column < num_columns_; ++column) {
            heaps_.emplace_back(pairs_, tokens_, ColumnCounts{counts_, num_columns_, column});
        }
    }

    bool run(double seconds) override {
        double start = seconds_now();
        const double deadline = start + seconds;
        seconds_counting = seconds_finding = seconds_updating = 0;
        while (int64_t(merges.size()) < options_.num_merges) {
            if (column_ == NO_COLUMN && !choose_column()) return false;
            const PairId best = heaps_[column_].pop_best(thresholds_[column_]);
            const double found = seconds_now();
            seconds_finding += found - start;
            if (best == NO_PAIR) {
                if (thresholds_[column_] > floor_) {
                    count_pairs();
                } else if (column_ == num_sources_) {
                    return false;  // no source has a pair
                } else {
                    is_exhausted_[column_] = 1;
                    column_ = NO_COLUMN;
                }
                start = seconds_now();
                seconds_counting += start - found;
            } else if (refused(best)) {
                start = seconds_now();
                seconds_finding += start - found;
            } else {
                served.push_back(column_ == num_sources_ ? SUM : int32_t(column_));
                column_ = NO_COLUMN;
                merge(best);
                const double end = seconds_now();
                seconds_updating += end - found;
                start = end;
            }
            if (start >= deadline) return true;
        }
        return false;
    }

  private:
    using Token = uint32_t;
    static constexpr Token NO_TOKEN = UINT32_MAX;
    static constexpr uint32_t NO_CURSOR = UINT32_MAX;
    static constexpr size_t NO_COLUMN = SIZE_MAX;

    // Words of one source, or held-out words of one source, with equal counts.
    struct Run {
        Position start;
        uint32_t region;  // of source s: s for its words, and n + s for its held-out words
        int64_t count;
    };
    struct Neighbor {
        uint32_t num_occurrences, cursor;
    };
    struct Occurrence {
        Position position;
        Token before, after;
    };
    // The counts of one source.
    struct ColumnCounts {
        const std::vector<int64_t>& counts;
        size_t num_columns, column;
        int64_t operator()(PairId id) const { return counts[id * num_columns + column]; }
    };

    int64_t& count_of(PairId id, size_t column) { return counts_[id * num_columns_ + column]; }

    bool refused(PairId id) {
        if (!options_.refuse) return false;
        const int answer = options_.refuse(options_.rules, tokens_.bytes(pairs_[id].left),
                                           tokens_.bytes(pairs_[id].right), count_of(id, column_));
        if (answer < 0) throw Cancelled();
        return answer > 0;
    }

    InterruptCheck interrupt_check() const { return InterruptCheck(options_.keep_going); }

    // --- choosing a source ----------------------------------------------------------------------

    // Set the column whose most frequent pair is merged next. Returns false if all sources are
    // exhausted.
    bool choose_column() {
        if (!sums_are_done()) {
            column_ = num_sources_;
            return true;
        }
        size_t worst = NO_COLUMN, worst_waiting = NO_COLUMN;
        for (size_t source = 0; source < num_sources_; ++source) {
            if (is_exhausted_[source]) continue;
            const bool waits = parity_.window && in_window_[source] > parity_.most_in_window;
            size_t& other = waits ? worst_waiting : worst;
            if (other == NO_COLUMN || is_worse(source, other)) other = source;
        }
        column_ = worst == NO_COLUMN ? worst_waiting : worst;
        if (column_ == NO_COLUMN) return false;
        if (parity_.window) {
            window_.push_back(column_);
            ++in_window_[column_];
            if (int64_t(window_.size()) > parity_.window) {
                --in_window_[window_.front()];
                window_.pop_front();
            }
        }
        return true;
    }

    // Whether the sums choose no more merges.
    bool sums_are_done() const { return int64_t(merges.size()) >= parity_.global_merges; }

    // Whether the held-out text of a source is compressed worse than that of another one.
    bool is_worse(size_t source, size_t other) const {
        return compare_products(parity_.sizes[source], parity_.lengths[other], parity_.sizes[other],
                                parity_.lengths[source]) < 0;
    }

    // --- layout ---------------------------------------------------------------------------------

    void lay_out(const uint8_t* data, const int64_t* offsets, const int64_t* counts) {
        const std::vector<int64_t>& first_words = parity_.first_words;
        uint64_t num_cells = 1;
        for (int64_t i = first_words.front(); i < first_words.back(); ++i) {
            const int64_t length = offsets[i + 1] - offsets[i];
            if (length >= 2) num_cells += uint64_t(length + 1);
        }
        if (num_cells >= std::numeric_limits<Position>::max()) {
            throw std::overflow_error(
                "the total length of the distinct words must be less than 4 GiB; drop the rarest "
                "words, or use a split pattern that produces shorter words");
        }
        cells_.reserve(num_cells);
        ask_for_huge_pages(cells_.data(), num_cells * sizeof(Token));
        cells_.push_back(NO_TOKEN);
        std::vector<uint32_t> words;
        InterruptCheck interrupt = interrupt_check();
        for (size_t region = 0; region + 1 < first_words.size(); ++region) {
            words.clear();
            for (int64_t i = first_words[region]; i < first_words[region + 1]; ++i) {
                if (offsets[i + 1] - offsets[i] >= 2) words.push_back(uint32_t(i));
            }
            std::sort(words.begin(), words.end(), [&](uint32_t a, uint32_t b) {
                return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
            });
            for (const uint32_t word : words) {
                interrupt.at(cells_.size());
                if (runs_.empty() || runs_.back().region != region ||
                    runs_.back().count != counts[word]) {
                    runs_.push_back({Position(cells_.size()), uint32_t(region), counts[word]});
                }
                cells_.insert(cells_.end(), data + offsets[word], data + offsets[word + 1]);
                cells_.push_back(NO_TOKEN);
            }
        }
        runs_.push_back({std::numeric_limits<Position>::max(), 0, 0});
    }

    // Apply the merges of the existing vocabulary.
    void merge_words() {
        for (const std::string& token : options_.start_tokens) tokens_.add(token);
        StartingMerges merger(options_.start_merges);
        std::vector<uint8_t> bytes;
        std::vector<uint32_t> merged;
        InterruptCheck interrupt = interrupt_check();
        size_t run = 0;
        for (size_t first = 1, end; first < cells_.size(); first = end + 1) {
            interrupt.at(first);
            while (first >= runs_[run + 1].start) ++run;
            bytes.clear();
            for (end = first; cells_[end] != NO_TOKEN; ++end) {
                bytes.push_back(uint8_t(cells_[end]));
            }
            merged.resize(bytes.size());
            const size_t num_tokens =
                size_t(merger.merge(bytes.data(), bytes.size(), merged.data()));
            shorten(runs_[run], int64_t(bytes.size() - num_tokens));
            std::fill(cells_.begin() + first, cells_.begin() + end, NO_TOKEN);
            size_t position = first;
            for (size_t i = 0; i < num_tokens; ++i) {
                const size_t length = tokens_.length(merged[i]);
                cells_[position] = cells_[position + length - 1] = merged[i];
                position += length;
            }
        }
    }

    // Subtract the tokens that merges removed in each word of a run.
    void shorten(const Run& run, int64_t num_removed) {
        if (run.region >= num_sources_) {
            parity_.lengths[run.region - num_sources_] -= num_removed * run.count;
        }
    }

    // --- counting pairs -------------------------------------------------------------------------

    // Lower the thresholds that no pair reaches anymore, and count the pairs again.
    void count_pairs() {
        pairs_.clear();
        counts_.clear();
        postings_.clear();

        // Count in tables without keys first; see FlatMergeLoop::count_pairs.
        int bits = 16;
        while (bits < 22 && (size_t{1} << bits) < cells_.size() / 2) ++bits;
        while (bits > 12 && (num_columns_ << bits) > size_t{1} << 26) --bits;
        std::vector<int64_t> sums(num_columns_ << bits);
        const auto slot = [&](uint64_t key) {
            return &sums[(pairs_.hash(key) >> (64 - bits)) * num_columns_];
        };
        for_each_pair([&](Position, uint64_t key, const Run& run) { add(slot(key), run); });
        std::vector<int64_t> most(num_columns_, 0), total(num_columns_, 0);
        for (size_t i = 0; i < sums.size(); ++i) {
            int64_t& largest = most[i % num_columns_];
            largest = std::max(largest, sums[i]);
            total[i % num_columns_] += sums[i];
        }
        for (size_t column = 0; column < num_columns_; ++column) {
            if (column == num_sources_ && sums_are_done()) {
                thresholds_[column] = std::numeric_limits<int64_t>::max();
                continue;
            }
            // The other columns may have enough pairs.
            if (column != column_ && most[column] / 4 >= thresholds_[column]) continue;
            thresholds_[column] = lower_threshold(thresholds_[column], most[column], total[column]);
        }
        std::vector<uint8_t> is_kept(size_t{1} << bits);
        for (size_t i = 0; i < is_kept.size(); ++i) {
            is_kept[i] = reaches_threshold(&sums[i * num_columns_]);
        }
        const auto may_be_kept = [&](uint64_t key) {
            return is_kept[pairs_.hash(key) >> (64 - bits)] != 0;
        };

        for_each_pair([&](Position, uint64_t key, const Run& run) {
            if (!may_be_kept(key)) return;
            PairId id = pairs_.find(key);
            if (id == NO_PAIR) id = add_pair(key);
            add(&counts_[id * num_columns_], run);
            ++pairs_[id].num_postings;
        });
        size_t num_kept = 0;
        for (size_t id = 0; id < pairs_.size(); ++id) {
            const int64_t* const row = &counts_[id * num_columns_];
            pairs_[id].count = reaches_threshold(row);
            if (!pairs_[id].count) continue;
            std::copy(row, row + num_columns_, &counts_[num_kept++ * num_columns_]);
        }
        counts_.resize(num_kept * num_columns_);
        pairs_.remove_below(1);

        for (Pair& pair : pairs_) {
            pair.postings = postings_.allocate(pair.num_postings);
            pair.num_postings = 0;
        }
        for_each_pair([&](Position p, uint64_t key, const Run&) {
            if (!may_be_kept(key)) return;
            const PairId id = pairs_.find(key);
            if (id != NO_PAIR) pairs_[id].postings[pairs_[id].num_postings++] = p;
        });
        for (Heap& heap : heaps_) heap.rebuild();
    }

    PairId add_pair(uint64_t key) {
        const PairId id = pairs_.add(uint32_t(key >> 32), uint32_t(key), 0);
        counts_.resize(counts_.size() + num_columns_);
        return id;
    }

    bool reaches_threshold(const int64_t* counts) const {
        for (size_t column = 0; column < num_columns_; ++column) {
            if (counts[column] >= thresholds_[column]) return true;
        }
        return false;
    }

    // The next threshold of a column. `most` is at least the count of any pair, and `total` is the
    // sum of all counts.
    int64_t lower_threshold(int64_t threshold, int64_t most, int64_t total) const {
        if (threshold <= floor_) return threshold;
        if (threshold == std::numeric_limits<int64_t>::max()) {
            const int64_t guess = total / 64 / num_all_merges();
            return std::max(floor_, std::min(guess, most / 4));
        }
        return std::max(floor_, std::min(threshold / 4, most / 4));
    }

    int64_t num_all_merges() const {
        return int64_t(options_.start_tokens.size()) + options_.num_merges;
    }

    // Add the count of a run to a row of counts. Held-out words add nothing.
    void add(int64_t* row, const Run& run) const {
        if (run.region >= num_sources_) return;
        row[run.region] += run.count;
        if (num_columns_ > num_sources_) row[num_sources_] += run.count;
    }

    // Call function(position, key, run) for all pairs.
    template <class Function>
    void for_each_pair(Function function) const {
        InterruptCheck interrupt = interrupt_check();
        size_t run = 0;
        Position p = 1;
        while (p < cells_.size()) {
            while (p >= runs_[run + 1].start) ++run;
            Token left = cells_[p], right;
            Position q = p + tokens_.length(left);
            while ((right = cells_[q]) != NO_TOKEN) {
                interrupt.at(p);
                function(p, PairTable::key_of(left, right), runs_[run]);
                p = q;
                left = right;
                q += tokens_.length(right);
            }
            p = q + 1;
        }
    }

    // --- merging; see FlatMergeLoop -------------------------------------------------------------

    void merge(PairId id) {
        const Pair pair = pairs_[id];
        const uint32_t a = pair.left, b = pair.right, ab = tokens_.add(a, b);
        resize_scratch();
        merges.emplace_back(a, b);
        for (size_t column = 0; column < num_columns_; ++column) count_of(id, column) = 0;
        replace_in_cells(pair, ab);
        postings_.release(pair.postings, pair.num_postings);

        const size_t first_new = pairs_.size();
        const std::vector<int64_t> removed(row_of(before_counts_, ab),
                                           row_of(before_counts_, ab) + num_columns_);
        size_t num_postings = 0;
        const auto keep = [&](uint32_t left, uint32_t right, const int64_t* row,
                              Neighbor& neighbor) {
            neighbor.cursor = NO_CURSOR;
            if (!reaches_threshold(row)) return;
            const PairId added = add_pair(PairTable::key_of(left, right));
            std::copy(row, row + num_columns_, &counts_[added * num_columns_]);
            pairs_[added].num_postings = neighbor.num_occurrences;
            neighbor.cursor = uint32_t(num_postings);
            num_postings += neighbor.num_occurrences;
        };
        for (const Token x : touched_before_) {
            if (x != ab) decrease(PairTable::key_of(x, a), row_of(before_counts_, x));
        }
        for (const Token x : touched_before_) {
            keep(x, ab, row_of(before_counts_, x), before_[x]);
        }
        for (const Token y : touched_after_) {
            if (a != b || y != a) decrease(PairTable::key_of(b, y), row_of(after_counts_, y));
        }
        for (const Token y : touched_after_) {
            int64_t* const row = row_of(after_counts_, y);
            if (y == a) {
                for (size_t column = 0; column < num_columns_; ++column) {
                    row[column] -= removed[column];
                }
            }
            keep(ab, y, row, after_[y]);
        }
        if (num_postings) write_postings(first_new, num_postings);
        for (const Token x : touched_before_) {
            before_[x] = Neighbor{};
            std::fill_n(row_of(before_counts_, x), num_columns_, 0);
        }
        for (const Token y : touched_after_) {
            after_[y] = Neighbor{};
            std::fill_n(row_of(after_counts_, y), num_columns_, 0);
        }
    }

    void replace_in_cells(const Pair& pair, uint32_t ab) {
        constexpr uint32_t AHEAD = 24;  // postings; hides the memory latency
        const uint32_t a = pair.left, b = pair.right;
        const Position length_a = tokens_.length(a), length_b = tokens_.length(b);
        const Position* postings = pair.postings;
        Token* const cells = cells_.data();
        InterruptCheck interrupt = interrupt_check();
        occurrences_.clear();
        touched_before_.clear();
        touched_after_.clear();
        if (!pair.num_postings) return;
        const auto run_of = [&](Position position, size_t first) {
            return size_t(
                std::upper_bound(runs_.begin() + first, runs_.end(), position,
                                 [](Position p, const Run& run) { return p < run.start; }) -
                runs_.begin() - 1);
        };
        size_t run = run_of(postings[0], 0);
        for (uint32_t i = 0; i < pair.num_postings; ++i) {
            interrupt.at(i);
            if (i + AHEAD < pair.num_postings) CS336_PREFETCH(cells + postings[i + AHEAD]);
            const Position p = postings[i], q = p + length_a, end = q + length_b;
            if (cells[p] != a || cells[q] != b) continue;  // stale
            const Token x = cells[p - 1], y = cells[end];
            cells[q] = NO_TOKEN;
            cells[p] = cells[end - 1] = ab;
            occurrences_.push_back({p, x, y});
            if (p >= runs_[run + 1].start) run = run_of(p, run + 1);
            shorten(runs_[run], 1);
            if (x != NO_TOKEN) {
                if (!before_[x].num_occurrences++) touched_before_.push_back(x);
                add(row_of(before_counts_, x), runs_[run]);
            }
            if (y != NO_TOKEN) {
                if (!after_[y].num_occurrences++) touched_after_.push_back(y);
                add(row_of(after_counts_, y), runs_[run]);
            }
        }
    }

    // Write the postings of the pairs from `first_new` on, and push these pairs onto the heaps.
    void write_postings(size_t first_new, size_t num_postings) {
        Position* const postings = postings_.allocate(num_postings);
        Position* next = postings;
        for (size_t id = first_new; id < pairs_.size(); ++id) {
            pairs_[id].postings = next;
            next += pairs_[id].num_postings;
            for (size_t column = 0; column < num_columns_; ++column) {
                if (count_of(PairId(id), column) >= thresholds_[column]) {
                    heaps_[column].push(PairId(id));
                }
            }
        }
        for (const Occurrence& merged : occurrences_) {
            if (merged.before != NO_TOKEN && before_[merged.before].cursor != NO_CURSOR) {
                postings[before_[merged.before].cursor++] =
                    merged.position - tokens_.length(merged.before);
            }
            if (merged.after != NO_TOKEN && after_[merged.after].cursor != NO_CURSOR) {
                postings[after_[merged.after].cursor++] = merged.position;
            }
        }
    }

    // Subtract a row from the counts of a pair, if it is kept.
    void decrease(uint64_t key, const int64_t* row) {
        const PairId id = pairs_.find(key);
        if (id == NO_PAIR) return;
        for (size_t column = 0; column < num_columns_; ++column) {
            count_of(id, column) -= row[column];
        }
    }

    int64_t* row_of(std::vector<int64_t>& counts, Token token) {
        return &counts[size_t{token} * num_columns_];
    }

    void resize_scratch() {
        before_.resize(tokens_.size());
        after_.resize(tokens_.size());
        before_counts_.resize(tokens_.size() * num_columns_);
        after_counts_.resize(tokens_.size() * num_columns_);
    }

    using Heap = PairHeapOf<ColumnCounts>;

    const MergeOptions options_;
    ParityOptions parity_;  // with the current lengths
    const size_t num_sources_, num_columns_;
    const int64_t floor_;

    TokenBytes tokens_;
    std::vector<Token> cells_;
    std::vector<Run> runs_;  // and one behind all positions
    PairTable pairs_;
    std::vector<int64_t> counts_;  // pair -> count in each column
    PostingPool postings_;
    std::deque<Heap> heaps_;  // of the columns; they cannot be moved
    std::vector<int64_t> thresholds_;
    size_t column_ = NO_COLUMN;  // the column that chooses the next pair
    std::vector<uint8_t> is_exhausted_;
    std::deque<size_t> window_;
    std::vector<int64_t> in_window_;

    // Scratch arrays of `merge`, by token id.
    std::vector<Neighbor> before_, after_;
    std::vector<int64_t> before_counts_, after_counts_;
    std::vector<Token> touched_before_, touched_after_;
    std::vector<Occurrence> occurrences_;
};

}  // namespace cs336

// WordCells: one array of cells that stores all words during training.
//
// There is one cell for each symbol that a word starts with, and a NO_TOKEN cell between words. The
// symbols are bytes, or tokens of an existing vocabulary. A token is written in its first and last
// cells, so that both of its neighbors can be found without links, however long the word is:
//
//     position   0   1   2   3   4   5   6        (the word "lower" after the merges
//     cell       -   l   ow  ow  er  er  -         o+w and e+r; l is a token of one cell)
//
// The token that starts at p ends before p + width, its number of cells; the token before it ends
// in cell p - 1. A merge overwrites the first cells of both of its tokens. The left cell becomes
// the new token. The right cell becomes NO_TOKEN or, if the right token has one cell, also the new
// token. The two cells therefore show whether a posting is stale.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/compiler.hpp"
#include "base/interrupt.hpp"
#include "base/memory.hpp"
#include "base/run_parts.hpp"
#include "merging/byte_pairs.hpp"
#include "merging/merge_policy.hpp"
#include "merging/postings.hpp"
#include "merging/starting_symbols.hpp"

namespace cs336 {

// The words with at least one pair. Word i is data[offsets[i]:offsets[i + 1]] and occurs counts[i]
// times. The most frequent words come first. Consecutive words with equal counts form a run. A walk
// over ascending positions finds the count at each position by advancing the run. For `Policy`, see
// merge_policy.hpp.
template <class Token, class Policy = MergePolicy>
class WordCells {
  public:
    static constexpr Token NO_TOKEN = static_cast<Token>(-1);

    // Lay out the words and count their byte pairs, using up to `num_threads` threads. The arrays
    // are not needed afterwards. Throws std::overflow_error or Cancelled.
    WordCells(const uint8_t* data, const int64_t* offsets, const int64_t* counts, int64_t num_words,
              size_t num_threads, InterruptCheck::KeepGoing keep_going, BytePairs& byte_pairs)
        : widths_(256, 1), num_starting_(256) {
        reserve(offsets, counts, num_words);
        cells_[0] = NO_TOKEN;
        const std::vector<uint32_t> words = words_by_count(offsets, counts, num_words);
        const Layout layout{data, offsets, counts, words.data()};
        const size_t num_parts = std::max<size_t>(
            1, std::min({num_threads, MAX_THREADS, cells_.size() / CELLS_OF_A_THREAD}));
        const auto first_word = [&](size_t part) { return words.size() * part / num_parts; };
        for (size_t part = 0, position = 1; part < num_parts; ++part) {
            part_starts_.push_back(Position(position));
            if (part + 1 == num_parts) break;
            for (size_t k = first_word(part); k < first_word(part + 1); ++k) {
                position += size_t(layout.length(k) + 1);
            }
        }
        part_starts_.push_back(Position(cells_.size()));
        std::vector<Runs> runs(num_parts);
        byte_pairs.start(num_parts);
        run_parts(num_parts, keep_going, [&](size_t part, InterruptCheck interrupt) {
            byte_pairs.part(part).resize(BytePairs::NUM_PAIRS);
            lay_out(layout, first_word(part), first_word(part + 1), part_starts_[part], interrupt,
                    byte_pairs.part(part), runs[part]);
        });
        byte_pairs.add_up();
        for (const Runs& part : runs) append(part, 0);
        run_starts_.push_back(std::numeric_limits<Position>::max());
    }

    // Lay out the symbols of the words after the merges of an existing vocabulary with `num_tokens`
    // tokens. Throws std::overflow_error, std::length_error or Cancelled.
    WordCells(const uint8_t* data, const int64_t* offsets, const int64_t* counts, int64_t num_words,
              size_t num_threads, InterruptCheck::KeepGoing keep_going,
              const StartingSymbols<Token>& symbols, size_t num_tokens)
        : widths_(num_tokens, 1), num_starting_(num_tokens) {
        const std::vector<uint32_t> words = words_by_count(offsets, counts, num_words);
        const Layout layout{data, offsets, counts, words.data()};
        std::vector<size_t> first_words;  // of each chunk, and the number of words
        for (size_t k = 0, size = CHUNK_SIZE; k < words.size(); ++k) {
            if (size >= CHUNK_SIZE) {
                first_words.push_back(k);
                size = 0;
            }
            size += size_t(layout.length(k)) + 1;
        }
        const size_t num_chunks = first_words.size();
        first_words.push_back(words.size());
        const size_t threads =
            std::max<size_t>(1, std::min({num_threads, MAX_THREADS, num_chunks}));
        std::vector<std::unique_ptr<Worker>> workers(threads);
        std::vector<Chunk> chunks(num_chunks);
        run_tasks(threads, num_chunks, keep_going, [&](size_t thread, size_t i, InterruptCheck) {
            if (!workers[thread]) workers[thread] = std::make_unique<Worker>(symbols);
            merge_words(layout, first_words[i], first_words[i + 1], data + offsets[num_words],
                        *workers[thread], chunks[i]);
        });
        workers.clear();
        append_chunks(chunks, threads);
    }

    size_t size() const { return cells_.size(); }

    // The parts of the cells, one for each thread. Part i ends at the start of part i + 1.
    size_t num_parts() const { return part_starts_.size() - 1; }
    Position part_start(size_t part) const { return part_starts_[part]; }

    Token* data() { return cells_.data(); }
    const Token* data() const { return cells_.data(); }

    // The run of equal counts that contains a position; the search starts at run `first`.
    size_t run_of(Position position, size_t first = 0) const {
        return std::upper_bound(run_starts_.begin() + first, run_starts_.end(), position) -
               run_starts_.begin() - 1;
    }
    Position run_start(size_t run) const { return run_starts_[run]; }
    int64_t run_count(size_t run) const { return run_counts_[run]; }

    // The count of the word with an index, in layout order; 0 if there are fewer words.
    int64_t count_of_word(size_t index) const {
        for (Position p = 1; p < cells_.size(); ++p) {
            if (cells_[p] == NO_TOKEN && index-- == 0) return run_count(run_of(p));
        }
        return 0;
    }

    // The number of cells of a token.
    Position width(uint32_t token) const { return widths_[token]; }
    // Add the next token.
    void add(uint32_t left, uint32_t right) { widths_.push_back(widths_[left] + widths_[right]); }

    // Call function(position, left, right, count of the word) for all pairs of neighboring tokens
    // in a part.
    template <class Function>
    void for_each_pair(size_t part, InterruptCheck& interrupt, Function function) const {
        // Before the first merge, no cell waits for the width of the token before it.
        if (widths_.size() == num_starting_) {
            for_each_pair(part, interrupt, function, [](Token) { return Position{1}; });
        } else {
            const uint32_t* const widths = widths_.data();
            for_each_pair(part, interrupt, function, [=](Token token) { return widths[token]; });
        }
    }

  private:
    using Worker = typename StartingSymbols<Token>::Worker;

    // A thread starts in about 50 microseconds and lays out this many cells in a millisecond.
    static constexpr size_t CELLS_OF_A_THREAD = size_t{1} << 18;
    static constexpr size_t MAX_THREADS = 64;  // each has a 1 MiB array of counts

    template <class Function, class Width>
    CS336_INLINE void for_each_pair(size_t part, InterruptCheck& interrupt, Function& function,
                                    Width width) const {
        const Token* const cells = cells_.data();
        Position p = part_starts_[part];
        const Position stop = part_starts_[part + 1];
        size_t run = p < stop ? run_of(p) : 0;
        while (p < stop) {
            while (p >= run_starts_[run + 1]) ++run;
            const int64_t count = run_counts_[run];
            interrupt.at(p);
            Token left = cells[p], right;
            Position q = p + width(left);
            while ((right = cells[q]) != NO_TOKEN) {
                function(p, left, right, count);
                p = q;
                left = right;
                q += width(right);
                if ((p & 0xFFFFF) == 0) interrupt.at(p);  // words may be long
            }
            p = q + 1;
        }
    }

    static constexpr size_t CHUNK_SIZE = size_t{1} << 20;  // bytes of words

    struct Runs {
        std::vector<Position> starts;
        std::vector<int64_t> counts;

        // Add a word, which starts at a position.
        void add(Position position, int64_t count) {
            if (!counts.empty() && counts.back() == count) return;
            starts.push_back(position);
            counts.push_back(count);
        }
    };

    // The cells of some words, and the runs in them.
    struct Chunk {
        std::vector<Token> cells;
        Runs runs;
    };

    // Add runs, whose positions are relative to `start`.
    void append(const Runs& runs, Position start) {
        for (size_t i = 0; i < runs.counts.size(); ++i) {
            if (!run_counts_.empty() && run_counts_.back() == runs.counts[i]) continue;
            run_starts_.push_back(start + runs.starts[i]);
            run_counts_.push_back(runs.counts[i]);
        }
    }

    // The words in layout order.
    struct Layout {
        const uint8_t* data;
        const int64_t* offsets;
        const int64_t* counts;
        const uint32_t* words;

        int64_t length(size_t k) const { return offsets[words[k] + 1] - offsets[words[k]]; }

        // Load the data of the words after k, up to `end`, into the CPU cache.
        void prefetch(size_t k, size_t end) const {
            if (k + 2 * AHEAD >= end) return;
            CS336_PREFETCH(&offsets[words[k + 2 * AHEAD]]);
            CS336_PREFETCH(&counts[words[k + 2 * AHEAD]]);
            CS336_PREFETCH(&data[offsets[words[k + AHEAD]]]);
        }

        static constexpr size_t AHEAD = 16;  // words; hides the memory latency
    };

    // Write the words [first, end) from `position` on. Count their pairs and record their runs.
    void lay_out(const Layout& layout, size_t first, size_t end, Position position,
                 InterruptCheck& interrupt, BytePairs::Part& pairs, Runs& runs) {
        for (size_t k = first; k < end; ++k) {
            layout.prefetch(k, end);
            const int64_t count = layout.counts[layout.words[k]], length = layout.length(k);
            const uint8_t* const word = layout.data + layout.offsets[layout.words[k]];
            runs.add(position, count);
            for (int64_t i = 0; i < length; ++i) {
                interrupt.at(position);
                cells_[position++] = word[i];
                if (i + 1 == length) break;
                BytePairs::Entry& pair = pairs[BytePairs::index_of(word[i], word[i + 1])];
                pair.count += count;
                ++pair.num_occurrences;
            }
            cells_[position++] = NO_TOKEN;
        }
    }

    // Merge the words [first, end), and write those that still have a pair.
    static void merge_words(const Layout& layout, size_t first, size_t end,
                            const uint8_t* readable_end, Worker& worker, Chunk& chunk) {
        std::vector<Token>& cells = chunk.cells;
        size_t size = 0;
        for (size_t k = first; k < end; ++k) {
            layout.prefetch(k, end);
            const size_t length = size_t(layout.length(k));
            if (size + length + 1 + OUTPUT_SLACK > cells.size()) {
                cells.resize(std::max(2 * cells.size(), size + length + 1 + OUTPUT_SLACK));
            }
            const uint8_t* const word = layout.data + layout.offsets[layout.words[k]];
            const size_t num_symbols = worker.merge(word, length, readable_end, &cells[size]);
            if (num_symbols < 2) continue;
            chunk.runs.add(Position(size), layout.counts[layout.words[k]]);
            size += num_symbols;
            cells[size++] = NO_TOKEN;
        }
        cells.resize(size);
        cells.shrink_to_fit();
    }

    // Put the cells of all chunks together, and divide them into parts.
    void append_chunks(std::vector<Chunk>& chunks, size_t num_threads) {
        uint64_t num_cells = 1;
        for (const Chunk& chunk : chunks) num_cells += chunk.cells.size();
        check_number(num_cells);
        const size_t num_parts = std::max<size_t>(
            1, std::min<size_t>(num_threads, size_t(num_cells) / CELLS_OF_A_THREAD));
        cells_.reserve(num_cells);
        ask_for_huge_pages(cells_.data(), num_cells * sizeof(Token));
        cells_.push_back(NO_TOKEN);
        for (Chunk& chunk : chunks) {
            if (cells_.size() * num_parts >= part_starts_.size() * num_cells) {
                part_starts_.push_back(Position(cells_.size()));
            }
            append(chunk.runs, Position(cells_.size()));
            cells_.insert(cells_.end(), chunk.cells.begin(), chunk.cells.end());
            chunk = Chunk();  // frees its memory
        }
        if (part_starts_.empty()) part_starts_.push_back(1);
        part_starts_.push_back(Position(cells_.size()));
        run_starts_.push_back(std::numeric_limits<Position>::max());
    }

    void reserve(const int64_t* offsets, const int64_t* counts, int64_t num_words) {
        uint64_t num_cells = 1;
        for (int64_t i = 0; i < num_words; ++i) {
            if (has_pairs(offsets, counts, i)) num_cells += offsets[i + 1] - offsets[i] + 1;
        }
        check_number(num_cells);
        cells_.reserve(num_cells);
        ask_for_huge_pages(cells_.data(), num_cells * sizeof(Token));
        cells_.resize(num_cells);
    }

    static void check_number(uint64_t num_cells) {
        if (num_cells >= std::numeric_limits<Position>::max()) {
            throw std::overflow_error(
                "the total length of the distinct words must be less than 4 GiB; drop the rarest "
                "words, or use a split pattern that produces shorter words");
        }
    }

    static bool has_pairs(const int64_t* offsets, const int64_t* counts, int64_t word) {
        return counts[word] > 0 && offsets[word + 1] - offsets[word] >= 2;
    }

    // The words with at least one pair, the most frequent first. Most counts are small and are
    // sorted by counting. std::stable_sort makes the whole merge loop slower; see
    // benchmarks/NOTES.md.
    static std::vector<uint32_t> words_by_count(const int64_t* offsets, const int64_t* counts,
                                                int64_t num_words) {
        constexpr int64_t LARGE = 4096;
        // The bucket is LARGE - key, so that large keys, which share bucket 0, come first.
        std::vector<uint32_t> starts(LARGE + 2, 0);
        const auto bucket = [&](int64_t word) {
            return LARGE - std::min(LARGE, Policy::layout_key(counts[word]));
        };
        for (int64_t i = 0; i < num_words; ++i) {
            if (has_pairs(offsets, counts, i)) ++starts[bucket(i) + 1];
        }
        for (int64_t i = 0; i <= LARGE; ++i) starts[i + 1] += starts[i];
        const uint32_t num_large = starts[1];
        std::vector<uint32_t> words(starts[LARGE + 1]);
        for (int64_t i = 0; i < num_words; ++i) {
            if (has_pairs(offsets, counts, i)) words[starts[bucket(i)]++] = uint32_t(i);
        }
        std::sort(words.begin(), words.begin() + num_large, [&](uint32_t a, uint32_t b) {
            return counts[a] != counts[b] ? counts[a] > counts[b] : a < b;
        });
        return words;
    }

    std::vector<Token> cells_;
    std::vector<uint32_t> widths_;      // of the tokens, in cells
    size_t num_starting_;               // tokens; each has one cell
    std::vector<Position> run_starts_;  // the start of every run, and a number above all positions
    std::vector<int64_t> run_counts_;
    std::vector<Position> part_starts_;  // the start of every part, and the end of the last part
};

}  // namespace cs336

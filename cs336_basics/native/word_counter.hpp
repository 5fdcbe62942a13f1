// Count the pre-tokens of text files with threads. No Python in here.
//
// The files are cut into blocks, which the threads take in order. A thread reads its block with a
// little more on both sides, finds the safe cuts that are its real ends, cuts the special tokens
// out, and adds the pre-tokens to a table of its own. Then the tables are merged, every thread
// taking ranges of hashes, and written out as flat arrays.
//
// Memory follows the number of distinct words and of threads, not the size of the files; but text
// that has no safe cut for a long way is held whole.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "block_reader.hpp"
#include "failure.hpp"
#include "flat_words.hpp"
#include "memory.hpp"
#include "scanner.hpp"
#include "special_tokens.hpp"
#include "thread_pool.hpp"
#include "utf8.hpp"
#include "word_table.hpp"

namespace cs336 {

// How a text is split; shared by all threads.
struct SplitOptions {
    SpecialTokens tokens;
    bool cl100k = false;
    bool strict = false;
    SimdLevel simd_level = SimdLevel::SCALAR;
};

class TextCounter {
  public:
    TextCounter(const SplitOptions& options, const std::atomic<bool>& cancelled)
        : options_(options), cancelled_(cancelled) {}

    // Count a text; WORD_PADDING bytes behind it must be readable. Returns the offset of its first
    // invalid byte, in which case nothing was counted, or `size`.
    size_t count(const uint8_t* text, size_t size, WordTable& table) {
        const size_t invalid = first_invalid_utf8(text, size);
        if (invalid < size) {
            if (options_.strict) return invalid;
            replaced_.clear();
            replace_invalid_utf8(text, size, replaced_);
            replaced_.resize(replaced_.size() + WORD_PADDING);
            count_valid(replaced_.data(), replaced_.size() - WORD_PADDING, table);
        } else {
            count_valid(text, size, table);
        }
        return size;
    }

  private:
    void count_valid(const uint8_t* text, size_t size, WordTable& table) {
        if (options_.tokens.empty()) {
            count_piece(text, size, table);
            return;
        }
        Occurrences occurrences(options_.tokens, text, size);
        size_t start = 0;
        while (start < size) {
            const Occurrence token = occurrences.next(start);
            count_piece(text + start, token.position - start, table);
            start = token.position + token.length;
        }
    }

    void count_piece(const uint8_t* text, size_t size, WordTable& table) {
        if (options_.cl100k) {
            count_pattern<Cl100k>(text, size, table);
        } else {
            count_pattern<Gpt2>(text, size, table);
        }
    }

    template <class Pattern>
    void count_pattern(const uint8_t* text, size_t size, WordTable& table) {
        scan_batches<Pattern>(
            text, size, options_.simd_level,
            [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                if (cancelled_.load(std::memory_order_relaxed)) throw Cancelled();
                table.add_batch(first, ends, count);
            },
            [&](const uint8_t* word, size_t length) { table.add(make_key(word, length), 1); });
    }

    const SplitOptions& options_;
    const std::atomic<bool>& cancelled_;
    std::vector<uint8_t> replaced_;
};

// Counting files: `start_counting`, `wait`, `start_merging`, `wait`, `start_writing`, `wait`.
class FileCounter {
  public:
    FileCounter(std::vector<std::string> paths, std::vector<uint64_t> sizes, SplitOptions options,
                 int num_threads, size_t block_size, size_t most_own_words)
        : most_own_words_(most_own_words),
          options_(std::move(options)),
          reader_(options_.tokens, !options_.cl100k, std::move(paths), std::move(sizes),
                  block_size) {
        num_threads_ = int(std::max<size_t>(1, std::min(size_t(num_threads), reader_.num_blocks())));
        for (int i = 0; i < num_threads_; ++i) {
            workers_.emplace_back(new Worker(options_, pool_.cancelled));
        }
    }

    void start_counting() {
        pool_.start(num_threads_, reader_.num_blocks(),
                    [this](int thread, size_t block) { return count_block(*workers_[thread], block); });
    }

    void start_merging() {
        pool_.join();
        std::vector<WordTable*> tables;
        if (shared_.size()) tables.push_back(&shared_);
        for (auto& worker : workers_) {
            // Where there is a shared table, most words of the others are in it, too.
            if (shared_.size()) {
                worker->table.add_to(shared_);
                worker->table = WordTable();
            }
            tables.push_back(&worker->table);
            worker->read_state.buffer = Buffer();  // a text without a cut would still be held whole
        }
        words_.prepare(std::move(tables));
        pool_.start(num_threads_, words_.num_parts(), [this](int, size_t part) {
            words_.merge_part(part);
            return Failure();
        });
    }

    // Between merging and writing: the sizes of the arrays.
    void finish_merging() {
        pool_.join();
        shared_.clear_entries();
        for (auto& worker : workers_) worker->table.clear_entries();
        words_.place_parts();
    }

    size_t num_words() const { return words_.num_words(); }
    size_t num_bytes() const { return words_.num_bytes(); }

    void start_writing(uint8_t* data, int64_t* offsets, int64_t* counts) {
        pool_.start(num_threads_, words_.num_parts(), [=](int, size_t part) {
            words_.write_part(part, data, offsets, counts);
            return Failure();
        });
    }

    bool wait(int milliseconds) { return pool_.wait(milliseconds); }
    void cancel() {
        pool_.cancelled = true;
        pool_.join();
    }
    void join() { pool_.join(); }
    const Failure& failure() const { return pool_.failure(); }
    uint64_t bytes_done() const { return bytes_done_.load(std::memory_order_relaxed); }

  private:
    struct Worker {
        Worker(const SplitOptions& options, const std::atomic<bool>& cancelled)
            : counter(options, cancelled) {}
        WordTable table;
        TextCounter counter;
        BlockReader::ReadState read_state;
    };

    Failure count_block(Worker& worker, size_t block) {
        BlockReader::Text text;
        const Failure failure = reader_.read(block, worker.read_state, pool_.cancelled, text);
        if (failure.kind) return failure;
        const size_t invalid = worker.counter.count(text.data, text.size, worker.table);
        if (invalid < text.size) {
            return {Failure::NOT_UTF8, text.file, text.offset + invalid, 0, text.data[invalid], ""};
        }
        // Tables of the threads' own hold mostly the same words. They stay small, so that memory
        // follows the number of distinct words, whatever the share of the text that each has seen.
        if (worker.table.size() > most_own_words_) {
            std::lock_guard<std::mutex> lock(shared_mutex_);
            worker.table.add_to(shared_);
            worker.table.clear();
        }
        bytes_done_.fetch_add(text.num_bytes, std::memory_order_relaxed);
        return {};
    }

    const size_t most_own_words_;
    const SplitOptions options_;
    const BlockReader reader_;
    int num_threads_;
    std::atomic<uint64_t> bytes_done_{0};
    std::vector<std::unique_ptr<Worker>> workers_;
    WordTable shared_;
    std::mutex shared_mutex_;
    FlatWords words_;
    ThreadPool pool_;  // the last member: its threads end before anything goes that they use
};

// Counting texts in memory, and adding up words that are counted already.
class MemoryCounter {
  public:
    explicit MemoryCounter(SplitOptions options)
        : options_(std::move(options)), counter_(options_, never_) {}

    // Count a text that is complete: the next one begins anew. Returns the offset of its first
    // invalid byte, in which case nothing was counted, or `size`.
    size_t count(const uint8_t* text, size_t size) {
        buffer_.reserve(size, 0);
        if (size) std::memcpy(buffer_.data(), text, size);
        return counter_.count(buffer_.data(), size, table_);
    }

    // Add words: data[offsets[i], offsets[i + 1]) is the word i.
    void add_words(const uint8_t* data, const int64_t* offsets, const int64_t* counts, size_t words) {
        const size_t num_bytes = words ? size_t(offsets[words]) : 0;
        uint8_t padded[MAX_SHORT_WORD + WORD_PADDING] = {};
        for (size_t i = 0; i < words; ++i) {
            if (counts[i] <= 0) continue;
            const size_t start = size_t(offsets[i]), length = size_t(offsets[i + 1]) - start;
            const uint8_t* word = data + start;
            if (length <= MAX_SHORT_WORD && start + WORD_PADDING > num_bytes) {
                std::memcpy(padded, word, length);
                word = padded;
            }
            table_.add(make_key(word, length), counts[i]);
        }
    }

    // Make the words ready for `write`.
    void finish() {
        words_.prepare({&table_});
        for (size_t part = 0; part < words_.num_parts(); ++part) words_.merge_part(part);
        words_.place_parts();
    }

    size_t num_words() const { return words_.num_words(); }
    size_t num_bytes() const { return words_.num_bytes(); }

    void write(uint8_t* data, int64_t* offsets, int64_t* counts) {
        for (size_t part = 0; part < words_.num_parts(); ++part) {
            words_.write_part(part, data, offsets, counts);
        }
    }

  private:
    const std::atomic<bool> never_{false};
    SplitOptions options_;
    TextCounter counter_;
    WordTable table_;
    FlatWords words_;
    Buffer buffer_;
};

}  // namespace cs336

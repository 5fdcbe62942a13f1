// Counts the pre-tokens in text files, with several threads, and in texts in memory.
//
// Several threads read the files in blocks, in order. Each thread removes the special tokens from
// its block and adds the pre-tokens to its own table. At the end, the tables are merged, sorted and
// written as flat arrays.
//
// Memory use grows with the number of distinct words and threads, not with the size of the files.
// However, a stretch of text without a safe cut has to fit in memory.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/compiler.hpp"
#include "base/failure.hpp"
#include "base/memory.hpp"
#include "base/thread_pool.hpp"
#include "counting/flat_words.hpp"
#include "counting/shared_words.hpp"
#include "counting/word_table.hpp"
#include "scanning/block_reader.hpp"
#include "scanning/scanner.hpp"
#include "scanning/special_tokens.hpp"
#include "unicode/utf8.hpp"

namespace cs336 {

// How to split texts. All threads share these options.
struct SplitOptions {
    SpecialTokens tokens;
    Scanner scanner;
    bool strict = false;  // if true, invalid UTF-8 is an error; otherwise it becomes U+FFFD
};

// Counts the pre-tokens of texts, one text at a time.
class TextCounter {
  public:
    TextCounter(const SplitOptions& options, const std::atomic<bool>& cancelled)
        : options_(options), cancelled_(cancelled) {}

    // Add the pre-tokens in a text to a table. WORD_PADDING bytes after the text must be readable.
    // Returns `size` or, if the text is rejected, the offset of the first invalid byte.
    size_t count(const uint8_t* text, size_t size, WordTable& table) {
        const size_t invalid = first_invalid_utf8(text, size);
        if (invalid < size) {
            if (options_.strict) return invalid;
            valid_.clear();
            replaced_ = replace_invalid_utf8(text, size, valid_);
            valid_.resize(valid_.size() + WORD_PADDING);
            count_valid(valid_.data(), valid_.size() - WORD_PADDING, table);
        } else {
            replaced_ = {};
            count_valid(text, size, table);
        }
        return size;
    }

    // The invalid sequences that were replaced in the last text.
    const Replaced& replaced() const { return replaced_; }

  private:
    void count_valid(const uint8_t* text, size_t size, WordTable& table) {
        if (options_.tokens.empty()) {
            count_pretokens(text, size, table);
            return;
        }
        Occurrences occurrences(options_.tokens, text, size);
        size_t start = 0;
        while (start < size) {
            const Occurrence token = occurrences.next(start);
            count_pretokens(text + start, token.offset - start, table);
            start = token.offset + token.length;
        }
    }

    // Count a text without special tokens.
    void count_pretokens(const uint8_t* text, size_t size, WordTable& table) {
        options_.scanner.scan(
            text, size,
            [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                if (cancelled_.load(std::memory_order_relaxed)) throw Cancelled();
                table.add_batch(first, ends, count);
            },
            [&](const uint8_t* word, size_t length) { table.add(table.key(word, length), 1); });
    }

    const SplitOptions& options_;
    const std::atomic<bool>& cancelled_;
    std::vector<uint8_t> valid_;
    Replaced replaced_;
};

// Counts the pre-tokens of files in several threads.
class FileCounter {
  public:
    // Called every 50 milliseconds with the number of bytes counted so far, by the thread that runs
    // `count` or `write`. If it returns a value other than 0, `count` or `write` throws Cancelled.
    using Watch = int (*)(void* watcher, uint64_t bytes_done);

    FileCounter(std::vector<std::string> paths, std::vector<uint64_t> sizes, SplitOptions options,
                int num_threads, size_t block_size, size_t max_own_words, size_t max_piece,
                Watch watch, void* watcher)
        : max_own_words_(max_own_words),
          options_(std::move(options)),
          reader_(options_.tokens, options_.scanner, std::move(paths), std::move(sizes), block_size,
                  max_piece),
          watch_(watch),
          watcher_(watcher) {
        num_threads_ =
            int(std::max<size_t>(1, std::min(size_t(num_threads), reader_.num_blocks())));
        const int first_bits = reader_.num_bytes() < LARGE_TEXT ? SMALL_TABLE : HUGE_PAGE_TABLE;
        for (int i = 0; i < num_threads_; ++i) {
            workers_.emplace_back(new Worker(options_, pool_.cancelled, first_bits));
        }
    }

    // Count the words. Afterwards, num_words, num_bytes, replaced and `write` are available.
    Failure count() {
        Failure failure = run(reader_.num_blocks(), [this](int thread, size_t block) {
            return count_block(size_t(thread), block);
        });
        if (failure.kind) return failure;
        for (auto& worker : workers_) {
            worker->read_state.buffer = Buffer();  // large after a text without a cut
        }
        if (!shared_.empty()) {  // they include most of the words in the threads' own tables
            failure = run(workers_.size(), [this](int, size_t index) {
                WordTable& table = workers_[index]->table;
                shared_.add(table, index);
                table = WordTable();
                return Failure();
            });
            if (failure.kind) return failure;
        }
        std::vector<WordTable*> tables = shared_.tables();
        for (auto& worker : workers_) tables.push_back(&worker->table);
        words_.prepare(tables);
        failure = run_on_words(words_.num_segments(), [this](int, size_t segment) {
            words_.divide_segment(segment);
            return Failure();
        });
        if (failure.kind) return failure;
        for (WordTable* table : tables) table->clear_entries();
        failure = run_on_words(words_.num_buckets(), [this](int, size_t bucket) {
            words_.sort_bucket(bucket);
            return Failure();
        });
        if (!failure.kind) words_.finish_sorting();
        return failure;
    }

    size_t num_words() const { return words_.num_words(); }
    size_t num_bytes() const { return words_.num_bytes(); }

    Failure write(uint8_t* data, int64_t* offsets, int64_t* counts) {
        return run_on_words(words_.num_buckets(), [=](int, size_t bucket) {
            words_.write_bucket(bucket, data, offsets, counts);
            return Failure();
        });
    }

    // The invalid sequences that were replaced, by file index.
    std::map<size_t, Replaced> replaced() const {
        std::map<size_t, Replaced> total;
        for (const auto& worker : workers_) {
            for (const auto& [file, replaced] : worker->replaced) total[file].add(replaced);
        }
        return total;
    }

  private:
    struct Worker {
        Worker(const SplitOptions& options, const std::atomic<bool>& cancelled, int first_bits)
            : table(process_hash_seed(), first_bits), counter(options, cancelled) {}
        WordTable table;
        TextCounter counter;
        BlockReader::ReadState read_state;
        std::map<size_t, Replaced> replaced;  // by file index
    };

    // Run tasks in threads and wait for them.
    template <class RunTask>
    Failure run(size_t num_tasks, const RunTask& run_task) {
        pool_.start(num_threads_, num_tasks, run_task);
        const auto keep_going = [&] { return watch_(watcher_, bytes_done_) == 0; };
        if (!pool_.finish(keep_going)) throw Cancelled();
        return pool_.failure();
    }

    // Like `run`, for tasks that go through the distinct words. A few words take less time than
    // starting the threads.
    template <class RunTask>
    Failure run_on_words(size_t num_tasks, const RunTask& run_task) {
        if (words_.num_entries() > MAX_FEW_WORDS) return run(num_tasks, run_task);
        pool_.run_here(num_tasks, run_task);
        return pool_.failure();
    }

    Failure count_block(size_t thread, size_t block) {
        Worker& worker = *workers_[thread];
        BlockReader::Text text;
        const Failure failure = reader_.read(block, worker.read_state, pool_.cancelled, text);
        if (failure.kind) return failure;
        const size_t invalid = worker.counter.count(text.data, text.size, worker.table);
        if (invalid < text.size) {
            return {Failure::NOT_UTF8, text.file, text.offset + invalid, 0, text.data[invalid], ""};
        }
        if (Replaced replaced = worker.counter.replaced(); replaced.sequences) {
            replaced.first += text.offset;
            worker.replaced[text.file].add(replaced);
        }
        // Most words occur in the tables of all threads. Keep these tables small, so that memory
        // use grows with the number of distinct words but hardly with the number of threads.
        if (worker.table.size() > max_own_words_) {
            shared_.add(worker.table, thread);
            worker.table.clear();
        }
        bytes_done_.fetch_add(text.num_bytes, std::memory_order_relaxed);
        return {};
    }

    static constexpr size_t MAX_FEW_WORDS = size_t{1} << 15;
    // A table of 2^16 slots fills a huge page, which takes one page fault instead of one for every
    // 4 KiB, and rarely grows. Clearing it takes longer than counting a small text.
    static constexpr int SMALL_TABLE = 14, HUGE_PAGE_TABLE = 16;
    static constexpr uint64_t LARGE_TEXT = uint64_t{1} << 20;  // bytes

    const size_t max_own_words_;
    const SplitOptions options_;
    const BlockReader reader_;
    const Watch watch_;
    void* const watcher_;
    int num_threads_;
    std::atomic<uint64_t> bytes_done_{0};
    std::vector<std::unique_ptr<Worker>> workers_;
    SharedWords shared_;
    FlatWords words_;
    ThreadPool pool_;  // last, so its threads end before the members they use are destroyed
};

// Reads words in order: word i is data[offsets[i], offsets[i + 1]). Every offset is read only
// once and then checked, because another thread could change the arrays.
class FlatWordReader {
  public:
    FlatWordReader(const uint8_t* data, size_t num_bytes, const int64_t* offsets)
        : data_(data), num_bytes_(num_bytes), offsets_(offsets), start_(uint64_t(*offsets)) {}

    // The key of the next word. Throws std::invalid_argument.
    WordKey next(const WordTable& table) {
        const uint64_t start = start_, end = uint64_t(load_relaxed(++offsets_));
        if (start > end || end > num_bytes_) {
            throw std::invalid_argument(
                "the offsets of the words must not decrease or exceed the number of bytes");
        }
        start_ = end;
        const uint8_t* word = data_ + start;
        const size_t length = size_t(end - start);
        if (length <= MAX_SHORT_WORD && start + WORD_PADDING > num_bytes_) {
            uint8_t padded[WORD_PADDING] = {};
            if (length) std::memcpy(padded, word, length);
            return table.key(padded, length);
        }
        return table.key(word, length);
    }

  private:
    const uint8_t* const data_;
    const size_t num_bytes_;
    const int64_t* offsets_;
    uint64_t start_;
};

// The index of the first word that equals an earlier word; `num_words` if all are distinct.
// Throws std::invalid_argument or std::bad_alloc.
inline size_t first_repeated(const uint8_t* data, size_t num_bytes, const int64_t* offsets,
                             size_t num_words) {
    WordTable table;
    FlatWordReader reader(data, num_bytes, offsets);
    for (size_t i = 0; i < num_words; ++i) {
        table.add(reader.next(table), 1);
        if (table.size() == i) return i;
    }
    return num_words;
}

// Counts texts in memory and adds words that were counted earlier.
class MemoryCounter {
  public:
    explicit MemoryCounter(SplitOptions options)
        : options_(std::move(options)), counter_(options_, never_) {}

    // Count a complete text.
    void count(const uint8_t* text, size_t size) {
        buffer_.reserve(size, 0);
        if (size) std::memcpy(buffer_.data(), text, size);
        counter_.count(buffer_.data(), size, table_);
    }

    // Add words with their counts; word i is data[offsets[i], offsets[i + 1]). Throws
    // std::invalid_argument or std::overflow_error.
    void add_words(const uint8_t* data, size_t num_bytes, const int64_t* offsets,
                   const int64_t* counts, size_t num_words) {
        constexpr size_t GROUP = 64;  // words prefetched together, as in WordTable::add_batch
        WordKey keys[GROUP];
        FlatWordReader reader(data, num_bytes, offsets);
        for (size_t done = 0; done < num_words; done += GROUP) {
            const size_t group = std::min(GROUP, num_words - done);
            for (size_t i = 0; i < group; ++i) {
                keys[i] = reader.next(table_);
                table_.prefetch(keys[i]);
            }
            for (size_t i = 0; i < group; ++i) {
                const int64_t count = counts[done + i];
                if (count > 0) table_.add(keys[i], count);
            }
        }
    }

    // Sort the words. Afterwards, num_words, num_bytes and `write` are available.
    void finish() {
        words_.prepare({&table_});
        for (size_t i = 0; i < words_.num_segments(); ++i) words_.divide_segment(i);
        for (size_t i = 0; i < words_.num_buckets(); ++i) words_.sort_bucket(i);
        words_.finish_sorting();
    }

    size_t num_words() const { return words_.num_words(); }
    size_t num_bytes() const { return words_.num_bytes(); }

    void write(uint8_t* data, int64_t* offsets, int64_t* counts) {
        for (size_t i = 0; i < words_.num_buckets(); ++i) {
            words_.write_bucket(i, data, offsets, counts);
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

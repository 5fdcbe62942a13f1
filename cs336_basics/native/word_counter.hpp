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

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "scanner.hpp"
#include "utf8.hpp"
#include "word_table.hpp"

namespace cs336 {

// Memory that grows without being filled: what a `std::vector` would set to zero is read anyway.
class Buffer {
  public:
    uint8_t* data() { return data_.get(); }
    // Give back the memory if it is more than that.
    void trim(size_t most) {
        if (capacity_ <= most) return;
        data_.reset();
        capacity_ = 0;
    }
    // Make room for `size` bytes and the padding that the table wants; the first `keep` bytes stay.
    void reserve(size_t size, size_t keep) {
        if (size + WORD_PADDING <= capacity_) return;
        const size_t capacity = std::max(size + WORD_PADDING, capacity_ + capacity_ / 2);
        std::unique_ptr<uint8_t[]> larger(new uint8_t[capacity]);
        if (keep) std::memcpy(larger.get(), data_.get(), keep);
        data_ = std::move(larger);
        capacity_ = capacity;
    }

  private:
    std::unique_ptr<uint8_t[]> data_;
    size_t capacity_ = 0;
};

// --- special tokens ------------------------------------------------------------------------------

struct Occurrence {
    size_t position, length;  // length 0: there is none
    size_t token;             // its place among the tokens, the longest first
};

class SpecialTokens {
  public:
    explicit SpecialTokens(std::vector<std::string> tokens = {}) : tokens_(std::move(tokens)) {
        std::stable_sort(tokens_.begin(), tokens_.end(),
                         [](const auto& a, const auto& b) { return a.size() > b.size(); });
        for (size_t i = 0; i < tokens_.size(); ++i) {
            const std::string& token = tokens_[i];
            by_first_byte_[uint8_t(token.front())].push_back(uint32_t(i));
            by_last_byte_[uint8_t(token.back())].push_back(uint32_t(i));
            rare_.push_back(rarest_byte(token));
            holds_replacement_ |= token.find("\xEF\xBF\xBD") != std::string::npos;
        }
    }

    bool empty() const { return tokens_.empty(); }
    size_t size() const { return tokens_.size(); }
    size_t length(size_t i) const { return tokens_[i].size(); }
    size_t longest() const { return empty() ? 0 : tokens_.front().size(); }
    // A token that holds U+FFFD also matches where invalid bytes were replaced.
    bool holds_replacement() const { return holds_replacement_; }

    // The first occurrence of token number `i` at or after `from`; `size` if there is none.
    size_t find_one(size_t i, const uint8_t* text, size_t size, size_t from) const {
        const std::string& token = tokens_[i];
        const size_t offset = rare_[i];
        if (size < token.size()) return size;
        size_t place = from + offset;
        const size_t last = size - token.size() + offset;
        while (place <= last) {
            const void* hit = std::memchr(text + place, token[offset], last - place + 1);
            if (!hit) return size;
            place = static_cast<const uint8_t*>(hit) - text;
            if (!std::memcmp(text + place - offset, token.data(), token.size())) {
                return place - offset;
            }
            ++place;
        }
        return size;
    }

    // The first occurrence of any token at or after `from`, of those at one place the longest.
    Occurrence find_any(const uint8_t* text, size_t size, size_t from) const {
        for (size_t i = from; i < size; ++i) {
            for (const uint32_t token : by_first_byte_[text[i]]) {
                if (matches(token, text, size, i)) return {i, tokens_[token].size(), token};
            }
        }
        return {size, 0, 0};
    }

    // Whether a token starts before `place` and ends after it.
    bool crosses(const uint8_t* text, size_t size, size_t place) const {
        const size_t reach = std::min(place, longest() ? longest() - 1 : 0);
        for (size_t start = place - reach; start < place; ++start) {
            for (const uint32_t token : by_first_byte_[text[start]]) {
                if (start + tokens_[token].size() > place && matches(token, text, size, start)) {
                    return true;
                }
            }
        }
        return false;
    }

    // Whether an occurrence of a token that nothing crosses ends at `place`.
    bool ends_at(const uint8_t* text, size_t size, size_t place) const {
        if (place == 0) return false;
        for (const uint32_t token : by_last_byte_[text[place - 1]]) {
            const size_t length = tokens_[token].size();
            if (length <= place && matches(token, text, size, place - length) &&
                !crosses(text, size, place - length) && !crosses(text, size, place)) {
                return true;
            }
        }
        return false;
    }

  private:
    bool matches(size_t token, const uint8_t* text, size_t size, size_t place) const {
        const std::string& wanted = tokens_[token];
        return wanted.size() <= size - place &&
               !std::memcmp(text + place, wanted.data(), wanted.size());
    }

    // Where in a token the byte stands that most texts have least of.
    static size_t rarest_byte(const std::string& token) {
        const auto frequency = [](uint8_t byte) {
            if ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') return 3;
            if (byte >= 0x80 || byte == ' ' || byte == '\n') return 3;
            if (byte >= '0' && byte <= '9') return 2;
            return std::strchr(".,-'\"/()=<>_:;", byte) ? 1 : 0;
        };
        size_t best = 0;
        for (size_t i = 1; i < token.size(); ++i) {
            if (frequency(uint8_t(token[i])) < frequency(uint8_t(token[best]))) best = i;
        }
        return best;
    }

    std::vector<std::string> tokens_;  // the longest first
    std::vector<size_t> rare_;
    std::vector<uint32_t> by_first_byte_[256], by_last_byte_[256];
    bool holds_replacement_ = false;
};

// Gives the occurrences of special tokens in a text from left to right, those that overlap an
// earlier one left out.
class Occurrences {
  public:
    Occurrences(const SpecialTokens& tokens, const uint8_t* text, size_t size)
        : tokens_(tokens), text_(text), size_(size) {
        // A search for each token runs at the speed of memory; for many tokens one that looks at
        // every byte is faster.
        if (tokens.size() <= FEW) {
            for (size_t i = 0; i < tokens.size(); ++i) {
                next_[i] = tokens.find_one(i, text, size, 0);
            }
        }
    }

    Occurrence next(size_t from) {
        if (tokens_.size() > FEW) return tokens_.find_any(text_, size_, from);
        Occurrence first = {size_, 0, 0};
        for (size_t i = 0; i < tokens_.size(); ++i) {
            if (next_[i] < from) next_[i] = tokens_.find_one(i, text_, size_, from);
            if (next_[i] < first.position) first = {next_[i], tokens_.length(i), i};
        }
        return first;
    }

  private:
    static constexpr size_t FEW = 6;

    const SpecialTokens& tokens_;
    const uint8_t* text_;
    size_t size_;
    size_t next_[FEW] = {};
};

// --- safe cuts -----------------------------------------------------------------------------------

// Where text may be cut without changing how it is split; the rule is that of chunking.py, which
// also says why it holds.
class SafeCuts {
  public:
    SafeCuts(const SpecialTokens& tokens, bool line_feeds)
        : tokens_(tokens), line_feeds_(line_feeds) {}

    // Bytes on each side of a place that must be known.
    size_t margin() const { return 2 * tokens_.longest() + 4; }

    // The first cut p, from <= p < stop; `stop` if there is none. `text` holds `margin` bytes (or
    // all there are) before `from` and after `stop`.
    size_t first(const uint8_t* text, size_t size, size_t from, size_t stop) const {
        if (tokens_.holds_replacement()) return stop;
        for (size_t place = from; place < stop; ++place) {
            if (between_words(text, place) && !tokens_.crosses(text, size, place)) return place;
            if (tokens_.ends_at(text, size, place)) return place;
        }
        return stop;
    }

  private:
    bool between_words(const uint8_t* text, size_t place) const {
        if (place == 0 || !(text[place] == ' ' || (line_feeds_ && text[place] == '\n'))) return false;
        const uint8_t before = text[place - 1];
        if (before < 0x80) return before > 0x20 && before < 0x7F;
        return !ends_with_wide_space(text, place);
    }

    static bool ends_with_wide_space(const uint8_t* text, size_t place) {
        const uint8_t last = text[place - 1];
        if (place >= 2 && text[place - 2] == 0xC2) return last == 0x85 || last == 0xA0;
        if (place < 3) return false;
        const uint8_t first = text[place - 3];
        // (A first byte of three and two bytes after it; text that is not UTF-8 does no harm.)
        if (first < 0xE1 || first > 0xE3 || text[place - 2] < 0x80 || text[place - 2] > 0xBF ||
            last > 0xBF) {
            return false;
        }
        return character(text + place - 3).char_class == SPACE;
    }

    const SpecialTokens& tokens_;
    bool line_feeds_;
};

// --- one text into a table -----------------------------------------------------------------------

struct Cancelled {};

// How a text is split; shared by all threads.
struct Splitting {
    SpecialTokens tokens;
    bool cl100k = false;
    bool strict = false;
    Method method = Method::SCALAR;
};

class TextCounter {
  public:
    TextCounter(const Splitting& splitting, const std::atomic<bool>& cancelled)
        : splitting_(splitting), cancelled_(cancelled) {}

    // Count a text; WORD_PADDING bytes behind it must be readable. Returns the offset of its first
    // invalid byte, in which case nothing was counted, or `size`.
    size_t count(const uint8_t* text, size_t size, WordTable& table) {
        const size_t invalid = first_invalid_utf8(text, size);
        if (invalid < size) {
            if (splitting_.strict) return invalid;
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
        if (splitting_.tokens.empty()) {
            count_piece(text, size, table);
            return;
        }
        Occurrences occurrences(splitting_.tokens, text, size);
        size_t start = 0;
        while (start < size) {
            const Occurrence token = occurrences.next(start);
            count_piece(text + start, token.position - start, table);
            start = token.position + token.length;
        }
    }

    void count_piece(const uint8_t* text, size_t size, WordTable& table) {
        if (splitting_.cl100k) {
            count_pattern<Cl100k>(text, size, table);
        } else {
            count_pattern<Gpt2>(text, size, table);
        }
    }

    template <class Pattern>
    void count_pattern(const uint8_t* text, size_t size, WordTable& table) {
        scan_batches<Pattern>(
            text, size, splitting_.method,
            [&](const uint8_t* first, const uint32_t* ends, size_t count) {
                if (cancelled_.load(std::memory_order_relaxed)) throw Cancelled();
                table.add_batch(first, ends, count);
            },
            [&](const uint8_t* word, size_t length) { table.add(make_key(word, length), 1); });
    }

    const Splitting& splitting_;
    const std::atomic<bool>& cancelled_;
    std::vector<uint8_t> replaced_;
};

// --- the result as flat arrays -------------------------------------------------------------------

// Merges tables range by range of hashes, and writes the words out.
class FlatWords {
  public:
    // `tables` must outlive this object: long words stay in their arenas.
    void prepare(std::vector<WordTable*> tables) {
        tables_ = std::move(tables);
        size_t entries = 0;
        for (const WordTable* table : tables_) entries += table->size();
        part_bits_ = 0;
        while (part_bits_ < MAX_PART_BITS && entries >> part_bits_ > PART_SIZE) ++part_bits_;
        parts_.assign(size_t{1} << part_bits_, {});
    }

    size_t num_parts() const { return parts_.size(); }

    void merge_part(size_t part) {
        std::vector<std::vector<WordEntry>> lists(tables_.size());
        for (size_t i = 0; i < tables_.size(); ++i) tables_[i]->collect(part, part_bits_, lists[i]);
        for (size_t step = 1; step < lists.size(); step *= 2) {
            for (size_t i = 0; i + step < lists.size(); i += 2 * step) {
                lists[i] = merge_sorted(lists[i], lists[i + step]);
                lists[i + step] = {};
            }
        }
        Part& result = parts_[part];
        if (!lists.empty()) result.entries = std::move(lists[0]);
        for (const WordEntry& entry : result.entries) result.num_bytes += entry.length();
    }

    // After all parts: where each begins in the result.
    void place_parts() {
        num_words_ = num_bytes_ = 0;
        for (Part& part : parts_) {
            part.first_word = num_words_;
            part.first_byte = num_bytes_;
            num_words_ += part.entries.size();
            num_bytes_ += part.num_bytes;
        }
    }

    size_t num_words() const { return num_words_; }
    size_t num_bytes() const { return num_bytes_; }

    // Write a part into the arrays: data[num_bytes], offsets[num_words + 1], counts[num_words].
    void write_part(size_t index, uint8_t* data, int64_t* offsets, int64_t* counts) {
        Part& part = parts_[index];
        size_t word = part.first_word, byte = part.first_byte;
        for (const WordEntry& entry : part.entries) {
            const size_t length = entry.length();
            std::memcpy(data + byte, entry.bytes(), length);
            byte += length;
            offsets[word + 1] = int64_t(byte);
            counts[word] = entry.count;
            ++word;
        }
        if (index == 0) offsets[0] = 0;
        part.entries = {};
    }

  private:
    struct Part {
        std::vector<WordEntry> entries;
        size_t num_bytes = 0, first_word = 0, first_byte = 0;
    };

    static constexpr size_t PART_SIZE = 8192;
    static constexpr int MAX_PART_BITS = 12;

    std::vector<WordTable*> tables_;
    std::vector<Part> parts_;
    int part_bits_ = 0;
    size_t num_words_ = 0, num_bytes_ = 0;
};

// --- threads -------------------------------------------------------------------------------------

// What went wrong, in values from which a message can be made.
struct Failure {
    enum Kind { NONE, SYSTEM, SHORTER, NOT_UTF8, MEMORY, OTHER_KIND, ABSENT_BYTE };
    Kind kind = NONE;
    size_t file = 0;
    uint64_t offset = 0;
    uint64_t expected = 0;  // SHORTER: bytes up to here were there before
    int code = 0;           // SYSTEM: errno; NOT_UTF8, ABSENT_BYTE: the byte
    std::string message;    // OTHER_KIND
};

// A crew of threads that work off items 0, 1, 2, ... in order.
class Crew {
  public:
    ~Crew() {
        cancelled = true;
        join();
    }

    // Start threads that call `work(thread, item)` for every item; it returns a Failure. Returns
    // whether there is any thread.
    bool start(int num_threads, size_t num_items,
               std::function<Failure(int, size_t)> work) {
        work_ = std::move(work);
        num_items_ = num_items;
        next_ = 0;
        const size_t wanted = std::min(size_t(std::max(num_threads, 1)), std::max<size_t>(num_items, 1));
        running_ = int(wanted);
        for (size_t i = 0; i < wanted; ++i) {
            try {
                threads_.emplace_back([this, i] { run(int(i)); });
            } catch (const std::system_error& error) {
                // Fewer threads than wanted do the same work.
                std::lock_guard<std::mutex> lock(mutex_);
                running_ -= int(wanted - i);
                if (i == 0) failure_ = {Failure::SYSTEM, SIZE_MAX, 0, 0, error.code().value(), ""};
                break;
            }
        }
        return !threads_.empty();
    }

    // Wait for the end, but not longer than that; returns whether all is done.
    bool wait(int milliseconds) {
        std::unique_lock<std::mutex> lock(mutex_);
        return done_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                              [this] { return running_ == 0; });
    }

    void join() {
        for (std::thread& thread : threads_) thread.join();
        threads_.clear();
    }

    // Of several failures that of the first item: the same for every number of threads.
    const Failure& failure() const { return failure_; }

    std::atomic<bool> cancelled{false};

  private:
    void run(int thread) {
        for (;;) {
            const size_t item = next_.fetch_add(1);
            if (item >= num_items_ || cancelled) break;
            Failure failure;
            try {
                failure = work_(thread, item);
            } catch (const Cancelled&) {
                break;
            } catch (const std::bad_alloc&) {
                failure.kind = Failure::MEMORY;
            } catch (const std::exception& error) {
                failure.kind = Failure::OTHER_KIND;
                failure.message = error.what();
            }
            if (failure.kind != Failure::NONE) {
                // Items before this one are still finished: one of them may fail, too.
                next_ = num_items_;
                std::lock_guard<std::mutex> lock(mutex_);
                if (failure_.kind == Failure::NONE || item < failed_item_) {
                    failure_ = failure;
                    failed_item_ = item;
                }
            }
        }
        std::lock_guard<std::mutex> lock(mutex_);
        if (--running_ == 0) done_.notify_all();
    }

    std::vector<std::thread> threads_;
    std::function<Failure(int, size_t)> work_;
    size_t num_items_ = 0;
    std::atomic<size_t> next_{0};
    std::mutex mutex_;
    std::condition_variable done_;
    int running_ = 0;
    Failure failure_;
    size_t failed_item_ = 0;
};

// A file that is open for reading.
class InputFile {
  public:
    ~InputFile() { close(); }

    // Returns 0 or errno.
    int open(const std::string& path) {
        close();
        descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
        return descriptor_ < 0 ? errno : 0;
    }

    // Read [offset, offset + size); returns the number of bytes, fewer at the end of the file, or
    // -errno.
    int64_t read(uint64_t offset, uint8_t* data, size_t size) {
        size_t done = 0;
        while (done < size) {
            const ssize_t got = ::pread(descriptor_, data + done, std::min(size - done, MAX_READ),
                                        off_t(offset + done));
            if (got < 0) {
                if (errno == EINTR) continue;
                return -int64_t(errno);
            }
            if (got == 0) break;
            done += size_t(got);
        }
        return int64_t(done);
    }

    uint64_t size() const {
        struct stat status;
        return fstat(descriptor_, &status) ? UINT64_MAX : uint64_t(status.st_size);
    }

    void close() {
        if (descriptor_ >= 0) ::close(descriptor_);
        descriptor_ = -1;
    }

  private:
    static constexpr size_t MAX_READ = size_t{1} << 30;  // some systems refuse more at once

    int descriptor_ = -1;
};

// Cuts files into blocks that can be split into pre-tokens one by one.
class BlockReader {
  public:
    // What one thread needs to read.
    struct Place {
        Buffer buffer;
        InputFile file;
        size_t file_index = SIZE_MAX;
    };

    // A part of a file. WORD_PADDING bytes behind it are readable.
    struct Text {
        uint8_t* data;
        size_t size;
        size_t file;
        uint64_t offset;     // in the file
        uint64_t num_bytes;  // of the block, for progress: all blocks together are the files
    };

    // `tokens` must outlive this object. `line_feeds`: the pattern lets a text be cut before one.
    BlockReader(const SpecialTokens& tokens, bool line_feeds, std::vector<std::string> paths,
                std::vector<uint64_t> sizes, size_t block_size)
        : cuts_(tokens, line_feeds),
          paths_(std::move(paths)),
          sizes_(std::move(sizes)),
          block_size_(block_size) {
        size_t blocks = 0;
        for (const uint64_t size : sizes_) {
            first_block_.push_back(blocks);
            blocks += size_t((size + block_size - 1) / block_size);
        }
        first_block_.push_back(blocks);
    }

    size_t num_blocks() const { return first_block_.back(); }

    // Read the text that belongs to a block: from its first cut to the first cut behind it.
    Failure read(size_t block, Place& place, const std::atomic<bool>& cancelled, Text& text) const {
        const size_t file =
            std::upper_bound(first_block_.begin(), first_block_.end(), block) - first_block_.begin() - 1;
        const uint64_t file_size = sizes_[file];
        const uint64_t low = uint64_t(block - first_block_[file]) * block_size_;
        const uint64_t high = std::min<uint64_t>(file_size, low + block_size_);
        if (place.file_index != file) {
            place.file_index = SIZE_MAX;
            if (const int code = place.file.open(paths_[file])) {
                return {Failure::SYSTEM, file, 0, 0, code, ""};
            }
            place.file_index = file;
        }
        View view = {low - std::min<uint64_t>(low, cuts_.margin()), 0};
        Failure failure = read_to(place, file, view, high + cuts_.margin() + BEYOND);
        if (failure.kind) return failure;

        // The texts between the cuts belong to the block in which they begin.
        size_t start = size_t(low - view.origin), end = size_t(high - view.origin);
        if (low > 0) start = cuts_.first(place.buffer.data(), view.size, start, end);
        if (start < end) {
            failure = find_end(place, file, cancelled, view, end);
            if (failure.kind) return failure;
        }
        text = {place.buffer.data() + start, end - start, file, view.origin + start, high - low};
        return {};
    }

  private:
    // Bytes that are read beyond a block at first: a safe cut is rarely further away.
    static constexpr size_t BEYOND = 4096;
    // More is read step by step, so that a text without a cut does not keep Ctrl-C waiting.
    static constexpr size_t MOST_BEYOND = size_t{16} << 20;

    // The bytes of a file around a block, as far as they are read.
    struct View {
        uint64_t origin;  // offset in the file
        size_t size;
    };

    // Move `end` to the first cut at or after it, or to the end of the file; reads on as needed.
    Failure find_end(Place& place, size_t file, const std::atomic<bool>& cancelled, View& view,
                     size_t& end) const {
        for (;;) {
            const bool whole = view.origin + view.size == sizes_[file];
            // Up to here everything is known that a cut depends on.
            const size_t known = whole ? view.size : view.size - cuts_.margin();
            end = cuts_.first(place.buffer.data(), view.size, end, known);
            if (end < known || whole) return {};
            if (cancelled) throw Cancelled();
            const Failure failure =
                read_to(place, file, view,
                        view.origin + view.size + std::clamp(view.size, BEYOND, MOST_BEYOND));
            if (failure.kind) return failure;
        }
    }

    // Read on up to `target` or the end of the file.
    Failure read_to(Place& place, size_t file, View& view, uint64_t target) const {
        const uint64_t from = view.origin + view.size;
        const uint64_t to = std::min(target, sizes_[file]);
        place.buffer.reserve(size_t(to - view.origin), view.size);
        const int64_t got = place.file.read(from, place.buffer.data() + view.size, size_t(to - from));
        if (got < 0) return {Failure::SYSTEM, file, from, 0, int(-got), ""};
        view.size += size_t(got);
        if (from + uint64_t(got) < to) {
            // The file may end even before what was asked for.
            const uint64_t end = std::min(from + uint64_t(got), place.file.size());
            return {Failure::SHORTER, file, end, sizes_[file], 0, ""};
        }
        return {};
    }

    const SafeCuts cuts_;
    const std::vector<std::string> paths_;
    const std::vector<uint64_t> sizes_;
    std::vector<size_t> first_block_;
    const size_t block_size_;
};

// Counting files: `start_counting`, `wait`, `start_merging`, `wait`, `start_writing`, `wait`.
class FileCounting {
  public:
    FileCounting(std::vector<std::string> paths, std::vector<uint64_t> sizes, Splitting splitting,
                 int num_threads, size_t block_size, size_t most_own_words)
        : most_own_words_(most_own_words),
          splitting_(std::move(splitting)),
          reader_(splitting_.tokens, !splitting_.cl100k, std::move(paths), std::move(sizes),
                  block_size) {
        num_threads_ = int(std::max<size_t>(1, std::min(size_t(num_threads), reader_.num_blocks())));
        for (int i = 0; i < num_threads_; ++i) {
            workers_.emplace_back(new Worker(splitting_, crew_.cancelled));
        }
    }

    void start_counting() {
        crew_.start(num_threads_, reader_.num_blocks(),
                    [this](int thread, size_t block) { return count_block(*workers_[thread], block); });
    }

    void start_merging() {
        crew_.join();
        std::vector<WordTable*> tables;
        if (shared_.size()) tables.push_back(&shared_);
        for (auto& worker : workers_) {
            // Where there is a shared table, most words of the others are in it, too.
            if (shared_.size()) {
                worker->table.add_to(shared_);
                worker->table = WordTable();
            }
            tables.push_back(&worker->table);
            worker->place.buffer = Buffer();  // a text without a cut would still be held whole
        }
        words_.prepare(std::move(tables));
        crew_.start(num_threads_, words_.num_parts(), [this](int, size_t part) {
            words_.merge_part(part);
            return Failure();
        });
    }

    // Between merging and writing: the sizes of the arrays.
    void finish_merging() {
        crew_.join();
        shared_.clear_entries();
        for (auto& worker : workers_) worker->table.clear_entries();
        words_.place_parts();
    }

    size_t num_words() const { return words_.num_words(); }
    size_t num_bytes() const { return words_.num_bytes(); }

    void start_writing(uint8_t* data, int64_t* offsets, int64_t* counts) {
        crew_.start(num_threads_, words_.num_parts(), [=](int, size_t part) {
            words_.write_part(part, data, offsets, counts);
            return Failure();
        });
    }

    bool wait(int milliseconds) { return crew_.wait(milliseconds); }
    void cancel() {
        crew_.cancelled = true;
        crew_.join();
    }
    void join() { crew_.join(); }
    const Failure& failure() const { return crew_.failure(); }
    uint64_t bytes_done() const { return bytes_done_.load(std::memory_order_relaxed); }

  private:
    struct Worker {
        Worker(const Splitting& splitting, const std::atomic<bool>& cancelled)
            : counter(splitting, cancelled) {}
        WordTable table;
        TextCounter counter;
        BlockReader::Place place;
    };

    Failure count_block(Worker& worker, size_t block) {
        BlockReader::Text text;
        const Failure failure = reader_.read(block, worker.place, crew_.cancelled, text);
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
    const Splitting splitting_;
    const BlockReader reader_;
    int num_threads_;
    std::atomic<uint64_t> bytes_done_{0};
    std::vector<std::unique_ptr<Worker>> workers_;
    WordTable shared_;
    std::mutex shared_mutex_;
    FlatWords words_;
    Crew crew_;  // the last member: its threads end before anything goes that they use
};

// Counting texts in memory, and adding up words that are counted already.
class MemoryCounting {
  public:
    explicit MemoryCounting(Splitting splitting)
        : splitting_(std::move(splitting)), counter_(splitting_, never_) {}

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
    Splitting splitting_;
    TextCounter counter_;
    WordTable table_;
    FlatWords words_;
    Buffer buffer_;
};

}  // namespace cs336

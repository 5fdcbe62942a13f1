// FileEncoder: encodes files in several threads, block by block.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/failure.hpp"
#include "base/memory.hpp"
#include "base/thread_pool.hpp"
#include "encoding/batch_encoder.hpp"
#include "encoding/encoder.hpp"
#include "scanning/block_reader.hpp"
#include "unicode/text_view.hpp"
#include "unicode/utf8.hpp"

namespace cs336 {

// The ids of one block of a file.
struct EncodedBlock {
    Buffer ids;
    size_t num_ids = 0;
    std::vector<int64_t> ends;  // the number of ids up to and including each separator
    uint64_t num_bytes = 0;     // of the block, for progress
    size_t file = 0;
    Replaced replaced;  // `first` is an offset in the file
};

// Encodes files and returns their blocks in order. Call `start`. For each block, call `wait` until
// it returns true, use `block`, and call `next`. When `block` is null, call `close` and check
// `failure`.
class FileEncoder {
  public:
    // All arguments must outlive this object. Each worker has its own thread. With
    // InvalidBytes::KEEP, every invalid byte is encoded as its own id, and the texts before and
    // after it are encoded separately.
    FileEncoder(const BlockReader& reader, const std::vector<EncodingWorker*>& workers,
                size_t id_size, const SpecialIds& special, InvalidBytes invalid_bytes,
                uint32_t separator)
        : reader_(reader),
          workers_(workers),
          id_size_(id_size),
          special_(special),
          invalid_bytes_(invalid_bytes),
          separator_(separator),
          read_states_(workers.size()),
          slots_(2 * workers.size() + 2) {}
    ~FileEncoder() { close(); }

    void start() {
        const bool started =
            pool_.start(int(workers_.size()), reader_.num_blocks(),
                        [this](int thread, size_t block) { return encode(thread, block); });
        if (!started) taken_ = reader_.num_blocks();
    }

    // Wait at most `milliseconds` for the next block. Returns true if `block` may be called.
    bool wait(int milliseconds) {
        std::unique_lock<std::mutex> lock(mutex_);
        return ready_.wait_for(lock, std::chrono::milliseconds(milliseconds), [this] {
            return taken_ == reader_.num_blocks() || slot(taken_).state != Slot::OPEN;
        });
    }

    // The next block; null after the last block or if the next block failed.
    EncodedBlock* block() {
        std::lock_guard<std::mutex> lock(mutex_);
        if (taken_ == reader_.num_blocks() || slot(taken_).state != Slot::DONE) return nullptr;
        return &slot(taken_).block;
    }

    // Release the block and continue with the next one.
    void next() {
        slot(taken_).block.ids.trim(MAX_KEPT_BUFFER);
        std::lock_guard<std::mutex> lock(mutex_);
        slot(taken_).state = Slot::OPEN;
        ++taken_;
        room_.notify_all();
    }

    // Stop the threads. Afterwards, this object no longer uses the workers.
    void close() {
        if (closed_) return;
        closed_ = true;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            pool_.cancelled = true;
            for (EncodingWorker* worker : workers_) worker->cancelled = true;
            room_.notify_all();
        }
        pool_.join();
        for (EncodingWorker* worker : workers_) worker->cancelled = false;
    }
    const Failure& failure() const { return pool_.failure(); }

  private:
    // The maximum number of invalid bytes to encode between checks for cancellation.
    static constexpr ptrdiff_t MAX_INVALID_RUN = ptrdiff_t{1} << 16;

    // Block i uses slot i modulo the number of slots.
    struct Slot {
        enum State { OPEN, DONE, FAILED };
        State state = OPEN;
        EncodedBlock block;
    };

    Slot& slot(size_t block) { return slots_[block % slots_.size()]; }

    Failure encode(int thread, size_t block) {
        {
            // Keep the ids of only a few blocks. A thread that is further ahead waits.
            std::unique_lock<std::mutex> lock(mutex_);
            room_.wait(lock, [&] { return pool_.cancelled || block < taken_ + slots_.size(); });
            if (pool_.cancelled) throw Cancelled();
        }
        Failure failure;
        try {
            failure =
                encode_block(block, read_states_[thread], *workers_[thread], slot(block).block);
        } catch (...) {
            finish(block, Slot::FAILED);
            throw;
        }
        finish(block, failure.kind ? Slot::FAILED : Slot::DONE);
        return failure;
    }

    void finish(size_t block, Slot::State state) {
        std::lock_guard<std::mutex> lock(mutex_);
        slot(block).state = state;
        if (block == taken_) ready_.notify_one();
    }

    Failure encode_block(size_t block, BlockReader::ReadState& state, EncodingWorker& worker,
                         EncodedBlock& result) const {
        BlockReader::Text text;
        const Failure failure = reader_.read(block, state, worker.cancelled, text);
        if (failure.kind) return failure;
        result.num_bytes = text.num_bytes;
        result.file = text.file;
        result.replaced = {};
        result.ends.clear();
        TextSpan valid = {text.data, text.size};
        std::vector<uint8_t> replaced;
        if (invalid_bytes_ != InvalidBytes::KEEP) {
            const size_t invalid = first_invalid_utf8(text.data, text.size);
            if (invalid < text.size) {
                if (invalid_bytes_ == InvalidBytes::REFUSE) {
                    return {Failure::NOT_UTF8,  text.file, text.offset + invalid, 0,
                            text.data[invalid], ""};
                }
                result.replaced = replace_invalid_utf8(text.data, text.size, replaced);
                result.replaced.first += text.offset;
                valid = {replaced.data(), replaced.size()};
            }
        }
        result.ids.reserve((valid.size + OUTPUT_SLACK) * id_size_, 0);
        result.num_ids = 0;
        if (invalid_bytes_ == InvalidBytes::KEEP) {
            append_exactly(valid, worker, result);
        } else {
            append_text(valid, worker, result);
        }
        return {};
    }

    // Append the ids of valid UTF-8. Throws Cancelled.
    void append_text(TextSpan text, EncodingWorker& worker, EncodedBlock& result) const {
        const size_t num_ends = result.ends.size();
        const size_t num_ids =
            worker.encode(text.data, text.size, special_,
                          result.ids.data() + result.num_ids * id_size_, separator_, &result.ends);
        for (size_t i = num_ends; i < result.ends.size(); ++i) {
            result.ends[i] += int64_t(result.num_ids);
        }
        result.num_ids += num_ids;
    }

    // Append the ids of bytes that may be invalid UTF-8; see tokenizer/encoders/exact_bytes.py.
    void append_exactly(TextSpan text, EncodingWorker& worker, EncodedBlock& result) const {
        const uint8_t* const end = text.data + text.size;
        for (const uint8_t* start = text.data; start < end;) {
            const uint8_t* const valid_end = start + first_invalid_utf8(start, end - start);
            append_text({start, size_t(valid_end - start)}, worker, result);
            start = valid_end;
            while (start < end && start - valid_end < MAX_INVALID_RUN) {
                const Utf8Sequence next = utf8_sequence(start, end);
                if (next.valid) break;
                start += next.length;
            }
            const size_t num_invalid = start - valid_end;
            worker.encode_bytes(valid_end, num_invalid,
                                result.ids.data() + result.num_ids * id_size_);
            result.num_ids += num_invalid;
        }
    }

    const BlockReader& reader_;
    const std::vector<EncodingWorker*>& workers_;
    const size_t id_size_;
    const SpecialIds& special_;
    const InvalidBytes invalid_bytes_;
    const uint32_t separator_;
    bool closed_ = false;
    std::vector<BlockReader::ReadState> read_states_;
    // Guards the states of the slots and the counter; a block belongs to one thread at a time.
    std::mutex mutex_;
    std::condition_variable ready_, room_;
    std::vector<Slot> slots_;
    size_t taken_ = 0;
    ThreadPool pool_;  // last, so its threads end before the members they use are destroyed
};

}  // namespace cs336

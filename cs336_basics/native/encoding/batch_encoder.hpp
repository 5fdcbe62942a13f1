// BatchEncoder: encodes texts in memory, using several threads. This file also contains functions
// that encode a single text.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "base/failure.hpp"
#include "base/thread_pool.hpp"
#include "encoding/encoder.hpp"
#include "unicode/text_view.hpp"
#include "word_merging/word_merger.hpp"

namespace cs336 {

// Encode a short text: its UTF-8 must take at most MAX_SHORT_TEXT bytes (see utf8_bound). `out`
// must have room as for `EncodingWorker::encode`. Returns false if the text contains a lone
// surrogate.
inline bool encode_short_text(EncodingWorker& worker, const TextView& text,
                              const SpecialIds& special, void* out, size_t& num_ids) {
    uint8_t utf8[MAX_SHORT_TEXT + SPACES_AFTER];
    size_t size = text.length;
    if (text.kind == TextView::UTF8) {
        std::memcpy(utf8, text.data, size);
    } else {
        const uint8_t* const end = write_utf8(text, utf8);
        if (!end) return false;
        size = size_t(end - utf8);
    }
    std::memset(utf8 + size, ' ', SPACES_AFTER);
    num_ids = worker.encode_short(utf8, size, special, out);
    return true;
}

// Encode a text of any kind. The worker's output already contains `done` ids; append to them. Fails
// if the text contains a lone surrogate.
inline Failure encode_text(EncodingWorker& worker, const TextView& text, const SpecialIds& special,
                           size_t id_size, size_t done, size_t& num_ids) {
    TextSpan utf8;
    if (utf8_bound(text) <= MAX_SHORT_TEXT) {
        worker.output.reserve((done + MAX_SHORT_TEXT + OUTPUT_SLACK) * id_size, done * id_size);
        if (encode_short_text(worker, text, special, worker.output.data() + done * id_size,
                              num_ids)) {
            return {};
        }
    }
    const Failure failure = as_utf8(text, worker.text, utf8);
    if (failure.kind) return failure;
    worker.output.reserve((done + utf8.size + OUTPUT_SLACK) * id_size, done * id_size);
    num_ids = worker.encode(utf8.data, utf8.size, special, worker.output.data() + done * id_size,
                            NO_ID, nullptr);
    return {};
}

// Dropout for several texts, and their places: the document that each text is in, and the number of
// bytes of the document before it.
struct BatchDropout {
    uint64_t state;                // of the seed
    std::vector<uint64_t> shares;  // see Dropout; MAX_GAP + 1 numbers
    bool all;
    std::vector<uint64_t> documents, offsets;

    Dropout of_text(size_t text) const {
        return {state_for(state, documents[text]), shares.data(), all};
    }
};

// Encode a text of any kind with dropout; see `encode_text`.
inline Failure encode_dropped(EncodingWorker& worker, const TextView& text,
                              const SpecialIds& special, const Dropout& dropout, uint64_t offset,
                              size_t id_size, size_t done, size_t& num_ids) {
    TextSpan utf8;
    const Failure failure = as_utf8(text, worker.text, utf8);
    if (failure.kind) return failure;
    worker.output.reserve((done + utf8.size + OUTPUT_SLACK) * id_size, done * id_size);
    num_ids = worker.encode_dropped(utf8.data, utf8.size, special, dropout, offset,
                                    worker.output.data() + done * id_size);
    return {};
}

// Encodes texts in several threads, in groups of consecutive texts. Call `start` first. Then, to
// get the ids group by group, call `wait_group`, `ids` and `free` for each group in order. To
// collect all ids in one array instead, call `wait_group` until you can estimate the size of the
// array, then `write_to`, `wait` until it returns true, `join`, and `write_to` with an array that
// has room for all ids.
class BatchEncoder {
  public:
    // All arguments must outlive this object, which stops the threads when it is destroyed. Each
    // worker has its own thread. `dropout` may be null.
    BatchEncoder(const std::vector<EncodingWorker*>& workers, size_t id_size,
                 const std::vector<TextView>& texts, const SpecialIds& special,
                 const BatchDropout* dropout = nullptr)
        : workers_(workers),
          id_size_(id_size),
          texts_(texts),
          special_(special),
          dropout_(dropout),
          num_ids_(texts.size()) {
        size_t length = 0;
        for (size_t i = 0; i < texts.size(); ++i) {
            if (i == 0 || length >= GROUP_LENGTH) {
                starts_.push_back(i);
                length = 0;
            }
            length += texts[i].length;
        }
        groups_.reset(new Group[starts_.size()]);
        starts_.push_back(texts.size());
    }

    ~BatchEncoder() {
        pool_.cancelled = true;
        for (EncodingWorker* worker : workers_) worker->cancelled = true;
        pool_.join();
        for (EncodingWorker* worker : workers_) worker->cancelled = false;
    }

    size_t num_groups() const { return starts_.size() - 1; }
    // The texts of a group are [group_start(group), group_start(group + 1)).
    size_t group_start(size_t group) const { return starts_[group]; }

    void start() {
        pool_.start(int(workers_.size()), num_groups(), [this](int thread, size_t group) {
            const Failure failure = encode_group(*workers_[thread], group);
            write_finished();
            return failure;
        });
    }
    bool wait(int milliseconds) { return pool_.wait(milliseconds); }
    // Wait at most `milliseconds` for a group. Returns true if the group is encoded.
    bool wait_group(size_t group, int milliseconds) {
        std::unique_lock<std::mutex> lock(mutex_);
        return group_done_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                                    [&] { return groups_[group].done; });
    }
    void join() { pool_.join(); }
    // In the failure, `file` is the index of the text.
    const Failure& failure() const { return pool_.failure(); }
    size_t num_ids(size_t text) const { return num_ids_[text]; }
    // The concatenated ids of a group's texts; valid until `free`.
    const uint8_t* ids(size_t group) const { return groups_[group].ids.get(); }
    void free(size_t group) { groups_[group].ids.reset(); }

    // Estimate the total number of ids from the groups up to and including `last`, which must be
    // encoded already.
    size_t estimate(size_t last) const {
        double length = 0, ids = 0, all = 0;
        for (size_t i = 0; i < texts_.size(); ++i) {
            all += double(texts_[i].length);
            if (i >= starts_[last + 1]) continue;
            length += double(texts_[i].length);
            ids += double(num_ids_[i]);
        }
        return length > 0 ? size_t(ids * (all / length)) : 0;
    }

    // Set the array to which the threads copy the ids of finished groups. This avoids writing most
    // ids twice. Groups that do not fit into `room` ids are kept until the next call, whose array
    // must already contain the groups before them.
    void write_to(uint8_t* out, size_t room) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            out_ = out;
            room_ = room;
        }
        write_finished();
    }

  private:
    // The minimum group size in bytes or characters, except for the last group.
    static constexpr size_t GROUP_LENGTH = size_t{1} << 16;

    struct Group {
        std::unique_ptr<uint8_t[]> ids;
        size_t num_ids = 0;
        bool done = false;
    };

    Failure encode_group(EncodingWorker& worker, size_t group) {
        size_t total = 0;
        for (size_t i = starts_[group]; i < starts_[group + 1]; ++i) {
            Failure failure =
                dropout_ ? encode_dropped(worker, texts_[i], special_, dropout_->of_text(i),
                                          dropout_->offsets[i], id_size_, total, num_ids_[i])
                         : encode_text(worker, texts_[i], special_, id_size_, total, num_ids_[i]);
            if (failure.kind) {
                failure.file = i;
                return failure;
            }
            total += num_ids_[i];
        }
        finish_group(worker, group, total);
        worker.trim();
        return {};
    }

    // Copy the ids of a group from the worker, directly to `out_` if their offset is known.
    void finish_group(EncodingWorker& worker, size_t group, size_t num_ids) {
        uint8_t* out = nullptr;
        groups_[group].num_ids = num_ids;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (group == num_written_ && fits(group)) out = claim_output();
        }
        if (!out) {
            groups_[group].ids.reset(new uint8_t[num_ids * id_size_ + 1]);
            out = groups_[group].ids.get();
        }
        std::memcpy(out, worker.output.data(), num_ids * id_size_);
        std::lock_guard<std::mutex> lock(mutex_);
        groups_[group].done = true;
        group_done_.notify_one();
    }

    // Copy to `out_` the finished groups that had to wait for earlier groups.
    void write_finished() {
        for (;;) {
            size_t group;
            uint8_t* out;
            {
                std::lock_guard<std::mutex> lock(mutex_);
                group = num_written_;
                if (group == num_groups() || !groups_[group].done || !fits(group)) return;
                out = claim_output();
            }
            copy_group(group, out);
        }
    }

    // Whether `out_` has room for the next group. Requires `mutex_`.
    bool fits(size_t group) const {
        return out_ && groups_[group].num_ids <= room_ - num_ids_written_;
    }
    // Return the position of the next group in `out_`. Requires `mutex_`.
    uint8_t* claim_output() {
        uint8_t* const out = out_ + num_ids_written_ * id_size_;
        num_ids_written_ += groups_[num_written_++].num_ids;
        return out;
    }

    void copy_group(size_t group, uint8_t* out) {
        std::memcpy(out, ids(group), groups_[group].num_ids * id_size_);
        free(group);
    }

    const std::vector<EncodingWorker*>& workers_;
    const size_t id_size_;
    const std::vector<TextView>& texts_;
    const SpecialIds& special_;
    const BatchDropout* const dropout_;
    std::vector<size_t> num_ids_;  // of every text
    std::vector<size_t> starts_;   // the first text of every group, and the number of texts
    std::unique_ptr<Group[]> groups_;
    std::mutex mutex_;  // guards each group's `done` and the members below
    std::condition_variable group_done_;
    uint8_t* out_ = nullptr;
    size_t room_ = 0;
    size_t num_written_ = 0, num_ids_written_ = 0;  // groups and ids in `out_`
    ThreadPool pool_;  // last, so its threads end before the members they use are destroyed
};

}  // namespace cs336

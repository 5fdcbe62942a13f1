// Encoding texts in memory: one, or many with threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "encoder.hpp"
#include "failure.hpp"
#include "safe_cuts.hpp"
#include "thread_pool.hpp"
#include "word_merger.hpp"

namespace cs336 {

struct TextSpan {
    const uint8_t* data;
    size_t size;
};

// The ids of one text.
struct EncodedText {
    std::unique_ptr<uint8_t[]> ids;
    size_t num_ids = 0;
};

// Bytes. A larger buffer for the ids of one text is freed after that text.
constexpr size_t MAX_KEPT_OUTPUT = size_t{1} << 24;

// A byte that the vocabulary lacks, by its offset in the text.
inline Failure absent_byte_failure(const AbsentByte& absent, TextSpan text) {
    return {Failure::ABSENT_BYTE, 0, uint64_t(absent.byte - text.data), 0, *absent.byte, ""};
}

// EncodingWorker::encode, with AbsentByte as a Failure.
inline Failure encode_to(EncodingWorker& worker, TextSpan text, const SpecialIds& special,
                         void* out, uint32_t separator, std::vector<int64_t>* ends,
                         size_t& num_ids) {
    try {
        num_ids = worker.encode(text.data, text.size, special, out, separator, ends);
    } catch (const AbsentByte& absent) {
        return absent_byte_failure(absent, text);
    }
    return {};
}

// The same for one pre-token.
inline Failure encode_word_to(EncodingWorker& worker, TextSpan word, void* out, size_t& num_ids) {
    try {
        num_ids = worker.encode_word(word.data, word.size, out);
    } catch (const AbsentByte& absent) {
        return absent_byte_failure(absent, word);
    }
    return {};
}

// Encode a text (valid UTF-8) into memory of its own.
inline Failure encode_text(EncodingWorker& worker, size_t id_size, TextSpan text,
                           const SpecialIds& special, EncodedText& result) {
    worker.output.reserve((text.size + OUTPUT_SLACK) * id_size, 0);
    const Failure failure =
        encode_to(worker, text, special, worker.output.data(), ABSENT_ID, nullptr, result.num_ids);
    if (failure.kind) return failure;
    result.ids.reset(new uint8_t[result.num_ids * id_size + 1]);
    std::memcpy(result.ids.get(), worker.output.data(), result.num_ids * id_size);
    worker.output.trim(MAX_KEPT_OUTPUT);
    return {};
}

// Cut a text in memory into spans of about `span_size` bytes that can be encoded one by one.
inline std::vector<TextSpan> cut_text(TextSpan text, size_t span_size, const SpecialIds& special,
                                      const Scanner& scanner) {
    const SafeCuts cuts(special.tokens, scanner);
    std::vector<TextSpan> spans;
    size_t start = 0;
    while (start < text.size) {
        size_t end = text.size;
        if (text.size - start > span_size) {
            end = cuts.first(text.data, text.size, start + span_size, text.size);
        }
        spans.push_back({text.data + start, end - start});
        start = end;
    }
    return spans;
}

// Encodes texts with threads: `start`, `wait` until it returns true, `join`, then take the results.
class BatchEncoder {
  public:
    // All arguments must outlive this object. There is one thread for each worker.
    BatchEncoder(const std::vector<EncodingWorker*>& workers, size_t id_size,
                 const std::vector<TextSpan>& texts, const SpecialIds& special)
        : workers_(workers), id_size_(id_size), texts_(texts), special_(special) {
        results_.resize(texts.size());
    }

    void start() {
        pool_.start(int(workers_.size()), texts_.size(), [this](int thread, size_t i) {
            Failure failure =
                encode_text(*workers_[thread], id_size_, texts_[i], special_, results_[i]);
            failure.file = i;
            return failure;
        });
    }
    bool wait(int milliseconds) { return pool_.wait(milliseconds); }
    void join() { pool_.join(); }
    void cancel() {
        pool_.cancelled = true;
        for (EncodingWorker* worker : workers_) worker->cancelled = true;
        pool_.join();
        for (EncodingWorker* worker : workers_) worker->cancelled = false;
    }
    // `file` is the index of the text.
    const Failure& failure() const { return pool_.failure(); }
    size_t num_ids(size_t i) const { return results_[i].num_ids; }
    const void* ids(size_t i) const { return results_[i].ids.get(); }

    // Copy all ids, one text after the other, and free them. Threads do that, too: the memory they
    // copy to is touched for the first time.
    void gather(uint8_t* out) {
        std::vector<uint8_t*> starts;
        for (const EncodedText& result : results_) {
            starts.push_back(out);
            out += result.num_ids * id_size_;
        }
        const auto copy = [&](int, size_t i) {
            std::memcpy(starts[i], results_[i].ids.get(), results_[i].num_ids * id_size_);
            results_[i].ids.reset();
            return Failure();
        };
        if (!pool_.start(int(workers_.size()), results_.size(), copy)) {
            for (size_t i = 0; i < results_.size(); ++i) copy(0, i);
        }
        pool_.join();
    }

  private:
    const std::vector<EncodingWorker*>& workers_;
    const size_t id_size_;
    const std::vector<TextSpan>& texts_;
    const SpecialIds& special_;
    std::vector<EncodedText> results_;
    ThreadPool pool_;  // the last member: destroyed first, which ends its threads
};

}  // namespace cs336

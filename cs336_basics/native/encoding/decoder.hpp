// Decoder: converts ids to bytes.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <vector>

#include "base/compiler.hpp"
#include "base/memory.hpp"
#include "unicode/text_view.hpp"

namespace cs336 {

// This many bytes after the last token may be overwritten, because tokens are copied 16 bytes at a
// time.
constexpr size_t DECODER_SLACK = 16;

// Stores the tokens of a vocabulary by id in one array.
class Decoder {
  public:
    // Token i is data[offsets[i], offsets[i + 1]); if it is empty, id i has no token. Throws
    // std::invalid_argument.
    Decoder(const uint8_t* data, const int64_t* offsets, size_t num_ids)
        : data_(data, data + offsets[num_ids]) {
        if (data_.size() > UINT32_MAX) {
            throw std::invalid_argument("the tokens of the vocabulary must take less than 4 GiB");
        }
        data_.resize(data_.size() + DECODER_SLACK);
        spans_.reserve(num_ids);
        for (size_t id = 0; id < num_ids; ++id) {
            spans_.push_back({uint32_t(offsets[id]), uint32_t(offsets[id + 1] - offsets[id])});
        }
    }

    // Copy ids, and return the total length of their tokens; SIZE_MAX if an id has no token.
    // Another thread may change `ids`. Each id is read only once, so the id that is checked is the
    // id that is copied.
    template <class Id>
    size_t copy_ids(const Id* ids, size_t count, uint32_t* copies) const {
        size_t sum = 0;
        for (size_t i = 0; i < count; ++i) {
            const uint32_t id = load_relaxed(ids + i);
            if (size_t(id) >= spans_.size() || spans_[id].length == 0) return SIZE_MAX;
            copies[i] = id;
            sum += spans_[id].length;
        }
        return sum;
    }

    // Write the tokens of ids that `copy_ids` copied, and up to DECODER_SLACK more bytes.
    void write(const uint32_t* ids, size_t count, uint8_t* out) const {
        for (size_t i = 0; i < count; ++i) {
            const Span span = spans_[ids[i]];
            const uint8_t* bytes = data_.data() + span.offset;
            std::memcpy(out, bytes, DECODER_SLACK);
            if (span.length > DECODER_SLACK) {
                std::memcpy(out + DECODER_SLACK, bytes + DECODER_SLACK,
                            span.length - DECODER_SLACK);
            }
            out += span.length;
        }
    }

    // The token of an id; empty if the id has no token.
    TextSpan token(uint32_t id) const {
        if (size_t(id) >= spans_.size()) return {nullptr, 0};
        return {data_.data() + spans_[id].offset, spans_[id].length};
    }

  private:
    struct Span {
        uint32_t offset, length;
    };

    std::vector<uint8_t> data_;
    std::vector<Span> spans_;
};

// Decodes ids step by step into a growing buffer.
class Decoding {
  public:
    // `decoder` must outlive this object. `count` is the expected number of ids.
    Decoding(const Decoder& decoder, size_t count) : decoder_(decoder) { grow(5 * count + 64); }
    Decoding(const Decoding&) = delete;
    ~Decoding() { std::free(bytes_); }

    // Append the tokens of ids, which are copied to `copies` first and may be there already.
    // Returns false if an id has no token. Throws std::bad_alloc.
    template <class Id>
    bool append(const Id* ids, size_t count, uint32_t* copies) {
        const size_t added = decoder_.copy_ids(ids, count, copies);
        if (added == SIZE_MAX) return false;
        if (size_ + added + DECODER_SLACK > capacity_) {
            grow(std::max(2 * capacity_, size_ + added + DECODER_SLACK));
        }
        decoder_.write(copies, count, bytes_ + size_);
        size_ += added;
        return true;
    }

    const char* data() const { return reinterpret_cast<const char*>(bytes_); }
    size_t size() const { return size_; }

  private:
    void grow(size_t capacity) {
        void* larger = std::realloc(bytes_, capacity);
        if (!larger) throw std::bad_alloc();
        if (!bytes_) ask_for_huge_pages(larger, capacity);
        bytes_ = static_cast<uint8_t*>(larger);
        capacity_ = capacity;
    }

    const Decoder& decoder_;
    uint8_t* bytes_ = nullptr;
    size_t size_ = 0, capacity_ = 0;
};

}  // namespace cs336

// Decoding of ids to bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace cs336 {

// Bytes that may be written after the last token: tokens are copied 16 bytes at a time.
constexpr size_t DECODER_SLACK = 16;

// The tokens of a vocabulary by id, in one array.
class Decoder {
  public:
    // Token i is data[offsets[i], offsets[i + 1]); an empty one is an id without a token. Throws
    // std::length_error.
    Decoder(const uint8_t* data, const int64_t* offsets, size_t num_ids)
        : data_(data, data + offsets[num_ids]) {
        if (data_.size() > UINT32_MAX) throw std::length_error("the tokens take more than 4 GiB");
        data_.resize(data_.size() + DECODER_SLACK);
        spans_.reserve(num_ids);
        for (size_t id = 0; id < num_ids; ++id) {
            spans_.push_back({uint32_t(offsets[id]), uint32_t(offsets[id + 1] - offsets[id])});
        }
    }

    // The index of the first id that has no token. If all have one, returns `count` and adds the
    // number of their bytes to `num_bytes`.
    template <class Id>
    size_t check(const Id* ids, size_t count, size_t& num_bytes) const {
        size_t sum = 0;
        for (size_t i = 0; i < count; ++i) {
            if (size_t(ids[i]) >= spans_.size() || spans_[ids[i]].length == 0) return i;
            sum += spans_[ids[i]].length;
        }
        num_bytes += sum;
        return count;
    }

    // Write the tokens of ids that passed `check`, and up to DECODER_SLACK more bytes; returns the
    // end of the last token.
    template <class Id>
    uint8_t* write(const Id* ids, size_t count, uint8_t* out) const {
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
        return out;
    }

  private:
    struct Span {
        uint32_t offset, length;
    };

    std::vector<uint8_t> data_;
    std::vector<Span> spans_;
};

}  // namespace cs336

// SegmentCutter: cuts a word into segments that merge independently.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "base/compiler.hpp"
#include "encoding/join_filter.hpp"

namespace cs336 {

class SegmentCutter {
  public:
    static constexpr size_t CAPACITY = 128;  // size of `ends`

    // `joins` and the word must outlive this object.
    SegmentCutter(const JoinFilter& joins, const uint8_t* word, size_t length)
        : joins_(joins), start_(word), position_(word + 1), end_(word + length) {
        for (size_t i = 0; i < 3; ++i) shift_in(i < length ? word[i] : 0);
    }

    // Find the next segments: [first, first + ends[0]), [first + ends[0], first + ends[1]) and so
    // on. Returns their number; 0 after the last segment. Throws std::length_error.
    CS336_INLINE size_t fill(const uint8_t*& first, uint32_t* ends) {
        first = start_;
        size_t count = 0;
        while (count == 0 && start_ < end_) {
            // Cuts only between characters give fewer segments than cuts between bytes, and the
            // segments repeat almost as often. No branch depends on the filter's results, because
            // they are unpredictable.
            const uint8_t* const stop =
                position_ + std::min<size_t>(CAPACITY - 1, end_ - position_);
            for (; position_ < stop; ++position_) {
                shift_in(position_ + 2 < end_ ? position_[2] : 0);
                ends[count] = uint32_t(position_ - start_);
                const bool continues = (*position_ & 0xC0) == 0x80;
                count += !continues && !joins_.may_join(window_);
            }
            if (position_ - start_ > ptrdiff_t(UINT32_MAX - CAPACITY)) {
                throw std::length_error("a pre-token must be shorter than 4 GiB");
            }
            if (position_ == end_) ends[count++] = uint32_t(end_ - start_);
            if (count) start_ += ends[count - 1];
        }
        return count;
    }

  private:
    CS336_INLINE void shift_in(uint8_t byte) {
        window_ = window_ >> 8 | JoinFilter::Window(byte) << 40;
    }

    const JoinFilter& joins_;
    const uint8_t *start_, *position_;  // the start of the next segment; the next boundary
    const uint8_t* const end_;
    JoinFilter::Window window_ = 0;
};

}  // namespace cs336

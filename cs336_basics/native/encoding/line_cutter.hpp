// LineCutter: cuts a pre-token of several words, such as a line, into parts that merge
// independently and occur again: mostly words.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "base/compiler.hpp"
#include "base/simd_target.hpp"
#include "encoding/join_filter.hpp"

namespace cs336 {

// The parts end where letters, digits, other characters and spaces meet, and before the last of
// several spaces, unless a merge may join the bytes there. Every text has such boundaries, also
// invalid UTF-8. SegmentCutter, which looks at every boundary between characters, cuts words, too,
// and its segments are so short that looking them up takes twice as long.
class LineCutter {
  public:
    static constexpr size_t CAPACITY = 512;  // size of `ends`

    // `joins` and the line must outlive this object.
    LineCutter(const JoinFilter& joins, const uint8_t* line, size_t length)
        : joins_(joins), line_(line), start_(line), position_(line), end_(line + length) {}

    // Find the next parts: [first, first + ends[0]), [first + ends[0], first + ends[1]) and so on.
    // Returns their number; 0 after the last part. Throws std::length_error.
    size_t fill(const uint8_t*& first, uint32_t* ends) {
        first = start_;
        size_t count = 0;
        while (count == 0 && start_ < end_) {
            if (position_ - start_ > ptrdiff_t(UINT32_MAX - 2 * CAPACITY)) {
                throw std::length_error("a pre-token must be shorter than 4 GiB");
            }
            const size_t num_candidates = find_candidates(ends);
            for (size_t i = 0; i < num_candidates; ++i) {
                const uint8_t* const boundary = start_ + ends[i];
                ends[count] = ends[i];
                count += !joins_.may_meet(boundary[-1], boundary[0]) ||
                         !joins_.may_join(window_at(boundary));
            }
            if (position_ == end_) ends[count++] = uint32_t(end_ - start_);
            if (count) start_ += ends[count - 1];
        }
        return count;
    }

  private:
    static constexpr size_t BLOCK = 64;  // bytes

    // A bit for each byte of a block, or for the byte before or after it, by the kind of the byte.
    // Bytes beyond ASCII are mostly letters; the remaining kind is everything else.
    struct Kinds {
        uint64_t letters = 0, digits = 0, spaces = 0;

        CS336_INLINE void add(uint8_t byte, int bit) {
            const bool is_letter = byte >= 0x80 || uint8_t((byte | 0x20) - 'a') < 26;
            letters |= uint64_t(is_letter) << bit;
            digits |= uint64_t(uint8_t(byte - '0') < 10) << bit;
            spaces |= uint64_t(byte == ' ') << bit;
        }
    };

    // The kinds of the bytes of a block.
    static CS336_INLINE Kinds kinds_of(const uint8_t* block) {
        Kinds kinds;
#if defined(CS336_X86)
        for (int i = 0; i < int(BLOCK); i += 16) {
            const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + i));
            const auto mask = [i](__m128i found) {
                return uint64_t(uint32_t(_mm_movemask_epi8(found))) << i;
            };
            // Signed comparisons, so the first and last values are moved to the lowest numbers.
            const auto in_range = [](__m128i values, char first, char size) {
                const __m128i moved = _mm_sub_epi8(values, _mm_set1_epi8(char(first + 128)));
                return _mm_cmplt_epi8(moved, _mm_set1_epi8(char(size - 128)));
            };
            kinds.letters |= mask(
                _mm_or_si128(in_range(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26), bytes));
            kinds.digits |= mask(in_range(bytes, '0', 10));
            kinds.spaces |= mask(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(' ')));
        }
#else
        for (int i = 0; i < int(BLOCK); ++i) kinds.add(block[i], i);
#endif
        return kinds;
    }

    // Write the boundaries from `position_` on, relative to `start_`. Returns
    // their number.
    CS336_INLINE size_t find_candidates(uint32_t* ends) {
        size_t count = 0;
        for (size_t i = 0; i < CAPACITY / BLOCK && position_ < end_; ++i) {
            for (uint64_t mask = boundaries(); mask; mask &= mask - 1) {
                ends[count++] = uint32_t(position_ - start_) + uint32_t(lowest_bit(mask));
            }
            position_ += std::min<size_t>(BLOCK, size_t(end_ - position_));
        }
        return count;
    }

    // A bit for each byte of the block at `position_` before which a part may end.
    CS336_INLINE uint64_t boundaries() const {
        const size_t size = std::min<size_t>(BLOCK, size_t(end_ - position_));
        Kinds kinds, before, after;
        if (size == BLOCK) {
            kinds = kinds_of(position_);
        } else {
            uint8_t copy[BLOCK] = {};
            std::memcpy(copy, position_, size);
            kinds = kinds_of(copy);
        }
        if (position_ > line_) before.add(position_[-1], 0);
        if (position_ + BLOCK < end_) after.add(position_[BLOCK], 63);
        const uint64_t after_letter = kinds.letters << 1 | before.letters;
        const uint64_t after_digit = kinds.digits << 1 | before.digits;
        const uint64_t after_space = kinds.spaces << 1 | before.spaces;
        const uint64_t before_space = kinds.spaces >> 1 | after.spaces;
        const uint64_t changes = (kinds.letters ^ after_letter) | (kinds.digits ^ after_digit) |
                                 (kinds.spaces ^ after_space);
        uint64_t found = (changes & ~after_space) | (kinds.spaces & after_space & ~before_space);
        if (position_ == line_) found &= ~uint64_t{1};
        return size == BLOCK ? found : found & ((uint64_t{1} << size) - 1);
    }

    CS336_INLINE JoinFilter::Window window_at(const uint8_t* boundary) const {
        JoinFilter::Window window = 0;
        if (boundary - line_ >= 3 && end_ - boundary >= 5) {
            std::memcpy(&window, boundary - 3, 8);
            return window;
        }
        for (int i = 0; i < 6; ++i) {
            const uint8_t* const byte = boundary + (i - 3);
            if (byte >= line_ && byte < end_) window |= JoinFilter::Window(*byte) << 8 * i;
        }
        return window;
    }

    const JoinFilter& joins_;
    const uint8_t *const line_, *start_, *position_;  // the start of the next part; searched so far
    const uint8_t* const end_;
};

}  // namespace cs336

// LineCutter: cuts pre-tokens of several words, such as lines, into parts that merge independently
// and occur again: mostly words.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "base/compiler.hpp"
#include "base/simd_level.hpp"
#include "base/simd_target.hpp"
#include "encoding/join_filter.hpp"

namespace cs336 {

// The parts end where letters, digits, other characters and spaces meet, and before the last of
// several spaces, unless a merge may join the bytes there. Every text has such boundaries, also
// invalid UTF-8. SegmentCutter, which looks at every boundary between characters, cuts words, too,
// and its segments are so short that looking them up takes twice as long.
class LineCutter {
  public:
    // The size of `ends`: a part may end before every byte of 16 blocks, and the last at their end.
    static constexpr size_t CAPACITY = 16 * 64 + 1;

    // `joins` and the text must outlive this object. The text is a single line.
    LineCutter(const JoinFilter& joins, SimdLevel simd_level, const uint8_t* text, size_t length)
        : LineCutter(joins, simd_level, text, length, text, nullptr, 0) {}

    // Lines also end at origin + line_ends[0], origin + line_ends[1] and so on, which are all
    // within the text.
    LineCutter(const JoinFilter& joins, SimdLevel simd_level, const uint8_t* text, size_t length,
               const uint8_t* origin, const uint32_t* line_ends, size_t num_line_ends)
        : joins_(joins),
          simd_level_(simd_level),
          text_(text),
          start_(text),
          position_(text),
          end_(text + length),
          line_start_(text),
          origin_(origin),
          next_line_end_(line_ends),
          last_line_end_(line_ends + num_line_ends) {}

    // Whether a part may end between two bytes, if the byte `next` follows them.
    static bool may_end(uint8_t before, uint8_t after, uint8_t next) {
        if (before == ' ') return after == ' ' && next != ' ';
        return kind_of(before) != kind_of(after);
    }

    // Find the next parts: [first, first + ends[0]), [first + ends[0], first + ends[1]) and so on.
    // Returns their number; 0 after the last part. Throws std::length_error.
    size_t fill(const uint8_t*& first, uint32_t* ends) {
#if defined(CS336_X86)
        if (simd_level_ >= SimdLevel::AVX2) return fill_for_avx2(first, ends);
#endif
        return fill_here(first, ends);
    }

    // Whether `fill` has returned all parts.
    bool is_done() const { return start_ == end_; }

  private:
    static constexpr size_t BLOCK = 64;  // bytes

#if defined(CS336_X86)
    CS336_AVX2 CS336_NOINLINE size_t fill_for_avx2(const uint8_t*& first, uint32_t* ends) {
        return fill_here(first, ends);
    }
#endif

    // Inlined into callers, so that the compiler uses their instruction sets.
    CS336_INLINE size_t fill_here(const uint8_t*& first, uint32_t* ends) {
        first = start_;
        size_t count = 0;
        while (count == 0 && start_ < end_) {
            if (position_ - start_ > ptrdiff_t(UINT32_MAX - 2 * CAPACITY)) {
                throw std::length_error("a pre-token must be shorter than 4 GiB");
            }
            for (size_t i = 0; i < CAPACITY / BLOCK && position_ < end_; ++i) {
                const uint32_t offset = uint32_t(position_ - start_);
                for (uint64_t mask = boundaries(); mask; mask &= mask - 1) {
                    ends[count++] = offset + uint32_t(lowest_bit(mask));
                }
                position_ += std::min<size_t>(BLOCK, size_t(end_ - position_));
            }
            if (position_ == end_) ends[count++] = uint32_t(end_ - start_);
            if (count) start_ += ends[count - 1];
        }
        return count;
    }

    // A bit for each byte of a block, or for the byte before or after it, by the kind of the byte.
    struct Kinds {
        uint64_t letters = 0, digits = 0, spaces = 0;

        CS336_INLINE void add(uint8_t byte, int bit) {
            const ByteKind kind = kind_of(byte);
            letters |= uint64_t(kind == LETTER) << bit;
            digits |= uint64_t(kind == DIGIT) << bit;
            spaces |= uint64_t(kind == SPACE) << bit;
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

    // A bit for each byte of the block at `position_` before which a part may end.
    CS336_INLINE uint64_t boundaries() {
        const size_t size = std::min<size_t>(BLOCK, size_t(end_ - position_));
        Kinds kinds, before, after;
        if (size == BLOCK) {
            kinds = kinds_of(position_);
        } else {
            uint8_t copy[BLOCK] = {};
            std::memcpy(copy, position_, size);
            kinds = kinds_of(copy);
        }
        if (position_ > text_) before.add(position_[-1], 0);
        if (position_ + BLOCK < end_) after.add(position_[BLOCK], 63);
        uint64_t line_ends = 0;
        for (; next_line_end_ != last_line_end_; ++next_line_end_) {
            const size_t end = size_t(origin_ + *next_line_end_ - position_);
            if (end >= BLOCK) break;
            line_ends |= uint64_t{1} << end;
        }
        uint64_t found = cuts_of(kinds, before, after, line_ends, size) | line_ends;
        if (line_ends) line_start_ = position_ + highest_bit(line_ends);
        if (position_ == text_) found &= ~uint64_t{1};
        return size == BLOCK ? found : found & ((uint64_t{1} << size) - 1);
    }

    // A bit for each byte of the block before which a part ends, if no line ends there.
    CS336_INLINE uint64_t cuts_of(const Kinds& at, const Kinds& first, const Kinds& last,
                                  uint64_t line_ends, size_t size) const {
        const uint64_t others = ~(at.letters | at.digits | at.spaces);
        const uint64_t kinds[NUM_BYTE_KINDS] = {at.letters, at.digits, at.spaces, others};
        uint64_t after[NUM_BYTE_KINDS] = {at.letters << 1 | first.letters,
                                          at.digits << 1 | first.digits,
                                          at.spaces << 1 | first.spaces};
        after[OTHER] = ~(after[LETTER] | after[DIGIT] | after[SPACE]);
        const uint64_t before_space = at.spaces >> 1 | last.spaces;
        const uint64_t changes =
            (at.letters ^ after[LETTER]) | (at.digits ^ after[DIGIT]) | (at.spaces ^ after[SPACE]);
        const uint64_t last_spaces = at.spaces & after[SPACE] & ~before_space;
        uint64_t cuts = (changes & ~after[SPACE]) | last_spaces;
        // No merge joins most kinds of bytes, and where a line ends, it does not matter.
        uint64_t unclear = 0;
        for (const KindPair& pair : joins_.meeting_kinds()) {
            unclear |= after[pair.before] & kinds[pair.after];
        }
        unclear &= cuts & ~line_ends;
        if (size < BLOCK) unclear &= (uint64_t{1} << size) - 1;
        if (const uint64_t runs = unclear & last_spaces; runs && joins_.spaces().exist()) {
            unclear ^= runs;
            cuts ^= runs ^ cuts_of_runs(runs, ~after[SPACE], line_ends);
        }
        // No branch depends on a single boundary: few are joined, and which is unpredictable.
        if (position_ == text_) unclear &= ~uint64_t{1};
        uint64_t meeting = 0;
        for (; unclear; unclear &= unclear - 1) {
            const int i = lowest_bit(unclear);
            meeting |= uint64_t{joins_.may_meet(position_[i - 1], position_[i])} << i;
        }
        for (; meeting; meeting &= meeting - 1) {
            const int i = lowest_bit(meeting);
            cuts ^= uint64_t{joins_.may_join(window_at(position_ + i))} << i;
        }
        return cuts;
    }

    // A bit for each byte of the block before which a run of several spaces and what follows is
    // cut. `last` are the last spaces, and `starts` the bytes that follow no space.
    CS336_INLINE uint64_t cuts_of_runs(uint64_t last, uint64_t starts, uint64_t line_ends) const {
        uint64_t cuts = 0;
        // A space that ends a line joins no character after it; the next block is not known.
        for (last &= ~(line_ends | line_ends >> 1 | uint64_t{1} << 63); last; last &= last - 1) {
            const int i = lowest_bit(last);
            const uint8_t* const space = position_ + i;
            if (end_ - space < 3) break;
            const uint64_t before = (starts | line_ends) & ((uint64_t{1} << i) - 1);
            const uint8_t* start = position_ + (before ? highest_bit(before) : 0);
            if (!before) {
                while (start > line_start_ && start[-1] == ' ') --start;
            }
            const size_t num_spaces = size_t(space + 1 - start);
            cuts |= uint64_t(joins_.spaces().cut(num_spaces, space[1], space[2])) << i;
        }
        return cuts;
    }

    CS336_INLINE JoinFilter::Window window_at(const uint8_t* boundary) const {
        JoinFilter::Window window = 0;
        if (boundary - text_ >= 3 && end_ - boundary >= 5) {
            std::memcpy(&window, boundary - 3, 8);
            return window;
        }
        for (int i = 0; i < 6; ++i) {
            const uint8_t* const byte = boundary + (i - 3);
            if (byte >= text_ && byte < end_) window |= JoinFilter::Window(*byte) << 8 * i;
        }
        return window;
    }

    const JoinFilter& joins_;
    const SimdLevel simd_level_;
    const uint8_t *const text_, *start_, *position_;  // the start of the next part; searched so far
    const uint8_t* const end_;
    const uint8_t* line_start_;  // of the line with the byte before `position_`
    const uint8_t* const origin_;
    const uint32_t *next_line_end_, *const last_line_end_;
};

}  // namespace cs336

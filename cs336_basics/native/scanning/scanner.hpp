// Scanner: splits text into batches of pre-tokens.
//
// The patterns `gpt2` and `cl100k` have their own code. All other patterns run as a SplitProgram;
// for MASKED_PATTERNS, the program runs only where masks cannot find the pre-token starts.
// The result is exactly what the `regex` module finds with the regular expressions. The scanner
// reads no byte outside [text, text + size), which must be valid UTF-8.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/compiler.hpp"
#include "scanning/simd/dispatch.hpp"
#include "scanning/split_patterns.hpp"
#include "scanning/split_program.hpp"

namespace cs336 {

// A split pattern that matches every character, ready to scan. It can be copied and shared.
class Scanner {
  public:
    Scanner() : Scanner(false, SimdLevel::SCALAR) {}
    Scanner(bool cl100k, SimdLevel simd_level)
        : fill_(cl100k ? fill_function<Cl100k, Cl100kStarts<Cl100kRules>>(simd_level)
                       : fill_function<Gpt2, Gpt2Starts<Digits::ALL>>(simd_level)),
          next_(cl100k ? Cl100k::next : Gpt2::next),
          line_feeds_(!cl100k) {}
    explicit Scanner(std::shared_ptr<const SplitProgram> program) : program_(std::move(program)) {}
    // `program` must be compiled from the same pattern.
    Scanner(std::shared_ptr<const SplitProgram> program, const MaskedPattern& pattern,
            SimdLevel simd_level)
        : program_(std::move(program)), fill_with_(pattern.fill_with(simd_level)) {}

    // Call `batch(first, ends, count)` for every batch of consecutive pre-tokens: [first, first +
    // ends[0]), [first + ends[0], first + ends[1]) and so on. Call `huge(first, length)` for a
    // pre-token that is longer than 4 GiB.
    template <class Batch, class Huge>
    void scan(const uint8_t* text, size_t size, Batch&& batch, Huge&& huge) const {
        if (program_) {
            scan_program(text, size, batch, huge);
            return;
        }
        uint32_t ends[BATCH_CAPACITY];
        size_t position = 0;
        while (position < size) {
            const size_t origin = position;
            const size_t count = fill_(text, size, position, ends);
            if (count) {
                batch(text + origin, ends, count);
            } else {
                position = next_(text, size, origin);
                huge(text + origin, position - origin);
            }
        }
    }

    // The number of states to pass to the constructor of ScanState.
    size_t num_states() const { return program_ ? program_->num_states() : 0; }

    // Find one batch, as `fill` in scalar.hpp does. Returns 0 for a pre-token longer than 4 GiB.
    size_t fill(const uint8_t* text, size_t size, size_t& position, uint32_t* ends,
                ScanState& state) const {
        if (fill_with_) return fill_with_(*program_, text, size, position, ends, state);
        return program_ ? program_->fill(text, size, position, ends, BATCH_CAPACITY, state)
                        : fill_(text, size, position, ends);
    }

    // The end of the pre-token that starts at `i` < `size`.
    size_t next(const uint8_t* text, size_t size, size_t i, ScanState& state) const {
        return program_ ? program_->next(text, size, i, state) : next_(text, size, i);
    }

    // Whether a pre-token always ends before the ASCII character at `offset` > 0, and the text
    // after `offset` does not affect how the text before it is split. See
    // splitting/safe_cuts.py. The text may be invalid UTF-8.
    bool is_safe_cut(const uint8_t* text, size_t offset) const {
        if (program_) return program_->is_safe_cut(text, offset);
        if (text[offset] != ' ' && !(line_feeds_ && text[offset] == '\n')) return false;
        const uint8_t before = text[offset - 1];
        if (before < 0x80) return before > 0x20 && before < 0x7F;
        return !ends_with_wide_space(text, offset);
    }

  private:
    // This function is not part of `scan`, which needs the registers: if both were one function,
    // encoding with a full cache would take 6 % longer.
    template <class Batch, class Huge>
    CS336_NOINLINE void scan_program(const uint8_t* text, size_t size, Batch& batch,
                                     Huge& huge) const {
        uint32_t ends[BATCH_CAPACITY];
        ScanState state(num_states());
        size_t position = 0;
        while (position < size) {
            const size_t origin = position;
            const size_t count = fill(text, size, position, ends, state);
            if (count) {
                batch(text + origin, ends, count);
            } else {
                position = next(text, size, origin, state);
                huge(text + origin, position - origin);
            }
        }
    }

    // Whether [text, text + end), which ends with a byte above 127, ends with whitespace.
    static bool ends_with_wide_space(const uint8_t* text, size_t end) {
        const uint8_t last = text[end - 1];
        if (end >= 2 && text[end - 2] == 0xC2) return last == 0x85 || last == 0xA0;
        if (end < 3) return false;
        const uint8_t first = text[end - 3];
        // The text may be invalid UTF-8, so accept only a three-byte sequence.
        if (first < 0xE1 || first > 0xE3 || text[end - 2] < 0x80 || text[end - 2] > 0xBF ||
            last > 0xBF) {
            return false;
        }
        return character(text + end - 3).char_class == SPACE;
    }

    Fill fill_ = nullptr;
    size_t (*next_)(const uint8_t*, size_t, size_t) = nullptr;
    bool line_feeds_ = false;
    std::shared_ptr<const SplitProgram> program_;
    FillWith fill_with_ = nullptr;
};

}  // namespace cs336

// Scanner: splits text into batches of pre-tokens.
//
// Every pattern is a SplitProgram. Most pre-tokens are found by rules on neighboring characters,
// which are derived from the program (see boundary_rules.hpp) and applied to 64 bytes at a time.
// The most frequent named patterns have rules of their own instead (see simd/avx2_named.hpp).
// Where the rules are unclear, the program runs. The result is exactly what `regex` finds.
// The scanner reads no byte outside [text, text + size), which must be valid UTF-8.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "base/compiler.hpp"
#include "base/simd_level.hpp"
#include "scanning/simd/dispatch.hpp"
#include "scanning/split_patterns.hpp"
#include "scanning/split_program.hpp"

namespace cs336 {

// A split pattern, ready to scan. It can be copied and shared.
class Scanner {
  public:
    Scanner() = default;  // must not scan
    Scanner(std::shared_ptr<const SplitProgram> program, SimdLevel simd_level)
        : program_(std::move(program)),
          scan_windows_(program_->rules().useful ? scan_windows_function(*program_, simd_level)
                                                 : nullptr) {}

    // Call `batch(first, ends, count)` for every batch of consecutive pre-tokens: [first, first +
    // ends[0]), [first + ends[0], first + ends[1]) and so on. Call `huge(first, length)` for a
    // pre-token that is longer than 4 GiB.
    template <class Batch, class Huge>
    void scan(const uint8_t* text, size_t size, Batch&& batch, Huge&& huge) const {
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

    // The number of states to pass to the constructor of ScanState.
    size_t num_states() const { return program_->num_states(); }

    // Find one batch: write the ends of the pre-tokens from `position` on, move `position` past the
    // last one, and return their number. Returns 0 for a pre-token longer than 4 GiB.
    CS336_NOINLINE size_t fill(const uint8_t* text, size_t size, size_t& position, uint32_t* ends,
                               ScanState& state) const {
        const size_t origin = position;
        size_t count = 0;
        if (scan_windows_ && size - origin >= WINDOW &&
            !scan_windows_(*program_, text, size, size, origin, position, ends, count, state)) {
            return count;
        }
        if (scan_windows_) fill_last(text, size, origin, position, ends, count);
        if (count == 0 || size - position <= 2 * WINDOW) {
            program_->find_ends(text, size, origin, position, size, ends, BATCH_CAPACITY, count,
                                state);
        }
        return count;
    }

    // The end of the pre-token that starts at `i` < `size`.
    size_t next(const uint8_t* text, size_t size, size_t i, ScanState& state) const {
        return program_->next(text, size, i, state);
    }

    // Whether a pre-token always ends before the ASCII character at `offset` > 0, and the text
    // after `offset` does not affect how the text before it is split. See
    // splitting/safe_cuts.py. The text may be invalid UTF-8.
    bool is_safe_cut(const uint8_t* text, size_t offset) const {
        return program_->is_safe_cut(text, offset);
    }

  private:
    // Scan the last bytes of a text, less than a window, in a copy with spaces after it. This is
    // possible if a space after the text would be a safe cut. Whitespace at the end of the text is
    // left to the program.
    void fill_last(const uint8_t* text, size_t size, size_t origin, size_t& position,
                   uint32_t* ends, size_t& count) const {
        const size_t rest = size - position;
        if (rest < LEAST_IN_WINDOW || rest >= WINDOW || count + 3 * WINDOW > BATCH_CAPACITY) return;
        uint8_t copy[3 * WINDOW];
        std::memset(copy, ' ', sizeof(copy));
        std::memcpy(copy, text + position, rest);
        size_t cut = rest;
        while (cut && (copy[cut - 1] == '\n' || copy[cut - 1] == ' ')) --cut;
        if (cut < LEAST_IN_WINDOW || !program_->is_safe_cut(copy, cut)) return;
        ScanState state(num_states());
        uint32_t* const first = ends + count;
        size_t start = 0, number = 0;
        scan_windows_(*program_, copy, sizeof(copy), cut - 1 + WINDOW, 0, start, first, number,
                      state);
        while (number && first[number - 1] > cut) --number;
        if (!number || first[number - 1] != cut) first[number++] = uint32_t(cut);
        for (size_t i = 0; i < number; ++i) first[i] += uint32_t(position - origin);
        count += number;
        position += cut;
    }

    // Shorter texts are not worth a window.
    static constexpr size_t LEAST_IN_WINDOW = 12;

    std::shared_ptr<const SplitProgram> program_;
    ScanWindows scan_windows_ = nullptr;
};

}  // namespace cs336

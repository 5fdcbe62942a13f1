// Scanner: splits text into batches of pre-tokens.
//
// Every pattern is a SplitProgram. Most pre-tokens are found by rules on neighboring characters,
// which are derived from the program (see boundary_rules.hpp) and applied to 64 bytes at a time.
// The most frequent named patterns have rules of their own instead (see simd/avx2_named.hpp).
// Where the rules are unclear, the program runs. The result is exactly what `regex` finds.
// The scanner reads no byte outside [text, text + size), which must be valid UTF-8.

#pragma once

#include <algorithm>
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

// Short texts can be scanned at once; see `Scanner::fill_short`. Their pre-tokens fit into a batch.
constexpr size_t MAX_SHORT_TEXT = 768;
constexpr size_t SPACES_AFTER = 2 * WINDOW;

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

    // Whether this object may scan.
    bool exists() const { return program_ != nullptr; }
    // Whether the pre-tokens after the start of one depend only on the text after it.
    bool starts_again() const { return program_->starts_again(); }

    // The number of states to pass to the constructor of ScanState.
    size_t num_states() const { return program_->num_states(); }

    // Find one batch: write the ends of the pre-tokens from `position` on, move `position` past the
    // last one, and return their number. Returns 0 for a pre-token longer than 4 GiB.
    CS336_NOINLINE size_t fill(const uint8_t* text, size_t size, size_t& position, uint32_t* ends,
                               ScanState& state) const {
        const size_t origin = position;
        size_t count = 0, window = origin;
        if (scan_windows_ && size - origin >= WINDOW &&
            !scan_windows_(*program_, text, size, size, origin, position, window, ends, count,
                           state)) {
            return count;
        }
        if (scan_windows_) fill_last(text, size, origin, window, position, ends, count);
        if (count == 0 || size - position <= 2 * WINDOW) {
            program_->find_ends(text, size, origin, position, size, ends, BATCH_CAPACITY, count,
                                state);
        }
        return count;
    }

    // Write the ends of all pre-tokens of a text of at most MAX_SHORT_TEXT bytes, which
    // SPACES_AFTER spaces must follow in memory. Returns their number.
    size_t fill_short(const uint8_t* text, size_t size, uint32_t* ends) const {
        size_t count = scan_windows_ ? fill_before_padding(text, size, 0, ends) : 0;
        size_t start = count ? ends[count - 1] : 0;
        if (start < size) {
            ScanState state(num_states());
            program_->find_ends(text, size, 0, start, size, ends, BATCH_CAPACITY, count, state);
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
    // Find the pre-tokens from `position` to the end of a text in a copy with spaces or line feeds
    // after it; `scan_windows_` stopped at `window`. Whitespace at the end of the text may be left
    // to the program.
    void fill_last(const uint8_t* text, size_t size, size_t origin, size_t window, size_t& position,
                   uint32_t* ends, size_t& count) const {
        const size_t rest = size - position;
        window = std::max(window, position) - position;
        if (rest < LEAST_IN_WINDOW || rest > MAX_COPIED || rest - window >= WINDOW ||
            count + 3 * WINDOW > BATCH_CAPACITY) {
            return;
        }
        uint8_t copy[MAX_COPIED + SPACES_AFTER];
        std::memcpy(copy, text + position, rest);
        for (const char padding : {' ', '\n'}) {
            std::memset(copy + rest, padding, SPACES_AFTER);
            uint32_t* const first = ends + count;
            const size_t number = fill_before_padding(copy, rest, window, first);
            if (!number) continue;
            const uint32_t moved = uint32_t(position - origin);
            position += first[number - 1];
            for (size_t i = 0; i < number; ++i) first[i] += moved;
            count += number;
            return;
        }
    }

    // Like `fill_short`, but may stop a few characters before the end of the text. SPACES_AFTER
    // spaces or line feeds follow the text. Returns 0 if windows cannot scan it.
    size_t fill_before_padding(const uint8_t* text, size_t size, size_t window,
                               uint32_t* ends) const {
        if (size < LEAST_IN_WINDOW || !program_->starts_again()) return 0;
        // What follows a safe cut changes no pre-token before it. A line feed at the end of a text
        // is not like others.
        size_t cut = size;
        if (text[cut - 1] == '\n' || !program_->is_safe_cut(text, cut)) {
            while (cut && (text[cut - 1] == '\n' || text[cut - 1] == ' ')) --cut;
            if (cut == size) return 0;
            // In some patterns, a line feed belongs to the punctuation before it, so the safe cut
            // is before that.
            size_t least = cut - std::min(cut, MOST_AFTER_CUT);
            least = std::max({least, LEAST_IN_WINDOW, window});
            while (cut >= least && !program_->is_safe_cut(text, cut)) --cut;
            if (cut < least) return 0;
        }
        ScanState state(num_states());
        size_t start = 0, count = 0;
        scan_windows_(*program_, text, size + SPACES_AFTER, cut - 1 + WINDOW, 0, start, window,
                      ends, count, state);
        while (count && ends[count - 1] > cut) --count;
        if (!count || ends[count - 1] != cut) ends[count++] = uint32_t(cut);
        return count;
    }

    // Shorter texts are not worth a window.
    static constexpr size_t LEAST_IN_WINDOW = 12;
    // Pre-tokens of more bytes, such as long lines, are left to the program.
    static constexpr size_t MAX_COPIED = size_t{1} << 14;
    // The program finds the pre-tokens after the cut.
    static constexpr size_t MOST_AFTER_CUT = 16;

    std::shared_ptr<const SplitProgram> program_;
    ScanWindows scan_windows_ = nullptr;
};

}  // namespace cs336

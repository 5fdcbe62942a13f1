// Safe cuts of a text with special tokens.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "scanning/scanner.hpp"
#include "scanning/special_tokens.hpp"

namespace cs336 {

// Safe cuts: the offsets where a text can be cut without changing how it is split. The rule is that
// of pretokenization/safe_cuts.py, which also explains why it holds.
class SafeCuts {
  public:
    // `tokens` must outlive this object.
    SafeCuts(const SpecialTokens& tokens, Scanner scanner)
        : tokens_(tokens), scanner_(std::move(scanner)) {}

    // The number of bytes on each side of an offset on which the rule depends.
    size_t margin() const { return 2 * tokens_.longest() + 4; }

    // The first safe cut in [from, stop); `stop` if there is none. `text` must include `margin`
    // bytes before `from` and after `stop`, or end there.
    size_t first(const uint8_t* text, size_t size, size_t from, size_t stop) const {
        if (tokens_.holds_replacement() || from >= stop) return stop;
        // Where the tokens end that start before `cut`: none of them crosses it if that is not
        // after it. Every offset is compared with the tokens once.
        size_t reached = 0;
        const size_t reach = std::min(from, tokens_.longest());
        for (size_t start = from - reach; start < from; ++start) {
            reached = std::max(reached, tokens_.end_of_longest(text, size, start));
        }
        for (size_t cut = from; cut < stop; ++cut) {
            if (reached <= cut &&
                (between_words(text, cut) || tokens_.ends_at_uncrossed(text, size, cut))) {
                return cut;
            }
            reached = std::max(reached, tokens_.end_of_longest(text, size, cut));
        }
        return stop;
    }

  private:
    bool between_words(const uint8_t* text, size_t offset) const {
        return offset > 0 && scanner_.is_safe_cut(text, offset);
    }

    const SpecialTokens& tokens_;
    const Scanner scanner_;
};

}  // namespace cs336

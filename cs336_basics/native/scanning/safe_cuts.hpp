// SafeCuts: the safe cuts of a text with special tokens.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "scanning/scanner.hpp"
#include "scanning/special_tokens.hpp"

namespace cs336 {

// Safe cuts are offsets at which a text can be cut without changing how it is split.
// splitting/safe_cuts.py implements the same rule and explains why it is correct.
class SafeCuts {
  public:
    // `tokens` must outlive this object.
    SafeCuts(const SpecialTokens& tokens, Scanner scanner)
        : tokens_(tokens), scanner_(std::move(scanner)) {}

    // The rule depends on this many bytes on each side of an offset.
    size_t margin() const { return 2 * tokens_.longest() + 4; }

    // The first safe cut in [from, stop); `stop` if there is none. `text` must include `margin`
    // bytes before `from` and after `stop`, unless the file starts or ends there.
    size_t first(const uint8_t* text, size_t size, size_t from, size_t stop) const {
        if (tokens_.has_replacement() || from >= stop) return stop;
        // The furthest end of any token that starts before `cut`. A token crosses `cut` only if
        // this end is after `cut`. Each offset is compared with the tokens only once.
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
